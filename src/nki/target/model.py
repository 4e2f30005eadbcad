"""One hardware generation: a column of the table of facts.

A :class:`Target` is read like any object (``target.partitions`` is an ``int``); ``target.source("partitions")`` says
where the number comes from and ``target.fact("partitions")`` gives value, unit, source and kind together. No logic
belongs here: what follows from a number is decided by the code that uses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, Literal, NoReturn, cast

from nki.target.compute_engines import ComputeEngines
from nki.target.dma_engines import DmaEngines
from nki.target.fact_rows import Fact, Kind, rows
from nki.target.interconnect import Interconnect
from nki.target.limits import Limits
from nki.target.tensor_engine import TensorEngine

_TABLE: Final = (Limits, TensorEngine, ComputeEngines, DmaEngines, Interconnect)


class Target(Limits, TensorEngine, ComputeEngines, DmaEngines, Interconnect):
    """One generation. Sizes are bytes, clocks GHz, latencies ns, rates GB/s (10^9 bytes per second, or bytes per ns).

    Cycles belong to the engine that the field names. "Free" sizes count elements per partition.
    """

    name: str
    generation: int
    aliases: tuple[str, ...]
    core: str
    narrower: Target | None
    """The target with the same facts, some in narrower ranges; None if there is none."""

    def __init__(
        self,
        name: str,
        generation: int,
        aliases: tuple[str, ...],
        core: str,
        facts: Mapping[str, Fact[Any]],
        narrower: Target | None = None,
    ) -> None:
        vars(self).update(name=name, generation=generation, aliases=aliases, core=core, narrower=narrower, **facts)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"{name} of {self} cannot change")

    def fact(self, field: str) -> Fact[Any]:
        """The fact behind the field of that name; ``KeyError`` when there is none."""
        return self.facts()[field]

    def facts(self) -> dict[str, Fact[Any]]:
        """Every fact of this target by the name of its field, in the order of declaration."""
        return {name: value for name, value in vars(self).items() if isinstance(value, Fact)}

    def source(self, field: str) -> str:
        """Source of the fact in that field."""
        return self.fact(field).source

    def origin(self, field: str) -> tuple[Kind, str]:
        """Kind and source of the fact in that field."""
        fact = self.fact(field)
        return fact.kind, fact.source

    def with_facts(self, facts: Mapping[str, Fact[Any]]) -> Target:
        """The same target with other ``facts``, by the names of their fields."""
        narrower: Target | None = self
        while narrower is not None and not narrower._holds_in(facts):
            narrower = narrower.narrower
        return Target(self.name, self.generation, self.aliases, self.core, {**self.facts(), **facts}, narrower)

    def with_values(self, values: Mapping[str, Any]) -> Target:
        """The same target with other values of facts, by the names of their fields; ranges and sources stay."""
        return self.with_facts({name: replace(self.fact(name), value=value) for name, value in values.items()})

    def _holds_in(self, facts: Mapping[str, Fact[Any]]) -> bool:
        """Test if ``facts`` have the values of this target, and ranges that contain its own."""
        own = self.facts()
        return all(fact.value == own[name].value and _contains(fact, own[name]) for name, fact in facts.items())

    def bounds(self, end: Literal[0, 1]) -> list[Target]:
        """:meth:`bound` of this target, then of narrower ones: their ends lie in the ranges of this one, too."""
        return [self.bound(end), *(self.narrower.bounds(end) if self.narrower is not None else ())]

    def bound(self, end: Literal[0, 1]) -> Target:
        """The same target with every fact that has a range at the faster end (0) of it, or at the slower (1)."""
        ranged = {name: fact for name, fact in self.facts().items() if fact.range is not None}
        return self.with_values({name: cast("Any", fact.range)[end] for name, fact in ranged.items()})

    def __repr__(self) -> str:
        return f"Target({self.name})"

    def __str__(self) -> str:
        return self.name


def _contains(wider: Fact[Any], narrower: Fact[Any]) -> bool:
    """Test if the range of one fact contains the range of another one, which has the same value."""
    if narrower.range is None or narrower.range == wider.range:
        return True
    return wider.range is not None and (
        min(wider.range) <= min(narrower.range) and max(wider.range) >= max(narrower.range)
    )


def _column(name: str, generation: int, aliases: tuple[str, ...], core: str) -> Target:
    """The target of that name, with its facts from the table."""
    facts: dict[str, Fact[Any]] = {}
    for part in _TABLE:
        facts |= {field: row.facts[name] for field, row in rows(part).items()}
    return Target(name, generation, aliases, core, facts)


GEN2: Final = _column("trn1", 2, ("trn1", "trn1n", "inf2", "gen2"), "NeuronCore-v2")
GEN3: Final = _column("trn2", 3, ("trn2", "gen3"), "NeuronCore-v3")
GEN4: Final = _column("trn3", 4, ("trn3", "gen4"), "NeuronCore-v4")
"""Most of its times are guesses: no timing of a single instruction or kernel on trn3 is published."""
