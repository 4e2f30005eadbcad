"""The functions of ``nki.language`` against NumPy: the same bits compiled and simulated, values in bounds."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki import NkiDeprecationWarning, NkiPortabilityWarning
from nki.isa.activations import ACTIVATIONS
from nki.language.operands import promoted

BF16 = ml_dtypes.bfloat16
EPSILON = 2.0**-23
quiet = pytest.mark.filterwarnings("ignore::nki.base.warning.NkiPortabilityWarning")


def of(fn: Callable[..., Any], count: int) -> Any:
    """A kernel that stores what ``fn`` makes of ``count`` arguments; arrays come as tiles in SBUF."""

    def stored(made):
        if made.buffer == nl.psum:
            made = nl.copy(made)
        out = nl.ndarray(made.shape, made.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, made)
        return out

    def one(a):
        return stored(fn(nl.load(a)))

    def two(a, b):
        return stored(fn(nl.load(a), nl.load(b)))

    def three(a, b, c):
        return stored(fn(nl.load(a), nl.load(b), nl.load(c)))

    return nki.jit((one, two, three)[count - 1])


def computed(fn: Callable[..., Any], *arrays: Any) -> Any:
    """What ``fn`` makes of tiles with the arrays' contents, after both executors have agreed on it to the bit."""
    kernel = of(fn, len(arrays))
    native, eager = kernel(*arrays), nki.simulate(kernel)(*arrays)
    assert native.dtype == eager.dtype
    assert native.tobytes() == eager.tobytes()
    return native


def numbers(*shape: int, kind: Any = np.float32, scale: float = 3.0) -> Any:
    return (np.random.default_rng(sum(shape)).standard_normal(shape) * scale).astype(kind)


def wide(a: Any) -> Any:
    return np.asarray(a).astype(np.float64)


def test_the_tests_compare_with_something() -> None:
    assert not np.array_equal(computed(nl.exp, numbers(3, 5)), numbers(3, 5))


BINARY: dict[str, tuple[Callable[..., Any], float]] = {
    "add": (np.add, 0.5),
    "subtract": (np.subtract, 0.5),
    "multiply": (np.multiply, 0.5),
    "divide": (np.divide, 0.5),
    "maximum": (np.maximum, 0),
    "minimum": (np.minimum, 0),
    "power": (lambda x, y: np.abs(x) ** y, 2),
    "fmod": (np.fmod, 0.5),
    "mod": (np.mod, 1),
    "equal": (np.equal, 0),
    "not_equal": (np.not_equal, 0),
    "less": (np.less, 0),
    "less_equal": (np.less_equal, 0),
    "greater": (np.greater, 0),
    "greater_equal": (np.greater_equal, 0),
    "logical_and": (np.logical_and, 0),
    "logical_or": (np.logical_or, 0),
    "logical_xor": (np.logical_xor, 0),
}
"""NumPy's function and the bound, in units in the last place of float32."""


def within(found: Any, want: Any, ulp: Any, floor: float = 0.0) -> None:
    want = wide(want)
    bound = np.maximum(ulp * np.spacing(np.abs(want).astype(np.float32)).astype(np.float64), floor)
    assert found.shape == want.shape
    assert np.all(np.abs(wide(found) - want) <= bound), np.max(np.abs(wide(found) - want) - bound)


def pair(name: str) -> tuple[Any, Any]:
    a, b = numbers(9, 70), numbers(9, 70)[::-1].copy()
    a[0, :4], b[0, :6] = b[0, :4], [0.5, 1.5, 2.5, 4.0, 1.0, 3.0]
    return (np.abs(a), b) if name == "power" else (a, b)


@quiet
@pytest.mark.parametrize("name", BINARY)
def test_two_tiles(name: str) -> None:
    a, b = pair(name)
    reference, ulp = BINARY[name]
    found = computed(getattr(nl, name), a, b)
    assert found.dtype == np.float32
    within(found, reference(wide(a), wide(b)), ulp)


@quiet
@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("number", [2, 1.5, np.float32(0.75)])
def test_a_tile_and_a_number_on_either_side(name: str, number: Any) -> None:
    a, _ = pair(name)
    a[1, :2] = number
    reference, ulp = BINARY[name]
    fn = getattr(nl, name)
    within(computed(lambda x: fn(x, number), a), reference(wide(a), float(number)), ulp)
    within(computed(lambda x: fn(number, x), a), reference(float(number), wide(a)), ulp)


