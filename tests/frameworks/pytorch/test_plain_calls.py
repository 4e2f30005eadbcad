"""Calls that go to the launch straight away, and the same calls with what must not: the kernel is compiled before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.errors import ArgumentError
from nki.base.framework_errors import NotDifferentiableError
from nki.frameworks import torch as bridge
from nki.frameworks import torch_launch

A = torch.arange(24, dtype=torch.float32).reshape(4, 6)
B = A.flip(0) * 3 + 1
OFFSET = 5.0


@nki.jit
def weighted(x, y, factor=2):
    """x + factor * y + OFFSET, and x."""
    out, same = (nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm) for _ in range(2))
    one, two = nl.load(x), nl.load(y)
    nl.store(same, one)
    nisa.tensor_scalar(two, two, nl.multiply, factor, op1=nl.add, operand1=OFFSET)
    nisa.tensor_tensor(one, one, two, nl.add)
    nl.store(out, one)
    return out, same


@nki.jit
def total(x, *factors, shift=1):
    """x times the sum of factors, + shift."""
    out, tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm), nl.load(x)
    nisa.tensor_scalar(tile, tile, nl.multiply, sum(factors), op1=nl.add, operand1=shift)
    nl.store(out, tile)
    return out


def step(size=1.0):
    return size


@nki.jit
def stepped(x):
    """x + the default of :func:`step`."""
    out, tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm), nl.load(x)
    nisa.tensor_scalar(tile, tile, nl.add, step())
    nl.store(out, tile)
    return out


@pytest.fixture
def straight(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each call of a kernel from now on: did it go to the launch straight away?"""
    weighted(A, B, 2)
    taken: list[bool] = []

    def noting(*arguments: Any) -> Any:
        results = torch_launch.launch_plain(*arguments)
        taken.append(results is not None)
        return results

    monkeypatch.setattr(bridge, "launch_plain", noting)
    return taken


def check(x: torch.Tensor, y: torch.Tensor, factor: Any = 2) -> None:
    out, same = weighted(x, y, factor)
    assert type(out) is torch.Tensor and torch.equal(out, torch.as_tensor(x + factor * y + OFFSET)) and same.equal(x)


def test_plain_tensors_and_constants_of_a_compiled_kernel(straight: list[bool]) -> None:
    check(A, B)
    check(torch.nn.Parameter(A, requires_grad=False), B)
    with torch.inference_mode():
        check(A, B)
    assert straight == [True] * 3


@pytest.mark.parametrize(
    "x",
    [
        A.T.contiguous().T,
        torch._neg_view(A),
        torch.from_numpy(
            np.frombuffer(bytearray(b"ab" + A.numpy().tobytes()), np.uint8)[2:].view(np.float32).reshape(4, 6)
        ),
        A.as_subclass(type("Own", (torch.Tensor,), {})),
    ],
    ids=["columns first", "negated when it is read", "between two elements", "a class of its own"],
)
def test_tensors_that_are_not_plain(x: torch.Tensor, straight: list[bool]) -> None:
    out, same = weighted(x, B, 2)
    assert torch.equal(out.as_subclass(torch.Tensor), A * (-1 if x.is_neg() else 1) + 2 * B + OFFSET)
    assert torch.equal(same.as_subclass(torch.Tensor), x.as_subclass(torch.Tensor)) and straight == [False]


def test_constants_that_compile_otherwise(straight: list[bool]) -> None:
    check(A, B, 1)
    with pytest.raises(ArgumentError):  # equal to 1
        weighted(A, B, True)
    check(A, B, 1)
    check(A, B, 3.5)
    check(A, B, 4.5)
    assert straight == [False, False, True, False, False]


def test_a_default_and_names_are_bound(straight: list[bool]) -> None:
    expected = A + 2 * B + OFFSET
    assert weighted(A, B)[0].equal(expected) and weighted(x=A, y=B, factor=2)[0].equal(expected)
    assert straight == [False]


@pytest.mark.filterwarnings("ignore::nki.base.warning.NkiPortabilityWarning")
def test_a_default_is_no_further_argument() -> None:
    assert total(A, 3).equal(3 * A + 1) and total(A, 3, 1).equal(4 * A + 1)


def test_a_changed_global_is_compiled_in(straight: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "OFFSET", -1.0)
    check(A, B)
    check(A, B)
    assert straight == [False, True]


def test_a_changed_default_of_a_function_is_compiled_in(monkeypatch: pytest.MonkeyPatch) -> None:
    assert stepped(A).equal(A + 1)
    monkeypatch.setattr(step, "__defaults__", (2.5,))
    assert stepped(A).equal(A + 2.5)


def test_gradients_are_not_lost(straight: list[bool]) -> None:
    x = A.clone().requires_grad_()
    with pytest.raises(NotDifferentiableError):
        weighted(x, B, 2)[0].sum().backward()
    with torch.no_grad():
        assert weighted(x, B, 2)[0].equal(A + 2 * B + OFFSET)
    assert straight == [False, True]


def test_every_tensor_of_a_batch_is_computed(straight: list[bool]) -> None:
    many = torch.stack([A, B, -A])
    out, same = torch.func.vmap(lambda x: weighted(x, B, 2))(many)
    assert torch.equal(out, many + 2 * B + OFFSET) and torch.equal(same, many) and straight == []
