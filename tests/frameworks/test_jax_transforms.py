"""Kernels under the transformations of JAX, and in programs that share, donate and exchange memory."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import nki
from nki.base.errors import OutOfBoundsError
from nki.base.framework_errors import NotDifferentiableError
from nki.frameworks.backend_config import CUSTOM_CALL_TARGET

from . import kernels
from .kernels import add, less, moved, multiply, row_of, scale_in_place, shown, sum_and_scaled


def numbers(*shape):
    return jnp.asarray(np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32))


def equal(got, expected):
    return got.shape == expected.shape and got.dtype == expected.dtype and bool((got == expected).all())


A, B = numbers(5, 4, 6), numbers(5, 4, 6) * 3 + 1
CALLS = pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["concrete", "jit"])


def calls_in(function, *args):
    """The lines of a jitted function's compiled program that call kernels, and the whole program."""
    text = function.lower(*args).compile().as_text()
    return [line for line in text.splitlines() if CUSTOM_CALL_TARGET in line], text


# vmap


@CALLS
def test_vmap_over_the_first_axis(wrap):
    assert equal(wrap(jax.vmap(add))(A, B), A + B)
    assert equal(jax.vmap(wrap(add))(A, B), A + B)


@CALLS
def test_vmap_over_other_axes_and_with_shared_operands(wrap):
    assert equal(wrap(jax.vmap(add, (0, None)))(A, B[0]), A + B[0])
    assert equal(wrap(jax.vmap(add, (None, 0)))(A[0], B), A[0] + B)
    assert equal(wrap(jax.vmap(add, (2, 0), 1))(A.transpose(1, 2, 0), B), (A + B).transpose(1, 0, 2))


@CALLS
def test_vmap_in_vmap(wrap):
    pairs = jax.vmap(jax.vmap(add, (0, None)), (None, 0))
    assert equal(wrap(pairs)(A, B), A[None] + B[:, None])
    rows = jax.vmap(jax.vmap(add, (0, None)))
    assert equal(wrap(rows)(jnp.stack([A, B]), jnp.stack([A[0], B[0]])), jnp.stack([A + A[0], B + B[0]]))
    triples = jax.vmap(pairs, (0, None))
    assert equal(wrap(triples)(jnp.stack([A, B]), B), jnp.stack([A[None] + B[:, None], B[None] + B[:, None]]))


def test_vmap_of_several_results_and_dtypes():
    total, scaled = jax.vmap(sum_and_scaled)(A, B)
    assert equal(total, A + B) and equal(scaled, A[:, :1] * 2)
    assert equal(jax.vmap(less)(A, B), A < B)
    halves = A.astype(jnp.bfloat16)
    assert equal(jax.vmap(add)(halves, halves), halves + halves)


def test_an_empty_batch_launches_nothing(launches):
    out = jax.vmap(add)(A[:0], B[:0])
    assert out.shape == (0, 4, 6) and launches == []


def test_a_batch_is_launched_in_place_and_shared_operands_are_not_copied(launches):
    pairs = jax.jit(jax.vmap(jax.vmap(add, (0, None)), (None, 0)))
    out = pairs(A, B)
    a, b, base = (x.unsafe_buffer_pointer() for x in (A, B, out))
    step = 4 * 6 * 4
    assert launches == [(a + i * step, b + o * step, base + (5 * o + i) * step) for o in range(5) for i in range(5)]
    (call,), text = calls_in(pairs, A, B)
    assert "f32[5,5,4,6]" in call and "broadcast" not in text and "copy(" not in text


def test_a_derivative_through_a_batch_of_a_bare_kernel_is_an_error():
    with pytest.raises(NotDifferentiableError, match="'add' has no derivative"):
        jax.grad(lambda a: jax.vmap(add)(a, B).sum())(A)


def test_a_batch_for_neuron_devices_is_a_loop_of_calls():
    traced = jax.jit(jax.vmap(jax.vmap(add, (0, None)), (None, 0))).trace(A, B)
    text = traced.lower(lowering_platforms=("neuron",)).as_text("hlo")
    (call,) = (line for line in text.splitlines() if "custom-call(" in line)
    assert "f32[4,6]{1,0} custom-call(" in call and len(re.findall(r" while\(", text)) == 2


