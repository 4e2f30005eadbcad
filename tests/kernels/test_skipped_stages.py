"""Stages that pass a program by because nothing in it concerns them would have changed nothing."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from nki.compilation.executable import NATIVE_STAGES
from nki.compilation.pipeline import STAGES
from nki.ir.program import Program
from nki.ir.stage import Stage
from nki.target import find

from . import test_corpus  # noqa: F401  # enters the kernels into the corpus
from .case import CASES

BY_NAME: dict[str, Stage] = {stage.name: stage for stage in (*STAGES, *NATIVE_STAGES)}


def unconcerned(name: str, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The stages that leave the program of a kernel of the corpus as it is."""
    seen: list[tuple[str, Program]] = []
    CASES[name].compile(monkeypatch, observe=lambda stage, program: seen.append((stage, program)))
    program = seen[-1][1]
    target = find(program.target)
    steps = [(BY_NAME[after], before) for (_, before), (after, _) in pairwise(seen)]
    for stage in NATIVE_STAGES:
        steps.append((stage, program))
        program = stage.run(program, target)
    passed = [(stage, before) for stage, before in steps if not stage.concerns(before)]
    for stage, before in passed:
        assert stage.run(before, target) == before, f"{stage.name} changes {name}"
    return {stage.name for stage, _ in passed}


def test_a_stage_changes_nothing_that_does_not_concern_it(monkeypatch: pytest.MonkeyPatch) -> None:
    passed = Counter(stage for name in CASES for stage in unconcerned(name, monkeypatch))
    about = {name for name, stage in BY_NAME.items() if stage.about or type(stage).concerns is not Stage.concerns}
    assert set(passed) == about - {"copy_elimination"}, "each is passed by, but for copies, which all kernels have"
    assert passed["epilogue"] > len(CASES) // 3
