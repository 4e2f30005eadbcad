"""Routines that differ in sizes alone share a body."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import pytest
from llvmlite import ir

import nki
import nki.isa as nisa
import nki.language as nl
from nki.backend.cpu.codegen.routine import emit_routine
from nki.backend.cpu.kernel_ir.accesses import aliases
from nki.backend.cpu.runtime import routines
from nki.backend.cpu.runtime.routines import RoutineText, definitions
from nki.base import element_types as dt
from nki.ir.types import Access, Buffer, Tensor
from nki.isa.instructions.nc_matmul import NcMatmul
from nki.numerics.llvm_jit import engine
from tests.support.native_calls import call

_SCALED = """define void @"{name}"(ptr %".1", i64 %".2")
{{
entry:
  %".3" = mul i64 %".2", {factor}
  %".4" = add i64 %".3", {factor}
  %".5" = add i64 %".4", {term}
  %".6" = getelementptr i8, ptr %".1", i64 {offset}
  store i64 %".5", ptr %".6", align {align}
  ret void
}}
"""
_LONG = 1000


def _text(name: str, factor: int, term: int = 1, offset: int = 0, align: int = 8) -> str:
    return _SCALED.format(name=name, factor=factor, term=term, offset=offset, align=align)


def test_a_routine_keeps_its_text() -> None:
    text = _text("r", 3)
    assert str(RoutineText.of(text)) == text.rstrip("\n") + "\n"


def test_few_routines_or_other_instructions_share_nothing() -> None:
    few = [_text("a", 3), _text("b", 4)]
    assert definitions([RoutineText.of(text) for text in few]) == few
    others = [_text("a", 3, align=8), _text("b", 4, align=4), _text("c", 5, align=2)]
    assert definitions([RoutineText.of(text) for text in others]) == others


def test_sizes_of_short_loops_stay_in_the_routines() -> None:
    short = [_text(f"r{n}", n) for n in (125, 126, 127)]
    assert definitions([RoutineText.of(text) for text in short]) == short
    long = [_text(f"r{n}", n) for n in (128, 129, 130)]
    assert len(definitions([RoutineText.of(text) for text in long])) == 1 + len(long)


def test_numbers_that_differ_alike_are_one_argument() -> None:
    texts = [_text(f"r{n}", n * _LONG, term=7, offset=8 * n) for n in (3, 4, 5)]
    body, *callers = definitions([RoutineText.of(text) for text in texts])
    assert 'i64 %"size.0", i64 %"size.1") noinline' in body and "size.2" not in body
    assert ", 7\n" in body
    assert [caller.count("store") for caller in callers] == [0, 0, 0]
    code = engine().load_all(["\n".join([body, *callers])])[0]
    memory = np.zeros(8, np.int64)
    for n in (3, 4, 5):
        call(code.addresses[f"r{n}"], memory, 10)
    assert memory.tolist() == [0, 0, 0, *(n * _LONG * (10 + 1) + 7 for n in (3, 4, 5)), 0, 0]


@pytest.mark.parametrize("dtype", [dt.float32, dt.bfloat16, dt.float8_e4m3], ids=str)
def test_skinny_matmuls_of_all_sizes_call_one_micro_kernel(dtype: dt.DType) -> None:
    """Written into the routine of each size they were most of what LLVM compiled of kernels that generate tokens."""
    texts = [
        _skinny(dtype, depth, columns, accumulate)
        for depth, columns, accumulate in ((128, 512, True), (96, 256, False))
    ]
    called = [set(re.findall(r'call void @"(nki_skinny[^"]*)"', text)) for text in texts]
    assert called[0] == called[1] and called[0]
    assert not any("llvm.fma" in text for text in texts)


def _skinny(dtype: dt.DType, depth: int, columns: int, accumulate: bool) -> str:
    """The IR of the routine of a matmul of two rows."""
    left, right = (Tensor(name, (depth, size), dtype, Buffer.sbuf) for name, size in (("left", 2), ("right", columns)))
    out = Tensor("out", (2, columns), dt.float32, Buffer.psum)
    inst = NcMatmul(Access.whole(out), Access.whole(left), Access.whole(right), accumulate=accumulate)
    module = ir.Module("test")
    emit_routine(module, "r", inst, aliases(inst), engine().vector_width)
    return str(module)


def rows_of_many_widths(x: Any) -> Any:
    """A softmax of the first 64, 128, ... columns: each instruction once for each width."""
    rows, width = x.shape
    out = nl.ndarray((rows, width), dtype=nl.float32, buffer=nl.shared_hbm)
    for end in range(64, width + 1, 64):
        tile = nl.load(x[:, :end])
        peak = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
        weights = nl.ndarray(tile.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(peak, nl.maximum, tile, axis=-1, negate=True)
        nisa.activation_reduce(weights, nl.exp, tile, bias=peak, reduce_op=nl.add, reduce_res=total)
        nisa.reciprocal(total, total)
        nisa.tensor_scalar(weights, weights, nl.multiply, total)
        nl.store(out[:, end - 64 : end], weights[:, end - 64 : end])
    return out


@pytest.mark.parametrize("fewest", [2, 1000])
def test_bits_do_not_depend_on_sharing(fewest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []

    def noted(found: Sequence[RoutineText]) -> list[str]:
        texts.extend(definitions(found))
        return definitions(found)

    monkeypatch.setenv("NKI_CACHE_NATIVE", "0")
    monkeypatch.setattr(routines, "FEWEST", fewest)
    monkeypatch.setattr(routines, "definitions", noted)
    unused: WeakValueDictionary[routines.Key, routines.Routine] = WeakValueDictionary()
    monkeypatch.setattr(routines, "_routines", unused)  # all are compiled anew
    x = np.random.default_rng(1).standard_normal((112, 640), dtype=np.float32) * 3
    x[5, 70], x[9, 130], x[11, 500] = np.nan, np.inf, -np.inf
    kernel = nki.jit(rows_of_many_widths)
    result, expected = kernel(x), nki.simulate(kernel)(x)
    assert any("noinline" in text for text in texts) == (fewest == 2)
    np.testing.assert_array_equal(result.view(np.int32), expected.view(np.int32))


def test_exponentials_with_sums_of_many_chunks_share_two_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    """One for even and one for odd numbers of chunks of 128 columns, at most."""

    def widths(x: Any) -> Any:
        out = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.shared_hbm)
        for end in range(256, x.shape[1] + 1, 128):
            total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
            tile = nl.load(x[:, :end])
            nisa.activation_reduce(tile, nl.exp, tile, nl.add, total)
            nl.store(out, total)
        return out

    bodies: set[tuple[str, ...]] = set()

    def noted(found: Sequence[RoutineText]) -> list[str]:
        bodies.update(routine.pieces for routine in found if routine.name.endswith("fused"))
        return definitions(found)

    monkeypatch.setenv("NKI_CACHE_NATIVE", "0")
    monkeypatch.setattr(routines, "definitions", noted)
    unused: WeakValueDictionary[routines.Key, routines.Routine] = WeakValueDictionary()
    monkeypatch.setattr(routines, "_routines", unused)
    nki.jit(widths)(np.zeros((128, 1152), np.float32))
    assert 1 <= len(bodies) <= 2
