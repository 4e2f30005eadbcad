"""The functions and operators of ``nl`` against NumPy, with their dtypes and broadcasting."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import nki.language as present
from neuronxcc import nki
from nki.base.errors import NkiError
from nki.base.warning import NkiWarning

_erf = np.vectorize(math.erf)


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


UNARY = {
    "abs": np.abs, "arctan": np.arctan, "ceil": np.ceil, "cos": np.cos, "erf": _erf, "exp": np.exp, "floor": np.floor,
    "gelu": lambda x: x * 0.5 * (1 + _erf(x / math.sqrt(2))), "log": lambda x: np.log(x), "negative": np.negative,
    "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))), "reciprocal": lambda x: 1 / x,
    "relu": lambda x: np.maximum(x, 0),
    "rsqrt": lambda x: 1 / np.sqrt(x), "sigmoid": _sigmoid, "sign": np.sign, "silu": lambda x: x * _sigmoid(x),
    "sin": np.sin, "softplus": lambda x: np.log1p(np.exp(x)), "sqrt": np.sqrt, "square": np.square, "tan": np.tan,
    "tanh": np.tanh, "trunc": np.trunc,
}  # fmt: skip
POSITIVE = ("log", "rsqrt", "sqrt", "reciprocal")


@pytest.mark.parametrize("name", UNARY)
def test_a_function_of_each_element(both: Any, data: Any, name: str) -> None:
    function = getattr(nl, name)

    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, function(nl.load(x)))
        return out

    x = data(4, 40) * 1.5
    x = np.abs(x) + np.float32(0.1) if name in POSITIVE else x
    np.testing.assert_allclose(both(kernel, x), UNARY[name](x.astype(np.float64)), rtol=2e-5, atol=2e-6)


BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "fmod", "mod", "power")
COMPARISONS = (
    "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or", "logical_xor",
)  # fmt: skip


@pytest.mark.parametrize("name", [*BINARY, *COMPARISONS])
@pytest.mark.parametrize("other", ["tile", "number", "column", "row"])
def test_a_function_of_two_operands(both: Any, data: Any, name: str, other: str) -> None:
    function = getattr(nl, name)

    @nki.jit
    def kernel(x, y):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        nl.store(out, function(tile, 0.75 if other == "number" else nl.load(y)))
        return out

    x = np.abs(data(4, 6)) + np.float32(0.25)
    y = np.abs(data(*{"tile": (4, 6), "number": (1, 1), "column": (4, 1), "row": (1, 6)}[other])) + np.float32(0.5)
    y = np.full((1, 1), 0.75, np.float32) if other == "number" else y
    want = getattr(np, name)(x.astype(np.float64), y.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(both(kernel, x, y), want, rtol=1e-5, atol=1e-6)


TRUTHS = {
    "&": (lambda a: (a > 0) & (a < 1), lambda x: (x > 0) & (x < 1)),
    "|": (lambda a: (a > 0.5) | (a < 0), lambda x: (x > 0.5) | (x < 0)),
    "^": (lambda a: (a > 0.5) ^ (a > 0), lambda x: (x > 0.5) ^ (x > 0)),
    "~": (lambda a: ~(a > 0), lambda x: ~(x > 0)),
    "& with True": (lambda a: (a > 0) & True, lambda x: x > 0),
    "True ^": (lambda a: True ^ (a > 0), lambda x: ~(x > 0)),
    "several": (lambda a: ~((a > 0) & (a < 0.5)) | (a == 0.25), lambda x: ~((x > 0) & (x < 0.5))),
    "bitwise_and": (lambda a: nl.bitwise_and(a > 0, a < 1, dtype=nl.float32), lambda x: (x > 0) & (x < 1)),
    "invert": (lambda a: nl.invert(a > 0), lambda x: ~(x > 0)),
    "logical_and": (lambda a: nl.logical_and(a > 0, a < 0.5), lambda x: (x > 0) & (x < 0.5)),
    "logical_not": (lambda a: nl.logical_not(a > 0), lambda x: ~(x > 0)),
    "with uint8": (lambda a: (a < 0.5) & nl.greater(a, 0, dtype=nl.uint8), lambda x: (x > 0) & (x < 0.5)),
    "with int32": (lambda a: nl.greater(a, 0, dtype=nl.int32) & (a < 0.5), lambda x: (x > 0) & (x < 0.5)),
    "| with a larger number": (lambda a: (a > 0) | 2, lambda x: (x > 0).astype(np.uint8) | 2),
    "shifted": (lambda a: (a > 0) << 3, lambda x: 8 * (x > 0)),
    "bits as truth": (lambda a: nl.bitwise_and(nl.greater(a, 0, dtype=nl.uint8) << 2, 6, dtype=nl.bool_),
                      lambda x: x > 0),
    "tensor_tensor": (lambda a: nisa.tensor_tensor(a > 0, a < 0.5, op=np.bitwise_and), lambda x: (x > 0) & (x < 0.5)),
    "tensor_scalar": (lambda a: nisa.tensor_scalar(a > 0, np.bitwise_and, 1, op1=np.bitwise_xor, operand1=1),
                      lambda x: ~(x > 0)),
    "tensor_scalar invert": (lambda a: nisa.tensor_scalar(a > 0, np.invert, 0), lambda x: ~(x > 0)),
    "where": (lambda a: nl.where((a > 0) & (a < 0.5), a, 7.0), lambda x: np.where((x > 0) & (x < 0.5), x, 7)),
    "product": (lambda a: ((a > 0) & (a < 0.5)) * a, lambda x: np.where((x > 0) & (x < 0.5), x, 0)),
}  # fmt: skip


@pytest.mark.parametrize("case", TRUTHS)
def test_comparisons_are_joined(both: Any, data: Any, case: str) -> None:
    joined, wanted = TRUTHS[case]

    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
        nl.store(out, joined(nl.load(x)))
        return out

    x = data(20, 33)
    assert (both(kernel, x) == wanted(x).astype(np.float32)).all()


def test_a_tile_of_truths_is_assigned_and_updated(both: Any, data: Any) -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=nl.bool_, buffer=nl.shared_hbm)
        a = nl.load(x)
        chosen = nl.ndarray(x.shape, dtype=nl.bool_)
        chosen[...] = (a > 0) | (a < -0.5)
        chosen &= a < 0.5
        nl.store(out, chosen)
        return out

    x = data(20, 33)
    found = both(kernel, x)
    assert found.dtype == np.bool_
    assert (found == (((x > 0) | (x < -0.5)) & (x < 0.5))).all()


def test_bits_of_a_truth_and_a_float_are_refused(data: Any) -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
        a = nl.load(x)
        nl.store(out, (a > 0) & a)
        return out

    with pytest.raises(NkiError, match="only integers have bits to combine"):
        kernel(data(4, 4))


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"])
def test_bits(both: Any, name: str) -> None:
    function = getattr(nl, name)

    @nki.jit
    def kernel(x, y):
        out = nl.ndarray((2, *x.shape), dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out[0], function(nl.load(x), nl.load(y)))
        nl.store(out[1], function(nl.load(x), 3))
        return out

    x = np.arange(24, dtype=np.uint32).reshape(4, 6) * 1237
    y = np.arange(24, dtype=np.uint32).reshape(4, 6) % 7
    one, two = both(kernel, x, y)
    assert (one == getattr(np, name)(x, y)).all()
    assert (two == getattr(np, name)(x, np.uint32(3))).all()


def test_operators(both: Any, data: Any) -> None:
    @nki.jit
    def kernel(x, y):
        out = nl.ndarray((6, *x.shape), dtype=x.dtype, buffer=nl.shared_hbm)
        a, b = nl.load(x), nl.load(y)
        nl.store(out[0], 1 - a * b + b / 2)
        nl.store(out[1], (2 / (a**2 + 1)) - -b)
        nl.store(out[2], (a > b) * 2.0 + (a <= 0.5))
        c = nl.copy(a)
        c += b
        c *= 2
        nl.store(out[3], c)
        c[...] -= a
        c[:, 0:2] = 7
        nl.store(out[4], c)
        nl.store(out[5], nl.where(a > b, a, 0.0))
        return out

    x, y = data(4, 6), data(4, 6)
    got = both(kernel, x, y)
    want = [
        1 - x * y + y / 2,
        2 / (x**2 + 1) + y,
        (x > y) * 2.0 + (x <= 0.5),
        (x + y) * 2,
        (x + y) * 2 - x,
        np.where(x > y, x, 0),
    ]
    want[4][:, 0:2] = 7
    np.testing.assert_allclose(got, np.stack(want).astype(np.float32), rtol=1e-5, atol=1e-6)


REDUCTIONS = ("sum", "max", "min", "prod", "mean", "var", "all")


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("axis", [1, -1, [2], (1, 2)])
def test_reductions(both: Any, data: Any, name: str, axis: Any) -> None:
    function = getattr(nl, name)
    axes = (1, 2) if axis == (1, 2) else (2,) if axis in (-1, [2]) else (1,)
    shape = {1: (4, 5), 2: (4, 3)}.get(axes[0], (4, 1)) if len(axes) == 1 else (4, 1)

    @nki.jit
    def kernel(x, axis):
        out = nl.ndarray(shape, dtype=x.dtype, buffer=nl.shared_hbm)
        result = function(nl.load(x), axis=axis)
        assert result.shape == shape
        nl.store(out, result)
        return out

    x = data(4, 3, 5)
    want = getattr(np, name)(x.astype(np.float64), axis=axes).reshape(shape)
    np.testing.assert_allclose(both(kernel, x, axis), want, rtol=1e-4, atol=1e-5)


DTYPES = [
    (np.int32, np.float32, np.float32), (np.float16, nl.bfloat16, np.float32), (np.int8, np.uint8, np.int16),
    (np.int32, np.uint32, np.float32), (nl.float8_e4m3, nl.float8_e5m2, nl.bfloat16), (np.int8, np.int32, np.int32),
    (nl.bfloat16, np.int32, nl.bfloat16),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other", "result"), DTYPES)
def test_promotion(both: Any, one: Any, other: Any, result: Any) -> None:
    @nki.jit
    def kernel(x, y):
        out = nl.ndarray(x.shape, dtype=np.float32, buffer=nl.shared_hbm)
        total = nl.load(x) + nl.load(y)
        assert total.dtype == result
        nl.store(out, total)
        return out

    x, y = np.ones((2, 3), one), np.full((2, 3), 2, other)
    assert (both(kernel, x, y) == 3).all()


def test_numbers_are_weak(both: Any) -> None:
    @nki.jit
    def kernel(x):
        tile = nl.load(x)
        assert (tile + 1).dtype == np.int16
        assert (tile + 1.5).dtype == np.float32
        assert (tile / 2).dtype == np.float32
        assert (tile > 1).dtype == np.bool_
        out = nl.ndarray(x.shape, dtype=np.float32, buffer=nl.shared_hbm)
        nl.store(out, tile / 2)
        return out

    x = np.arange(6, dtype=np.int16).reshape(2, 3)
    assert (both(kernel, x) == x / 2).all()


def test_compositions(both: Any, data: Any) -> None:
    @nki.jit
    def kernel(x, w, indices):
        rows, columns = x.shape
        out = nl.ndarray((4, rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
        turned = nl.ndarray((columns, rows), dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        nl.store(out[0], nl.softmax(tile, axis=1))
        nl.store(out[1], nl.rms_norm(tile, nl.load(w), axis=1, n=columns))
        nl.store(out[2], nl.gather_flattened(tile, nl.load(indices)))
        nl.store(out[3], nl.matmul(tile, nl.load(nl.shared_identity_matrix(columns), dtype=x.dtype)))
        nl.store(turned, nl.load_transpose2d(x) + nl.transpose(tile))
        return out, turned

    x, w = data(8, 16), data(8, 16)
    indices = np.random.default_rng(1).integers(0, 16, (8, 16)).astype(np.uint32)
    out, turned = both(kernel, x, w, indices)
    raised = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(out[0], raised / raised.sum(1, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(out[1], x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6) * w, rtol=1e-5)
    assert (out[2] == np.take_along_axis(x, indices.astype(int), 1)).all()
    assert (out[3] == x).all()
    assert (turned == 2 * x.T).all()


def test_random_numbers_repeat(both: Any) -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray((2, 8, 64), dtype=np.float32, buffer=nl.shared_hbm)
        nl.random_seed(5)
        nl.store(out[0], nl.rand((8, 64), dtype=np.float32))
        nl.store(out[1], nl.dropout(nl.load(x), 0.5))
        return out

    drawn, kept = both(kernel, np.ones((8, 64), np.float32))
    assert drawn.min() >= 0 and drawn.max() < 1 and 0.4 < drawn.mean() < 0.6
    assert set(np.unique(kept)) == {0.0, 1.0}


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (lambda x: nl.exp(x), "unsupported_memory"),
        (lambda x: nl.add(nl.load(x), "one"), "not a tile"),
        (lambda x: nl.load(x) + nl.load(x[0:1]), "num_partition_mismatch"),
        (lambda x: nl.sum(nl.load(x), axis=0), "only the free dimensions"),
        (lambda x: nl.matmul(nl.load(x), nl.load(x[0:2])), "num_partition_mismatch"),
        (lambda x: nl.ndarray((256, 4), dtype=np.float32), "num_partition_exceed_arch_limit"),
        (lambda x: nl.zeros((4, 4), dtype=np.float32, buffer=nl.shared_hbm), "hbm_tensor_with_init_value"),
        (lambda x: bool(nl.load(x) > 0), "ambiguous_tensor_truth_value"),
        (lambda x: [row for row in nl.load(x)], "dynamic_control_flow"),  # noqa: C416
        (lambda x: nl.program_id(0) + nl.program_id(1), "the launch grid has 0 axes"),
        (lambda x: nl.load(x).reshape((8, 2)), "would change its partitions"),
        (lambda x: nl.load(x).assert_shape((4, 5)), "annotation_shape_mismatch"),
    ],
)  # fmt: skip
def test_what_beta_1_refuses(data: Any, body: Any, text: str) -> None:
    @nki.jit
    def kernel(x):
        body(x)
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x))
        return out

    with pytest.raises(NkiError, match=text):
        kernel(data(4, 4))


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (lambda t: nl.exp(t, axs=1), "`nl.exp` has no parameter `axs` and ignores it; it takes x, dtype, mask"),
        (lambda t: nl.matmul(t, t, transpose_a=True), "ignores it; did you mean `transpose_x`"),
        (lambda t: nisa.tensor_scalar(t, np.add, 1.0, oprand1=2.0), "ignores it; did you mean `operand1`"),
        (lambda t: nisa.activation(dst=t, op=np.exp, data=t), r"write `t\[...\] = nisa.activation\(…\)`"),
    ],
)  # fmt: skip
def test_keywords_that_no_parameter_has_are_ignored_with_a_warning(data: Any, body: Any, text: str) -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, body(nl.load(x)))
        return out

    with pytest.warns(NkiWarning, match=text):
        kernel(data(4, 4))


@pytest.mark.filterwarnings("error")
def test_hints_to_the_compiler_are_ignored_in_silence(both: Any, data: Any) -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        total = nl.zeros((4, 4), dtype=x.dtype, lazy_initialization=True)
        for _ in nl.affine_range(2, precise_schedule=True):
            total += nisa.tensor_copy(nl.load(x), name="copy")
        nl.store(out, total)
        return out

    x = data(4, 4)
    np.testing.assert_array_equal(both(kernel, x), 2 * x)


def test_a_result_that_nothing_uses(data: Any) -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        nl.exp(tile)
        nl.store(out, tile)
        return out

    with pytest.warns(NkiWarning, match=r"the result of `nl.exp\(tile\)` is not used"):
        kernel(data(4, 4))


def test_functions_of_the_present_package_are_named(data: Any) -> None:
    @nki.jit
    def kernel(x):
        tile = present.load(x)
        nl.store(x, tile)
        return x

    with pytest.raises(NkiError, match=r"`present.load` is of `nki`, this kernel of `neuronxcc.nki`"):
        kernel(data(4, 4))


def test_functions_of_numpy_on_tiles(both: Any, data: Any) -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        scaled = np.float32(2) * np.exp(tile) - np.maximum(tile, 0.5) + np.max(tile, axis=1)
        nl.store(out, np.float32(1) - scaled * np.mean(np.absolute(tile), axis=[1]))
        return out

    x = data(8, 16)
    scaled = 2 * np.exp(x) - np.maximum(x, 0.5) + x.max(1, keepdims=True)
    np.testing.assert_allclose(both(kernel, x), 1 - scaled * np.abs(x).mean(1, keepdims=True), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("function", [np.cumsum, np.fft.fft, np.hypot], ids=lambda function: function.__name__)
def test_a_function_of_numpy_that_nl_does_not_have(data: Any, function: Any) -> None:
    @nki.jit
    def kernel(x):
        tile = nl.load(x)
        return function(tile, tile)

    with pytest.raises(NkiError, match=f"np.{function.__name__} of the tensor 'tile' .8, 16.: neuronxcc"):
        kernel(data(8, 16))
