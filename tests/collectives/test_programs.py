"""The meaning of small programs of several ranks, by hand: what they compute, and which of them never end."""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np
import pytest

from tests.isa.oracle.vectors import f32, u32

from .branching import CHANGES, branched
from .program_text import text_of
from .programs import (
    ByRank,
    Call,
    Compute,
    Copy,
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
from .random_programs import drawn

A, B, C = (Tensor(name, (1, 2), "float32", "hbm") for name in "abc")
TILE = Tensor("tile", (1, 2), "float32", "sbuf")


def reduce(*ranks: int, dst: Tensor = B, src: Tensor = A, op: str = "add") -> Call:
    return Call("all_reduce", (Operand(src),), (Operand(dst),), (ranks,), op)


def after(ranks: int, *steps: Step, **more: Any) -> list[dict[str, Any]]:
    """The tensors after steps: A holds [r + 1, 10 (r + 1)] of rank r, B and C hold 0."""
    contents = {"a": [f32(r + 1, 10 * (r + 1)) for r in range(ranks)]}
    contents |= {name: [f32(0, 0)] * ranks for name in ("b", "c")}
    contents |= more
    return expected(Program(ranks, [A, B, C], tuple(steps), contents))


def first(memories: list[dict[str, Any]], name: str) -> list[float]:
    return [float(memory[name].ravel()[0]) for memory in memories]


def test_computing_and_collectives() -> None:
    got = after(3, reduce(0, 1, 2), Compute(C, B, "add", A), Compute(C, C, "maximum", 8.0), Copy(A, C))
    assert first(got, "a") == [8, 8, 9]  # 6 + r + 1, at least 8
    table = Tensor("table", (2, 2), "float32", "hbm")
    rows = after(2, RankRow(B, table), table=[f32([1, 2], [3, 4])] * 2)
    assert first(rows, "b") == [1, 3]


def test_ranks_that_take_no_part_go_on() -> None:
    assert first(after(3, reduce(0, 2), Copy(C, A)), "b") == [4, 0, 4]


def test_loops() -> None:
    count = Tensor("count", (1, 1), "int32", "hbm")
    body = (reduce(0, 1), Compute(C, C, "add", B))
    assert first(after(2, Loop("range", 3, body)), "c") == [9, 9]
    assert first(after(2, Loop("fori_loop", count, body), count=[np.array([[2]])] * 2), "c") == [6, 6]
    with pytest.raises(WaitsForeverError):
        after(2, Loop("fori_loop", count, body), count=[np.array([[2]]), np.array([[3]])])


def test_a_ring_collects_by_rank() -> None:
    result = Tensor("result", (3, 1, 2), "float32", "hbm")
    got = after(3, Ring(result, A, B, ((2, 0, 1),)), result=[np.zeros((3, 1, 2), np.float32)] * 3)
    for memory in got:
        assert memory["result"][:, 0, 0].tolist() == [1, 2, 3]


def test_a_split_form_reads_its_metadata_first_and_its_source_later() -> None:
    metadata = Tensor("m", (3, 2), "uint32", "hbm")
    call = Call("all_to_all_v", (Operand(A),), (Operand(B),), ((0, 1),), metadata=metadata)
    between = (Compute(A, A, "add", 100.0), Compute(metadata, metadata, "minimum", 0))
    got = after(2, Split(call, between), m=[u32([1, 1], [0, 1], [7, 7])] * 2)
    assert got[0]["b"].tolist() == [[101, 102]] and got[1]["b"].tolist() == [[110, 120]]
    assert got[0]["m"].tolist() == [[0, 0], [0, 0], [1, 1]]


def test_cores_have_tiles_of_their_own() -> None:
    program = Program(2, [A, B, TILE], (reduce(0, 1, dst=TILE, src=TILE), Copy(B, TILE)), cores=2)
    program.contents = {"a": [f32(0, 0)] * 2, "b": [f32(0, 0)] * 2, "tile": [f32(1, 1), f32(2, 2)]}
    program.contents["tile@1"] = [f32(10, 10), f32(20, 20)]
    got = expected(program)
    assert first(got, "tile") == [3, 3] and first(got, "tile@1") == [30, 30]
    assert first(got, "b") == [3, 3]  # the first core alone copies into HBM


def branch(rank: int, steps: tuple[Step, ...], rest: tuple[Step, ...]) -> ByRank:
    return ByRank((((rank,), steps),), rest)


@pytest.mark.parametrize(
    "steps",
    [
        [branch(1, (), (reduce(0, 1),))],
        [branch(1, (reduce(0, 1), reduce(0, 1)), (reduce(0, 1),))],
        [branch(1, (reduce(1, 2),), (reduce(0, 1, 2),))],
        [branch(1, (reduce(1, 0),), (reduce(0, 1),))],  # another order of the list
        # 0 waits for 1, which waits for 2, which waits for 0.
        [ByRank((((0,), (reduce(0, 1), reduce(0, 2))), ((1,), (reduce(1, 2), reduce(0, 1)))), (reduce(0, 2),))],
    ],
)
def test_programs_that_never_end(steps: list[Step]) -> None:
    with pytest.raises(WaitsForeverError):
        after(3, *steps)


LONG = Tensor("long", (1, 4), "float32", "hbm")
HALF = Tensor("half", (1, 2), "float16", "hbm")


@pytest.mark.parametrize(
    "other",
    [
        reduce(0, 1, op="maximum"),
        reduce(0, 1, src=HALF, dst=HALF),
        reduce(0, 1, src=LONG, dst=LONG),
        Call("collective_permute_implicit", (Operand(A),), (Operand(B),), ((0, 1),)),
        Call("all_reduce", (Operand(A), Operand(C)), (Operand(B), Operand(C)), ((0, 1),)),
        Call("all_reduce", (Operand(A, 1, 0, 1),), (Operand(B, 1, 0, 1),), ((0, 1),)),
    ],
)
def test_calls_that_do_not_belong_together(other: Call) -> None:
    extra = {"long": [np.zeros((1, 4), np.float32)] * 2, "half": [np.zeros((1, 2), np.float16)] * 2}
    with pytest.raises(MismatchError):
        after(2, branch(1, (other,), (reduce(0, 1),)), **extra)


def test_an_exchanged_order_of_disjoint_groups_is_right() -> None:
    one, other = reduce(0, 1), reduce(0, 2, dst=C)
    got = after(3, branch(0, (other, one), (one, other)))
    assert first(got, "b") == [3, 3, 0] and first(got, "c") == [4, 0, 4]


def test_an_exchanged_order_of_equal_calls_meets_the_other_tensor() -> None:
    one, other = reduce(0, 1), reduce(0, 1, dst=C)
    got = after(2, branch(0, (other, one), (one, other)))
    assert first(got, "b") == first(got, "c") == [3, 3]
    copied = after(2, Compute(B, A, "add", 1.0), branch(0, (reduce(0, 1, src=B, dst=B),), (reduce(0, 1, dst=C),)))
    assert first(copied, "b") == [4, 3] and first(copied, "c") == [0, 4]


# What is drawn

COUNT = 20 * int(os.environ.get("NKI_TEST_EXAMPLES", "15"))


def numbered(make: Any, number: int) -> Program:
    return make(random.Random(f"drawn/{number}"))


def all_steps(steps: Any) -> Any:
    for step in steps:
        yield step
        match step:
            case Loop(_, _, body):
                yield from all_steps(body)
            case Split(call, between):
                yield from all_steps((call, *between))
            case ByRank(cases, rest):
                yield from all_steps([s for _, some in cases for s in some] + list(rest))


def test_every_kind_is_drawn_and_every_program_ends() -> None:
    kinds, forms = set(), set()
    for number in range(COUNT):
        program = numbered(drawn, number)
        expected(program)
        compile(text_of(program), "program", "exec")
        for step in all_steps(program.steps):
            forms.add(type(step).__name__ if not isinstance(step, Loop) else step.kind)
            if isinstance(step, Call):
                sides = {(o.tensor.memory, o.axis is None) for o in step.srcs}
                kinds |= {(step.kind, *side) for side in sides}
        forms |= {program.ranks, f"{program.cores} cores"}
    assert forms >= {2, 3, 4, 8, "1 cores", "2 cores", "Compute", "Copy", "RankRow", "Call", "Split", "Ring"}
    assert forms >= {"sequential_range", "affine_range", "static_range", "range", "dynamic_range", "fori_loop"}
    ring, reducing = "collective_permute_implicit", "collective_permute_implicit_reduce"
    both = ("all_reduce", "all_gather", "reduce_scatter", ring, reducing)
    assert kinds >= {(kind, memory, True) for kind in both for memory in ("hbm", "sbuf")}
    in_hbm = ("all_to_all", "collective_permute", "all_to_all_v", "all_gather_v")
    assert kinds >= {(kind, "hbm", True) for kind in in_hbm}
    assert kinds >= {(kind, memory, False) for kind in ("all_reduce", ring) for memory in ("hbm", "sbuf")}


def test_changes_make_programs_of_all_three_fates() -> None:
    fates: dict[str, set[str]] = {}
    for number in range(COUNT):
        program = numbered(branched, number)
        try:
            expected(program)
            fate = "right"
        except (MismatchError, WaitsForeverError) as error:
            fate = type(error).__name__
        fates.setdefault(program.made, set()).add(fate)
    assert {part for made in fates for part in made.split(" and ")} == set(CHANGES)
    for made in ("same", "local", "disjoint", "apart"):
        assert fates[made] == {"right"}
    assert fates["circle"] == {"WaitsForeverError"} and "right" not in fates["left out"] | fates["again"]
    assert fates["other shape"] | fates["other dtype"] | fates["other op"] == {"MismatchError"}
    assert "right" in fates["swapped"] | fates["more rounds"]


def test_a_number_is_one_program() -> None:
    for make in (drawn, branched):
        one, other = numbered(make, 7), numbered(make, 7)
        assert text_of(one) == text_of(other) != text_of(numbered(make, 8))
        for name, contents in one.contents.items():
            assert [c.tobytes() for c in contents] == [c.tobytes() for c in other.contents[name]]
