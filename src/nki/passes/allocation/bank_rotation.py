"""Banks of PSUM, in turn for the tiles of each place in the source.

Engines wait for a bank until the tile before has left it. If all tiles took the banks in one turn, the first products
of an iteration would wait for the last copies of the one before, though other banks are free by then. So the tiles that
one place in the source makes (a *site*) take turns in banks of their own: as many as are live at once, and a part of
those that no site needs. A site that has not got its banks yet, or finds them in use, takes the free bank that was
freed first. Tiles that follow each other at once (a *stream*, such as transposes that are copied to SBUF one by one)
need several banks more than others: in a single one, each waits until the one before has left it.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from nki.analysis.liveness import LiveRange

_MOST_SITES: Final = 512
"""More of them share all banks: their number counts squared."""
_PIPELINE: Final = 4
"""A site that has so many banks more than it has tiles at once leaves further ones to others: a tile is through, from
the engine that writes to the one that reads, after no more than four others.
"""
_BORROWED: Final = 3
"""Banks of a stream where others need all of them at another time: one is written, one is read, and one is on the way
between two engines.
"""


@dataclass(slots=True, eq=False)
class _Site:
    """The tiles of one place in the source: their number, the number of times that they follow a tile of another place,
    the span of their live ranges, most of them at once, and its banks.
    """

    first: int
    last: int
    tiles: int = 0
    runs: int = 0
    peak: int = 0
    quota: int = 0
    live: int = 0

    @property
    def is_stream(self) -> bool:
        """True if most tiles follow the one before at once, and would wait for its bank."""
        return self.tiles > 2 * self.runs


def rotated(ranges: Sequence[LiveRange], bank_bytes: int, banks: int) -> list[int] | None:
    """The offset of each of ``ranges``, which are in the order of their first points; None: they need another plan."""
    if any(live.size > bank_bytes for live in ranges):
        return None
    keys = _site_of_each(ranges)
    sites = _sites(ranges, keys)
    if len(sites) > _MOST_SITES:
        return None
    _share(list(sites.values()), banks)
    owner: list[int | None] = [None] * banks
    until = [-1] * banks
    offsets: list[int] = []
    for live, key in zip(ranges, keys, strict=True):
        free = [bank for bank in range(banks) if until[bank] < live.first]
        if not free:
            return None
        own = [bank for bank in free if owner[bank] == key]
        if own and owner.count(key) >= sites[key].quota:
            choice = own
        else:
            choice = [bank for bank in free if not _is_needed(owner[bank], sites, live.first)] or free
        bank = min(choice, key=until.__getitem__)
        owner[bank], until[bank] = key, live.last
        offsets.append(bank * bank_bytes)
    return offsets


def _site_of_each(ranges: Sequence[LiveRange]) -> list[int]:
    """The number of the site of each tile: by the calls that led to it, since kernels make tiles in functions of their
    own; by the place alone if those are too many.
    """
    numbers: dict[object, int] = {}
    keys = [numbers.setdefault(live.tensor.site or _place(live), len(numbers)) for live in ranges]
    if len(numbers) > _MOST_SITES:
        numbers.clear()
        keys = [numbers.setdefault(_place(live), len(numbers)) for live in ranges]
    return keys


def _place(live: LiveRange) -> object:
    """The place in the source; without one the name, less the number that makes it unique."""
    name, _, number = live.tensor.name.rpartition(".")
    return live.tensor.span or (name if number.isdigit() else live.tensor.name)


def _is_needed(key: int | None, sites: dict[int, _Site], point: int) -> bool:
    """True if a site that owns a bank makes tiles at ``point`` or later."""
    return key is not None and sites[key].last >= point


def _sites(ranges: Sequence[LiveRange], keys: Sequence[int]) -> dict[int, _Site]:
    sites: dict[int, _Site] = {}
    ends: list[tuple[int, int]] = []
    before: int | None = None
    for number, (live, key) in enumerate(zip(ranges, keys, strict=True)):
        while ends and ends[0][0] < live.first:
            sites[keys[heapq.heappop(ends)[1]]].live -= 1
        heapq.heappush(ends, (live.last, number))
        site = sites.setdefault(key, _Site(live.first, live.last))
        site.last = max(site.last, live.last)
        site.tiles += 1
        site.runs += key != before
        before = key
        site.live += 1
        site.peak = max(site.peak, site.live)
    return sites


def _share(sites: list[_Site], banks: int) -> None:
    """Give each site its quota: its peak, and its part of the banks that the sites beside it leave.

    Spare banks go one by one to the site with the most tiles per bank, until it has enough for a pipeline. A stream
    may borrow banks of sites with more tiles at once, which have no tiles there for a time.
    """
    for site in sites:
        beside = [other for other in sites if other.first <= site.last and site.first <= other.last]
        quotas = [other.peak for other in beside]
        for _ in range(banks - sum(quotas)):
            quotas[min(range(len(beside)), key=lambda number: _turn(beside[number], quotas[number]))] += 1
        site.quota = quotas[beside.index(site)]
        if site.is_stream and any(other.peak > site.peak for other in beside):
            site.quota = max(site.quota, _BORROWED)


def _turn(site: _Site, quota: int) -> tuple[bool, float]:
    """Least for the site that gets the next spare bank."""
    return quota >= site.peak + _PIPELINE, -site.tiles / quota
