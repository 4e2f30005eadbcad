"""Kernels on arrays that lie on several devices: a process of its own has four, of the CPU."""

from __future__ import annotations

import pytest

from tests.support.fresh_process import finished

SETUP = """
import os
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
from nki.compilation.executable import Executable
from tests.frameworks.kernels import add, multiply, scale_in_place, sum_and_scaled

mesh = jax.make_mesh((4,), ("d",), axis_types=(AxisType.Auto,))
rng = np.random.default_rng(0)
A, B = (rng.normal(size=(8, 4, 6)).astype(np.float32) for _ in range(2))

def placed(x, *names, on=mesh):
    return jax.device_put(x, NamedSharding(on, P(*names)))

def program(f, *args):
    return jax.jit(f).lower(*args).compile().as_text()

def gathers(f, *args):
    return [op for op in ("all-gather", "all-to-all", "all-reduce", "collective-permute") if op in program(f, *args)]

launched = []
launch = Executable.launch
def record(self, pointers, floats=()):
    launched.append(tuple(pointers))
    launch(self, pointers, floats)
Executable.launch = record
"""

BATCH = """
a, b = placed(A, "d"), placed(B, "d")
assert gathers(jax.vmap(add), a, b) == []
text = program(jax.vmap(add), a, b)
assert "f32[2,4,6]{2,1,0} custom-call" in text and "f32[8,4,6]{2,1,0} custom-call" not in text
out = jax.jit(jax.vmap(add))(a, b)
assert out.sharding.spec == P("d") and np.array_equal(out, A + B)
# The check sees a gather where there is one: a kernel without a batch is one whole.
whole = gathers(add, placed(A[0], "d"), placed(B[0], "d"))
assert whole == ["all-gather"], whole
"""

ADDRESSES = """
a, b = placed(A, "d"), placed(B, "d")
call = jax.jit(jax.vmap(add)).lower(a, b).compile()
out = jax.block_until_ready(call(a, b))
def starts(x):
    return [shard.data.unsafe_buffer_pointer() + 96 * i for shard in x.addressable_shards for i in range(2)]
assert sorted(launched) == sorted(zip(starts(a), starts(b), starts(out)))
"""

OTHER_BATCHES = """
a, b, w = placed(A, "d"), placed(B, "d"), placed(B[0])
shared = jax.vmap(add, (0, None))
assert gathers(shared, a, w) == [] and np.array_equal(jax.jit(shared)(a, w), A + B[0])
pairs = jax.vmap(jax.vmap(add, (0, None)), (None, 0))
assert gathers(pairs, a, placed(B)) == [] and np.array_equal(jax.jit(pairs)(a, placed(B)), A[None] + B[:, None])
assert gathers(pairs, placed(A), b) == [] and np.array_equal(jax.jit(pairs)(placed(A), b), A[None] + B[:, None])
several = jax.vmap(sum_and_scaled)
assert gathers(several, a, b) == [] and np.array_equal(jax.jit(several)(a, b)[1], A[:, :1] * 2)
assert gathers(jax.vmap(scale_in_place), a) == [] and np.array_equal(jax.jit(jax.vmap(scale_in_place))(a), A * 2)
assert np.array_equal(a, A)
model = lambda a, b: jax.vmap(multiply)(jax.vmap(add)(jnp.sin(a), b) * 2, b)
assert gathers(model, a, b) == []
np.testing.assert_allclose(jax.jit(model)(a, b), (np.sin(A) + B) * 2 * B, rtol=2e-6)
# Inside an element nothing is split: what is, is gathered first.
rows = placed(A, None, "d")
assert np.array_equal(jax.jit(jax.vmap(add))(rows, rows), A + A)
"""

TRAINING = """
@jax.custom_vjp
def product(a, b):
    return multiply(a, b)
product.defvjp(lambda a, b: (multiply(a, b), (a, b)), lambda s, g: (multiply(s[1], g), multiply(s[0], g)))
def loss(w, x):
    return jax.vmap(lambda row: product(row, w).sum())(x).mean()
x, w = placed(A, "d"), placed(B[0])
value, gradient = jax.jit(jax.value_and_grad(loss))(w, x)
np.testing.assert_allclose(gradient, A.mean(0), rtol=1e-5, atol=1e-6)
text = program(jax.value_and_grad(loss), w, x)
assert "all-gather" not in text and "all-reduce" in text  # the gradient of the shared weight is summed, as it must be
"""

