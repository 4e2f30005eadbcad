"""Integers that float32 lacks, in which engines compute: the result of an instruction differs from integer arithmetic.

Only runs can tell, since small integers are exact. Copies, operators on bits and GpSimd's own integer arithmetic keep
all bits. An instruction is looked at if it reads integers alone, one of its operands has 32 bits or more, and a number
in them is beyond 2**24; then it runs again in float64, which holds them, and results that differ are reported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nki.base.source import Span
from nki.base.warning import warn_at
from nki.ir.instruction import Inst
from nki.ir.types import Access
from nki.sim.hazards.undefined_values import Executor

Array = NDArray[Any]
Exact = Callable[[Any, Inst], list[tuple[Access, Array]] | None]
"""The results of an instruction in float64 (:mod:`nki.backend.numpy.whole_numbers`), from the executor."""
_EXACT_TO: Final = 1 << 24
_FIX: Final = (
    "int32 is exact up to 2**24; beyond it in copies, operators on bits, and sums, differences and products of "
    "nisa.tensor_tensor on GpSimd"
)


class IntegerRounding:
    """Warns, once for each line, of integer results that the engine's float32 has changed."""

    def __init__(self, executor: Executor, exact: Exact | None) -> None:
        self._executor = executor
        self._exact = exact
        self._candidates: dict[object, bool] = {}
        self._warned: set[Span] = set()
        self._reads: list[Access] = []
        self._before: list[tuple[Access, Array | None]] = []
        self._is_large = False
        self.active = False
        """The running instruction may be one; its reads and writes are wanted."""

    def begin(self, inst: Inst) -> None:
        """``inst`` begins."""
        self.active = False
        if self._exact is None:
            return
        form = inst.form
        is_candidate = self._candidates.get(form)
        if is_candidate is None:
            is_candidate = _is_candidate(inst) and self._exact(self._executor, inst) is not None
            self._candidates[form] = is_candidate
        if is_candidate and inst.where.span is not None and inst.where.span not in self._warned:
            self.active = True
            self._is_large, self._reads, self._before = False, [], []

    def reads(self, access: Access) -> None:
        """The running instruction is about to read ``access``, all of it defined."""
        self._reads.append(access)
        self._is_large = self._is_large or _is_large(self._executor.memory.window(access))

    def writes(self, access: Access) -> None:
        """The running instruction is about to write ``access``; what it reads there too is kept."""
        in_place = any(read.tensor is access.tensor for read in self._reads)
        self._before.append((access, self._executor.memory.window(access).copy() if in_place else None))

    def end(self, inst: Inst) -> None:
        """``inst`` is complete."""
        self.active = False
        window = self._executor.memory.window
        if self._exact is None or not (self._is_large or any(_is_large(window(a)) for a, _ in self._before)):
            return
        kept = [(access, words, window(access).copy()) for access, words in self._before if words is not None]
        for access, words, _ in reversed(kept):
            window(access)[...] = words
        results = self._exact(self._executor, inst)
        operands = [(access, window(access).copy()) for access in self._reads]
        for access, _, words in kept:
            window(access)[...] = words
        for access, wanted in results or ():
            self._compare(inst, access, wanted, operands)

    def _compare(self, inst: Inst, access: Access, wanted: Array, operands: list[tuple[Access, Array]]) -> None:
        got = self._executor.memory.window(access).reshape(wanted.shape)
        places = np.argwhere(_changed(wanted, got, access))
        span = inst.where.span
        if not len(places) or span is None or span in self._warned:
            return
        self._warned.add(span)
        row, column = (int(n) for n in places[0])
        result = (
            f"'{access.name}' {access.shape} {access.dtype} gets {_number(got[row, column])} instead of "
            f"{_number(wanted[row, column])} at [{row}, {column}]"
        )
        blamed = _inexact(operands, row, column, wanted.shape)
        if blamed is None:
            why = f"{inst.mnemonic}: a result is not exact in float32, in which the engine computes"
        else:
            tensor, number = blamed
            why = (
                f"{inst.mnemonic}: {tensor.dtype} value {number} of '{tensor.name}' {tensor.shape} is not exact in "
                f"float32: the engine computes with {int(np.float32(number))}"
            )
        warn_at(span, f"{why}; {result}. {_FIX}")


def _is_candidate(inst: Inst) -> bool:
    """True if ``inst`` computes with integers, some of them of 32 bits or more."""
    if inst.effects.collective is not None:  # it computes exactly, and does not meet other ranks once more
        return False
    if inst.as_copy() is not None and len({a.dtype for a in inst.accesses()}) == 1:
        return False
    reads, writes = inst.reads(), inst.writes()
    plain = all(a.dtype.is_integer and not a.dtype.is_packed for a in reads)
    wide = any(a.dtype.is_integer and a.dtype.itemsize >= 4 for a in (*reads, *writes))
    return bool(reads) and plain and wide and not inst.indexed_by()


def _is_large(numbers: Array) -> bool:
    """True if one of them may be none of float32, or rounded from such a number."""
    if numbers.dtype.kind not in "iu" or numbers.itemsize < 4:
        return False
    return int(numbers.max()) >= _EXACT_TO or int(numbers.min()) <= -_EXACT_TO


def _changed(wanted: Array, got: Array, access: Access) -> NDArray[np.bool_]:
    """The elements in which ``got`` is not what integers give, where its dtype holds that whole number."""
    if access.dtype.is_integer or access.dtype.name == "bool":
        return np.asarray(wanted != got)
    held = got.astype(np.float64)
    with np.errstate(all="ignore"):
        fits = (np.rint(wanted) == wanted) & (wanted.astype(got.dtype).astype(np.float64) == wanted)
    return np.asarray(fits & (held != wanted))


def _inexact(
    operands: list[tuple[Access, Array]], row: int, column: int, shape: tuple[int, ...]
) -> tuple[Access, int] | None:
    """An operand and a number in it that is none of float32: the one at this place, or any."""
    for access, numbers in operands:
        flat = numbers.reshape(numbers.shape[0], -1).astype(object if numbers.dtype == np.uint64 else np.int64)
        wrong = flat.astype(np.float32).astype(np.float64) != flat.astype(np.float64)
        if wrong.shape == shape and wrong[row, column]:
            return access, int(flat[row, column])
        if wrong.any():
            return access, int(flat[tuple(np.argwhere(wrong)[0])])
    return None


def _number(value: Any) -> str:
    return str(int(value))
