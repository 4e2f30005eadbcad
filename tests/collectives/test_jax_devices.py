"""Ranks that are devices of JAX: a process of its own has four, of the CPU."""

from __future__ import annotations

import pytest

from tests.support.fresh_process import finished

SETUP = """
import os, sys
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
os.environ["NKI_RANK_TIMEOUT"] = "20"
import jax, jax.numpy as jnp, numpy as np
import nki
from jax.sharding import AxisType, PartitionSpec as P
from nki.base.errors import SeveralRanksError
from nki.frameworks import device_ranks
from tests.collectives.rank_kernels import argument, every_collective, least_of_all, pieces, sum_by_core, sum_of_all

def meshed(*sizes):
    names = "de"[: len(sizes)]
    devices = jax.devices()[: int(np.prod(sizes))]
    return jax.make_mesh(sizes, tuple(names), axis_types=(AxisType.Auto,) * len(sizes), devices=devices)

def on(mesh, f, spec=None, **more):
    spec = P(mesh.axis_names) if spec is None else spec
    return jax.jit(jax.shard_map(f, mesh=mesh, in_specs=spec, out_specs=spec, **more))

def joined(parts):
    return np.concatenate([np.asarray(part) for part in parts])

def same(got, want):
    assert np.asarray(got).tobytes() == np.asarray(want).tobytes()

A = [argument(rank) for rank in range(4)]
TOTAL = joined(nki.simulate(sum_of_all, ranks=4)(A, ((0, 1, 2, 3),)))

def refused(call, *words):
    try:
        jax.block_until_ready(call())
    except Exception as error:
        assert all(word in str(error) for word in words), error
    else:
        raise AssertionError("it is accepted")
"""

EVERY = """
for groups in [((0, 1),), ((1, 0),), ((0, 1, 2, 3),), ((2, 0), (3, 1))]:
    n = 1 + max(map(max, groups))
    tables = [pieces(rank, len(groups[0])) for rank in range(n)]
    got = on(meshed(n), lambda a, t: every_collective(a, t, groups))(joined(A[:n]), joined(tables))
    with nki.ranks(n):
        expected = every_collective(A[:n], tables, groups)
    for number, result in enumerate(got):
        same(result, joined([each[number] for each in expected]))
cores = on(meshed(4), lambda a: sum_by_core[2](a, ((0, 1, 2, 3),)))
same(cores(joined(A)), TOTAL)
assert device_ranks._places == {}
"""

EAGER = """
os.environ["NKI_SIMULATOR"] = "1"
same(on(meshed(4), lambda a: sum_of_all(a, ((0, 1, 2, 3),)))(joined(A)), TOTAL)
"""

# A device is the rank of its place in the mesh, whatever its own number.
MESHES = """
whole = lambda a: sum_of_all(a, ((0, 1, 2, 3),))
rows = lambda a: sum_of_all(a, ((0, 1), (2, 3)))
pair = nki.simulate(sum_of_all, ranks=2)
expected = joined([*pair(A[:2], ((0, 1),)), *pair(A[2:], ((0, 1),))])
same(on(meshed(2, 2), whole)(joined(A)), TOTAL)
same(on(meshed(2, 2), rows)(joined(A)), expected)
same(on(meshed(2, 1), lambda a: sum_of_all(a, ((0, 1),)))(joined(A[:2])), expected[:24])
turned = jax.sharding.Mesh(np.array(jax.devices())[[2, 0, 3, 1]], ("d",))
same(on(turned, rows)(joined(A)), expected)
mesh = meshed(2, 2)
refused(lambda: on(mesh, lambda a: sum_of_all(a, ((0, 1),)), P("d"), axis_names={"d"})(joined(A)), "axes ['e']")
refused(lambda: jax.jit(whole)(A[0]), "NKI-CC001")
refused(lambda: on(meshed(2), whole)(joined(A[:2])), "name rank 3; 2 ranks run")
same(jax.shard_map(whole, mesh=meshed(4), in_specs=P("d"), out_specs=P("d"))(joined(A)), TOTAL)  # not jitted
"""

# Calls that do not depend on each other may run in any order, and programs may be under way together.
ORDERS = """
G = ((0, 1, 2, 3),)
def several(a):
    parts = [sum_of_all(a + k, G) for k in range(12)]
    return sum(part * (k + 1) for k, part in enumerate(parts))
one = on(meshed(4), lambda a: sum_of_all(a, G))
program = on(meshed(4), several)
given = jnp.asarray(joined(A))
first = np.asarray(program(given))
alone = [np.asarray(one(given + k)) for k in range(12)]
np.testing.assert_allclose(first, sum(part * (k + 1) for k, part in enumerate(alone)), rtol=1e-5)
for result in [program(given) for _ in range(8)]:
    same(result, first)
def looped(a):
    return jax.lax.fori_loop(0, 5, lambda i, x: sum_of_all(x, G) * 0.25, a)
mean = np.asarray(one(given)) * np.float32(0.25)
np.testing.assert_allclose(on(meshed(4), looped)(given), mean, rtol=1e-5)
batch = on(meshed(4), jax.vmap(lambda a: sum_of_all(a, G)), P(None, "d"))
same(batch(jnp.stack([given, given + 1])), np.stack([alone[0], alone[1]]))
assert device_ranks._places == {}
"""

MISTAKES = """
os.environ["NKI_RANK_TIMEOUT"] = "1.5"
G = ((0, 1, 2, 3),)
def by_rank(a):
    return jax.lax.cond(jax.lax.axis_index("d") < 3, lambda x: sum_of_all(x, G), lambda x: x, a)
refused(lambda: on(meshed(4), by_rank)(joined(A)), "NKI-CC004", "rank 3 has not come within 1.5 s", "line ")
same(on(meshed(4), lambda a: sum_of_all(a, G))(joined(A)), TOTAL)  # nothing is left of it
def others(a):
    return jax.lax.cond(jax.lax.axis_index("d") < 3, lambda x: sum_of_all(x, G), lambda x: least_of_all(x, G), a)
refused(lambda: on(meshed(4), others)(joined(A)), "NKI-CC004", "has not come")
os.environ["NKI_RANK_TIMEOUT"] = "soon"
refused(lambda: on(meshed(4), lambda a: sum_of_all(a, G))(joined(A)), "NKI_RANK_TIMEOUT=soon is no number")
"""

# See tests/frameworks/test_jax_devices.py: the client may wait for ever for its idle threads.
END = "sys.stdout.flush(); os._exit(0)\n"


@pytest.mark.parametrize(
    "script",
    [EVERY, EAGER, MESHES, ORDERS, MISTAKES],
    ids=["every-collective", "simulated", "meshes", "orders", "mistakes"],
)
def test_on_four_devices(script: str) -> None:
    finished(SETUP + script + END)
