"""Rules shared by the collectives, and what their declarations have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nki.base.element_types import DType, int32, uint32
from nki.base.errors import ArgumentError, DTypeError, MemoryRegionError, OperatorError, ShapeError
from nki.ir.algebra import Algebra, V
from nki.ir.effects import Collective, Effects
from nki.ir.instruction import Rule
from nki.ir.types import Access, Buffer
from nki.isa.rules.dma import PRIORITY
from nki.target.model import Target

Groups = tuple[tuple[int, ...], ...]
_REFERENCE = "NKI reference, nki.collectives: "
REDUCTIONS = ("add", "minimum", "maximum")


def meets(
    agreed: Callable[[Any], tuple[object, ...]] = lambda _: (),
    *,
    inactive: Callable[[Any], bool] = lambda _: False,
    **more: Any,
) -> Effects:
    """The effects of a collective among ``groups``; ``agreed``: what the ranks must pass alike beside the tensors."""

    def collective(i: Any) -> Collective:
        per_core = any(access.buffer is not Buffer.shared_hbm for access in i.writes())
        return Collective(i.groups, agreed(i), per_core, inactive(i))

    return Effects(collective=collective, **more)


def size(i: Any) -> int:
    """The number of ranks of each group."""
    return len(i.groups[0])


def part_of(access: Access, dim: int, number: int, count: int) -> Access:
    """The part with this ``number`` of ``count`` equal ones of ``access`` along ``dim``."""
    length = access.shape[dim] // count
    shape = (*access.shape[:dim], length, *access.shape[dim + 1 :])
    return Access(
        access.tensor, access.offset + number * length * access.strides[dim], shape, access.strides, access.dtype
    )


def combiner(m: Algebra[V], op: str, like: Access) -> Callable[[V, V], V]:
    """The function that combines two values of the dtype of ``like``: integers exactly, in 32 bits, floats in
    float32.
    """
    if like.dtype.is_integer:
        return lambda left, right: m.integer(op, left, right, like.dtype if like.dtype.itemsize == 8 else _word(like))
    return lambda left, right: m.alu(op, left, right)


def rounded(m: Algebra[V], value: V, target: Access) -> V:
    """A combined ``value`` in the dtype of ``target``."""
    return m.narrow(value, target.dtype) if target.dtype.is_integer else m.cast(value, target.dtype)


def _word(like: Access) -> DType:
    return int32 if like.dtype.kind == "i" else uint32


def _same_kind(accesses: tuple[Access, ...]) -> bool:
    return len({access.buffer for access in accesses}) == 1


def equal_groups(source: str) -> Rule:
    """The rule of ``groups``."""
    return Rule(
        "CL01",
        "groups {i.groups} differ in size",
        lambda i, t: len(set(map(len, i.groups))) == 1,
        source,
        ArgumentError,
        "make all groups of one size",
    )


def no_arguments(source: str, shown: str, operands: Callable[[Any], Sequence[Access]]) -> Rule:
    """The rule that ``operands``, ``shown`` so, are tensors of the kernel's own."""
    return Rule(
        "CL07",
        f"{shown}: an argument of the kernel is no operand of a collective",
        lambda i, t: all(access.tensor.role != "input" for access in operands(i)),
        f"{source}; Neuron compiler error NCC_INLA001",
        MemoryRegionError,
        "copy it to a tensor of nl.ndarray(…, buffer=nl.shared_hbm, name=…) with nisa.dma_copy first",
        by_value=True,
    )


def _places(source: str, sbuf: bool) -> tuple[Rule, ...]:
    """The rules of groups, of the number of tensors, and of their memories."""
    places = "all must be in HBM" + (", or all in SBUF" if sbuf else "")

    def placed(i: Any, t: Target) -> bool:  # as all rules
        tensors = i.accesses()
        return all(a.buffer.is_hbm for a in tensors) or (sbuf and all(a.buffer is Buffer.sbuf for a in tensors))

    return (
        equal_groups(source),
        Rule(
            "CL02",
            "{o[srcs]} to {o[dsts]}: as many destinations as sources are needed",
            lambda i, t: len(i.srcs) == len(i.dsts) > 0,
            source,
            ArgumentError,
            "pass a list of tensors, and one of their destinations",
        ),
        Rule(
            "CL03",
            f"srcs are {{o[srcs]}}, dsts are {{o[dsts]}}: {places}",
            placed,
            source,
            MemoryRegionError,
            "copy what is elsewhere with nisa.dma_copy or nisa.tensor_copy",
        ),
        Rule(
            "CL04",
            "srcs are {o[srcs]}, dsts are {o[dsts]}: sources lie in one kind of HBM, private or shared, and so do "
            "destinations",
            lambda i, t: _same_kind(i.srcs) and _same_kind(i.dsts),
            source,
            MemoryRegionError,
            "allocate all sources with one buffer=, and all destinations with one",
        ),
    )


def _coalesced(source: str) -> Rule:
    """The rule of several tensors at once."""
    return Rule(
        "CL05",
        "srcs are {o[srcs]}: several tensors at once must be in HBM",
        lambda i, t: len(i.srcs) == 1 or i.srcs[0].buffer.is_hbm,
        source,
        ArgumentError,
        "call it for each tensor",
    )


def operands(name: str, *, sbuf: bool = False, coalesced: bool = False) -> tuple[Rule, ...]:
    """The rules of ``srcs`` and ``dsts``: all in HBM, or in SBUF where that is allowed.

    ``coalesced``: several tensors are one exchange, which only HBM allows; else each has a channel of its own.
    """
    source = _REFERENCE + name
    return (
        *_places(source, sbuf),
        *((_coalesced(source),) if coalesced else ()),
        Rule(
            "CL06",
            "srcs are {o[srcs]}, dsts are {o[dsts]}: nothing is converted on the way",
            lambda i, t: all(s.dtype is d.dtype for s, d in zip(i.srcs, i.dsts, strict=False)),
            source,
            DTypeError,
            "cast with nisa.tensor_copy before or after",
        ),
        no_arguments(source, "srcs are {o[srcs]}, dsts are {o[dsts]}", lambda i: i.accesses()),
        *PRIORITY,
    )


def shaped(name: str, text: str, ok: Callable[[Any, Access, Access], bool], fix: str) -> Rule:
    """The rule of the shapes of each source and its destination."""
    return Rule(
        "CL08",
        f"srcs are {{o[srcs]}}, dsts are {{o[dsts]}}, among {{i.size}} ranks: {text}",
        lambda i, t: all(ok(i, s, d) for s, d in zip(i.srcs, i.dsts, strict=False)),
        _REFERENCE + name,
        ShapeError,
        fix,
    )


def along(name: str, sbuf: tuple[int, ...] = (0,)) -> Rule:
    """The rule of ``collective_dim``: 0 in HBM, one of ``sbuf`` in SBUF."""
    return Rule(
        "CL09",
        "collective_dim={i.collective_dim} with srcs {o[srcs]}; it is 0" + (", or 1 in SBUF" if 1 in sbuf else ""),
        lambda i, t: i.collective_dim in (sbuf if i.srcs[0].buffer.on_chip else (0,)),
        _REFERENCE + name,
        ArgumentError,
        "permute the dimensions first",
    )


def reduces(name: str) -> Rule:
    """The rule of ``op``."""
    return Rule(
        "CL10",
        "op={i.op} reduces nothing over ranks",
        lambda i, t: i.op.name in REDUCTIONS,
        _REFERENCE + name,
        OperatorError,
        "pass nl.add, nl.minimum or nl.maximum",
    )
