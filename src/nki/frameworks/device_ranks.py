"""Ranks that are devices of one run of XLA: each launch of a call meets the ones of the other devices.

XLA numbers its runs. A call is at one place of the program, and the n-th time that a device comes there in a run is the
n-th time of the others.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final

from nki.rendezvous import ranks
from nki.rendezvous.threaded import Threaded

_PATIENCE: Final = 300.0
"""Seconds; XLA itself waits 40 in its own collectives, where all devices run the same code."""
Site = tuple[int, int]
"""A run and a place in its program."""


class _Place:
    """The launches of a call in one run. ``came``: by rank, how often it has; ``left``: by launch, how many have."""

    def __init__(self) -> None:
        self.came: defaultdict[int, int] = defaultdict(int)
        self.left: defaultdict[int, int] = defaultdict(int)
        self.launches: dict[int, Threaded[Any]] = {}


_places: Final[dict[Site, _Place]] = {}
_lock: Final = threading.Lock()


def run(site: Site, rank: int, count: int, launch: Callable[[], object]) -> None:
    """Call ``launch`` as ``rank`` of the ``count`` that come to ``site``. Raises its error, or the one of another rank;
    :class:`LostRankError` where one does not come.
    """
    patience = ranks.patience(_PATIENCE)
    with _lock:
        place = _places.setdefault(site, _Place())
        number = place.came[rank]
        place.came[rank] += 1
        meeting = place.launches.setdefault(number, Threaded(count, patience=patience))
    try:
        meeting.join(rank, lambda participant: _launch(participant, launch))
    finally:
        with _lock:
            place.left[number] += 1
            if place.left[number] == count:
                del place.launches[number], place.left[number]
            if not place.launches:
                _places.pop(site, None)


def _launch(participant: Any, launch: Callable[[], object]) -> None:
    with ranks.running_as(participant):
        launch()
