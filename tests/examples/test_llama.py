"""The decoder of examples/llama: each gradient against float64, training and generation against the frameworks."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest
import torch

import nki
import nki.torch
from examples.llama import attention, kernels, main, picture, pytorch
from examples.llama.model import MASKED, Sizes, batches, decode, first_weights, rotation, step_tables, text
from nki.testing import gradcheck

RANDOM = np.random.default_rng(0)
SMALL = Sizes(layers=2, hidden=96, tokens=32, contexts=2)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


# The formulas again, in float64, as a textbook writes them.


def rms_norm(x, weight):
    return x / np.sqrt((x**2).mean(1, keepdims=True) + 1e-5) * weight


def swiglu(gate_up):
    gate, up = np.split(gate_up, 2, axis=1)
    return gate / (1 + np.exp(-gate)) * up


def attention_by_token(qkv, cosine, sine):
    """Each token by itself, with complex numbers for the rotation."""
    tokens, features = cosine.shape[0], qkv.shape[1] // 3
    result = np.empty((len(qkv), features))
    for head in range(0, features, 32):
        q, k, v = (qkv[:, part * features + head :][:, :32] for part in range(3))
        turn = np.tile(cosine + 1j * sine, (len(qkv) // tokens, 1))
        q, k = ((z[:, :16] + 1j * z[:, 16:]) * turn for z in (q, k))
        for t in range(len(qkv)):
            seen = slice(t - t % tokens, t + 1)
            scores = (q[t] * k[seen].conj()).sum(1).real / np.sqrt(32)
            weights = np.exp(scores - scores.max())
            result[t, head : head + 32] = weights @ v[seen] / weights.sum()
    return result


@pytest.mark.parametrize("tokens", [1, 40, 200], ids="{} tokens".format)
def test_rms_norm(tokens):
    x, weight = normal(tokens, 128), normal(128)
    np.testing.assert_allclose(kernels.rms_norm(x, weight), rms_norm(x.astype(float), weight), atol=1e-5)
    gradcheck(kernels.rms_norm, kernels.rms_norm_backward, x, weight, reference=rms_norm)


@pytest.mark.parametrize("tokens", [1, 40, 200], ids="{} tokens".format)
def test_swiglu(tokens):
    x = normal(tokens, 192) * 3
    np.testing.assert_allclose(kernels.swiglu(x), swiglu(x.astype(float)), atol=1e-5)
    gradcheck(kernels.swiglu, kernels.swiglu_backward, x, reference=swiglu)


@pytest.mark.parametrize(("contexts", "tokens", "heads"), [(1, 1, 1), (3, 8, 2), (2, 16, 4), (1, 128, 4)])
def test_attention(contexts, tokens, heads):
    qkv, tables = normal(contexts * tokens, 96 * heads), rotation(tokens)
    expected = attention_by_token(qkv.astype(float), *tables)
    np.testing.assert_allclose(attention.attention(qkv, *tables), expected, atol=2e-6)
    report = gradcheck(
        attention.attention, attention.attention_backward, qkv, *tables, reference=attention_by_token, elements=12
    )
    assert [w.argument for w in report.worst] == ["qkv"]


def test_one_token_at_a_time_is_the_whole_context():
    tokens, features = 32, 128
    qkv, tables = normal(tokens, 3 * features), [*rotation(tokens), *step_tables(tokens)]
    whole = attention.attention(qkv, *tables[:2])
    keys, values = np.zeros((features, tokens), np.float32), np.zeros((tokens, features), np.float32)
    for t in range(tokens):
        mixed, key = attention.attention_step(qkv[t : t + 1], *(table[t : t + 1] for table in tables), keys, values)
        keys[:, t], values[t] = key[0], qkv[t, 2 * features :]
        np.testing.assert_allclose(mixed[0], whole[t], atol=2e-6)
    assert MASKED < -1000


@pytest.mark.parametrize(
    ("kernel", "arguments"),
    [
        (kernels.rms_norm, (normal(40, 128), normal(128))),
        (kernels.rms_norm_backward, (normal(40, 128), normal(128), normal(40, 128))),
        (kernels.swiglu, (normal(40, 64),)),
        (kernels.swiglu_backward, (normal(40, 64), normal(40, 32))),
        (attention.attention, (normal(16, 192), *rotation(8))),
        (attention.attention_backward, (normal(16, 192), *rotation(8), normal(16, 64))),
        (
            attention.attention_step,
            (normal(1, 192), *rotation(1), *(t[2:3] for t in step_tables(8)), normal(64, 8), normal(8, 64)),
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_simulated_bits_are_the_native_ones(kernel, arguments):
    native, simulated = kernel(*arguments), nki.simulate(kernel)(*arguments)
    for a, b in zip(*(r if isinstance(r, tuple) else (r,) for r in (native, simulated)), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_command_compiles_all_kernels_of_the_example():
    folder = Path(main.__file__).parent
    command = [sys.executable, "-m", "nki", "check", "--json", str(folder)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "not compiled" not in run.stderr and json.loads(run.stdout) is not None


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_training_agrees_with_the_framework(framework, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(main, "Sizes", lambda layers: replace(SMALL, layers=layers))
    monkeypatch.setattr(main.Sizes, "layers", SMALL.layers, raising=False)
    threads = torch.get_num_threads()
    svg = tmp_path / "loss.svg"
    try:
        status = main.main(["--framework", framework, "--steps", "6", "--layers", "2", "--picture", str(svg)])
    finally:
        torch.set_num_threads(threads)
    shown = capsys.readouterr().out
    assert status == 0, shown
    assert "(within the noise of bfloat16" in shown and "tokens per second: kernels" in shown
    assert len(ET.parse(svg).getroot().findall("{*}polyline")) == 3


def gradient_of_the_first_step(operators):
    trainer = pytorch.Trainer(first_weights(SMALL), operators, 1e-3)
    losses = [trainer.step(next(batches(SMALL)))]
    return losses, {name: w.grad.numpy() for name, w in trainer.weights.items()}


def test_gradients_of_the_whole_model():
    """Each weight's, against PyTorch in float64."""
    _, found = gradient_of_the_first_step(pytorch.WITH_KERNELS)
    weights = {n: torch.tensor(w, dtype=torch.float64, requires_grad=True) for n, w in first_weights(SMALL).items()}
    tokens = torch.from_numpy(np.ascontiguousarray(next(batches(SMALL))))
    logits = pytorch.whole_contexts(weights, tokens[:, :-1], pytorch.PLAIN)
    torch.nn.functional.cross_entropy(logits, tokens[:, 1:].reshape(-1)).backward()
    for name, weight in weights.items():
        exact = weight.grad.numpy()
        np.testing.assert_allclose(found[name], exact, rtol=0, atol=1e-5 * np.abs(exact).max(), err_msg=name)


