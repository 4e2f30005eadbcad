"""Kernels in models that torch.compile traces: shapes, modes, modules under torch.func, dtypes, the eager simulator."""

from __future__ import annotations

import re

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

import nki
import nki.isa as nisa
import nki.language as nl
import nki.torch
from nki.base.errors import ArtifactError
from nki.base.framework_errors import NotDifferentiableError
from nki.frameworks import torch_simulated
from tests.frameworks.bridges import compiled
from tests.frameworks.kernels import add, multiply, shown, sum_and_scaled
from tests.support.fresh_process import finished
from tests.support.kernel_parts import returned

pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*autograd.function.Function:DeprecationWarning"),
]

A = torch.arange(24, dtype=torch.float32).reshape(4, 6) / 8
B = A.flip(0) * 3 + 1

product = nki.torch.op(multiply, lambda a, b, dy: (multiply(dy, b), multiply(dy, a)))


@pytest.fixture(autouse=True)
def _fresh():
    torch.compiler.reset()


# Shapes


def counted(function, **options):
    counter = CompileCounterWithBackend("aot_eager")
    return torch.compile(function, fullgraph=True, backend=counter, **options), counter


@pytest.mark.parametrize("dynamic", [None, False, True])
def test_each_batch_size_is_compiled_once_and_guarded(dynamic):
    function, counter = counted(lambda a: add(a * 2, a) + 1, dynamic=dynamic)
    for rows in (2, 3, 4, 3, 2, 4):
        assert torch.equal(function(A[:rows]), A[:rows] * 3 + 1)
    assert counter.frame_count == 3


def test_a_batch_size_that_only_other_operators_see_stays_dynamic():
    function, counter = counted(lambda a, x: (add(a, a), x * 2))
    for rows in (2, 3, 5, 7, 9):
        assert torch.equal(function(A, torch.ones(rows, 6))[1], torch.full((rows, 6), 2.0))
    assert counter.frame_count == 2  # the first shape, then all


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_batch_that_may_be_dynamic_is_taken():
    a = A.clone()
    torch._dynamo.maybe_mark_dynamic(a, 0)
    assert torch.equal(compiled(add)(a, a), A + A)


def test_the_autotuner():
    def function(a, b):
        return (add(a, b) @ b.T).relu()

    torch.testing.assert_close(compiled(function, "inductor", mode="max-autotune")(A, B), function(A, B))


# Modules under torch.func


