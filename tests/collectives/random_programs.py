"""Random programs of collectives: all kinds, over HBM and SBUF, with loops around and computing between.

All ranks have the same steps, so that every program ends; :mod:`.branching` gives some of them other steps.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from . import oracles
from .programs import (
    DTYPES,
    VARIABLE,
    ByRank,
    Call,
    Compute,
    Copy,
    Groups,
    Loop,
    MismatchError,
    Operand,
    Program,
    RankRow,
    Ring,
    Split,
    Step,
    Tensor,
    WaitsForeverError,
    expected,
)

NUMBERS = ("float32", "bfloat16", "float16", "int32")
RANKS = (2, 3, 4, 8)
_LOOPS = ("sequential_range", "affine_range", "static_range", "range", "dynamic_range", "fori_loop", "loaded")
_MOST_ROWS = 128
_MOST_ELEMENTS = 1024


def drawn(draw: random.Random) -> Program:
    """A program with the same steps for all ranks: 1 to 6 collectives."""
    draft = draft_of(draw)
    steps = draft.steps(draw.randint(1, 6))
    return finished(draft, steps)


def draft_of(draw: random.Random) -> Draft:
    """An empty program of some ranks; few of two cores."""
    ranks = draw.choice(RANKS)
    return Draft(draw, ranks, 2 if ranks < 8 and draw.random() < 0.2 else 1)


class Draft:
    """The tensors of a program that is being drawn; ``draw`` decides everything."""

    def __init__(self, draw: random.Random, ranks: int, cores: int = 1) -> None:
        self.draw = draw
        self.ranks = ranks
        self.cores = cores
        self.tensors: list[Tensor] = []
        self.counts: set[Tensor] = set()
        """Numbers of rounds: no step writes them."""
        self.contents: dict[str, list[Any]] = {}

    def new(self, shape: tuple[int, ...], dtype: str, memory: str, contents: Sequence[Any] | None = None) -> Tensor:
        tensor = Tensor(f"t{len(self.tensors)}", shape, dtype, memory)
        self.tensors.append(tensor)
        for core in range(self.cores):
            self.contents[tensor.key(core)] = [*(contents or (self.filled(shape, dtype) for _ in range(self.ranks)))]
        return tensor

    def filled(self, shape: tuple[int, ...], dtype: str) -> Any:
        rng = np.random.default_rng(self.draw.getrandbits(32))
        numbers = rng.integers(-500, 500, shape) if dtype in ("int32", "uint32") else rng.standard_normal(shape)
        return numbers.astype(DTYPES[dtype])

    def existing(self, fits: Callable[[Tensor], bool]) -> Tensor | None:
        """A tensor of numbers that was drawn before."""
        numbers = [t for t in self.tensors if t.dtype in NUMBERS and len(t.shape) == 2 and t not in self.counts]
        found = [t for t in numbers if fits(t)]
        return self.draw.choice(found) if found and self.draw.random() < 0.75 else None

    def source(self, memory: str, fits: Callable[[Tensor], bool] = lambda _: True, rows: int = 1) -> Tensor:
        """A tensor to read; a new one has a multiple of ``rows``."""
        found = self.existing(lambda t: t.memory == memory and t.shape[0] % rows == 0 and fits(t))
        shape = (rows * self.draw.randint(1, 4), self.draw.randint(1, 8))
        return found or self.new(shape, self.draw.choice(NUMBERS), memory)

    def like(self, tensor: Tensor, shape: tuple[int, ...], avoid: Sequence[Tensor], memory: str = "") -> Tensor:
        """A tensor of this shape, with the dtype and the memory of ``tensor``, that is none of ``avoid``."""
        where = memory or tensor.memory
        found = self.existing(lambda t: (t.shape, t.dtype, t.memory) == (shape, tensor.dtype, where) and t not in avoid)
        return found or self.new(shape, tensor.dtype, where)

    def memory(self) -> str:
        return self.draw.choice(("hbm", "sbuf"))

    # Groups

    def groups(self) -> Groups:
        """Lists of one length with every rank in one."""
        sizes = [n for n in range(1, self.ranks + 1) if self.ranks % n == 0 and (n > 1 or self.draw.random() < 0.1)]
        size, op = self.draw.choice(sizes), self.draw.choice(("div", "mod", "shuffled"))
        if op != "shuffled":
            lists = oracles.from_partition_op(self.ranks, op, size if op == "div" else self.ranks // size)
        else:
            order = self.draw.sample(range(self.ranks), self.ranks)
            lists = [order[i : i + size] for i in range(0, self.ranks, size)]
        return tuple(tuple(ranks) for ranks in lists)

    def for_some(self, call: Call) -> Step:
        """The collective without one of its lists: its ranks do not call it."""
        left = self.draw.randrange(len(call.groups))
        groups = (*call.groups[:left], *call.groups[left + 1 :])
        return among(replace(call, groups=groups))

    # Steps

    def steps(self, collectives: int) -> tuple[Step, ...]:
        steps: list[Step] = []
        while collectives > 0:
            if self.draw.random() < 0.4:
                steps.append(self.local())
            if self.draw.random() < 0.2:
                size = self.draw.randint(1, min(collectives, 2))
                steps.append(self.loop(self.steps(size)))
                collectives -= size
            else:
                step = self.draw.choice(_COLLECTIVES)(self)
                some = isinstance(step, Call) and len(step.groups) > 1 and self.draw.random() < 0.2
                steps.append(self.for_some(step) if isinstance(step, Call) and some else step)
                collectives -= 1
        if self.draw.random() < 0.3:
            steps.append(self.local())
        return tuple(steps)

    def local(self) -> Step:
        kind = self.draw.random()
        if kind < 0.15:
            dtype, width = self.draw.choice(NUMBERS), self.draw.randint(1, 8)
            return RankRow(self.new((1, width), dtype, "sbuf"), self.new((self.ranks, width), dtype, "hbm"))
        one = self.source(self.memory())
        if kind < 0.35:
            other = "sbuf" if one.memory == "hbm" else "hbm"
            return Copy(self.like(one, one.shape, (one,), other), one)
        dst, op = self.like(one, one.shape, ()), self.draw.choice(oracles.REDUCTIONS)
        if kind < 0.7:
            return Compute(dst, one, op, self.like(one, one.shape, ()))
        return Compute(dst, one, op, self.draw.choice((1, -2, 3) if one.dtype == "int32" else (0.5, -1.25, 3.0)))

    def loop(self, body: tuple[Step, ...]) -> Loop:
        kind, rounds = self.draw.choice(_LOOPS), self.draw.randint(1, 3)
        if kind == "affine_range" and not _repeatable(body):
            kind = "sequential_range"
        if kind != "loaded":
            return Loop(kind, rounds, body)
        count = self.new((1, 1), "int32", "hbm", [np.full((1, 1), rounds, np.int32) for _ in range(self.ranks)])
        self.counts.add(count)
        return Loop(self.draw.choice(("dynamic_range", "fori_loop")), count, body)

    # Collectives

    def all_reduce(self) -> Step:
        memory, op = self.memory(), self.draw.choice(oracles.REDUCTIONS)
        groups = self.groups()
        if self.draw.random() < 0.2 and (part := self.parts(memory)):
            return Call("all_reduce", part[:1], part[1:], groups, op)
        srcs = self.distinct(memory)
        return Call("all_reduce", *self.ends(srcs, lambda shape: shape), groups, op)

    def all_gather(self) -> Step:
        memory, groups = self.memory(), self.groups()
        size, dim = len(groups[0]), self.draw.choice((0, 1)) if memory == "sbuf" else 0
        srcs = self.distinct(memory, lambda t: t.shape[0] * size <= _MOST_ROWS and _elements(t) <= _MOST_ELEMENTS)
        ends = self.ends(srcs, lambda s: (s[0] * size, s[1]) if dim == 0 else (s[0], s[1] * size))
        return Call("all_gather", *ends, groups, dim=dim)

    def reduce_scatter(self) -> Step:
        memory, groups = self.memory(), self.groups()
        size = len(groups[0])
        srcs = self.distinct(memory, rows=size)
        op = self.draw.choice(oracles.REDUCTIONS)
        return Call("reduce_scatter", *self.ends(srcs, lambda s: (s[0] // size, s[1])), groups, op)

    def all_to_all(self) -> Step:
        groups = self.groups()
        srcs = self.distinct("hbm", rows=len(groups[0]))
        return Call("all_to_all", *self.ends(srcs, lambda shape: shape), groups)

    def collective_permute(self) -> Step:
        ring = self.draw.sample(range(self.ranks), self.draw.randint(2, self.ranks))
        pairs = tuple((rank, ring[(i + 1) % len(ring)]) for i, rank in enumerate(ring))
        return Call("collective_permute", *self.ends(self.distinct("hbm", most=1), lambda shape: shape), pairs=pairs)

    def collective_permute_implicit(self) -> Step:
        memory, groups = self.memory(), self.groups()
        if self.draw.random() < 0.3 and (part := self.parts(memory)):
            return Call("collective_permute_implicit", part[:1], part[1:], groups)
        srcs = self.distinct(memory, most=2, channels=True)
        return Call("collective_permute_implicit", *self.ends(srcs, lambda shape: shape), groups)

    def collective_permute_implicit_reduce(self) -> Step:
        memory, groups = self.memory(), self.groups()
        srcs = self.distinct(memory, most=2, channels=True)
        others = [self.like(src, src.shape, ()) for src in srcs]
        ends = self.ends(srcs, lambda shape: shape, others)
        op, right = self.draw.choice(oracles.REDUCTIONS), tuple(map(Operand, others))
        return Call("collective_permute_implicit_reduce", *ends, groups, op, others=right)

    def all_to_all_v(self) -> Step:
        groups = self.groups()
        return self.split(self.variable("all_to_all_v", groups, self.draw.random() < 0.3))

    def all_gather_v(self) -> Step:
        if self.ranks % 4:  # documented for lists of 4 ranks only
            return self.all_to_all_v()
        lists = oracles.from_partition_op(self.ranks, self.draw.choice(("div", "mod")), self.ranks // (self.ranks // 4))
        if len(lists[0]) != 4:
            lists = oracles.from_partition_op(self.ranks, "div", 4)
        return self.split(self.variable("all_gather_v", tuple(map(tuple, lists)), rdispls=False))

    def ring(self) -> Step:
        groups, memory = self.groups(), self.memory()
        held = self.source(memory)
        other = self.like(held, held.shape, (held,))
        result = self.new((self.ranks, *held.shape), held.dtype, "hbm")
        return Ring(result, held, other, groups)

    def distinct(
        self,
        memory: str,
        fits: Callable[[Tensor], bool] = lambda _: True,
        rows: int = 1,
        most: int = 3,
        *,
        channels: bool = False,
    ) -> list[Tensor]:
        """Sources: several at once in HBM, or one for each channel."""
        count = self.draw.randint(1, most) if memory == "hbm" or channels else 1
        srcs = [self.source(memory, fits, rows) for _ in range(count)]
        return list(dict.fromkeys(srcs))

    def ends(
        self, srcs: list[Tensor], shape: Callable[[tuple[int, ...]], tuple[int, ...]], avoid: Sequence[Tensor] = ()
    ) -> tuple[tuple[Operand, ...], tuple[Operand, ...]]:
        """Sources and their destinations: no tensor is twice among them."""
        dsts: list[Tensor] = []
        for src in srcs:
            dsts.append(self.like(src, shape(src.shape), (*srcs, *dsts, *avoid)))
        return tuple(map(Operand, srcs)), tuple(map(Operand, dsts))

    def parts(self, memory: str) -> tuple[Operand, Operand] | None:
        """Rows in HBM or columns in SBUF, of two tensors."""
        axis = 0 if memory == "hbm" else 1
        src = self.existing(lambda t: t.memory == memory and t.shape[axis] > 1)
        if src is None:
            return None
        dst = self.like(src, src.shape, (src,))
        size = self.draw.randint(1, src.shape[axis] - 1)
        starts = [self.draw.randint(0, src.shape[axis] - size) for _ in range(2)]
        one, other = (Operand(t, axis, at, at + size) for t, at in zip((src, dst), starts, strict=True))
        return one, other

    def variable(self, kind: str, groups: Groups, rdispls: bool) -> Call:
        """A collective of chunks with random sizes, 0 among them."""
        size, slot = len(groups[0]), self.draw.randint(1, 6)
        src = self.source("hbm", lambda t: _elements(t) >= size)
        if _elements(src) < size:
            src = self.new((size, slot), src.dtype, "hbm")
        dst = self.like(src, (size, slot), (src,))
        rows = 4 if rdispls else self.draw.choice((3, 4))
        tables = [self.table(kind, size, slot, _elements(src)) for _ in range(self.ranks)]
        on_chip = self.draw.random() < 0.3 and self.cores == 1
        shape = (1, rows, size) if on_chip else (rows, size)
        contents = [table[:rows].reshape(shape) for table in tables]
        metadata = self.new(shape, "uint32", "sbuf" if on_chip else "hbm", contents)
        known = self.draw.random() < 0.3
        ends = ((Operand(src),), (Operand(dst),))
        return Call(kind, *ends, groups, metadata=metadata, known=known, rdispls=rdispls)

    def table(self, kind: str, size: int, slot: int, elements: int) -> Any:
        """Chunks inside of the source and of a slot; the slots are received in another order."""
        counts = [self.draw.randint(0, min(slot, elements)) for _ in range(size)]
        begins = [self.draw.randint(0, elements - count) for count in counts]
        slots = [place * slot for place in self.draw.sample(range(size), size)]
        return np.array([counts, begins, [77] * size, slots], np.uint32)

    def split(self, call: Call) -> Step:
        if self.draw.random() < 0.7:
            return call
        between = tuple(self.local() for _ in range(self.draw.randint(0, 2)))
        return Split(call, between)


_COLLECTIVES = (
    Draft.all_reduce,
    Draft.all_gather,
    Draft.reduce_scatter,
    Draft.all_to_all,
    Draft.collective_permute,
    Draft.collective_permute_implicit,
    Draft.collective_permute_implicit_reduce,
    Draft.all_to_all_v,
    Draft.all_gather_v,
    Draft.ring,
)


def among(*calls: Call) -> ByRank:
    """Each rank comes to those collectives in which it takes part."""
    ranks = sorted({rank for call in calls for ranks in call.groups for rank in ranks})
    return ByRank(tuple(((rank,), tuple(c for c in calls if c.members(rank))) for rank in ranks), ())


def _elements(tensor: Tensor) -> int:
    return int(np.prod(tensor.shape))


def _repeatable(body: Sequence[Step]) -> bool:
    """Whether rounds of the body are independent: nothing is read that it writes."""
    reads: set[Tensor] = set()
    writes: set[Tensor] = set()
    for step in body:
        if not isinstance(step, Call) or step.kind in VARIABLE:
            return False
        reads |= {o.tensor for o in (*step.srcs, *step.others)}
        writes |= {o.tensor for o in step.dsts}
    return not reads & writes


def finished(draft: Draft, steps: tuple[Step, ...]) -> Program:
    """The program; where its numbers grow, it takes maxima instead of sums."""
    program = Program(draft.ranks, draft.tensors, steps, draft.contents, cores=draft.cores)
    try:
        results = expected(program)
    except (MismatchError, WaitsForeverError):
        return program
    if not all(np.abs(a.astype(np.float64)).max() < 2**14 for memory in results for a in memory.values()):
        program.steps = tuple(map(_without_sums, steps))
    return program


def _without_sums(step: Step) -> Step:
    match step:
        case Compute() | Call():
            return replace(step, op="maximum" if step.op == "add" else step.op)
        case Split(call, between):
            return Split(call, tuple(map(_without_sums, between)))
        case Loop(kind, rounds, body):
            return Loop(kind, rounds, tuple(map(_without_sums, body)))
        case ByRank(cases, rest):
            return ByRank(
                tuple((ranks, tuple(map(_without_sums, steps))) for ranks, steps in cases),
                tuple(map(_without_sums, rest)),
            )
    return step
