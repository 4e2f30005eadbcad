"""Kernels on PyTorch tensors: eager, inside ``autograd.Function``, and in graphs of ``torch.compile``.

One operator, ``open_nki::launch(Tensor[] inputs, str kernel) -> Tensor[]``, stands for all kernels; ``kernel`` is the
path of a compiled artifact, so that a graph from PyTorch's on-disk cache names the same kernel in another process. In
programs of ``torch.export`` it is the artifact itself (:mod:`nki.frameworks.embedded`).
Plain eager calls bypass the operator, because its dispatch costs more than the rest of the call.
"""

# PyTorch declares types only in part, and of its internals not that they may give None.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnnecessaryComparison=false
# pyright: reportPrivateUsage=false

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import torch
from torch._C import _len_torch_dispatch_stack
from torch._C._functorch import is_batchedtensor, peek_interpreter_stack
from torch._functorch.utils import enable_single_level_autograd_function
from torch.autograd import forward_ad
from torch.autograd.forward_ad import _set_fwd_grad_enabled
from torch.autograd.function import _SingleLevelFunction
from torch.fx.experimental.symbolic_shapes import guard_scalar

from nki.base import dtype as dtypes
from nki.base.errors import (
    EagerTraceError,
    NotBatchableError,
    NotDifferentiableError,
    OutputDTypeError,
    TensorDeviceError,
    TensorLayoutError,
    UnknownDTypeError,
)
from nki.base.locks import imported
from nki.frameworks import embedded
from nki.frameworks.kernel import Adapter, FrameworkKernel, TensorMap, check_operands, check_shape, find, pack, remember

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from nki.base.dtype import DType
    from nki.compiler.executable import Executable
    from nki.jit import Kernel

_TO_NKI: Final[dict[torch.dtype, DType]] = {
    torch.bool: dtypes.bool_,
    torch.int8: dtypes.int8,
    torch.int16: dtypes.int16,
    torch.int32: dtypes.int32,
    torch.int64: dtypes.int64,
    torch.uint8: dtypes.uint8,
    torch.uint16: dtypes.uint16,
    torch.uint32: dtypes.uint32,
    torch.uint64: dtypes.uint64,
    torch.float32: dtypes.float32,
    torch.float16: dtypes.float16,
    torch.bfloat16: dtypes.bfloat16,
    torch.float8_e4m3fn: dtypes.float8_e4m3fn,
    torch.float8_e5m2: dtypes.float8_e5m2,
    torch.float8_e8m0fnu: dtypes.float8_e8m0fnu,
}
# Types without a counterpart come back in the type that stores them.
_TO_TORCH: Final[dict[DType, torch.dtype]] = {nki: theirs for theirs, nki in _TO_NKI.items()} | {
    dtypes.tfloat32: torch.float32,
    dtypes.float8_e4m3fn_x4: torch.uint32,
    dtypes.float8_e5m2_x4: torch.uint32,
    dtypes.float4_e2m1fn_x4: torch.uint16,
}
_NARROWER: Final = {torch.float64: "float32"}
_PLAIN: Final = (torch.Tensor, torch.nn.Parameter)


@dataclass(frozen=True)
class _StandIn:
    """A tensor without data, as PyTorch's compiler traces it."""

    position: int
    shape: tuple[int, ...]
    dtype: torch.dtype
    device_type: str
    layout: torch.layout = torch.strided


class TorchTensors(TensorMap):
    """PyTorch tensors of any device; only shape, dtype and layout are looked at."""

    def translate_to_neuron_dtype(self, _dtype: Any) -> DType:
        found = _TO_NKI.get(_dtype)
        if found is None:
            narrower = _NARROWER.get(_dtype)
            raise UnknownDTypeError(
                f"{_dtype} is not an NKI dtype",
                fix=f"pass tensor.to(torch.{narrower})" if narrower else "pass a tensor of plain numbers",
            )
        return found

    def is_framework_tensor(self, t: Any) -> bool:
        return isinstance(t, (torch.Tensor, _StandIn))

    def map_framework_tensor(self, t: Any) -> tuple[tuple[int, ...], Any]:
        if t.layout is not torch.strided:
            raise TensorLayoutError(
                f"a tensor of layout {t.layout} is not one block of elements", fix="pass a dense tensor"
            )
        # Under a tracer dimensions are symbols; a kernel is compiled for numbers, so the trace gets a guard here.
        shape = t.shape if type(t) in _PLAIN else tuple(int(d) for d in t.shape)
        if not shape or 0 in shape:
            check_shape(shape)
        return shape, t.dtype


