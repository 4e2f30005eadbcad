"""Edges between instructions that the user requests: the producer is complete before the consumer begins.

In the IR an edge is the label of one instruction in ``after`` of another. Both are in one body, or the producer is in a
body around the loop of the consumer: a loop is one statement to its surroundings, so an instruction of its iterations
can be waited for in the loop alone.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, cast

from nki.base.errors import (
    ArgumentError,
    NkiError,
    ScheduleCycleError,
    ScheduleNameError,
    ScheduleScopeError,
    StructureError,
)
from nki.base.source import Span, Where
from nki.ir.instruction import NOWHERE, Inst
from nki.ir.loop import Loop, Statement

Path = tuple[Loop, ...]
"""The loops around a statement, the outermost first."""
Pairs = tuple[tuple[str, tuple[str, ...]], ...]
"""Edges by names: each consumer with its producers."""


def pairs_of(edges: Any) -> Pairs:
    """``edges`` as with_schedule takes them, each consumer with its producers."""
    if isinstance(edges, Iterable) and not isinstance(edges, str):
        pairs = [_pair(edge) for edge in cast("Iterable[Any]", edges)]
        if None not in pairs:
            return tuple(pair for pair in pairs if pair is not None)
    raise ArgumentError(
        f"with_schedule: {edges!r:.80} is no list of (consumer, producer) names",
        fix='pass pairs of names, such as [("plus1", "recip"), ("sum", ["recip", "plus1"])]',
    )


def _pair(edge: Any) -> tuple[str, tuple[str, ...]] | None:
    if not isinstance(edge, tuple | list) or len(cast("tuple[Any, ...]", edge)) != 2:
        return None
    consumer, producers = cast("tuple[Any, Any]", edge)
    names = (producers,) if isinstance(producers, str) else producers
    if not isinstance(consumer, str) or not isinstance(names, tuple | list):
        return None
    several = cast("tuple[Any, ...]", names)
    return (consumer, tuple(several)) if several and all(isinstance(name, str) for name in several) else None


@dataclass(frozen=True, slots=True)
class Edge:
    """``consumer`` begins when ``producer`` is complete; ``where`` is the position of the request."""

    consumer: Inst
    producer: Inst
    where: Where = NOWHERE

    def error(self, kind: type[NkiError], message: str, fix: str) -> NkiError:
        """An error of ``kind`` at the request of the edge, else at the consumer."""
        where = self.where if self.where.span else self.consumer.where
        return kind(message, fix=fix).at(where.span, where.stack)


LocatedEdge = tuple[Edge, Path, Path]
"""An edge with the loops around its consumer and around its producer."""


def display_name(inst: Inst) -> str:
    """The name of ``inst`` in messages."""
    name = inst.user_name or inst.label
    span = inst.where.span
    return (f"'{name}' ({inst.mnemonic})" if name else inst.mnemonic) + (f" of line {span.line}" if span else "")


def with_loops(body: Iterable[Statement], around: Path = ()) -> Iterator[tuple[Inst, Path]]:
    """Every instruction of ``body`` with the loops around it."""
    for statement in body:
        if isinstance(statement, Inst):
            yield statement, around
        else:
            yield from with_loops(statement.body, (*around, statement))


def connect_requested(body: Iterable[Statement]) -> None:
    """Turn the edges that ``depends_on`` and ``no_reorder`` requested into labels and ``after``."""
    located = list(with_loops(body))
    paths = {id(inst): path for inst, path in located}  # requests name objects, of this kernel or of another one
    edges: list[LocatedEdge] = []
    for inst, path in located:
        for producer, where in inst.requested or ():
            assert isinstance(producer, Inst)
            edge = Edge(inst, producer, where)
            producer_path = paths.get(id(producer))
            if producer_path is None:
                raise edge.error(
                    ScheduleNameError,
                    f"{display_name(inst)} depends on {display_name(producer)}, which is no instruction of this kernel",
                    "pass an instruction that the same run of the kernel has recorded",
                )
            edges.append((edge, path, producer_path))
        inst.requested = None
    _connect(edges)


def connect_names(body: Iterable[Statement], pairs: Pairs, where: Span | None) -> None:
    """Add the edges of ``pairs``, given as names from the instructions' ``name=``.

    Raises :class:`ScheduleNameError` for a name that no instruction has, or several have.
    """
    by_name: dict[str, list[tuple[Inst, Path]]] = {}
    for inst, path in with_loops(body):
        if name := inst.user_name:
            by_name.setdefault(name, []).append((inst, path))
    edges: list[LocatedEdge] = []
    for name, producers in pairs:
        for producer_name in producers:
            consumer, path = _only(name, by_name, where)
            producer, producer_path = _only(producer_name, by_name, where)
            edges.append((Edge(consumer, producer), path, producer_path))
    _connect(edges)


def _only(name: str, by_name: dict[str, list[tuple[Inst, Path]]], where: Span | None) -> tuple[Inst, Path]:
    candidates = by_name.get(name, [])
    if len(candidates) == 1:
        return candidates[0]
    if not candidates:
        near = difflib.get_close_matches(name, by_name, 3)
        message = f"the schedule names {name!r}, and no instruction of the kernel has that name"
        fix = f"did you mean {' or '.join(map(repr, near))}?" if near else f"pass name={name!r} to an instruction"
        raise ScheduleNameError(message, fix=fix, span=where)
    lines = sorted({inst.where.span.line for inst, _ in candidates if inst.where.span})
    raise ScheduleNameError(
        f"the schedule names {name!r}, which {len(candidates)} instructions have (line {', '.join(map(str, lines))})",
        fix=f'give each its own, such as name=f"{name}{{i}}" in a loop',
        span=candidates[-1][0].where.span,
    )


def _connect(edges: list[LocatedEdge]) -> None:
    labels = {inst.label for edge, _, _ in edges for inst in (edge.consumer, edge.producer) if inst.label}
    for edge, path, producer_path in edges:
        check_scope(edge, path, producer_path)
        if not edge.producer.label:
            edge.producer.label = _label(edge.producer, labels)
        if edge.producer.label not in edge.consumer.ordered_after:
            edge.consumer.ordered_after = (*edge.consumer.ordered_after, edge.producer.label)


def _label(inst: Inst, labels: set[str]) -> str:
    """A label that no instruction has: its name if that is free."""
    name = label = inst.user_name or inst.mnemonic
    number = len(labels)
    while label in labels:
        label = f"{name}.{number}"
        number += 1
    labels.add(label)
    return label


def check_scope(edge: Edge, consumer: Path, producer: Path) -> None:
    """Raise unless the producer stands in the loop of the consumer, or in one around it, and is another instruction."""
    if edge.consumer is edge.producer:
        raise edge.error(
            ScheduleCycleError,
            f"{display_name(edge.consumer)} depends on itself",
            "name another instruction as the producer",
        )
    if producer != consumer[: len(producer)] or any(a is not b for a, b in zip(producer, consumer, strict=False)):
        spans = [loop.where.span for loop in producer if not any(loop is other for other in consumer)]
        line = f" (line {spans[0].line})" if spans and spans[0] else ""
        raise edge.error(
            ScheduleScopeError,
            f"{display_name(edge.consumer)} depends on {display_name(edge.producer)}, which is in the body of a "
            f"run-time loop{line} that the consumer is not in: in each round it would be waited for once, or never",
            "draw edges between instructions of one loop's body, or from before a loop to an instruction in it",
        )


def edges(body: Iterable[Statement]) -> list[tuple[int, int, Edge]]:
    """All edges below ``body``, each behind the dense numbers of its consumer and its producer.

    Raises :class:`StructureError` for labels that do not exist or are not unique.
    """
    located = [(n, inst, path) for n, (inst, path) in enumerate(with_loops(body)) if inst.label or inst.ordered_after]
    labelled: dict[str, tuple[int, Inst, Path]] = {}
    fix = "compare with the output of `nki dump`"
    for number, inst, path in located:
        if inst.label and labelled.setdefault(inst.label, (number, inst, path))[0] != number:
            raise StructureError(f"two instructions have the label {inst.label!r}", fix=fix).at(inst.where.span)
    result: list[tuple[int, int, Edge]] = []
    for number, inst, path in located:
        for label in inst.ordered_after:
            if label not in labelled:
                raise StructureError(f"no instruction has the label {label!r}", fix=fix).at(inst.where.span)
            producer_number, producer, producer_path = labelled[label]
            edge = Edge(inst, producer)
            check_scope(edge, path, producer_path)
            result.append((number, producer_number, edge))
    return result
