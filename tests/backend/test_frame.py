"""Frames: each core of a launch has its own, and nothing of a launch is in two of them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from nki.backend.cpu.native.frame import (
    ALIGN,
    ARENA,
    ARGS,
    FIRST_IO,
    RANK,
    SCRATCH,
    STATUS,
    TABLE,
    Frame,
    FrameLayout,
    FramePool,
)

LAYOUT = FrameLayout(table=11, args=12, pointers=3, arena=100, scratch=40)


def written(pool: FramePool, pointers: tuple[int, ...], rank: int = 0, layout: FrameLayout = LAYOUT) -> Frame:
    frame = pool.acquire(layout.nbytes)
    layout.write(frame, pointers, rank, control=0)
    return frame


def test_a_frame_holds_its_slots_then_status_arena_and_scratch() -> None:
    frame = written(FramePool(), (21, 22, 23), 5)
    words = np.frombuffer(frame.memory, np.int64, FIRST_IO + 3)
    assert [words[slot] for slot in (TABLE, ARGS, RANK)] == [11, 12, 5]
    assert list(words[FIRST_IO:]) == [21, 22, 23]
    end = frame.address + 8 * len(words)
    assert end <= words[STATUS] <= words[ARENA] - 32
    assert words[ARENA] + 100 <= words[SCRATCH] <= frame.address + LAYOUT.nbytes - 40
    assert all(words[slot] % ALIGN == 0 for slot in (ARENA, SCRATCH))


def test_cores_get_frames_of_their_own_and_released_ones_again() -> None:
    pool = FramePool()
    frames = [written(pool, (0, 0, 0)) for _ in range(3)]
    starts = sorted(frame.address for frame in frames)
    assert all(a + LAYOUT.nbytes <= b for a, b in pairwise(starts))
    frames[0].memory[LAYOUT.status] = 1
    pool.release(*frames)
    again = [written(pool, (0, 0, 0)) for _ in range(3)]
    assert {frame.address for frame in again} == {*starts}
    assert all(bytes(frame.memory[LAYOUT.status : LAYOUT.status + 32]) == bytes(32) for frame in again)


def test_a_released_frame_that_is_too_small_is_replaced() -> None:
    pool = FramePool()
    pool.release(pool.acquire(64))
    assert written(pool, (0, 0, 0)).nbytes >= LAYOUT.nbytes


def test_a_frame_that_keeps_its_fixed_slots_is_as_if_written_anew() -> None:
    other = FrameLayout(table=31, args=32, pointers=3, arena=200, scratch=0)
    used, head = FramePool(), 8 * (FIRST_IO + 3)

    def slots(frame: Frame) -> tuple[list[int], bytes]:
        words = np.frombuffer(frame.memory, np.int64, FIRST_IO + 3) - 0
        words[words >= frame.address] -= frame.address
        return words.tolist(), bytes(frame.memory[head : head + 32])

    for layout, helpers in [(LAYOUT, 0), (LAYOUT, 0), (other, 0), (other, 0), (LAYOUT, 0), (LAYOUT, 8), (LAYOUT, 0)]:
        if helpers:
            frame = used.acquire(layout.nbytes + layout.worker)
            layout.write(frame, (7, 8, 9), pool=helpers, threads=2)
            used.release(frame)
        frame = written(used, (21, 22, 23), layout=layout)
        assert slots(frame) == slots(written(FramePool(), (21, 22, 23), layout=layout))
        frame.memory[layout.status] = 1
        used.release(frame)
