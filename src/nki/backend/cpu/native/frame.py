"""Frame: the pointer array that the routines of one thread get, and the memory of that thread in one launch.

A block of memory holds the frame itself, the status, the arena and the scratch memory, in this order; so nothing that
belongs to a launch is global. The first slots are the same in every frame, and ``frame.h`` has names for them;
the slots of inputs, outputs, constants and of memory that cores share follow, then those of the floats that the launch
passes.

If a thread pool helps (:mod:`nki.backend.cpu.native.thread_pool`), the frames of its workers stand behind the scratch
memory, each with status and scratch memory of its own; their other slots are the launch's.

If a launch has several cores, lines of memory that they share let them meet. Exchanges are copies through shared memory
with barriers between them (:mod:`nki.transforms.lower_sendrecv`), so the barrier is the only synchronisation with code
of its own. Every ordered pair of cores has a line, in which the first core counts for the second; ``thread_pool.h``
tells how.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Final

import numpy as np

ALIGN: Final = 64
"""Bytes of a cache line: frame, status, arena and scratch memory, and every block of the arena, begin at multiples."""

ARENA, SCRATCH, STATUS, TABLE, ARGS, RANK, CONTROL, POOL, THREADS, WORKER_FRAMES, WORKER_STEP = range(11)
"""The slots of every frame, as ``frame.h`` explains them."""
FIRST_IO: Final = 11

WORD: Final = 8
GATE: Final = 0
"""The first control word: 0 until the leader of several cores has entered native code, or :data:`SHUT`."""
SHUT: Final = 2
"""The gate of a launch that has failed before it began."""
CONTROL_BYTES: Final = 8 * WORD
STATUS_BYTES: Final = 8 * WORD + CONTROL_BYTES
ANYWHERE: Final = -(1 << 62)
"""Stands for the number of a loop in the status of a launch that was interrupted outside of all loops."""
LINE: Final = 64
"""Bytes of the line of an ordered pair of cores."""
DEADLOCK: Final = -1
"""Second word of the status, instead of the number of an operand, when cores do not meet."""
_MOST_KEPT: Final = 4
"""Frames from which on a pool keeps no others."""


def aligned(nbytes: int) -> int:
    """``nbytes`` rounded up to whole cache lines."""
    return -(-nbytes // ALIGN) * ALIGN


class Frame:
    """A block of at least ``nbytes`` for one thread; ``address`` is its first whole cache line.

    Routines get ``address``. The contents are undefined until :meth:`FrameLayout.write`.
    """

    __slots__ = ("address", "layout", "memory", "nbytes")

    def __init__(self, nbytes: int) -> None:
        block = np.empty(nbytes + ALIGN - 1, np.uint8)
        start = -block.ctypes.data % ALIGN
        self.memory = block.data[start : start + nbytes]
        self.address = block.ctypes.data + start
        self.nbytes = nbytes
        self.layout: FrameLayout | None = None
        """The layout that gives its fixed slots, as for a launch on one thread."""


class FramePool:
    """The frames of the launches of a process. A launch acquires one for each core, and releases them if it succeeds.

    They are kept for the next launches, because fresh pages are slow to touch and used ones are in the cache.
    """

    def __init__(self) -> None:
        self._kept: list[Frame] = []

    def acquire(self, nbytes: int) -> Frame:
        """A frame with at least ``nbytes``; its contents are undefined."""
        try:
            frame = self._kept.pop()
        except IndexError:
            return Frame(nbytes)
        return frame if frame.nbytes >= nbytes else Frame(nbytes)

    def release(self, *frames: Frame) -> None:
        """Keep ``frames`` for later launches."""
        if len(self._kept) < _MOST_KEPT:
            self._kept += frames


class FrameLayout:
    """Byte offsets in the frames of one core. Its routines get ``pointers`` pointers behind the fixed slots, then
    ``floats`` doubles.

    ``table`` and ``args`` are the addresses of the core's dispatch table and of its arguments.
    """

    def __init__(self, table: int, args: int, pointers: int, arena: int, scratch: int, floats: int = 0) -> None:
        words = WORD * (FIRST_IO + pointers + floats)
        self.table = table
        self.args = args
        self.status = words
        self.arena = aligned(words + STATUS_BYTES)
        self.scratch = self.arena + aligned(arena)
        self.nbytes = self.scratch + aligned(scratch)
        self.worker = self.arena + aligned(scratch)
        """Bytes of the frame of a worker, which has no arena."""
        self._pack = Struct(f"={FIRST_IO + pointers}q{floats}d{STATUS_BYTES}x").pack_into
        self._pack_pointers = Struct(f"={pointers}q{floats}d{STATUS_BYTES}x").pack_into

    def write(
        self, frame: Frame, pointers: Sequence[float], rank: int = 0, control: int = 0, pool: int = 0, threads: int = 1
    ) -> None:
        """Write all slots of ``frame`` for core ``rank``, and clear its status.

        ``pointers``: the addresses, then the floats. ``control`` is the address of words that the launch's cores share;
        without, the frame has its own. ``pool`` is the address of the thread pool that may help; the frame then has
        ``worker`` bytes more for each of the ``threads`` beside the first.
        """
        if frame.layout is self and not control and not pool:
            self._pack_pointers(frame.memory, WORD * FIRST_IO, *pointers)
            return
        is_alone = not control and not pool
        start, table, args = frame.address, self.table, self.args
        arena, scratch, status = start + self.arena, start + self.scratch, start + self.status
        control = control or status + STATUS_BYTES - CONTROL_BYTES
        workers = start + self.nbytes
        slots = (arena, scratch, status, table, args, rank, control, pool, threads, workers, self.worker)
        self._pack(frame.memory, 0, *slots, *pointers)
        frame.layout = self if is_alone else None


def lines_bytes(cores: int) -> int:
    """Bytes of the lines of all ordered pairs of ``cores`` cores, and of the control words behind them."""
    return control_offset(cores) + CONTROL_BYTES


def control_offset(cores: int) -> int:
    """Byte offset of the control words of a launch from its lines."""
    return LINE * cores * cores


def _line(rank: int, peer: int, cores: int) -> int:
    """Byte offset of the line in which core ``rank`` counts for ``peer``."""
    return LINE * (rank * cores + peer)


def barrier_arguments(lines: int, tag: str, trap: int, rank: int, peers: Iterable[int], cores: int) -> list[int]:
    """The arguments of a barrier of core ``rank``.

    ``lines`` is the slot of the lines; cores that meet pass one ``tag``; ``trap`` is the id of its trap.
    """
    peers = list(peers)
    args = [lines, zlib.crc32(tag.encode()), trap, len(peers)]
    for peer in peers:
        args += [_line(rank, peer, cores), _line(peer, rank, cores), peer]
    return args
