"""The memory of a run in ball arithmetic: the contents of tensors, with a ball for each element."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki.backend.numpy.memory import Memory
from nki.base.element_types import DType
from nki.ir.rng_state import initial
from nki.ir.types import Access, Tensor
from nki.proofs import ball
from nki.proofs.ball import F64, Ball

Array = NDArray[Any]


def numbers_of(array: Array, dtype: DType) -> Ball:
    """The elements as exact numbers; packed ones as their words."""
    return Ball.exact(array.view(dtype.plain) if dtype.is_packed else array)


class Balls(Memory):
    """The contents of tensors, and the balls beside them, one for each element of the tensor's own dtype."""

    def __init__(self) -> None:
        super().__init__()
        self._balls: dict[Tensor, Ball] = {}

    def bind(self, tensor: Tensor, array: Array) -> None:
        super().bind(tensor, array)
        self.know(tensor)

    def forget(self, tensor: Tensor) -> None:
        super().forget(tensor)
        self._balls.pop(tensor, None)

    def know(self, tensor: Tensor) -> None:
        """Let the balls of ``tensor`` be what it holds."""
        flat = self.window(Access.whole(tensor)).reshape(-1)
        self._balls[tensor] = numbers_of(flat, tensor.dtype)

    def lose(self, tensor: Tensor) -> None:
        """Let nothing be known of ``tensor``."""
        self._balls[tensor] = ball.unknown((tensor.elements,))

    def _of(self, tensor: Tensor) -> Ball:
        if tensor not in self._balls:
            if tensor.data is not None or initial(tensor) is not None:
                self.know(tensor)
            else:
                self.lose(tensor)
        return self._balls[tensor]

    def _views(self, access: Access) -> tuple[F64, F64]:
        """Centres and radii of ``access``, of elements as wide as its tensor's, as writable views."""
        of = self._of(access.tensor)
        steps = tuple(8 * step for step in access.strides)
        centre, radius = (np.ndarray(access.shape, np.float64, a, 8 * access.offset, steps) for a in parts_of(of))
        return centre, radius

    def read(self, access: Access) -> Ball:
        """The balls of ``access``, in its shape."""
        own = access.tensor.dtype
        if access.dtype is own:
            return Ball(*(view.copy() for view in self._views(access)))
        numbers = numbers_of(self.window(access), access.dtype)
        if access.dtype.itemsize == own.itemsize:  # another reading of patterns that must be what they are
            stored = Access(access.tensor, access.offset, access.shape, access.strides, own)
            known = self._is_stored(stored)
        else:
            known = np.broadcast_to(self._is_stored(Access.whole(access.tensor)).all(), access.shape)
        return Ball(numbers.centre, np.where(known, numbers.radius, np.inf))

    def _is_stored(self, access: Access) -> NDArray[np.bool_]:
        """The elements with an exact ball of the number that the executor holds."""
        centre, radius = self._views(access)
        held = numbers_of(self.window(access), access.dtype)
        return (radius == 0) & (held.radius == 0) & (held.centre == centre)

    def is_exact(self, access: Access) -> bool:
        """True if the executor holds the exact numbers of all elements."""
        if access.dtype.itemsize != access.tensor.dtype.itemsize:
            access = Access.whole(access.tensor)
        own = access.tensor.dtype
        return bool(self._is_stored(Access(access.tensor, access.offset, access.shape, access.strides, own)).all())

    def write(self, access: Access, new: Ball) -> None:
        """Set the balls of ``access``, which has just been written, to ``new``, in its shape."""
        own = access.tensor.dtype
        if access.dtype is own:
            for view, numbers in zip(self._views(access), parts_of(new), strict=True):
                view[...] = numbers
        elif access.dtype.itemsize == own.itemsize:
            held = numbers_of(self.window(access), access.dtype)
            known = (new.radius == 0) & (held.centre == new.centre)
            stored = Access(access.tensor, access.offset, access.shape, access.strides, own)
            numbers = numbers_of(self.window(stored), own)
            centre, radius = self._views(stored)
            centre[...], radius[...] = numbers.centre, np.where(known, numbers.radius, np.inf)
        else:
            self.lose(access.tensor)


def parts_of(of: Ball) -> tuple[F64, F64]:
    """Centres and radii."""
    return of.centre, of.radius
