"""``nki.torch.op``: a kernel with its gradient, wherever PyTorch differentiates."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.testing._internal.optests import aot_autograd_check
from torch.utils.checkpoint import checkpoint

import nki
import nki.isa as nisa
import nki.language as nl
import nki.torch
from nki.base.errors import ArgumentError, NotDifferentiableError

from .kernels import add, multiply, sum_and_scaled
from .test_torch_bridge import operator_call

pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*autograd.function.Function:DeprecationWarning"),
]

A = torch.arange(24, dtype=torch.float32).reshape(4, 6) / 8
B = A.flip(0) * 3 + 1


@nki.jit
def scaled_product(a, b, scale=2.0):
    """scale a b"""
    left, right = nl.load(a), nl.load(b)
    nisa.scalar_tensor_tensor(dst=left, data=left, op0=nl.multiply, operand0=scale, op1=nl.multiply, operand1=right)
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, left)
    return out


@nki.jit
def scaled_product_backward(a, b, dy, scale=2.0):
    left, right, gradient = nl.load(a), nl.load(b), nl.load(dy)
    nisa.scalar_tensor_tensor(dst=left, data=left, op0=nl.multiply, operand0=scale, op1=nl.multiply, operand1=gradient)
    nisa.scalar_tensor_tensor(
        dst=right, data=right, op0=nl.multiply, operand0=scale, op1=nl.multiply, operand1=gradient
    )
    da = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    db = nl.ndarray(b.shape, dtype=b.dtype, buffer=nl.shared_hbm)
    nl.store(da, right)
    nl.store(db, left)
    return da, db


product = nki.torch.op(scaled_product, backward=scaled_product_backward)


def loss(a, b, f=product):
    return (f(a, b, scale=3.0) * b).sum()


def gradients(f, *tensors):
    leaves = [t.clone().requires_grad_() for t in tensors]
    f(*leaves).backward()
    return [leaf.grad for leaf in leaves]


EXPECTED = gradients(lambda a, b: (3 * a * b * b).sum(), A, B)


def assert_expected(found):
    for got, expected in zip(found, EXPECTED, strict=True):
        torch.testing.assert_close(got, expected)


@pytest.fixture(autouse=True)
def _fresh():
    torch.compiler.reset()


def test_eager():
    assert torch.equal(product(A, B), 2 * A * B)
    assert_expected(gradients(loss, A, B))
    assert_expected(gradients(lambda a, b: (product(scale=3.0, b=b, a=a) * b).sum(), A, B))


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_one_graph_of_the_compiler(backend):
    assert_expected(gradients(torch.compile(loss, fullgraph=True, backend=backend), A, B))


def test_torch_func():
    assert_expected(torch.func.grad(loss, argnums=(0, 1))(A, B))
    value, pull = torch.func.vjp(lambda a: product(a, B), A)
    assert torch.equal(value, 2 * A * B) and torch.equal(pull(torch.ones_like(A))[0], 2 * B)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("reentrant", [False, True])
def test_activation_checkpointing(compiled, reentrant):
    def function(a, b):
        return checkpoint(loss, a, b, use_reentrant=reentrant)

    if compiled:
        function = torch.compile(function, fullgraph=True, backend="aot_eager")
    assert_expected(gradients(function, A, B))


def test_pytorch_checks_of_operators():
    """opcheck for the operators that forward and backward launch; its check of gradients for the whole."""
    torch.library.opcheck(*operator_call(scaled_product, A, B))
    torch.library.opcheck(*operator_call(scaled_product_backward, A, B, A))
    for dynamic in (False, True):
        leaves = (A.clone().requires_grad_(), B.clone().requires_grad_())
        aot_autograd_check(product, leaves, {}, dynamic=dynamic, check_gradients=True)


def test_export_keeps_the_plain_operator():
    class Module(torch.nn.Module):
        def forward(self, a, b):
            return product(a, b) + 1

    program = torch.export.export(Module(), (A, B))
    assert [n.target for n in program.graph.nodes if "launch" in str(n.target)] == [torch.ops.open_nki.launch.default]
    assert torch.equal(program.module()(A, B), 2 * A * B + 1)


def test_a_python_function_as_backward_and_results_it_alone_sees():
    def backward(total, scaled, d_total):
        return d_total * total, d_total + scaled[0, 0]

    f = nki.torch.op(sum_and_scaled, backward, save="results", kept=1)
    got = gradients(lambda a, b: (f(a, b, 5.0) * B).sum(), A, B)
    assert torch.equal(got[0], B * (A + B)) and torch.equal(got[1], B + 5 * A[0, 0])
    assert isinstance(f(A, B), torch.Tensor)


def test_two_results_and_their_gradients():
    def backward(a, b, total, scaled, d_total, d_scaled, scale):
        assert scale == 2.0 and torch.equal(total, a + b) and torch.equal(scaled, 2 * a[:1])
        return d_total + torch.cat([scale * d_scaled, torch.zeros(3, 6)]), d_total

    f = nki.torch.op(sum_and_scaled, backward, save="all")
    got = gradients(lambda a, b: (f(a, b)[0] * B).sum() + f(a, b)[1].sum(), A, B)
    assert torch.equal(got[0], B + torch.tensor([[2.0], [0], [0], [0]])) and torch.equal(got[1], B)


def test_last_tensors_without_gradient():
    f = nki.torch.op(multiply, lambda a, b, dy: dy * b)
    (found,) = gradients(lambda a: f(a, B).sum(), A)
    assert torch.equal(found, B)
    with pytest.raises(NotDifferentiableError, match="no gradient of tensor 2, which requires one: it gives 1"):
        gradients(lambda a, b: f(a, b).sum(), A, B)
    f = nki.torch.op(multiply, lambda a, b, dy: (None, dy * a))
    with pytest.raises(NotDifferentiableError, match="tensor 1"):
        gradients(lambda a: f(a, B).sum(), A)


def test_mistakes():
    with pytest.raises(ArgumentError, match="3 gradients, and the operator takes 2"):
        gradients(lambda a, b: nki.torch.op(add, lambda a, b, dy: (dy, dy, dy))(a, b).sum(), A, B)
    with pytest.raises(ArgumentError, match="save='input' is none of 'inputs', 'results', 'all'"):
        nki.torch.op(add, add, save="input")


def test_a_gradient_of_the_gradient_is_refused_not_lost():
    a = A.clone().requires_grad_()
    (first,) = torch.autograd.grad(product(a, B).sum(), a, create_graph=True)
    with pytest.raises(NotDifferentiableError, match="'scaled_product_backward'"):
        first.sum().backward()


def test_the_message_of_a_bare_kernel_gives_the_line():
    with pytest.raises(NotDifferentiableError, match=r"f = nki.torch.op\(kernel, backward\)"):
        gradients(lambda a: add(a, B).sum(), A)


def test_meta_and_deep_copies():
    a = A.to("meta").requires_grad_()
    copy.deepcopy(product)(a, a).sum().backward()
    assert a.grad.device.type == "meta" and a.grad.shape == A.shape


def test_in_the_simulator(monkeypatch):
    native = gradients(loss, A, B)
    monkeypatch.setenv("NKI_SIMULATOR", "1")
    for got, expected in zip(gradients(loss, A, B), native, strict=True):
        assert torch.equal(got, expected)


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
    got = torch.compile(function, fullgraph=True, backend=backend)(*small)
    pairs = zip(got, expected, strict=True) if isinstance(expected, tuple) else [(got, expected)]
    for one, other in pairs:
        torch.testing.assert_close(one, other)


def test_a_gradient_of_a_compiled_torch_func_grad():
    def steep(a):
        return torch.func.grad(second_order)(a, B).sum()

    a = A.clone().requires_grad_()
    torch.compile(steep, fullgraph=True, backend="aot_eager")(a).backward()
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
        torch.compile(torch.func.grad(lambda a, b: Product.apply(a, b).sum()), fullgraph=True, backend="aot_eager")(
            A, B
        )
