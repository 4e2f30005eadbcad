"""Loops over ``nl.affine_range``: whether their iterations depend on each other, which they say they do not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from nki.base.source import Where
from nki.base.warning import warn_at
from nki.ir.inst import Inst
from nki.ir.types import Access, Buffer, Tensor
from nki.sim.report import Log, line_of
from nki.sim.shadow import Trace, key_of

_ASSOCIATIVE: Final = {
    "add", "multiply", "maximum", "minimum", "logical_and", "logical_or", "logical_xor",
    "bitwise_and", "bitwise_or", "bitwise_xor",
}  # fmt: skip


@dataclass(slots=True)
class _Loop:
    """A loop that is being run: what ran after ``start`` ran in it, what ran after ``present`` in this iteration."""

    where: Where
    start: int
    present: int
    told: set[Tensor] = field(default_factory=set[Tensor])


class Iterations:
    """Warns where an iteration reads what an earlier one wrote to a tensor made before the loop.

    Sums do not count, nor other reductions in place whose order is free: the next iteration would do as well first.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._told: dict[Any, set[Tensor]] = {}
        self.open: list[_Loop] = []

    def begin(self, where: Where, time: int) -> None:
        """A loop begins behind ``time``."""
        self.open.append(_Loop(where, time, time, self._told.setdefault(where.frames[:1], set())))

    def next(self, time: int) -> None:
        """The next iteration of the innermost loop begins behind ``time``."""
        self.open[-1].present = time

    def end(self) -> None:
        """The innermost loop has ended."""
        self.open.pop()

    def reads(self, inst: Inst, access: Access, trace: Trace, made: int) -> None:
        """``inst`` reads ``access``, all of which is there, of a tensor made behind time ``made``."""
        if access.buffer is Buffer.register:
            return
        for loop in self.open:
            inside = made > loop.start or trace.last <= loop.start
            if inside or loop.present == loop.start or access.tensor in loop.told:
                continue
            if trace.windows.get(key_of(access), 0) > loop.present or _reduces(inst, access):
                continue
            times = trace.at(access)
            earlier = times[(times > loop.start) & (times <= loop.present)]
            if earlier.size:
                loop.told.add(access.tensor)
                self._warn(inst, access, loop, int(earlier.max()))

    def _warn(self, inst: Inst, access: Access, loop: _Loop, time: int) -> None:
        span = inst.where.span
        if span is None or loop.where.span is None:
            return
        warn_at(
            span,
            f"{inst.mnemonic}: reads '{access.name}' {access.tensor.shape}, which {self._log.said(time, span)} wrote "
            f"in an earlier iteration of the nl.affine_range of {line_of(loop.where.span, span)}; such iterations do "
            "not depend on each other: use range, or make the tensor inside the loop",
        )


def _reduces(inst: Inst, access: Access) -> bool:
    """Whether ``inst`` updates ``access`` in place by an operator that may take its operands in any order."""
    operator = getattr(getattr(inst, "op", None) or getattr(inst, "reduce_op", None), "name", "")
    return operator in _ASSOCIATIVE and any(access.same_place(written) for written in inst.writes())
