"""``NKI_PRECISE_FP=0``: low precision is stored as float32, by both executors, in caches and in all frameworks."""

from __future__ import annotations

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import torch

import nki
import nki.isa as nisa
import nki.language as nl
from nki import target
from nki.base.element_types import bfloat16, float32
from nki.base.errors import WidenedViewError
from nki.compilation.executable import Executable
from nki.ir.instruction import REGISTRY
from nki.ir.sample import Draw
from nki.transforms import promote_float32
from tests.support import instruction_bench
from tests.support.kernel_parts import returned

LOW = ["bfloat16", "float16", "tfloat32", "float8_e4m3", "float8_e4m3fn", "float8_e5m2"]
RUNS = pytest.mark.parametrize("run", [lambda k: k, nki.simulate], ids=["compiled", "simulated"])


@pytest.fixture
def wide(monkeypatch):
    monkeypatch.setenv("NKI_PRECISE_FP", "0")


@nki.jit
def thirds(a, dtype):
    """A third of each element, twice rounded if ``dtype`` is low."""
    tile = nl.load(a, dtype=dtype)
    third = nl.ndarray(a.shape, dtype=dtype)
    nisa.tensor_scalar(third, tile, nl.multiply, 1 / 3)
    with_loop = nl.ndarray(a.shape, dtype=dtype)

    def body(_):
        nisa.tensor_scalar(with_loop, third, nl.add, 1.0)

    nl.fori_loop(0, 3, body)
    return returned(with_loop)


@RUNS
@pytest.mark.parametrize("name", LOW)
def test_nothing_is_rounded(run, name, wide):
    a = np.random.default_rng(1).uniform(1, 2, (8, 16)).astype(np.float32)
    found = run(thirds)(a, getattr(nl, name))
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, a * np.float32(1 / 3) + np.float32(1))


@RUNS
@pytest.mark.parametrize("setting", [None, "1", ""])
def test_by_default_it_is(run, setting, monkeypatch):
    monkeypatch.delenv("NKI_PRECISE_FP", raising=False)
    if setting is not None:
        monkeypatch.setenv("NKI_PRECISE_FP", setting)
    a = np.random.default_rng(1).uniform(1, 2, (8, 16)).astype(np.float32)
    found = run(thirds)(a, nl.bfloat16)
    assert found.dtype == ml_dtypes.bfloat16
    exact = a * np.float32(1 / 3) + np.float32(1)
    assert (found.astype(np.float32) != exact).any()


def test_kernels_know_which_way_they_were_compiled(monkeypatch, tmp_path):
    monkeypatch.setenv("OPEN_NKI_CACHE", str(tmp_path))
    a = np.full((8, 16), 1.7, np.float32)
    seen = []
    for setting in ("1", "0", "1", "0"):
        monkeypatch.setenv("NKI_PRECISE_FP", setting)
        seen.append(thirds(a, nl.float16).dtype.name)
        fresh = nki.jit(thirds.func)  # nothing in memory, all on disk
        assert fresh(a, nl.float16).dtype.name == seen[-1]
    assert seen == ["float16", "float32"] * 2


def test_what_is_kept_is_the_kernel_as_written(wide, tmp_path, monkeypatch):
    monkeypatch.setenv("OPEN_NKI_CACHE", str(tmp_path))
    a = np.full((8, 16), 1.7, np.float32)
    made = thirds.compile(a, nl.bfloat16)
    assert [s.dtype for s in made.outputs] == [float32]
    assert [t.dtype for t in made.kernel.outputs] == [bfloat16]
    path = made.artifact()
    assert [s.dtype for s in Executable.load(path).outputs] == [float32]
    monkeypatch.setenv("NKI_PRECISE_FP", "1")
    assert [s.dtype for s in Executable.load(path).outputs] == [bfloat16]
    assert thirds.compile(a, nl.bfloat16).artifact() != path  # graphs name kernels by these paths


