"""Every rule of every instruction: the nearest call that breaks it, and the call one step back that is legal."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import nki.isa as nisa
import nki.language as nl
from nki import target as targets
from nki.base.errors import ArgumentError, NkiError
from nki.frontend.builder import Builder
from nki.frontend.dialect import default_dialect
from nki.ir.instruction import REGISTRY, Inst
from nki.ir.recorder import current, recording
from nki.ir.text.printer import show_inst
from nki.ir.types import Access
from nki.isa.api import freeze
from nki.language.releases import BETA_1, RELEASES

from .rule_cases import CASES, LEGAL
from .spec import Case, Spec, tile


def built(case: Case, changes: dict[str, Any]) -> dict[str, Any]:
    given = {**LEGAL[case.mnemonic], **case.twin, **changes}
    return {name: made(name, value) for name, value in given.items()}


def made(name: str, value: Any) -> Any:
    if isinstance(value, list) and value and isinstance(value[0], Spec):
        return [spec.make(f"{name}{number}") for number, spec in enumerate(value)]
    return value.make(name) if isinstance(value, Spec) else value


def call(
    mnemonic: str, arguments: dict[str, Any], target: str, release: str, *, after: dict[str, Any] | None = None
) -> None:
    """Record the instruction in a new kernel for ``release``, there behind one with the arguments ``after``."""
    dialect = default_dialect()
    if release:
        dialect = replace(dialect, releases=tuple(r for r in (BETA_1, *RELEASES) if r.version == release))
    with recording(Builder("kernel", targets.find(target), dialect=dialect)) as builder:
        for given in (after, arguments):
            # The builder supplies registers to those who call the function.
            own = given is not None and not given.keys().isdisjoint(("registers", "states"))
            if given is not None and (own or not REGISTRY[mnemonic].public):
                builder.emit(REGISTRY[mnemonic](**{name: freeze(value) for name, value in given.items()}))
            elif given is not None:
                getattr(nisa, mnemonic)(**given)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_rule(case: Case) -> None:
    legal, arguments = built(case, {}), built(case, case.broken)
    call(case.mnemonic, legal, case.legal_on or case.target, case.release)
    with pytest.raises(NkiError) as caught:
        call(case.mnemonic, arguments, case.target, case.release)
    if not case.legal_on:  # what one call passed, the next of its kind has to pass too
        with pytest.raises(type(caught.value), match=case.code):
            call(case.mnemonic, arguments, case.target, case.release, after=legal)
    error, rule = caught.value, first_broken(case)
    assert (error.rule, type(error)) == (case.code, rule.error)
    assert error.message.startswith(f"{case.mnemonic}: ") and "{" not in error.message + error.fix
    names = [f"'{value.name}'" for value in arguments.values() if isinstance(value, Access)]
    assert case.says in error.message if case.says else any(name in error.message for name in names)
    assert len(error.fix) > 10, f"{error.fix!r} is no fix: say what to write instead"
    assert len(rule.source) > 10, f"{rule.source!r} is no source: name the document and its section"


def instance(case: Case) -> Inst:
    return REGISTRY[case.mnemonic](**{name: freeze(value) for name, value in built(case, case.broken).items()})


def first_broken(case: Case) -> Any:
    generation = targets.find(case.target)
    inst = instance(case)
    applying = (r for r in inst.rules if r.applies_to(generation, case.release))
    return next(r for r in applying if not r.ok(inst, generation))


def test_every_rule_has_a_case() -> None:
    covered = {(case.mnemonic, id(first_broken(case))) for case in CASES}
    missing = {
        (mnemonic, rule.code)
        for mnemonic, cls in REGISTRY.items()
        for rule in cls.rules
        if (mnemonic, id(rule)) not in covered
    }
    assert not missing


JUNK = ["text", 1.5, -7, True, None, [], {}, (), (1, "a"), [[1]], object(), np.float32(2), np.zeros((4, 8)), nl.add]


def recorded(mnemonic: str, arguments: dict[str, Any]) -> None:
    """Call the public function, or one of another module; what has none is recorded as a compiler does."""
    if REGISTRY[mnemonic].public:
        getattr(nisa, mnemonic)(**arguments)
    elif hasattr(nl, mnemonic):
        getattr(nl, mnemonic)(*arguments.values())
    else:
        current(mnemonic).emit(REGISTRY[mnemonic](**{name: freeze(value) for name, value in arguments.items()}))


@pytest.mark.parametrize("mnemonic", REGISTRY)
@pytest.mark.parametrize("after_a_good_one", [False, True])
def test_arguments_of_a_wrong_kind_are_mistakes_of_the_user(mnemonic: str, after_a_good_one: bool) -> None:
    """Never a crash, also not after a call of the same signature was found legal."""
    for name in LEGAL[mnemonic]:
        for junk in JUNK:
            legal = built(Case(mnemonic, "", {}), {})
            builder = Builder("kernel", targets.GEN4)
            with recording(builder):
                if after_a_good_one:
                    recorded(mnemonic, legal)
                with contextlib.suppress(NkiError):
                    recorded(mnemonic, {**legal, name: junk})
                    show_inst(builder.body[-1])  # what was accepted is something that the text form knows


def test_text_is_no_number_after_a_number_was_accepted() -> None:
    with recording(Builder("kernel", targets.GEN4)):
        dst = tile(4, 8).make("dst")
        nisa.memset(dst, 1.0)
        for wrong in ("1", True, None):
            with pytest.raises(ArgumentError, match="value must be a number"):
                nisa.memset(dst, wrong)
        nisa.iota(dst, [[1, 8]], offset=1)
        with pytest.raises(ArgumentError, match="offset must be a number"):
            nisa.iota(dst, [[1, 8]], offset=1.0)
