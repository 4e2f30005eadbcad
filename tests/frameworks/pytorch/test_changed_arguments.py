"""Kernels that write to their arguments: eager, in graphs, exported, and as operators with a gradient."""

from __future__ import annotations

import io

import pytest
import torch
from torch._inductor.utils import run_and_get_code

import nki
import nki.isa as nisa
import nki.language as nl
import nki.torch
from nki.base.errors import ArgumentError
from nki.base.framework_errors import NotBatchableError, NotDifferentiableError, OperandError
from nki.frameworks import torch_program
from nki.frameworks.kernel_adapter import remember
from nki.frameworks.torch import ADAPTER
from tests.frameworks.bridges import compiled
from tests.frameworks.kernels import put, scale_in_place

pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*autograd.function.Function:DeprecationWarning"),
]

A = torch.arange(24, dtype=torch.float32).reshape(4, 6) / 8


@nki.jit
def append(cache, x, row=0):
    """cache, which holds x from ``row`` on; and 2 x."""
    tile = nl.load(x)
    nisa.dma_copy(dst=cache[row : row + x.shape[0], :], src=tile)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return cache, out


appended = nki.torch.op(append, lambda cache, x, dy: (None, 2 * dy), changes=["cache"])


@pytest.fixture(autouse=True)
def _fresh():
    torch.compiler.reset()


# Eager


def test_pytorch_counts_the_change():
    a, weight = A.clone(), torch.ones(4, 6, requires_grad=True)
    loss = (weight * a).sum()
    scale_in_place(a)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize("view", [lambda t: t.t(), lambda t: t[:, ::2], lambda t: t[1:]], ids=["t", "step", "rows"])
def test_views_are_changed_where_they_are(view):
    a = A.clone()
    scale_in_place(view(a))
    expected = A.clone()
    view(expected).mul_(2)
    assert torch.equal(a, expected)


def test_inference_tensors():
    with torch.inference_mode():
        a = torch.ones(2, 3)
        assert torch.equal(scale_in_place(a), torch.full((2, 3), 2.0))
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        scale_in_place(a)


def test_a_leaf_with_gradient_is_not_changed():
    a = A.clone().requires_grad_()
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        scale_in_place(a)
    with torch.no_grad():
        scale_in_place(a)
    assert torch.equal(a, 2 * A)


# Graphs


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_graphs_declare_the_change(backend):
    cache = torch.zeros(8, 6)

    def step(cache, x):
        kept, double = append(cache, x, row=2)
        return kept.sum(), double + cache[2:6]

    total, result = compiled(step, backend)(cache, A)
    assert torch.equal(cache[2:6], A) and torch.equal(cache[6:], torch.zeros(2, 6))
    assert torch.equal(total, A.sum()) and torch.equal(result, 3 * A)


def test_inductor_changes_the_argument_without_a_copy(launches):
    cache = torch.zeros(8, 6)
    function = compiled(lambda cache, x: append(cache, x, row=2)[1] + 1, "inductor")
    result, (code,) = run_and_get_code(function, cache, A)
    assert torch.equal(result, 2 * A + 1) and "open_nki.update" in code
    assert launches[-1][0] == launches[-1][2] == cache.data_ptr()


def operator_call(kernel, changed, others):
    executable, _ = kernel.specialise((*changed, *others), {}, ADAPTER)
    fresh = [spec for i, spec in enumerate(executable.outputs) if i not in executable.changes]
    results = [torch.empty(spec.shape) for spec in fresh]
    return torch.ops.open_nki.update.default, (list(changed), results, list(others), remember(executable))


def test_the_operator_is_what_pytorch_expects_of_operators():
    torch.library.opcheck(*operator_call(append, [torch.zeros(8, 6)], [A]))
    torch.library.opcheck(*operator_call(scale_in_place, [A.clone()], []))


def test_the_operator_refuses_other_shapes_and_takes_results_of_any_layout():
    op, (changed, (result,), others, kernel) = operator_call(append, [torch.zeros(8, 6)], [A])
    with pytest.raises(OperandError, match=r"\(8, 6\).*\(7, 6\)"):
        op([changed[0][:7]], [result], others, kernel)
    with pytest.raises(OperandError, match=r"\(4, 6\).*\(3, 6\)"):
        op(changed, [result[:3]], others, kernel)
    turned = torch.empty(6, 4).t()
    op(changed, [turned], others, kernel)
    assert torch.equal(turned, 2 * A)


class Step(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(8, 6))

    def forward(self, x):
        _, double = append(self.cache, x, row=2)
        return double + self.cache[:4]


@pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec:FutureWarning")  # PyTorch's copy of its own objects
def test_export(tmp_path):
    for decompose in (False, True):
        program = torch.export.export(Step(), (A,))
        if decompose:
            program = program.run_decompositions()
        assert [name[:18] for name in torch_program.kernels(program)] == ["nki-kernel:1:appen"]
        file = io.BytesIO()
        torch.export.save(program, file)
        file.seek(0)
        model = torch.export.load(file).module()
        assert torch.equal(model(A), 2 * A + torch.cat([torch.zeros(2, 6), A[:2]]))
        assert torch.equal(model.cache[2:6], A)
    nki.export(Step(), (A,), tmp_path / "step.nkix")
    model = nki.load(tmp_path / "step.nkix")
    assert model.kernels == ["append"]
    assert torch.equal(model(A), 2 * A + torch.cat([torch.zeros(2, 6), A[:2]]))


# Inputs that are changed and not returned


@pytest.mark.parametrize("simulated", [False, True], ids=["native", "simulated"])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_graphs_declare_the_change_of_what_is_not_returned(backend, simulated, monkeypatch):
    monkeypatch.setenv("NKI_SIMULATOR", str(int(simulated)))
    cache = torch.zeros(8, 6)
    function = compiled(lambda cache, x: put(cache, x, row=2) + cache[2:6], backend)
    assert torch.equal(function(cache, A), 3 * A)
    assert torch.equal(cache[2:6], A) and torch.equal(cache[6:], torch.zeros(2, 6))
    torch.library.opcheck(*operator_call(put, [torch.zeros(8, 6)], [A]))


def test_inductor_changes_what_is_not_returned_without_a_copy(launches):
    cache = torch.zeros(8, 6)
    compiled(lambda cache, x: put(cache, x) + 1, "inductor")(cache, A)
    assert launches[-1][0] == launches[-1][3] == cache.data_ptr()


def test_other_modes_of_pytorch_change_it_too():
    caches, xs = torch.zeros(3, 8, 6), torch.stack([A, A + 1, A + 2])
    assert torch.equal(torch.vmap(put)(caches, xs), 2 * xs) and torch.equal(caches[:, :4], xs)
    with torch.inference_mode():
        put(cache := torch.zeros(8, 6), A)
    assert torch.equal(cache[:4], A)
    put(negated := torch._neg_view(torch.ones(8, 6)), A)
    assert torch.equal(negated[:4].resolve_neg(), A)
    traced = torch.jit.trace(put, (torch.zeros(8, 6), A))
    assert torch.equal(traced(cache := torch.zeros(8, 6), A), 2 * A) and torch.equal(cache[:4], A)


class Kept(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(8, 6))

    def forward(self, x):
        return put(self.cache, x, row=2) + self.cache[:4]


@pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec:FutureWarning")
def test_models_keep_what_is_not_returned(tmp_path):
    expected = 2 * A + torch.cat([torch.zeros(2, 6), A[:2]])
    for decompose in (False, True):
        program = torch.export.export(Kept(), (A,))
        model = (program.run_decompositions() if decompose else program).module()
        assert torch.equal(model(A), expected) and torch.equal(model.cache[2:6], A)
    nki.export(Kept(), (A,), tmp_path / "kept.nkix")
    model = nki.load(tmp_path / "kept.nkix")
    assert model.kernels == ["put"] and torch.equal(model(A), expected)


@pytest.mark.parametrize("run", [lambda f: f, compiled], ids=["eager", "aot_eager"])
def test_a_gradient_of_what_is_not_returned(run):
    x, leaf = A.clone().requires_grad_(), torch.zeros(8, 6, requires_grad=True)
    result = run(put)(cache := torch.zeros(8, 6), x)
    assert torch.equal(cache.detach()[:4], A)
    with pytest.raises(NotDifferentiableError, match="'put' has no derivative"):
        result.sum().backward()
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        put(leaf, A)
    operator, cache = nki.torch.op(put, lambda cache, x, dy: (None, 2 * dy), changes=["cache"]), torch.zeros(8, 6)
    run(lambda cache, x: operator(cache, x, row=4))(cache, x).sum().backward()
    assert torch.equal(x.grad, torch.full_like(A, 2)) and torch.equal(cache[4:], A)


def test_an_operator_that_does_not_declare_it():
    operator = nki.torch.op(put, lambda cache, x, dy: (None, 2 * dy))
    with pytest.raises(ArgumentError, match=r"changes, or returns, its argument 'cache'\n.*changes=\['cache'\]"):
        operator(torch.zeros(8, 6), A.clone().requires_grad_())