class TorchAdapter(TorchTensors, Adapter):
    """Runs kernels on tensors in the memory of the CPU."""

    def call(self, kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if torch.compiler.is_dynamo_compiling():
            return _call_in_graph(kernel, args, kwargs)
        executable, tensors, floats = kernel.launchable(args, kwargs, self)
        grad = torch.is_grad_enabled()
        plain = not _len_torch_dispatch_stack() and peek_interpreter_stack() is None and forward_ad._current_level < 0
        for t in tensors:
            if not t.is_cpu:
                if any(x.device.type == "xla" for x in tensors):
                    return imported("nki.frameworks.torch_xla").call(kernel, args, kwargs, self)
                _check_devices([t.device.type for t in tensors])
                plain = False
            elif type(t) not in _PLAIN or (grad and t.requires_grad) or t.is_neg():
                plain = False
        if plain and not executable.changes:
            return pack(executable, _launch(executable, tensors, floats))
        if not plain and executable.float_names:  # graphs name kernels without float arguments
            executable, tensors = kernel.specialise(args, kwargs, self)
        outputs = _launch(executable, tensors, floats) if plain else _op(tensors, _named(executable))
        return pack(executable, _updated(outputs, tensors, executable.changes))

    def to_numpy(self, t: Any) -> NDArray[Any]:
        _check_devices([t.device.type, "cpu"])
        if torch.is_grad_enabled() and t.requires_grad:
            raise _not_differentiable("a kernel in the eager simulator")
        dtype = self.translate_to_neuron_dtype(t.dtype).dtype
        if torch.compiler.is_exporting():
            raise EagerTraceError(
                "the eager simulator needs values, and inside torch.export there are none",
                fix="export without nki.simulate and NKI_SIMULATOR=1",
            )
        if is_batchedtensor(t):
            raise EagerTraceError(
                "the eager simulator needs values, and inside torch.vmap there are none",
                fix="call it outside torch.vmap",
            )
        # By way of bytes, because PyTorch hands only its oldest dtypes to NumPy.
        return t.detach().resolve_neg().contiguous().view(torch.uint8).numpy().view(dtype).reshape(t.shape)

    def update(self, t: Any, array: NDArray[Any], name: str) -> Any:  # noqa: ARG002  # tensors of PyTorch can change
        return _updated([self.from_numpy(array)], [t], {0: 0})[0]

    def from_numpy(self, array: NDArray[Any]) -> Any:
        dtype = _torch_dtype(dtypes.of(array.dtype))
        return torch.from_numpy(array.view(np.uint8)).view(dtype).reshape(array.shape)


class PyTorchFrameworkKernel(TorchTensors, FrameworkKernel):
    """A :class:`FrameworkKernel` whose example arguments are PyTorch tensors (of any device, meta included)."""


def _check_devices(devices: Sequence[str]) -> None:
    """Refuse tensors that are neither all on the CPU nor all without data, on ``meta``."""
    for device in devices:
        if device not in ("cpu", "meta"):
            raise TensorDeviceError(
                f"a tensor on device {device!r} is not in the memory of the CPU, where the kernel runs",
                fix="pass tensor.cpu()",
            )
    if "meta" in devices and "cpu" in devices:
        raise TensorDeviceError(
            "a tensor on device 'meta' has no data for the kernel to run on",
            fix="pass tensors on 'cpu'; with all of them on 'meta', a compiled kernel gives results on 'meta'",
        )


def _not_differentiable(what: str) -> NotDifferentiableError:
    return NotDifferentiableError(
        f"{what} has no derivative",
        fix="give it one, f = nki.torch.op(kernel, backward), and call f; or call the kernel under torch.no_grad()",
    )


def _named(executable: Executable) -> str:
    """The argument ``kernel`` of the operator: a path, and in an exported program the artifact itself."""
    return embedded.embed(executable) if torch.compiler.is_exporting() else remember(executable)


def _launch(
    executable: Executable, tensors: Sequence[torch.Tensor], floats: Sequence[float] = ()
) -> list[torch.Tensor]:
    # What is not dense, or starts between two elements, is copied.
    inputs = [
        t if t.is_contiguous() and not t.data_ptr() % t.itemsize else t.clone(memory_format=torch.contiguous_format)
        for t in tensors
    ]
    outputs = [torch.empty(spec.shape, dtype=_torch_dtype(spec.dtype), device="cpu") for spec in executable.outputs]
    executable.launch([t.data_ptr() for t in inputs + outputs], floats)
    return outputs


def _updated(
    outputs: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor], changes: Mapping[int, int]
) -> list[torch.Tensor]:
    """``outputs`` with the tensors that the kernel changes in the place of their new contents, which they then have."""
    result = list(outputs)
    for output, number in changes.items():
        changed = result[output]
        tensors[number].copy_(changed.reshape(tensors[number].shape))
        result[output] = tensors[number].view(changed.shape)
    return result