class Scale(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(B.clone())
        self.product = product

    def forward(self, a):
        return self.product(a, self.weight)


SCALE = Scale()


def called(weights, a):
    return torch.func.functional_call(SCALE, weights, (a,))


WEIGHTS = {"weight": B}


def total(weights):
    return called(weights, A).sum()


@pytest.mark.parametrize("run", [lambda f: f, compiled], ids=["eager", "compiled"])
def test_functional_calls_of_modules(run):
    assert torch.equal(run(lambda w: called(w, A))(WEIGHTS), A * B)
    weights = {"weight": B.clone().requires_grad_()}
    run(total)(weights).backward()
    assert torch.equal(weights["weight"].grad, A)


def test_gradients_of_functional_calls():
    assert torch.equal(torch.func.grad(total)(WEIGHTS)["weight"], A)
    value, pull = torch.func.vjp(total, WEIGHTS)
    assert torch.equal(value, (A * B).sum()) and torch.equal(pull(torch.tensor(2.0))[0]["weight"], 2 * A)
    assert torch.equal(torch.func.jacrev(total)(WEIGHTS)["weight"], A)


# vmap: a launch for each element


X = torch.rand(3, 4, 6, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("f", [multiply, product], ids=["kernel", "operator"])
@pytest.mark.parametrize("run", [lambda f: f, compiled], ids=["eager", "compiled"])
def test_vmap(f, run, launches):
    assert torch.equal(run(torch.vmap(f))(X, X), X * X)
    assert len(launches) == len(X)
    assert torch.equal(
        run(torch.vmap(f, in_dims=(None, 2), out_dims=1))(A, B[..., None] + X[:, 0, 0]),
        (A[:, None] * (B[:, None] + X[:, 0, 0][:, None])),
    )
    nested = torch.vmap(torch.vmap(f, in_dims=(None, 0)), in_dims=(0, None))
    assert torch.equal(run(nested)(X, X), X[:, None] * X)


def test_vmap_and_gradients():
    each = torch.vmap(torch.func.grad(lambda a, b: product(a, b).sum()), in_dims=(0, None))
    assert torch.equal(each(X, B), B.expand(3, 4, 6))
    batch = torch.func.grad(lambda x: torch.vmap(product, in_dims=(0, None))(x, B).sum())
    assert torch.equal(batch(X), B.expand(3, 4, 6))
    x = X.clone().requires_grad_()
    torch.vmap(product)(x, X).sum().backward()
    assert torch.equal(x.grad, X)
    with pytest.raises(NotDifferentiableError, match="'multiply'"):
        torch.func.grad(lambda x: torch.vmap(multiply)(x, X).sum())(X)


def test_vmap_of_two_results():
    total, scaled = torch.vmap(sum_and_scaled, in_dims=(0, None))(X, A)
    assert torch.equal(total, X + A) and torch.equal(scaled, 2 * X[:, :1])
    with pytest.raises(Exception, match="NKI-FW002"):
        torch.vmap(sum_and_scaled)(X[:0], X[:0])


# Results of eight bits


def converted(dtype):
    @nki.jit
    def kernel(a):
        tile = nl.ndarray(a.shape, dtype=dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=tile, src=nl.load(a))
        return returned(tile)

    return kernel


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize(
    ("nki_dtype", "torch_dtype"),
    [
        (nl.bool_, torch.bool),
        (nl.int8, torch.int8),
        (nl.uint8, torch.uint8),
        (nl.float8_e4m3fn, torch.float8_e4m3fn),
        (nl.float8_e5m2, torch.float8_e5m2),
    ],
    ids=["bool", "int8", "uint8", "e4m3fn", "e5m2"],
)
def test_results_of_eight_bits(nki_dtype, torch_dtype, backend):
    kernel = converted(nki_dtype)
    whole = torch.arange(24.0).reshape(4, 6)
    found = compiled(lambda a: kernel(a * 2), backend)(whole)
    assert found.dtype == torch_dtype
    assert torch.equal(found.float(), (whole * 2).to(torch_dtype).float())


# The eager simulator in graphs


@pytest.fixture
def simulator(monkeypatch):
    monkeypatch.setenv("NKI_SIMULATOR", "1")


@pytest.mark.usefixtures("simulator")
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_the_simulator_is_one_operator_of_the_graph(backend, launches):
    function = compiled(lambda a, b: add(a, b=multiply(a, b)) + 1, backend)
    for _ in range(2):
        assert torch.equal(function(A, B), A + A * B + 1)
    assert not launches


def test_a_graph_follows_the_variable(monkeypatch, launches):
    function = compiled(lambda a: add(a, a) + 1)
    counts = []
    for value in ("0", "1", "0"):
        monkeypatch.setenv("NKI_SIMULATOR", value)
        assert torch.equal(function(A), 2 * A + 1)
        counts.append(len(launches))
    assert counts == [1, 1, 2]


def test_simulate_by_name_in_a_graph(launches):
    assert torch.equal(compiled(lambda a: nki.simulate(add)(a, a) * 2)(A), 4 * A)
    assert not launches


@pytest.mark.usefixtures("simulator")
def test_print_shows_values_of_each_call(capsys):
    function = compiled(lambda a: shown(a + 1))
    for value in (41.0, 76.0):
        capsys.readouterr()
        function(torch.full((2, 2), value))
        assert re.search(rf"{value + 1:.0f}\.?\D+{value + 1:.0f}", capsys.readouterr().out)


@pytest.mark.usefixtures("simulator")
def test_simulated_kernels_train_and_batch_like_compiled_ones(launches):
    a = A.clone().requires_grad_()
    compiled(lambda a: product(a, B).sum())(a).backward()
    assert torch.equal(a.grad, B)
    assert torch.equal(torch.vmap(multiply)(X, X), X * X)
    with pytest.raises(NotDifferentiableError, match="'add'"):
        compiled(lambda a: add(a, B).sum())(a).backward()
    assert not launches


def test_a_graph_cannot_call_the_simulator_of_another_process():
    with pytest.raises(ArtifactError, match="of another process"):
        torch.ops.open_nki.launch([A], f"{torch_simulated.MARK}0:0")


def test_the_simulator_in_the_graph_of_a_fresh_process():
    """Nothing was imported or compiled before the graph is traced."""
    program = (
        "import torch\n"
        "from tests.frameworks.kernels import add\n"
        "a = torch.ones(2, 3)\n"
        "assert torch.equal(torch.compile(add, fullgraph=True, backend='eager')(a, a), a + a)\n"
    )
    finished(program, NKI_SIMULATOR="1")
