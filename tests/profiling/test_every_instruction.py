"""Files and texts of profiles take every instruction of every target."""

from __future__ import annotations

import contextlib
from collections import Counter

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.errors import NkiError
from nki.ir.instruction import REGISTRY
from nki.ir.sample import Draw
from nki.ir.verifier import verify
from nki.profiling.kernel_profile import of_program
from nki.profiling.parquet import tables
from nki.profiling.trace import trace
from nki.target import GEN4, GENERATIONS
from tests.support import instruction_bench
from tests.support.decoded_trace import DecodedTrace


def legal(name, draw):
    """A sample that gen4 takes as well, for which the bench compiles where generators of random numbers are filled."""
    cls = REGISTRY[name]
    while True:
        sample = instruction_bench.sample(cls, draw)
        with contextlib.suppress(NkiError):
            if instruction_bench.exists(cls, GEN4):
                verify(sample, GEN4, {})
            return sample


@pytest.mark.parametrize("target", GENERATIONS, ids=str)
def test_every_instruction(target):
    """A program of one sample of each instruction; each row of each file is there once."""
    draw = Draw(instruction_bench.source("profiles", target.name), target)
    names = [name for name, cls in REGISTRY.items() if instruction_bench.exists(cls, target)]
    alone = [name for name in names if REGISTRY[name].effects.barrier or REGISTRY[name].effects.exchange]
    trials = [legal(name, draw) for name in names if name not in alone]
    profile = of_program(instruction_bench.program(trials, target).kernel)
    assert profile.program.size == profile.instructions
    columns = tables(profile)
    for name, table in columns.items():
        assert len({len(values) for values in table.values()}) == 1, name
    counted = Counter(columns["Instruction"]["compiler_opcode"])
    assert set(counted) >= set(names) - set(alone)
    summary = profile.summary()
    assert sum(columns["OpcodeSummary"]["instruction_count"]) == profile.instructions
    assert sum(columns["DmaPacketAggregated"]["transfer_bytes"]) == summary["dma_transfer_total_bytes"]
    for name in ("hbm_read_bytes", "hbm_write_bytes", "sbuf_read_bytes", "psum_write_bytes"):
        assert sum(columns["Instruction"][name]) == summary[name]
    slices = DecodedTrace(trace(profile)).slices
    assert {each.name for each in slices} == set(counted)
    assert {each.arguments["id"] for each in slices} == set(range(profile.instructions))
    assert str(profile) and profile._repr_html_()


def test_packed_products_count_as_16_bit_ones():
    """A quad row of 8-bit products takes the cycles of one 16-bit row, and counts a quarter of its operations."""

    cls = REGISTRY["nc_matmul_mx"]
    target = GENERATIONS[-1]
    inst = instruction_bench.sample(cls, Draw(instruction_bench.source("packed"), target))
    profile = of_program(instruction_bench.program([inst], target).kernel)
    (row,) = [n for n, flops in enumerate(tables(profile)["Instruction"]["raw_flops"]) if flops]
    columns = tables(profile)["Instruction"]
    assert columns["raw_flops"][row] == 4 * columns["adjusted_flops"][row] > 0
    assert columns["opcode"][row] == "MATMUL"
    # MFU is a part of the peak of this mode, four times the peak with 16-bit operands.
    assert profile.peak_flops == pytest.approx(4 * profile.peak_flops_16_bit)
    assert profile.mfu == pytest.approx(profile.flops / 4 / profile.peak_flops_16_bit / profile.device_time)


def nothing(x):
    return x


def one_works(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="out")
    if nl.program_id(0) == 0:
        nisa.dma_copy(dst=out, src=x)
    return out


@pytest.mark.parametrize(("kernel", "rows"), [(nki.jit(nothing), 0), (nki.jit(one_works)[2], 1)])
def test_cores_without_work(kernel, rows, tmp_path):
    profile = nki.profile(kernel, target="trn2")(np.zeros((128, 64), np.float32))
    assert str(profile) and str(profile.compare(profile)) and profile._repr_html_()
    assert len(tables(profile)["Instruction"]["id"]) == rows == profile.summary()["event_count"]
    assert len(list(profile.to_parquet(tmp_path))) == 18
    assert len(DecodedTrace(trace(profile)).slices) == 2 * rows
