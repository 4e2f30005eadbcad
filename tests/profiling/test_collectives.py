"""Profiles of a kernel with a collective: a made-up instruction, in a copy of the source."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nki.cost.collectives import price
from nki.target import GEN3
from tests.support.copied_source import copied_source, run

SIZE = 128 * 2048 * 4
DECLARATION = '''
"""``nisa.sum_of_ranks``, made up."""

from nki.cost import collectives
from nki.ir.instruction import Inst, instruction
from nki.ir.types import In, Out, Tile
from nki.isa.instructions.dma_copy import DmaCopy
from nki.isa.rules.operand_rules import same_elements
from nki.isa.tables import enums


@instruction(engines=(enums.side_engine.collectives,))
class SumOfRanks(Inst):
    """``dst = src``, as if other ranks had nothing."""

    dst: Out[Tile]
    src: In[Tile]
    ranks: int
    name: str | None = None

    rules = (same_elements("dst", "src"),)

    def semantics(self, m):
        m.store(self.dst, m.load(self.src))

    def cost(self, target):
        """The price of an all-reduce."""
        return collectives.price("all_reduce", self.src.nbytes, self.ranks, target)

    @classmethod
    def sample(cls, draw):
        tile = draw.tile(4, 8, draw.copied()[0])
        return cls(draw.like(tile), tile, 2)
'''
KERNEL = """
import nki
import nki.isa as nisa
import nki.language as nl

@nki.jit
def kernel(x):
    tile = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(tile, x)
    nisa.tensor_scalar(tile, tile, nl.add, 1.0)
    own = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(own, tile)
    both = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.sum_of_ranks(both, own, ranks=64)
    for _ in range(4):
        nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
    result = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(result, both)
    nisa.tensor_tensor(result, result, tile, nl.add)
    nisa.tensor_tensor(result, result, tile, nl.add)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, result)
    return out
"""
OBSERVE = """
import json, sys
sys.path.insert(0, sys.argv[1])
import numpy as np, nki
from nki.ir.text import parser, printer
from nki.profiling.parquet import tables
from nki.profiling.trace import trace
from kernel import kernel
from tests.support.decoded_trace import DecodedTrace

x = np.ones((128, 2048), np.float32)
profile = nki.profile(kernel, target="trn2")(x)
program = profile.program
core = profile.cores[0]
spans = {core.queues[q]: [] for q in range(len(core.queues))}
for row, q in enumerate(core.queue.tolist()):
    spans[core.queues[q]].append((core.start[row], max(core.end[row], core.data_end[row])))
print(json.dumps({
    "value": float(kernel(x)[0, 0]),
    "interval": profile.interval,
    "fast": profile.what_if(collective_bandwidth=4.0, collective_latency=0.5).latency,
    "latency": profile.latency,
    "uses": {use.engine: [use.busy, use.stalls] for use in profile.engines},
    "spans": spans,
    "text": str(profile),
    "same": parser.parse(printer.show(program)) == program,
    "page": "collectives" in profile._repr_html_(),
    "rows": list(tables(profile)["DmaPacketAggregated"]["queue_name"]),
    "engines": list(tables(profile)["Instruction"]["engine"]),
    "tracks": sorted({each.name for each in DecodedTrace(trace(profile)).slices}),
    "bound": profile.lower_bound.seconds,
}))
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a profile on trn2 says, by name."""
    examples = f"=== sum_of_ranks\n{KERNEL}-----\n"
    added = {"isa/instructions/sum_of_ranks.py": DECLARATION, "describe/instruction_examples.txt": examples}
    copy = copied_source(tmp_path_factory.mktemp("source"), added=added)
    (copy / "kernel.py").write_text(KERNEL, encoding="utf-8")
    return json.loads(run(copy, "-c", OBSERVE, str(copy)))


def test_collectives_have_a_row_of_their_own(seen: dict[str, Any]) -> None:
    busy, stalls = seen["uses"]["collectives"]
    estimate = price("all_reduce", SIZE, 64, GEN3)
    assert busy == pytest.approx(estimate.issue + estimate.transfer) and not stalls
    (row,) = [line for line in seen["text"].splitlines() if line.startswith("  collectives")]
    assert "█" in row
    assert "Collectives" in seen["engines"] and "collectives" in seen["rows"] and seen["page"]
    assert "sum_of_ranks" in seen["tracks"]


def test_engines_compute_meanwhile_and_what_reads_the_result_waits(seen: dict[str, Any]) -> None:
    ((begin, end),) = seen["spans"]["collectives"]
    vector = seen["spans"]["vector"]
    assert any(begin < start < end for start, _ in vector), "what needs no result goes on"
    assert vector[-1][0] > end
    _, stalls = seen["uses"]["dma"]
    assert 0.8 * (end - begin) < stalls["waits for collectives"] <= end - begin, "the load of the result waits"
    (row,) = [line for line in seen["text"].splitlines() if line.startswith("  dma ")]
    assert "collectives" in row


def test_the_interval_is_as_wide_as_the_facts(seen: dict[str, Any]) -> None:
    fast, slow = seen["interval"]
    assert fast < seen["fast"] < seen["latency"] < slow
    estimates = [price("all_reduce", SIZE, 64, target).latency * 1e-9 for target in (GEN3.bound(0), GEN3.bound(1))]
    assert slow - fast > estimates[1] - estimates[0] > seen["latency"]
    assert seen["bound"] <= seen["latency"]


def test_kernels_run_it(seen: dict[str, Any]) -> None:
    assert seen["value"] == 2.0 + 2 * 2.0 * 16 and seen["same"]
