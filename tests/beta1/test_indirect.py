"""Loads, stores and sums by indices on every generation.

Beta 1 documents them for NeuronCore-v2 alone (release 2.20.0: the FAQ names the chips, the reference of ``nl.load``,
``nl.store`` and ``nl.atomic_rmw`` the indices); of present NKI the descriptor guide says "indirect: v3+".
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import nki as present
import nki.isa as present_isa
import nki.language as present_language
from neuronxcc import nki
from nki import target as targets
from nki.base.errors import GenerationError
from nki.compilation.pipeline import compile as compile_program
from nki.ir.text import parser, printer
from nki.isa.tables.enums import engine
from nki.profiling.kernel_profile import profile as predict
from nki.target import GEN2

TARGETS = ("trn1", "inf2", "trn2", "trn3")


def gather(table, index):
    out = nl.ndarray((64, 32), dtype=table.dtype, buffer=nl.shared_hbm)
    p, f = nl.arange(64)[:, None], nl.arange(32)[None, :]
    rows = nl.load(index[p])
    nl.store(out, nl.load(table[rows[p, 0], f]))
    return out


def scatter(x, index):
    out = nl.ndarray((128, 32), dtype=x.dtype, buffer=nl.shared_hbm)
    p, f = nl.arange(64)[:, None], nl.arange(32)[None, :]
    nl.store(out, nl.zeros((128, 32), dtype=x.dtype))
    nl.store(out[nl.load(index[p])[p, 0], f], nl.load(x))
    return out


def add_to_rows(x, index):
    out = nl.ndarray((128, 32), dtype=x.dtype, buffer=nl.shared_hbm)
    p, f = nl.arange(64)[:, None], nl.arange(32)[None, :]
    nl.store(out, nl.ones((128, 32), dtype=x.dtype))
    nl.atomic_rmw(out[nl.load(index[p])[p, 0], f], nl.load(x), op=np.add)
    return out


def copied_by_dma(table, index):
    out = nl.ndarray((64, 32), dtype=table.dtype, buffer=nl.shared_hbm)
    p, f = nl.arange(64)[:, None], nl.arange(32)[None, :]
    tile = nl.ndarray((64, 32), dtype=table.dtype, buffer=nl.sbuf)
    nisa.dma_copy(src=table[nl.load(index[p])[p, 0], f], dst=tile[p, f], oob_mode=nisa.oob_mode.skip)
    nl.store(out, tile)
    return out


def expected(kernel: Any, x: np.ndarray[Any, Any], index: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if kernel in (gather, copied_by_dma):
        return x[index]
    result = np.full((128, 32), float(kernel is add_to_rows), np.float32)
    for row, place in enumerate(index):
        result[place] = x[row] + result[place]
    return result


def arguments(kernel: Any, data: Any) -> tuple[Any, Any]:
    index = np.random.default_rng(5).permutation(128)[:64].astype(np.int32)
    return data(128 if kernel in (gather, copied_by_dma) else 64, 32), index


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kernel", [gather, scatter, add_to_rows, copied_by_dma])
def test_rows_move_by_indices(both: Any, data: Any, kernel: Any, target: str) -> None:
    x, index = arguments(kernel, data)
    result = both(nki.jit(kernel, platform_target=target), x, index)
    assert (result == expected(kernel, x, index)).all()


@pytest.mark.parametrize("kernel", [gather, scatter, add_to_rows])
def test_profiles_of_trn1_know_the_time_of_indices(data: Any, kernel: Any) -> None:
    """GpSimd writes the descriptors; the guess about its indices is in the interval, and changes what is predicted."""
    x, index = arguments(kernel, data)
    found = predict(nki.jit(kernel), target="trn1")(x, index)
    indexed = [inst for inst in found.program.instructions() if any(a.dynamic for a in inst.accesses())]
    assert len(indexed) == 1
    estimate = indexed[0].cost(GEN2)
    assert estimate.dge == engine.gpsimd.name
    assert estimate.issue == GEN2.dma_software_trigger_ns + GEN2.dma_row_indices_ns
    slower = found.what_if(dma_row_indices_ns=500)
    assert slower.device_time == pytest.approx(found.device_time + 500e-9)
    assert GEN2.fact("dma_row_indices_ns").kind == "guess" and GEN2.fact("dma_row_indices_ns").range


def test_the_text_of_a_program_keeps_the_release(data: Any) -> None:
    """A program that comes as text obeys the rules of its release, and of no other."""
    x, index = arguments(gather, data)
    program = predict(nki.jit(gather), target="trn1")(x, index).program
    recorded = nki.jit(gather, platform_target="trn1").compile(x, index).kernel
    for each in (program, recorded):
        text = printer.show(each)
        assert " release=0.1 " in text.splitlines()[0]
        assert parser.parse(text) == each
        assert compile_program(None, {}, GEN2, start=parser.parse(text)).cores
        newer = parser.parse(text.replace(" release=0.1 ", " "))
        assert newer != each
        for start in (newer, parser.parse(text.replace("release=0.1", "release=0.2"))):
            with pytest.raises(GenerationError, match="DM05"):
                compile_program(None, {}, GEN2, start=start)


def test_a_program_in_text_may_break_no_other_rule(data: Any) -> None:
    text = printer.show(nki.jit(gather, platform_target="trn1").compile(*arguments(gather, data)).kernel)
    lines = [line for line in text.splitlines() if "dma_copy" in line]
    one = next(line for line in lines if " rows " in line)
    hardware = text.replace(one, one.partition("  #")[0].rstrip() + " dge_mode=hwdge")
    with pytest.raises(GenerationError, match="DM02"):
        compile_program(None, {}, GEN2, start=parser.parse(hardware))


def test_tiles_that_the_kernel_places_are_checked_for_the_release(both: Any, data: Any) -> None:
    """The stage that gives addresses looks at each instruction again, where its tiles begin behind partition 0."""

    @nki.jit(platform_target="trn1")
    def kernel(table, index):
        out = nl.ndarray((32, 32), dtype=table.dtype, buffer=nl.shared_hbm)
        p, f = nl.arange(32)[:, None], nl.arange(32)[None, :]
        tile = nl.ndarray((nl.par_dim(32), 32), dtype=table.dtype, buffer=ncc.sbuf.alloc(lambda i, p, f: (64, 0)))
        rows = nl.ndarray((nl.par_dim(32), 1), dtype=index.dtype, buffer=ncc.sbuf.alloc(lambda i, p, f: (0, 4096)))
        rows[p, 0] = nl.load(index[p])
        tile[p, f] = nl.load(table[rows[p, 0], f])
        nl.store(out, tile)
        return out

    x, index = data(128, 32), np.arange(96, 32, -2).astype(np.int32)
    assert (both(kernel, x, index) == x[index]).all()


@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_present_kernels_gather_from_trn2_on(data: Any, target: str) -> None:
    @present.jit
    def kernel(table, index):
        out = present_language.ndarray((64, 32), dtype=table.dtype, buffer=present_language.shared_hbm)
        rows = present_language.ndarray((64, 1), dtype=index.dtype, buffer=present_language.sbuf)
        tile = present_language.ndarray((64, 32), dtype=table.dtype, buffer=present_language.sbuf)
        present_isa.dma_copy(dst=rows, src=index)
        present_isa.dma_copy(dst=tile, src=table.ap([[32, 64], [1, 32]], 0, vector_offset=rows, indirect_dim=0))
        present_isa.dma_copy(dst=out, src=tile)
        return out

    index = np.arange(64, dtype=np.int32)[:, None]
    chosen = targets.find(target)
    if target == "trn2":
        assert predict(kernel, target=chosen)(data(128, 32), index).device_time > 0
    else:
        with pytest.raises(GenerationError, match="DM05"):
            predict(kernel, target=chosen)(data(128, 32), index)