def test_a_wrong_gradient_fails_the_comparison():
    def backward(x, weight, dy):
        dx, dweight = kernels.rms_norm_backward(x, weight, dy)
        return dx * 1.1, dweight

    wrong = replace(pytorch.WITH_KERNELS, rms_norm=nki.torch.op(kernels.rms_norm, backward=backward))
    trainers = [pytorch.Trainer(first_weights(SMALL), which, 1e-2) for which in (wrong, pytorch.PLAIN)]
    runs = main.train(trainers, SMALL, 20)
    assert main.largest_difference(*runs)[0] > main.NOISE
    assert main.largest_difference(main.Run([np.nan], []), main.Run([1.0], []))[0] > main.NOISE


@pytest.mark.parametrize("operators", [pytorch.WITH_KERNELS, pytorch.PLAIN], ids=["kernels", "plain"])
def test_generation_with_a_cache_is_the_model(operators):
    weights = first_weights(SMALL)
    found = pytorch.generate(weights, text()[:4], SMALL, operators)
    assert len(found.tokens) == SMALL.tokens and decode(found.tokens[:4]) == decode(text()[:4])
    whole = pytorch.whole_contexts(
        {n: torch.tensor(w) for n, w in weights.items()}, torch.from_numpy(found.tokens[None]), pytorch.PLAIN
    )
    np.testing.assert_allclose(found.logits, whole[:-1].numpy(), atol=1e-5)


def test_sparkline():
    assert picture.sparkline([4.0, 2.0, 1.0, 1.0], width=4) == "█▃▁▁ 4.000 to 1.000"
    assert picture.sparkline([1.0]).startswith("▁")
