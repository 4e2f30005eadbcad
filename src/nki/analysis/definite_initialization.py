"""Which tensors a program reads, or returns, in places that it has not written before."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import numpy as np

from nki.ir.access_bounds import byte_window
from nki.ir.instruction import Inst
from nki.ir.loop import For, Loop, Statement
from nki.ir.program import Program
from nki.ir.types import Access, Tensor


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

    def copy(self) -> _Written:
        made = copy(self)
        made.mask = None if self.mask is None else self.mask.copy()
        return made


class _Search:
    """Goes through a program in order; ``found`` are the tensors that it reads where it may not have written.

    ``wanted``: only of these it is asked; None: of all but the ``ignored`` ones.
    """

    def __init__(self, ignored: set[Tensor], wanted: set[Tensor] | None = None) -> None:
        self.ignored = ignored
        self.wanted = wanted
        self.found: set[Tensor] = set()
        self.written: dict[Tensor, _Written] = {}

    def body(self, statements: Sequence[Statement]) -> None:
        for statement in statements:
            for access in statement.reads():
                self.read(access)
            if isinstance(statement, Inst):
                for access in () if statement.may_leave_unwritten() else statement.writes():
                    self.write(access)
            else:
                self.loop(statement)

    def loop(self, loop: Loop) -> None:
        """What the body writes counts afterwards only if it is known to have run."""
        before = self.written
        self.written = {tensor: state.copy() for tensor, state in before.items()}
        if isinstance(loop, For):
            self.write(loop.register)
        self.body(loop.body)
        if not loop.runs():
            self.written = before

    def read(self, access: Access) -> None:
        tensor = access.tensor
        if self.is_known(tensor):
            return
        state = self.written.get(tensor)
        if state is None or not (state.covers(access) if access.dynamic is None else state.complete()):
            self.found.add(tensor)

    def write(self, access: Access) -> None:
        """A window that a run-time index moves may be anywhere, and so covers nothing for certain."""
        tensor = access.tensor
        if access.dynamic is not None or self.is_known(tensor):
            return
        if tensor not in self.written:
            self.written[tensor] = _Written(tensor)
        self.written[tensor].write(access)

    def is_known(self, tensor: Tensor) -> bool:
        """Whether there is nothing to find out about ``tensor``."""
        return tensor in self.ignored or tensor in self.found or (self.wanted is not None and tensor not in self.wanted)

    def complete(self, tensor: Tensor) -> bool:
        return tensor in self.ignored or (tensor in self.written and self.written[tensor].complete())


def exposed(loop: Loop) -> set[Tensor]:
    """The tensors made in the body of ``loop`` of which a round may read what an earlier one has left."""
    search = _Search(set(), {*loop.tensors})
    search.body(loop.body)
    return search.found


def unwritten(kernel: Program) -> set[Tensor]:
    """The tensors of ``kernel``, inputs and constants aside, that it reads or returns where it may not have written.

    Native code fills those with the dtype's poison before their first use, so that a launch gives the same bits every
    time and the same as the eager executor, whose memory is poisoned from the start.
    """
    search = _Search({*kernel.inputs, *kernel.constants()})
    search.body(kernel.body)
    return search.found | {tensor for tensor in kernel.outputs if not search.complete(tensor)}
