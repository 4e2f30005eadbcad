"""A pause of the garbage collector: what it makes counts as old, and is still collected."""

from __future__ import annotations

import gc
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
    gc.collect()  # a full collection, so that none of the limit is used
    yield
    gc.unfreeze()
    gc.collect()


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
