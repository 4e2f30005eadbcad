"""A capture beside a prediction: measured, predicted and the difference, and what explains it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np

from nki.base.profile_errors import CaptureError
from nki.profiling.against.calibration import CalibratedFact, Calibration
from nki.profiling.against.capture import Capture
from nki.profiling.against.observation import (
    WHOLE,
    Events,
    Instructions,
    Key,
    Observation,
    Observer,
    observe,
    shortened,
)
from nki.profiling.against.search import Search, State, Trial
from nki.profiling.assumptions import Assumption
from nki.profiling.engine_rows import TITLES, joined
from nki.profiling.events import Column
from nki.profiling.predicted_run import PredictedRun
from nki.profiling.summary import ENGINES
from nki.sim.timing import Timeline
from nki.target.model import Target

_FOREIGN: Final = 0.05
"""The part of the device's time from which on instructions of an engine that the kernel does not use are a mistake."""
_SHARED: Final = 0.5
"""The part of the time of all instructions that both profiles must know by the same keys."""
_LIKE: Final = 4.0
"""An engine may have so many times the instructions of the prediction: compilers split and merge them."""
_FAR: Final = 100.0
"""Times that differ by such a factor are in another unit, or of another kernel."""


@dataclass(frozen=True, slots=True)
class Beside:
    """A time that was ``measured`` and ``predicted``, in seconds; ``counts``: the times that it is the mean of."""

    name: str
    measured: float
    predicted: float
    counts: tuple[int, int] = (1, 1)

    @property
    def difference(self) -> float:
        return self.measured - self.predicted


@dataclass(frozen=True, slots=True)
class Value:
    """A value of a fact: ``name``, the value ``before`` and ``after``, its ``unit`` and ``range``, the ``least`` and
    the ``most`` that explain about as much.
    """

    name: str
    before: float
    after: float
    unit: str
    range: tuple[float, float]
    least: float
    most: float

    @property
    def is_in_range(self) -> bool:
        return min(self.range) <= self.after <= max(self.range)


@dataclass(frozen=True)
class Explanation:
    """A fact (``value``) or an assumption about another compiler (``about``) that explains ``share`` of the difference,
    of 1; the second one with the first one. ``alike`` are others that explain as much: this kernel cannot tell them
    apart.
    """

    name: str
    share: float
    value: Value | None
    about: str
    alike: tuple[Explanation, ...] = ()


class _Reads(Target):
    """A target that notes which of its facts are read."""

    def __init__(self, target: Target) -> None:
        super().__init__(target.name, target.generation, target.aliases, target.core, target.facts(), target.narrower)
        vars(self)["read"] = set()

    def __getattribute__(self, name: str) -> Any:
        own: dict[str, Any] = object.__getattribute__(self, "__dict__")
        if "read" in own:
            own["read"].add(name)
        return object.__getattribute__(self, name)


