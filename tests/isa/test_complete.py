"""The instruction set has no holes: every instruction of the NKI reference is there with all that belongs to one."""

from __future__ import annotations

import io
from contextlib import redirect_stdout

import pytest

import nki.isa as nisa
from nki.describe import instruction_facts
from nki.ir.instruction import REGISTRY
from tests.support import instruction_bench

from .rule_cases import CASES
from .test_against_oracle import ORACLES
from .test_declaration import DOCUMENTED

EVERY = [*dict.fromkeys([*DOCUMENTED, *REGISTRY])]
"""Instructions of the NKI reference, and declared ones: the first test says that no other is public."""


def test_the_public_instructions_are_those_of_the_reference() -> None:
    public = {name for name, cls in REGISTRY.items() if cls.public}
    differing = sorted(public ^ set(DOCUMENTED))
    assert not differing, (
        f"{differing}: write the parameters of each public instruction, and of no other, in DOCUMENTED"
    )
    assert public <= set(nisa.__all__)


@pytest.mark.parametrize("name", EVERY)
def test_numpy_and_native_code_run_it(name: str) -> None:
    """Native code enters Python for what prints and where ranks meet, and for nothing else."""
    cls = REGISTRY[name]
    with redirect_stdout(io.StringIO()):
        assert instruction_facts.simulated(cls)
    assert instruction_facts.calls_python(cls) == (name == "device_print" or cls.effects.collective is not None)


@pytest.mark.parametrize("name", EVERY)
def test_an_oracle_judges_what_it_writes(name: str) -> None:
    """``test_against_oracle`` runs each; it has vectors, and not all are refused."""
    if not REGISTRY[name].write_names:
        assert name in ("core_barrier", "device_print")
        return
    assert ORACLES[name].VECTORS and callable(ORACLES[name].oracle)
    assert any(param.values[0] == name for param in instruction_bench.ON_GENERATIONS)


@pytest.mark.parametrize("name", EVERY)
def test_it_has_rules_and_each_a_failing_test(name: str) -> None:
    """``test_rules`` runs the cases, and tells rules with the same code apart."""
    codes = {rule.code for rule in REGISTRY[name].rules}
    assert codes and codes == {case.code for case in CASES if case.mnemonic == name}
