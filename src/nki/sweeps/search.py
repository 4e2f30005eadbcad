"""Searches over configurations: all of them; or a sample by Optuna, and then the neighbours of the best."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from nki.base.locks import imported
from nki.base.sweep_errors import NoPointError
from nki.profiling.packages import needed
from nki.sweeps.axes import Axis
from nki.sweeps.record import Row

Configuration = Mapping[str, Any]
Places = tuple[int, ...]
"""The place of a configuration's value on each axis."""
_DRAWS: Final = 20
"""Proposals of the sampler for each new legal place; behind them, places are drawn at random."""
_RANDOM_DRAWS: Final = 10_000
"""Random places for a batch; most may be illegal, or known."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A configuration that was tried: its time in seconds, infinite if it is not legal, the interval, and the rows."""

    configuration: Configuration
    seconds: float
    interval: tuple[float, float]
    rows: tuple[Row, ...]

    @property
    def is_legal(self) -> bool:
        return math.isfinite(self.seconds)


Evaluate = Callable[[Sequence[Configuration]], list[Trial]]


@dataclass
class Search:
    """A search over ``axes``, where ``is_legal`` says what may be tried."""

    axes: tuple[Axis, ...]
    is_legal: Callable[[Configuration], bool]
    is_exhaustive: bool = False
    tried: dict[Places, Trial] = field(default_factory=dict[Places, Trial])

    @property
    def combinations(self) -> int:
        """Configurations, legal or not."""
        return math.prod(len(axis.values) for axis in self.axes)

    def fits(self, most: int) -> bool:
        """True if at most ``most`` are legal; a space of more than 100 times as many combinations is not looked at."""
        if self.combinations > 100 * most:
            return False
        return sum(1 for _ in itertools.islice(self._legal(), most + 1)) <= most

    def exhaustive(self, evaluate: Evaluate) -> list[Trial]:
        """All legal configurations. Raises :class:`NoPointError` if there are none."""
        self.is_exhaustive = True
        places = list(self._legal())
        if not places:
            raise self._no_point()
        return self._try(places, evaluate)

    def sampled(self, evaluate: Evaluate, trials: int, seed: int, together: int) -> list[Trial]:
        """At most ``trials`` configurations: three of four by Optuna's sampler, ``together`` at a time, then the
        neighbours of the best, and theirs. Equal seeds give equal configurations.
        """
        optuna = needed("optuna", "optuna", "a search of a large space", "tune")
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
        ranges = {self._name(a): optuna.distributions.IntDistribution(0, len(a.values) - 1) for a in self.axes}
        draws = random.Random(seed)
        budget = min(trials, self.combinations)
        while len(self.tried) < budget * 3 // 4:
            batch = self._proposed(study, ranges, draws, min(together, budget - len(self.tried)))
            if not batch:
                break
            self._try(list(batch), evaluate)
            for places in batch:
                if self.tried[places].is_legal:
                    values = dict(zip(ranges, places, strict=True))
                    seconds = self.tried[places].seconds
                    study.add_trial(optuna.trial.create_trial(params=values, distributions=ranges, value=seconds))
        if not self.tried:
            raise self._no_point()
        self._descend(evaluate, budget)
        return list(self.tried.values())

    @staticmethod
    def _name(axis: Axis) -> str:
        return ",".join(axis.names)

    def _proposed(self, study: Any, ranges: Mapping[str, Any], draws: random.Random, count: int) -> dict[Places, None]:
        """``count`` legal places that were not tried: by the sampler, or drawn at random where it finds none; fewer if
        there are no more.
        """
        failed = imported("optuna").trial.TrialState.FAIL  # its time is told with the trial that is added for it
        batch: dict[Places, None] = {}
        for _ in range(_DRAWS * count):
            if len(batch) == count:
                return batch
            asked = study.ask(ranges)
            places = tuple(int(asked.params[name]) for name in ranges)
            study.tell(asked, state=failed)
            if places not in self.tried and self.is_legal(self._configuration(places)):
                batch[places] = None
        for _ in range(_RANDOM_DRAWS):
            if len(batch) == count:
                return batch
            places = tuple(draws.randrange(len(axis.values)) for axis in self.axes)
            if places not in self.tried and self.is_legal(self._configuration(places)):
                batch[places] = None
        return batch

    def _descend(self, evaluate: Evaluate, budget: int) -> None:
        """Try the neighbours of the best place, as long as there is a better one and the budget lasts."""
        while len(self.tried) < budget:
            legal = [places for places, trial in self.tried.items() if trial.is_legal]
            fresh: list[Places] = []
            # From the best place on: the first one with neighbours that were not tried.
            for best in sorted(legal, key=lambda places: self.tried[places].seconds):
                fresh = [p for p in self._neighbours(best) if p not in self.tried]
                fresh = [p for p in fresh if self.is_legal(self._configuration(p))]
                if fresh:
                    break
            if not fresh:
                return
            self._try(fresh[: budget - len(self.tried)], evaluate)

    def _try(self, places: Sequence[Places], evaluate: Evaluate) -> list[Trial]:
        trials = evaluate([self._configuration(each) for each in places]) if places else []
        self.tried.update(zip(places, trials, strict=True))
        return trials

    def _legal(self) -> Iterator[Places]:
        for places in itertools.product(*(range(len(axis.values)) for axis in self.axes)):
            if self.is_legal(self._configuration(places)):
                yield places

    def _neighbours(self, places: Places) -> Iterator[Places]:
        for number, axis in enumerate(self.axes):
            for place in (places[number] - 1, places[number] + 1):
                if 0 <= place < len(axis.values):
                    yield (*places[:number], place, *places[number + 1 :])

    def _configuration(self, places: Places) -> dict[str, Any]:
        rows = [axis.values[place] for axis, place in zip(self.axes, places, strict=True)]
        return {n: v for axis, row in zip(self.axes, rows, strict=True) for n, v in zip(axis.names, row, strict=True)}

    def _no_point(self) -> NoPointError:
        return NoPointError(
            f"no configuration is legal: `where` excludes all {self.combinations:,}",
            fix="change the conditions in `where`, or the values that they are about",
        )
