"""What another compiler may do: another order, loads that it leaves out, results that take no operand's place.

Each report names the assumptions with their worth, and the interval holds them.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import neuronxcc.nki.language as b1
import nki
import nki.isa as nisa
import nki.language as nl
from neuronxcc import nki as beta1
from nki.base.element_types import float32, int32
from nki.base.errors import MemoryFullError
from nki.compilation import pipeline
from nki.ir.program import Program
from nki.ir.text import printer
from nki.ir.types import TensorSpec
from nki.passes.load_reuse import ReuseLoads
from nki.passes.schedule import Schedule
from nki.profiling import html, text
from nki.profiling.assumptions import ORDERS, OWN_TILES, SAME_ORDER, SPARE_LOADS, compiled
from nki.profiling.compiling import as_kernel, shaped_arguments, unknown_loops
from nki.profiling.kernel_profile import Profile, of_program
from nki.profiling.record import details
from nki.profiling.shapes import ShapeDtype
from nki.sim.timing import TimedProgram
from nki.target import GEN3, find
from tests.passes.small_memory import small
from tests.support.command_line import Ran
from tests.support.profile_invariants import violations

P, ROWS, COLUMNS, COUNT = 128, 512, 1024, 4
LOADS = ROWS // P * COUNT
"""Loads of ``x`` that :func:`passes` asks for; as many of the rows of ``w``."""


@beta1.jit
def passes(x, w):
    """A pass over all rows of ``x`` for each row of ``w``, which is loaded with each of them."""
    count = w.shape[0]
    out = b1.ndarray((count, *x.shape), dtype=x.dtype, buffer=b1.shared_hbm)
    for turn in b1.affine_range(count):
        for t in b1.affine_range(x.shape[0] // P):
            here = b1.load(x[b1.ds(t * P, P), 0 : x.shape[1]])
            factors = b1.load(w[b1.ds(turn, 1), 0 : x.shape[1]]).broadcast_to((P, x.shape[1]))
            b1.store(out[turn, b1.ds(t * P, P), 0 : x.shape[1]], here * factors)
    return out


@beta1.jit
def summed(x, w):
    """The sum over passes as in :func:`passes`, where only the loads take long."""
    out = b1.ndarray((P, w.shape[0]), dtype=x.dtype, buffer=b1.shared_hbm)
    total = b1.zeros((w.shape[0], b1.par_dim(P), 1), b1.float32)
    for turn in b1.affine_range(w.shape[0]):
        for t in b1.affine_range(x.shape[0] // P):
            here = b1.load(x[b1.ds(t * P, P), 0 : x.shape[1]])
            total[turn] += here[0:P, b1.ds(turn, 1)]
    for turn in b1.affine_range(w.shape[0]):
        b1.store(out[0:P, b1.ds(turn, 1)], total[turn])
    return out


def profiled(kernel: Any = passes, target: Any = "trn2", columns: int = COLUMNS, **options: Any) -> Profile:
    shapes = ((ROWS, columns), (COUNT, columns))
    return nki.profile(kernel, target=target, **options)(*(ShapeDtype(shape, "float32") for shape in shapes))


SPARE = 2 * LOADS - ROWS // P - COUNT


@pytest.fixture(scope="module")
def profile() -> Profile:
    return profiled()


def test_loads_and_bytes_are_those_that_the_other_program_lacks(profile: Profile) -> None:
    spare = profile.spare_loads
    assert spare is not None
    assert spare.instructions == SPARE
    assert spare.bytes == (LOADS - ROWS // P) * P * COLUMNS * 4 + (LOADS - COUNT) * COLUMNS * 4
    shorter = of_program(spare.timed.program)
    assert profile.instructions == shorter.instructions + spare.instructions
    assert profile.bytes["hbm_read"] == shorter.bytes["hbm_read"] + spare.bytes
    assert profile.bytes["hbm_write"] == shorter.bytes["hbm_write"]


def test_the_fast_end_is_without_them(profile: Profile) -> None:
    spare = profile.spare_loads
    assert spare is not None
    fast = GEN3.bound(0)
    with_all, without = [(timed.run(fast).ns + fast.launch_ns) * 1e-9 for timed in (profile.timed, spare.timed)]
    assert without < with_all
    assert {end.program: seconds for end, seconds in profile.readings}[SPARE_LOADS] == without
    assert profile.interval[0] <= without
    alone = of_program(profile.program)
    assert profile.latency == alone.latency


@nki.jit
def twice(x, again=True):
    """Two copies of ``x``, of one load or of two."""
    out = nl.ndarray((2, *x.shape), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = None
    for turn in range(2):
        if again or tile is None:
            tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=x)
        nisa.dma_copy(dst=out[turn], src=tile)
    return out


def test_loads_of_later_releases() -> None:
    x = ShapeDtype((P, 64), "float32")
    profile = nki.profile(twice, target="trn2")(x)
    assert profile.spare_loads is not None and profile.spare_loads.instructions == 1
    assert profile.interval[0] < profile.interval[1]


def test_a_kernel_without_such_loads() -> None:
    profile = nki.profile(twice, target="trn2")(ShapeDtype((P, 64), "float32"), again=False)
    assert profile.spare_loads is None and profile.summary()["spare_loads"] == 0
    assert "leaves such loads out" not in str(profile)
    assert [end.program for end in profile.ends] == ["as compiled", "as compiled", "order"]


def test_nobody_looks_for_them_before_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second compilation takes as long as the first."""
    asked: list[str] = []
    run = ReuseLoads.run
    monkeypatch.setattr(ReuseLoads, "run", lambda *args: asked.append("") or run(*args))
    profile = profiled()
    assert profile.latency and profile.lines and not asked
    assert profile.interval and profile.spare_loads and profile.what_if(launch=1.0).interval and len(asked) == 1


