"""Undefined bytes: the error that each of them comes from, and other contents that they may have.

Memory that nothing wrote and bytes for which two cores race are undefined alike. A byte keeps the number of its origin,
the error that is raised where it matters, and a second content: another filling of fresh memory, or what the byte holds
if the other core is first. All second contents together are another run of the kernel, where it differs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nki.base.errors import CoreRaceError, NkiError
from nki.ir.access_bounds import byte_window
from nki.ir.rng_state import initial
from nki.ir.types import Access, Buffer, Tensor
from nki.sim.hazards.psum_groups import PsumShadow
from nki.sim.hazards.shadow import FIRST_ORIGIN, MOST_ORIGINS, Times, is_poisoned

_OTHER_FILLING: Final = 0x3C
"""The second content of fresh memory: as a float a small number."""

Bytes = NDArray[np.uint8]


@dataclass(slots=True)
class Undefined:
    """The undefined elements of an access: the origin of each, 0 for a defined one, and other contents.

    ``other`` has one dimension more than the access, for the bytes of an element; None: nothing is known about it.
    """

    origins: Times
    other: Bytes | None

    @property
    def elements(self) -> NDArray[np.bool_]:
        """The undefined elements."""
        return self.origins != 0


class Origins:
    """The errors that undefined bytes come from, by number."""

    def __init__(self) -> None:
        self._errors: list[NkiError | Callable[[], NkiError]] = []
        self._numbers: dict[object, int] = {}
        self._deferred: dict[int, NkiError] = {}
        self._may_be_read: set[int] = set()
        """Numbers of deferred errors, and of races."""

    def number(self, error: NkiError, *, deferred: bool = False) -> int:
        """The number of ``error``; errors of the same line and text are one.

        ``deferred``: of a read of unwritten shared memory alone, which is raised at the end.
        """
        key = (error.span, error.message)
        number = self._numbers.get(key)
        if number is None and len(self._errors) < MOST_ORIGINS:
            number = self._numbers[key] = FIRST_ORIGIN + len(self._errors)
            self._errors.append(error)
            if isinstance(error, CoreRaceError):
                self._may_be_read.add(number)
        number = FIRST_ORIGIN + MOST_ORIGINS - 1 if number is None else number
        if deferred:
            self._deferred[number] = self.error(number)
            self._may_be_read.add(number)
        return number

    def later(self, make: Callable[[], NkiError]) -> int:
        """The number of an error that ``make`` makes when it is asked for."""
        if len(self._errors) >= MOST_ORIGINS:
            return self.number(make())
        self._errors.append(make)
        return FIRST_ORIGIN + len(self._errors) - 1

    def error(self, number: int) -> NkiError:
        """The error with this number."""
        error = self._errors[number - FIRST_ORIGIN]
        if not isinstance(error, NkiError):
            error = self._errors[number - FIRST_ORIGIN] = error()
        return error

    def first(self, times: Times) -> NkiError:
        """The error that was found first, of poisoned elements among ``times``."""
        return self.error(int(times[is_poisoned(times)].min()))

    def may_be_read(self, times: Times) -> bool:
        """True if some of the elements are undefined by a race, or by a deferred error: all of them may be."""
        some = self._may_be_read
        return bool(some) and not some.isdisjoint(np.unique(times[is_poisoned(times)]).tolist())

    def raise_deferred(self) -> None:
        """Raise the first deferred error."""
        for error in self._deferred.values():
            raise error


class Shadow(PsumShadow):
    """Times of the accesses to a tensor, the time at which it was made, and other contents of its undefined bytes."""

    __slots__ = ("_other", "allocated", "may_be_overwritten")

    def __init__(self, tensor: Tensor, allocated: int) -> None:
        ready = tensor.role == "input" or tensor.data is not None or initial(tensor) is not None
        super().__init__(tensor, whole=ready)
        self.allocated = allocated
        self._other: Bytes | None = None
        self.may_be_overwritten = tensor.address is not None and tensor.buffer in (Buffer.sbuf, Buffer.psum)
        """The user has placed it, so other tiles may share its bytes."""

    def other(self, access: Access) -> Bytes:
        """Other contents of the undefined bytes of ``access``, in its shape and one dimension more."""
        if self._other is None:
            self._other = np.full(self.tensor.nbytes, _OTHER_FILLING, np.uint8)
        return byte_window(self._other, access)

    def undefine(self, access: Access, undefined: Undefined) -> None:
        """Elements of ``access`` are undefined from now on."""
        chosen = undefined.elements
        if not chosen.any():
            return
        self.poison(access, undefined.origins)
        if undefined.other is not None:
            np.copyto(self.other(access), undefined.other, where=chosen[..., None])
