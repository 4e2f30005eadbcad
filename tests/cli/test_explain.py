"""``nki explain``."""

from __future__ import annotations

import re

from nki.base.errors import NkiError
from nki.cli.explain import grouped
from nki.ir.inst import REGISTRY
from tests.cli.command import complaint


def test_every_error_is_explained(nki):
    for code, cls in NkiError.registry.items():
        ran = nki("explain", code)
        assert ran.code == 0 and ran.out.startswith(f"{code}: {cls.__name__}\n")
        assert (cls.__doc__ or "").split()[0] in ran.out


def test_every_instruction_and_rule_is_explained(nki):
    known = [name for name, cls in REGISTRY.items() if cls.public]
    assert len(known) >= 18
    for name in known:
        ran = nki("explain", f"nisa.{name}")
        assert ran.code == 0 and ran.out.startswith(f"nisa.{name}(")
        assert "{" not in ran.out.partition("\nrules\n")[2]
        for rule in REGISTRY[name].rules:
            assert f"\n  {rule.code}  " in ran.out
    for code in {rule.code for name in known for rule in REGISTRY[name].rules}:
        ran = nki("explain", code)
        assert ran.code == 0 and ran.out.startswith(f"rule {code}\n") and "instructions: " in ran.out


def test_rules_that_differ_in_the_operand_are_shown_once(nki):
    shown = nki("explain", "tensor_tensor").out
    assert shown.count("TL02  operand has <operand.partitions> partitions") == 1
    assert "operand: dst, data1, data2" in shown
    codes = [g.rule.code for g in grouped([REGISTRY["tensor_tensor"]])]
    assert len(codes) == len(set(codes))


def test_error_lists_its_rules_and_an_error_report_can_be_pasted(nki):
    assert "TL02  operand has" in nki("explain", "NKI-SH002").out
    assert nki("explain", "[NKI-SH002/TL02]").out == nki("explain", "tl02").out


def test_errors_show_a_golden_report(nki):
    shown = nki("explain", "NKI-FE016").out
    assert "\n  del " in shown or "\n      del " in shown
    assert "[NKI-FE016] NKI has no `del`" in shown and "\n    fix: use `pop`" in shown


def test_all_topics_are_listed(nki):
    shown = nki("explain").out
    for name in (*NkiError.registry, *(n for n, cls in REGISTRY.items() if cls.public)):
        assert re.search(rf"^  {name} +\S", shown, re.MULTILINE), name


def test_unknown_topics(nki):
    assert "did you mean tensor_scalar" in complaint(nki("explain", "tensor_scalr"))
    assert "NKI-SH001" in complaint(nki("explain", "NKI-SH01"))
    assert "no rule 'XX99'" in complaint(nki("explain", "NKI-SH001/XX99"))
    assert "nki explain" in complaint(nki("explain", "~~~~"))
