"""The kernels of examples/distributed: against NumPy in float64, against one rank, natively and simulated."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

import nki
from examples.distributed.dropless_experts import dropless_experts
from examples.distributed.expert_parallel import expert_parallel_mlp
from examples.distributed.ring_attention import ring_attention
from examples.distributed.tensor_parallel_attention import tensor_parallel_attention
from examples.distributed.tensor_parallel_mlp import sequence_parallel_mlp, tensor_parallel_mlp
from nki.target import ENVIRONMENT
from tests.support.fresh_process import ROOT

pytestmark = pytest.mark.usefixtures("trn2")
LAUNCHES = pytest.mark.parametrize(("ranks", "cores"), [(2, 1), (2, 2), (4, 1), (4, 2)])


@pytest.fixture
def trn2(monkeypatch):
    monkeypatch.setenv(ENVIRONMENT, "trn2")


def normal(*shape, seed=0):
    """float32 of standard deviation 1 / sqrt of the second last size: products stay near 1."""
    return (np.random.default_rng(seed).standard_normal(shape) * shape[-2] ** -0.5).astype(np.float32)


def columns(weight, ranks):
    return [np.ascontiguousarray(part) for part in np.split(weight, ranks, axis=1)]


def on_ranks(kernel, ranks, cores, *arguments, **options):
    """The results of all ranks, which are the simulator's to the bit."""
    launched = kernel[cores] if cores > 1 else kernel
    with nki.ranks(ranks):
        native = launched(*arguments, ranks=ranks, **options)
    simulated = nki.simulate(launched, ranks=ranks)(*arguments, ranks=ranks, **options)
    assert [out.tobytes() for out in native] == [out.tobytes() for out in simulated]
    return native


def gated_mlp(x, gate, up, down):
    inner = x @ gate
    return inner / (1 + np.exp(-inner)) * (x @ up) @ down


def attention(query, key, value, causal):
    scores = query @ key.T / np.sqrt(query.shape[1])
    scores = np.where(np.tri(len(scores)) + (not causal) > 0, scores, -np.inf)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True) @ value


@LAUNCHES
@pytest.mark.parametrize("form", [tensor_parallel_mlp, sequence_parallel_mlp], ids=["tensor", "sequence"])
def test_mlp(form, ranks, cores):
    x, gate, up, down = normal(512, 256) * 22, normal(256, 512), normal(256, 512, seed=1), normal(512, 256)
    shards = columns(gate, ranks), columns(up, ranks), np.split(down, ranks)
    whole = form is tensor_parallel_mlp
    outs = on_ranks(form, ranks, cores, x if whole else np.split(x, ranks), *shards)
    one = form(x, gate, up, down, ranks=1)
    np.testing.assert_allclose(one, gated_mlp(x.astype(float), gate, up, down), atol=3e-6)
    for out in outs if whole else [np.concatenate(outs)]:
        np.testing.assert_allclose(out, one, atol=2e-6)


@LAUNCHES
def test_tensor_parallel_attention(ranks, cores):
    x, head = normal(256, 256) * 16, 64
    query, key, value, output = (normal(256, 256, seed=n) for n in range(4))
    shards = [columns(w, ranks) for w in (query, key, value)]
    outs = on_ranks(tensor_parallel_attention, ranks, cores, x, *shards, np.split(output, ranks), head=head)
    one = tensor_parallel_attention(x, query, key, value, output, head=head, ranks=1)
    q, k, v = (x.astype(float) @ w for w in (query, key, value))
    heads = [slice(h, h + head) for h in range(0, 256, head)]
    mixed = np.concatenate([attention(q[:, h], k[:, h], v[:, h], True) for h in heads], 1)
    np.testing.assert_allclose(one, mixed @ output, atol=2e-6)
    for out in outs:
        np.testing.assert_allclose(out, one, atol=2e-6)


@LAUNCHES
@pytest.mark.parametrize("causal", [True, False], ids=["causal", "whole"])
def test_ring_attention(causal, ranks, cores):
    query, key, value = (normal(512, 64, seed=n) * 22 for n in range(3))
    outs = on_ranks(ring_attention, ranks, cores, *(np.split(a, ranks) for a in (query, key, value)), causal=causal)
    one = ring_attention(query, key, value, causal=causal, ranks=1)
    np.testing.assert_allclose(one, attention(*(a.astype(float) for a in (query, key, value)), causal), atol=2e-6)
    np.testing.assert_allclose(np.concatenate(outs), one, atol=2e-6)


