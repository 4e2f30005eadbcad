"""The other functions of ``nki.language`` against NumPy: the same bits by both executors, values in bounds."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki import NkiDeprecationWarning, NkiPortabilityWarning
from tests.support.kernel_parts import returned

from .computing import BF16, EPSILON, computed, numbers, wide, within

AXES = [((6, 9), 1), ((6, 9), (-1,)), ((4, 3, 5), (1, 2)), ((4, 3, 5), 2), ((4, 2, 3, 5), (2, 3))]


def shaped(want: Any) -> Any:
    return want[:, None] if want.ndim == 1 else want


@pytest.mark.parametrize("name", ["max", "min", "sum", "mean", "prod"])
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize(("shape", "axis"), AXES, ids=str)
def test_reductions(shape: tuple[int, ...], axis: Any, keep: bool, name: str) -> None:
    a = numbers(*shape, scale=1.2)
    fn = getattr(nl, name)
    found = computed(lambda x: fn(x, axis, keepdims=keep), a)
    want = shaped(getattr(np, name)(wide(a), axis, keepdims=keep))
    count = a[0].size
    if name == "prod":
        within(found, want, count)
    else:
        within(found, want, 0, 0 if name in {"max", "min"} else count * EPSILON * np.abs(wide(a)).sum())


def test_dimensions_in_a_list() -> None:
    a = numbers(6, 9)
    np.testing.assert_array_equal(computed(lambda x: nl.max(x, [-1]), a), a.max(-1, keepdims=True))


def test_a_sum_goes_from_left_to_right() -> None:
    a = numbers(3, 300)
    np.testing.assert_array_equal(computed(lambda x: nl.sum(x, 1), a), np.add.accumulate(a, 1)[:, -1:])


@pytest.mark.parametrize(("shape", "axis"), AXES, ids=str)
def test_variance_keeps_its_dimensions(shape: tuple[int, ...], axis: Any) -> None:
    a = numbers(*shape) + np.float32(10)
    axes = axis
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
    axes = axis
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
        return returned(nl.copy(nl.transpose(nl.copy(nl.transpose(x)))))

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
        return returned(total)

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
    assert beta1.tensor is not new.tensor  # it takes part in annotations of assignments, too
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