@pytest.mark.parametrize("name", ["abs_max", "abs_min"])
def test_the_larger_or_smaller_of_two_by_size_needs_gen4(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = numbers(4, 9), numbers(4, 9)[:, ::-1].copy()
    b[0] = -a[0]
    first = np.abs(a) > np.abs(b) if name == "abs_max" else np.abs(a) < np.abs(b)
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")
    with pytest.raises(nki.NkiError, match=name):
        computed(getattr(nl, name), a, b)
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn3")
    np.testing.assert_array_equal(computed(getattr(nl, name), a, b), np.where(first, a, b))


BITS = {
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "left_shift": np.left_shift,
    "right_shift": np.right_shift,
}


@pytest.mark.parametrize("name", BITS)
@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.uint32])
def test_bits(name: str, kind: Any) -> None:
    rng = np.random.default_rng(3)
    a = rng.integers(0, np.iinfo(kind).max, (5, 40), kind, endpoint=True)
    b = rng.integers(0, 8 if "shift" in name else np.iinfo(kind).max, (5, 40), kind)
    fn, reference = getattr(nl, name), BITS[name]
    np.testing.assert_array_equal(computed(fn, a, b), reference(a, b))
    np.testing.assert_array_equal(computed(lambda x: fn(x, 5), a), reference(a, kind(5)))
    np.testing.assert_array_equal(computed(lambda x: fn(90, x), b), reference(kind(90), b))
    np.testing.assert_array_equal(computed(nl.invert, a), ~a)


def test_bits_of_two_widths_and_in_another_type() -> None:
    a, b = np.array([[200, 255]], np.uint8), np.array([[0x10FF, 0xFF00]], np.uint16)
    np.testing.assert_array_equal(computed(nl.bitwise_xor, a, b), a ^ b)
    found = computed(lambda x, y: nl.bitwise_or(x, y, dtype=nl.float32), a, b)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, (a | b).astype(np.float32))
    np.testing.assert_array_equal(computed(lambda x: nl.invert(x, dtype=nl.int32), a), (~a).astype(np.int32))


def test_whole_numbers_of_32_bits_are_exact() -> None:
    a, b = np.array([[2**30 + 1, -7]], np.int32), np.array([[3, 2**24 + 1]], np.int32)
    np.testing.assert_array_equal(computed(nl.add, a, b), a + b)
    np.testing.assert_array_equal(computed(nl.copy, a), a)


KINDS = [
    (nl.float32, nl.bfloat16, nl.float32),
    (nl.float16, nl.bfloat16, nl.float32),
    (nl.float8_e4m3, nl.float8_e5m2, nl.bfloat16),
    (nl.float8_e5m2, nl.float16, nl.float16),
    (nl.tfloat32, nl.bfloat16, nl.tfloat32),
    (nl.int32, nl.bfloat16, nl.bfloat16),
    (nl.bool_, nl.int8, nl.int8),
    (nl.int16, nl.int32, nl.int32),
    (nl.uint8, nl.uint32, nl.uint32),
    (nl.int8, nl.uint8, nl.int16),
    (nl.int32, nl.uint16, nl.int32),
    (nl.int32, nl.uint32, nl.float32),
    (nl.bool_, nl.bool_, nl.bool_),
]


@pytest.mark.parametrize(("a", "b", "both"), KINDS, ids=str)
def test_what_two_types_make_together(a: Any, b: Any, both: Any) -> None:
    assert promoted(a, b) is promoted(b, a) is both


