"""Every tracer and transformation of PyTorch, around a kernel and around an operator with a gradient.

Each is right, also for other values than those that it traced, or ends in one NkiError.
"""

from __future__ import annotations

import io
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from functorch.compile import aot_function
from torch.fx.experimental.proxy_tensor import make_fx

import nki
import nki.torch
from nki.base.errors import NkiError
from nki.base.framework_errors import (
    EagerTraceError,
    FixedShapeError,
    NotBatchableError,
    NotDifferentiableError,
    ScriptError,
)
from tests.frameworks.bridges import Module, compiled
from tests.frameworks.kernels import add, multiply, scale_in_place, sum_and_scaled

pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*autograd.function.Function:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

A = torch.arange(24, dtype=torch.float32).reshape(4, 6) / 8
B = A.flip(0) * 3 + 1

OPERATOR = nki.torch.op(multiply, backward=lambda a, b, dy: (multiply(dy, b), multiply(dy, a)))
CHANGING = nki.torch.op(scale_in_place, backward=lambda *_: None, changes=["a"])


def of_kernel(a, b):
    return add(a, b) * 2


def of_two_results(a, b):
    total, scaled = sum_and_scaled(a, b, scale=3.0)
    return total - scaled


def of_changed_argument(a, b):
    changed = a.clone()
    scale_in_place(changed, 3.0)
    return changed + b


def of_operator(a, b):
    return OPERATOR(a, b) * 2


def of_changing_operator(a, b):
    changed = a.clone()
    CHANGING(changed, 3.0)
    return changed + b


EXPECTED = {
    of_kernel: lambda a, b: (a + b) * 2,
    of_two_results: lambda a, b: a + b - a[:1] * 3,
    of_changed_argument: lambda a, b: 3 * a + b,
    of_operator: lambda a, b: a * b * 2,
    of_changing_operator: lambda a, b: 3 * a + b,
}
FUNCTIONS = pytest.mark.parametrize("function", EXPECTED, ids=lambda f: f.__name__)


@pytest.fixture(autouse=True)
def _fresh():
    torch.compiler.reset()


def saved(function):
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.trace(function, (A, B)), buffer)
    buffer.seek(0)
    return torch.jit.load(buffer)


def exported(function, **options):
    return torch.export.export(Module(function), (A.clone(), B.clone()), **options).module()


def in_batch(function):
    return lambda a, b: function(a[None], b[None])[0]


AUTO = {"a": {0: torch.export.Dim.AUTO}, "b": {0: torch.export.Dim.AUTO}}
RIGHT = {
    "jit.trace": lambda f: torch.jit.trace(f, (A, B)),
    "jit.trace of a tensor with a gradient": lambda f: torch.jit.trace(f, (A.clone().requires_grad_(), B)),
    "jit.trace of a module": lambda f: torch.jit.trace(Module(f), (A, B)),
    "jit.trace, saved": saved,
    "jit.trace, frozen": lambda f: torch.jit.freeze(torch.jit.trace(Module(f).eval(), (A, B))),
    "jit.trace under no_grad": lambda f: torch.no_grad()(torch.jit.trace)(f, (A, B)),
    "fx": torch.fx.symbolic_trace,
    "fx of a module": lambda f: torch.fx.symbolic_trace(Module(f)),
    "fx of fx": lambda f: torch.fx.symbolic_trace(torch.fx.symbolic_trace(f)),
    "make_fx": lambda f: make_fx(f)(A, B),
    "make_fx fake": lambda f: make_fx(f, tracing_mode="fake")(A, B),
    "make_fx symbolic": lambda f: make_fx(f, tracing_mode="symbolic")(A, B),
    "make_fx before dispatch": lambda f: make_fx(f, pre_dispatch=True)(A, B),
    "aot_function": lambda f: aot_function(f, fw_compiler=lambda graph, _: graph),
    "export": exported,
    "export strict": lambda f: exported(f, strict=True),
    "export of what may be dynamic": lambda f: exported(f, dynamic_shapes=AUTO),
    "compile": compiled,
    "compile dynamic": lambda f: compiled(f, dynamic=True),
    "functional_call": lambda f: lambda a, b: torch.func.functional_call(Module(f), {}, (a, b)),
    "functionalize": torch.func.functionalize,
    "functionalize in make_fx": lambda f: make_fx(torch.func.functionalize(f))(A, B),
    "meta, for the shape": lambda f: (
        lambda a, b: torch.zeros_like(f(a.to("meta"), b.to("meta")), device="cpu") + f(a, b)
    ),
}


@FUNCTIONS
@pytest.mark.parametrize("tracer", RIGHT.values(), ids=RIGHT)
def test_what_records_a_kernel_is_right_for_other_values(tracer, function):
    traced = tracer(function)
    for a, b in ((A, B), (B, A + 1)):
        torch.testing.assert_close(traced(a.clone(), b.clone()), EXPECTED[function](a, b), rtol=0, atol=0)


