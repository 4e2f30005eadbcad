"""A mechanism is a fact, a resource and a reason: a made-up one in three files of a copy of the source.

Scalar wakes up before it works again. The replay, the list scheduler, the profiles and the commands stay as they are.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.copied_source import ROOT, copied_source, run

IDLE, WAKE = 1000.0, 5000.0
FACT = f"""
    scalar_idle_ns = row("ns", guess({IDLE}, "a test made it up"))
    scalar_wake_ns = row("ns", guess({WAKE}, "a test made it up"))
    scalar_read_accumulator_cycles = row("""
RESOURCE = '''
class ScalarWake(Preparation):
    """The time that Scalar takes to wake up after it has been idle."""

    cause = Cause.wake

    def concerns(self, estimate: Estimate) -> bool:
        return estimate.resource == "scalar" and estimate.occupancy > 0.0

    def prepare(self, estimate: Estimate, queue: int, free: float, time: float) -> tuple[float, float]:
        is_idle = time - free > self.target.scalar_idle_ns
        return time, time + self.target.scalar_wake_ns if is_idle else time


class Ports:
'''
REASON = """
    wake = 8, "wake-up", "the time that Scalar takes to work again", "Scalar to wake up"
    queue = 1,"""
CHANGES = {
    "target/compute_engines.py": {"\n    scalar_read_accumulator_cycles = row(": FACT},
    "cost/shared_resources.py": {"\nclass Ports:\n": RESOURCE, "(self.tables,)": "(self.tables, ScalarWake(target))"},
    "base/terms.py": {"\n    queue = 1,": REASON},
}
KERNEL = """
import nki
import nki.isa as nisa
import nki.language as nl

@nki.jit
def kernel(x):
    tile = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(tile, x)
    nisa.activation(tile, nl.copy, tile)
    for _ in range(8):
        nisa.tensor_copy(tile, tile, engine=nisa.engine.vector)
    nisa.activation(tile, nl.copy, tile)
    nisa.activation(tile, nl.copy, tile)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out
"""
OBSERVE = """
import json, sys
sys.path.insert(0, sys.argv[1])
import nki
from nki.analysis.dependence import DependenceGraph
from nki.ir.estimate import Compute
from nki.passes.scheduling.list_scheduler import list_schedule
from nki.profiling.html import render
from nki.target import GEN3
from kernel import kernel

def plain(resource, occupancy):
    return Compute(occupancy, occupancy + 30.0, "guess", "a test", resource)

profile = nki.profile(kernel, target="trn2")(nki.ShapeDtype((128, 512), "float32"))
scalar = next(use for use in profile.engines if use.engine == "scalar")
# Vector waits for Scalar in instruction 3, which GpSimd needs early; 5 and 6 fill the time where Scalar has to wake up.
program = [(2, 1500.0, ()), (1, 1600.0, ()), (0, 10.0, (0,)), (1, 20.0, (2,)), (2, 4000.0, (3,))]
program += [(1, 3000.0, (1,)), (1, 3000.0, (1,))]
queues, times, waits = zip(*program)
estimates = [plain(("scalar", "vector", "gpsimd")[queue], ns) for queue, ns in zip(queues, times)]
order = list_schedule(queues, estimates, DependenceGraph.of(waits, [()] * len(waits)), GEN3)
print(json.dumps([profile.timeline.ns, scalar.stalls, str(profile), order, render(profile)]))
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the source with the mechanism."""
    return copied_source(tmp_path_factory.mktemp("source"), changed=CHANGES)


def test_the_prediction_and_the_report_have_it(source: Path, tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text(KERNEL, encoding="utf-8")
    observed: list[list[Any]] = [json.loads(run(each, "-c", OBSERVE, str(tmp_path))) for each in (ROOT / "src", source)]
    (before, stalls, text, in_order, page), (ns, later_stalls, later_text, order, later_page) = observed
    assert ns == pytest.approx(before + 2 * WAKE) and in_order is None
    assert order.index(5) < order.index(3)
    assert "wake-up" not in {*stalls, *text.split()} and later_stalls["wake-up"] > WAKE
    for words in ("wake-up", "the time that Scalar takes to work again"):
        assert words in later_text and words in later_page
    assert "Scalar to wake up" in later_page and "Scalar to wake up" not in page


def test_the_commands_explain_it(source: Path) -> None:
    assert "the time that Scalar takes to work again" in run(source, "-m", "nki", "explain", "wake-up")
    assert "a test made it up" in run(source, "-c", "from tools import reference; print(reference.targets())")
