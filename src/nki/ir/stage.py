"""A stage of the pipeline: a transformation of a program, and the legality specification of its result.

A stage is a frozen dataclass: its options are its fields. :meth:`Stage.run` transforms the program, :meth:`Stage.check`
states, over all cores, the property that holds from then on. Users see errors of ``run``; ``check`` fails only if the
stage itself is wrong, or where the property cannot be known before all cores are complete.
"""

from __future__ import annotations

import difflib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from types import NoneType
from typing import Any, ClassVar, Final, Self, get_args, get_type_hints

from nki.base.errors import StageError
from nki.ir.program import CoreProgram, Program
from nki.target.model import Target

_WORDS: Final[dict[type, dict[str, Any]]] = {bool: {"true": True, "false": False}, NoneType: {"none": None}}
"""The words for the values of types that have few."""


def _types(hint: Any) -> tuple[type, ...]:
    """The types of a field, numbers and text last; () if text cannot stand for one of them."""
    types = get_args(hint) or (hint,)
    known = [kind for kind in (*_WORDS, int, float, str) if kind in types]
    return tuple(known) if len(known) == len(types) else ()


@dataclass(frozen=True)
class Option:
    """An option of a stage as the command line writes it."""

    name: str
    types: tuple[type, ...]
    default: Any

    def parsed(self, text: str) -> Any:
        """The value that ``text`` stands for. Raises :class:`ValueError`."""
        for kind in self.types:
            if kind not in _WORDS:
                return kind(text)
            if text in _WORDS[kind]:
                return _WORDS[kind][text]
        raise ValueError(text)

    def __str__(self) -> str:
        words = [word for kind in self.types for word in _WORDS.get(kind, (kind.__name__,))]
        return f"{self.name}={'|'.join(words)} (default {str(self.default).lower()})"


@dataclass(frozen=True)
class Stage(ABC):
    """One stage; ``name`` is its word in files, dumps, tests and on the command line."""

    name: ClassVar[str]
    about: ClassVar[tuple[str, ...]] = ()
    """Some instruction must have one of these effects, or the stage has nothing to do; (): it always runs."""

    def concerns(self, program: Program) -> bool:
        """False if nothing in ``program`` is what the stage is about."""
        if not self.about:
            return True
        return any(getattr(effects, name) for core in program.cores for effects in core.effects for name in self.about)

    @property
    def options(self) -> dict[str, Option]:
        """The options that text can set: fields of types bool, int, float and str, or None besides."""
        hints = get_type_hints(type(self))
        options = [Option(each.name, _types(hints[each.name]), each.default) for each in fields(self)]
        return {option.name: option for option in options if option.types}

    def with_options(self, text: str) -> Self:
        """The stage with other options: ``option=value``, several of them behind commas.

        Raises :class:`StageError`, which names the options and what each takes.
        """
        options = self.options
        values: dict[str, Any] = {}
        for part in text.split(","):
            name, _, value = part.partition("=")
            known = "; ".join(map(str, options.values()))
            fix = f"options of {self.name}: {known}" if known else f"{self.name} has no options"
            if name not in options:
                raise StageError(f"stage {self.name} has no option {name!r}", fix=fix)
            try:
                values[name] = options[name].parsed(value)
            except ValueError:
                raise StageError(f"stage {self.name}: {part!r} is no value of it", fix=fix) from None
        return replace(self, **values)

    @abstractmethod
    def run(self, program: Program, target: Target) -> Program:
        """The transformed program."""

    @abstractmethod
    def check(self, before: Program, after: Program, target: Target) -> None:
        """Raise unless ``after``, the result of :meth:`run` for ``before``, is legal."""


class Stages(tuple[Stage, ...]):
    """The stages of a pipeline, in the order in which they run."""

    __slots__ = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(stage.name for stage in self)

    def find(self, name: str) -> Stage:
        """The stage ``name``. Raises :class:`StageError`."""
        check_stage(name, self.names)
        return self[self.names.index(name)]

    def behind(self, name: str) -> Stages:
        """The stages that run after the stage ``name``."""
        return Stages(self[self.names.index(name) + 1 :])

    def without(self, name: str) -> Stages:
        """The stages but for the stage ``name``."""
        return Stages(stage for stage in self if stage.name != name)

    def with_stage(self, stage: Stage) -> Stages:
        """The stages with ``stage`` instead of the stage of that name."""
        return Stages(stage if each.name == stage.name else each for each in self)


def check_stage(name: str, names: Sequence[str]) -> None:
    """Raise :class:`StageError` unless ``name`` is one of the stages ``names``."""
    if name not in names:
        near = difflib.get_close_matches(name, names, 1)
        guess = f"did you mean {near[0]}? " if near else ""
        raise StageError(f"there is no compiler stage {name!r}", fix=f"{guess}stages: {', '.join(names)}")


class CoreStage(Stage):
    """A stage that transforms each core by itself."""

    def run(self, program: Program, target: Target) -> Program:
        return program.with_cores(self.transform(core, program, target) for core in program.cores)

    @abstractmethod
    def transform(self, core: CoreProgram, program: Program, target: Target) -> CoreProgram:
        """The transformed ``core`` of ``program``."""