SHARD_MAP = """
a, b = placed(A, "d"), placed(B, "d")
split = jax.shard_map(jax.vmap(add), mesh=mesh, in_specs=(P("d"), P("d")), out_specs=P("d"))
assert gathers(split, a, b) == [] and np.array_equal(jax.jit(split)(a, b), A + B)
explicit = jax.make_mesh((4,), ("d",), axis_types=(AxisType.Explicit,))
with jax.set_mesh(explicit):
    a = placed(A, "d", on=explicit)
    assert gathers(jax.vmap(add), a, a) == []
    out = jax.jit(jax.vmap(add))(a, a)
    assert jax.typeof(out).sharding.spec == P("d", None, None) and np.array_equal(out, A + A)
two = jax.make_mesh((2, 2), ("d", "e"), axis_types=(AxisType.Auto,) * 2)
a, b = placed(A, "d", on=two), placed(B, ("d", "e"), on=two)
assert np.array_equal(jax.jit(jax.vmap(add))(a, b), A + B)
half = jax.shard_map(jax.vmap(add), mesh=two, in_specs=(P("d"), P("d")), out_specs=P("d"), axis_names={"d"})
assert np.array_equal(jax.jit(half)(a, placed(B, "d", on=two)), A + B)
"""

RULE = """
import nki.jax
from tests.frameworks.kernels import weighted
from nki.base.errors import ArgumentError

rows, w = rng.normal(size=(8, 6)).astype(np.float32), rng.normal(size=(1, 6)).astype(np.float32)
f = nki.jax.partitioned(weighted, "n d, one d -> n d", split="n")
model = lambda x, w: f(x, w, scale=3.0)
x = placed(rows, "d")
assert gathers(weighted, x, placed(w)) == ["all-gather"]
assert gathers(model, x, placed(w)) == []
text = program(model, x, placed(w))
assert "f32[2,6]{1,0} custom-call" in text and "f32[8,6]{1,0} custom-call" not in text
out = jax.jit(model)(x, placed(w))
assert out.sharding.spec == P("d") and np.array_equal(out, rows * 3 * w)
assert np.array_equal(f(x, placed(w)), rows * 2 * w) and np.array_equal(f(rows, jnp.asarray(w)), rows * 2 * w)
assert np.array_equal(jax.jit(model)(placed(rows[:6]), placed(w)), rows[:6] * 3 * w)
several = nki.jax.partitioned(sum_and_scaled, "n d, n d -> n d, one d", split="")
assert np.array_equal(jax.jit(several)(x, x)[0], rows + rows)
inside = jax.shard_map(f, mesh=mesh, in_specs=(P("d"), P()), out_specs=P("d"))
assert np.array_equal(jax.jit(inside)(x, placed(w)), rows * 2 * w)
assert np.array_equal(jax.vmap(f, (0, None))(placed(np.stack([rows] * 4), "d"), w), np.stack([rows] * 4) * 2 * w)

@jax.custom_vjp
def trained(x, w):
    return f(x, w)
trained.defvjp(lambda x, w: (f(x, w), (x, w)), lambda xw, dy: (f(dy, xw[1]), (2 * dy * xw[0]).sum(0, keepdims=True)))
gradients = lambda x, w: jax.grad(lambda x, w: trained(x, w).sum(), (0, 1))(x, w)
assert "all-gather" not in program(gradients, x, placed(w))
np.testing.assert_allclose(jax.jit(gradients)(x, placed(w))[1], 2 * rows.sum(0, keepdims=True), rtol=1e-5)

for wrong, split, message in [
    ("n d, d -> n d", "n", "does not fit kernel 'weighted'"),
    ("n d, n d -> n d", "n", "has 8 elements, and in w 1"),
    ("n d, one d -> n d", "m", "not in every result"),
    ("n d", "n", "has no arrow"),
]:
    try:
        nki.jax.partitioned(weighted, wrong, split=split)(rows, jnp.asarray(w))
    except ArgumentError as error:
        assert message in str(error), error
    else:
        raise AssertionError(wrong)
"""

SIMULATED = """
os.environ["NKI_SIMULATOR"] = "1"
a, b = placed(A, "d"), placed(B, "d")
assert gathers(jax.vmap(add), a, b) == [] and np.array_equal(jax.jit(jax.vmap(add))(a, b), A + B)
assert launched == []
"""

EXPORTED = """
from jax import export
from nki.frameworks.jax_program import CHECKS
a, b = placed(A, "d"), placed(B, "d")
data = export.export(jax.jit(jax.vmap(add)), disabled_checks=CHECKS)(A, B).serialize()
assert np.array_equal(export.deserialize(data).call(A, B), A + B)
"""


# The client of several devices may wait for ever for its idle threads when the interpreter ends (jaxlib 0.10.2, seen
# once in some hundred processes: PjRtCpuClient's thread pool joins a thread that nothing has woken).
END = "import os; os._exit(0)\n"


@pytest.mark.parametrize(
    "script",
    [BATCH, ADDRESSES, OTHER_BATCHES, TRAINING, SHARD_MAP, RULE, SIMULATED, EXPORTED],
    ids=["batch", "addresses", "other-batches", "training", "shard-map", "rule", "simulated", "exported"],
)
def test_on_four_devices(script):
    if script is EXPORTED:
        pytest.importorskip("flatbuffers", reason="jax.export serializes programs with flatbuffers")
    finished(SETUP + script + END)
