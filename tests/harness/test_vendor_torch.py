"""Stand-ins for the vendor's packages for PyTorch: there when a user asks for them, and then they run kernels."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import nki
import nki.isa as nisa
import nki.language as nl
from nki.compilation.bridges import STAND_INS
from nki.compilation.launch_errors import VendorModuleError, VendorNameError
from nki.harness.stand_in_names import MODULES
from tests.support.fresh_process import finished
from tests.support.kernel_parts import returned


@nki.jit
def add(a, b):
    tile, other = nl.load(a), nl.load(b)
    nisa.tensor_tensor(tile, tile, other, nl.add)
    return returned(tile)


@nki.jit
def cores(a):
    out = nl.ndarray((2, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(tile, float(nl.num_programs(0)))
    nisa.dma_copy(dst=out[nl.program_id(0) : nl.program_id(0) + 1], src=tile)
    if nl.num_programs(0) == 1:
        nisa.dma_copy(dst=out[1:2], src=tile)
    return out


@nki.jit
def add_one(a):
    tile = nl.load(a)
    nisa.tensor_scalar(tile, tile, nl.add, 1.0)
    nl.store(a, tile)
    return a


@pytest.fixture
def provided() -> Iterator[None]:
    with STAND_INS.provided():
        yield


def run(program: str) -> str:
    """What a fresh Python prints."""
    return finished(program).stdout


def test_programs_that_look_for_a_device_find_none() -> None:
    program = (
        "import importlib.util, nki, nki.torch, nki.frameworks.torch, nki.cli, nki.harness.vendor_torch\n"
        "for name in ('torch_neuronx', 'libtorch_neuronx_lite'): print(importlib.util.find_spec(name))\n"
        "try:\n    import torch_neuronx\nexcept ModuleNotFoundError: print('absent')"
    )
    assert run(program) == "None\nNone\nabsent\n"


def test_the_documented_call_provides_them_and_costs_no_torch() -> None:
    program = (
        "import sys, nki\nnki.provide_neuron_modules()\nnki.provide_neuron_modules()\n"
        "from torch_neuronx import wrap_nki\n"
        "print(len([f for f in sys.meta_path if type(f).__name__ == 'StandIns']), 'torch' in sys.modules)"
    )
    assert run(program) == "1 False\n"


def test_an_installed_package_comes_first(tmp_path: Path) -> None:
    package = tmp_path / "torch_neuronx"
    package.mkdir()
    (package / "__init__.py").write_text("wrap_nki = 'installed'\n")
    program = (
        f"import sys, nki\nsys.path.append({str(tmp_path)!r})\nnki.provide_neuron_modules()\n"
        "import torch_neuronx\nprint(torch_neuronx.wrap_nki)\n"
        "try:\n    import torch_neuronx.nki_hop\nexcept ModuleNotFoundError: print('no part of ours in it')"
    )
    assert run(program) == "installed\nno part of ours in it\n"


@pytest.mark.usefixtures("provided")
def test_every_name_of_every_module() -> None:
    for module, sources in MODULES.items():
        stand_in = importlib.import_module(module)
        for name in [name for names in sources.values() for name in names]:
            assert callable(getattr(stand_in, name)) or name == "IS_NKI_V2_AVAILABLE", (module, name)


def test_they_go_when_the_context_ends() -> None:
    with STAND_INS.provided():
        importlib.import_module("torch_neuronx.nki_hop")
    packages = {name.partition(".")[0] for name in MODULES}
    assert not [name for name in sys.modules if name.partition(".")[0] in packages]
    assert importlib.util.find_spec("torch_neuronx") is None


@pytest.mark.usefixtures("provided")
def test_wrap_nki_launches() -> None:
    wrap_nki = importlib.import_module("libtorch_neuronx_lite.nki.nki_hop").wrap_nki
    a = torch.rand(128, 8)
    assert torch.equal(wrap_nki(add)(a, b=a), 2 * a)
    assert wrap_nki(cores)(a).unique().tolist() == [1]
    assert wrap_nki(cores)[2](a).unique().tolist() == [2]
    assert torch.equal(
        torch.compile(lambda a: wrap_nki(add)[1](a, a) + 1, fullgraph=True, backend="aot_eager")(a), 2 * a + 1
    )


@pytest.mark.usefixtures("provided")
def test_nki_op_is_an_operator_with_shapes_and_gradients() -> None:
    nki_op = importlib.import_module("torch_neuronx").nki_op

    @nki_op("open_nki_tests::add", mutates_args={})
    def operator(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return add(a, b)

    operator.register_autograd(lambda _, grad: (grad, 2 * grad))
    a = torch.rand(128, 8)
    assert torch.equal(torch.ops.open_nki_tests.add(a, a), 2 * a)
    assert set(torch.library.opcheck(operator, (a, a)).values()) == {"SUCCESS"}
    assert operator(a.to("meta"), a.to("meta")).shape == (128, 8)
    for function in (operator, torch.compile(operator, fullgraph=True, backend="aot_eager")):
        leaf = a.clone().requires_grad_()
        function(leaf, leaf).sum().backward()
        assert torch.equal(leaf.grad, torch.full_like(a, 3))


@pytest.mark.usefixtures("provided")
def test_nki_op_changes_what_it_says() -> None:
    nki_op = importlib.import_module("torch_neuronx").nki_op

    def returned(a: torch.Tensor) -> torch.Tensor:
        return add_one(a)

    def in_place(a: torch.Tensor) -> None:
        add_one(a)

    a = torch.rand(128, 8)
    operator = nki_op("open_nki_tests::returned", returned, mutates_args={"a"})
    for function in (operator, torch.compile(lambda a: operator(a) * 1, fullgraph=True, backend="aot_eager")):
        changed = a.clone()
        result = function(changed)
        assert torch.equal(changed, a + 1)
        assert torch.equal(result, a + 1)
        assert result.data_ptr() != changed.data_ptr()
    operator = nki_op("open_nki_tests::in_place", in_place, mutates_args=["a"])
    changed = a.clone()
    assert operator(changed) is None
    assert torch.equal(changed, a + 1)


@pytest.mark.usefixtures("provided")
def test_nki_jit_is_the_decorator_of_beta1() -> None:
    nki_jit = importlib.import_module("torch_neuronx.xla_impl.ops").nki_jit

    @nki_jit
    def double(a, out):
        import neuronxcc.nki.language as nl

        nl.store(out, nl.load(a) * 2)

    a, out = torch.rand(128, 8), torch.zeros(128, 8)
    double(a, out)
    assert torch.equal(out, 2 * a)


@pytest.mark.parametrize(
    "statement",
    [
        "from torch_neuronx import trace",
        "import torch_neuronx.distributed",
        "from torch_neuronx.xla_impl.trace import generate_neff",
        "from libtorch_neuronx_lite.nki.nki_hop import kernel_registry",
    ],
)
@pytest.mark.usefixtures("provided")
def test_what_has_no_stand_in_says_so(statement: str) -> None:
    for _ in range(2):
        with pytest.raises(VendorModuleError, match="no stand-in") as caught:
            exec(statement)
        assert isinstance(caught.value, ImportError)
        assert caught.value.fix


@pytest.mark.usefixtures("provided")
def test_attributes_without_a_stand_in() -> None:
    module: Any = importlib.import_module("torch_neuronx")
    assert not hasattr(module, "trace")
    with pytest.raises(VendorNameError, match=r"torch_neuronx\.trace"):
        module.trace()
