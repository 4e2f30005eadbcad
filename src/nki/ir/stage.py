"""A stage of the pipeline: a transformation of a program, and the legality specification of its result.

A stage is a frozen dataclass: its options are its fields. :meth:`Stage.run` transforms the program, :meth:`Stage.check`
states, over all cores, the property that holds from then on. Users see errors of ``run``; ``check`` fails only if the
stage itself is wrong, or where the property cannot be known before all cores are complete.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from nki.ir.program import CoreProgram, Program
from nki.target.model import Target


@dataclass(frozen=True)
class Stage(ABC):
    """One stage; ``name`` is its word in files, dumps, tests and on the command line."""

    name: ClassVar[str]
    about: ClassVar[tuple[str, ...]] = ()
    """Effects of which some instruction must have one, or there is nothing to do for the stage; (): it always runs."""

    def concerns(self, program: Program) -> bool:
        """False if nothing in ``program`` is what the stage is about."""
        if not self.about:
            return True
        return any(getattr(effects, name) for core in program.cores for effects in core.effects for name in self.about)

    @abstractmethod
    def run(self, program: Program, target: Target) -> Program:
        """The transformed program."""

    @abstractmethod
    def check(self, before: Program, after: Program, target: Target) -> None:
        """Raise unless ``after``, the result of :meth:`run` for ``before``, is legal."""


class CoreStage(Stage):
    """A stage that transforms each core by itself."""

    def run(self, program: Program, target: Target) -> Program:
        return program.with_cores(self.transform(core, program, target) for core in program.cores)

    @abstractmethod
    def transform(self, core: CoreProgram, program: Program, target: Target) -> CoreProgram:
        """The transformed ``core`` of ``program``."""