def test_a_batch_that_disagrees_with_its_kernel_is_refused():
    config = re.search(r'"(eyJ[^"]+)"', jax.jit(add).lower(A[0], B[0]).as_text())[1]
    for operands, axes, message in [
        ((A, B), "0", "the graph's batch is '0'"),
        ((A, B), "0,1", "the graph's batch is '0,1'"),
        ((A[:4], B), "0,0", r"the graph passes float32 \(4, 4, 6\)"),
        ((A, B), "0,", r"the graph passes float32 \(5, 4, 6\)"),
    ]:
        call = jax.ffi.ffi_call(CUSTOM_CALL_TARGET, A)
        with pytest.raises(Exception, match=message):
            jax.block_until_ready(call(*operands, backend_config=config, batch=axes))


# scan, remat, shapes alone


def test_remat_runs_the_kernel_again(launches):
    @jax.custom_vjp
    def square(a):
        return multiply(a, a)

    square.defvjp(lambda a: (multiply(a, a), a), lambda a, g: (2 * a * g,))

    def chain(a):
        return square(square(a)).sum()

    plain, again = jax.grad(chain), jax.grad(jax.checkpoint(chain))
    expected = 4 * A[0] ** 3
    np.testing.assert_allclose(plain(A[0]), expected, rtol=1e-6)
    count = len(launches)
    np.testing.assert_allclose(again(A[0]), expected, rtol=1e-6)
    assert count == 2 and len(launches) == count + 3  # two forward; of these, the backward repeats the first


def test_shapes_without_a_run(launches):
    types = jax.eval_shape(jax.vmap(sum_and_scaled), A, jax.ShapeDtypeStruct(B.shape, B.dtype))
    assert [(t.shape, t.dtype) for t in types] == [((5, 4, 6), A.dtype), ((5, 1, 6), A.dtype)]
    assert launches == []


# Arguments that the kernel changes, donated arguments


@CALLS
def test_an_argument_that_the_kernel_changes_stays_for_others(wrap):
    before = np.array(A[0])
    assert equal(wrap(scale_in_place)(A[0]), A[0] * 2)
    assert equal(wrap(lambda a: scale_in_place(a) + a)(A[0]), A[0] * 2 + A[0])
    assert equal(wrap(jax.vmap(scale_in_place))(A), A * 2)
    assert equal(wrap(jax.vmap(lambda a, b: scale_in_place(a) + b, (None, 0)))(A[0], B), A[0] * 2 + B)
    assert (before == A[0]).all()


def test_a_donated_argument_is_changed_where_it_lies(launches):
    double = jax.jit(scale_in_place, donate_argnums=0)
    a = jnp.array(A[0])
    place = a.unsafe_buffer_pointer()
    out = double(a)
    assert equal(out, A[0] * 2)
    assert launches == [(place, place)] and out.unsafe_buffer_pointer() == place and a.is_deleted()
    (call,), text = calls_in(double, A[0])
    assert "output_to_operand_aliasing={{}: (0, {})}" in call and "input_output_alias={ {}: (0" in text
    assert "copy(" not in text


def test_an_intermediate_that_the_kernel_changes_is_not_copied(launches):
    function = jax.jit(lambda a: scale_in_place(a + 1) - 1)
    assert equal(function(A[0]), (A[0] + 1) * 2 - 1)
    ((source, target),) = launches
    assert source == target
    program = calls_in(function, A[0])[1].split("ENTRY")[1]
    assert len(re.findall(r" (fusion|custom-call|copy)\(", program)) == 3 and " copy(" not in program


def test_the_form_for_neuron_devices_names_the_alias():
    text = jax.jit(scale_in_place).trace(A[0]).lower(lowering_platforms=("neuron",)).as_text("hlo")
    assert "output_to_operand_aliasing={{}: (0, {})}" in text


def test_donation_of_what_the_kernel_only_reads():
    total = jax.jit(add, donate_argnums=0)
    a = jnp.array(A[0])
    assert equal(total(a, B[0]), A[0] + B[0])


# The simulator


@pytest.fixture
def simulator(monkeypatch):
    monkeypatch.setenv("NKI_SIMULATOR", "1")


def test_the_simulator_runs_inside_jit(simulator, launches):
    assert equal(jax.jit(lambda a, b: add(a * 2, b) * a)(A[0], B[0]), (A[0] * 2 + B[0]) * A[0])
    assert equal(jax.jit(jax.vmap(add, (0, None)))(A, B[0]), A + B[0])
    total, scaled = jax.jit(sum_and_scaled)(A[0], B[0])
    assert equal(total, A[0] + B[0]) and equal(scaled, A[0, :1] * 2)
    assert equal(jax.jit(lambda a: scale_in_place(a) + a)(A[0]), A[0] * 2 + A[0])
    assert launches == []  # of native code


