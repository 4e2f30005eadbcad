"""``nki.tune``: the configuration of a kernel with the least predicted, or native, time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from nki.base.errors import NkiError
from nki.base.sweep_errors import NoPointError, SpaceError
from nki.base.wording import plural
from nki.compilation.launch_errors import strip_frames
from nki.jit import Kernel
from nki.profiling.amounts import duration
from nki.profiling.draws import SURE, part_faster
from nki.sweeps import plan as planning
from nki.sweeps import space as spaces
from nki.sweeps.comparison import Function
from nki.sweeps.evaluation import Steps
from nki.sweeps.plan import Planned, Subject
from nki.sweeps.record import Outcome, Row
from nki.sweeps.results import Results
from nki.sweeps.run import Given, Progress, carried_out
from nki.sweeps.search import Configuration, Search, Trial
from nki.sweeps.space import Point, Space
from nki.sweeps.table import row
from nki.sweeps.workers import Workers

By = Literal["predicted", "native"]
EXHAUSTIVE: Final = 2000
"""Legal configurations that are all tried; of more, a search tries some."""
TRIALS: Final = 400
"""Configurations that a search tries."""
RUNS: Final = 5
"""Native launches of a configuration; the fastest one counts."""
FRESH: Final = 1_000_003
"""The first seed of the data on which a winner is judged again: no sweep has counted up to it."""
DRAWS: Final = 32
"""Draws of what the timing model does not know, for each configuration."""
DISTRIBUTIONS: Final = ("random", "uniform", "wide")
"""Fillings of the inputs that are random, when a winner is judged again."""


@dataclass(frozen=True)
class Choice:
    """The best configuration for one workload: one combination of what is not chosen, or all of them, weighted.

    ``times``: seconds of each workload, in the order of ``rows``; ``ties``: configurations that the winner does not
    beat in nine of ten draws of what is not known, the fastest first; ``judged``: draws of fresh data on which the
    winner was right; ``passed_over``: faster configurations that failed on them.
    """

    workload: Mapping[str, Any]
    target: str
    configuration: Configuration
    seconds: float
    interval: tuple[float, float]
    ties: tuple[Trial, ...]
    tried: int
    refused: int
    judged: int
    passed_over: tuple[Row, ...] = ()
    worst: float = 0.0
    """The time of the slowest configuration that is legal; s."""
    is_exhaustive: bool = True


@dataclass(frozen=True)
class Tuning:
    """The choices for a kernel, one for each workload."""

    kernel: str
    by: By
    choices: tuple[Choice, ...]
    combinations: int
    """Configurations of the space, legal or not."""
    has_reference: bool

    @property
    def best(self) -> Configuration:
        """The configuration of the first, or only, workload."""
        return self.choices[0].configuration

    def __str__(self) -> str:
        return "\n\n".join(_text(self, each) for each in self.choices)


def tune(
    kernel: str | Kernel | Callable[..., Any],
    space: Given,
    *,
    by: By = "predicted",
    reference: str | Function | None = None,
    executor: Executor | None = None,
    processes: int | None = None,
    results: str | Path | None = None,
    trials: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Tuning:
    """``nki.tune(kernel, "space.toml")``: the configuration with the least time, for each workload of ``space``.

    The space's ``[tune] choose`` names what is chosen; without it, these are the names that vary constants and no
    tensor. Each combination of the other names, and each target, is a workload with a winner of its own; a
    ``[tune] weight``, an expression over the names, asks for one winner of least weighted sum instead.

    ``by``: the latency that the model predicts, or the time of native code on this machine. Up to EXHAUSTIVE legal
    configurations are all tried; of more, or with ``trials``, Optuna's sampler with this ``seed``, and then a local
    search, try so many (TRIALS). A winner must then run without hazards on fresh data of several distributions, and
    agree with the reference; else the next one is tried. The other arguments, and errors, are as of
    :func:`nki.sweeps.run.sweep`. Raises :class:`NoPointError` if the kernel compiles for no configuration.
    """
    try:
        read = spaces.of(space)
        with (
            planning.opened(kernel, reference or read.reference) as subject,
            Workers(executor, processes, by == "native") as workers,
        ):
            task = _Task(subject, subject.fitting(read), by, workers, Results(results), progress)
            return task.tuned(trials, seed)
    except NkiError as error:
        __tracebackhide__ = True
        raise strip_frames(error)  # noqa: B904  # its cause is settled


class _Task:
    """A search under way."""

    def __init__(
        self, subject: Subject, space: Space, by: By, workers: Workers, store: Results, progress: Progress | None
    ) -> None:
        self.subject, self.space, self.workers = subject, space, workers
        self.by: By = by
        self.store, self.progress = store, progress
        self.steps = Steps(RUNS, space.tolerance) if by == "native" else Steps(runs=0)
        names = space.choose or _constants(space)
        self.chosen = tuple(axis for axis in space.axes if set(axis.names) & set(names))
        if not self.chosen:
            raise SpaceError(
                f"{space.origin}: nothing is chosen: every name that varies is of a tensor",
                fix='write a list of values for a constant in [arguments], or [tune] choose = ["NAME"]',
            )
        rest = tuple(axis for axis in space.axes if axis not in self.chosen)
        self.places = replace(space, axes=rest, where=(), seeds=space.seeds[:1]).points()

    def tuned(self, trials: int | None, seed: int) -> Tuning:
        groups = [self.places] if self.space.weight is not None else [[place] for place in self.places]
        choices: list[Choice] = []
        total = 0
        for places in groups:
            search = Search(self.chosen, partial(self._is_legal, places))
            total = search.combinations
            evaluate = partial(self._evaluated, places)
            if trials is None and search.fits(EXHAUSTIVE):
                found = search.exhaustive(evaluate)
            else:
                found = search.sampled(evaluate, trials or TRIALS, seed, self.workers.count)
            choices.append(self._choice(found, places, search.is_exhaustive))
        return Tuning(self.subject.kernel_name, self.by, tuple(choices), total, self.subject.function is not None)

    def _is_legal(self, places: Sequence[Point], configuration: Configuration) -> bool:
        return all(self.space.excluded_by(_joined(place, configuration)) is None for place in places)

    def _outcomes(self, points: Sequence[Point], steps: Steps) -> tuple[list[Planned], list[Outcome]]:
        plan = planning.planned(self.subject, self.space, points, steps)
        return plan.points, carried_out(self.subject, plan, steps, self.workers, self.store, self.progress)[0]

    def _evaluated(self, places: Sequence[Point], batch: Sequence[Configuration]) -> list[Trial]:
        """The time of each configuration over all ``places``; infinite where one of them fails."""
        points = [_joined(place, configuration) for configuration in batch for place in places]
        planned, outcomes = self._outcomes(points, self.steps)
        trials: list[Trial] = []
        for number, configuration in enumerate(batch):
            part = slice(number * len(places), (number + 1) * len(places))
            weights = [self._weight(point) for point in points[part]]
            rows = tuple(row(p, o, False) for p, o in zip(planned[part], outcomes[part], strict=True))
            trials.append(_trial(configuration, rows, weights, self.by))
        return trials

    def _weight(self, point: Point) -> float:
        if self.space.weight is None:
            return 1.0
        weight = self.space.weight.value(point.names)
        if isinstance(weight, bool) or not isinstance(weight, int | float) or weight < 0:
            raise SpaceError(
                f"{self.space.origin}: tune.weight: {weight!r} is no weight", fix="let it be a number, 0 at least"
            )
        return float(weight)

    def _choice(self, found: Sequence[Trial], places: Sequence[Point], is_exhaustive: bool) -> Choice:
        """The fastest configuration that is right on fresh data, and what is known of the others."""
        legal = sorted((trial for trial in found if trial.is_legal), key=lambda trial: trial.seconds)
        passed_over: list[Row] = []
        for number, winner in enumerate(legal):
            bad, judged = self._judged(winner.configuration, places)
            if bad is not None:
                passed_over.append(bad)
                continue
            ties = self._ties(winner, legal[number + 1 :], places)
            return Choice(
                workload=dict(places[0].values) if len(places) == 1 else {},
                target=winner.rows[0]["target"],
                configuration=winner.configuration,
                seconds=winner.seconds,
                interval=winner.interval,
                ties=tuple(ties),
                tried=len(found),
                refused=len(found) - len(legal),
                judged=judged,
                passed_over=tuple(passed_over),
                worst=legal[-1].seconds,
                is_exhaustive=is_exhaustive,
            )
        raise self._nothing(found, passed_over)

    def _ties(self, winner: Trial, others: Sequence[Trial], places: Sequence[Point]) -> list[Trial]:
        """The ones of ``others`` that the winner does not beat in nine of ten draws of what is not known."""
        if self.by == "native":
            return []
        near = [other for other in others if other.interval[0] <= winner.interval[1]]
        tried = [winner, *near]
        points = [_joined(place, trial.configuration) for trial in tried for place in places]
        _, outcomes = self._outcomes(points, replace(self.steps, draws=DRAWS))
        weights = list(map(self._weight, points))
        times = [[w * each for each in one["drawn"] or ()] for w, one in zip(weights, outcomes, strict=True)]
        parts = [times[number : number + len(places)] for number in range(0, len(times), len(places))]
        own, *theirs = [list(map(sum, zip(*part, strict=True))) for part in parts]
        return [other for other, drawn in zip(near, theirs, strict=True) if part_faster(own, drawn) < SURE]

    def _judged(self, configuration: Configuration, places: Sequence[Point]) -> tuple[Row | None, int]:
        """The first draw of fresh data on which the configuration fails, and the number of draws."""
        steps = Steps(tolerance=self.space.tolerance)
        points = [
            replace(_joined(place, configuration), seed=FRESH + number, fill=fill)
            for place in places
            for number, fill in enumerate(DISTRIBUTIONS)
        ]
        planned, outcomes = self._outcomes(points, steps)
        for each, found in zip(planned, outcomes, strict=True):
            if found["status"] != "ok":
                return row(each, found, False), len(points)
        return None, len(points)

    def _nothing(self, found: Sequence[Trial], passed_over: Sequence[Row]) -> NoPointError:
        rows = [*passed_over, *(each for trial in found for each in trial.rows if each["status"] != "ok")]
        what = "is right" if passed_over else "compiles"
        shown = f": [{rows[0]['code']}] {rows[0]['message']}" if rows else ""
        return NoPointError(
            f"{self.subject.kernel_name} {what} for none of {plural(len(found), 'legal configuration')} of "
            f"{self.space.origin}{shown}",
            fix="add a condition to `where`, or other values; `nki sweep` shows each failure",
        )


def _constants(space: Space) -> list[str]:
    """The names that no tensor depends on."""
    of_tensors = space.names_of_tensors
    return [name for axis in space.axes for name in axis.names if name not in of_tensors]


def _joined(place: Point, configuration: Configuration) -> Point:
    return replace(place, values={**place.values, **configuration})


def _trial(configuration: Configuration, rows: Sequence[Row], weights: Sequence[float], by: By) -> Trial:
    if any(each["status"] != "ok" for each in rows):
        return Trial(configuration, float("inf"), (float("inf"), float("inf")), tuple(rows))
    field: Literal["latency", "run_seconds"] = "latency" if by == "predicted" else "run_seconds"
    ends = ("latency_min", "latency_max") if by == "predicted" else ("run_seconds", "run_seconds")
    seconds, least, most = (
        sum(w * float(each[name] or 0) for w, each in zip(weights, rows, strict=True)) for name in (field, *ends)
    )
    return Trial(configuration, seconds, (least, most), tuple(rows))


def _text(tuning: Tuning, choice: Choice) -> str:
    where = " ".join(f"{name}={value}" for name, value in choice.workload.items())
    found = " ".join(f"{name}={value}" for name, value in choice.configuration.items())
    how = "all" if choice.is_exhaustive else f"{choice.tried} of {tuning.combinations:,}"
    least, most = choice.interval
    unit = "predicted" if tuning.by == "predicted" else "on this machine"
    lines = [
        f"{tuning.kernel} on {choice.target}{f', {where}' if where else ''}: {found}",
        f"  {duration(choice.seconds)} {unit}"
        + (f", between {duration(least)} and {duration(most)}" if most > least else "")
        + f"; the slowest legal one takes {duration(choice.worst)}",
        f"  {how} tried: {plural(choice.tried, 'configuration')}, {choice.refused} refused",
    ]
    judge = "agrees with the reference" if tuning.has_reference else "no reference judged it"
    lines.append(f"  {plural(choice.judged, 'draw')} of fresh data ({', '.join(DISTRIBUTIONS)}): no hazards, {judge}")
    for each in choice.passed_over:
        values = " ".join(f"{name}={each['values'][name]}" for name in choice.configuration)
        lines.append(f"  passed over: {values}: [{each['code']}] {each['message']}")
    if choice.ties:
        near = choice.ties[0]
        values = " ".join(f"{name}={value}" for name, value in near.configuration.items())
        lines.append(
            f"  a tie with {plural(len(choice.ties), 'configuration')}: none is slower in nine of ten draws of what "
            f"the model does not know; the next is {values} at {duration(near.seconds)}"
        )
    elif tuning.by == "predicted":
        lines.append(f"  the order is sure: faster than each other one in nine of ten of {DRAWS} draws or more")
    return "\n".join(lines)