@pytest.mark.parametrize(
    ("fn", "kinds", "want"),
    [
        (nl.add, (BF16, np.float32), np.float32),
        (nl.less, (np.int16, np.int16), np.int16),
        (lambda x: nl.multiply(x, 0.5), (np.int32,), np.float32),
        (lambda x: nl.multiply(x, 2), (np.int32,), np.int32),
        (lambda x: nl.greater(x, 0.5), (np.int32,), np.int32),
        (lambda x: nl.add(1.5, x), (BF16,), BF16),
        (lambda x: nl.add(x, 1, dtype=nl.uint8), (np.float32,), np.uint8),
        (nl.exp, (BF16,), BF16),
        (lambda x: nl.exp(x, dtype=nl.float32), (BF16,), np.float32),
        (lambda x: nl.sum(x, axis=1), (BF16,), BF16),
        (lambda x: nl.mean(x, axis=1, dtype=nl.float32), (np.int8,), np.float32),
        (nl.softmax, (BF16,), BF16),
        (nl.floor, (BF16,), BF16),
        (nl.tan, (np.float16,), np.float16),
        (lambda x: nl.where(x, x, 0.0), (BF16,), BF16),
        (lambda x: nl.where(x, 1.0, 0.0), (np.int8,), np.float32),
        (lambda x: nl.broadcast_to(x, (2, 3), dtype=nl.float16), (np.float32,), np.float16),
        (nl.transpose, (BF16,), BF16),
        (lambda x: nl.transpose(x, dtype=nl.float32), (BF16,), np.float32),
        (lambda x: nl.matmul(x, x, transpose_x=True), (BF16,), np.float32),
        (lambda x: nl.zeros_like(x), (BF16,), BF16),
    ],
)
def test_the_type_of_the_result(fn: Any, kinds: tuple[Any, ...], want: Any) -> None:
    arrays = [np.array([[1, 2, 3], [4, 5, 6]]).astype(kind) for kind in kinds]
    assert computed(fn, *arrays).dtype == want


SHAPES = [
    ((5, 7), (5, 1)),
    ((5, 1), (5, 7)),
    ((5, 7), (1, 7)),
    ((1, 7), (5, 1)),
    ((1, 1), (5, 7)),
    ((4, 3, 6), (4, 1)),
    ((4, 3, 1), (4, 1, 6)),
    ((1, 3, 1), (4, 3, 6)),
]


