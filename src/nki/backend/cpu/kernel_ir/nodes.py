"""The kernel IR: what native code does for one instruction, or for several as one.

::

    kernel     statement*                                   one after the other, each a loop nest over whole tiles
    statement  memory = expression                          Assign: all elements of a tile
             | memory = reduce op of expression             Reduce: over the elements of rows, or over partitions
             | memory (+)= matmul(memory, memory)           Matmul; an epilogue may change its result on the way
             | memory = scan of memory                      Scan
             | memory = top8 | find | put | … (memory)      Call of a function in C
             | print memory
             | for rows, columns: Assign* Reduce*           Fused: one loop; results pass in registers
             | for pairs of columns: Reduce Reduce          PairedSums: one loop reads both halves
    memory     %n (operand) | %s (scratch) | $n (register)  MemRef: rows x columns at steps, in a layout
    expression load | value | iota | cast | narrow | alu | integer | act | select | gather | matmul | bits | …

A tile has ``rows`` (one per partition) and ``columns`` (the elements of a partition); a size of 1 repeats.
:mod:`~nki.backend.cpu.kernel_ir.lowering_algebra` makes statements from the ``semantics`` of an instruction, rules
rewrite them (:data:`~nki.backend.cpu.kernel_ir.rewrite_rules.RULES`),
:mod:`~nki.backend.cpu.kernel_ir.kernel_verifier` is their specification,
:mod:`~nki.backend.cpu.kernel_ir.kernel_printer` shows them, ``codegen`` turns them into machine code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Literal, TypeVar

from nki.base import element_types as dt
from nki.base.element_types import DType
from nki.ir.algebra import Step
from nki.ir.layout import DENSE, Layout
from nki.numerics.matmul.contract import BLOCKS

SCRATCH: Final = -1
"""The base of a :class:`MemRef` to the routine's scratch memory, which the first-level cache holds."""
REGISTER: Final = -3
"""The base of a :class:`MemRef` to what the statements of one loop pass on in a register; its offset is a number."""
PANEL_BASE: Final = -2
"""The base of a :class:`MemRef` to the panel of a matmul, in the expression of its epilogue."""
GRANULE: Final = 16
"""Ranges begin and end at multiples of so many partitions, so that no vector and no block of chains is split."""
FEW_ROWS: Final = 16
"""Rows up to which a matmul reads its moving operand where it lies, and may be split by columns."""
NARROW: Final = frozenset({dt.bfloat16, dt.float16, dt.float8_e4m3, dt.float8_e4m3fn, dt.float8_e5m2})
"""Dtypes of operands that matmuls convert to float32 by themselves."""
Aliases = tuple[tuple[int, int, bool], ...]
"""(written operand, read operand, True if both are the same window) for operands that share memory."""
Dims = tuple[tuple[int, int], ...]
"""``(step, count)`` pairs, outermost first."""


@dataclass(frozen=True, slots=True)
class MemRef:
    """Strided memory: ``offset`` bytes from ``base``, which is the number of an operand or :data:`SCRATCH`.

    ``row_step`` leads from partition to partition, ``dims`` are ``(step, count)`` within one, both in elements. They
    are steps in memory, which follow from the ``layout`` of the tile; only in pairs of rows elements lie elsewhere.
    """

    base: int
    offset: int
    rows: int
    row_step: int
    dims: Dims
    dtype: DType
    layout: Layout = DENSE

    @property
    def columns(self) -> int:
        """Elements per partition."""
        return math.prod(count for _, count in self.dims)

    @property
    def span(self) -> tuple[int, int]:
        """The first byte from the base, and the one behind the last."""
        size, steps = self.dtype.itemsize, ((self.row_step, self.rows), *self.dims)
        reaches = [(count - 1) * step * size for step, count in steps]
        low = self.offset + sum(reach for reach in reaches if reach < 0)
        return low, self.offset + sum(reach for reach in reaches if reach > 0) + size

    def overlaps(self, other: MemRef) -> bool:
        """True if both may share bytes of scratch memory."""
        (low, high), (other_low, other_high) = self.span, other.span
        return self.base == other.base and low < other_high and other_low < high

    @property
    def dense_rows(self) -> bool:
        """True if each partition's elements are neighbours."""
        return len(self.dims) == 1 and (self.dims[0][0] == 1 or self.dims[0][1] == 1)

    @property
    def is_turned(self) -> bool:
        """True if the elements of a column are neighbours, and no two columns share any."""
        return self.row_step == 1 and len(self.dims) == 1 and self.dims[0][1] > 1 and self.dims[0][0] >= self.rows > 1

    @property
    def in_blocks(self) -> bool:
        """True of several blocks of columns, as matmuls read a stationary operand; see ``codegen.matmul``."""
        return self.layout is BLOCKS and len(self.dims) > 1

    @property
    def in_panels(self) -> bool:
        """True if each partition's elements lie in blocks of 32 neighbours."""
        return len(self.dims) == 2 and self.dims[1] == (1, 32)


