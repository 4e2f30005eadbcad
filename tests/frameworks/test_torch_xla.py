"""Kernels on tensors of torch_xla, in an environment of its own: ``make nightly`` builds it and runs this file."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch_xla", reason="torch_xla 2.9 needs another PyTorch: `make nightly` has an environment for it")
os.environ.setdefault("PJRT_DEVICE", "CPU")

import _XLAC
import torch
import torch_xla
from torch_xla.debug import metrics

import nki
import nki.torch
from nki.base.framework_errors import EmptyTensorError, NotDifferentiableError, ScalarTensorError, TensorDeviceError
from nki.frameworks import torch_xla as bridge
from nki.frameworks.backend_config import BackendConfig
from nki.frameworks.torch import ADAPTER

from .kernels import add, less, moved, multiply, put, row_of, scale_in_place, sum_and_scaled

DEVICE = torch_xla.device()
generator = torch.Generator().manual_seed(0)
A, B = (torch.randn(4, 6, generator=generator) for _ in range(2))
NODE = "xla::_op_<locals>CallImpl"


@pytest.fixture
def xla():
    return A.to(DEVICE), B.to(DEVICE)


def graph(*tensors):
    return _XLAC._get_xla_tensors_text(list(tensors))


def same(got, expected):
    return got.device == DEVICE and got.dtype == expected.dtype and torch.equal(got.cpu(), expected)


def test_the_client_of_the_cpu_runs_kernels():
    assert bridge.is_registered()


def test_a_call_is_a_node_of_the_graph(xla):
    a, b = xla
    out = a * b * add(a, b)
    text = graph(out)
    assert f"= (f32[4,6]{{1,0}}) {NODE}(%1, %0)" in text and "aten::add" not in text
    assert same(out, A * B * (A + B))


def test_the_custom_call_has_the_documented_form(xla):
    text = _XLAC._get_xla_tensors_hlo([add(*xla)])
    (line,) = (x for x in text.splitlines() if "custom-call(" in x)
    assert 'custom_call_target="AwsNeuronCustomNativeKernel"' in line
    assert 'metadata={op_type="xla___op_NkiKernelCallImpl" op_name="xla___op_NkiKernelCallImpl"}' in line
    config = BackendConfig.decode(re.search(r'backend_config = "([^"]+)"', line)[1])
    assert (config.func_name, config.input_names, config.output_names) == ("add", ("a", "b"), ("out",))


@pytest.mark.parametrize(("kernel", "results"), [(add, 1), (sum_and_scaled, 2), (scale_in_place, 1)])
def test_the_form_for_neuron_devices(kernel, results):
    executable, _ = kernel.specialise((A,) if results == 1 and kernel is not add else (A, B), {}, ADAPTER)
    data = bridge.module(executable, (2,), on_cpu=False)
    text = _XLAC._xla_computation_text(_XLAC._xla_op_computation_from_module_proto("nki", data))
    (line,) = (x for x in text.splitlines() if "custom-call(" in x)
    assert "api_version=API_VERSION_UNSPECIFIED," in line
    config = json.loads(base64.b64decode(re.search(r'backend_config="([^"]+)"', line)[1]))
    assert config["grid"] == 2 and len(config["klir_binary"]["output_names"]) == results
    aliasing = "output_to_operand_aliasing={{}: (0, {})}"
    assert (aliasing in line) == (kernel is scale_in_place)
    assert text.count("get-tuple-element(") == (2 if results == 2 else 0)


def test_several_results_and_constants(xla):
    total, scaled = sum_and_scaled(xla[0], b=xla[1], scale=3.0)
    assert same(total, A + B) and same(scaled, A[:1] * 3)
    assert same(less(*xla), A < B)


@pytest.mark.parametrize(
    "dtype", ["float16", "bfloat16", "int32", "int16", "int8", "uint8", "bool", "int64", "float8_e4m3fn", "float8_e5m2"]
)
def test_dtypes(dtype):
    a = (torch.arange(24).reshape(4, 6) % 5).to(torch.float32).to(getattr(torch, dtype))
    assert torch.equal(moved(a.to(DEVICE)).cpu().view(torch.uint8), a.view(torch.uint8))


def test_xlas_buffers_are_not_copied(xla, launches):
    a, b = xla
    torch_xla.sync()
    launches.clear()
    out = add(a, b)
    torch_xla.sync(wait=True)  # a result has no buffer before the graph has begun
    assert launches == [tuple(_XLAC._unsafe_buffer_pointer(t) for t in (a, b, out))]


def test_an_argument_that_the_kernel_changes(xla):
    a = xla[0] + 0
    view = scale_in_place(a)
    assert same(view, A * 2) and same(a, A * 2) and same(xla[0], A)
    text = _XLAC._get_xla_tensors_hlo([scale_in_place(xla[0] + 1)])
    assert "output_to_operand_aliasing={{}: (0, {})}" in text
    cache = torch.zeros(8, 6).to(DEVICE)
    assert same(put(cache, xla[0], row=2), A * 2) and same(cache[2:6], A) and same(cache[6:], torch.zeros(2, 6))
    late = xla[0] * 3
    before = late + 0
    scale_in_place(late)
    assert same(late, A * 3 * 2) and same(before, A * 3)


def test_equal_steps_compile_once(xla):
    a, b = xla

    def step():
        out = add(multiply(a, b), b).sum()
        torch_xla.sync()
        return out

    step()
    before = metrics.metric_data("CompileTime")[0]
    assert torch.equal(step().cpu(), step().cpu())
    assert metrics.metric_data("CompileTime")[0] == before


def test_loops_of_kernels(xla):
    out, expected = xla[0], A
    for _ in range(20):
        out, expected = add(out, xla[1]), expected + B
    assert same(out, expected) and graph(out) == graph(out)


def test_an_operator_trains(xla):
    product = nki.torch.op(multiply, backward=lambda a, b, dy: (multiply(b, dy), multiply(a, dy)))
    a, b = (t.detach().requires_grad_() for t in xla)
    product(a, b).sum().backward()
    assert same(a.grad, B) and same(b.grad, A)


def test_what_is_refused_is_named(xla):
    a, b = xla
    with pytest.raises(NotDifferentiableError, match=r"'add' has no derivative(.|\n)*nki.torch.op"):
        add(a.detach().requires_grad_(), b)
    with pytest.raises(TensorDeviceError, match=r"'add' gets tensors on xla:0 and on cpu"):
        add(a, B)
    with pytest.raises(TensorDeviceError):
        add(B, a)
    with pytest.raises(EmptyTensorError):
        add(a[:0], b[:0])
    with pytest.raises(ScalarTensorError):
        moved(a.sum())
    with pytest.raises(TensorDeviceError, match=r"tensor\.cpu"):
        nki.simulate(add)(a, b)


def test_an_error_of_a_launch_is_an_exception_with_the_kernels_line(xla):
    wrong = row_of(xla[0], torch.tensor([[1], [9]], dtype=torch.int32).to(DEVICE))
    with pytest.raises(RuntimeError) as caught:
        wrong.cpu()
    assert "[NKI-RG005]" in str(caught.value) and "run-time index 9" in str(caught.value)
    assert re.search(r"kernels\.py:\d+\n.*dma_copy\(tile", str(caught.value))
    with pytest.raises(RuntimeError, match="NKI-RG005"):
        (xla[0] + 1).cpu()  # torch_xla raises it once more, in what comes next
    right = row_of(xla[0], torch.tensor([[1], [3]], dtype=torch.int32).to(DEVICE))
    assert same(right, A[[1, 3]])


def test_without_registration_a_call_runs_on_the_host(xla, monkeypatch):
    monkeypatch.setattr(bridge, "is_registered", lambda: False)
    out = add(xla[0] * 2, xla[1])
    assert NODE not in graph(out * 1) and same(out, A * 2 + B)
    a = xla[0] + 0
    assert same(scale_in_place(a), A * 2) and same(a, A * 2)
    total, scaled = sum_and_scaled(*xla)
    assert same(total, A + B) and same(scaled, A[:1] * 2)


KERNEL = """
import nki as nki
import nki.language as nl
import nki.isa as nisa

