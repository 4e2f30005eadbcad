"""Kernels on NumPy arrays: contiguous inputs are read where they lie, results are fresh arrays."""

from __future__ import annotations

import ctypes
import sys
from _thread import get_ident
from threading import main_thread
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
from numpy.lib.array_utils import byte_bounds

from nki.base import element_types as dtypes
from nki.base.errors import KernelArgumentError, UnknownDTypeError
from nki.base.framework_errors import ByteOrderError, TensorLayoutError
from nki.compilation import ranked_launch
from nki.frameworks.kernel_adapter import (
    PLAIN_CONSTANTS,
    Adapter,
    FrameworkKernel,
    TensorMap,
    check_elements,
    check_shape,
    pack,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nki.base.element_types import DType
    from nki.compilation.executable import Executable
    from nki.jit import Kernel

# What to convert to, for the types that NumPy makes by default and NKI does not have.
_NARROWER: Final = {"f": "float32", "c": "float32"}


class NumPyTensors(TensorMap):
    """NumPy arrays, of ml_dtypes too. NumPy scalars are numbers, not tensors."""

    def translate_to_neuron_dtype(self, _dtype: Any) -> DType:
        try:
            return dtypes.of(_dtype)
        except UnknownDTypeError:
            raise _refusal(_dtype) from None

    def is_framework_tensor(self, t: Any) -> bool:
        return isinstance(t, np.ndarray)

    def map_framework_tensor(self, t: Any) -> tuple[tuple[int, ...], Any]:
        if type(t) is not np.ndarray:
            if isinstance(t, np.ma.MaskedArray):
                raise TensorLayoutError("a masked array has a mask that no kernel sees", fix="pass array.filled(value)")
            if isinstance(t, np.ndarray):
                t = _base(cast("NDArray[Any]", t))
        shape = t.shape
        if not shape or 0 in shape:
            check_shape(shape)
        # NumPy holds packed types of other libraries for equal if only their bytes are laid out alike.
        return shape, t.dtype if getattr(t.dtype, "kind", "") != "V" else self.translate_to_neuron_dtype(t.dtype)


class NumPyAdapter(NumPyTensors, Adapter):
    """Runs kernels on arrays: dense inputs where they lie, others copied; results are fresh arrays.

    An input that the kernel returns is changed in place.
    """

    def call(self, kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        described = None if kwargs else _described(args)
        executable = None if described is None else kernel.kept(args, described)
        floats: Sequence[float] = ()
        if executable is not None and not executable.changes:
            inputs = [a for a in args if type(a) is np.ndarray]
        else:
            executable, tensors, floats = kernel.launchable(args, kwargs, self)
            if executable.changes:
                return pack(executable, _launch_in_place(executable, tensors, floats))
            inputs = [a if type(a) is np.ndarray and _is_dense(a) else _dense(_base(a)) for a in tensors]
        outputs = [np.empty(spec.shape, spec.dtype.dtype) for spec in executable.outputs]
        executable.launch([*map(_address, inputs), *map(_address, outputs)], floats, _is_beside_torch())
        return tuple(outputs) if executable.returns_sequence else outputs[0]

    def extent(self, t: Any) -> tuple[int, int]:
        return byte_bounds(t)

    def to_numpy(self, t: Any) -> NDArray[Any]:
        return _base(t)

    def update(self, t: Any, array: NDArray[Any], name: str) -> Any:
        _check_writable(t, name)
        base = _base(t)
        base[...] = array.reshape(base.shape)
        return t.reshape(array.shape)

    def from_numpy(self, array: NDArray[Any]) -> Any:
        return array


def _described(args: Sequence[Any]) -> list[Any] | None:
    """Arguments as ``Kernel.kept`` takes them; None if one is neither a dense array nor a plain constant."""
    described: list[Any] = []
    for value, kind in zip(args, map(type, args), strict=True):
        if kind is np.ndarray:
            if not _is_dense(value):
                return None
            described.append((value.shape, value.dtype))
        elif kind in PLAIN_CONSTANTS:
            described.append((kind, value))
        else:
            return None
    return described


def _launch_in_place(
    executable: Executable, tensors: list[NDArray[Any]], floats: Sequence[float]
) -> list[NDArray[Any]]:
    """Results; the inputs among them are views of the changed ``tensors``."""
    arrays = [a if type(a) is np.ndarray else _base(a) for a in tensors]
    inputs = [a if _is_dense(a) else _dense(a) for a in arrays]
    changes = executable.changes
    if ranked_launch.active:
        ranked_launch.check_apart(executable.inputs, arrays, changes.values())
    _separate(executable, arrays, inputs)
    outputs = [
        np.empty(spec.shape, spec.dtype.dtype) if number not in changes else inputs[changes[number]]
        for number, spec in enumerate(executable.outputs)
    ]
    executable.launch([_address(array) for array in inputs + outputs], floats, _is_beside_torch())
    for output, number in changes.items():
        changed = arrays[number]
        if changed is not inputs[number]:
            changed[...] = inputs[number].view(changed.dtype)
        outputs[output] = tensors[number].reshape(executable.outputs[output].shape)
    return outputs


def _is_beside_torch() -> bool:
    """True if PyTorch is likely to compute in this Python thread, too: its threads then keep the cores busy.

    That is the main thread of a program that has imported it. Other threads of Python would get threads of PyTorch
    that nothing else uses.
    """
    return "torch" in sys.modules and get_ident() == main_thread().ident


def _base(array: NDArray[Any]) -> NDArray[Any]:
    """``array`` as NumPy itself has it: a subclass may have another ``shape``, or another way to store elements."""
    return np.ndarray.view(array, np.ndarray)


def _separate(executable: Executable, arrays: list[NDArray[Any]], inputs: list[NDArray[Any]]) -> None:
    """Let the kernel change copies if arrays may share memory: each argument is a tensor of its own.

    Copied back one after the other, the last one wins, as in ``nki.simulate``.
    """
    changed = executable.changes.values()
    for number in changed:
        _check_writable(arrays[number], executable.inputs[number].name)
    if any(
        np.may_share_memory(arrays[number], other)
        for number in changed
        for position, other in enumerate(arrays)
        if position != number
    ):
        for number in changed:
            if inputs[number] is arrays[number]:
                inputs[number] = arrays[number].copy()


def _is_dense(array: NDArray[Any]) -> bool:
    """True if a kernel can read ``array`` where it lies."""
    flags = array.flags
    return flags.c_contiguous and flags.aligned and array.dtype.kind != "V"


def _dense(array: NDArray[Any]) -> NDArray[Any]:
    """``array`` row by row at an address that its elements may have; of packed elements, for which NumPy takes any
    address, the words.
    """
    words = np.ascontiguousarray(array).view(dtypes.of(array.dtype).plain)
    return words if words.flags.aligned else np.array(words, order="C")


class NumPyFrameworkKernel(NumPyTensors, FrameworkKernel):
    """A :class:`FrameworkKernel` with NumPy arrays as example arguments."""


def _check_writable(array: NDArray[Any], name: str) -> None:
    flags = array.flags
    if not flags.writeable:
        raise KernelArgumentError(
            f"the kernel changes {name!r}, an array that cannot be written to", fix="pass a writable copy of it"
        )
    if not flags.c_contiguous:
        check_elements(name, array.shape, array.strides)


def _refusal(dtype: Any) -> ByteOrderError | UnknownDTypeError:
    if isinstance(dtype, np.dtype) and not dtype.isnative:
        return ByteOrderError(
            f"an array of dtype {dtype.str!r} has its bytes in the order of another machine",
            fix="pass array.astype(array.dtype.newbyteorder('='))",
        )
    narrower = _NARROWER.get(dtype.kind) if isinstance(dtype, np.dtype) else None
    return UnknownDTypeError(
        f"dtype {dtype} is not an NKI dtype",
        fix=f"pass array.astype(np.{narrower})" if narrower else "pass an array of numbers",
    )


_pointer: Final = ctypes.c_void_p.from_address
# In every NumPy release the address of the data is the first field after the object header.
_DATA_FIELD: Final = object.__basicsize__


def _address_by_field(array: NDArray[Any]) -> int:
    return cast("int", _pointer(id(array) + _DATA_FIELD).value)


def _address_by_interface(array: NDArray[Any]) -> int:
    return array.ctypes.data


def _choose_address() -> Any:
    """The tenfold faster way to an array's address, if this interpreter lays out objects as expected."""
    probe = np.zeros(3, np.float32)
    return _address_by_field if _pointer(id(probe) + _DATA_FIELD).value == probe.ctypes.data else _address_by_interface


_address: Final = _choose_address()

ADAPTER: Final = NumPyAdapter()