@pytest.mark.parametrize(("one", "other"), SHAPES, ids=str)
def test_dimensions_of_size_one_are_repeated(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    a, b = numbers(*one), numbers(*other)
    longer = max(len(one), len(other))
    left, right = (t.reshape(len(t), *(1,) * (longer - 1)) if t.ndim < longer else t for t in (a, b))
    with pytest.warns(NkiPortabilityWarning, match=r"nl.subtract repeats .* of one shape"):
        found = computed(nl.subtract, a, b)
    np.testing.assert_array_equal(found, left - right)


def test_operands_in_psum() -> None:
    def both(x, y):
        left, right = nl.matmul(x, y, transpose_x=True), nl.matmul(y, x, transpose_x=True)
        return nl.multiply(nl.add(left, right), nl.maximum(left, 0.0))

    a, b = np.eye(6, dtype=np.float32), numbers(6, 6)
    np.testing.assert_array_equal(computed(both, a, b), (b + b.T) * np.maximum(b, 0))


def test_power_and_rsqrt_reach_psum_by_a_copy() -> None:
    eye, b = np.eye(6, dtype=np.float32), np.abs(numbers(6, 6)) + 1
    found = computed(lambda x, y: nl.power(nl.matmul(x, y, transpose_x=True), y), eye, b)
    within(found, wide(b) ** wide(b), 2)
    with pytest.warns(NkiPortabilityWarning, match="rsqrt of a tile in PSUM"):
        found = computed(lambda x, y: nl.rsqrt(nl.matmul(x, y, transpose_x=True)), eye, b)
    within(found, 1 / np.sqrt(wide(b)), 0.51)


EXACT: dict[str, Callable[[Any], Any]] = {
    "logical_not": np.logical_not,
    "negative": np.negative,
    "square": np.square,
    "copy": np.positive,
    "relu": lambda x: np.maximum(x, 0),
    "abs": np.abs,
    "sign": np.sign,
}


@pytest.mark.parametrize("name", EXACT)
def test_one_tile_exactly(name: str) -> None:
    a = numbers(6, 65)
    a[0, :3] = 0, 1, -2
    np.testing.assert_array_equal(computed(getattr(nl, name), a), EXACT[name](a).astype(np.float32))


@pytest.mark.parametrize("name", [n for n in ACTIVATIONS if n not in {"prelu", "sin", "copy"}])
def test_one_tile(name: str) -> None:
    a = numbers(6, 65)
    a = np.abs(a) + np.float32(0.01) if name in {"log", "sqrt", "rsqrt"} else a
    row = ACTIVATIONS[name]
    within(computed(getattr(nl, name), a), row.reference(wide(a)), max(row.ulp, 0.5), row.floor)


@pytest.mark.parametrize("scale", [1.0, 20.0, 1000.0, 2.0**14])
def test_angles_of_any_size(scale: float) -> None:
    """The angle that is left of whole turns is off by 5e-7 at most, which is what the tangent's bound says too."""
    a = np.clip(numbers(8, 400, scale=scale), -(2.0**16), 2.0**16)
    within(computed(nl.sin, a), np.sin(wide(a)), 0, 5e-7)
    within(computed(nl.cos, a), np.cos(wide(a)), 0, 5e-7)
    want = np.tan(wide(a))
    assert np.all(np.abs(wide(computed(nl.tan, a)) - want) <= 1e-6 * (1 + want * want) * (1 + 1e-3 * np.abs(want)))


def test_the_sine_of_nine_and_of_infinity() -> None:
    """The Scalar engine by itself gives 27.65 there."""
    found = computed(nl.sin, np.array([[9.0, np.inf, np.nan, 3e38]], np.float32))
    assert abs(found[0, 0] - 0.4121184852) < 5e-7
    assert np.isnan(found[0, 1:3]).all()
    assert abs(found[0, 3]) <= 1


ODD = [0.0, -0.5, 0.5, 1.5, -1.5, 2.5, 2**22 + 0.5, -(2**22) - 0.5, 2**23 - 0.5, 2**23 + 1, 2**31, -3e9, 1e30]


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc"])
def test_whole_parts(name: str) -> None:
    a = np.concatenate([np.array([*ODD, np.inf, -np.inf, np.nan]), numbers(1, 200, scale=50)[0]]).astype(np.float32)[
        None
    ]
    reference = getattr(np, name)
    np.testing.assert_array_equal(computed(getattr(nl, name), a), reference(a))
    low = a.astype(BF16)
    np.testing.assert_array_equal(wide(computed(getattr(nl, name), low)), reference(wide(low)))
    whole = np.array([[2**31 - 1, -5, 0]], np.int32)
    np.testing.assert_array_equal(computed(getattr(nl, name), whole), whole)


AXES = [((6, 9), 1), ((6, 9), [-1]), ((4, 3, 5), (1, 2)), ((4, 3, 5), 2), ((4, 2, 3, 5), (2, 3))]


def shaped(want: Any) -> Any:
    return want[:, None] if want.ndim == 1 else want


@pytest.mark.parametrize("name", ["max", "min", "sum", "mean", "prod"])
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize(("shape", "axis"), AXES, ids=str)
def test_reductions(shape: tuple[int, ...], axis: Any, keep: bool, name: str) -> None:
    a = numbers(*shape, scale=1.2)
    fn = getattr(nl, name)
    found = computed(lambda x: fn(x, axis, keepdims=keep), a)
    want = shaped(getattr(np, name)(wide(a), tuple(axis) if isinstance(axis, list) else axis, keepdims=keep))
    count = a[0].size
    if name == "prod":
        within(found, want, count)
    else:
        within(found, want, 0, 0 if name in {"max", "min"} else count * EPSILON * np.abs(wide(a)).sum())


def test_a_sum_goes_from_left_to_right() -> None:
    a = numbers(3, 300)
    np.testing.assert_array_equal(computed(lambda x: nl.sum(x, 1), a), np.add.accumulate(a, 1)[:, -1:])


@pytest.mark.parametrize(("shape", "axis"), AXES, ids=str)
def test_variance_keeps_its_dimensions(shape: tuple[int, ...], axis: Any) -> None:
    a = numbers(*shape) + np.float32(10)
    axes = tuple(axis) if isinstance(axis, list) else axis
    want = wide(a).var(axis=axes, keepdims=True)
    found = computed(lambda x: nl.var(x, axis), a)
    within(found, want, 0, 60 * EPSILON * float(want.max()))


def test_all_elements() -> None:
    a = np.ones((4, 6), np.float32)
    a[1, 3] = 0
    np.testing.assert_array_equal(computed(lambda x: nl.all(x, 1), a)[:, 0], [1, 0, 1, 1])
    found = computed(lambda x: nl.all(x, 1, dtype=nl.uint8), a)
    assert found.dtype == np.uint8


def test_dimensions_in_the_middle_are_reduced_through_a_view() -> None:
    a = numbers(4, 3, 5)
    with pytest.warns(NkiPortabilityWarning, match="are not its last dimensions"):
        found = computed(lambda x: nl.max(x, axis=[1]), a)
    np.testing.assert_array_equal(found, a.max(1))


@pytest.mark.parametrize(("shape", "axis"), AXES, ids=str)
def test_softmax(shape: tuple[int, ...], axis: Any) -> None:
    a = numbers(*shape, scale=20.0)
    axes = tuple(axis) if isinstance(axis, list) else axis
    e = np.exp(wide(a) - wide(a).max(axes, keepdims=True))
    want = e / e.sum(axes, keepdims=True)
    # The rounded distance from the maximum is an error of the exponent; the rest is the sum and three roundings.
    far = np.abs(wide(a) - wide(a).max(axes, keepdims=True))
    within(computed(lambda x: nl.softmax(x, axis), a), want, far + a[0].size + 4, 1e-37)


def test_softmax_of_the_last_dimension_by_default() -> None:
    found = computed(nl.softmax, np.full((3, 4), 1e30, np.float32))
    np.testing.assert_array_equal(found, np.full((3, 4), 0.25))


@pytest.mark.parametrize("rows", [5, 1])
def test_rms_norm(rows: int) -> None:
    a, w = numbers(5, 64), numbers(rows, 64)
    want = wide(a) / np.sqrt((wide(a) ** 2).sum(1, keepdims=True) / 64 + 1e-5) * wide(w)

    def fn(x, w):
        return nl.rms_norm(x, w, axis=1, n=64, epsilon=1e-5)

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = computed(fn, a, w)
    assert (rows == 1) == any(issubclass(w.category, NkiPortabilityWarning) for w in told)
    within(found, want, 12)
    rough = computed(
        lambda x, w: nl.rms_norm(x, w, 1, 64, compute_dtype=nl.bfloat16, dtype=nl.float32), a, numbers(5, 64)
    )
    np.testing.assert_allclose(rough, wide(a) / np.sqrt((wide(a) ** 2).mean(1, keepdims=True)) * numbers(5, 64), 0.03)


def test_where() -> None:
    a, b = numbers(5, 30), numbers(5, 30)[::-1].copy()
    c = (a > 0).astype(np.float32)
    np.testing.assert_array_equal(computed(nl.where, c, a, b), np.where(c, a, b))
    np.testing.assert_array_equal(computed(lambda c, x: nl.where(c, x, -1.5), c, a), np.where(c, a, np.float32(-1.5)))
    np.testing.assert_array_equal(computed(lambda c, x: nl.where(c, 2, x), c, a), np.where(c, np.float32(2), a))
    mixed = computed(nl.where, c.astype(np.uint8), a.astype(BF16), b)
    np.testing.assert_array_equal(mixed, np.where(c, a.astype(BF16).astype(np.float32), b))
    with pytest.warns(NkiPortabilityWarning, match="nl.where repeats condition"):
        found = computed(nl.where, c[:, :1].copy(), a, b)
    np.testing.assert_array_equal(found, np.where(c[:, :1], a, b))


def test_matrix_products() -> None:
    a, b = numbers(64, 100), numbers(64, 512)
    bound = 64 * EPSILON * float((np.abs(a.T) @ np.abs(b)).max())
    found = computed(lambda x, y: nl.matmul(x, y, transpose_x=True), a, b)
    within(found, wide(a).T @ wide(b), 0, bound)
    with pytest.warns(NkiPortabilityWarning, match="without transpose_x"):
        again = computed(nl.matmul, a.T.copy(), b)
    np.testing.assert_array_equal(again, found)


def test_results_of_the_tensor_engine_are_in_psum() -> None:
    @nki.jit
    def kernel(a):
        x = nl.load(a)
        assert nl.is_psum(nl.transpose(x).buffer)
        assert nl.is_psum(nl.matmul(x, x, transpose_x=True).buffer)
        out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.copy(nl.transpose(nl.copy(nl.transpose(x)))))
        return out

    a = numbers(20, 30)
    np.testing.assert_array_equal(kernel(a), a)


