"""Kernels on JAX arrays: concrete, compiled and differentiated."""

from __future__ import annotations

import base64
import json
import re
import signal
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.ffi import ffi_call

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.errors import (
    UnknownDTypeError,
)
from nki.frameworks.backend_config import CUSTOM_CALL_TARGET, BackendConfig
from tests.support.fresh_process import finished
from tests.support.kernel_parts import returned

from .kernels import add, less, moved, sum_and_scaled, to_e4m3

A = jnp.arange(24, dtype=jnp.float32).reshape(4, 6)
B = A[::-1] * 3 + 1


@jax.custom_vjp
def differentiable_add(a, b):
    return add(a, b)


differentiable_add.defvjp(lambda a, b: (differentiable_add(a, b), None), lambda _, g: (g, g))


def equal(got, expected):
    return got.dtype == expected.dtype and bool((got == expected).all())


def test_result_dtypes():
    assert equal(less(A, B), A < B)
    assert to_e4m3(A).dtype == jnp.float8_e4m3


def test_floats_of_sixty_four_bits_are_refused():
    with jax.enable_x64(True):
        a = jnp.zeros((2, 2), "float64")
        with pytest.raises(UnknownDTypeError, match="float64"):
            jax.jit(add)(a, a)


def test_whole_numbers_of_sixty_four_bits_are_moved():
    with jax.enable_x64(True):
        a = jnp.arange(6).reshape(2, 3) + 2**40
        assert a.dtype == jnp.int64
        assert (jax.jit(moved)(a) == a).all() and (moved(a) == a).all()


# Derivatives


def test_a_function_with_a_vjp_trains():
    def gradients(total):
        return jax.jit(jax.grad(lambda a, b: (total(a, b) * a * b).sum(), argnums=(0, 1)))(A, B)

    for got, expected in zip(gradients(differentiable_add), gradients(jnp.add), strict=True):
        assert equal(got, expected)


def test_no_derivative_is_needed_where_none_flows():
    assert jax.grad(lambda x: add(A, B).sum() + x)(1.0) == 1
    assert equal(jax.grad(lambda x: (add(jax.lax.stop_gradient(x), B) * x).sum())(A), A + B)


# The graph


def config_in(text):
    (found,) = set(re.findall(r'"(eyJ[A-Za-z0-9+/=]+)"', text))
    return found


def test_the_compiled_program_holds_the_custom_call():
    program = jax.jit(lambda a, b: add(a, b) * a).lower(A, B).compile()
    text = program.runtime_executable().hlo_modules()[0].to_string()
    (line,) = (x for x in text.splitlines() if "custom-call(" in x)
    assert f'custom_call_target="{CUSTOM_CALL_TARGET}"' in line and "/nki_call" in line
    config = BackendConfig.decode(config_in(line))
    assert (config.func_name, config.input_names, config.output_names) == ("add", ("a", "b"), ("out",))
    assert Path(config.binary).is_absolute() and Path(config.binary).is_file()
    assert equal(program(A, B), (A + B) * A)


def test_the_program_for_neuron_devices_has_the_documented_form():
    traced = jax.jit(lambda a, b: sum_and_scaled[1](a, b)).trace(A, B)
    text = traced.lower(lowering_platforms=("neuron",)).as_text("hlo")
    (line,) = (x for x in text.splitlines() if "custom-call(" in x)
    assert "(f32[4,6]{1,0}, f32[1,6]{1,0}) custom-call(" in line
    assert f'custom_call_target="{CUSTOM_CALL_TARGET}"' in line
    assert "api_version=API_VERSION_STATUS_RETURNING," in line
    config = json.loads(base64.b64decode(re.search(r'backend_config="([^"]+)"', line)[1]))
    assert config["grid"] == 1 and config["klir_binary"]["output_names"] == ["out", "out.1"]


def custom_call(config, *operands, result=A):
    return jax.jit(lambda *x: ffi_call(CUSTOM_CALL_TARGET, result)(*x, backend_config=config))(*operands)


@pytest.fixture
def config():
    return config_in(jax.jit(add).lower(A, B).as_text())


def test_constants_after_the_inputs_are_ignored(config):
    identity = jnp.eye(128, dtype=jnp.int8)
    assert equal(custom_call(config, A, B, identity, identity), A + B)


@pytest.mark.parametrize(
    ("operands", "result", "message"),
    [
        ((A,), A, "2 tensors here; the graph passes 1"),
        ((A, B[:2]), A, r"\(4, 6\); the graph passes float32 \(2, 6\)"),
        ((A, B.astype(jnp.int32)), A, "passes int32"),
        ((A, A * 1j), A, "another dtype"),
        ((A, B), A[:2], r"compiled for out of float32 \(4, 6\)"),
    ],
)
def test_a_graph_that_disagrees_with_the_kernel_is_refused(config, operands, result, message):
    assert equal(custom_call(config, A, B), A + B)  # a call that was seen before vouches for none that differs
    with pytest.raises(Exception, match=r"NKI-FW010") as caught:
        custom_call(config, *operands, result=result)
    assert re.search(message, str(caught.value))