@dataclass(frozen=True, slots=True)
class Param:
    """An instruction's run-time number: entry ``index`` of its immediates.

    ``in_frame``: the launch passes it, in the slot of the frame that the entry tells; else the entry is the number.
    """

    index: int
    in_frame: bool = False


ElementKind = Literal["cast", "narrow", "alu", "integer", "act", "select", "bits", "unpack", "pack"]
ExprKind = Literal["load", "value", "iota", "gather", "matmul"] | ElementKind


@dataclass(eq=False, slots=True)
class Expr:
    """An expression over a tile of ``rows`` partitions and ``columns`` elements (1 repeats)."""

    kind: ExprKind
    dtype: DType
    rows: int
    columns: int
    args: tuple[Expr, ...] = ()
    op: str = ""
    memref: MemRef | None = None
    value: Any = None
    """``value``: the number or :class:`Param`; ``iota``: (dims, offset, channel multiplier); ``unpack``: the number of
    the part; ``gather``: the step and number of the elements to choose from; the first one is at ``memref``.
    """


@dataclass(slots=True)
class Assign:
    """``target[...] = value``."""

    target: MemRef
    value: Expr


@dataclass(slots=True)
class Reduce:
    """``target[p, g] = op over r of value[p, g, r]``.

    If ``cross_partition``, ``target[0, c] = op over p of value[p, c]`` instead.
    ``init``, one element per partition, comes before the first element.
    """

    target: MemRef
    value: Expr
    op: str
    groups: int
    cross_partition: bool
    init: Expr | None = None


@dataclass(slots=True)
class Matmul:
    """``target (+)= left.T @ right`` on panels; operands are float32 or :data:`NARROW`, the target is float32.

    The columns of ``right`` may lie in blocks of 32, each dense, if there are two ``dims``.
    """

    target: MemRef
    left: MemRef
    right: MemRef
    accumulate: bool
    by_groups: bool = False
    """True if sums go by groups; see :mod:`nki.numerics.matmul.contract`."""
    epilogue: Expr | None = None
    """The target gets this instead, computed from the matmul, which is at :data:`PANEL_BASE`."""

    @property
    def has_few_rows(self) -> bool:
        """True if the result has few rows, and enough columns for vectors."""
        return self.target.rows <= FEW_ROWS and self.target.columns >= 2 * GRANULE

    @property
    def is_column(self) -> bool:
        """True if the result is a dense column, long enough for vectors; with an epilogue it is in a panel."""
        is_dense = self.target.columns == 1 and self.target.row_step == 1 and self.epilogue is None
        return is_dense and self.target.rows >= 2 * GRANULE


@dataclass(slots=True)
class Print:
    """Print the dense elements of ``source`` as a tensor of ``shape``."""

    source: MemRef
    prefix: str
    shape: tuple[int, ...]