@FUNCTIONS
@pytest.mark.parametrize("compiler", [lambda f: f, compiled], ids=["eager", "compiled"])
def test_vmap(compiler, function):
    batched = in_batch(compiler(torch.func.vmap(function)))
    if function is of_changing_operator or (function is of_changed_argument and compiler is compiled):
        with pytest.raises(Exception, match=r"cannot run under torch.vmap|NotBatchableError"):
            batched(A, B)
        assert issubclass(NotBatchableError, NkiError)
        return
    assert torch.equal(batched(A, B), EXPECTED[function](A, B))


DERIVATIVES = {
    "grad": lambda f: torch.func.grad(lambda a: f(a, B).sum())(A),
    "vjp": lambda f: torch.func.vjp(lambda a: f(a, B), A)[1](torch.ones_like(A))[0],
    "jacrev": lambda f: torch.func.jacrev(lambda a: f(a, B).sum())(A),
    "grad of functionalize": lambda f: torch.func.grad(lambda a: torch.func.functionalize(f)(a, B).sum())(A),
    "functionalize of grad": lambda f: torch.func.functionalize(torch.func.grad(lambda a: f(a, B).sum()))(A),
    "grad of fx": lambda f: torch.func.grad(lambda a: torch.fx.symbolic_trace(f)(a, B).sum())(A),
    "make_fx of grad": lambda f: make_fx(torch.func.grad(lambda a: f(a, B).sum()))(A)(A),
    "grad, compiled": lambda f: compiled(torch.func.grad(lambda a: f(a, B).sum()))(A),
    "backward of fx": lambda f: backward(torch.fx.symbolic_trace(f)),
    "backward, compiled": lambda f: backward(compiled(f)),
}


def backward(function):
    a = A.clone().requires_grad_()
    function(a, B).sum().backward()
    return a.grad


@pytest.mark.parametrize("derivative", DERIVATIVES.values(), ids=DERIVATIVES)
def test_reverse_mode_is_right_with_a_gradient_and_refused_without(derivative):
    assert torch.equal(derivative(of_operator), 2 * B)
    with pytest.raises(NotDifferentiableError, match="'add' has no derivative"):
        derivative(of_kernel)


FORWARD_MODE = {
    "jvp": lambda f: torch.func.jvp(f, (A, B), (A, B)),
    "linearize": lambda f: torch.func.linearize(f, A, B),
    "jacfwd": lambda f: torch.func.jacfwd(f)(A, B),
    "hessian": lambda f: torch.func.hessian(lambda a: f(a, B).sum())(A),
}


@FUNCTIONS
@pytest.mark.parametrize("derivative", FORWARD_MODE.values(), ids=FORWARD_MODE)
def test_forward_mode_is_refused(derivative, function):
    with pytest.raises(
        NotDifferentiableError,
        match=r"has a backward alone.*\n.*vjp or grad|has no derivative|former contents are lost",
    ):
        derivative(function)


# torch.jit


def test_a_trace_holds_the_operator_and_the_kernel_itself():
    graph = str(torch.jit.trace(of_kernel, (A, B)).graph)
    assert "open_nki::launch" in graph and "nki-kernel:1:add:" in graph and "aten::empty" not in graph


def test_a_trace_runs_in_another_process_without_source_and_cache(tmp_path):
    torch.jit.save(torch.jit.trace(of_two_results, (A, B)), str(tmp_path / "m.pt"))
    np.savez(tmp_path / "x.npz", a=A, b=B, out=EXPECTED[of_two_results](A, B))
    program = (
        "import sys, numpy, torch, nki.torch\n"
        "x = {k: torch.from_numpy(v) for k, v in numpy.load('x.npz').items()}\n"
        "assert torch.equal(torch.jit.load('m.pt')(x['a'], x['b']), x['out'])\n"
    )
    environment = {"OPEN_NKI_CACHE": str(tmp_path / "empty"), "PYTHONPATH": ":".join(sys.path)}
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, cwd=tmp_path, env=environment)


def test_a_trace_refuses_other_shapes_and_derivatives():
    traced = torch.jit.trace(of_kernel, (A, B))
    with pytest.raises(RuntimeError, match=r"NKI-FW010\] kernel 'add' was compiled for a of float32 \(4, 6\)"):
        traced(A[:2], B[:2])
    with pytest.raises(NotDifferentiableError, match="'add' has no derivative"):
        traced(A.clone().requires_grad_(), B).sum().backward()


