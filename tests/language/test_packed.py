"""Packed dtypes from outside: arrays of other libraries, and views of words and bytes."""

from __future__ import annotations

import copy
import io
import pickle

import ml_dtypes
import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base import element_types as dt
from nki.base.errors import UnknownDTypeError


def foreign(name: str, size: int) -> np.dtype:
    """A NumPy type as libraries make it that know packed dtypes: bytes under the name of the type."""
    return np.dtype((type(name, (np.void,), {}), [("raw", "u1", (size,))]))


@pytest.mark.parametrize("kind", [d for d in dt.ALL if d.is_packed], ids=str)
def test_types_of_that_name_and_width_are_known(kind: dt.DType) -> None:
    assert dt.of(foreign(kind.name, kind.itemsize)) is kind
    with pytest.raises(UnknownDTypeError):
        dt.of(foreign(kind.name, 3))
    with pytest.raises(UnknownDTypeError):
        dt.of(foreign("float8_e4m3fn", 1))


def test_four_numbers_are_in_a_packed_element() -> None:
    elements = {d.name: (d.itemsize, d.largest, d.element) for d in dt.ALL if d.is_packed}
    assert elements == {
        "float8_e4m3fn_x4": (4, 448.0, np.dtype(ml_dtypes.float8_e4m3fn)),
        "float8_e5m2_x4": (4, 57344.0, np.dtype(ml_dtypes.float8_e5m2)),
        "float4_e2m1fn_x4": (2, 6.0, np.dtype(ml_dtypes.float4_e2m1fn)),
    }


PACKED = [d for d in dt.ALL if d.is_packed]


@pytest.mark.parametrize("kind", PACKED, ids=str)
def test_arrays_have_a_type_of_their_own(kind: dt.DType) -> None:
    made = np.zeros((2, 3), dtype=kind)
    assert made.itemsize == kind.itemsize and made.nbytes == 6 * kind.itemsize
    assert made.dtype == kind and kind == made.dtype and np.dtype(kind.name) == made.dtype
    assert made.dtype.type.__name__ == kind.name and type(made[0, 0]) is made.dtype.type
    assert dt.of(made.dtype) is kind
    others = [d for d in dt.ALL if d is not kind]
    assert not any(made.dtype == d or d == made.dtype or made.dtype == d.dtype for d in others)
    assert kind.plain == np.dtype(f"u{kind.itemsize}") and made.dtype != kind.plain


@pytest.mark.parametrize("kind", PACKED, ids=str)
def test_arrays_keep_their_type(kind: dt.DType) -> None:
    words = np.arange(6, dtype=kind.plain).reshape(2, 3)
    made = words.view(kind)
    file = io.BytesIO()
    np.save(file, made)
    file.seek(0)
    same = [
        np.frombuffer(words.tobytes(), kind).reshape(2, 3),
        np.ascontiguousarray(made[:, ::-1])[:, ::-1],
        made.T.copy().T,
        made.reshape(6)[:].reshape(2, -1),
        np.concatenate([made[:1], made[1:]]),
        np.where(words < 3, made, made),
        copy.deepcopy(made),
        pickle.loads(pickle.dumps(made)),
        np.load(file),
    ]
    for array in same:
        assert array.dtype == kind and dt.of(array.dtype) is kind
        assert np.array_equal(array, made)
        np.testing.assert_array_equal(array.view(kind.plain), words)
    assert not np.array_equal(made, made[:, ::-1])


@nki.jit
def names_its_dtype(packed):
    """The packed array copied, and which type the kernel saw."""
    tile = nl.ndarray(packed.shape, packed.dtype)
    nisa.dma_copy(tile, packed)
    same = nl.ndarray(packed.shape, packed.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(same, tile)
    which = nl.ndarray((1, 1), nl.int32)
    nisa.memset(which, 1 if packed.dtype == nl.float8_e4m3fn_x4 else 2 if packed.dtype == nl.float8_e5m2_x4 else 3)
    out = nl.ndarray((1, 1), nl.int32, buffer=nl.shared_hbm)
    nisa.dma_copy(out, which)
    return same, out


@pytest.mark.parametrize("run", [names_its_dtype, nki.simulate(names_its_dtype)], ids=["compiled", "simulated"])
def test_kernels_see_and_return_them(run) -> None:
    for number, kind in enumerate((nl.float8_e4m3fn_x4, nl.float8_e5m2_x4, nl.float4_e2m1fn_x4), 1):
        given = np.arange(4 * 6, dtype=kind.plain).reshape(4, 6).view(kind)
        for array in (given, np.frombuffer(b"x" + given.tobytes(), np.uint8)[1:].view(kind).reshape(4, 6)):
            same, which = run(array)
            assert which[0, 0] == number
            assert same.dtype == kind and np.array_equal(same, given)


@pytest.mark.parametrize("run", [names_its_dtype, nki.simulate(names_its_dtype)], ids=["compiled", "simulated"])
def test_types_of_other_libraries_are_told_apart(run) -> None:
    words = np.arange(12, dtype=np.uint32).reshape(2, 6)
    for number, name in enumerate(("float8_e4m3fn_x4", "float8_e5m2_x4"), 1):
        same, which = run(words.view(foreign(name, 4)))
        assert which[0, 0] == number and dt.of(same.dtype).name == name
        np.testing.assert_array_equal(same.view(np.uint32), words)


@nki.jit
def words_and_bytes(packed):
    """A packed array of the caller's as words and as single numbers."""
    tile = nl.ndarray(packed.shape, packed.dtype)
    nisa.dma_copy(tile, packed)
    words = nl.ndarray(packed.shape, nl.uint32, buffer=nl.shared_hbm)
    nisa.dma_copy(words, tile.view(nl.uint32))
    numbers = nl.ndarray((packed.shape[0], 4 * packed.shape[1]), nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(numbers, tile.view(nl.uint8).view(nl.float8_e5m2))
    return words, numbers


@pytest.mark.parametrize("run", [words_and_bytes, nki.simulate(words_and_bytes)], ids=["compiled", "simulated"])
def test_views_of_a_packed_array(run) -> None:
    numbers = np.random.default_rng(3).standard_normal((32, 24)).astype(ml_dtypes.float8_e5m2)
    words, values = run(numbers.view(foreign("float8_e5m2_x4", 4)))
    np.testing.assert_array_equal(words, numbers.view(np.uint32))
    np.testing.assert_array_equal(values, numbers.astype(np.float32))
