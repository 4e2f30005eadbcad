"""A pause of the garbage collector: what it makes counts as old, and is still collected."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator

import pytest

from nki.base import gc_pause


class Node:
    """An object that a reference to itself keeps."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def no_old_objects() -> Iterator[None]:
    gc.unfreeze()  # what tests/conftest.py has frozen
    gc.collect()  # a full collection, so that none of the limit is used
    yield
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def made(count: int) -> list[Node]:
    with gc_pause.paused():
        return [Node() for _ in range(count)]


def test_what_a_pause_makes_is_old() -> None:
    nodes = made(20_000)
    young = {*map(id, gc.get_objects(0)), *map(id, gc.get_objects(1))}
    assert young.isdisjoint(map(id, nodes))
    assert gc.get_freeze_count() == 0


def test_garbage_of_a_pause_is_collected() -> None:
    last = weakref.ref(made(20_000)[-1])
    assert last() is not None
    gc.collect()
    assert last() is None


def test_few_objects_stay_young() -> None:
    nodes = made(100)
    assert any(each is nodes[0] for each in gc.get_objects(0))


def test_what_a_program_has_frozen_stays_frozen() -> None:
    gc.freeze()
    frozen = gc.get_freeze_count()
    made(20_000)
    assert 0 < gc.get_freeze_count() <= frozen


def test_there_is_a_limit_between_full_collections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc_pause, "_MANY", 25_000)
    first = made(20_000)
    second = made(20_000)  # which are more than the limit allows
    old = {*map(id, gc.get_objects(2))}
    assert old.issuperset(map(id, first))
    assert old.isdisjoint(map(id, second))


def test_a_pause_holds_although_one_of_another_thread_ends() -> None:
    begun, end = threading.Event(), threading.Event()

    def other() -> None:
        with gc_pause.paused():
            begun.set()
            end.wait()

    thread = threading.Thread(target=other)
    thread.start()
    begun.wait()
    with gc_pause.paused():
        end.set()
        thread.join()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_long_pause_of_other_threads_does_not_keep_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    with gc_pause.paused():
        garbage = weakref.ref(Node())
        monkeypatch.setattr(gc_pause, "_LONGEST", 0.0)
        with gc_pause.paused():
            pass
        assert garbage() is not None, "in the same thread it would only take time"
        thread = threading.Thread(target=made, args=(1,))
        thread.start()
        thread.join()
        assert garbage() is None
        assert not gc.isenabled()


def test_a_collector_that_the_program_switched_off_stays_off() -> None:
    gc.disable()
    try:
        made(1)
        assert not gc.isenabled()
    finally:
        gc.enable()
