"""Arguments as they are written on the command line."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import nki.language as nl
from nki.base import element_types as dtypes
from nki.workload.arguments import FILLS, TensorArgument, parse
from tests.support.command_line import complaint


@pytest.mark.parametrize("dtype", [d.name for d in dtypes.ALL if d.computes])
@pytest.mark.parametrize("fill", FILLS)
def test_fills_are_finite_dense_and_repeatable(dtype, fill):
    _, made = parse(f"5x7:{dtype}:{fill}")
    assert isinstance(made, TensorArgument) and made.shape == (5, 7)
    array = made.array(3, 0)
    assert array.dtype == made.dtype.dtype and array.flags.c_contiguous
    assert array.tobytes() == made.array(3, 0).tobytes()
    values = array.astype(np.float64)
    assert np.isfinite(values).all()
    if fill in ("random", "uniform", "wide"):
        assert len(np.unique(values)) > 1
        assert made.array(4, 0).tobytes() != array.tobytes() != made.array(3, 1).tobytes()
        if made.dtype.is_float and fill != "random":
            least, most = (0, 1) if fill == "uniform" else (2.0**-8, 2.0**8)
            assert least <= np.abs(values).min() and np.abs(values).max() <= most and values.min() < 0 < values.max()
    elif fill == "arange":
        period = {"float8_e4m3": 16, "float8_e4m3fn": 16, "float8_e5m2": 8, "bool": 2}.get(dtype, 35)
        np.testing.assert_array_equal(values.ravel(), np.arange(35) % period)
    else:
        assert (values == (fill == "ones")).all()


def test_random_packed_and_scale_types_are_numbers():
    words = parse("9x5:float8_e5m2_x4")[1].array(0, 0)
    assert words.dtype == nl.float8_e5m2_x4 and np.isfinite(words.view(ml_dtypes.float8_e5m2).astype(np.float32)).all()
    assert parse("9x5:float4_e2m1fn_x4")[1].array(0, 0).dtype == nl.float4_e2m1fn_x4
    scales = parse("9x5:float8_e8m0fnu")[1].array(0, 0)
    assert np.isfinite(scales.astype(np.float32)).all()


def test_files_are_converted_as_the_hardware_rounds(tmp_path):
    def read(array, dtype=""):
        np.save(tmp_path / "a.npy", array)
        made = parse(f"{tmp_path / 'a.npy'}{dtype}")[1]
        return made.array(0, 0)

    np.testing.assert_array_equal(read(np.array([[1.5, 2.5, -0.5, 300.0, np.nan]]), ":int8"), [[2, 2, 0, 127, 0]])
    np.testing.assert_array_equal(read(np.array([2**40, -1, 16777217]), ":int32"), [2**31 - 1, -1, 16777217])
    np.testing.assert_array_equal(read(np.array([-3, 7], ">i4")), np.array([-3, 7], np.int32))
    np.testing.assert_array_equal(read(np.array([0.0, 2.0, np.nan]), ":bool"), [False, True, True])
    assert read(np.asfortranarray(np.ones((3, 4), np.float32))).flags.c_contiguous
    raw = np.arange(5).astype(ml_dtypes.float8_e4m3fn)
    assert read(raw, ":float8_e4m3fn").tobytes() == raw.tobytes()
    packed = np.arange(6, dtype=np.uint32)
    np.testing.assert_array_equal(read(packed, ":float8_e5m2_x4"), packed.view(nl.float8_e5m2_x4))
    np.testing.assert_array_equal(read(packed.view(nl.float8_e5m2_x4)), packed.view(nl.float8_e5m2_x4))


@pytest.mark.parametrize(
    ("array", "dtype", "words"),
    [
        (np.ones(3), "", "convert it: "),
        (np.ones(3, np.longdouble), "", "convert it: "),
        (np.ones(3, ml_dtypes.bfloat16), "", "raw elements of 2 bytes"),
        (np.ones(3, ml_dtypes.bfloat16), ":float8_e4m3", "not elements of float8_e4m3"),
        (np.ones(3, np.complex64), ":float32", "made of real numbers"),
        (np.ones(3, np.float32), ":float8_e5m2_x4", "must be stored as uint32"),
        (np.array([{}], object), "", "cannot read"),
    ],
)
def test_files_that_do_not_fit(tmp_path, nki, file, array, dtype, words):
    np.save(tmp_path / "a.npy", array)
    assert words in complaint(nki("run", f"{file}:affine", "--arg", f"a.npy{dtype}"))