def routed(x, router, gate, up, down, capacity):
    """Token by token, and how many tokens each expert was asked to take."""
    x = x.astype(float)
    logits, asked, out = x @ router, np.zeros(router.shape[1], int), np.zeros_like(x)
    for token, row in enumerate(logits):
        expert = row.argmax()
        asked[expert] += 1
        if asked[expert] <= capacity:
            result = gated_mlp(x[token], gate[expert], up[expert], down[expert])
            out[token] = result / np.exp(row - row.max()).sum()
    return out, asked


@LAUNCHES
def test_expert_parallel(ranks, cores):
    """Each token's expert computes the same wherever it is: one rank with all experts has the same bits."""
    xs = [normal(256, 128, seed=n) * 16 for n in range(ranks)]
    router, experts = normal(128, 8), (normal(8, 128, 256), normal(8, 128, 256, seed=1), normal(8, 256, 128))
    shards = [np.split(w, ranks) for w in experts]
    outs = on_ranks(expert_parallel_mlp, ranks, cores, xs, router, *shards, capacity=32)
    for x, out in zip(xs, outs, strict=True):
        one = expert_parallel_mlp(x, router, *experts, capacity=32, ranks=1)
        expected, asked = routed(x, router, *experts, 32)
        assert asked.max() > 32 > asked.min() > 0, "some expert is full, some has room"
        np.testing.assert_allclose(one, expected, atol=3e-6)
        assert out.tobytes() == one.tobytes()


@LAUNCHES
def test_dropless_experts(ranks, cores):
    """One rank with all experts, and room for all tokens with each of them, has the same bits."""
    xs = [normal(128, 128, seed=n) * 16 for n in range(ranks)]
    router, gate, up = normal(128, ranks), normal(ranks, 128, 256), normal(ranks, 128, 256, seed=1)
    down = normal(ranks, 256, 128)
    outs = on_ranks(dropless_experts, ranks, cores, xs, router, *map(list, (gate, up, down)))
    for x, out in zip(xs, outs, strict=True):
        one = expert_parallel_mlp(x, router, gate, up, down, capacity=128, ranks=1)
        expected, asked = routed(x, router, gate, up, down, 128)
        assert len(set(asked)) > 1, "messages differ in length"
        np.testing.assert_allclose(one, expected, atol=3e-6)
        assert out.tobytes() == one.tobytes()


def test_bfloat16():
    """Ranks are added in float32, so several differ from one by roundings of intermediate tiles only."""
    x, *square = (
        (normal(256, 256, seed=n) * scale).astype(ml_dtypes.bfloat16) for n, scale in enumerate((16, 1, 1, 1, 1))
    )
    tokens, experts = np.split(x[:, :128].copy(), 2), np.stack(square * 2)[:, :128, :128].copy()
    router, narrow = square[0][:128, :8].copy(), [w[:, :64].copy() for w in square[:3]]
    by_column = [columns(w, 2) for w in square]
    for kernel, sharded, whole in (
        (tensor_parallel_mlp, (x, *by_column[:2], np.split(square[2], 2)), (x, *square[:3])),
        (tensor_parallel_attention, (x, *by_column[:3], np.split(square[3], 2)), (x, *square)),
        (ring_attention, [np.split(a, 2) for a in narrow], narrow),
        (expert_parallel_mlp, (tokens, router, *[np.split(experts, 2)] * 3), (tokens[0], router, *[experts] * 3)),
    ):
        one, several = kernel(*whole, ranks=1), np.concatenate(on_ranks(kernel, 2, 1, *sharded))
        assert one.dtype == several.dtype == x.dtype
        one, several = one.astype(float), several[: len(one)].astype(float)
        assert np.abs(one).max() > 0
        assert np.abs(several - one).max() <= 2.0**-7 * np.abs(one).max()


def test_the_program_of_the_page(tmp_path):
    page = ROOT / "docs" / "distributed.md"
    (program,) = re.findall(r"^```python\n(import numpy.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    file = tmp_path / "page.py"
    file.write_text(program, "utf-8")
    command = [sys.executable, "-W", "error", "-c", f"import runpy; runpy.run_path({str(file)!r})"]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert run.returncode == 0, run.stderr
    assert float(run.stdout.removeprefix("largest difference of 2 ranks and 1: ")) < 1e-6


def test_the_command_compiles_all_kernels_of_the_examples():
    command = [sys.executable, "-m", "nki", "check", "--json", str(ROOT / "examples" / "distributed")]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "not compiled" not in run.stderr and json.loads(run.stdout) is not None