class MeasuredRun:
    """A ``profile`` beside a ``capture`` of the same kernel on a device.

    Raises :class:`CaptureError` if it is of another kernel, target or unit.
    """

    def __init__(self, profile: PredictedRun, capture: Capture) -> None:
        self.profile, self.capture = profile, capture
        self._observers: dict[int, Observer] = {}
        self._timelines: dict[int, Timeline] = {}
        """The replays under the target's own facts, by assumption."""
        self._check_origin()
        self.predicted = self._events(profile.timeline, None)
        self._check_times()
        self.level = self._level()

    @cached_property
    def shown(self) -> Events:
        """The capture without instructions that are none of the kernel's, such as start-up and semaphores."""
        events = self.capture.events
        if events.instructions is None:
            return events
        assumptions = [each for each in self.profile.assumptions if each.instructions]
        others = [self._observer(self._replayed(State(each)), each) for each in assumptions]
        observers = [self._observers[0], *others]
        known = {shortened(key, self.level) for observer in observers for key in observer.keys}
        return replace(events, instructions=events.instructions.regrouped(self.level).only(known))

    @cached_property
    def measured(self) -> Observation:
        """The times that the capture shows."""
        return observe(self.shown, self.level, self._observers[0].counts)

    def _check_origin(self) -> None:
        capture, profile = self.capture, self.profile
        if capture.kernel and capture.kernel != profile.name:
            raise CaptureError(
                f"{capture.file}: field kernel is {capture.kernel!r}; {profile.name!r} is expected",
                fix="pass a capture of this kernel, or profile the kernel of the capture",
            )
        if capture.target.startswith(("trn", "inf")) and not _is_target(capture.target, profile.target):
            raise CaptureError(
                f"{capture.file}: this is a capture on {capture.target}; {profile.target} is expected",
                fix=f"profile the kernel for the target of the capture: --target {capture.target}",
            )
        for name, clock in capture.clocks.items():
            if abs(clock - getattr(profile.target, name)) > 0.01:
                column = f"{name.removesuffix('_clock_ghz')}_engine_clock_freq"
                raise CaptureError(
                    f"{capture.file}: column {column} of Metadata is {clock:g} GHz; "
                    f"{getattr(profile.target, name):g} of {profile.target} is expected",
                    fix="profile the kernel for the target of the capture",
                )

    def _check_times(self) -> None:
        capture, own = self.capture, self.profile.timeline.ns
        whole = capture.events.span or capture.events.fields.get("device_time") or capture.events.fields["total_time"]
        if own and not 1 / _FAR < whole / own < _FAR:
            name = "columns start_ts and end_ts" if capture.events.span else "field total_time"
            raise CaptureError(
                f"{capture.file}: {name} tell of {whole * 1e-3:.4g} µs, and the prediction is {own * 1e-3:.4g} µs",
                fix="pass a capture of this kernel with these arguments; times of Parquet are ns, of a summary s",
            )
        active = self._active(capture.events)
        for engine in active.keys() - self._active(self.predicted).keys() - {"dma", "sync"}:
            if active[engine] > _FOREIGN * whole:
                raise CaptureError(
                    f"{capture.file}: engine {engine} works for {active[engine] * 1e-3:.4g} µs, and "
                    f"{self.profile.name} has no instruction on it",
                    fix="pass a capture of this kernel with these arguments",
                )

    def _level(self) -> int:
        """The number of parts of keys that both profiles have in common: engine, opcode, line."""
        measured, predicted = self.capture.events.instructions, self.predicted.instructions
        if measured is None or predicted is None:
            return 3
        for level in (3, 2, 1):
            sides = [each.regrouped(level).busy() for each in (measured, predicted)]
            shared = [sum(side[key] for key in side if key in sides[0] and key in sides[1]) for side in sides]
            known = all(part >= _SHARED * sum(side.values()) for part, side in zip(shared, sides, strict=True))
            if known and (level > 1 or self._has_like_counts(measured, predicted)):
                return level
        raise CaptureError(
            f"{self.capture.file}: columns engine and opcode have little in common with the instructions of "
            f"{self.profile.name}",
            fix="pass a capture of this kernel with these arguments",
        )

    def _has_like_counts(self, measured: Instructions, predicted: Instructions) -> bool:
        """Test if each engine that matters has about as many instructions in both, whatever they are called."""
        sides = [each.regrouped(1) for each in (measured, predicted)]
        busy = sides[1].busy()
        counts = [dict(zip(s.keys, np.bincount(s.group, s.weight, len(s.keys)).tolist(), strict=True)) for s in sides]
        large = [key for key in busy if busy[key] > _FOREIGN * self.profile.timeline.ns]
        return all(1 / _LIKE < counts[0].get(key, 0) / counts[1][key] < _LIKE for key in large)

    def _observer(self, timeline: Timeline, assumption: Assumption | None) -> Observer:
        key = 0 if assumption is None else id(assumption)
        if key not in self._observers:
            self._observers[key] = Observer(timeline)
        return self._observers[key]

    def _events(self, timeline: Timeline, assumption: Assumption | None) -> Events:
        """The events of a replay, in the form of the capture."""
        observer = self._observer(timeline, assumption)
        events = observer.events(timeline) if self.capture.form == "parquet" else Events()
        if self.capture.events.fields:
            fields = observer.fields(timeline)
            events.fields = {name: fields[name] for name in self.capture.events.fields}
        return events

    def _replayed(self, state: State) -> Timeline:
        target, timed = self.profile.target, state.assumption or self.profile.timed
        if state.values:
            whole = {name: isinstance(target.fact(name).value, int) for name, _ in state.values}
            values = {name: round(value) if whole[name] else value for name, value in state.values}
            return timed.run(target.with_values(values))
        key = id(state.assumption)
        if key not in self._timelines:
            self._timelines[key] = timed.run(target) if state.assumption else self.profile.timeline
        return self._timelines[key]

    def _observed(self, state: State) -> Observation:
        timeline = self._replayed(state)
        events = self._events(timeline, state.assumption)
        return observe(events, self.level, self._observer(timeline, state.assumption).counts)

    @property
    def read_facts(self) -> list[str]:
        """The facts with a range that the times of this kernel follow."""
        watched = _Reads(self.profile.target)
        self._events(self.profile.timed.run(watched), None)
        read: set[str] = vars(watched)["read"]
        ranged = (name for name, fact in self.profile.target.facts().items() if fact.range is not None)
        return [
            name for name in ranged if name in read and isinstance(self.profile.target.fact(name).value, int | float)
        ]

    @cached_property
    def search(self) -> Search:
        """The search for what explains the difference."""
        base = self._observed(State())
        assumptions = [each for each in self.profile.assumptions if each.instructions]
        shown = {id(each): self._observed(State(each)) for each in assumptions}
        keys = [key for key in self.measured if key in base or any(key in each for each in shown.values())]

        def vector(state: State) -> Column:
            seen = self._observed(state)
            return np.array([seen[key].mean if key in seen else 0.0 for key in keys])

        measured = np.array([self.measured[key].mean for key in keys])
        known = np.array([self.measured[key].known for key in keys])
        return Search(self.profile.target, vector, measured, known, self.read_facts, assumptions)

    @cached_property
    def explanations(self) -> list[Explanation]:
        """The best explanation of the difference, then the best one together with that; none if nothing explains it."""
        return [self._explanation(*group) for group in self.search.explanations()]

    def _explanation(self, trial: Trial, *others: Trial) -> Explanation:
        share = float(1 - trial.distance / self.search.whole)
        value, about = None, ""
        if trial.value is not None:
            fact = self.profile.target.fact(trial.name)
            assert fact.range is not None
            ends = float(fact.range[0]), float(fact.range[1])
            value = Value(trial.name, float(fact.value), trial.value, fact.unit, ends, trial.least, trial.most)
        elif trial.state.assumption is not None:
            about = trial.state.assumption.about
        return Explanation(trial.name, share, value, about, tuple(self._explanation(other) for other in others))

    def calibration(self) -> Calibration:
        """The facts that the capture supports: those that explain the difference, and that no other one explains as
        well.
        """
        values = [each.value for each in self.explanations if each.value is not None and not each.alike]
        facts = {each.name: CalibratedFact(each.after, each.unit, each.least, each.most) for each in values}
        name = self.profile.target.name
        return Calibration(self.profile.name, name, str(self.capture.file), self.capture.date, facts)

    def calibrate(self, file: str | Path) -> Path:
        """Write the facts of :meth:`calibration` to ``file``, which later profiles load (``--facts``). The path.

        Raises :class:`ProfileFileError` if it cannot be written.
        """
        return self.calibration().write(Path(file))

    @cached_property
    def times(self) -> list[Beside]:
        """The whole times, then the time in which each engine works."""
        measured, predicted = self.shown, self.predicted
        whole = [name for name in WHOLE if name in measured.fields]
        rows = [
            Beside(name.replace("_", " "), measured.fields[name] * 1e-9, predicted.fields[name] * 1e-9)
            for name in whole
        ]
        if measured.span:
            rows.append(Beside("device time", measured.span * 1e-9, predicted.span * 1e-9))
        one, other = self._active(self.capture.events), self._active(predicted)
        used = [engine for engine in (*ENGINES, "dma", "collectives") if one.get(engine) or other.get(engine)]
        rows += [Beside(each, one.get(each, 0.0) * 1e-9, other.get(each, 0.0) * 1e-9) for each in used]
        return rows

    def _active(self, events: Events) -> dict[str, float]:
        """The time in which each engine works; ns."""
        if self.capture.form == "summary":
            ends = {engine: f"{engine}_engine_active_time" for engine in ENGINES} | {"dma": "dma_active_time"}
            return {engine: ns for engine, name in ends.items() if (ns := events.fields.get(name, 0.0))}
        active = _active(events.instructions) if events.instructions is not None else {}
        moved = events.transfers
        if moved is not None:
            rows = Instructions(
                [("DMA", "", "")],
                np.zeros(len(moved.start), np.int64),
                0 * moved.group,
                moved.start,
                moved.end,
                moved.weight,
            )
            active |= _active(rows)
        return active

    @cached_property
    def instructions(self) -> list[Beside]:
        """The mean time of instructions by engine, opcode and line, and of transfers; what differs most first."""
        predicted = self._observed(State())
        rows: list[tuple[float, Beside]] = []
        for key, seen in self.measured.items():
            if key.what == "duration" and (other := predicted.get(key)) is not None:
                counts = round(seen.number), round(other.number)
                row = Beside(_title(key), seen.mean * 1e-9, other.mean * 1e-9, counts)
                rows.append((abs(seen.mean * seen.number - other.mean * other.number), row))
        return [row for _, row in sorted(rows, key=lambda each: -each[0])]

    @property
    def by_line(self) -> list[Beside]:
        """The times of all instructions of a source line, added up; what differs most first."""
        sides: list[dict[str, float]] = []
        for each in (self.capture.events.instructions, self.predicted.instructions):
            sums: dict[str, float] = {}
            for (_, _, place), ns in (each.busy() if each is not None else {}).items():
                sums[place] = sums.get(place, 0.0) + ns * 1e-9
            sides.append(sums)
        places = [place for place in sides[0] if place and place in sides[1]]
        return sorted(
            (Beside(place, sides[0][place], sides[1][place]) for place in places), key=lambda row: -abs(row.difference)
        )


def _active(rows: Instructions) -> dict[str, float]:
    engines = list(dict.fromkeys(engine for engine, _, _ in rows.keys))
    of_key = np.array([engines.index(engine) for engine, _, _ in rows.keys], np.int64)
    names = {title: name for name, title in TITLES.items()}
    active: dict[str, float] = {}
    for core in np.unique(rows.core).tolist():
        for number, engine in enumerate(engines):
            at = np.flatnonzero((of_key[rows.group] == number) & (rows.core == core))
            ns = joined(rows.start[at], rows.end[at], rows.weight[at])
            active[names[engine]] = active.get(names[engine], 0.0) + ns
    return active


def _title(key: Key) -> str:
    return " ".join(filter(None, (key.engine.lower(), key.opcode, key.place)))


def _is_target(name: str, target: Target) -> bool:
    """Test if ``name`` is one of a target or of an instance type that has it (``trn2n``, ``trn1n``)."""
    return any(name == alias or name.rstrip("nu") == alias for alias in target.aliases)
