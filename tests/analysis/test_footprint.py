"""The footprint of an instruction is what the executor reads and writes, whatever its operands."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nki.analysis.footprint import Footprint
from nki.backend.numpy import executor
from nki.ir.execution_observer import ExecutionObserver
from nki.ir.instruction import REGISTRY, Inst
from nki.ir.sample import Draw
from nki.ir.types import Access
from nki.target.model import Target
from tests.support import instruction_bench as bench

SAMPLES = 25


class Recorded(Footprint):
    def __init__(self) -> None:
        self.accesses: list[tuple[str, Any]] = []

    def reads(self, access: Access) -> None:
        self.accesses.append(("read", place(access)))

    def writes(self, access: Access) -> None:
        self.accesses.append(("write", place(access)))


class Observed(ExecutionObserver):
    """Records the accesses of one instruction of a run."""

    def __init__(self, trial: Inst) -> None:
        self.accesses: list[tuple[str, Any]] = []
        self._trial = trial
        self._is_on = False

    def begin(self, inst: Inst) -> None:
        self._is_on = inst is self._trial

    def reads(self, access: Access) -> None:
        if self._is_on:
            self.accesses.append(("read", place(access)))

    def writes(self, access: Access) -> None:
        if self._is_on:
            self.accesses.append(("write", place(access)))


def names(inst: Inst) -> list[str]:
    return [access.tensor.name for access in inst.accesses()]


def place(access: Access) -> tuple[Any, ...]:
    return (access.tensor.name, access.offset, access.shape, access.strides, access.dtype.itemsize)


@pytest.mark.parametrize(("name", "target"), bench.ON_GENERATIONS)
def test_a_footprint_is_what_a_run_touches(name: str, target: Target) -> None:
    compared = 0
    for number in range(SAMPLES):
        rng = bench.source("footprint", name, target.name, number)
        inst = bench.sample(REGISTRY[name], Draw(rng, target))
        if any(access.dynamic is not None for access in inst.accesses()):
            continue
        made = bench.program([inst], target)
        # The compiler has copied the instruction: its own copy has its mnemonic and the names of its tensors.
        (statement,) = (i for i in made.kernel.core.numbered if i.mnemonic == name and names(i) == names(inst))
        recorded, observed = Recorded(), Observed(statement)
        recorded.visit(statement)
        executor.run(made.kernel, made.fill(np.random.default_rng(number)), lambda _, __, each=observed: each)
        assert recorded.accesses == observed.accesses, statement
        compared += 1
    assert compared or inst.indexed_by()
