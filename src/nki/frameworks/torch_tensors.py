"""PyTorch's tensors as arguments of kernels: dtypes, shapes, layouts and devices."""

# PyTorch declares types only in part.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn

import torch
from torch._guards import TracingContext

from nki.base import element_types as dtypes
from nki.base.errors import UnknownDTypeError
from nki.base.framework_errors import (
    FixedShapeError,
    NotDifferentiableError,
    OutputDTypeError,
    TensorDeviceError,
    TensorLayoutError,
)
from nki.frameworks.kernel_adapter import TensorMap, check_shape

if TYPE_CHECKING:
    from nki.base.element_types import DType

TO_NKI: Final[dict[torch.dtype, DType]] = {
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
_TO_TORCH: Final[dict[DType, torch.dtype]] = {nki: theirs for theirs, nki in TO_NKI.items()} | {
    dtypes.tfloat32: torch.float32,
    dtypes.float8_e4m3fn_x4: torch.uint32,
    dtypes.float8_e5m2_x4: torch.uint32,
    dtypes.float4_e2m1fn_x4: torch.uint16,
}
_NARROWER: Final = {torch.float64: "float32"}
_LOCAL: Final = re.compile(r"^L\['(\w+)'\]")
PLAIN: Final = (torch.Tensor, torch.nn.Parameter)


@dataclass(frozen=True)
class StandIn:
    """A tensor without data, as PyTorch's compiler traces it."""

    position: int
    shape: tuple[int, ...]
    dtype: torch.dtype
    device_type: str
    layout: torch.layout = torch.strided


class TorchTensors(TensorMap):
    """PyTorch tensors of any device; only shape, dtype and layout are looked at."""

    def translate_to_neuron_dtype(self, _dtype: Any) -> DType:
        found = TO_NKI.get(_dtype)
        if found is None:
            narrower = _NARROWER.get(_dtype)
            raise UnknownDTypeError(
                f"{_dtype} is not an NKI dtype",
                fix=f"pass tensor.to(torch.{narrower})" if narrower else "pass a tensor of plain numbers",
            )
        return found

    def is_framework_tensor(self, t: Any) -> bool:
        return isinstance(t, (torch.Tensor, StandIn))

    def map_framework_tensor(self, t: Any) -> tuple[tuple[int, ...], Any]:
        if t.layout is not torch.strided:
            raise TensorLayoutError(
                f"a tensor of layout {t.layout} is not one block of elements", fix="pass a dense tensor"
            )
        try:
            shape = t.shape if type(t) in PLAIN else numbers(t)
        except RuntimeError:
            if not t.is_nested:
                raise
            raise TensorLayoutError(
                "a nested tensor has rows of several lengths", fix="pass torch.nested.to_padded_tensor(tensor, 0.0)"
            ) from None
        if not shape or 0 in shape:
            check_shape(shape)
        return shape, t.dtype


# Tracers hold sizes as symbols. A kernel is compiled for numbers, so a trace gets a guard for each size that a kernel
# sees. That cannot be where the caller has said that a size stays dynamic (torch.export.Dim, mark_dynamic), or where it
# depends on data.


def numbers(tensor: torch.Tensor) -> tuple[int, ...]:
    """The shape of ``tensor``, for which the trace then holds. Raises :class:`FixedShapeError` if it must stay open."""
    symbols = [size for size in tensor.shape if isinstance(size, torch.SymInt)]
    if not symbols:
        return tuple(tensor.shape)
    environment = symbols[0].node.shape_env
    before = open_sizes(environment)
    for size in symbols:
        if not size.node.has_hint():
            refuse_unknown()
    shape = tuple([int(size) for size in tensor.shape])
    check_open(before, open_sizes(environment))
    return shape


def open_sizes(environment: Any = None) -> tuple[str, ...]:
    """The sizes that the caller has marked as dynamic and that are symbols yet; by default in the present trace."""
    if environment is None:
        context = TracingContext.try_get()
        environment = context.fake_mode.shape_env if context is not None and context.fake_mode is not None else None
    found: list[str] = []
    for tracked in getattr(environment, "tracked_fakes", None) or ():
        constraints = getattr(tracked.symbolic_context, "constraint_sizes", None)
        if constraints is None or not isinstance(tracked.fake, torch.Tensor):
            continue
        for axis, (size, constraint) in enumerate(zip(tracked.fake.shape, constraints, strict=True)):
            is_marked = constraint is not None and not constraint.warn_only
            if is_marked and isinstance(size, torch.SymInt) and not environment.replace(size.node.expr).is_number:
                name = _LOCAL.sub(r"\1", tracked.source.name)
                found.append(f"dimension {axis} of {name}")
    return tuple(found)


def check_open(before: tuple[str, ...], after: tuple[str, ...]) -> None:
    """Raise :class:`FixedShapeError` if the kernel has made a number of a size that was open ``before``."""
    closed = [name for name in before if name not in after]
    if closed:
        raise FixedShapeError(
            f"{', '.join(closed)} {'is' if len(closed) == 1 else 'are'} marked as dynamic, and kernels are compiled "
            "for fixed shapes",
            fix="give it a number: leave it out of dynamic_shapes or mark_dynamic, or allow a number with Dim.AUTO or "
            "maybe_mark_dynamic",
        )


def refuse_unknown() -> NoReturn:
    """Raise :class:`FixedShapeError` for a shape that depends on the contents of tensors."""
    raise FixedShapeError(
        "the shape of a tensor depends on data, and kernels are compiled for fixed shapes",
        fix="pad the tensor to a shape that is known when the program is traced",
    )


def check_devices(devices: Sequence[str]) -> None:
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


def torch_dtype(dtype: DType) -> torch.dtype:
    """PyTorch's dtype for results of ``dtype``. Raises :class:`OutputDTypeError` if it has none."""
    found = _TO_TORCH.get(dtype)
    if found is None:
        raise OutputDTypeError(
            f"the kernel returns {dtype}, which PyTorch does not have",
            fix="return a type that PyTorch has; for eight-bit floats float8_e4m3fn or float8_e5m2",
        )
    return found


def not_differentiable(what: str) -> NotDifferentiableError:
    """The error about a missing derivative, with the line that adds one."""
    return NotDifferentiableError(
        f"{what} has no derivative",
        fix="give it one, f = nki.torch.op(kernel, backward), and call f; or call the kernel under torch.no_grad()",
    )


TENSORS: Final = TorchTensors()