def test_moving() -> None:
    a = numbers(17, 128)
    np.testing.assert_array_equal(computed(nl.transpose, a), a.T)
    for shape in ((17, 1), (1, 128), (1, 1)):
        small = a[: shape[0], : shape[1]].copy()
        found = computed(lambda x: nl.broadcast_to(x, (17, 128)), small)
        np.testing.assert_array_equal(found, np.broadcast_to(small, (17, 128)))
    big = np.array([[2**30 + 1]], np.int32)
    np.testing.assert_array_equal(computed(lambda x: nl.broadcast_to(x, [3, 2]), big), np.full((3, 2), 2**30 + 1))
    np.testing.assert_array_equal(computed(lambda x: nl.broadcast_to(x, (17, 128)), a), a)
    assert computed(lambda x: nl.expand_dims(x, 1), a).shape == (17, 1, 128)
    assert computed(lambda x: nl.expand_dims(x, -1), a).shape == (17, 128, 1)


def test_gather() -> None:
    a, i = numbers(4, 6, 5), np.random.default_rng(1).integers(0, 30, (4, 9), np.uint32)
    want = np.take_along_axis(a.reshape(4, 30), i.astype(np.int64), 1)
    np.testing.assert_array_equal(computed(nl.gather_flattened, a, i), want)
    low = computed(lambda x, i: nl.gather_flattened(x, i, dtype=nl.bfloat16), a, i)
    np.testing.assert_array_equal(low, want.astype(BF16))


