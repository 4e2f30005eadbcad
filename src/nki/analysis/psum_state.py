"""PSUM state: the bytes that matmuls and other engines have written; resolves ``accumulate=None``.

This is the static check of a PSUM accumulation: stage ``accumulate`` (:mod:`nki.passes.accumulate`) asks it for every
matmul, before the kernel runs. The dynamic check, which sees run-time indices and counts, is
:mod:`nki.sim.hazards.psum_groups`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from nki.analysis.byte_sets import ByteSet
from nki.analysis.written_bytes import WrittenBytes
from nki.base import knobs
from nki.base.errors import NkiError, PsumError
from nki.base.warning import warn_at
from nki.ir.instruction import Inst
from nki.ir.loop import Loop
from nki.ir.types import Access, Buffer, Tensor
from nki.target.model import Target


class PsumState:
    """Bytes of PSUM that a program has written so far, in program order.

    ``warns``: warn of sums that the hardware does not add up, where that is known before the kernel runs.

    The body of a run-time loop is resolved once for all its iterations. So a matmul in the body may overwrite only a
    tensor that the body makes, and may add only to bytes that are written on every path to the matmul.
    """

    def __init__(self, target: Target, *, warns: bool = True) -> None:
        self._target = target
        self._warns = warns
        self._written = WrittenBytes()
        self._loop_local: list[set[Tensor]] = []
        """For each open loop, the tensors that its body has made."""
        self._in_skippable_loop: set[Tensor] = set()
        """Written in a loop that may run no iteration."""
        self._dynamically_written: set[Tensor] = set()
        """Written at run-time indices."""
        self._foreign: dict[Tensor, ByteSet] = {}
        """The bytes of a tensor that another engine than the Tensor engine wrote last."""
        self._filled: set[Tensor] = set()
        """Tensors with every byte written by matmuls, and none by anything else."""

    def declare(self, tensor: Tensor) -> None:
        """The program makes ``tensor`` at this point."""
        if self._loop_local:
            self._loop_local[-1].add(tensor)

    def enter_loop(self) -> None:
        """The body of a loop begins."""
        self._loop_local.append(set())
        self._written.enter_loop()

    def leave_loop(self, loop: Loop) -> None:
        """The body of ``loop`` ends. Its writes are dropped unless the loop is known to run at least once."""
        self._loop_local.pop()
        self._in_skippable_loop.update(self._written.leave_loop(runs=loop.runs()))

    def certainly_adds(self, inst: Inst) -> bool:
        """True if ``accumulate=None`` means True, and :meth:`record` has nothing to record: as for most of a sum."""
        accumulation = inst.effects.accumulation
        if accumulation is None or self._written.is_in_loop or inst.__dict__[accumulation.flag] is not None:
            return False
        (dst,) = inst.writes()
        return dst.tensor in self._filled and dst.dynamic is None and not accumulation.moves(inst)

    def resolve(self, inst: Inst) -> tuple[Inst, list[Access]]:
        """``inst`` with ``accumulate=None`` resolved, and the accesses to fill with 0 before the instruction.

        The instruction overwrites a destination without a written byte, and adds to one with every byte written. To a
        destination that is written in part, as in a convolution with windows that overlap, the instruction adds, and
        the other bytes are to be 0. Raises :class:`PsumError` where the written bytes are not known.
        """
        accumulation = inst.effects.accumulation
        if accumulation is None:
            return inst, []
        (dst,) = inst.writes()
        if inst.accumulates and self._warns:
            self._warn_undefined(inst, dst)
        if inst.accumulates is not None:
            return inst, []
        if accumulation.moves(inst):
            return inst.with_accumulation(False), []
        if dst.dynamic is not None:
            return inst.with_accumulation(self._accumulates_at_dynamic_index(inst, dst)), []
        missing = self._written.missing(dst)
        if missing is not None:
            self._check_static_writes(inst, dst)
            self._check_paths(inst, dst)
            if missing.all():
                return inst.with_accumulation(False), []
        if self._warns:
            self._warn_foreign(inst, dst)
        return inst.with_accumulation(True), [] if missing is None else list(_boxes(dst, missing))

    def _accumulates_at_dynamic_index(self, inst: Inst, dst: Access) -> bool:
        """``accumulate`` of a matmul to a run-time index: True if all of the tile is written, False if nothing is."""
        missing = self._written.missing(Access.whole(dst.tensor))
        if missing is None:
            return True
        self._check_static_writes(inst, dst)
        if not missing.all():
            raise _unknown(inst, dst, "is written in part, and its place in it is known only when the kernel runs")
        self._check_paths(inst, dst)
        return False

    def _warn_undefined(self, inst: Inst, dst: Access) -> None:
        """Warn when ``accumulate=True`` adds to bytes that are undefined on the hardware.

        Bytes that nothing has written are an error of stage ``hazards``, and are warned of only where that is off.
        """
        static = dst.dynamic is None and not self._loop_local and dst.tensor not in self._dynamically_written
        missing = self._written.missing(dst) if static and not knobs.hazards() else None
        if missing is not None:
            _warn(
                inst,
                f"{inst.mnemonic}: accumulate=True adds to dst '{dst.name}' {dst.shape}, of which {missing.mean():.0%} "
                "was never written: what is there is undefined",
            )
        self._warn_foreign(inst, dst)

    def _warn_foreign(self, inst: Inst, dst: Access) -> None:
        """Warn when a matmul adds to what another engine wrote, where the target does not define that."""
        if self._target.matmul_accumulates_foreign_psum or dst.tensor not in self._foreign or dst.dynamic is not None:
            return
        if self._foreign[dst.tensor].intersects(dst):
            _warn(
                inst,
                f"{inst.mnemonic}: adds to dst '{dst.name}' {dst.shape}, which another engine wrote; on "
                f"{self._target.name} that is undefined, only what matmuls wrote can be added to; zeros need not be "
                "written, as the first matmul of a sum overwrites where accumulate is None or False",
            )

    def _check_paths(self, inst: Inst, dst: Access) -> None:
        """Raise if ``dst`` is written on some paths to ``inst`` only."""
        if self._loop_local and dst.tensor not in self._loop_local[-1]:
            why = "was made outside this run-time loop: the first round would overwrite it, the others add to it"
        elif dst.tensor in self._in_skippable_loop:
            why = "was written in a run-time loop that may not have run"
        else:
            return
        raise _unknown(inst, dst, why, ", make the tile inside the loop, or write it before the loop")

    def _check_static_writes(self, inst: Inst, dst: Access) -> None:
        """Raise if the tensor of ``dst`` has been written at run-time indices."""
        if dst.tensor in self._dynamically_written:
            raise _unknown(inst, dst, "was written at places that are known only when the kernel runs")

    def record(self, inst: Inst) -> None:
        """Record the writes of ``inst`` to PSUM."""
        is_matmul = inst.on_tensor_engine
        for access in inst.writes():
            if access.buffer is not Buffer.psum:
                continue
            tensor = access.tensor
            if access.dynamic is not None:
                self._dynamically_written.add(tensor)
                continue
            written = self._written.add(access)
            if is_matmul and tensor not in self._foreign:
                if written.is_known_full and not self._written.is_in_loop:  # a loop may drop its writes
                    self._filled.add(tensor)
            elif not is_matmul:
                self._filled.discard(tensor)
                if tensor not in self._foreign:
                    self._foreign[tensor] = ByteSet(tensor)
                self._foreign[tensor].add(access)
            elif not inst.accumulates:
                self._foreign[tensor].subtract(access)


def _unknown(inst: Inst, dst: Access, why: str, remedy: str = "") -> NkiError:
    error = PsumError(
        f"{inst.mnemonic}: dst '{dst.name}' {dst.shape} {why}; the compiler cannot choose between overwriting and "
        "accumulating",
        fix=f"pass accumulate=True or False{remedy}",
    )
    return error.at(inst.where.span, inst.where.stack)


def _boxes(access: Access, elements: NDArray[np.bool_]) -> Iterator[Access]:
    """Accesses that together are those ``elements`` of ``access``."""
    for box in _runs(elements):
        offset = access.offset + sum(start * step for (start, _), step in zip(box, access.strides, strict=True))
        yield Access(access.tensor, offset, tuple(n for _, n in box), access.strides, access.dtype)


def _runs(elements: NDArray[np.bool_]) -> Iterator[tuple[tuple[int, int], ...]]:
    """Start and size in each dimension of boxes that together are the true ``elements``."""
    if not elements.ndim:
        if elements:
            yield ()
        return
    changes = (elements[1:] != elements[:-1]).reshape(len(elements) - 1, -1).any(axis=1)
    cuts = [0, *(np.flatnonzero(changes) + 1).tolist(), len(elements)]
    for start, end in pairwise(cuts):
        for rest in _runs(elements[start]):
            yield ((start, end - start), *rest)


def _warn(inst: Inst, message: str) -> None:
    if inst.where.span is not None:
        warn_at(inst.where.span, message)