# Operators with a gradient


@pytest.mark.parametrize(
    "run", [lambda f: f, compiled, lambda f: compiled(f, "inductor")], ids=["eager", "aot_eager", "inductor"]
)
@pytest.mark.parametrize("simulated", [False, True], ids=["native", "simulated"])
def test_the_operator_trains(run, simulated, monkeypatch):
    monkeypatch.setenv("NKI_SIMULATOR", str(int(simulated)))
    cache, x = torch.zeros(8, 6), A.clone().requires_grad_()
    kept, double = run(lambda cache, x: appended(cache, x, row=2))(cache, x)
    assert torch.equal(kept, cache) and torch.equal(cache[2:6], A) and torch.equal(double, 2 * A)
    assert not kept.requires_grad
    double.sum().backward()
    assert torch.equal(x.grad, torch.full_like(A, 2))
    with torch.no_grad():
        assert torch.equal(run(lambda cache, x: appended(cache, x))(cache, x)[1], 2 * A)


def test_an_operator_that_only_changes():
    f = nki.torch.op(scale_in_place, lambda a: None, changes="a")
    a = A.clone()
    assert f(a, scale=3.0) is a and torch.equal(a, 3 * A)


def test_saved_results_hold_the_changed_argument():
    seen = []

    def backward(cache, double, dy):
        seen.append(cache)
        return None, dy * double

    f = nki.torch.op(append, backward, save="results", changes=["cache"])
    cache, x = torch.zeros(8, 6), A.clone().requires_grad_()
    f(cache, x)[1].sum().backward()
    assert torch.equal(x.grad, 2 * A) and torch.equal(seen[0], cache)


def test_mistakes():
    x = A.clone().requires_grad_()
    with pytest.raises(ArgumentError, match=r"changes, or returns, its argument 'cache'\n.*changes=\['cache'\]"):
        nki.torch.op(append, lambda cache, x, dy: (None, dy))(torch.zeros(8, 6), x)
    with pytest.raises(ArgumentError, match=r"no such parameter\n.*cache, x, row"):
        nki.torch.op(append, lambda cache, x, dy: (None, dy), changes=["chace"])
    with pytest.raises(NotDifferentiableError, match=r"changes 'cache', which requires a gradient"):
        appended(torch.zeros(8, 6, requires_grad=True), x)
    with pytest.raises(NotBatchableError, match=r"changes cache, cannot run under torch.vmap"):
        torch.vmap(appended)(torch.zeros(2, 8, 6), torch.ones(2, 4, 6))


def test_a_bare_kernel_under_vmap_changes_each_element():
    x = torch.arange(24.0).reshape(2, 3, 4)
    torch.vmap(scale_in_place)(x)
    assert torch.equal(x, 2 * torch.arange(24.0).reshape(2, 3, 4))
    program = torch.export.export(Scaled(), (torch.ones(3, 4),)).module()
    with pytest.raises(NotBatchableError, match="'scale_in_place'"):
        torch.vmap(program)(x)


class Scaled(torch.nn.Module):
    def forward(self, a):
        return scale_in_place(a) + 1


# Tensors that PyTorch negates lazily


def _negated(t):
    return torch._neg_view(t)


def _of_conjugate(t):
    """The lazily negated imaginary part of a conjugate; it shares memory with ``t``."""
    return torch.complex(torch.zeros_like(t), t).conj().imag


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize(
    "call",
    [
        lambda t: scale_in_place(t, 3.0),
        lambda t: nki.simulate(scale_in_place)(t, 3.0),
        TRIPLED := nki.torch.op(lambda a: scale_in_place(a, 3.0), lambda *_: None, changes=["a"]),
        torch.compile(lambda t: scale_in_place(t, 3.0), fullgraph=True, backend="aot_eager"),
        torch.compile(lambda t: TRIPLED(t), fullgraph=True, backend="aot_eager"),
        lambda t: torch.ops.open_nki.update([t], [], [], str(scale_in_place.compile(t, 3.0).artifact())),
        lambda t: torch.vmap(lambda x: scale_in_place(x, 3.0))(t[None]),
    ],
    ids=["kernel", "simulator", "operator", "compiled", "operator, compiled", "dispatcher", "vmap"],
)
def test_lazily_negated_tensors_change(call, grad):
    for view in (_negated, _of_conjugate):
        changed = view(torch.arange(1.0, 25).reshape(4, 6))
        before = changed.clone()
        assert changed.is_neg()
        with torch.set_grad_enabled(grad):
            call(changed)
        assert changed.is_neg() and torch.equal(changed.resolve_neg(), 3 * before)
