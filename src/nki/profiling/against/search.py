"""The facts and assumptions that bring a replay closest to a capture.

Each fact with a range is tried alone. Replays at both ends of its range tell how what a profile shows depends on it;
the value between them, or somewhat beyond, at which the distance is least is replayed until it does not move any more.
Each assumption about another compiler is one replay. The best one is kept, and the others are tried beside it.

The distance sums over what both profiles show: ``r²/2`` of a small ``r``, the difference of two means by the error
that the measured one may have, and about :data:`FAR` times ``r`` of a large one, of a mechanism that the model does not
have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final

import numpy as np

from nki.profiling.assumptions import Assumption
from nki.profiling.events import Column
from nki.target.fact_rows import Fact
from nki.target.model import Target

SURE: Final = 8.0
"""The least gain in distance that is no chance: as much as one difference of four times its error, squared, by two."""
SHARE: Final = 0.02
"""The least part of the whole distance that a fact or an assumption explains to be named."""
ALIKE: Final = 0.03
"""Two facts that explain as much, up to this part of it, cannot be told apart."""
FAR: Final = 4.0
"""Differences of more than so many times their error grow in the distance as themselves, and not as their squares."""
BEYOND: Final = 0.5
"""A fact is tried so far beyond its range, as a part of the range."""
_STEPS: Final = 401
"""Values of a fact that are compared between its replays."""
_REFINED: Final = 5
"""Most replays of one fact beside those at the ends of its range."""
_TRIED: Final = 4
"""Facts and assumptions that are replayed beside one that is kept."""


@dataclass(frozen=True)
class State:
    """A reading of the kernel: with an ``assumption``, or with none, and ``values`` of facts by name."""

    assumption: Assumption | None = None
    values: tuple[tuple[str, float], ...] = ()

    def with_value(self, name: str, value: float) -> State:
        """The same with another value of one fact."""
        return replace(self, values=(*((n, v) for n, v in self.values if n != name), (name, value)))


@dataclass
class Trial:
    """A fact or an assumption and what it explains: the ``distance`` that is left at the ``state``. Of a fact,
    ``least`` and ``most`` are the values at which it explains about as much.
    """

    name: str
    state: State
    distance: float
    value: float | None = None
    least: float = 0.0
    most: float = 0.0
    curve: _Curve | None = None


@dataclass
class _Curve:
    """The times that a profile shows, as they depend on one fact: replays at some of its values."""

    name: str
    fact: Fact[Any]
    low: float
    high: float
    shows: dict[float, Column] = field(default_factory=dict[float, Column])

    @property
    def by_rate(self) -> bool:
        """Times follow one by the value."""
        return self.fact.unit in ("GB/s", "GHz") and self.low > 0

    def _to(self, value: Any) -> Column:
        return 1 / np.asarray(value) if self.by_rate else np.asarray(value)

    def grid(self) -> Column:
        """The values that are compared."""
        ends = float(self._to(self.low)), float(self._to(self.high))
        steps: Column = np.linspace(ends[0], ends[1], _STEPS)
        steps = self._to(steps) if self.by_rate else steps
        if isinstance(self.fact.value, int):
            return np.unique(np.rint(steps))
        return np.unique(np.concatenate((steps, list(self.shows))))

    def coarse(self) -> Column:
        """Few of these values, and the values of the replays."""
        return np.unique(np.concatenate((self.grid()[:: _STEPS // 32], list(self.shows))))

    def at(self, values: Column) -> Column:
        """The times at each of ``values``: on straight lines between replays, and beyond them."""
        known = sorted(self.shows, key=self._to)
        points = np.array([float(self._to(value)) for value in known])
        shows = np.array([self.shows[value] for value in known])
        places = np.asarray(self._to(values), np.float64)
        right = np.clip(np.searchsorted(points, places), 1, len(points) - 1)
        part = (places - points[right - 1]) / (points[right] - points[right - 1])
        return shows[right - 1] + part[:, None] * (shows[right] - shows[right - 1])


class Search:
    """Replays of a kernel beside what was ``measured``, with the error that each mean may have (``known``); ``shown``
    replays a state, ``names`` are the facts to try.
    """

    def __init__(
        self,
        target: Target,
        shown: Callable[[State], Column],
        measured: Column,
        known: Column,
        names: Sequence[str],
        assumptions: Sequence[Assumption],
    ) -> None:
        self.target, self._shown = target, shown
        self.measured, self.known = measured, known
        self.names, self.assumptions = names, [each for each in assumptions if each.instructions]
        self.replays = 0
        self._seen: dict[tuple[int, tuple[tuple[str, float], ...]], Column] = {}
        self.base = self.shown(State())
        self.whole = self.distance(self.base)

    def shown(self, state: State) -> Column:
        """The times that the replay of a state shows; no state is replayed twice."""
        key = id(state.assumption), tuple(sorted(state.values))
        if key not in self._seen:
            self.replays += 1
            self._seen[key] = self._shown(state)
        return self._seen[key]

    def distance(self, shown: Column) -> Any:
        """The distance of what a profile shows, or of each row of several, from what was measured."""
        far = (shown - self.measured) / (self.known * FAR)
        return FAR**2 * (np.sqrt(1.0 + far**2) - 1.0).sum(axis=-1)

    def explanations(self) -> list[list[Trial]]:
        """The fact or assumption that explains most, then the one that explains most of what is left; each with those
        that explain as much, behind it.
        """
        found: list[list[Trial]] = []
        state, left, alone = State(), self.whole, self._alone()
        trials = list(alone)
        while len(found) < 2 and trials:
            trials.sort(key=lambda each: each.distance)
            best = trials[0]
            gain = left - best.distance
            if gain < SURE or gain < SHARE * self.whole:
                break
            named = {each.name for group in found for each in group}
            alike = [t for t in trials if t.distance - best.distance < max(SURE / 2, ALIKE * gain)]
            alike.sort(key=lambda each: (not self._is_in_range(each), each.distance))
            best = alike[0]
            found.append([each for each in alike if each is best or each.name not in named])
            state, left = best.state, best.distance
            if len(found) < 2:
                trials = self._beside(best, alone)
        for group, others in pairwise([*found, []]):
            group[1:] = [each for each in group[1:] if not others or each.name != others[0].name]
        if len(found) == 2 and (again := self._beside_second(found[0][0], state)) is not None:
            found[0][0] = replace(again, distance=found[0][0].distance)
        return found

    def _beside_second(self, first: Trial, state: State) -> Trial | None:
        """The value of ``first`` anew beside the second one; None of an assumption, which has none."""
        return None if first.value is None else self._try(first.name, state)

    def _is_in_range(self, trial: Trial) -> bool:
        """Test if a value lies in the range of its fact; True of an assumption."""
        if trial.value is None:
            return True
        ends = self.target.fact(trial.name).range or (trial.value,)
        return min(ends) <= trial.value <= max(ends)

    def _alone(self) -> list[Trial]:
        trials = [trial for name in self.names if (trial := self._try(name, State())) is not None]
        for assumption in self.assumptions:
            state = State(assumption)
            trials.append(Trial(assumption.name, state, float(self.distance(self.shown(state)))))
        return trials

    def _beside(self, best: Trial, alone: Sequence[Trial]) -> list[Trial]:
        """The trials beside ``best`` that are most likely to explain what it does not, replayed. What two of them do
        together is likely the sum of what each does alone; the value of ``best`` is another one beside the other.
        """
        others = [each for each in alone if each.name != best.name and (each.curve or best.curve)]
        ranked = sorted([(*self._likely(best, other), other) for other in others], key=lambda each: each[0])
        trials: list[Trial] = []
        for _, value, trial in ranked[:_TRIED]:
            state = best.state if value is None else best.state.with_value(best.name, value)
            if trial.curve is None:
                state = replace(state, assumption=trial.state.assumption)
                found = Trial(trial.name, state, float(self.distance(self.shown(state))))
            else:
                found = self._try(trial.name, state)
            if found is not None:
                trials.append(self._refitted(best, found))
        return trials

    def _likely(self, best: Trial, other: Trial) -> tuple[float, float | None]:
        """The distance that two trials are likely to leave, and the value of the first one then."""
        values = None if best.curve is None else best.curve.coarse()
        first = self.shown(best.state)[None] if best.curve is None or values is None else best.curve.at(values)
        second = self.shown(other.state)[None] if other.curve is None else other.curve.at(other.curve.coarse())
        left = self.distance(first[:, None] + second[None] - self.base)
        at = int(np.argmin(left.min(axis=1)))
        return float(left.min()), None if values is None else float(values[at])

    def _refitted(self, best: Trial, found: Trial) -> Trial:
        """``found``, a trial beside ``best``, with the value of that one anew, and then its own."""
        if best.curve is None:
            return found
        again = self._try(best.name, found.state)
        if again is None or again.distance >= found.distance:
            return found
        if found.curve is None:
            return replace(found, state=again.state, distance=again.distance)
        last = self._try(found.name, again.state)
        return last if last is not None and last.distance <= again.distance else found

    def _try(self, name: str, state: State) -> Trial | None:
        """The value of a fact at which the replay is closest; None if the kernel does not show the fact."""
        fact = self.target.fact(name)
        curve = _Curve(name, fact, *limits(fact))
        values = dict(state.values)
        own = values.get(name, float(fact.value))
        for value in dict.fromkeys((own, *map(float, fact.range or ()))):
            curve.shows[value] = self.shown(state if value == own else state.with_value(name, value))
        base = curve.shows[own]
        effect = max(float(np.sqrt((((shown - base) / self.known) ** 2).sum())) for shown in curve.shows.values())
        if effect < 1.0:
            return None
        for _ in range(_REFINED):
            grid = curve.grid()
            value = float(grid[int(np.argmin(self.distance(curve.at(grid))))])
            if any(abs(value - each) <= 1e-3 * (curve.high - curve.low) for each in curve.shows):
                break
            curve.shows[value] = self.shown(state.with_value(name, value))
        value = min(curve.shows, key=lambda each: float(self.distance(curve.shows[each])))
        distance = float(self.distance(curve.shows[value]))
        grid = curve.grid()
        close = grid[self.distance(curve.at(grid)) < distance + SURE / 2]
        reach = (float(close.min()), float(close.max())) if len(close) else (value, value)
        known = state if value == own and name not in values else state.with_value(name, value)
        return Trial(name, known, distance, value, min(reach[0], value), max(reach[1], value), curve)


def limits(fact: Fact[Any]) -> tuple[float, float]:
    """The values of a fact that are tried: its range, and somewhat beyond, where that has a sense."""
    low, high = sorted(map(float, fact.range or (fact.value, fact.value)))
    wider = BEYOND * (high - low)
    is_part = not fact.unit and low >= 0.0 and high <= 1.0
    least = max(low - wider, low / 4) if low > 0 else low
    least = max(least, min(low, 1.0)) if isinstance(fact.value, int) else least
    return least, 1.0 if is_part else high + wider
