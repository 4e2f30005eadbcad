"""Small random programs: every executor, number of threads, stage and rule gives the same bits.

The verifier of the kernel IR and the check of each stage run along. The shares say that the property tests something:
so many of the examples change where a stage or a rule is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from nki import target as targets
from nki.backend.cpu.kernel_ir import lower as kernel_ir
from nki.backend.cpu.runtime import launch
from nki.backend.cpu.runtime.routines import is_indirect, loop_listing
from nki.backend.numpy import executor
from nki.compilation import executable
from nki.compilation.pipeline import run_stages
from nki.ir.program import Program
from nki.numerics.matmul.host import has_pairs
from tests.support import small_programs
from tests.support.compiled_anew import leave_out
from tests.support.instruction_bench import EXAMPLES, SEED
from tests.support.shared_launches import at_once, launched, outputs_of, shared

__all__ = ["shared"]
RULES = [rule.__name__ for rule in kernel_ir.RULES]
COUNT = EXAMPLES if EXAMPLES > 50 else EXAMPLES // 2
"""Programs of each kind: half as many as examples elsewhere, unless more are asked for."""
NEEDED = {"lower_sendrecv"}
"""Stages without which native code cannot run what they lower."""
pytestmark = pytest.mark.filterwarnings("ignore:nl.divide", "ignore::nki.base.warning.NkiPortabilityWarning")


def changing_stages(program: Program) -> list[str]:
    """The names of the stages that change ``program``."""
    bodies, names = [[statement for core in program.cores for statement in core.body]], list[str]()

    def observe(name: str, after: Program) -> None:
        bodies.append([statement for core in after.cores for statement in core.body])
        if list(map(id, bodies[-1])) != list(map(id, bodies[-2])):
            names.append(name)

    run_stages(program, targets.find(program.target), executable.NATIVE_STAGES, observe=observe)
    return names


def changing_rules(program: Program, patch: pytest.MonkeyPatch) -> list[str]:
    """The names of the rules without which the kernel IR of ``program`` is another one."""
    with_all = loop_listing(executable.lower(program))
    found: list[str] = []
    for name in RULES:
        with patch.context() as inner:
            leave_out(inner, name)
            if loop_listing(executable.lower(program)) != with_all:
                found.append(name)
    return found


class Runs:
    """The runs of one example."""

    def __init__(self, kind: str, number: int, patch: pytest.MonkeyPatch) -> None:
        self.example, self.patch = small_programs.example(kind, number), patch
        self.program, self.arrays = self.example.program(), self.example.arrays()
        with np.errstate(all="ignore"):
            self.expected = [np.ascontiguousarray(each).tobytes() for each in executor.run(self.program, self.arrays)]

    def check(self, what: str, threads: Sequence[int] = (3,)) -> None:
        for count, outputs in zip(threads, launched(self.program, self.arrays, self.patch, threads), strict=True):
            assert outputs == self.expected, f"{what} on {count} threads, seed {SEED}: {self.example}"

    def without_each(self) -> list[str]:
        """The stages and rules that change the program; without each of them its bits are the same."""
        names = [*changing_stages(self.program), *changing_rules(self.program, self.patch)]
        for name in names:
            if name not in NEEDED:
                with self.patch.context() as inner:
                    leave_out(inner, name)
                    self.check(f"without {name}")
        return names


@pytest.mark.parametrize("kind", small_programs.KINDS)
def test_executors_and_threads_agree(kind: str, shared: pytest.MonkeyPatch) -> None:
    for number in range(COUNT):
        Runs(kind, number, shared).check("all", (1, 2, 3, 5, 8))


LEAST = {
    "elements": {"copy_elimination": 90, "fuse": 40, "dead_stores": 40, "rematerialize": 5},
    "sums": {"copy_elimination": 90, "fuse": 60, "group_reductions": 4, **dict.fromkeys(RULES, 10)},
    "products": {"fold_transposes": 20, "share_loads": 15, "layouts": 10, "epilogue": 10, "fuse": 60},
    "moves": {"lower_sendrecv": 8, "gathers": 4, "copy_elimination": 90, "fuse": 40},
}
"""The least shares of examples that stages and rules change, or that have indirect views, in percent."""


@pytest.mark.parametrize("kind", small_programs.KINDS)
def test_stages_and_rules_change_no_bit(kind: str, shared: pytest.MonkeyPatch) -> None:
    """Each left out in turn; and many examples have something for it to do, else nothing would be tested."""
    count, changed = COUNT, Counter[str]()
    for number in range(count):
        runs = Runs(kind, number, shared)
        changed.update(runs.without_each())
        changed["gathers"] += any(map(is_indirect, runs.program.instructions()))
    least = {name: share for name, share in LEAST[kind].items() if name != "epilogue" or has_pairs()}
    shares = {name: 100 * changed[name] // count for name in least}
    assert {name: share for name, share in shares.items() if share < least[name]} == {}


def test_each_stage_and_each_rule_is_asked_for() -> None:
    assert {*RULES, "gathers", *(stage.name for stage in executable.NATIVE_STAGES)} == {
        name for least in LEAST.values() for name in least
    }


@pytest.mark.parametrize("from_torch", [False, True])
def test_programs_at_once(from_torch: bool, shared: pytest.MonkeyPatch) -> None:
    """Five Python threads with a program each, on the team's threads, or on PyTorch's."""
    if from_torch:
        torch = pytest.importorskip("torch")
        shared.setattr(launch, "torch_threads", lambda: 3)
        assert torch.ones(1 << 17).exp().sum() > 0
    shared.setenv("NKI_NUM_THREADS", "3")
    every = [Runs("moves", number, shared) for number in range(5)]
    cases = [(runs, executable.Executable(runs.program)) for runs in every]
    wrong: list[int] = []

    def work(number: int) -> None:
        runs, compiled = cases[number]
        for _ in range(20):
            inputs = [array.copy() for array in runs.arrays]
            outputs = outputs_of(compiled, *inputs, from_torch=from_torch)
            if [output.tobytes() for output in outputs] != runs.expected:
                wrong.append(number)

    at_once(work)
    assert not wrong