def _torch_dtype(dtype: DType) -> torch.dtype:
    found = _TO_TORCH.get(dtype)
    if found is None:
        raise OutputDTypeError(
            f"the kernel returns {dtype}, which PyTorch does not have",
            fix="return a type that PyTorch has; for eight-bit floats float8_e4m3fn or float8_e5m2",
        )
    return found


# The operator


def _run(inputs: list[torch.Tensor], kernel: str) -> list[torch.Tensor]:
    executable = find(kernel)
    inputs = [t if type(t) in _PLAIN else t.as_subclass(torch.Tensor) for t in inputs]  # may have a shape of its own
    check_operands(executable.name, executable.inputs, [(t.data_ptr(), t.shape, _TO_NKI.get(t.dtype)) for t in inputs])
    return _launch(executable, inputs)


def _infer(inputs: list[torch.Tensor], kernel: str) -> list[torch.Tensor]:
    for t in inputs:
        ADAPTER.map_framework_tensor(t)  # refuses a layout that the kernel cannot read
    device = inputs[0].device if inputs else "cpu"
    return [torch.empty(s.shape, dtype=_torch_dtype(s.dtype), device=device) for s in find(kernel).outputs]


class _Launch(_SingleLevelFunction):
    """The operator for inputs with gradients, at one level of torch.func or at none.

    ``torch.library.register_autograd`` would do, but for torch.func, where PyTorch refuses its function even if nothing
    asks for the gradient.
    """

    @staticmethod
    def forward(ctx: Any, keys: torch._C.DispatchKeySet, kernel: str, *inputs: torch.Tensor) -> Any:
        ctx.count, ctx.kernel = len(inputs), kernel
        if peek_interpreter_stack() is None:
            return tuple(_below_autograd(keys, list(inputs), kernel))
        # PyTorch switches derivatives off here; the levels below have their own.
        with torch.enable_grad(), _set_fwd_grad_enabled(True):
            return tuple(_below_autograd(keys, list(inputs), kernel))

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        # Not an error yet: the compiler traces a backward for every forward, whether the program asks for one or not.
        return None, None, *_no_gradient(ctx.kernel, ctx.count)


def _below_autograd(keys: torch._C.DispatchKeySet, inputs: list[torch.Tensor], kernel: str) -> list[torch.Tensor]:
    with torch._C._AutoDispatchBelowAutograd():
        return _op.redispatch(keys & torch._C._after_autograd_keyset, inputs, kernel)


def _differentiated(keys: torch._C.DispatchKeySet, inputs: list[torch.Tensor], kernel: str) -> list[torch.Tensor]:
    # In forward mode the derivative is asked for now, in reverse mode maybe later: see _Launch.backward.
    forward_mode = forward_ad._current_level >= 0 and torch._C._is_fwd_grad_enabled()
    if forward_mode and any(forward_ad.unpack_dual(t).tangent is not None for t in inputs):
        raise _not_differentiable(f"kernel {find(kernel).name!r}")
    if not (torch.is_grad_enabled() and any(t.requires_grad for t in inputs)):
        return _below_autograd(keys, inputs, kernel)
    with enable_single_level_autograd_function():
        outputs: tuple[torch.Tensor, ...] = cast("Any", _Launch).apply(keys, kernel, *inputs)
        return list(outputs)


def _raise_no_gradient(kernel: str, _count: int) -> list[torch.Tensor]:
    raise _not_differentiable(f"kernel {find(kernel).name!r}")


