"""``nki.accuracy``: errors against NumPy in float64, causes, wider tiles, and kernels that lose nothing."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.errors import KernelArgumentError, NkiError
from nki.base.profile_errors import ProfileFileError
from nki.frontend.frontend_errors import NotAFunctionError
from nki.rounding import shadow_run
from nki.rounding.run import specialised
from tests.rounding import planted
from tests.rounding.planted import ARGUMENTS, normal, returned, tile_of

BF16 = np.dtype(ml_dtypes.bfloat16)


@nki.jit
def softmax(x):
    t = nl.load(x)
    greatest = tile_of(x, shape=(128, 1))
    nisa.tensor_reduce(dst=greatest, data=t, op=nl.maximum, axis=1)
    e, total = tile_of(x), tile_of(x, shape=(128, 1))
    nisa.tensor_scalar(dst=e, data=t, op0=nl.subtract, operand0=greatest)
    nisa.activation(dst=e, op=nl.exp, data=e)
    nisa.tensor_reduce(dst=total, data=e, op=nl.add, axis=1)
    nisa.reciprocal(dst=total, data=total)
    nisa.tensor_scalar(dst=e, data=e, op0=nl.multiply, operand0=total)
    return returned(e)


@nki.jit
def softmax_to_bfloat16(x):
    t = nl.load(x)
    greatest = tile_of(x, shape=(128, 1))
    nisa.tensor_reduce(dst=greatest, data=t, op=nl.maximum, axis=1)
    e, total = tile_of(x), tile_of(x, shape=(128, 1))
    nisa.tensor_scalar(dst=e, data=t, op0=nl.subtract, operand0=greatest)
    nisa.activation(dst=e, op=nl.exp, data=e)
    nisa.tensor_reduce(dst=total, data=e, op=nl.add, axis=1)
    nisa.reciprocal(dst=total, data=total)
    y = tile_of(x, nl.bfloat16)
    nisa.tensor_scalar(dst=y, data=e, op0=nl.multiply, operand0=total)
    return returned(y)


@nki.jit
def doubled(x):
    t = nl.load(x)
    nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=2.0)
    return returned(t)


@nki.jit
def looped(x):
    """A loop on the device adds columns in bfloat16."""
    t = nl.load(x)
    total = nl.zeros((128, 1), nl.bfloat16)

    def body(i):
        nisa.tensor_tensor(dst=total, data1=total, data2=t[:, nl.ds(i, 1)], op=nl.add)

    nl.fori_loop(0, 64, body)
    return returned(total, nl.float32)


def softmax_in_float64(x):
    e = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def test_the_errors_are_those_of_numpy_in_float64():
    x = normal(128, 256)
    found = nki.accuracy(softmax, "trn2")(x)
    right = softmax_in_float64(x)
    wrong = np.abs(nki.simulate(softmax)(x) - right)
    [output] = found.outputs
    assert output.max_abs == pytest.approx(wrong.max(), rel=1e-6)
    assert output.max_rel == pytest.approx((wrong / right).max(), rel=1e-6)
    assert output.error == pytest.approx(np.sqrt((wrong**2).mean() / (right**2).mean()), rel=1e-6)


@pytest.mark.parametrize("kernel", ARGUMENTS, ids=lambda kernel: kernel.func.__name__)
def test_the_simulator_computes_the_same_bits(kernel):
    arguments = ARGUMENTS[kernel]
    program, arrays, _ = specialised(kernel, arguments, {}, None, 0)
    outputs, _ = shadow_run.run(program, arrays)
    for output, plain in zip(outputs, shadow_run.plain(program, arrays), strict=True):
        assert output.real.tobytes() == plain.tobytes()


@pytest.mark.parametrize(
    "kernel",
    [softmax, planted.accumulates_in_bfloat16, planted.bfloat16_operands, planted.scan_in_bfloat16],
    ids=lambda kernel: kernel.func.__name__,
)
def test_the_errors_of_the_lines_add_up(kernel):
    """To first order: what is left is products of errors."""
    arguments = ARGUMENTS.get(kernel, (normal(128, 256),))
    program, arrays, _ = specialised(kernel, arguments, {}, None, 0)
    [output], _ = shadow_run.run(program, arrays)
    error = output.real - output.exact
    rest = error - sum(output.errors.values())
    assert np.linalg.norm(error) > 0
    assert np.linalg.norm(rest) < 0.02 * np.linalg.norm(error)


def test_a_kernel_in_float32_loses_nothing_notable():
    found = nki.accuracy(softmax, "trn2")(normal(128, 256))
    assert found.first is None and found.wider == () and found.lines
    assert "no line loses more than rounding in float32" in str(found)


def test_exact_kernels_have_no_error():
    found = nki.accuracy(doubled, "trn2")(normal(128, 64))
    assert found.error == 0 and found.first is None and found.lines == ()


def test_the_dtype_of_the_result_is_no_loss():
    found = nki.accuracy(softmax_to_bfloat16, "trn2")(normal(128, 256))
    [output] = found.outputs
    assert found.first is None and found.error == pytest.approx(output.needed, rel=0.3)
    assert [line.cause for line in found.lines][-1] == "result"


def test_loops_on_the_device_are_followed():
    found = nki.accuracy(looped, "trn2")(normal(128, 64, mean=1.0))
    assert found.first is not None and "tensor_tensor" in found.first.code and found.first.tiles == ("total",)


def test_causes():
    causes = {
        planted.variance_of_squares: "cancellation",
        planted.softmax_without_shift: "overflow",
        planted.softmax_far_beyond: "overflow",
        planted.long_bfloat16_sum: "cast",
        planted.epsilon_vanishes: "underflow",
        planted.epsilon_is_absorbed: "absorption",
        planted.logarithm_of_an_underflow: "underflow",
    }
    found = {kernel: nki.accuracy(kernel, "trn2")(*ARGUMENTS[kernel]).first for kernel in causes}
    assert {kernel: line.cause for kernel, line in found.items() if line is not None} == causes


def test_the_bits_that_a_cancellation_loses():
    """x^2 of about 10^4 less its mean, of about 1: 13 bits, or 14."""
    first = nki.accuracy(planted.variance_of_squares, "trn2")(*ARGUMENTS[planted.variance_of_squares]).first
    assert first is not None and "in up to 14 of 24 bits" in first.text


def test_a_long_sum_in_float32():
    @nki.jit
    def summed(x):
        t, total = nl.load(x), tile_of(x, shape=(128, 1))
        nisa.tensor_reduce(dst=total, data=t, op=nl.add, axis=1)
        return returned(total)

    found = nki.accuracy(summed, "trn2")(np.full((128, 8192), 0.1, np.float32))
    assert found.first is not None and found.first.cause == "long sum" and "8192 terms" in found.first.text


def test_wider_tiles_are_measured():
    """The error falls as a kernel with a float32 tile says, and the time is the one of that kernel."""

    def middle(dtype):
        @nki.jit
        def kernel(x):
            t, low, y = nl.load(x), tile_of(x, dtype), tile_of(x)
            nisa.activation(dst=low, op=nl.tanh, data=t)
            nisa.tensor_tensor(dst=y, data1=low, data2=t, op=nl.multiply)
            return returned(y)

        return kernel

    x = normal(128, 512)
    low, wide = (nki.accuracy(middle(dtype), "trn2")(x) for dtype in (nl.bfloat16, nl.float32))
    [change] = low.wider
    assert change.tiles == ("low",) and change.dtype == "bfloat16" and change.problem == ""
    assert change.less == pytest.approx(low.error / wide.error, rel=1e-9)
    times = [nki.profile(middle(dtype), target="trn2")(x).device_time for dtype in (nl.float32, nl.bfloat16)]
    assert change.time == pytest.approx(times[0] / times[1], rel=1e-9)
    assert "store 'low' in float32 instead of bfloat16" in str(low)


def test_a_tile_that_must_stay_says_why():
    """Operands of a product have one width: one of them alone cannot be wider."""

    @nki.jit
    def kernel(a, b):
        left, right = nl.load(a), nl.load(b)
        low = tile_of(a, nl.bfloat16)
        nisa.tensor_copy(dst=low, src=left)
        psum, y = tile_of(a, nl.float32, nl.psum, (128, 128)), tile_of(a, shape=(128, 128))
        nisa.nc_matmul(dst=psum, stationary=low, moving=right)
        nisa.tensor_copy(dst=y, src=psum)
        return returned(y)

    [change] = nki.accuracy(kernel, "trn2")(normal(128, 128), normal(128, 128, dtype=BF16)).wider
    assert change.time is None and change.less > 100 and "float32" in change.problem


def test_only_shapes_get_random_numbers():
    spec = nki.ShapeDtype((128, 64), "float32")
    one, same, other = (nki.accuracy(softmax, "trn2", seed=seed)(spec).error for seed in (0, 0, 1))
    assert one == same != other


def test_the_kernel_changes_nothing():
    x = normal(128, 64)
    before = x.copy()
    nki.accuracy(softmax)(x)
    assert x.tobytes() == before.tobytes()


def test_errors_of_the_kernel_are_the_compilers():
    @nki.jit
    def broken(x):
        t = nl.load(x)
        nisa.tensor_tensor(dst=t, data1=t, data2=t[:, :3], op=nl.add)
        return returned(t)

    with pytest.raises(NkiError) as raised:
        nki.accuracy(broken)(normal(128, 64))
    with pytest.raises(NkiError) as simulated:
        nki.simulate(broken)(normal(128, 64))
    assert (raised.value.code, raised.value.message) == (simulated.value.code, simulated.value.message)
    with pytest.raises(NotAFunctionError):
        nki.accuracy(3)
    with pytest.raises(KernelArgumentError):
        nki.accuracy(softmax)()


def test_the_page(tmp_path):
    found = nki.accuracy(planted.mean_in_bfloat16, "trn2")(*ARGUMENTS[planted.mean_in_bfloat16])
    page = found.to_html(tmp_path / "a.html").read_text(encoding="utf-8")
    assert found.first is not None and "rounds to bfloat16</li>" in page and "Content-Security-Policy" in page
    assert '<td title="rounds to bfloat16">cast</td>' in page
    with pytest.raises(ProfileFileError):
        found.to_html(tmp_path / "none" / "a.html")
