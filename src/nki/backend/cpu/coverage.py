"""Which tensors a program reads, or returns, in places that it never wrote.

Those are filled with the dtype's poison before their first use, so that a launch gives the same bits every time and the
same as the eager executor, whose memory is poisoned from the start.
"""

from __future__ import annotations

import numpy as np

from nki.ir.kernel import Kernel
from nki.ir.types import Access, Tensor
from nki.ir.window import byte_window


class _Written:
    """The elements of one tensor that have been written, until all of them have."""

    def __init__(self, tensor: Tensor) -> None:
        self.size = tensor.nbytes
        self.mask: np.ndarray | None = None
        self.whole = False

    def _window(self, access: Access) -> np.ndarray:
        if self.mask is None:
            self.mask = np.zeros(self.size, np.bool_)
        return byte_window(self.mask, access)

    def write(self, access: Access) -> None:
        if self.whole:
            return
        if access.size * access.dtype.itemsize == self.size and 0 not in access.strides:
            self.whole = True
            self.mask = None
            return
        self._window(access)[...] = True

    def covers(self, access: Access) -> bool:
        return self.whole or (self.mask is not None and bool(self._window(access).all()))

    def complete(self) -> bool:
        if not self.whole and self.mask is not None and bool(self.mask.all()):
            self.whole = True
        return self.whole


def unwritten(kernel: Kernel) -> set[Tensor]:
    """The tensors of ``kernel``, inputs aside, that need filling."""
    inputs = set(kernel.inputs)
    written: dict[Tensor, _Written] = {}
    found: set[Tensor] = set()
    for inst in kernel.body:
        for access in inst.reads():
            tensor = access.tensor
            if tensor in inputs or tensor in found:
                continue
            state = written.get(tensor)
            if state is None or not state.covers(access):
                found.add(tensor)
        for access in inst.writes():
            tensor = access.tensor
            if tensor not in inputs and tensor not in found:
                if tensor not in written:
                    written[tensor] = _Written(tensor)
                written[tensor].write(access)
    for tensor in kernel.outputs:
        if tensor not in inputs and (tensor not in written or not written[tensor].complete()):
            found.add(tensor)
    return found
