"""The memory of a run in ball arithmetic: the contents of tensors, with a ball for each element."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki.base.element_types import DType
from nki.ir.rng_state import initial
from nki.ir.types import Access, Tensor
from nki.proofs.ball import Ball
from nki.shadows.memory import ShadowMemory

Array = NDArray[Any]


def numbers_of(array: Array, dtype: DType) -> Ball:
    """The elements as exact numbers; packed ones as their words."""
    return Ball.exact(array.view(dtype.plain) if dtype.is_packed else array)


class Balls(ShadowMemory):
    """The contents of tensors, and the balls beside them, one for each element of the tensor's own dtype."""

    FILLS = {"centre": np.float64(0), "radius": np.float64(np.inf)}  # noqa: RUF012

    def bind(self, tensor: Tensor, array: Array) -> None:
        super().bind(tensor, array)
        self.know(Access.whole(tensor))

    def know(self, access: Access) -> None:
        """Let the balls of ``access``, in the width of its tensor, be what it holds."""
        self.make(access.tensor, self.FILLS)
        self._set(access, numbers_of(self.window(access), access.dtype))

    def lose(self, tensor: Tensor) -> None:
        """Let nothing be known of ``tensor``."""
        self.drop(tensor)
        self.make(tensor, self.FILLS)

    def _get(self, access: Access) -> Ball:
        """The balls of ``access``, in the width of its tensor, as writable views."""
        self._begin(access.tensor)
        return Ball(self.words(access, "centre"), self.words(access, "radius"))

    def _begin(self, tensor: Tensor) -> None:
        """Have balls of ``tensor``: of what it holds from the beginning, or else of nothing that is known."""
        if not self.planes(tensor):
            if tensor.data is not None or initial(tensor) is not None:
                self.know(Access.whole(tensor))
            else:
                self.make(tensor, self.FILLS)

    def _set(self, access: Access, new: Ball) -> None:
        self.set_words(access, {"centre": new.centre, "radius": new.radius})

    def read(self, access: Access) -> Ball:
        """The balls of ``access``, in its shape."""
        if access.dtype is access.tensor.dtype:
            return self._get(access).map(np.copy)
        # Another reading of patterns, which must be what they are.
        return _where(self._is_stored(access), numbers_of(self.window(access), access.dtype))

    def _is_stored(self, access: Access) -> NDArray[np.bool_]:
        """True where the executor holds the number of an exact ball; of elements in another width, for all or none."""
        stored = self.as_stored(access)
        held_as = Access.whole(access.tensor) if stored is None else stored
        one, held = self._get(held_as), numbers_of(self.window(held_as), held_as.dtype)
        exact = (one.radius == 0) & (held.radius == 0) & (held.centre == one.centre)
        if stored is not None:
            return exact
        return np.broadcast_to(exact.reshape(-1)[self.touched(access)].all(), access.shape)

    def is_exact(self, access: Access) -> bool:
        """True if the executor holds the exact numbers of all elements."""
        return bool(self._is_stored(access).all())

    def write(self, access: Access, new: Ball) -> None:
        """Set the balls of ``access``, which has just been written, to ``new``, in its shape."""
        self._begin(access.tensor)
        stored = self.as_stored(access)
        if stored is None:
            self.planes(access.tensor)["radius"][self.touched(access)] = np.inf
        elif stored is access:
            self._set(access, new)
        else:
            known = (new.radius == 0) & (numbers_of(self.window(access), access.dtype).centre == new.centre)
            self._set(stored, _where(known, numbers_of(self.window(stored), stored.dtype)))


def _where(known: NDArray[np.bool_], numbers: Ball) -> Ball:
    return Ball(numbers.centre, np.where(known, numbers.radius, np.inf))


def parts_of(of: Ball) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Centres and radii."""
    return of.centre, of.radius
