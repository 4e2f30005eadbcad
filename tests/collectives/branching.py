"""Random programs in which ranks were given other steps.

They have fewer or more collectives, another order, other groups, shapes, dtypes, operators or kinds, or other rounds of
a loop. Some of these programs are still right, such as an exchanged order of disjoint groups:
:func:`.programs.expected` tells them apart. None depends on a choice that the documents leave open: a changed list has
other ranks, never the same in another order, and a changed tensor has another number of elements.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise

from . import oracles
from .programs import REDUCING, VARIABLE, ByRank, Call, Compute, Copy, Loop, Operand, Program, RankRow, Step, Tensor
from .random_programs import NUMBERS, Draft, draft_of, finished

Steps = tuple[Step, ...]
Change = Callable[[Draft, Steps], Steps | None]
"""The steps with a change; None if it finds nothing to change."""
Path = tuple[int, ...]
_SAME_SHAPE = ("all_reduce", "all_to_all", "collective_permute_implicit")


def branched(draw: random.Random) -> Program:
    """A program with one or two changes; ``made`` names them."""
    draft = draft_of(draw)
    steps = draft.steps(draw.randint(1, 4))
    made: list[str] = []
    while len(made) < draw.choice((1, 1, 2)):
        name, change = draw.choice(list(CHANGES.items()))
        changed = change(draft, steps)
        if changed is not None:
            steps, made = changed, [*made, name]
    program = finished(draft, steps)
    program.made = " and ".join(made)
    return program


def _paths(steps: Steps, kind: type[Step], before: Path = ()) -> Iterator[Path]:
    """Places of steps of a kind, in bodies of loops too."""
    for i, step in enumerate(steps):
        if isinstance(step, kind):
            yield (*before, i)
        if isinstance(step, Loop):
            yield from _paths(step.body, kind, (*before, i))


def _at(steps: Steps, path: Path) -> Step:
    step = steps[path[0]]
    if len(path) == 1:
        return step
    assert isinstance(step, Loop)
    return _at(step.body, path[1:])


def _put(steps: Steps, path: Path, new: Step) -> Steps:
    if len(path) > 1:
        loop = steps[path[0]]
        assert isinstance(loop, Loop)
        new = replace(loop, body=_put(loop.body, path[1:], new))
    return (*steps[: path[0]], new, *steps[path[0] + 1 :])


def _instead(draft: Draft, steps: Steps, of: Callable[[Draft, Call, int], Steps | None]) -> Steps | None:
    """One rank gets other steps than a collective in which it meets other ranks."""
    paths = list(_paths(steps, Call))
    if not paths:
        return None
    path, rank = draft.draw.choice(paths), draft.draw.randrange(draft.ranks)
    call = _at(steps, path)
    assert isinstance(call, Call)
    if len(call.members(rank)) < 2 or (other := of(draft, call, rank)) is None:
        return None
    return _put(steps, path, ByRank((((rank,), other),), (call,)))


def _left(draft: Draft, call: Call, rank: int) -> Steps:
    return ()


def _again(draft: Draft, call: Call, rank: int) -> Steps:
    return (call, call)


def _same(draft: Draft, call: Call, rank: int) -> Steps:
    return (call, draft.local()) if draft.draw.random() < 0.5 else (call,)


def _other_groups(draft: Draft, call: Call, rank: int) -> Steps | None:
    if call.kind == "collective_permute":
        other = draft.collective_permute()
        assert isinstance(other, Call)
        changed = replace(call, pairs=other.pairs)
    else:
        groups = draft.groups()
        if len(groups[0]) != len(call.groups[0]):
            return None
        changed = replace(call, groups=groups)
    return None if set(changed.members(rank)) == set(call.members(rank)) else (changed,)


def _other_op(draft: Draft, call: Call, rank: int) -> Steps | None:
    if call.kind not in REDUCING:
        return None
    op = draft.draw.choice([op for op in ("minimum", "maximum") if op != call.op])
    return (replace(call, op=op),)


def _other_tensors(draft: Draft, call: Call, wider: int, dtype: str) -> Call:
    """The call with new tensors."""

    def made(operand: Operand, factor: int = 1) -> Operand:
        rows, width = operand.shape
        return Operand(draft.new((rows, width + wider * factor), dtype or operand.tensor.dtype, operand.tensor.memory))

    factor = len(call.groups[0]) if call.kind == "all_gather" and call.dim == 1 else 1
    sides = (tuple(map(made, side)) for side in (call.srcs, call.others))
    srcs, others = sides
    return replace(call, srcs=srcs, others=others, dsts=tuple(made(dst, factor) for dst in call.dsts))


def _other_shape(draft: Draft, call: Call, rank: int) -> Steps | None:
    if call.kind in VARIABLE:  # sizes there are known at run time
        return None
    return (_other_tensors(draft, call, draft.draw.randint(1, 3), ""),)


def _other_dtype(draft: Draft, call: Call, rank: int) -> Steps | None:
    present = {operand.tensor.dtype for operand in call.srcs}
    if call.kind in VARIABLE or len(present) > 1:
        return None
    return (_other_tensors(draft, call, 0, draft.draw.choice([d for d in NUMBERS if d not in present])),)


def _other_kind(draft: Draft, call: Call, rank: int) -> Steps | None:
    if call.kind not in _SAME_SHAPE or len(call.srcs) > 1:
        return None
    kinds = [kind for kind in _SAME_SHAPE if kind != call.kind]
    if call.srcs[0].tensor.memory == "sbuf" or call.srcs[0].shape[0] % len(call.groups[0]):
        kinds = [kind for kind in kinds if kind != "all_to_all"]
    return (replace(call, kind=draft.draw.choice(kinds)),)


def _swapped(draft: Draft, steps: Steps) -> Steps | None:
    """One rank comes to two collectives in the other order."""
    calls = [i for i, step in enumerate(steps) if isinstance(step, Call)]
    local = (Compute, Copy, RankRow, Call)
    near = [(i, j) for i, j in pairwise(calls) if all(isinstance(s, local) for s in steps[i:j])]
    if not near:
        return None
    i, j = draft.draw.choice(near)
    inner, rank = steps[i + 1 : j], draft.draw.randrange(draft.ranks)
    swap = ByRank((((rank,), (steps[j], *inner, steps[i])),), steps[i : j + 1])
    return (*steps[:i], swap, *steps[j + 1 :])


def _more_rounds(draft: Draft, steps: Steps) -> Steps | None:
    """One rank makes a round more, by a constant or by the number that it loads."""
    paths = list(_paths(steps, Loop))
    if not paths:
        return None
    path, rank = draft.draw.choice(paths), draft.draw.randrange(draft.ranks)
    loop = _at(steps, path)
    assert isinstance(loop, Loop)
    if isinstance(loop.rounds, Tensor):
        contents = draft.contents[loop.rounds.name]
        contents[rank] = contents[rank] + contents[rank].dtype.type(1)
        return steps
    longer = replace(loop, rounds=loop.rounds + 1)
    return _put(steps, path, ByRank((((rank,), (longer,)),), (loop,)))


def _local(draft: Draft, steps: Steps) -> Steps:
    """Ranks compute other things between collectives."""
    at, rank = draft.draw.randint(0, len(steps)), draft.draw.randrange(draft.ranks)
    branch = ByRank((((rank,), (draft.local(),)),), (draft.local(),))
    return (*steps[:at], branch, *steps[at:])


def _between(draft: Draft, *ranks: int) -> Call:
    """A collective among these ranks."""
    src = draft.source("hbm")
    dst = draft.like(src, src.shape, (src,))
    kind = draft.draw.choice(("all_reduce", "collective_permute_implicit"))
    return Call(kind, (Operand(src),), (Operand(dst),), (ranks,), draft.draw.choice(oracles.REDUCTIONS))


def _inserted(draft: Draft, steps: Steps, step: Step) -> Steps:
    at = draft.draw.randint(0, len(steps))
    return (*steps[:at], step, *steps[at:])


def _disjoint(draft: Draft, steps: Steps) -> Steps | None:
    """Two collectives that share one rank, which comes to them in the other order: right."""
    if draft.ranks < 3:
        return None
    one, two, three = draft.draw.sample(range(draft.ranks), 3)
    first, second = _between(draft, one, two), _between(draft, one, three)
    return _inserted(draft, steps, ByRank((((one,), (second, first)), ((two,), (first,)), ((three,), (second,))), ()))


def _circle(draft: Draft, steps: Steps) -> Steps | None:
    """Three collectives among pairs of three ranks: each waits for the next one."""
    if draft.ranks < 3:
        return None
    one, two, three = draft.draw.sample(range(draft.ranks), 3)
    a, b, c = _between(draft, one, two), _between(draft, two, three), _between(draft, one, three)
    return _inserted(draft, steps, ByRank((((one,), (a, c)), ((two,), (b, a)), ((three,), (c, b))), ()))


def _apart(draft: Draft, steps: Steps) -> Steps | None:
    """Two groups of ranks run collectives of their own: right."""
    if draft.ranks < 3:
        return None
    ranks = draft.draw.sample(range(draft.ranks), draft.ranks)
    cut = draft.draw.randint(1, draft.ranks - 1)
    one, other = tuple(ranks[:cut]), tuple(ranks[cut:])
    branch = ByRank(((one, (_between(draft, *one),)),), (_between(draft, *other),))
    return _inserted(draft, steps, branch)


CHANGES: dict[str, Change] = {
    "left out": lambda draft, steps: _instead(draft, steps, _left),
    "again": lambda draft, steps: _instead(draft, steps, _again),
    "same": lambda draft, steps: _instead(draft, steps, _same),
    "other groups": lambda draft, steps: _instead(draft, steps, _other_groups),
    "other op": lambda draft, steps: _instead(draft, steps, _other_op),
    "other shape": lambda draft, steps: _instead(draft, steps, _other_shape),
    "other dtype": lambda draft, steps: _instead(draft, steps, _other_dtype),
    "other kind": lambda draft, steps: _instead(draft, steps, _other_kind),
    "swapped": _swapped,
    "more rounds": _more_rounds,
    "local": _local,
    "disjoint": _disjoint,
    "circle": _circle,
    "apart": _apart,
}