@nki.jit(platform_target="trn1")
def nki_tensor_add(a_input, b_input):
    c_output = nl.ndarray(a_input.shape, dtype=a_input.dtype, buffer=nl.shared_hbm)
    M, N = a_input.shape
    for m in nl.affine_range(M // 128):
        for n in nl.affine_range(N // 512):
            a_tile = nl.ndarray(shape=(128, 512), dtype=a_input.dtype, buffer=nl.sbuf)
            b_tile = nl.ndarray(shape=(128, 512), dtype=b_input.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=a_tile, src=a_input[m * 128:(m + 1) * 128, n * 512:(n + 1) * 512])
            nisa.dma_copy(dst=b_tile, src=b_input[m * 128:(m + 1) * 128, n * 512:(n + 1) * 512])
            c_tile = nl.ndarray(shape=(128, 512), dtype=a_input.dtype, buffer=nl.sbuf)
            nisa.tensor_tensor(dst=c_tile, data1=a_tile, data2=b_tile, op=nl.add)
            nisa.dma_copy(dst=c_output[m * 128:(m + 1) * 128, n * 512:(n + 1) * 512], src=c_tile)
    return c_output
"""
FORWARD = (
    """
import os
os.environ['NEURON_FRAMEWORK_DEBUG'] = "1"
os.environ["XLA_SAVE_TENSORS_FILE"] = "example1.pbtxt"
"""
    + KERNEL
    + """
import torch
from torch_xla.core import xla_model as xm

device = xm.xla_device()
a = torch.randn(256, 1024, dtype=torch.float32).to(device)
b = torch.randn(256, 1024, dtype=torch.float32).to(device)
c = nki_tensor_add(a, b)
out = a * b * c
print(out)
assert torch.equal(out.cpu(), a.cpu() * b.cpu() * (a.cpu() + b.cpu()))
"""
)
TRAINING = (
    KERNEL
    + """
import torch
import torch_xla.core.xla_model as xm
device = xm.xla_device()

class NkiAddFunc(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        return nki_tensor_add(a, b)

    @staticmethod
    def backward(ctx, dy, *args):
        return dy, dy

a = torch.randn(256, 1024, dtype=torch.float32).to(device).detach().requires_grad_()
b = torch.randn(256, 1024, dtype=torch.float32).to(device).detach().requires_grad_()
c = NkiAddFunc.apply(a, b)
out = a * b * c
loss = out.sum()
loss.backward()
xm.mark_step()
x, y = a.detach().cpu(), b.detach().cpu()
torch.testing.assert_close(a.grad.cpu(), y * (x + y) + x * y)
torch.testing.assert_close(b.grad.cpu(), x * (x + y) + x * y)
print("trained")
"""
)


def run(script, folder):
    (folder / "program.py").write_text(script, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    for name in ("NEURON_FRAMEWORK_DEBUG", "XLA_SAVE_TENSORS_FILE", "XLA_FLAGS"):
        environment.pop(name, None)
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "program.py"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done


def test_the_documented_program_and_what_it_writes(tmp_path):
    assert "device='xla:0'" in run(FORWARD, tmp_path).stdout
    text = (tmp_path / "example1.pbtxt.0").read_text(encoding="utf-8")
    assert f"%2 = (f32[256,1024]{{1,0}}) {NODE}(%1, %0), xla_shape=(f32[256,1024]{{1,0}})" in text
    assert "%4 = f32[256,1024]{1,0} aten::mul(%3, %2)" in text
    kept = list((tmp_path / "neuron_framework_debug").glob("*before_optimizations.hlo.pb"))
    assert any(b"AwsNeuronCustomNativeKernel" in path.read_bytes() for path in kept)


def test_the_documented_training(tmp_path):
    assert run(TRAINING, tmp_path).stdout == "trained\n"


def test_debugging_that_begins_too_late_is_told(tmp_path):
    late = FORWARD.replace("import os\nos.environ", "import os\nimport nki, torch_xla\nos.environ", 1)
    assert "so no HLO is kept" in run(late, tmp_path).stderr
    assert (tmp_path / "example1.pbtxt.0").is_file()


def test_the_page_runs(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "torch_xla.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    done = run("\n".join(blocks), tmp_path)
    assert len(blocks) >= 2 and done.stdout.splitlines() == re.findall(
        r"^# prints (.*)$", "\n".join(blocks), re.MULTILINE
    )
