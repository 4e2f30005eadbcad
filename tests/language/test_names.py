"""The names of ``nki.language``: every operator has one, and is the table's own object."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import nki
from nki import isa as nisa
from nki import language as nl
from nki.isa.tables.operators import OPS
from nki.language import operators


def test_every_operator_of_the_tables_has_its_name() -> None:
    assert operators.__all__ == sorted(OPS)
    assert all(getattr(nl, name) is op for name, op in OPS.items())


def test_every_public_name_exists() -> None:
    assert not [name for name in nl.__all__ if not hasattr(nl, name)]


DOCUMENTED = [
    "ndarray", "zeros", "ones", "full", "zeros_like", "empty_like", "shared_constant",
    "shared_identity_matrix", "rand", "random_seed", "NkiTensor", "load", "load_transpose2d", "store", "copy",
    "matmul", "transpose", "abs", "abs_max", "abs_min", "add", "arctan", "ceil", "cos", "divide", "exp",
    "floor", "fmod", "log", "maximum", "minimum", "mod", "multiply", "negative", "power", "reciprocal",
    "rsqrt", "sign", "sin", "sqrt", "square", "subtract", "tan", "tanh", "trunc", "relu", "sigmoid", "silu",
    "silu_dx", "gelu", "gelu_dx", "gelu_apprx_sigmoid", "gelu_apprx_sigmoid_dx", "gelu_apprx_tanh", "mish",
    "softplus", "softmax", "erf", "erf_dx", "dropout", "rms_norm", "all", "max", "mean", "min", "prod", "sum",
    "var", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and",
    "logical_or", "logical_xor", "logical_not", "bitwise_and", "bitwise_or", "bitwise_xor", "invert",
    "left_shift", "right_shift", "broadcast_to", "ds", "expand_dims", "where", "gather_flattened",
    "affine_range", "dynamic_range", "sequential_range", "static_range", "fori_loop", "while_loop", "psum",
    "sbuf", "hbm", "private_hbm", "shared_hbm", "is_psum", "is_sbuf", "is_hbm", "is_on_chip", "MemoryRegion",
    "NKIObject", "device_print", "no_reorder", "program_id", "num_programs", "program_ndim", "bool_", "int8",
    "int16", "int32", "uint8", "uint16", "uint32", "float16", "float32", "bfloat16", "tfloat32",
    "float8_e4m3", "float8_e5m2", "float8_e4m3fn", "float8_e8m0fnu", "float8_e5m2_x4", "float8_e4m3fn_x4",
    "float4_e2m1fn_x4", "DType", "tile_size", "prelu", "bypass", "average",
]  # fmt: skip
"""The public names of ``nki.language`` in NKI 0.6."""

NO_FUNCTION = {"average", "bypass", "prelu"}
"""Operators that NKI gives no function: they are for ``op=`` arguments alone."""


SINCE_0_7 = [
    "NkiBlockGrid", "NkiGrid", "NkiTileGrid", "alloc_blocks", "alloc_tiles", "blocks", "int64", "tiles", "uint64",
]  # fmt: skip
"""Names that NKI 0.7 added."""


@pytest.mark.parametrize("name", [*DOCUMENTED, *SINCE_0_7])
def test_documented_names_exist(name: str) -> None:
    assert hasattr(nl, name)
    assert name in nl.__all__


@pytest.mark.parametrize("name", [name for name in OPS if name not in NO_FUNCTION])
def test_operators_are_functions_that_say_what_they_do(name: str) -> None:
    op = OPS[name]
    assert list(inspect.signature(op).parameters) in (["x", "dtype"], ["x", "y", "dtype"])
    assert "``x``" in (op.__doc__ or "")
    assert "nisa." in (op.__doc__ or "")


def test_hbm_is_another_name_of_private_hbm() -> None:
    assert nl.hbm is nl.private_hbm is nl.MemoryRegion.private_hbm
    assert nl.is_hbm(nl.private_hbm) and nl.hbm is not nl.shared_hbm


def test_max_and_min_are_operators_of_instructions_too() -> None:
    """The reference writes them so for nki.isa.tensor_scalar_reduce."""

    def kernel(x):
        tile, out = nl.load(x), nl.ndarray((2, 2), x.dtype, buffer=nl.shared_hbm)
        found = nl.ndarray((2, 2), x.dtype)
        nisa.tensor_scalar_reduce(tile, tile, nl.add, 1.0, nl.max, found[:, 0:1])
        nisa.tensor_reduce(found[:, 1:2], nl.min, tile, axis=1)
        nl.store(out, found)
        return out

    x = np.array([[3.0, -1.0, 2.0], [0.0, 5.0, 9.0]], np.float32)
    assert np.array_equal(nki.simulate(kernel)(x), [[4, 0], [10, 1]])
