"""The custom call ``AwsNeuronCustomNativeKernel`` on the CPU: by XLA's typed interface, on XLA's buffers."""

from __future__ import annotations

import ctypes
import math
from functools import partial
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

import numpy as np

from nki.base.framework_errors import BackendConfigError, OperandError
from nki.frameworks import device_ranks, embedded, xla_ffi
from nki.frameworks.backend_config import BackendConfig
from nki.frameworks.kernel_adapter import Operand, check_operands, find

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nki.compilation.executable import Executable
    from nki.ir.types import TensorSpec

Axes = tuple[int, ...]

_kernels: Final[WeakValueDictionary[bytes, Executable]] = WeakValueDictionary()
"""The kernel of each config. The key of an embedded kernel is its digest, so its bytes are looked at once."""


def _kernel_of(config: bytes, call: xla_ffi.Call) -> Executable:
    decoded = BackendConfig.decode(config)
    decoded.check_runnable()
    binary = decoded.binary
    if binary.startswith(embedded.MARK):
        binary = f"{binary}:{call.attribute(xla_ffi.KERNEL).decode('latin-1')}"
    executable = find(binary)
    if decoded.platform_target and decoded.platform_target != executable.kernel.target:
        raise BackendConfigError(
            f"the graph calls kernel {decoded.func_name!r} for {decoded.platform_target}; its artifact is for "
            f"{executable.kernel.target}",
            fix="trace or export the program again",
        )
    _kernels[config] = executable
    return executable


def _execute(
    config: bytes, call: xla_ffi.Call, arguments: Sequence[Operand], results: Sequence[Operand]
) -> Executable | None:
    """Run a kernel on XLA's buffers. Operands after the kernel's inputs are constants of the graph that it ignores.

    The kernel, if all calls that look like this one may launch it on the addresses of their buffers.
    """
    executable = _kernels.get(config) or _kernel_of(config, call)
    batched = results and len(results[0][1]) > len(executable.outputs[0].shape)
    axes = call.attribute(xla_ffi.BATCH).decode("latin-1") if batched else ""
    if count := call.attribute(xla_ffi.RANKS):  # the last operand is the rank of this device
        rank = ctypes.c_int32.from_address(arguments[-1][0]).value
        launch = partial(_launch, executable, axes, arguments[:-1], results)
        call.later(partial(device_ranks.run, call.site(), rank, int(count), launch))
        return None
    return _launch(executable, axes, arguments, results)


def _launch(
    executable: Executable, axes: str, arguments: Sequence[Operand], results: Sequence[Operand]
) -> Executable | None:
    if axes:
        _execute_batch(executable, axes, arguments, results)
        return None
    check_operands(executable.name, executable.inputs, arguments, surplus=True)
    check_operands(executable.name, executable.outputs, results)
    buffers = (*arguments[: len(executable.inputs)], *results)
    executable.launch([address for address, _, _ in buffers])
    return executable if len(arguments) == len(executable.inputs) else None


def _execute_batch(executable: Executable, text: str, arguments: Sequence[Operand], results: Sequence[Operand]) -> None:
    """Launch the kernel once per element of the batch. ``text``: the batch axes of each operand, as "0 1,1,"."""
    inputs = executable.inputs
    batch = tuple(results[0][1][: len(results[0][1]) - len(executable.outputs[0].shape)])
    axes = [tuple(map(int, own.split())) for own in text.split(",")]
    if len(axes) != len(inputs) or any(a >= len(batch) for own in axes for a in own):
        raise OperandError(f"kernel {executable.name!r} has {len(inputs)} tensors here; the graph's batch is {text!r}")
    axes += [tuple(range(len(batch)))] * len(results)
    buffers = (*arguments[: len(inputs)], *results)
    specs = (*inputs, *executable.outputs)
    elements: list[Operand] = []
    for (address, shape, dtype), own in zip(buffers, axes, strict=True):
        has_batch = tuple(shape[: len(own)]) == tuple(batch[a] for a in own)
        elements.append((address, shape[len(own) :] if has_batch else shape, dtype))
    check_operands(executable.name, specs, elements)
    offsets = [_offsets(spec, own, batch) for spec, own in zip(specs, axes, strict=True)]
    for steps in zip(*offsets, strict=True):
        executable.launch([x[0] + step for x, step in zip(buffers, steps, strict=True)])


def _offsets(spec: TensorSpec, axes: Axes, batch: tuple[int, ...]) -> list[int]:
    """The offset in bytes, for each element of the batch, of its part of an operand that has these batch ``axes``."""
    shape = [size if axis in axes else 1 for axis, size in enumerate(batch)]
    elements = np.arange(math.prod(shape)).reshape(shape) * math.prod(spec.shape) * spec.dtype.plain.itemsize
    return np.broadcast_to(elements, batch).reshape(-1).tolist()


HANDLER: Final = xla_ffi.handler(_execute)
"""The address of the custom call's C function."""
