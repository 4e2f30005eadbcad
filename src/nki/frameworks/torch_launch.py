"""Launches of compiled kernels on PyTorch's tensors in the memory of the CPU."""

# PyTorch declares types only in part.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, Final, Protocol

import torch

from nki.frameworks.kernel_adapter import PLAIN_CONSTANTS, check_elements
from nki.frameworks.torch_tensors import torch_dtype

if TYPE_CHECKING:
    from nki.base.element_types import DType
    from nki.compilation.executable import Executable
    from nki.ir.types import TensorSpec
    from nki.jit import Kernel

_CPU: Final = torch.device("cpu")
_ALIGNED: Final = 15
"""Low bits of an address that are 0 for elements of every dtype."""
_address: Final = torch.Tensor.data_ptr
_Tensor: Final = torch.Tensor
_Parameter: Final = torch.nn.Parameter
_STRIDED: Final = torch.strided


class Launchable(Protocol):
    """The callee of an operator: a compiled kernel, or one that the eager simulator runs."""

    @property
    def name(self) -> str: ...
    @property
    def inputs(self) -> Sequence[TensorSpec]: ...
    @property
    def outputs(self) -> Sequence[TensorSpec]: ...
    @property
    def changes(self) -> Mapping[int, int]: ...


def launch(executable: Executable, tensors: Sequence[torch.Tensor], floats: Sequence[float] = ()) -> list[torch.Tensor]:
    """Fresh results; no tensor changes."""
    inputs = [_dense(t) for t in tensors]
    outputs = [_empty(spec) for spec in executable.outputs]
    executable.launch([*map(_address, inputs), *map(_address, outputs)], floats, True)
    return outputs


def launch_plain(kernel: Kernel, args: Sequence[Any]) -> Any:
    """The results of a call that needs nothing but a launch; None if it may need more.

    That is a kernel that is compiled and changes none of its arguments, which are dense tensors in the memory of the
    CPU, without gradients, and plain constants. A call with tensors of a kilobyte is hardly more than what happens
    here, so each tensor is looked at once. The caller has seen to it that nothing else looks at PyTorch's calls.
    """
    described: list[Any] = []
    addresses: list[int] = []
    needs_grad = torch.is_grad_enabled()
    try:
        for value, kind in zip(args, map(type, args), strict=True):
            if kind is _Tensor or kind is _Parameter:
                if not (value.is_cpu and value.is_contiguous()) or (needs_grad and value.requires_grad):
                    return None
                address = value.data_ptr()
                if value.is_neg() or address & _ALIGNED or value.layout is not _STRIDED:
                    return None
                described.append((value.shape, value.dtype))
                addresses.append(address)
            elif kind in PLAIN_CONSTANTS:
                described.append((kind, value))
            else:
                return None
    except RuntimeError:  # no memory to read, as in sparse tensors, and in tensors of a torch.func that has returned
        return None
    executable = kernel.kept(args, described)
    if executable is None or executable.changes:
        return None
    forms = executable.forms
    if forms is None:
        forms = executable.forms = [_form(spec.shape, spec.dtype) for spec in executable.outputs]
    outputs = [torch.empty_strided(shape, strides, dtype=dtype, device=_CPU) for shape, strides, dtype in forms]
    executable.launch([*addresses, *map(_address, outputs)], (), True)
    return tuple(outputs) if executable.returns_sequence else outputs[0]


def launch_in_place(
    executable: Executable,
    tensors: Sequence[torch.Tensor],
    floats: Sequence[float] = (),
    fresh: Sequence[torch.Tensor] | None = None,
) -> list[torch.Tensor]:
    """Results; the inputs among them are the changed ``tensors`` themselves.

    The others are written to the dense tensors ``fresh``, or to new ones.

    The kernel changes copies where tensors may share memory, for each argument is a tensor of its own. Copied back one
    after the other, the last one wins, as in ``nki.simulate``.
    """
    inputs = [_dense(t) for t in tensors]
    changes = executable.changes
    apart = not any(
        _overlap(tensors[number], other)
        for number in changes.values()
        for position, other in enumerate(tensors)
        if position != number
    )
    for number in changes.values():
        if inputs[number] is not tensors[number]:
            check_elements(executable.inputs[number].name, tensors[number].shape, tensors[number].stride())
        elif not (apart and _writable(tensors[number])):
            inputs[number] = tensors[number].clone()
    others = iter(fresh if fresh is not None else map(_empty, fresh_specs(executable)))
    outputs = [inputs[changes[i]] if i in changes else next(others) for i in range(len(executable.outputs))]
    executable.launch([t.data_ptr() for t in inputs + outputs], floats, True)
    for output, number in changes.items():
        if inputs[number] is tensors[number]:
            torch.autograd.graph.increment_version(tensors[number])
        else:
            tensors[number].copy_(inputs[number])
        outputs[output] = shaped(tensors[number], executable.outputs[output].shape)
    return outputs


def updated(
    outputs: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor], changes: Mapping[int, int]
) -> list[torch.Tensor]:
    """``outputs`` with each tensor that the kernel changes instead of its new contents, copied into it."""
    result = list(outputs)
    for output, number in changes.items():
        changed = result[output]
        tensors[number].copy_(shaped(changed, tensors[number].shape))
        result[output] = shaped(tensors[number], changed.shape)
    return result


def shaped(tensor: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """``tensor`` itself if it has this shape, else a view."""
    return tensor if tensor.shape == torch.Size(shape) else tensor.view(shape)


def fresh_specs(executable: Launchable) -> list[TensorSpec]:
    """The results that are no inputs."""
    return [spec for number, spec in enumerate(executable.outputs) if number not in executable.changes]


def _empty(spec: TensorSpec) -> torch.Tensor:
    shape, strides, dtype = _form(spec.shape, spec.dtype)
    return torch.empty_strided(shape, strides, dtype=dtype, device=_CPU)  # 0.9 µs; torch.empty takes 1.5


@lru_cache(maxsize=1 << 10)
def _form(shape: tuple[int, ...], dtype: DType) -> tuple[tuple[int, ...], tuple[int, ...], torch.dtype]:
    """Shape, strides and PyTorch's dtype of a dense result."""
    return shape, tuple(prod(shape[axis + 1 :]) for axis in range(len(shape))), torch_dtype(dtype)


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    """``tensor``, or a copy if it is not row-major or starts between two elements."""
    if tensor.is_contiguous() and not (tensor.data_ptr() & _ALIGNED and tensor.data_ptr() % tensor.itemsize):
        return tensor
    return tensor.clone(memory_format=torch.contiguous_format)


def _writable(tensor: torch.Tensor) -> bool:
    """False for a tensor that PyTorch itself must change, because it counts or refuses its changes."""
    return not tensor.is_inference() or torch.is_inference_mode_enabled()


def _overlap(one: torch.Tensor, other: torch.Tensor) -> bool:
    """True if the bytes from the first to the last element of both have some in common."""
    first, end = extent(one)
    other_first, other_end = extent(other)
    return first < other_end and other_first < end


def extent(tensor: torch.Tensor) -> tuple[int, int]:
    """The address of the first byte of ``tensor``, and of the byte behind its last one."""
    first = tensor.data_ptr()
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return first, first + (last + 1) * tensor.itemsize
