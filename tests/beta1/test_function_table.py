"""The table of Beta 1's instructions: signatures, and the shape, dtype and memory of each result."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
from neuronxcc import nki
from nki.language.beta1_functions import FUNCTIONS, RESULTS

BF16, F16, F32, I32, U8, U16, U32 = (np.dtype(kind) for kind in (nl.bfloat16, "f2", "f4", "i4", "u1", "u2", "u4"))


class Tile(SimpleNamespace):
    """An operand: in the kernel a loaded identity, for the table its shape and dtype."""

    shape: tuple[int, ...]
    dtype: Any


def tile(*shape: int, dtype: Any = F32) -> Tile:
    return Tile(shape=shape, dtype=np.dtype(dtype))


def index(rows: int, columns: int) -> Any:
    return nl.arange(rows)[:, None] + nl.arange(columns)[None, :]


X, Y, HALF, WIDE, COLUMN = tile(32, 48), tile(32, 48), tile(32, 48, dtype=BF16), tile(32, 6, 8), tile(32, 1)
BITS, TRUTHS = tile(32, 48, dtype=U8), tile(32, 48, dtype=U32)
EIGHT = tile(32, 8)
# Arguments, and shape, dtype and memory of the result: the reference of 2.26.1.
SAMPLES: dict[str, list[tuple[dict[str, Any], tuple[int, ...], Any, str]]] = {
    "activation": [
        ({"op": np.exp, "data": X}, (32, 48), F32, "sbuf"),
        ({"op": nl.copy, "data": WIDE, "bias": COLUMN, "dtype": BF16}, (32, 6, 8), BF16, "sbuf"),
    ],
    "activation_reduce": [
        ({"op": np.square, "data": HALF, "reduce_op": np.add, "reduce_res": COLUMN}, (32, 48), BF16, "sbuf")
    ],
    "affine_select": [
        ({"pred": lambda: index(32, 48) >= 4, "on_true_tile": X, "on_false_value": 0}, (32, 48), F32, "sbuf")
    ],
    "bn_aggr": [({"data": tile(32, 6)}, (32, 2), F32, "sbuf")],
    "bn_stats": [({"data": X}, (32, 6), F32, "sbuf"), ({"data": X, "dtype": BF16}, (32, 6), BF16, "sbuf")],
    "dma_transpose": [
        ({"src": X}, (48, 32), F32, "sbuf"),
        ({"src": WIDE, "dtype": BF16}, (8, 6, 32), BF16, "sbuf"),
        ({"src": tile(32, 2, 3, 8), "axes": (3, 1, 2, 0)}, (8, 2, 3, 32), F32, "sbuf"),
    ],
    "dropout": [({"data": WIDE, "prob": 0.5}, (32, 6, 8), F32, "sbuf")],
    "iota": [
        ({"expr": lambda: index(32, 8), "dtype": I32}, (32, 8), I32, "sbuf"),
        ({"expr": lambda: nl.arange(8), "dtype": F32}, (1, 8), F32, "sbuf"),
    ],
    "local_gather": [
        ({"src_buffer": X, "index": tile(32, 3, dtype=U16)}, (32, 48), F32, "sbuf"),
        ({"src_buffer": HALF, "index": tile(32, 3, dtype=U16), "num_valid_indices": 32}, (32, 32), BF16, "sbuf"),
        ({"src_buffer": X, "index": tile(32, 1, dtype=U16), "num_elem_per_idx": 4}, (32, 16, 4), F32, "sbuf"),
    ],
    "max8": [({"src": X}, (32, 8), F32, "sbuf"), ({"src": HALF}, (32, 8), BF16, "sbuf")],
    "memset": [
        ({"shape": (4, 5), "value": 1, "dtype": BF16}, (4, 5), BF16, "sbuf"),
        ({"shape": lambda: (nl.par_dim(4), 5), "value": 1, "dtype": F32}, (4, 5), F32, "sbuf"),
    ],
    "nc_find_index8": [
        ({"data": X, "vals": EIGHT}, (32, 8), U32, "sbuf"),
        ({"data": X, "vals": EIGHT, "dtype": U16}, (32, 8), U16, "sbuf"),
    ],
    "nc_match_replace8": [({"data": X, "vals": EIGHT, "imm": -1.0}, (32, 48), F32, "sbuf")],
    "nc_matmul": [
        ({"stationary": X, "moving": Y}, (48, 48), F32, "psum"),
        ({"stationary": HALF, "moving": tile(32, 6, 8, dtype=BF16)}, (48, 48), F32, "psum"),
        ({"stationary": HALF, "moving": tile(32, 32, dtype=BF16), "is_transpose": True}, (48, 32), BF16, "psum"),
    ],
    "nc_transpose": [
        ({"data": HALF}, (48, 32), BF16, "psum"),
        ({"data": WIDE}, (48, 32), F32, "psum"),
        ({"data": tile(32, 8), "engine": nisa.vector_engine}, (8, 32), F32, "sbuf"),
    ],
    "range_select": [
        (
            {"on_true_tile": X, "comp_op0": np.greater, "comp_op1": np.less, "bound0": COLUMN, "bound1": COLUMN},
            (32, 48), F32, "sbuf",
        )
    ],
    "reciprocal": [({"data": HALF}, (32, 48), BF16, "sbuf")],
    "scalar_tensor_tensor": [
        ({"data": X, "op0": np.add, "operand0": 1.0, "op1": np.add, "operand1": HALF}, (32, 48), F32, "sbuf"),
        ({"data": HALF, "op0": np.add, "operand0": COLUMN, "op1": np.add, "operand1": X}, (32, 48), F32, "sbuf"),
    ],
    "sequence_bounds": [
        ({"segment_ids": tile(1, 16, dtype=I32)}, (1, 2, 16), I32, "sbuf"),
        ({"segment_ids": tile(1, 16, dtype=I32), "dtype": F32}, (1, 2, 16), F32, "sbuf"),
    ],
    "tensor_copy": [({"src": HALF}, (32, 48), BF16, "sbuf"), ({"src": HALF, "dtype": F32}, (32, 48), F32, "sbuf")],
    "tensor_copy_dynamic_src": [({"src": WIDE}, (32, 6, 8), F32, "sbuf")],
    "tensor_partition_reduce": [({"op": np.add, "data": WIDE}, (1, 6, 8), F32, "sbuf")],
    "tensor_reduce": [
        ({"op": np.add, "data": X, "axis": 1}, (32, 1), F32, "sbuf"),
        ({"op": np.add, "data": WIDE, "axis": [2]}, (32, 6), F32, "sbuf"),
        ({"op": np.add, "data": WIDE, "axis": (1, 2), "keepdims": True}, (32, 1, 1), F32, "sbuf"),
        ({"op": np.max, "data": HALF, "axis": -1}, (32, 1), BF16, "sbuf"),
    ],
    "tensor_scalar": [
        ({"data": HALF, "op0": np.add, "operand0": 1}, (32, 48), BF16, "sbuf"),
        ({"data": BITS, "op0": np.bitwise_and, "operand0": 1}, (32, 48), U8, "sbuf"),
    ],
    "tensor_scalar_reduce": [
        (
            {"data": HALF, "op0": np.add, "operand0": 1.0, "reduce_op": np.add, "reduce_res": COLUMN},
            (32, 48), BF16, "sbuf",
        )
    ],
    "tensor_tensor": [
        ({"data1": X, "data2": HALF, "op": np.add}, (32, 48), F32, "sbuf"),
        ({"data1": HALF, "data2": tile(32, 1, dtype=BF16), "op": np.add}, (32, 48), BF16, "sbuf"),
        ({"data1": BITS, "data2": TRUTHS, "op": np.bitwise_or}, (32, 48), U32, "sbuf"),
    ],
    "tensor_tensor_scan": [
        ({"data0": HALF, "data1": X, "initial": 0.0, "op0": np.multiply, "op1": np.add}, (32, 48), F32, "sbuf")
    ],
}  # fmt: skip
CASES = [(name, number) for name, samples in SAMPLES.items() for number in range(len(samples))]


def _reduced(data: Tile, axis: Any, keepdims: bool) -> tuple[int, ...]:
    shape = np.zeros(data.shape).sum(axis=tuple(axis) if isinstance(axis, list) else axis, keepdims=keepdims).shape
    return shape if len(shape) > 1 else (*shape, 1)


def _gathered(places: Tile, per: int, count: int | None) -> tuple[int, ...]:
    found = count or 16 * math.prod(places.shape[1:])
    return (found,) if per == 1 else (found, per)


NOTATION: dict[str, Callable[..., Any] | Any] = {
    "free": lambda x: math.prod(x.shape[1:]),
    "joint": lambda x, y: np.broadcast_shapes(x.shape, y.shape),
    "promoted": lambda x, y, op=None: np.promote_types(x.dtype, y.dtype),
    "reduced": _reduced,
    "grid": lambda expr: (1, *expr.shape)[-2:],
    "sizes": lambda shape: tuple(int(n) for n in shape),
    "gathered": _gathered,
    "float32": F32,
    "uint32": U32,
}


LATE = ("pred", "expr", "shape")
"""Arguments that are made in a kernel."""
SEEN: list[Any] = []


@nki.jit
def kernel(*arrays, name, number):
    arguments, shape, dtype, _ = SAMPLES[name][number]
    out = nl.ndarray(shape, dtype=dtype, buffer=nl.shared_hbm)
    given, loaded = {}, 0
    for key, value in arguments.items():
        given[key] = value() if key in LATE and callable(value) else value
        if isinstance(value, Tile):
            given[key] = nl.load(arrays[loaded])
            loaded += 1
    result = getattr(nisa, name)(**given)
    SEEN.append((result.shape, result.dtype, result.buffer.value))
    nl.store(out, result)
    return out


@pytest.mark.filterwarnings("ignore::nki.NkiPortabilityWarning")
@pytest.mark.parametrize(("name", "number"), CASES)
def test_the_result_is_that_of_the_table(monkeypatch: pytest.MonkeyPatch, name: str, number: int) -> None:
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")
    arguments, shape, dtype, buffer = SAMPLES[name][number]
    tiles = [
        np.eye(each.shape[0], math.prod(each.shape[1:])).astype(each.dtype).reshape(each.shape)
        for each in arguments.values()
        if isinstance(each, Tile)
    ]
    SEEN.clear()
    got = nki.simulate_kernel(kernel, *tiles, name=name, number=number)
    assert (got.shape, got.dtype) == (shape, dtype)
    assert SEEN[0] == (shape, dtype, buffer)

    row = FUNCTIONS[name]
    defaults = {key: each.default for key, each in inspect.signature(getattr(nisa, name)).parameters.items()}
    scope = NOTATION | defaults | arguments
    scope |= {key: value() for key, value in arguments.items() if key in LATE and callable(value)}
    assert eval(row.shape, scope) == shape
    assert (arguments.get("dtype") or eval(row.dtype, scope)) == dtype
    on_vector = arguments.get("engine") is nisa.vector_engine and row.on_vector
    assert (on_vector or row.buffer) == buffer


def test_every_function_with_a_result_has_a_sample() -> None:
    assert SAMPLES.keys() == RESULTS


def test_signatures_and_texts_are_those_of_the_table() -> None:
    functions = {name: each for name, each in vars(nisa).items() if type(each) is FunctionType and name in nisa.__all__}
    assert functions.keys() - FUNCTIONS.keys() == {"builtin_custom_op", "get_nc_version"}
    assert not FUNCTIONS.keys() - functions.keys()
    for name, row in FUNCTIONS.items():
        parameters = inspect.signature(functions[name]).parameters.values()
        positional = tuple(one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD)
        named = tuple(one.name for one in parameters if one.kind is one.KEYWORD_ONLY)
        assert (positional, (*positional, *named)) == (row.positional, row.parameters), name
        assert inspect.getdoc(functions[name]) == row.text, name