@pytest.mark.parametrize("target", ["trn2", "trn3"])
def test_random_numbers(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """10,000 numbers of a uniform law: mean and variance are within four standard deviations of what they should be."""
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", target)

    def seeded(seed):
        nl.random_seed(seed)
        return nl.rand((100, 100), nl.float32)

    def twice(one, two):
        first, second = seeded(one), seeded(two)
        return nl.equal(first, second)

    one, two = np.array([[1]], np.int32), np.array([[2]], np.int32)
    found = computed(seeded, one)
    assert 0 <= found.min() < 0.001 and 0.999 < found.max() < 1
    assert abs(found.mean() - 0.5) < 4 * np.sqrt(1 / 12 / found.size)
    assert abs(found.var() - 1 / 12) < 4 * np.sqrt(1 / 180 / found.size)
    assert computed(twice, one, one).all()
    assert not computed(twice, one, two).any()
    with pytest.warns(NkiPortabilityWarning, match=r"nl.random_seed\(1\)"):
        np.testing.assert_array_equal(computed(lambda x: seeded(1), one), found)


def test_dropout() -> None:
    a = np.ones((100, 100), np.float32)
    found = computed(lambda x: nl.dropout(x, 0.3), a)
    assert set(np.unique(found)) == {0, 1}
    assert abs(found.mean() - 0.7) < 4 * np.sqrt(0.21 / a.size)
    rates = np.repeat(np.array([0, 1], np.float32), 50)[:, None]
    low = computed(lambda x, rate: nl.dropout(x, rate, dtype=nl.bfloat16), a, rates)
    np.testing.assert_array_equal(low, np.broadcast_to(1 - rates, a.shape).astype(BF16))


def test_creation() -> None:
    a = numbers(3, 4)
    np.testing.assert_array_equal(computed(lambda x: nl.ones((3, 2), nl.bfloat16), a), np.ones((3, 2)))
    np.testing.assert_array_equal(computed(lambda x: nl.full((3, 2), 7, nl.int8), a), np.full((3, 2), 7))
    np.testing.assert_array_equal(
        computed(lambda x: nl.full((3, 2), 0.1, nl.float32), a), np.full((3, 2), np.float32(0.1))
    )
    np.testing.assert_array_equal(computed(lambda x: nl.zeros_like(x, dtype=nl.int32), a), np.zeros((3, 4)))

    def filled(x):
        made = nl.empty_like(x)
        nisa.memset(made, 3.0)
        return made

    np.testing.assert_array_equal(computed(filled, a), np.full((3, 4), 3))


def test_results_are_called_like_their_variables(capsys: pytest.CaptureFixture[str]) -> None:
    @nki.jit
    def kernel(a):
        x = nl.load(a)
        total = nl.softmax(nl.exp(x))
        print(total.name, nl.sum(x, 1).name, nl.ones((1, 1), nl.int8).name)
        out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        nl.store(out, total)
        return out

    kernel(numbers(3, 4))
    assert capsys.readouterr().out == "total sum ones\n"


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (lambda x: nl.divide(x, 2.0), "nl.divide: no engine of NKI divides"),
        (lambda x: nl.fmod(x, 2.0), "nl.fmod works only in its simulator"),
        (lambda x: nl.mod(x, 2.0), "nl.mod works only in its simulator"),
        (lambda x: nl.power(x, 2.0), "NKI's own takes two tiles"),
    ],
)
def test_what_nki_does_not_allow_is_warned_about(fn: Any, message: str) -> None:
    with pytest.warns(NkiPortabilityWarning, match=message):
        computed(fn, np.ones((2, 3), np.float32))


