"""Which parts of PSUM have been written, which decides what ``accumulate=None`` means."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from nki.base.errors import NkiError, PsumError
from nki.base.warning import warn_at
from nki.ir.access_bounds import byte_window
from nki.ir.instruction import Inst
from nki.ir.loop import Loop
from nki.ir.types import Access, Buffer, Tensor
from nki.target.model import Target

Window = tuple[int, tuple[int, ...], tuple[int, ...], int]


class Written:
    """What a program has written to PSUM so far.

    ``warns``: of sums that the hardware does not add up, as far as that is known before the kernel runs.

    The body of a run-time loop is decided once for all its rounds. So a matmul in it may overwrite only what is made in
    that body, and may add only to what was written on every way that leads to it.
    """

    def __init__(self, target: Target, *, warns: bool = True) -> None:
        self._target = target
        self._warns = warns
        self._windows: dict[Tensor, dict[Window, Access]] = {}
        self._masks: dict[Tensor, NDArray[np.bool_]] = {}
        self._made: list[set[Tensor]] = []
        self._before: list[dict[Tensor, dict[Window, Access]]] = []
        self._unsure: set[Tensor] = set()
        self._loose: set[Tensor] = set()
        """Written at places that are known only when the program runs."""
        self._foreign: dict[Tensor, NDArray[np.bool_]] = {}
        """For tensors that other engines wrote to: the bytes of which what they wrote is left."""

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

    def resolve(self, inst: Inst) -> tuple[Inst, list[Access]]:
        """``inst`` with ``accumulate=None`` decided, and the places that must count as 0 before it runs.

        It overwrites where nothing was written yet, and adds to what was. Where only a part of its destination was
        written, as in a convolution whose windows overlap, it adds, and the other places are to be 0. Raises
        :class:`PsumError` when it is not known what was written.
        """
        accumulation = inst.effects.accumulation
        if accumulation is None:
            return inst, []
        (dst,) = inst.writes()
        if inst.accumulates and self._warns:
            self._check_sum(inst, dst)
        if inst.accumulates is not None:
            return inst, []
        if accumulation.moves(inst):
            return inst.with_accumulation(False), []
        if dst.dynamic is not None:
            return inst.with_accumulation(self._adds_anywhere(inst, dst)), []
        missing = self._missing(dst)
        if missing is not None:
            self._check_fixed(inst, dst)
            self._check_known(inst, dst)
            if missing.all():
                return inst.with_accumulation(False), []
        if self._warns:
            self._check_foreign(inst, dst)
        return inst.with_accumulation(True), [] if missing is None else list(_boxes(dst, missing))

    def _adds_anywhere(self, inst: Inst, dst: Access) -> bool:
        """Whether a matmul to a place that run-time indices choose finds all of the tile written; False if none."""
        missing = self._missing(Access.whole(dst.tensor))
        if missing is None:
            return True
        self._check_fixed(inst, dst)
        if not missing.all():
            raise self._unknown(inst, dst, "is written in part, and its place in it is known only when the kernel runs")
        self._check_known(inst, dst)
        return False

    def _check_sum(self, inst: Inst, dst: Access) -> None:
        """Warn when ``accumulate=True`` adds to what does not add up on the hardware."""
        known = dst.dynamic is None and not self._made and dst.tensor not in self._loose
        missing = self._missing(dst) if known else None
        if missing is not None:
            _warn(
                inst,
                f"{inst.mnemonic}: accumulate=True adds to dst '{dst.name}' {dst.shape}, of which {missing.mean():.0%} "
                "was never written: what is there is undefined",
            )
        self._check_foreign(inst, dst)

    def _check_foreign(self, inst: Inst, dst: Access) -> None:
        if self._target.matmul_accumulates_foreign_psum or dst.tensor not in self._foreign or dst.dynamic is not None:
            return
        if byte_window(self._foreign[dst.tensor], dst).any():
            _warn(
                inst,
                f"{inst.mnemonic}: adds to dst '{dst.name}' {dst.shape}, which another engine wrote; on "
                f"{self._target.name} that is undefined, only what matmuls wrote can be added to",
            )

    def _check_known(self, inst: Inst, dst: Access) -> None:
        if self._made and dst.tensor not in self._made[-1]:
            why = "was made outside this run-time loop: the first round would overwrite it, the others add to it"
        elif dst.tensor in self._unsure:
            why = "was written in a run-time loop that may not have run"
        else:
            return
        raise self._unknown(inst, dst, why, ", make the tile inside the loop, or write it before the loop")

    def _check_fixed(self, inst: Inst, dst: Access) -> None:
        if dst.tensor in self._loose:
            raise self._unknown(inst, dst, "was written at places that are known only when the kernel runs")

    def _unknown(self, inst: Inst, dst: Access, why: str, more: str = "") -> NkiError:
        error = PsumError(
            f"{inst.mnemonic}: dst '{dst.name}' {dst.shape} {why}; the compiler cannot choose between overwriting and "
            "accumulating",
            fix=f"pass accumulate=True or False{more}",
        )
        return error.at(inst.where.span, inst.where.stack)

    def note(self, inst: Inst) -> None:
        """Remember what ``inst`` writes to PSUM."""
        own = inst.on_tensor_engine
        for access in inst.writes():
            if access.buffer is Buffer.psum and access.dynamic is not None:
                self._loose.add(access.tensor)
            if access.buffer is Buffer.psum and access.dynamic is None:
                windows = self._windows.setdefault(access.tensor, {})
                key = _window(access)
                if key not in windows:
                    windows[key] = access
                    if access.tensor in self._masks:
                        byte_window(self._masks[access.tensor], access)[...] = True
                if not own and access.tensor not in self._foreign:
                    self._foreign[access.tensor] = np.zeros(access.tensor.nbytes, np.bool_)
                if access.tensor in self._foreign and not (own and inst.accumulates):
                    byte_window(self._foreign[access.tensor], access)[...] = not own

    def _missing(self, access: Access) -> NDArray[np.bool_] | None:
        """The elements of ``access``, in its shape, that were not written; None where all of them were."""
        windows = self._windows.get(access.tensor)
        if not windows:
            return np.ones(access.shape, np.bool_)
        if _window(access) in windows:
            return None
        if access.tensor not in self._masks:
            mask = np.zeros(access.tensor.nbytes, np.bool_)
            for written in windows.values():
                byte_window(mask, written)[...] = True
            self._masks[access.tensor] = mask
        missing = np.logical_not(byte_window(self._masks[access.tensor], access)).any(axis=-1)
        return np.asarray(missing) if missing.any() else None


def _window(access: Access) -> Window:
    return access.offset, access.shape, access.strides, access.dtype.itemsize


def _boxes(access: Access, chosen: NDArray[np.bool_]) -> Iterator[Access]:
    """Windows that together are the ``chosen`` elements of ``access``."""
    for box in _runs(chosen):
        offset = access.offset + sum(start * step for (start, _), step in zip(box, access.strides, strict=True))
        yield Access(access.tensor, offset, tuple(n for _, n in box), access.strides, access.dtype)


def _runs(chosen: NDArray[np.bool_]) -> Iterator[tuple[tuple[int, int], ...]]:
    """Start and size in each dimension of boxes that together are the chosen places."""
    if not chosen.ndim:
        if chosen:
            yield ()
        return
    start = 0
    for end in range(1, len(chosen) + 1):
        if end == len(chosen) or not np.array_equal(chosen[end], chosen[start]):
            for rest in _runs(chosen[start]):
                yield ((start, end - start), *rest)
            start = end


def _warn(inst: Inst, message: str) -> None:
    if inst.where.span is not None:
        warn_at(inst.where.span, message)
