"""Barriers among any number of cores: the arguments of an entry at which a core waits until its peers have come to
theirs.

Exchanges are copies through shared memory with barriers between them (:mod:`nki.transforms.legalize`), so the
barrier is the only synchronisation with code of its own. Every ordered pair of cores has a line of shared memory, in
which the first core counts for the second; ``thread_pool.h`` tells how.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Final

from nki.backend.cpu.native.frame import CONTROL_BYTES

LINE: Final = 64
"""Bytes of the line of an ordered pair."""
DEADLOCK: Final = -1
"""Second word of the status, instead of the number of an operand, when cores do not meet."""


def lines_bytes(cores: int) -> int:
    """Bytes of the lines of all ordered pairs of ``cores`` cores, and of the control words behind them."""
    return LINE * cores * cores + CONTROL_BYTES


def control(cores: int) -> int:
    """Byte offset of the control words of a launch from its lines."""
    return LINE * cores * cores


def line(rank: int, peer: int, cores: int) -> int:
    """Byte offset of the line in which core ``rank`` counts for ``peer``."""
    return LINE * (rank * cores + peer)


def arguments(lines: int, tag: str, trap: int, rank: int, peers: Iterable[int], cores: int) -> list[int]:
    """The arguments of a barrier of core ``rank``.

    ``lines`` is the slot of the lines; cores that meet pass one ``tag``; ``trap`` is the id of its trap.
    """
    peers = list(peers)
    args = [lines, zlib.crc32(tag.encode()), trap, len(peers)]
    for peer in peers:
        args += [line(rank, peer, cores), line(peer, rank, cores), peer]
    return args