def test_every_report_says_so(profile: Profile) -> None:
    order, loads, *others = text.about_assumptions(profile)
    assert re.fullmatch(r"order: \+\d+\.\d %: \d+ instructions at another place in the order of the program", order)
    assert re.match(rf"loads left out: .\d+\.\d %: {SPARE} loads, .* at times$", loads)
    for sentence in (order, loads, *others):
        assert sentence in " ".join(str(profile).split())
        assert sentence in profile._repr_html_()  # pyright: ignore[reportPrivateUsage]
        assert sentence in html.render(profile)
    assert profile.summary()["spare_loads"] == SPARE
    records = details(profile)["interval"]["assumptions"]
    names = ["order", "loads left out", "invariants once", "broadcasts in place", "neighbours merged"]
    assert [each["name"] for each in records] == names and len(others) == 3
    assert [each["seconds"] for each in records] == [worth.seconds for worth in profile.worths]


def test_what_ifs_keep_them(profile: Profile) -> None:
    changed = profile.what_if(dma_bandwidth=0.25)
    assert changed.spare_loads is profile.spare_loads
    assert changed.interval[0] > profile.interval[0]
    assert violations(profile) == []


def test_advice_is_about_all_loads() -> None:
    (about,) = [each for each in profiled(summed).advice if each.title == "Inputs loaded again"]
    assert about.evidence.startswith(f"{LOADS - ROWS // P} transfers load parts of 'x'")


def test_native_execution_and_the_simulator_keep_all_loads() -> None:
    x, w = (np.random.default_rng(1).standard_normal(s).astype(np.float32) for s in ((ROWS, 64), (COUNT, 64)))
    expected = w[:, None, :] * x
    np.testing.assert_array_equal(passes(x, w), expected)
    profile = nki.profile(passes, target="trn2")(x, w)
    assert profile.spare_loads is not None and profile.spare_loads.instructions == SPARE
    artifact = passes.compile(x, w).kernel
    copies = [copy for inst in artifact.instructions() if (copy := inst.as_copy()) is not None]
    assert sum(copy.src.tensor.role == "input" for copy in copies) == 2 * LOADS
    np.testing.assert_array_equal(passes(x, w), expected)
    np.testing.assert_array_equal(beta1.simulate_kernel(passes, x, w), expected)


def test_the_program_is_that_of_the_compiler(profile: Profile) -> None:
    """The second compilation does not change what both share."""
    shapes = {"x": (ROWS, COLUMNS), "w": (COUNT, COLUMNS)}
    specs = {name: TensorSpec(name, shape, float32) for name, shape in shapes.items()}
    plain = pipeline.compile(passes.func, specs, GEN3, configs=passes.configs)
    assert printer.show(profile.program) == printer.show(plain)


@beta1.jit
def sums(x, w):
    """Two products of the same rows; each fills a bank of PSUM, and is needed until their sum is known."""
    out = b1.ndarray((P, 512), dtype=x.dtype, buffer=b1.shared_hbm)
    parts = [b1.matmul(b1.load(x[0:P, 0:P]), b1.load(x[0:P, 0:512]), transpose_x=True) for _ in range(2)]
    total = b1.add(b1.copy(parts[0]), parts[1])
    b1.store(out, b1.multiply(b1.multiply(total, parts[0]), parts[1]))
    return out


def test_a_kernel_that_spills_spares_none() -> None:
    for kernel, roomy, full in (
        (passes, small(), small(3 * COLUMNS * 4)),
        (sums, small(), small(psum=GEN3.psum_bank_bytes)),
    ):
        assert profiled(kernel, roomy).spare_loads is not None
        with pytest.warns(nki.NkiSpillWarning) as given:
            assert profiled(kernel, full).spare_loads is None
        assert len(given) == 1


