"""Kernels on tensors of torch_xla: a call becomes a node of the graph that torch_xla records (``docs/torch_xla.md``).

The node holds a computation with one custom call, as the vendor's graphs have it. torch_xla's client of the CPU runs
it through XLA's typed interface, on XLA's buffers, where the library lets us register a custom call
(:mod:`nki.frameworks.xla_library`); otherwise the call runs at once, on copies in the memory of the host.
"""

# torch_xla declares no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportMissingImports=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch

from nki.base.framework_errors import TensorDeviceError
from nki.base.locks import Lock, imported
from nki.compilation.executable_cache import CAPACITY
from nki.frameworks import hlo_proto, keep_hlo, xla_library
from nki.frameworks.backend_config import CUSTOM_CALL_TARGET
from nki.frameworks.custom_call import HANDLER
from nki.frameworks.kernel_adapter import TensorMap, config_for, pack
from nki.frameworks.torch_tensors import not_differentiable, torch_dtype

if TYPE_CHECKING:
    from nki.compilation.executable import Executable
    from nki.jit import Kernel

NODE: Final = "xla::_op_<locals>CallImpl"
"""The name of the node in printed graphs, the vendor's."""
OPERATION: Final = "xla___op_NkiKernelCallImpl"
"""The ``op_type`` and ``op_name`` of the custom call in HLO, the vendor's."""


def call(kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any], tensors: TensorMap) -> Any:
    """Record a call of ``kernel`` on XLA tensors, or run it on the host; returns XLA tensors."""
    keep_hlo()
    executable, inputs = kernel.specialise(args, kwargs, tensors)
    _check(executable, inputs)
    on_cpu = _device_type() == "CPU"
    if not on_cpu or is_registered():
        computation = _computation(executable, kernel.launch_grid(), on_cpu=on_cpu)
        results = _library()._xla_user_computation(NODE, list(inputs), computation)
    else:
        results = _on_host(executable, inputs)
    for output, number in executable.changes.items():
        inputs[number].copy_(results[output].reshape(inputs[number].shape))
        results[output] = inputs[number].view(executable.outputs[output].shape)
    return pack(executable, results)


def _library() -> Any:
    """The extension module of torch_xla."""
    return imported("torch_xla")._XLAC


def _device_type() -> str:
    return imported("torch_xla.runtime").device_type()


def _check(executable: Executable, inputs: Sequence[torch.Tensor]) -> None:
    for t in inputs:
        if t.device != inputs[0].device:
            raise TensorDeviceError(
                f"kernel {executable.name!r} gets tensors on {inputs[0].device} and on {t.device}",
                fix="pass tensors on one device: tensor.to(device)",
            )
    if torch.is_grad_enabled() and any(t.requires_grad for t in inputs):
        raise not_differentiable(f"kernel {executable.name!r}")


def is_registered() -> bool:
    """True if XLA's client of the CPU runs kernels inside graphs."""
    with _registering:  # XLA refuses to do it twice
        return _register()


@functools.cache
def _register() -> bool:
    return xla_library.register(Path(_library().__file__), "PyInit__XLAC", CUSTOM_CALL_TARGET, HANDLER)


_registering: Final = Lock()


@functools.lru_cache(CAPACITY)
def _computation(executable: Executable, grid: tuple[int, ...], *, on_cpu: bool) -> Any:
    return _library()._xla_op_computation_from_module_proto("nki", module(executable, grid, on_cpu=on_cpu))


def module(executable: Executable, grid: tuple[int, ...], *, on_cpu: bool) -> bytes:
    """The HLO module of a call: for the CPU in the form of XLA's typed interface, else in the vendor's."""
    config = config_for(executable, grid).encode()
    return hlo_proto.module(
        "nki",
        executable.inputs,
        executable.outputs,
        target=CUSTOM_CALL_TARGET,
        api_version=hlo_proto.TYPED_FFI if on_cpu else hlo_proto.UNSPECIFIED,
        backend_config=f'{{backend_config = "{config}"}}' if on_cpu else config,
        operation=OPERATION,
        aliases={i: o for o, i in executable.changes.items()},
    )


def _on_host(executable: Executable, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The results of a launch on copies. It waits for all that the inputs depend on."""
    copies = [t.cpu().contiguous() for t in inputs]
    outputs = [torch.empty(s.shape, dtype=torch_dtype(s.dtype)) for s in executable.outputs]
    executable.launch([t.data_ptr() for t in (*copies, *outputs)])
    return [t.to(inputs[0].device) for t in outputs]