@dataclass(slots=True)
class Scan:
    """``target[p, i]`` = the state after elements ``i`` of all ``sources`` changed it, on float32 panels.

    The state starts as ``init``, one element per partition.
    """

    target: MemRef
    sources: tuple[MemRef, ...]
    init: MemRef
    steps: tuple[Step, ...]


CallName = Literal["top8", "find", "put", "nonzero", "ranked", "xorwow"]


@dataclass(slots=True)
class Call:
    """``targets[p], … = function(sources[p], …, numbers)``, a function of ``native/row_operations.c``.

    ``put`` writes some elements of its target, all others write all. The function works in the scratch memory ``work``,
    which every range of partitions has for itself.
    """

    function: CallName
    targets: tuple[MemRef, ...]
    sources: tuple[MemRef, ...]
    numbers: tuple[int, ...]
    work: tuple[MemRef, ...] = ()

    @property
    def target(self) -> MemRef:
        """The first result."""
        return self.targets[0]


@dataclass(slots=True)
class Fused:
    """Statements that share one loop: each reads what those before it have written at the same place, from a register.

    All touch the elements of their memory in the same order. ``sums`` are sequential reductions of what they compute.
    """

    assigns: tuple[Assign, ...]
    sums: tuple[Reduce, ...] = ()

    @property
    def parts(self) -> tuple[Assign | Reduce, ...]:
        """All statements."""
        return (*self.assigns, *self.sums)

    def is_stored(self, number: int) -> bool:
        """True if the result of that assignment goes to memory: it has some, and no later one writes the same place."""
        target = self.assigns[number].target
        return target.base != REGISTER and all(later.target != target for later in self.assigns[number + 1 :])


@dataclass(slots=True)
class PairedSums:
    """Two sequential reductions, of the even and of the odd elements of rows, in one loop that reads them once."""

    even: Reduce
    odd: Reduce

    @property
    def parts(self) -> tuple[Reduce, Reduce]:
        """Both statements."""
        return self.even, self.odd


Plain = Assign | Reduce | Matmul | Scan | Call | Print
"""Statements with a loop nest of their own."""
LoopStatement = Plain | Fused | PairedSums
_S = TypeVar("_S", bound=Plain)


def load_of(memref: MemRef) -> Expr:
    """A load of all elements of ``memref``."""
    return Expr("load", memref.dtype, memref.rows, memref.columns, memref=memref)


def flat(statements: Iterable[LoopStatement]) -> list[Plain]:
    """The statements, with the parts of each shared loop one after the other, which means the same."""
    result: list[Plain] = []
    for statement in statements:
        if isinstance(statement, Fused | PairedSums):
            result += statement.parts
        else:
            result.append(statement)
    return result


def subexpressions(expr: Expr) -> list[Expr]:
    """An expression and all its parts."""
    parts = [expr]
    for arg in expr.args:
        parts.extend(subexpressions(arg))
    return parts


def mapped(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """``expr`` with ``change`` of each part, which has its new arguments by then; what was one part stays one."""
    known: dict[int, Expr] = {}

    def of(part: Expr) -> Expr:
        if id(part) not in known:
            known[id(part)] = change(replace(part, args=tuple(map(of, part.args))))
        return known[id(part)]

    return of(expr)


def moved(statement: _S, memory: Callable[[MemRef], MemRef], value: Callable[[Any], Any] = lambda value: value) -> _S:
    """``statement`` on other ``memory``, and with another ``value`` of each expression."""

    def part(expr: Expr) -> Expr:
        return replace(expr, memref=None if expr.memref is None else memory(expr.memref), value=value(expr.value))

    def of(field: Any) -> Any:
        return memory(field) if isinstance(field, MemRef) else mapped(field, part) if isinstance(field, Expr) else field

    return replace(statement, **{each.name: of(getattr(statement, each.name)) for each in fields(statement)})


def loads(expr: Expr) -> Iterator[Expr]:
    """The parts of an expression that read memory."""
    if expr.kind in ("load", "gather"):
        yield expr
    for arg in expr.args:
        yield from loads(arg)
