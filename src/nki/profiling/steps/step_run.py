"""The predicted run of a step in numbers: when each kernel runs, what it needs, and what has no price.

The model assumes what :data:`ASSUMPTIONS` says. Times are seconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from nki.compilation.traced_step import Event, Launch, Note, Operation, needs
from nki.profiling.kernel_profile import Profile
from nki.profiling.steps.prices import price
from nki.profiling.steps.repeats import Group, grouped
from nki.profiling.titles import titles
from nki.target.model import Target

ASSUMPTIONS: Final = (
    "one kernel runs at a time, in the order of the program, on the cores of the step: no document says that kernels "
    "overlap, not even independent ones of one core each on a device with two",
    "each kernel is a launch of its own; at the fast end of the range the step is one program with one launch",
    "operations without a price take no time",
    "a kernel needs all that was written before to a block of memory from which it reads, also by way of a view",
)
"""The assumptions of the model of a step, as all reports say them."""


@dataclass(eq=False)
class StepKernel:
    """A kernel of a step, specialised for its arguments: its title in the step, its own profile, its launches."""

    profile: Profile
    title: str = ""
    launches: int = 0

    @property
    def latency(self) -> float:
        """All its launches together."""
        return math.fsum([self.profile.latency] * self.launches)


@dataclass(frozen=True, slots=True)
class StepLaunch:
    """A launch: its number in the step, its kernel, when it begins, and the launches that it needs: with results that
    reach it, by way of operations too, but for those that another one of them needs already.
    """

    number: int
    kernel: StepKernel
    begin: float
    needs: tuple[int, ...]

    @property
    def end(self) -> float:
        return self.begin + self.kernel.profile.latency


@dataclass(frozen=True, slots=True)
class StepOperation:
    """An operation of the framework: when it begins, and the ``seconds`` of all its calls; None without a price."""

    operation: Operation
    begin: float
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Unpriced:
    """Operations of one name on tensors of the same types, with the ``bytes`` of operands and
    results of each; of a collective the bytes of its results.
    """

    name: str
    operands: tuple[str, ...]
    results: tuple[str, ...]
    bytes: int
    count: int
    is_collective: bool

    @property
    def shapes(self) -> str:
        """The types of operands and results in short."""
        return f"{', '.join(self.operands)} -> {', '.join(self.results)}" if self.results else ", ".join(self.operands)


class StepRun:
    """The predicted run of a step on one target.

    ``events`` is what the step does; ``kernels`` has a kernel for each launch among them, the same one for launches of
    one specialisation.
    """

    def __init__(self, name: str, target: Target, events: Sequence[Event], kernels: Sequence[StepKernel]) -> None:
        self.name, self.target = name, target
        self.notes = list(dict.fromkeys(event.text for event in events if isinstance(event, Note)))
        self.events = [event for event in events if not isinstance(event, Note)]
        self.kernels = list(dict.fromkeys(kernels))
        """The kernels, in the order of their first launches."""
        self._of_event = kernels
        names = [each.profile.name for each in self.kernels]
        if len(set(names)) < len(names):
            names = [each.replace(f" on {target}", "") for each in titles([each.profile for each in self.kernels])]
        for kernel, title in zip(self.kernels, names, strict=True):
            kernel.title, kernel.launches = title, 0
        self.launches: list[StepLaunch] = []
        self.critical_path: list[StepLaunch] = []
        """The longest chain of launches that need each other's results."""
        self.operations: list[StepOperation] = []
        """The operations, in order."""
        self._replay()

    def _replay(self) -> None:
        now, of_event = 0.0, iter(self._of_event)
        sources: list[tuple[int, ...]] = []
        earlier: list[int] = []  # for each launch, the bits of all that it needs at last
        chains: list[_Chain] = []
        for event, before in zip(self.events, needs(self.events), strict=True):
            found = _last({launch for number in before for launch in sources[number]}, earlier)
            chain = max((chains[number] for number in before), key=lambda each: each.seconds, default=_Chain())
            if isinstance(event, Launch):
                kernel, first = next(of_event), len(self.launches)
                for number in range(first, first + event.count):
                    self.launches.append(StepLaunch(number, kernel, now, found))
                    now += kernel.profile.latency
                    earlier.append(_needed(found, earlier) | sum(1 << each for each in found))
                kernel.launches += event.count
                sources.append(tuple(range(first, len(self.launches))))
                chains.append(_Chain(chain.seconds + kernel.profile.latency, self.launches[first], chain))
            else:
                cost = price(event, self.target)
                self.operations.append(StepOperation(event, now, None if cost is None else cost * event.count))
                seconds = self.operations[-1].seconds or 0.0
                now += seconds
                sources.append(found)
                chains.append(_Chain(chain.seconds + seconds, None, chain))
        best = max(chains, key=lambda each: each.seconds, default=_Chain())
        self.critical_path = best.launches()

    @cached_property
    def operation_time(self) -> float:
        """The time of operations that have a price."""
        return math.fsum(each.seconds or 0.0 for each in self.operations)

    @cached_property
    def latency(self) -> float:
        """The time of the step: the latencies of all launches, and the operations that have a price."""
        return math.fsum([*(each.kernel.profile.latency for each in self.launches), self.operation_time])

    @cached_property
    def device_time(self) -> float:
        """The kernels on the device, without the launches."""
        return math.fsum(each.kernel.profile.device_time for each in self.launches)

    @cached_property
    def launch_time(self) -> float:
        """All launches beside that."""
        return math.fsum(each.kernel.profile.launch_time for each in self.launches)

    @cached_property
    def critical_time(self) -> float:
        """The latencies of the critical path: no overlap of kernels makes the step faster, only fewer launches."""
        return math.fsum(each.kernel.profile.latency for each in self.critical_path)

    @cached_property
    def interval(self) -> tuple[float, float]:
        """The latency at the fast end, with one launch for the step, and at the slow end of what is not known."""
        launch = self.target.bound(0).launch_ns * 1e-9
        ends = [each.kernel.profile.interval for each in self.launches]
        least = math.fsum([launch if ends else 0.0, self.operation_time, *(max(low - launch, 0.0) for low, _ in ends)])
        return min(least, self.latency), math.fsum([self.operation_time, *(high for _, high in ends)])

    @cached_property
    def unpriced(self) -> list[Unpriced]:
        """The operations without a price, equal ones together, in the order of their first calls."""
        counts: dict[tuple[object, ...], Unpriced] = {}
        for each in [found.operation for found in self.operations if found.seconds is None]:
            types = tuple(map(str, each.operands)), tuple(map(str, each.results))
            known = counts.get(key := (each.name, *types))
            count = each.count + (known.count if known else 0)
            counts[key] = Unpriced(each.name, *types, each.nbytes, count, each.is_collective)
        return list(counts.values())

    @cached_property
    def order(self) -> list[Group]:
        """The kernels in the order of their launches, with what repeats, such as the layers of a model, once."""
        return grouped([each.kernel.title for each in self.launches])

    def share(self, kernel: StepKernel) -> float:
        """The part of the latency that the launches of ``kernel`` take."""
        return kernel.latency / self.latency if self.latency else 0.0

    def mapped(self, change: Callable[[Profile], Profile]) -> tuple[list[Event], list[StepKernel]]:
        """The events, and the kernels of the launches with other profiles."""
        changed = {each: StepKernel(change(each.profile)) for each in self.kernels}
        events: list[Event] = [*map(Note, self.notes), *self.events]
        return events, [changed[each] for each in self._of_event]


def _last(launches: set[int], earlier: Sequence[int]) -> tuple[int, ...]:
    """The ``launches`` that no other one of them needs; ``earlier`` has the bits of those that each launch needs."""
    needed = _needed(launches, earlier)
    return tuple(sorted(each for each in launches if not needed >> each & 1))


def _needed(launches: Iterable[int], earlier: Sequence[int]) -> int:
    """The bits of all that ``launches`` need."""
    bits = 0
    for each in launches:
        bits |= earlier[each]
    return bits


@dataclass(frozen=True, slots=True)
class _Chain:
    """Events that need each other, up to one: their time, the launch that it is, and the chain before it."""

    seconds: float = 0.0
    launch: StepLaunch | None = None
    before: _Chain | None = None

    def launches(self) -> list[StepLaunch]:
        """The launches of the chain, in order."""
        found: list[StepLaunch] = []
        chain: _Chain | None = self
        while chain is not None:
            if chain.launch is not None:
                found.append(chain.launch)
            chain = chain.before
        return found[::-1]
