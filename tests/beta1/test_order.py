"""A result that waits for its destination is computed before anything that comes after it changes its operands."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import neuronxcc.nki.typing as nt
from neuronxcc import nki
from nki.base.element_types import float32
from nki.compilation import pipeline
from nki.ir.types import TensorSpec
from nki.target import find


def _number(t: Any, _: Any) -> None:
    t[...] = 0.0


def _tile(t: Any, u: Any) -> None:
    t[...] = u


def _part(t: Any, u: Any) -> None:
    t[0:8, 2:5] = u[0:8, 2:5]


def _in_place(t: Any, u: Any) -> None:
    t += u


def _from_hbm(t: Any, _: Any) -> None:
    t[...] = nl.zeros((8, 8), dtype=nl.float32)


def _predicated(t: Any, u: Any) -> None:
    nisa.tensor_copy_predicated(src=u, dst=t, predicate=u)


CHANGES = [_number, _tile, _part, _in_place, _from_hbm, _predicated]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_operands_change_after_the_result(both: Any, data: Any, change: Any) -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        other = nl.full(x.shape, 3.0, dtype=nl.float32)
        other[...] = nl.add(other, 1.0)
        result = nl.exp(tile)
        change(tile, other)
        nl.store(out, result)
        return out

    x = data(8, 8)
    np.testing.assert_allclose(both(kernel, x), np.exp(x), rtol=1e-5)


@pytest.mark.parametrize("number", [True, False])
def test_an_argument_changes_after_the_load(both: Any, data: Any, number: bool) -> None:
    @nki.jit
    def kernel(x: nt.mutable_tensor):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        other = nl.full(x.shape, 3.0, dtype=nl.float32)
        tile = nl.load(x)
        nl.store(x, 5.0 if number else other)
        nl.store(out, tile)
        return out, x

    x = data(8, 8)
    assert (both(kernel, x.copy())[0] == x).all()


def test_a_second_result_is_there_when_it_is_read(both: Any, data: Any) -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray((8, 2), dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        sums = nl.zeros((8, 2), dtype=nl.float32)
        for i in nl.affine_range(2):
            total = nl.ndarray((nl.par_dim(8), 1), dtype=nl.float32)
            nisa.activation(
                op=nl.exp, data=tile[:, 0:4], reduce_op=nl.add, reduce_cmd=nisa.reduce_cmd.reset_reduce,
                reduce_res=total,
            )  # fmt: skip
            nisa.activation(
                op=nl.exp, data=tile[:, 4:8], reduce_op=nl.add, reduce_cmd=nisa.reduce_cmd.reduce, reduce_res=total
            )
            sums[:, nl.ds(i, 1)] = total
        nl.store(out, sums)
        return out

    x = data(8, 8)
    np.testing.assert_allclose(both(kernel, x), np.exp(x).sum(1, keepdims=True) * np.ones((1, 2)), rtol=1e-5)


@nki.jit
def repeated_row(x, weight):
    """``exp(x)``, computed in front of the row that is repeated and that multiplies it."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile, row = nl.load(x), nl.load(weight)
    row[...] = nl.add(row, 1.0)
    result = nl.exp(tile)
    nl.store(out, result * row.broadcast_to(x.shape))
    return out


def test_results_come_before_the_products_that_repeat_a_row(both: Any, data: Any) -> None:
    x, weight = data(8, 8), data(1, 8)
    np.testing.assert_allclose(both(repeated_row, x, weight), np.exp(x) * (weight + 1), rtol=1e-5)
    specs = {name: TensorSpec(name, array.shape, float32) for name, array in (("x", x), ("weight", weight))}
    program = pipeline.compile(repeated_row.func, specs, find("trn1"), stop="specialise")
    names = [inst.mnemonic for inst in program.core.instructions()]
    assert names.index("activation") < names.index("nc_matmul")
