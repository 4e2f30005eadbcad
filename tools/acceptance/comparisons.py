"""Results of a kernel against the library's references, by its own rules: tolerances, validators, byte layouts."""

from __future__ import annotations

import dis
from collections.abc import Sequence
from typing import Any

import numpy as np

from tools.acceptance import phases
from tools.acceptance.number_types import packed_name, unpacked
from tools.acceptance.phases import Phases

Array = np.ndarray[Any, Any]
_FILL = 0x5A
"""A byte of memory that nothing writes (docs/hazards.md)."""


class WrongValuesError(AssertionError):
    """Results differ from the references by more than the test allows."""


class UnwrittenValuesError(WrongValuesError):
    """All that differs from the references are elements of outputs that the kernel never writes."""


class Comparison:
    """The comparison of one launch. ``count`` says how many results were compared with values that do not come from
    the kernel: a validator that never reads the result, and a test without a reference, add none.
    ``is_partly_written``: the simulator says that nothing writes some elements of the outputs.
    """

    def __init__(self, validation: Any, clock: Phases, *, is_partly_written: bool = False) -> None:
        self.validation, self.clock = validation, clock
        self.is_partly_written = is_partly_written
        self.count = 0
        self.faults: list[str] = []
        self.are_written = False
        """A fault is of elements that the kernel writes."""

    def check(self, results: Sequence[Sequence[Array]]) -> None:
        """Compare the results of all ranks. Raises :class:`WrongValuesError` with all that is wrong."""
        expected = self.validation.golden_output
        ranks = range(len(results)) if hasattr(expected, "for_rank") else range(1)
        for rank in ranks:
            self._check_rank(expected, results[rank], rank, f"rank {rank}: " if len(results) > 1 else "")
        if self.faults:
            raise (WrongValuesError if self.are_written else UnwrittenValuesError)("; ".join(self.faults))

    def _check_rank(self, expected: Any, results: Sequence[Array], rank: int, where: str) -> None:
        self.clock.enter(phases.REFERENCE)
        if hasattr(expected, "for_rank"):
            shapes = values = expected.for_rank(rank)
        elif hasattr(expected, "output_ndarray"):
            shapes, values = expected.output_ndarray, expected.golden
        else:
            shapes = values = expected
        if len(results) != len(shapes):
            self._blame(f"{where}the kernel returns {len(results)} results, the test names {list(shapes)}")
            return
        by_name = dict(zip(shapes, results, strict=True))
        for name, value in (values or {}).items():  # it may name fewer than the kernel returns
            if name not in by_name:
                self._blame(f"{where}the kernel returns no {name}")
            elif hasattr(value, "validator"):
                self._validate(value.validator, by_name[name], where + name)
            else:
                self._compare(by_name[name], value, shapes.get(name, value), where + name)

    def _validate(self, validator: Any, result: Array, name: str) -> None:
        self.count += reads_its_argument(validator)
        octets = np.frombuffer(np.ascontiguousarray(result).tobytes(), np.uint8)
        if not validator(None).validate(octets):
            self._blame(f"{name}: its validator refuses it")

    def _compare(self, result: Array, expected: Array, like: Array, name: str) -> None:
        from test.integration.nkilib.utils.comparators import maxAllClose  # the library's

        self.clock.enter(phases.COMPARE)
        self.count += 1
        expected = np.asarray(expected)
        relative, absolute = self.validation.relative_accuracy, self.validation.absolute_accuracy
        try:
            got, want = _floats(reread(result, like.dtype, expected.shape)), _floats(expected)
        except ValueError as error:
            self._blame(f"{name}: {error}")
            return
        if not maxAllClose(got, want, rtol=relative, atol=absolute, verbose=1):
            with np.errstate(invalid="ignore"):
                most = np.nanmax(np.abs(got - want)) if got.size else 0.0
            largest = np.nanmax(np.abs(want)) if want.size else 0.0
            wrong = f"differs by up to {most:.4g} where values reach {largest:.4g}"
            text = f"{name}: {wrong} (relative {relative:g}, absolute {absolute:g} allowed)"
            known = np.where(_as_memory_was(result, like.dtype, expected.shape), want, got)
            is_written = not self.is_partly_written or not maxAllClose(known, want, rtol=relative, atol=absolute)
            self._blame(text, is_written=is_written)

    def _blame(self, text: str, *, is_written: bool = True) -> None:
        self.faults.append(text)
        self.are_written |= is_written


def reread(result: Array, dtype: Any, shape: Sequence[int]) -> Array:
    """The bytes of ``result`` as the harness reads them from a device's file: with the test's dtype and shape.

    Tests rely on it: results of two axes for three, packed numbers as words. Raises ValueError for another size.
    """
    kind = np.dtype(dtype)
    if result.nbytes == int(np.prod(shape, dtype=np.int64)) * kind.itemsize:
        return np.ascontiguousarray(result).reshape(-1).view(np.uint8).view(kind).reshape(shape)
    raise ValueError(f"the result is {result.shape} {result.dtype}, the reference {tuple(shape)} {kind}")


def _as_memory_was(result: Array, dtype: Any, shape: Sequence[int]) -> Array:
    """Where ``result`` has what all executors put into memory that nothing writes: NaN, or bytes of 0x5a."""
    elements = reread(result, dtype, shape)
    if np.issubdtype(elements.dtype, np.floating):
        return np.isnan(elements)
    octets = np.ascontiguousarray(elements).view(np.uint8).reshape(*elements.shape, elements.itemsize)
    return (octets == _FILL).all(axis=-1)


def _floats(array: Array) -> Array:
    return unpacked(array) if packed_name(array.dtype) else array.astype(np.float32)


def reads_its_argument(validator: Any) -> bool:
    """False for a validator that never looks at the result that it is given."""
    code = validator.validate.__code__
    given = code.co_varnames[1]
    used = {given} & {name for instruction in dis.get_instructions(code) for name in _read(instruction)}
    return bool(used)


def _read(instruction: dis.Instruction) -> Sequence[str]:
    if not instruction.opname.startswith("LOAD_"):
        return ()
    value = instruction.argval  # one name, or two of a double load
    return value if isinstance(value, tuple) else (str(value),)


__all__ = ["Comparison", "UnwrittenValuesError", "WrongValuesError", "reads_its_argument", "reread"]