def test_damaged_and_foreign_configs_are_errors(config):
    with pytest.raises(Exception, match=r"NKI-FW009"):
        custom_call("nonsense", A, B)
    foreign = BackendConfig("add", "/tmp/add.klir", ("a", "b"), ("c",), kernel_format="klir").encode()
    with pytest.raises(Exception, match=r"another toolchain"):
        custom_call(foreign, A, B)
    gone = BackendConfig("add", "/nowhere/add.klir", ("a", "b"), ("c",)).encode()
    with pytest.raises(Exception, match=r"/nowhere/add.klir, which does not exist"):
        custom_call(gone, A, B)
    assert equal(custom_call(config, A, B), A + B)


def test_graphs_of_another_process_find_the_artifact(config):
    finished(
        "import jax, jax.numpy as jnp, nki.frameworks.jax\n"
        "a = jnp.ones((4, 6))\n"
        f"call = jax.ffi.ffi_call({CUSTOM_CALL_TARGET!r}, a)\n"
        f"out = jax.jit(lambda a: call(a, a, backend_config={config!r}))(a)\n"
        "assert (out == 2).all()\n"
    )


SHARDED = """
import os
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
import jax, jax.numpy as jnp
from jax.sharding import PartitionSpec as P
from tests.frameworks.kernels import add

mesh = jax.make_mesh((2,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
a, rows = jnp.arange(24.0).reshape(4, 6), jnp.ones((2, 6))

def sharded(f, ins=P("d"), outs=P("d")):
    return jax.shard_map(f, mesh=mesh, in_specs=ins, out_specs=outs)

def refused(f):
    try:
        f()
    except ValueError as error:
        return "require replication" in str(error)

# A result differs from device to device as the operands do.
assert refused(lambda: sharded(lambda x: add(x, x), outs=P())(a))
assert (sharded(lambda x: add(x, x))(a) == a + a).all()
assert (jax.jit(sharded(lambda x: add(x, x)))(a) == a + a).all()
assert (sharded(lambda x: add(x, x), ins=P(), outs=P())(a) == a + a).all()
# So does that of one operand that differs, and one that does not.
assert refused(lambda: sharded(lambda x: add(x, rows), outs=P())(a))
assert (sharded(lambda x: add(x, rows))(a) == a + 1).all()
assert (sharded(add, ins=(P(), P("d")))(rows, a) == a + 1).all()
# The types of carried values stay.
scanned = sharded(lambda x: jax.lax.scan(lambda c, _: (add(c, c), None), x, None, length=2)[0])
assert (scanned(a) == 4 * a).all()
assert (sharded(lambda x: jax.lax.psum(add(x, x), "d"), outs=P())(a) == 2 * (a[:2] + a[2:])).all()

explicit = jax.make_mesh((2,), ("d",), axis_types=(jax.sharding.AxisType.Explicit,))
with jax.set_mesh(explicit):
    b = jax.device_put(a, jax.sharding.NamedSharding(explicit, P("d", None)))
    assert (add(b, b) == b + b).all() and (jax.jit(add)(b, b) == b + b).all()
"""


def test_shard_map():
    finished(SHARDED)


def test_a_process_may_end_while_a_kernel_runs():
    done = finished(
        "import jax, jax.numpy as jnp\n"
        "from tests.frameworks.kernels import add\n"
        "f = jax.jit(lambda a: jax.lax.fori_loop(0, 2000, lambda i, x: add(x, x), a))\n"
        "f(jnp.zeros((128, 512)))\n"
        "print('end')\n"
    )
    assert done.stdout == "end\n" and done.stderr == ""


@nki.jit
def gather_from_odd_name(a, i):
    h = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.hbm, name="a\udc80")
    nisa.dma_copy(h, a)
    t = nl.ndarray((i.shape[0], a.shape[1]), dtype=nl.float32)
    nisa.dma_copy(t, h.ap([[a.shape[1], i.shape[0]], [1, a.shape[1]]], vector_offset=nl.load(i)))
    return returned(t)


def test_an_error_whose_text_has_no_encoding_is_an_error():
    a = jnp.ones((5, 4))
    gather_from_odd_name(a, jnp.array([[1], [2]], jnp.int32))
    with pytest.raises(Exception, match="run-time index 9"):
        np.asarray(gather_from_odd_name(a, jnp.array([[1], [9]], jnp.int32)))


@pytest.mark.filterwarnings("ignore::nki.base.warning.NkiDeprecationWarning")
def test_ctrl_c_stops_a_kernel():
    @nki.jit
    def endless(a, n):
        t = nl.load(a)
        register = nisa.register_alloc(nl.load(n))
        while register:
            nisa.tensor_scalar(t, t, nl.multiply, 0.5)
        return returned(t)

    x, zero, one = jnp.ones((4, 4)), jnp.zeros((1, 1), jnp.int32), jnp.ones((1, 1), jnp.int32)
    np.asarray(endless(x, zero))
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(KeyboardInterrupt) as caught:
            endless(x, one)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert "while register:" in str(caught.value.__context__)
    np.testing.assert_array_equal(np.asarray(endless(x, zero)), x)