def _infer_no_gradient(kernel: str, count: int) -> list[torch.Tensor]:
    return [torch.empty(s.shape, dtype=_torch_dtype(s.dtype), device="cpu") for s in find(kernel).inputs[:count]]


def _raise_no_batch(_info: Any, _in_dims: Any, _inputs: list[torch.Tensor], kernel: str) -> Any:
    raise NotBatchableError(
        f"kernel {find(kernel).name!r} cannot run under torch.vmap: it is compiled for the shapes of one call",
        fix="call it for each element, or write the batch axis into the kernel",
    )


_library: Final = torch.library.Library("open_nki", "DEF")
_library.define("launch(Tensor[] inputs, str kernel) -> Tensor[]", tags=(torch.Tag.pt2_compliant_tag,))
_library.define("no_gradient(str kernel, int count) -> Tensor[]", tags=(torch.Tag.pt2_compliant_tag,))
_library.impl("launch", _run, "CPU")
_library.impl("no_gradient", _raise_no_gradient, "CompositeExplicitAutograd")
torch.library.register_fake("open_nki::launch", _infer, lib=_library)
torch.library.register_fake("open_nki::no_gradient", _infer_no_gradient, lib=_library)
_library.impl("launch", _differentiated, "Autograd", with_keyset=True)
torch.library.register_vmap("open_nki::launch", _raise_no_batch, lib=_library)
_op: Final = torch.ops.open_nki.launch.default
_no_gradient: Final = torch.ops.open_nki.no_gradient.default


# Under torch.compile. Dynamo traces _call_in_graph itself; it calls _prepare for real, once per set of arguments, and
# treats what it returns as a constant. So the code here keeps to what Dynamo understands.

_TENSOR: Final = "open_nki::tensor"


def _call_in_graph(kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    tensors: list[torch.Tensor] = []
    described = [_describe(x, tensors) for x in (*args, *kwargs.values())]
    key, order, is_sequence, changes = _prepare(kernel, tuple(kwargs), *described)
    inputs = [tensors[i] for i in order]
    outputs = _updated(_op(inputs, key), inputs, dict(changes))
    return tuple(outputs) if is_sequence else outputs[0]


def _describe(value: Any, tensors: list[torch.Tensor]) -> Any:
    """``value`` with each tensor replaced by constants that describe it; the tensors are appended to ``tensors``.

    Dynamo may hold sizes and numbers as symbols; ``guard_scalar`` makes it compile for their present values, as a
    kernel needs.
    """
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        shape = tuple([guard_scalar(d) for d in value.shape])
        # Not the layout, at which no backward may look under the compiler; the operator looks at it.
        return (_TENSOR, len(tensors) - 1, shape, value.dtype, value.device.type)
    if isinstance(value, (list, tuple)):
        items = [_describe(x, tensors) for x in cast("Sequence[Any]", value)]
        return tuple(items) if isinstance(value, tuple) else items
    if isinstance(value, dict):
        return {k: _describe(x, tensors) for k, x in cast("dict[Any, Any]", value).items()}
    return guard_scalar(value) if isinstance(value, (int, float)) else value


def _restore(value: Any) -> Any:
    """Undo :func:`_describe`, with stand-ins for the tensors."""
    if isinstance(value, tuple):
        items = cast("tuple[Any, ...]", value)
        return _StandIn(*items[1:]) if items and items[0] == _TENSOR else tuple(map(_restore, items))
    if isinstance(value, list):
        return [_restore(x) for x in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {k: _restore(x) for k, x in cast("dict[Any, Any]", value).items()}
    return value


@torch.compiler.assume_constant_result
def _prepare(
    kernel: Kernel, names: tuple[str, ...], *described: Any
) -> tuple[str, tuple[int, ...], bool, tuple[tuple[int, int], ...]]:
    """Compile; returns the operator's name for the kernel, the order of its inputs among the tensors, its form, and the
    outputs that are inputs.
    """
    values = [_restore(x) for x in described]
    split = len(values) - len(names)
    kwargs = dict(zip(names, values[split:], strict=True))
    executable, tensors = kernel.specialise(tuple(values[:split]), kwargs, ADAPTER)
    _check_devices([t.device_type for t in tensors])
    order = tuple(t.position for t in tensors)
    return _named(executable), order, executable.returns_sequence, tuple(executable.changes.items())


ADAPTER: Final = TorchAdapter()
