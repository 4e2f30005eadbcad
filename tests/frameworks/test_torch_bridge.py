"""Kernels on PyTorch tensors: eager and differentiated. The compiler's side is in test_torch_compile.py."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx

import nki
from nki.base.framework_errors import NotDifferentiableError, OperandError, OutputDTypeError, TensorDeviceError

from .kernels import add, less, multiply, scale_in_place, sum_and_scaled, to_e4m3

# Forward mode makes PyTorch warn of its own use of torch.jit.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")

A = torch.arange(24, dtype=torch.float32).reshape(4, 6)
B = A.flip(0) * 3 + 1


class Sum(torch.autograd.Function):
    """a + b with a derivative, in the form that torch.func takes too."""

    @staticmethod
    def forward(a, b):
        return add(a, b)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, dy):
        return dy, dy

    @staticmethod
    def jvp(ctx, da, db):
        return da if db is None else da + db


def test_a_result_type_that_torch_lacks_is_refused():
    with pytest.raises(OutputDTypeError, match=r"float8_e4m3,"):
        to_e4m3(A)


def test_the_default_device_does_not_matter():
    with torch.device("meta"):
        assert torch.equal(add(A, B), A + B)


# Tensors without data


def on_meta(*tensors):
    return [t.to("meta") for t in tensors]


def test_meta_tensors_give_meta_tensors_and_nothing_runs(broken_launch):
    total, scaled = sum_and_scaled(*on_meta(A, B))
    assert (total.device.type, total.shape, total.dtype) == ("meta", A.shape, A.dtype)
    assert (scaled.device.type, scaled.shape) == ("meta", (1, 6))
    (flags,) = {less(*on_meta(A, B)).dtype}
    assert flags == torch.bool


def test_meta_tensors_of_a_model_keep_its_graph():
    a, b = (t.requires_grad_() for t in on_meta(A, B))
    Sum.apply(a, b).sum().backward()
    assert a.grad.device.type == "meta" and a.grad.shape == A.shape
    with pytest.raises(NotDifferentiableError, match=r"'add'"):
        add(a, b).sum().backward()


def test_a_meta_tensor_that_a_kernel_changes_is_returned():
    (a,) = on_meta(A)
    assert scale_in_place(a).data_ptr() == a.data_ptr() == 0


def test_some_tensors_without_data_are_refused():
    with pytest.raises(TensorDeviceError, match=r"'meta' has no data"):
        add(A, A.to("meta"))
    with pytest.raises(TensorDeviceError, match=r"'meta' has no data"):
        nki.simulate(add)(*on_meta(A, B))


# Derivatives


def test_a_function_with_a_backward_trains():
    a, b = A.clone().requires_grad_(), B.clone().requires_grad_()
    (Sum.apply(a, b) * a * b).sum().backward()
    expected_a, expected_b = A.clone().requires_grad_(), B.clone().requires_grad_()
    ((expected_a + expected_b) * expected_a * expected_b).sum().backward()
    assert torch.equal(a.grad, expected_a.grad) and torch.equal(b.grad, expected_b.grad)


def test_parameters_run_without_gradients():
    weight = torch.nn.Parameter(A.clone())
    with torch.no_grad():
        assert torch.equal(add(weight, B), A + B)
    with torch.inference_mode():
        assert torch.equal(add(weight, B), A + B)
    assert torch.equal(add(weight.detach(), B), A + B)


def test_results_that_have_no_derivative_need_no_gradient():
    assert not less(A.clone().requires_grad_(), B).requires_grad


@pytest.mark.parametrize(
    "differentiate",
    [
        lambda f: torch.func.grad(lambda x: f(x, B).sum())(A),
        lambda f: torch.func.jvp(lambda x: f(x, B), (A,), (A,)),
    ],
    ids=["grad", "jvp"],
)
def test_torch_func(differentiate):
    differentiate(Sum.apply)
    with pytest.raises(NotDifferentiableError, match=r"'add'"):
        differentiate(add)


def test_torch_func_leaves_other_kernel_calls_alone():
    assert torch.func.grad(lambda x: add(A, B).sum() + x)(torch.tensor(1.0)) == 1


class Square(torch.autograd.Function):
    """a * a with kernels without derivatives of their own in forward, backward and forward mode."""

    @staticmethod
    def forward(a):
        return multiply(a, a)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, dy):
        (a,) = ctx.saved_tensors
        return multiply(add(a, a), dy)

    @staticmethod
    def jvp(ctx, da):
        (a,) = ctx.saved_tensors
        return multiply(add(a, a), da)


@pytest.mark.parametrize(
    "derivative",
    [
        lambda: torch.func.grad(lambda a: Square.apply(a).sum())(A),
        lambda: torch.func.vjp(Square.apply, A)[1](torch.ones_like(A))[0],
        lambda: torch.func.jvp(Square.apply, (A,), (torch.ones_like(A),))[1],
        lambda: make_fx(torch.func.grad(lambda a: Square.apply(a).sum()))(A)(A),
    ],
    ids=["grad", "vjp", "jvp", "make_fx"],
)
def test_kernels_in_the_derivative_of_a_function(derivative):
    assert torch.equal(derivative(), 2 * A)


@pytest.mark.parametrize(
    "value",
    [
        lambda: torch.func.grad(lambda a: (add(a, B).detach() * a).sum())(A),
        lambda: torch.func.grad(lambda a: (add(a.detach(), B) * a).sum())(A),
        lambda: torch.func.grad(lambda a: (a.sum(), add(a, B)), has_aux=True)(A)[1],
        lambda: torch.func.vjp(lambda a: add(a, B), A)[0],
    ],
    ids=["result detached", "input detached", "auxiliary", "value"],
)
def test_torch_func_needs_no_derivative_that_it_does_not_use(value):
    assert torch.equal(value(), A + B)


@pytest.mark.parametrize(
    "derivative",
    [
        lambda: torch.func.grad(lambda b: torch.func.grad(lambda a: Square.apply(a).sum())(b).sum())(A),
        lambda: torch.func.grad(lambda b: torch.func.grad(lambda a: (multiply(b, B) * a).sum())(A).sum())(A),
        lambda: torch.func.jvp(torch.func.grad(lambda a: Square.apply(a).sum()), (A,), (A,)),
        lambda: torch.func.jvp(lambda b: torch.func.grad(lambda a: (multiply(b, B) * a).sum())(A), (A,), (A,)),
    ],
    ids=["grad of backward", "grad through inner grad", "jvp of backward", "jvp through inner grad"],
)
def test_derivatives_through_nested_transforms_are_not_lost(derivative):
    with pytest.raises(NotDifferentiableError, match=r"'(multiply|add)'"):
        derivative()


def test_an_outer_graph_through_torch_func_is_not_lost():
    b = B.clone().requires_grad_()
    inner = torch.func.grad(lambda a: (add(b, B) * a).sum())(A)
    assert torch.equal(inner, B + B)
    with pytest.raises(NotDifferentiableError, match=r"'add'"):
        inner.sum().backward()


def test_forward_mode():
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(A, B)
        assert torch.equal(forward_ad.unpack_dual(Sum.apply(dual, B)).tangent, B)
        assert torch.equal(add(A, B), A + B)
        with pytest.raises(NotDifferentiableError, match=r"'add'"):
            add(dual, B)


# The eager simulator


def test_a_simulated_kernel_does_not_lose_a_gradient_in_silence():
    a = A.clone().requires_grad_()
    with pytest.raises(NotDifferentiableError, match="simulator"):
        nki.simulate(add)(a, B)
    with torch.no_grad():
        assert torch.equal(nki.simulate(add)(a, B), A + B)


# The operator


def operator_call(kernel, *tensors):
    """The operator and the arguments with which the bridge calls it."""
    from nki.frameworks.kernel_adapter import remember
    from nki.frameworks.torch import ADAPTER

    executable, _ = kernel.specialise(tensors, {}, ADAPTER)
    return torch.ops.open_nki.launch.default, (list(tensors), remember(executable))


def test_the_operator_is_what_pytorch_expects_of_operators():
    torch.library.opcheck(*operator_call(add, A, B))
    torch.library.opcheck(*operator_call(sum_and_scaled, A, B))


def test_the_operator_refuses_tensors_of_other_shapes():
    op, (_, kernel) = operator_call(add, A, B)
    with pytest.raises(OperandError, match=r"\(4, 6\).*\(2, 6\)"):
        op([A[:2], B[:2]], kernel)
    with pytest.raises(OperandError, match=r"float32.*int32"):
        op([A.int(), B.int()], kernel)
    with pytest.raises(OperandError, match=r"2 tensors.*passes 1"):
        op([A], kernel)
