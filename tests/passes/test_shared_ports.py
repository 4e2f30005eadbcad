"""The list scheduler on instructions of engines that have a way to memory in common."""

from __future__ import annotations

from typing import Any

import pytest

from nki.analysis.dependence import DependenceGraph
from nki.cost.queue_replay import in_order_ns
from nki.ir.estimate import Compute
from nki.passes.scheduling.list_scheduler import list_schedule
from nki.target import GEN2, GEN3, Target

VECTOR, GPSIMD = 0, 1


def plain(resource: str, ns: float, behind: float = 0.0, **more: Any) -> Compute:
    return Compute(ns, ns + behind, "guess", "a test", resource, **more)


def graph(waits: list[tuple[int, ...]]) -> DependenceGraph:
    result = DependenceGraph()
    result.predecessors, result.chained = waits, [() for _ in waits]
    return result


@pytest.mark.parametrize("target", [GEN2, GEN3])
def test_what_needs_no_port_goes_while_another_engine_keeps_it(target: Target) -> None:
    """GpSimd has the port for 100 ns. Vector's first instruction needs it, its second one fits before."""
    queues = [GPSIMD, VECTOR, VECTOR]
    estimates = [
        plain("gpsimd", 100, 500, ports=("bus",), ports_ns=100),
        plain("vector", 100, 300, ports=("bus",), ports_ns=100),
        plain("vector", 90, 110),
    ]
    # GpSimd's is first at the port: Vector's have to wait for a word from Scalar.
    late = plain("scalar", 5, 5)
    waits = graph([(), (), (0,), (0,)])
    order = list_schedule([2, *queues], [late, *estimates], waits, target)
    plainly, mended = (
        in_order_ns([2, *queues], [late, *estimates], waits.predecessors, waits.chained, target, each)
        for each in (None, order)
    )
    assert order is None or mended <= plainly
    last = [plain("vector", 400, 0, ports=("bus",), ports_ns=400)]
    more = graph([(), (), (0,), (0,), (2, 3)])
    order = list_schedule([2, *queues, VECTOR], [late, *estimates, *last], more, target)
    assert order is not None and order.index(3) < order.index(2)
    end = in_order_ns([2, *queues, VECTOR], [late, *estimates, *last], more.predecessors, more.chained, target, order)
    # 5 ns, 90 of the second one meanwhile; then from 100 on the first and the last one.
    assert end == pytest.approx(100 + 100 + 400)