def test_both_programs_have_the_iterations_that_a_caller_states() -> None:
    def kernel(x, rows):
        count, total = nl.load(rows), nl.zeros((P, 64), nl.float32)
        for _ in range(3):
            tile = nl.ndarray((P, 64), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=x)
            nisa.tensor_tensor(total, total, tile, nl.add)
        nl.fori_loop(0, nisa.register_alloc(count), lambda _: nisa.tensor_tensor(total, total, total, nl.add))
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=total)
        return out

    specs = {"x": TensorSpec("x", (P, 64), float32), "rows": TensorSpec("rows", (1, 1), int32)}
    result = compiled(lambda observe: pipeline.compile(kernel, specs, GEN3, observe=observe), GEN3)
    program = result.timed.program
    (spare,) = [each for each in result.find_assumptions() if each.name == SPARE_LOADS]
    assert spare.instructions == 2
    most, least = ({id(loop): (count,) for loop in unknown_loops(program)} for count in (30, 1))
    profile = of_program(result, most, least)
    shorter = spare.timed.program
    once = of_program(shorter, {id(loop): (1,) for loop in unknown_loops(shorter)})
    assert profile.interval[0] == once.interval[0] < of_program(result, most, most).interval[0]
    assert profile.readings[2][1] == of_program(program, most).interval[1]


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It looks for them, too, also in a program in text form, as long as that has no addresses."""
    monkeypatch.chdir(tmp_path)
    Path("beta.py").write_text("from tests.profiling.test_assumptions import passes\n")
    arguments = ("--arg", f"{ROWS}x64:float32", "--arg", f"{COUNT}x64:float32")
    counts: list[int] = []
    for stage in ("", "order", "allocate"):
        source = "beta.py:passes"
        if stage:
            Path(f"{stage}.nki").write_text(Ran(capsys, "dump", source, *arguments, "--after", stage).out)
            source = f"{stage}.nki"
        (summary,) = json.loads(Ran(capsys, "profile", source, *arguments, "--json").out).values()
        counts.append(summary["spare_loads"])
    assert counts == [SPARE] * 2 + [0]


@nki.jit
def softmax(x):
    """Row by row, in four tiles of the width of ``x``."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for first in range(0, x.shape[0], P):
        row, powers, result = (nl.ndarray((P, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf) for _ in range(3))
        total = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=row, src=x[first : first + P])
        nisa.activation(dst=powers, op=nl.exp, data=row)
        nisa.tensor_reduce(total, nl.add, powers, 1)
        nisa.reciprocal(total, total)
        nisa.tensor_scalar(result, powers, nl.multiply, total)
        nisa.dma_copy(dst=out[first : first + P], src=result)
    return out


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_results_in_the_place_of_operands_are_faster_where_few_tiles_fit(target: str) -> None:
    wide = nki.profile(softmax, target=target)(ShapeDtype((1024, 16384), "float32"))
    narrow = nki.profile(softmax, target=target)(ShapeDtype((1024, 1024), "float32"))
    own = wide.assumption(OWN_TILES)
    assert own is not None and own.instructions == 2 * 1024 // P and narrow.assumption(OWN_TILES) is None
    plain = of_program(own.timed.program)
    assert wide.latency < 0.95 * plain.latency
    assert wide.interval[1] >= plain.interval[1]
    assert wide.what_if(launch=1.0).interval[1] == wide.interval[1]
    assert len(wide.program.core.tensors) == len(plain.program.core.tensors) - 2 * 1024 // P
    assert violations(wide) == []


def test_a_program_that_gains_nothing_is_not_taken() -> None:
    """Where nothing is gained, results have memory of their own, as in the compiler."""
    x = ShapeDtype((P, 16384), "float32")
    profile = nki.profile(softmax, target="trn2")(x)
    specs = {"x": TensorSpec("x", (P, 16384), float32)}
    assert printer.show(profile.program) == printer.show(pipeline.compile(softmax.func, specs, GEN3))
    assert profile.assumption(OWN_TILES) is None


def test_a_program_whose_tiles_find_no_arrangement_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    full, run = MemoryFullError("no arrangement"), pipeline.compile

    def compile_first(func: Any, *args: Any, **options: Any) -> Program:
        if func is None and "stages" in options and len(options["stages"]) > 1:
            raise full
        return run(func, *args, **options)

    monkeypatch.setattr(pipeline, "compile", compile_first)
    profile = nki.profile(softmax, target="trn2")(ShapeDtype((1024, 16384), "float32"))
    assert profile.assumption(OWN_TILES) is None and profile.spare_loads is None


