"""The checks of `make release` find what must not be published; the release itself needs a package index."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.release import faults, first_program, undescribed

ROOT = Path(__file__).parent.parent
GOOD = [
    "nki/__init__.py",
    "nki/py.typed",
    "nki/isa/__init__.pyi",
    "nki/backend/cpu/native/runtime.ll",
    "neuronxcc/nki/__init__.py",
    "nki_pytest/__init__.py",
    "open_nki/shims/__init__.py",
    "open_nki-0.1.0.dist-info/METADATA",
    "open_nki-0.1.0.dist-info/licenses/LICENSE",
]


def test_good_wheel() -> None:
    assert faults(GOOD) == []


def test_what_the_wheel_needs_is_in_the_checkout() -> None:
    for name in GOOD[:7]:
        assert (ROOT / "src" / name).is_file()


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ([*GOOD, "nki/numerics/fast.so"], "nki/numerics/fast.so is compiled code"),
        ([*GOOD, "tests/__init__.py"], "tests/__init__.py lies outside of the packages"),
        ([name for name in GOOD if name != "nki/py.typed"], "nki/py.typed is missing"),
        (GOOD[:-1], "the license is missing"),
    ],
)
def test_bad_wheel(names: list[str], reason: str) -> None:
    assert faults(names) == [reason]


def test_version_needs_a_section() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert undescribed("0.1.0", changelog) == []
    assert undescribed("9.9.9", changelog) == ["CHANGELOG.md has no section [9.9.9]"]
    assert undescribed("9.9.10.dev1+g0123abc", changelog) == []


def test_changelog_is_no_diary() -> None:
    sections = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    for section in sections:
        assert section.count("\n") <= 80, section.split("\n")[0]


def test_programs_of_a_readme() -> None:
    assert first_program("a\n```python\nx = 1\n```\nb\n```\nnki run\n```\n") == "x = 1\n"
    with pytest.raises(ValueError, match="2 programs"):
        first_program("```python\n1\n```\n```python\n2\n```\n")


def test_public_workflow_covers_the_classifiers() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    [row] = re.findall(r"python: \[(.*)\]", workflow)
    versions = re.findall(r"Programming Language :: Python :: (\d\.\d+)", project)
    assert versions == re.findall(r"\d\.\d+", row)
    assert f'requires-python = ">={versions[0]}"' in project
