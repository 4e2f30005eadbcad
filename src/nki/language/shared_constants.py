"""Data that is compiled into a kernel: ``nl.shared_constant``, ``nl.shared_identity_matrix``."""

from __future__ import annotations

import operator
import os
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from nki import isa
from nki.base import element_types as dt
from nki.base.assigned_name import assigned_name
from nki.base.element_types import DType
from nki.base.errors import ArgumentError, DTypeError, keep_report
from nki.base.source import Where, here
from nki.frontend.builder import current
from nki.frontend.captured_state import note_file
from nki.ir.constant import constant as constant_of
from nki.ir.types import Buffer
from nki.language.nki_tensor import NkiTensor

_TYPES: Final = (
    *(dt.float32, dt.float16, dt.bfloat16, dt.float8_e4m3fn, dt.float8_e5m2, dt.float8_e8m0fnu),
    *(dt.int32, dt.int16, dt.int8, dt.uint32, dt.uint16, dt.uint8),
)
"""The dtypes of constants (NKI reference, nki.language.shared_constant)."""


def shared_constant(constant: Any, dtype: Any = None) -> NkiTensor:
    """A tensor in shared HBM that holds ``constant`` from the beginning and cannot be written.

    ``constant``: a NumPy array, or the path of a ``.npy`` file, of floats of 8, 16 or 32 bits (not float8_e4m3) or
    integers of 8, 16 or 32 bits. The data become a part of the compiled kernel; equal constants share one tensor. A
    file is read when the kernel is compiled, and the kernel is compiled anew for a later call if the file has changed.
    ``dtype``: of the tensor, to which the numbers are converted; None: the dtype of ``constant`` (a parameter of NKI
    0.2).
    """
    where = here()
    current("nl.shared_constant")
    label = assigned_name(where, "constant")
    if isinstance(constant, str | os.PathLike):
        return _made(label, _read(os.fspath(cast("os.PathLike[str]", constant))), where, dtype)
    if not isinstance(constant, np.ndarray):
        raise ArgumentError(
            f"nl.shared_constant: {constant!r:.60} is a {type(constant).__name__}, neither a NumPy array nor the path "
            "of a .npy file",
            fix="pass np.array(values, dtype=np.float32)",
        )
    return _made(label, cast("NDArray[Any]", constant), where, dtype)


def _read(path: str) -> NDArray[Any]:
    note_file(path)
    try:
        loaded: Any = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise ArgumentError(
            f"nl.shared_constant: cannot read {path!r}: {error}", fix="write the file with np.save(path, array)"
        ) from None
    if not isinstance(loaded, np.ndarray):
        loaded.close()
        raise ArgumentError(
            f"nl.shared_constant: {path!r} holds several arrays", fix="save each with np.save, in a file of its own"
        )
    array = cast("NDArray[Any]", loaded)
    if array.dtype.type is np.void:  # what NumPy makes of types that it did not define itself
        raise DTypeError(
            f"nl.shared_constant: {path!r} holds elements of {array.dtype.itemsize} bytes without saying what they are",
            fix="load it outside the kernel and pass array.view(ml_dtypes.bfloat16), or whatever they are",
        )
    return array


def _made(label: str, array: NDArray[Any], where: Where, dtype: Any = None) -> NkiTensor:
    kind = dt.of(array.dtype.newbyteorder("=")) if dtype is None else dt.of(dtype)
    if kind not in _TYPES:
        raise DTypeError(
            f"nl.shared_constant: '{label}' {array.shape} is {kind}, which no constant can hold",
            fix=f"convert it to one of {', '.join(d.name for d in _TYPES)}",
        )
    data = constant_of(array.astype(kind.dtype, copy=False).tobytes())
    return NkiTensor.of(current("nl.shared_constant").constant(label, array.shape, kind, data, where))


def shared_identity_matrix(n: int, dtype: Any = dt.uint8, dst: NkiTensor | None = None) -> NkiTensor:
    """An (n, n) tile in SBUF with 1 on the diagonal and 0 elsewhere; ``dst`` itself if that is given.

    It is copied from a constant; a kernel has one for each n and dtype.
    """
    where = here()
    kind = dt.of(dtype)
    try:
        size = operator.index(n)
    except TypeError as misfit:
        keep_report(misfit)
        raise ArgumentError(f"nl.shared_identity_matrix: n={n!r} is no integer", fix="pass 128, for example") from None
    builder = current("nl.shared_identity_matrix")
    if dst is None:
        label = assigned_name(where, "identity")
        dst = NkiTensor.of(builder.tensor(label, (size, size), kind, Buffer.sbuf, where=where))
    isa.dma_copy(dst, _identity(size, kind, where))
    return dst


def _identity(size: int, kind: DType, where: Where) -> NkiTensor:
    """The constant. What no constant can hold is converted on its way into the tile."""
    stored = kind if kind in _TYPES else dt.uint8
    return _made(f"identity_{size}", np.eye(size).astype(stored.dtype), where)


__all__ = ["shared_constant", "shared_identity_matrix"]