def in_order(kernel: Any, target: str, *shapes: nki.ShapeDtype) -> TimedProgram:
    """The kernel as stage ``schedule`` leaves it if it moves nothing."""
    chosen = find(target)
    launched = as_kernel(kernel)
    adapter, arguments = shaped_arguments(launched, shapes, {})
    stages = [Schedule(reorder=False) if each.name == "schedule" else each for each in pipeline.STAGES]
    specs = launched.specs(arguments, adapter)
    program = pipeline.compile(launched.func, specs, chosen, stages=stages, configs=launched.configs)
    return TimedProgram(program)


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_the_slow_end_is_the_order_of_the_program(target: str) -> None:
    """What the cheap permutation replays is what the compiler makes that moves nothing, to the bit."""
    profile, slow = profiled(target=target), find(target).bound(1)
    moving = in_order(passes, target, *(ShapeDtype(shape, "float32") for shape in ((ROWS, COLUMNS), (COUNT, COLUMNS))))
    assert profile.order is not None and profile.order.instructions > 0
    assert profile.interval[1] == (moving.run(slow).ns + slow.launch_ns) * 1e-9
    listed = (profile.timed.run(slow).ns + slow.launch_ns) * 1e-9
    (worth,) = [each for each in profile.worths if each.assumption is profile.order]
    assert worth.seconds == pytest.approx(profile.interval[1] - listed)
    assert worth.part == pytest.approx(profile.interval[1] / listed - 1)


def test_where_orders_agree_the_interval_is_of_facts_alone() -> None:
    profile = nki.profile(twice, target="trn2")(ShapeDtype((P, 64), "float32"), again=False)
    assert profile.order is not None and profile.order.about == SAME_ORDER and profile.order.instructions == 0
    assert profile.interval == of_program(profile.program).interval
    assert f"order: +0.0 %: {SAME_ORDER}" in text.about_assumptions(profile)


def test_a_program_alone_has_no_other_order(profile: Profile) -> None:
    alone = of_program(profile.program)
    assert alone.order is None and alone.worths == []


def test_either_order_is_shown_and_the_interval_holds_both(monkeypatch: pytest.MonkeyPatch) -> None:
    by_list, by_program = (profiled(order=order) for order in ("list", "program"))
    assert by_program.latency > by_list.latency and (by_list.queues, by_program.queues) == ("list", "program")
    shapes = [ShapeDtype(shape, "float32") for shape in ((ROWS, COLUMNS), (COUNT, COLUMNS))]
    assert by_program.timeline.ns == in_order(passes, "trn2", *shapes).run(GEN3).ns
    assert by_program.interval == pytest.approx(by_list.interval)
    assert by_program.order is not None and by_program.order.end == "fast"
    monkeypatch.setenv("OPEN_NKI_REORDER", "0")
    assert profiled().latency == by_program.latency and profiled().interval == by_program.interval
    assert profiled(order="list").latency == by_list.latency
    with pytest.raises(nki.NkiError, match="there is no such order"):
        profiled(order="random")


def test_the_command_shows_either_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    Path("beta.py").write_text("from tests.profiling.test_assumptions import passes\n")
    arguments = ("--arg", f"{ROWS}x64:float32", "--arg", f"{COUNT}x64:float32", "--json")
    found = [Ran(capsys, "profile", "beta.py:passes", *arguments, "--order", order).out for order in ORDERS]
    (first,), (second,) = (json.loads(out).values() for out in found)
    assert (first["order"], second["order"]) == ORDERS
    assert first["latency"] < second["latency"] <= first["latency_max"] == pytest.approx(second["latency_max"])
    assert Ran(capsys, "profile", "beta.py:passes", *arguments[:-1]).out.count("order: +") == 1


@pytest.mark.parametrize("rounds", [3])
def test_loops_on_the_device_have_both_orders(rounds: int) -> None:
    """Blocks in loops are permuted one by one; the iterations that a caller states hold for both programs."""

    @nki.jit
    def kernel(x, rows):
        count, out = nl.load(rows), nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)

        def body(_):
            for first in range(0, x.shape[1], 128):
                tile = nl.ndarray((P, 128), dtype=x.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=tile, src=x[:, first : first + 128])
                nisa.activation(dst=tile, op=nl.exp, data=tile)
                nisa.dma_copy(dst=out[:, first : first + 128], src=tile)

        nl.fori_loop(0, nisa.register_alloc(count), body)
        return out

    shapes = ShapeDtype((P, 1024), "float32"), ShapeDtype((1, 1), "int32")
    profile = nki.profile(kernel, target="trn2", trips=rounds)(*shapes)
    other = nki.profile(kernel, target="trn2", trips=rounds, order="program")(*shapes)
    assert profile.order is not None and profile.order.instructions > 0
    assert profile.order.run(profile.target).ns == other.timeline.ns > profile.timeline.ns
    assert nki.profile(kernel, target="trn2", trips=1)(*shapes).interval[1] < profile.interval[1]