@nki.jit
def old(a):
    x = nl.ndarray(a.shape, a.dtype, buffer=None)
    nisa.dma_copy(x, a)
    flags = nl.greater(x, 0.0, dtype=bool)
    assert nl.num_programs(axes=None) == 1
    assert nl.tile_size.total_available_sbuf_size == nl.tile_size.sbuf_fmax_bytes
    out = nl.ndarray(a.shape, nl.bool, buffer=nl.shared_hbm)
    nl.store(out, flags)
    return out


def test_older_spellings_work_and_are_warned_about() -> None:
    a = numbers(3, 4)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        np.testing.assert_array_equal(old(a), a > 0)
    text = "\n".join(str(w.message) for w in told if w.category is NkiDeprecationWarning)
    for part in ("buffer None", "`nl.bool_`", "nl.num_programs(None)", "total_available_sbuf_size"):
        assert part in text


def test_a_tile_in_psum_is_stored_by_way_of_sbuf() -> None:
    @nki.jit
    def kernel(a):
        turned = nl.transpose(nl.load(a))
        out = nl.ndarray(turned.shape, a.dtype, buffer=nl.shared_hbm)
        nl.store(out, turned)
        return out

    with pytest.warns(NkiPortabilityWarning, match="store of a tile in PSUM"):
        np.testing.assert_array_equal(kernel(numbers(3, 4)), numbers(3, 4).T)


def test_annotations_of_tensors() -> None:
    new, beta1 = importlib.import_module("nki.typing"), importlib.import_module("neuronxcc.nki.typing")
    assert beta1.tensor is new.tensor
    assert beta1.mutable_tensor is new.mutable_tensor
    assert repr(new.tensor[128, "n"]) == "nt.tensor[128, n]"
    assert new.tensor[4] == new.tensor[4]
    assert new.tensor[4] != new.mutable_tensor[4]
    assert len({new.tensor[4], new.tensor[(4,)]}) == 1

    @nki.jit
    def kernel(a: new.tensor[3, 4], b: new.mutable_tensor) -> new.tensor[3, 4]:
        tile: new.tensor[3, 4] = nl.load(a)
        out: new.tensor = nl.ndarray(b.shape, b.dtype, buffer=nl.shared_hbm)
        nl.store(out, tile)
        return out

    np.testing.assert_array_equal(kernel(numbers(3, 4), numbers(3, 4)), numbers(3, 4))


def test_element_types_have_a_module() -> None:
    dtype = importlib.import_module("nki.dtype")
    assert all(getattr(nl, name) is getattr(dtype, name) for name in dtype.__all__ if name != "DType")


# 5000 float32 are nine rows of 512 and a rest; 200000 are more than one tile.
@pytest.mark.parametrize("shape", [(3,), (5, 8), (50, 100), (400, 500)])
@pytest.mark.parametrize("run", [nki.jit, nki.simulate], ids=["native", "eager"])
def test_tensors_in_hbm_are_filled_too(shape: tuple[int, ...], run: Any) -> None:
    def kernel(x: Any) -> Any:
        numbers = nl.full(shape, 2.5, nl.float32, buffer=nl.shared_hbm)
        return numbers, nl.ones(shape, nl.int8, nl.shared_hbm), nl.zeros_like(numbers, buffer=nl.shared_hbm)

    numbers_found, ones, nothing = run(kernel)(np.zeros((1, 1), np.float32))
    assert (numbers_found == 2.5).all() and numbers_found.shape == shape
    assert (ones == 1).all() and ones.dtype == np.int8
    assert (nothing == 0).all() and nothing.dtype == np.float32


@pytest.mark.parametrize("target", ["trn2", "trn3"])
def test_random_numbers_in_hbm(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", target)

    def kernel(x: Any) -> Any:
        return nl.rand((400, 500), nl.float32, buffer=nl.shared_hbm)

    found = nki.simulate(kernel)(np.zeros((1, 1), np.float32))
    assert 0 <= found.min() < 0.001 and 0.999 < found.max() < 1
    assert len(np.unique(found[:40])) > 19000  # no piece repeats another
    assert not np.array_equal(found[:100], found[-100:])