@RUNS
def test_inputs_and_other_types_stay(run, wide):
    @nki.jit
    def copies(low, scale, packed, number):
        outs = []
        for x in (low, scale, packed, number):
            tile = nl.ndarray(x.shape, dtype=x.dtype)
            nisa.dma_copy(tile, x)
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            nisa.dma_copy(out, tile)
            outs.append(out)
        bits = nl.ndarray(low.shape, dtype=nl.uint16, buffer=nl.shared_hbm)
        nisa.dma_copy(bits, low.view(nl.uint16))
        return *outs, bits

    low = np.arange(12).reshape(3, 4).astype(ml_dtypes.bfloat16)
    scale = np.full((3, 4), 2.0, ml_dtypes.float8_e8m0fnu)
    packed = np.arange(12, dtype=np.uint32).reshape(3, 4).view(nl.float8_e5m2_x4)
    number = np.arange(12, dtype=np.int32).reshape(3, 4)
    found = run(copies)(low, scale, packed, number)
    assert [f.dtype for f in found] == [np.float32, scale.dtype, packed.dtype, number.dtype, np.uint16]
    np.testing.assert_array_equal(found[0], low.astype(np.float32))
    for got, given in zip(found[1:], (scale, packed, number, low.view(np.uint16)), strict=True):
        np.testing.assert_array_equal(got.view(np.uint8), given.view(np.uint8))


@RUNS
def test_views_of_other_types_are_refused(run, wide):
    @nki.jit
    def bits(a):
        tile = nl.load(a, dtype=nl.bfloat16)
        return returned(tile.view(nl.uint16))

    with pytest.raises(WidenedViewError, match="'tile' is bfloat16 and looked at as uint16"):
        run(bits)(np.ones((4, 4), np.float32))


@RUNS
def test_frameworks_get_float32(run, wide):
    kernel = run(thirds)
    a = np.full((8, 16), 1.7, np.float32)
    want = a * np.float32(1 / 3) + np.float32(1)
    from_torch = kernel(torch.from_numpy(a), nl.bfloat16)
    assert from_torch.dtype == torch.float32
    np.testing.assert_array_equal(from_torch.numpy(), want)
    from_jax = kernel(jnp.asarray(a), nl.bfloat16)
    assert from_jax.dtype == jnp.float32
    np.testing.assert_array_equal(np.asarray(from_jax), want)


@pytest.mark.parametrize("mnemonic", sorted(REGISTRY))
def test_executors_agree_on_every_instruction(mnemonic):
    cls = REGISTRY[mnemonic]
    generation = [g for g in target.GENERATIONS if instruction_bench.exists(cls, g)][-1]
    draw = Draw(instruction_bench.source(mnemonic, "widened"), generation)
    for _ in range(12):
        made = instruction_bench.program([instruction_bench.sample(cls, draw)], generation)
        try:
            kernel = promote_float32.PromoteFloat32().run(made.kernel, target.find(made.kernel.target))
        except WidenedViewError:
            continue
        left = [a for i in kernel.instructions() for a in i.writes() if a.dtype in promote_float32.LOW]
        assert not left
        if kernel.core.tensors == made.kernel.core.tensors:
            continue
        inputs = made.fill(np.random.default_rng(7))
        got, want = instruction_bench.run_native(kernel, inputs), instruction_bench.run_reference(kernel, inputs)
        for one, two in zip(got, want, strict=True):
            same = one if one.dtype.kind in "biu" else one.astype(np.float32)
            np.testing.assert_array_equal(same, two.astype(same.dtype))


@RUNS
def test_two_cores_share_what_is_widened(run, wide, monkeypatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")

    @nki.jit
    def halves(a):
        out = nl.ndarray(a.shape, dtype=nl.bfloat16, buffer=nl.shared_hbm, name="out")
        mine = nl.ds(4 * nl.program_id(), 4)
        tile = nl.load(a[mine], dtype=nl.bfloat16)
        nisa.tensor_scalar(tile, tile, nl.multiply, 1 / 3)
        nl.store(out[mine], tile)
        return out

    a = np.random.default_rng(1).uniform(1, 2, (8, 16)).astype(np.float32)
    found = run(halves[2])(a)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, a * np.float32(1 / 3))


@RUNS
def test_inputs_that_change_keep_their_type(run, wide):
    @nki.jit
    def adds_one(a):
        tile = nl.load(a)
        nisa.tensor_scalar(tile, tile, nl.add, 1.0)
        nl.store(a, tile)
        return a

    a = np.arange(12).reshape(3, 4).astype(ml_dtypes.bfloat16)
    found = run(adds_one)(a)
    assert found.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(found.astype(np.float32), np.arange(1, 13).reshape(3, 4))