def test_nki_simulate_inside_jit():
    halves = A[0].astype(jnp.bfloat16)
    assert equal(jax.jit(nki.simulate(add))(halves, halves), halves + halves)


def test_prints_of_the_simulator_inside_jit_show_values_at_each_run(simulator, capfd):
    function = jax.jit(shown)
    a = jnp.full((1, 2), 7.25)
    function(a).block_until_ready()
    capfd.readouterr()
    function(a).block_until_ready()
    assert "7.25" in capfd.readouterr().out


def test_a_simulated_program_is_exported_with_the_kernel(simulator):
    pytest.importorskip("flatbuffers", reason="jax.export serializes programs with flatbuffers")
    checks = [jax.export.DisabledSafetyCheck.custom_call(CUSTOM_CALL_TARGET)]
    exported = jax.export.export(jax.jit(add), disabled_checks=checks)(A[0], B[0])
    assert "nki-simulated" not in exported.mlir_module()
    assert equal(jax.export.deserialize(exported.serialize()).call(A[0], B[0]), A[0] + B[0])


# Errors


@pytest.mark.parametrize(
    "call",
    [
        row_of,
        jax.jit(row_of),
        jax.jit(lambda a, i: row_of(a, i) * 2),
        lambda a, i: jax.vmap(row_of, (None, 0))(a, jnp.stack([i * 0, i])),
    ],
    ids=["concrete", "jit", "in a program", "vmap"],
)
@pytest.mark.parametrize("simulated", [False, True], ids=["native", "simulated"])
def test_an_error_inside_xlas_threads_names_the_kernels_line(call, simulated, monkeypatch):
    monkeypatch.setenv("NKI_SIMULATOR", str(int(simulated)))
    rows = jnp.array([[1], [9]], jnp.int32)
    with pytest.raises((jax.errors.JaxRuntimeError, OutOfBoundsError, ValueError)) as caught:
        jax.block_until_ready(call(A[0], rows))
    text = str(caught.value)
    source = Path(kernels.__file__)
    lines = source.read_text(encoding="utf-8").splitlines()
    number = next(n for n, line in enumerate(lines, 1) if "nisa.dma_copy(tile, a.ap" in line)
    assert "[NKI-RG005]" in text and "run-time index 9" in text and f"{source.name}:{number}" in text


# What comes from, and goes to, other libraries


def test_dlpack_in_and_out_shares_memory(launches):
    t = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    a = jax.dlpack.from_dlpack(t)
    out = torch.from_dlpack(add(a, a))
    assert torch.equal(out, t + t)
    assert launches == [(t.data_ptr(), t.data_ptr(), out.data_ptr())]
    assert (np.from_dlpack(moved(a)) == t.numpy()).all()


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "float8_e5m2", "float8_e4m3fn", "float8_e4m3"])
def test_bool_and_8_bit_types(dtype):
    a = jnp.asarray(np.arange(24).reshape(4, 6) % 3).astype(dtype)
    for call in (moved, jax.jit(moved), lambda x: jax.vmap(moved)(x[None])[0]):
        assert equal(call(a), a)


def test_numpy_arrays_of_any_layout_beside_a_jax_array():
    source = np.arange(48, dtype=np.float32).reshape(6, 8)
    views = [source.T[:4, :], source[:4, ::-1][:, :6], source[3::-1, 1:7]]
    for view in views:
        a = view if view.shape == (4, 6) else view[:4, :6]
        frozen = a.copy()
        frozen.flags.writeable = False
        assert equal(add(a, jnp.asarray(frozen)), jnp.asarray(a + frozen))
        assert equal(jax.jit(scale_in_place)(frozen), jnp.asarray(frozen * 2))


def test_many_threads_call_one_kernel():
    """4 threads, 500 calls each, eager and jitted: no deadlock, and the right sums."""
    call, wrong = jax.jit(lambda a, b: add(a, b) * 2), []

    def work(number):
        a = jnp.full((4, 6), number, jnp.float32)
        sums = [(add(a, a) == 2 * number).all() and (call(a, a) == 4 * number).all() for _ in range(250)]
        wrong.extend(ok for ok in sums if not ok)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert not wrong and not any(thread.is_alive() for thread in threads)
