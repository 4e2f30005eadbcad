"""Which parts of PSUM have been written, which decides what ``accumulate=None`` means."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki.base.errors import PsumError
from nki.ir.inst import Inst
from nki.ir.loop import Loop
from nki.ir.types import Access, Buffer, Tensor
from nki.ir.window import byte_window

Window = tuple[int, tuple[int, ...], tuple[int, ...], int]


class Written:
    """What a program has written to PSUM so far.

    The body of a run-time loop is decided once for all its rounds. So a matmul in it may overwrite only what is made in
    that body, and may add only to what was written on every way that leads to it.
    """

    def __init__(self) -> None:
        self._windows: dict[Tensor, dict[Window, Access]] = {}
        self._masks: dict[Tensor, NDArray[np.bool_]] = {}
        self._made: list[set[Tensor]] = []
        self._before: list[dict[Tensor, dict[Window, Access]]] = []
        self._unsure: set[Tensor] = set()

    def made(self, tensor: Tensor) -> None:
        """``tensor`` was made where the program is now."""
        if self._made:
            self._made[-1].add(tensor)

    def enter(self) -> None:
        """The body of a loop begins."""
        self._made.append(set())
        self._before.append({tensor: dict(windows) for tensor, windows in self._windows.items()})

    def leave(self, loop: Loop) -> None:
        """The body of ``loop`` is done. Unless it is known to have run, what it wrote may not have been written."""
        self._made.pop()
        before = self._before.pop()
        if not loop.runs():
            for tensor, windows in self._windows.items():
                if len(windows) > len(before.get(tensor, ())):
                    self._unsure.add(tensor)
            self._windows = before
            self._masks = {}

    def resolve(self, inst: Inst) -> Inst:
        """``inst`` with ``accumulate=None`` decided: False where nothing was written yet, True where all of it was.

        Raises :class:`PsumError` when that is not known, or only a part of the destination was written.
        """
        if getattr(inst, "accumulate", False) is not None:
            return inst
        chosen: Any = inst
        if getattr(inst, "is_transpose", False):
            return inst.replace(accumulate=False)
        share = self._share(chosen.dst)
        if share < 1.0:
            self._check_known(inst, chosen.dst)
        if 0.0 < share < 1.0:
            raise PsumError(
                f"{inst.mnemonic}: {share:.0%} of dst '{chosen.dst.name}' {chosen.dst.shape} was written before; the "
                "compiler cannot choose between overwriting and accumulating",
                fix="pass accumulate=True or False, or write the same window each time",
            ).at(inst.where.span, inst.where.stack)
        return inst.replace(accumulate=share == 1.0)

    def _check_known(self, inst: Inst, dst: Access) -> None:
        if self._made and dst.tensor not in self._made[-1]:
            why = "was made outside this run-time loop: the first round would overwrite it, the others add to it"
        elif dst.tensor in self._unsure:
            why = "was written in a run-time loop that may not have run"
        else:
            return
        raise PsumError(
            f"{inst.mnemonic}: dst '{dst.name}' {dst.shape} {why}; the compiler cannot choose between overwriting and "
            "accumulating",
            fix="pass accumulate=True or False, clear the tile first with nisa.memset, or make it inside the loop",
        ).at(inst.where.span, inst.where.stack)

    def note(self, inst: Inst) -> None:
        """Remember what ``inst`` writes to PSUM."""
        for access in inst.writes():
            if access.buffer is Buffer.psum and access.dynamic is None:
                windows = self._windows.setdefault(access.tensor, {})
                key = _window(access)
                if key not in windows:
                    windows[key] = access
                    if access.tensor in self._masks:
                        byte_window(self._masks[access.tensor], access)[...] = True

    def _share(self, access: Access) -> float:
        windows = self._windows.get(access.tensor)
        if not windows:
            return 0.0
        if _window(access) in windows:
            return 1.0
        if access.tensor not in self._masks:
            mask = np.zeros(access.tensor.nbytes, np.bool_)
            for written in windows.values():
                byte_window(mask, written)[...] = True
            self._masks[access.tensor] = mask
        return float(byte_window(self._masks[access.tensor], access).mean())


def _window(access: Access) -> Window:
    return access.offset, access.shape, access.strides, access.dtype.itemsize
