"""Kernels in the graphs of torch.compile and torch.export, always as one graph without breaks."""

from __future__ import annotations

import pytest
import torch

from nki.base.framework_errors import NotDifferentiableError
from nki.frameworks.kernel_adapter import find
from tests.support.fresh_process import finished

from .bridges import compiled
from .kernels import add, multiply, sum_and_scaled

# The compiler makes PyTorch warn of its own use of torch.jit, and of an instance of autograd.Function that it makes.
pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*autograd.function.Function:DeprecationWarning"),
]

A = torch.arange(24, dtype=torch.float32).reshape(4, 6)
B = A.flip(0) * 3 + 1


class Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        return add(a, b)

    @staticmethod
    def backward(ctx, dy):
        return dy, dy


@pytest.fixture(autouse=True)
def _fresh():
    torch.compiler.reset()


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_one_graph(backend):
    def function(a, b):
        total, scaled = sum_and_scaled(a, b, scale=3.0, mode="other")
        return add(a, b) * 2 + total, scaled, sum_and_scaled[1](a, b, 1.5)[1]

    for got, expected in zip(compiled(function, backend)(A, B), function(A, B), strict=True):
        assert torch.equal(got, expected)


def test_the_graph_holds_one_operator():
    graphs = []

    def backend(graph, inputs):
        graphs.append([node.target for node in graph.graph.nodes if "launch" in str(node.target)])
        return graph.forward

    compiled(lambda a, b: add(a, b) + 1, backend)(A, B)
    assert graphs == [[torch.ops.open_nki.launch.default]]


def test_a_kernel_that_was_never_called_eagerly():
    """The bridge itself is first imported while the program is traced."""
    program = (
        "import torch\n"
        "from tests.frameworks.kernels import add\n"
        "a = torch.ones(2, 3)\n"
        "assert torch.equal(torch.compile(add, fullgraph=True, backend='eager')(a, a), a + a)\n"
    )
    finished(program)


@pytest.mark.parametrize("scales", [(2.0, 3.0, 4.5), (2, 3, 4)], ids=["float", "int"])
def test_numbers_are_those_of_each_call(scales):
    function = compiled(lambda a, b, scale: sum_and_scaled(a, b, scale)[1])
    for scale in scales:
        assert torch.equal(function(A, B, scale), A[:1] * scale)


def test_views_and_order_of_arguments():
    function = compiled(lambda a, b: sum_and_scaled(b=a.t(), a=b.t(), scale=1.0)[1])
    assert torch.equal(function(A, B), B.t()[:1])


def test_training():
    def loss(a, b):
        return (Sum.apply(a, b) * a * b).sum()

    grads = []
    for function in (compiled(loss), lambda a, b: ((a + b) * a * b).sum()):
        a, b = A.clone().requires_grad_(), B.clone().requires_grad_()
        function(a, b).backward()
        grads.append((a.grad, b.grad))
    assert torch.equal(grads[0][0], grads[1][0]) and torch.equal(grads[0][1], grads[1][1])


class Square(torch.autograd.Function):
    """a * a, with kernels in the backward, in PyTorch's older form."""

    @staticmethod
    def forward(ctx, a):
        ctx.save_for_backward(a)
        return multiply(a, a)

    @staticmethod
    def backward(ctx, dy):
        (a,) = ctx.saved_tensors
        return multiply(add(a, a), dy)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_kernels_in_the_backward(backend):
    a = A.clone().requires_grad_()
    compiled(Square.apply, backend)(a).sum().backward()
    assert torch.equal(a.grad, 2 * A)


def test_a_missing_derivative_is_an_error_only_when_it_is_asked_for():
    function = compiled(lambda a, b: add(a, b) * 2)
    out = function(A.clone().requires_grad_(), B)
    assert torch.equal(out, (A + B) * 2)
    with pytest.raises(NotDifferentiableError, match=r"'add'"):
        out.sum().backward()


@pytest.mark.parametrize(
    ("tensor", "code"),
    [(A.double(), "NKI-DT001"), (A[:0], "NKI-FW002"), (A.sum(), "NKI-FW003")],
    ids=["float64", "empty", "rank-0"],
)
def test_what_no_kernel_takes_is_refused_by_name(tensor, code):
    with pytest.raises(Exception, match=code):
        compiled(add)(tensor, tensor)


def test_meta_tensors():
    a = A.to("meta")
    assert compiled(add)(a, a).device.type == "meta"
    with pytest.raises(Exception, match="NKI-FW005"):
        compiled(add)(A, a)


class Module(torch.nn.Module):
    def forward(self, a, b):
        return add(a, b) * 2


def test_graphs_of_another_process_find_the_artifact():
    program = torch.export.export(Module(), (A, B))
    (node,) = (n for n in program.graph.nodes if "launch" in str(n.target))
    script = (
        "import torch, nki.frameworks.torch\n"
        "a = torch.ones(4, 6)\n"
        f"(out,) = torch.ops.open_nki.launch([a, a], {node.args[1]!r})\n"
        "assert torch.equal(out, a + a)\n"
    )
    finished(script)
    assert find(node.args[1]).name == "add"
