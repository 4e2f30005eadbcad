"""A bug in a bridge has the version in its traceback, whichever way the framework calls the kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
import torch

import nki.torch
from nki.base.version import version
from nki.compilation.executable import Executable
from nki.frameworks import jax_call
from nki.frameworks.torch_operators import launch_op

from .kernels import add, scale_in_place

A = np.ones((4, 6), np.float32)
T, J = torch.from_numpy(A), jax.numpy.asarray(A)
graph = torch.compile(lambda a, b: add(a, b) * 2, backend="eager", fullgraph=True)
changing = torch.compile(lambda a: scale_in_place(a), backend="eager", fullgraph=True)
jitted = jax.jit(lambda a, b: add(a, b) * 2)
operator = nki.torch.op(add, lambda a, b, g: (g, g))
LAUNCHES: dict[str, Callable[[], Any]] = {
    "NumPy": lambda: add(A, A),
    "PyTorch": lambda: add(T, T),
    "an operator": lambda: operator(T, T),
    "a graph": lambda: graph(T, T),
    "a graph that changes": lambda: changing(T.clone()),
    "torch.vmap": lambda: torch.vmap(add)(torch.stack([T, T]), torch.stack([T, T])),
    "JAX": lambda: add(J, J).block_until_ready(),
    "jax.jit": lambda: jitted(J, J).block_until_ready(),
    "jax.vmap": lambda: jax.vmap(add)(jax.numpy.stack([J, J]), jax.numpy.stack([J, J])).block_until_ready(),
}


def broken(*_: Any, **__: Any) -> None:
    raise RuntimeError("broken on purpose")


def report_of(call: Callable[[], Any]) -> str:
    with pytest.raises(Exception, match="broken on purpose") as raised:
        call()
    return "\n".join([str(raised.value), *getattr(raised.value, "__notes__", ())])


@pytest.mark.parametrize("call", LAUNCHES.values(), ids=LAUNCHES)
def test_a_bug_in_a_launch(call: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    call()
    monkeypatch.setattr(Executable, "launch", broken)
    assert f"(open-nki {version()})" in report_of(call)


@pytest.mark.parametrize("name", ["config_for", "_aliases", "varying_alike"])
def test_a_bug_while_jax_traces_and_lowers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax_call, name, broken)
    assert f"(open-nki {version()})" in report_of(lambda: jax.jit(lambda a: add(a, a) * 3)(J))


def test_a_bug_while_pytorch_asks_for_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    add(T, T)
    monkeypatch.setattr("nki.frameworks.torch_operators.find", broken)
    assert f"(open-nki {version()})" in report_of(lambda: launch_op([T, T], "/nowhere"))
