"""Sums in PSUM: who begins them, who adds to them, and who reads them when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki.base.warning import warn_at
from nki.ir.access_bounds import byte_window
from nki.ir.instruction import Inst
from nki.ir.types import Access, Buffer, Tensor
from nki.sim.hazards.messages import Log, Reader, box_of, early
from nki.sim.hazards.shadow import Key, Trace, key_of
from nki.target.model import Target


class Sum(Trace):
    """What was written to a tensor, and for PSUM what was read of it."""

    __slots__ = ("reads",)

    def __init__(self, tensor: Tensor, *, whole: bool) -> None:
        super().__init__(tensor, whole=whole)
        self.reads = Trace(tensor) if tensor.buffer is Buffer.psum else None


@dataclass(slots=True)
class _Read:
    """A sum of which ``places`` of ``access`` were read at time ``read``, and then added to by ``inst`` at ``time``."""

    inst: Inst
    access: Access
    shadow: Sum
    places: NDArray[np.bool_]
    began: int
    read: int
    time: int
    again: bool
    """It had been read and added to before: a running sum."""

    def used(self) -> bool:
        """Whether something has read it since."""
        assert self.shadow.reads is not None
        return bool((self.shadow.reads.at(self.access)[self.places] > self.time).any())


class Sums:
    """Watches the sums of a launch."""

    def __init__(self, log: Log, target: Target) -> None:
        self._log = log
        self._target = target
        self._said: set[tuple[Any, str]] = set()
        self._read: dict[tuple[Tensor, Key], _Read] = {}

    def adds(self, inst: Inst, access: Access, shadow: Sum, time: int, window: NDArray[Any]) -> None:
        """A matmul adds at ``time`` to ``access``, all of which was written and holds ``window``.

        Raises where another engine has written numbers there, on targets that do not add to those.
        """
        assert shadow.reads is not None
        whole = shadow.exact(access)
        written: list[int] = [whole] if whole else np.unique(shadow.at(access)).tolist()
        if not self._target.matmul_accumulates_foreign_psum:
            foreign = [t for t in written if not self._log.by_tensor_engine(t)]
            if foreign:
                self._foreign(inst, access, shadow, foreign[-1], window)
        if shadow.reads.last > written[0]:
            self._goes_on(inst, access, shadow, time)

    def _foreign(self, inst: Inst, access: Access, shadow: Sum, time: int, window: NDArray[Any]) -> None:
        """Adding to another engine's zeros comes to the same as overwriting them; other numbers are lost or not."""
        if np.any(window != 0):
            asked = shadow.bytes_of(access, np.ones(shadow.at(access).shape, np.bool_))
            raise Reader(inst, access, asked, self._log).foreign(time, self._target.name)
        by = self._log.said(time, inst.where.span)
        self._warn(
            inst,
            f"adds to dst {_where(access, shadow, shadow.at(access) == time)} where {by} wrote zeros; on "
            f"{self._target.name} that is undefined, only what matmuls wrote can be added to: leave the zeros out",
        )

    def _goes_on(self, inst: Inst, access: Access, shadow: Sum, time: int) -> None:
        """Note where a sum goes on that somebody has read already."""
        assert shadow.reads is not None
        written, read = shadow.at(access), shadow.reads.at(access)
        later = read > written
        if later.any():
            key = (access.tensor, key_of(access))
            began, last = int(written[later].max()), int(read[later].max())
            self._read[key] = _Read(inst, access, shadow, later, began, last, time, key in self._read)

    def restarts(self, inst: Inst, access: Access, shadow: Sum) -> None:
        """A matmul overwrites ``access``: warn where all of it is sums of matmuls that nobody has read."""
        assert shadow.reads is not None
        for (tensor, key), found in list(self._read.items()):
            if tensor is access.tensor and _meet(found, access):
                self._judge(self._read.pop((tensor, key)))
        time = shadow.exact(access)
        if not shadow.last or (time and not self._log.by_matmul(time)):
            return
        if time and shadow.reads.windows.get(key_of(access), 0) > time:
            return
        written = shadow.at(access)
        if (written <= 0).any() or (shadow.reads.at(access) > written).any():
            return
        times: list[int] = np.unique(written).tolist()
        if all(map(self._log.by_matmul, times)):
            by = self._log.said(times[-1], inst.where.span)
            self._warn(
                inst,
                f"overwrites dst {_where(access, shadow, written > 0)} which {by} wrote and nothing has read; to add "
                "to it pass accumulate=True",
            )

    def finish(self) -> None:
        """The kernel has ended. Raises where a sum was read too early, and warns of running sums."""
        for found in self._read.values():
            self._judge(found)

    def _judge(self, found: _Read) -> None:
        """Raise where nothing reads what a sum came to after it was read; warn of running sums."""
        if not found.again and not found.used():
            chosen = found.shadow.bytes_of(found.access, found.places)
            raise early(self._log, found.access.tensor, chosen, found.read, found.inst)
        near = found.inst.where.span
        began, reader = self._log.said(found.began, near), self._log.said(found.read, near)
        self._warn(
            found.inst,
            f"goes on with the sum in dst {_where(found.access, found.shadow, found.places)} that {began} wrote and "
            f"{reader} has read; for a new sum make another tile, or pass accumulate=False",
        )

    def _warn(self, inst: Inst, text: str) -> None:
        """Warn at the line of ``inst``, of each kind of thing once."""
        key = (inst.where.frames[:1], text[:8])
        if key not in self._said and inst.where.span is not None:
            self._said.add(key)
            warn_at(inst.where.span, f"{inst.mnemonic}: {text}")


def _where(access: Access, shadow: Sum, places: NDArray[np.bool_]) -> str:
    """The tensor, and which bytes of it the ``places`` of ``access`` are."""
    tensor = access.tensor
    return f"'{tensor.name}' {tensor.shape} {tensor.dtype}, {box_of(tensor, shadow.bytes_of(access, places))},"


def _meet(found: _Read, access: Access) -> bool:
    mask = found.shadow.bytes_of(found.access, found.places)
    return bool(byte_window(mask, access).any())
