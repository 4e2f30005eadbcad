"""Footprints: the accesses that the semantics of an instruction perform, without any data.

They may be fewer than the operands: a scale tile is read only in the partitions that hold scales, a register only if
the instruction goes on with its contents.
"""

from __future__ import annotations

from typing import Any, cast

from nki.ir.algebra import Algebra, column_of, last_of
from nki.ir.instruction import Inst
from nki.ir.types import Access, Tensor


class Footprint:
    """The algebra that performs loads, stores and meetings only; every value is None."""

    def reads(self, access: Access) -> None:
        """``access`` is read."""

    def writes(self, access: Access) -> None:
        """``access`` is written."""

    def visit(self, inst: Inst) -> None:
        """Visit the accesses of ``inst``, all without a run-time index, in the order of its semantics."""
        inst.semantics(cast("Algebra[None]", self))

    def load(self, source: Access | float) -> None:
        if isinstance(source, Access):
            self.reads(source)

    flat = load

    def store(self, target: Access, value: None) -> None:  # noqa: ARG002  # as the algebra has it
        self.writes(last_of(target) if target.one_place() else target)

    store_bits = store

    def exchange(self, value: None, to: int, source: int, pipe: int) -> None:
        """Meet the core that the instruction exchanges tiles with."""

    def barrier(self, cores: tuple[int, ...], tag: str) -> None:
        """Wait for other cores."""

    def gather_ranks(self, value: None, count: int) -> list[None]:  # noqa: ARG002  # as the algebra has it
        return [None] * count

    exchange_parts = gather_ranks

    def column(self, target: Access, index: int) -> Access:
        return column_of(target, index)

    def xorwow(self, state: None, count: int) -> tuple[None, None]:  # noqa: ARG002  # as the algebra has it
        return None, None

    def __getattr__(self, primitive: str) -> Any:
        return _compute


def _compute(*_: Any, **__: Any) -> None:
    """Any primitive that touches no memory."""


class Loads(Footprint):
    """The tensors that an instruction reads."""

    def __init__(self, inst: Inst) -> None:
        self.tensors: set[Tensor] = set()
        self.visit(inst)

    def reads(self, access: Access) -> None:
        self.tensors.add(access.tensor)