def test_a_trace_of_what_the_simulator_runs():
    with pytest.raises(EagerTraceError, match=r"torch.jit.trace records a program for others"):
        torch.jit.trace(lambda a, b: nki.simulate(add)(a, b), (A, B))


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
@pytest.mark.parametrize("kernel", [add, scale_in_place], ids=lambda k: k.__name__)
def test_make_fx_of_what_the_simulator_runs(kernel, mode):
    def function(a, b):
        c = a.clone()
        return nki.simulate(kernel)(c, *([b] if kernel is add else [])) + c

    for before in (False, True):
        traced = make_fx(function, tracing_mode=mode, pre_dispatch=before)(A, B)
        assert torch.equal(traced(B, A + 1), function(B, A + 1))


SCRIPTS = {
    "a kernel": lambda: add,
    "a function": lambda: of_kernel,
    "an operator": lambda: OPERATOR,
    "a function with an operator": lambda: of_operator,
    "a function that changes": lambda: of_changed_argument,
}


@pytest.mark.parametrize("source", SCRIPTS.values(), ids=SCRIPTS)
def test_scripts_are_refused(source):
    with pytest.raises(ScriptError, match=r"no part of its language(.|\n)*torch.jit.trace"):
        torch.jit.script(source())


def test_a_script_of_a_module_is_refused():
    class Holding(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.kernel = add

        def forward(self, a):
            return self.kernel(a, a)

    for module in (Module(of_kernel), Holding()):
        with pytest.raises(Exception, match="NKI-FW041"):
            torch.jit.script(module)


def test_what_scripts_look_for_shows_up_nowhere_else():
    assert not [name for thing in (add, OPERATOR) for name in dir(thing) if "script" in name]


# torch.fx


def test_fx_records_kernels_by_themselves():
    graph = torch.fx.symbolic_trace(of_two_results)
    (node,) = (node for node in graph.graph.nodes if node.target is sum_and_scaled)
    assert node.kwargs == {"scale": 3.0} and "sum_and_scaled(a, b, scale = 3.0)" in graph.code
    assert torch.equal(pickle.loads(pickle.dumps(graph))(A, B), EXPECTED[of_two_results](A, B))


def test_fx_keeps_a_call_for_what_it_changes():
    for function in (of_changed_argument, of_changing_operator):
        graph = torch.fx.symbolic_trace(function)
        graph.graph.eliminate_dead_code()
        graph.recompile()
        assert torch.equal(graph(A, B), EXPECTED[function](A, B))


def test_fx_of_other_kernels():
    launched = torch.fx.symbolic_trace(lambda a: nki.simulate(add)(a, a) + add[1](a, a))
    assert torch.equal(launched(A), A * 4)


# Sizes


def dynamic(kind):
    return {"a": {0: kind}, "b": {0: kind}}


@FUNCTIONS
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    "kind", [torch.export.Dim("n", min=2, max=64), torch.export.Dim.DYNAMIC], ids=["Dim", "DYNAMIC"]
)
def test_export_of_a_size_that_stays_open_is_refused(function, strict, kind):
    with pytest.raises(FixedShapeError, match=r"(?s)kernel '\w+': dimension 0 of .* marked as dynamic.*Dim.AUTO"):
        exported(function, dynamic_shapes=dynamic(kind), strict=strict)


@FUNCTIONS
def test_compile_of_a_size_that_stays_open_is_refused(function):
    a, b = A.clone(), B.clone()
    for t in (a, b):
        torch._dynamo.mark_dynamic(t, 0)
    with pytest.raises(Exception, match=r"(?s)NKI-FW040\] kernel '\w+': dimension 0 of a.* marked as dynamic"):
        compiled(function)(a, b)


def test_a_size_that_something_else_has_fixed_is_not_the_kernels_fault():
    def function(a, x):
        return add(x, x) * len([0 for _ in range(a.shape[0])])

    a = A.clone()
    torch._dynamo.mark_dynamic(a, 0)
    with pytest.raises(Exception, match="specialized it to be a constant"):
        compiled(function)(a, B)


def test_sizes_that_depend_on_data_are_refused():
    def function(a):
        return add(a[torch.nonzero(a[:, 0]).squeeze(1)], a)

    with pytest.raises(Exception, match=r"NKI-FW040.* depends on data"):
        compiled(function)(A)
    with pytest.raises(FixedShapeError, match="depends on data"):
        torch.export.export(Module(lambda a, _: function(a)), (A, B))


# Modes


class Counting(torch.overrides.TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.calls.append(func)
        return func(*args, **(kwargs or {}))


def test_function_modes_see_kernels():
    add(A, B)
    with Counting() as mode:
        assert torch.equal(add(A, B), A + B)
    assert torch.ops.open_nki.launch.default in mode.calls
    with torch.device("cpu"):
        assert torch.equal(add(A, B), A + B)
