"""``nki.torch.op`` beyond its gradients: PyTorch's checks, export, second derivatives, torch.func in one graph."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.testing._internal.optests import aot_autograd_check

import nki
import nki.torch
from nki.base.framework_errors import NotDifferentiableError

from .bridges import compiled
from .kernels import multiply, scaled_product, scaled_product_backward, sum_and_scaled
from .test_torch_bridge import operator_call

pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*autograd.function.Function:DeprecationWarning"),
]

A = torch.arange(24, dtype=torch.float32).reshape(4, 6) / 8
B = A.flip(0) * 3 + 1


product = nki.torch.op(scaled_product, backward=scaled_product_backward)
referred = nki.torch.op(scaled_product, reference=lambda a, b, scale=2.0: a * b * scale)


def loss(a, b, f=product):
    return (f(a, b, scale=3.0) * b).sum()


@pytest.fixture(autouse=True)
def _fresh():
    torch.compiler.reset()


def test_pytorch_checks_of_operators():
    """opcheck for the operators that forward and backward launch; its check of gradients for the whole."""
    torch.library.opcheck(*operator_call(scaled_product, A, B))
    torch.library.opcheck(*operator_call(scaled_product_backward, A, B, A))
    for dynamic in (False, True):
        leaves = (A.clone().requires_grad_(), B.clone().requires_grad_())
        aot_autograd_check(product, leaves, {}, dynamic=dynamic, check_gradients=True)


@pytest.mark.parametrize("operator", [product, referred], ids=["backward", "reference"])
def test_export_keeps_the_plain_operator(operator):
    class Module(torch.nn.Module):
        def forward(self, a, b):
            return operator(a, b) + 1

    program = torch.export.export(Module(), (A, B))
    assert [n.target for n in program.graph.nodes if "launch" in str(n.target)] == [torch.ops.open_nki.launch.default]
    assert torch.equal(program.module()(A, B), 2 * A * B + 1)


def test_a_gradient_of_the_gradient_is_refused_not_lost():
    a = A.clone().requires_grad_()
    (first,) = torch.autograd.grad(product(a, B).sum(), a, create_graph=True)
    with pytest.raises(NotDifferentiableError, match="'scaled_product_backward'"):
        first.sum().backward()


def test_meta_and_deep_copies():
    a = A.to("meta").requires_grad_()
    copy.deepcopy(product)(a, a).sum().backward()
    assert a.grad.device.type == "meta" and a.grad.shape == A.shape


def test_a_reference_of_several_results_and_in_lower_precision():
    op = nki.torch.op(sum_and_scaled, reference=lambda a, b, scale=2.0, mode="": (a + b, a[:1] * scale))
    half = A.bfloat16().requires_grad_()
    total, scaled = op(half, half.detach(), 4.0)
    (total.sum() + scaled.sum()).backward()
    assert half.grad.dtype == torch.bfloat16 and torch.equal(half.grad[1:], torch.ones_like(half.grad[1:]))
    assert torch.equal(half.grad[0], torch.full((6,), 5.0, dtype=torch.bfloat16))
    wide = nki.torch.op(multiply, reference=lambda a, b: (a.float() * b.float()).to(a.dtype))
    leaf = A.bfloat16().requires_grad_()
    wide(leaf, leaf.detach()).sum().backward()
    assert torch.equal(leaf.grad, A.bfloat16())


again = nki.torch.op(multiply, lambda a, b, dy: (again(dy, b), again(dy, a)))
both = nki.torch.op(sum_and_scaled, lambda a, b, dsum, dscaled, scale: (dsum + scale * dscaled, dsum))


def second_order(a, b):
    """The backward of this operator is differentiable: it is made of operators again."""
    return (again(a, b) ** 2).sum()


def pulled(a, b):
    value, pull = torch.func.vjp(loss, a, b)
    return value, *pull(torch.tensor(2.0))


def of_a_batch(a, b):
    return torch.vmap(torch.func.grad(loss, argnums=(0, 1)), in_dims=(0, None))(torch.stack([a, b]), b)


def twice(a, b):
    return torch.func.grad(lambda x: (torch.func.grad(second_order)(x, b) * a).sum())(a)


def two_results(a, b):
    total, scaled = both(a, b, scale=3.0)
    return (total * b + scaled * scaled).sum()


@pytest.mark.parametrize(
    "function",
    [
        torch.func.grad(loss, argnums=(0, 1)),
        torch.func.grad(lambda a, b: loss(a, b).exp(), argnums=1),
        torch.func.grad(two_results, argnums=(0, 1)),
        pulled,
        of_a_batch,
        twice,
    ],
    ids=["grad", "argnums", "two", "vjp", "vmap", "twice"],
)
@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_compiled_torch_func(function, backend):
    """PyTorch 2.13 would drop the backward of an ``autograd.Function`` there."""
    small = A / 64, B / 64
    expected = function(*small)
    got = compiled(function, backend)(*small)
    pairs = zip(got, expected, strict=True) if isinstance(expected, tuple) else [(got, expected)]
    for one, other in pairs:
        torch.testing.assert_close(one, other)


def test_a_gradient_of_a_compiled_torch_func_grad():
    def steep(a):
        return torch.func.grad(second_order)(a, B).sum()

    a = A.clone().requires_grad_()
    compiled(steep)(a).backward()
    torch.testing.assert_close(a.grad, 2 * B * B)


def test_a_bare_function_in_a_compiled_torch_func_grad_is_an_error():
    """Not a wrong number, which the derivative of a forward without its backward would be."""

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(a, b):
            return multiply(a, b)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, gradient):
            a, b = ctx.saved_tensors
            return gradient * b, gradient * a

    with pytest.raises(NotDifferentiableError, match=r"nki\.torch\.op"):
        compiled(torch.func.grad(lambda a, b: Product.apply(a, b).sum()))(A, B)
