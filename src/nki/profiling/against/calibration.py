"""Facts that a capture supports, in a file of the user, which later profiles load (``--facts FILE``, ``NKI_FACTS``).

The file is JSON and data only: the ``kernel``, ``target`` and ``capture`` that the facts were learned from, with its
``date``, and each fact with its ``value``, its ``unit``, and the ``least`` and ``most`` that explain the capture about
as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn, cast

from nki.base import knobs
from nki.base.profile_errors import CalibrationError, ProfileFileError
from nki.base.version import version
from nki.profiling.against.search import limits
from nki.target.fact_rows import Fact
from nki.target.model import Target

FORMAT: Final = "open-nki facts"
FORM: Final = 1
"""The version of the format."""
MARK: Final = "calibrated by "
"""The beginning of the source of a calibrated fact."""
_TEXTS: Final = ("kernel", "target", "capture", "date")
_NUMBERS: Final = ("value", "least", "most")


@dataclass(frozen=True, slots=True)
class CalibratedFact:
    """A ``value`` of a fact that a capture supports, with its ``unit``, and the ``least`` and the ``most``."""

    value: float
    unit: str
    least: float
    most: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """The facts learned from one ``capture`` of a ``kernel`` on a ``target`` at a ``date``; ``facts`` by name."""

    kernel: str
    target: str
    capture: str
    date: str
    facts: Mapping[str, CalibratedFact]

    def write(self, file: Path) -> Path:
        """Write the file. Raises :class:`ProfileFileError` if it cannot be written."""
        facts = {
            name: {"value": fact.value, "unit": fact.unit, "least": fact.least, "most": fact.most}
            for name, fact in self.facts.items()
        }
        head = {"format": FORMAT, "form": FORM, "open_nki": version()}
        document = {**head, **{name: getattr(self, name) for name in _TEXTS}, "facts": facts}
        try:
            file.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        except OSError as error:
            problem = f"{file}: {error.strerror or error}"
            raise ProfileFileError(problem, fix="choose a file that can be written") from None
        return file


def read(file: Path) -> Calibration:
    """The calibration in ``file``. Raises :class:`CalibrationError` for a file that is none."""
    try:
        document: Any = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        _refuse(file, f"{getattr(error, 'strerror', None) or error}")
    if not isinstance(document, dict) or cast("dict[str, Any]", document).get("format") != FORMAT:
        _refuse(file, f'field format is missing; "{FORMAT}" is expected')
    fields = cast("dict[str, Any]", document)
    if fields.get("form") != FORM:
        _refuse(file, f"field form is {fields.get('form')!r}; {FORM} is expected")
    for name in _TEXTS:
        if not isinstance(fields.get(name), str):
            _refuse(file, f"field {name} is {fields.get(name)!r}; a text is expected")
    facts = fields.get("facts")
    if not isinstance(facts, dict):
        _refuse(file, f"field facts is {facts!r:.40}; an object of facts by name is expected")
    known = dict(_facts(file, cast("dict[str, Any]", facts)))
    kernel, target, capture, date = (str(fields[name]) for name in _TEXTS)
    return Calibration(kernel, target, capture, date, known)


def _facts(file: Path, facts: dict[str, Any]) -> Iterator[tuple[str, CalibratedFact]]:
    for name, fact in facts.items():
        entries = cast("dict[str, Any]", fact) if isinstance(fact, dict) else {}
        for number in _NUMBERS:
            value = entries.get(number)
            if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < float("inf"):
                _refuse(file, f"field facts.{name}.{number} is {value!r}; a number that is not negative is expected")
        if not isinstance(entries.get("unit"), str):
            _refuse(file, f"field facts.{name}.unit is {entries.get('unit')!r}; a text is expected")
        yield name, CalibratedFact(entries["value"], entries["unit"], entries["least"], entries["most"])


def calibrated(target: Target, file: str | Path | None = None) -> Target:
    """``target`` with the facts of ``file``; None: of ``NKI_FACTS``, if that names a file of this target.

    Raises :class:`CalibrationError` for a file that is none, is of another target, or names a fact that cannot be
    calibrated or has another unit.
    """
    named = file if file is not None else knobs.facts()
    if not named:
        return target
    path = Path(named)
    calibration = read(path)
    if calibration.target != target.name:
        if file is None:
            return target
        _refuse(path, f"field target is {calibration.target!r}; {target.name!r} is expected")
    return target.with_facts({name: _fact(path, target, calibration, name) for name in calibration.facts})


def _fact(path: Path, target: Target, calibration: Calibration, name: str) -> Fact[Any]:
    stated = calibration.facts[name]
    fact = target.facts().get(name)
    if fact is None or fact.range is None or isinstance(fact.value, bool) or not isinstance(fact.value, int | float):
        _refuse(path, f"facts.{name} is no fact of {target} that may be calibrated: a number with a range is expected")
    if stated.unit != fact.unit:
        _refuse(path, f"field facts.{name}.unit is {stated.unit!r}; {fact.unit!r} is expected")
    low, high = limits(fact)
    if not low <= stated.value <= high or not stated.least <= stated.value <= stated.most:
        _refuse(
            path,
            f"field facts.{name}.value is {stated.value:g}; a value from {low:g} to {high:g} is expected, between its "
            "least and most",
        )
    whole = isinstance(fact.value, int)
    ends = (stated.least, stated.most) if fact.range[0] <= fact.range[1] else (stated.most, stated.least)
    source = f"{MARK}{path.name}: capture of {calibration.kernel} on {calibration.target}, {calibration.date}"
    value, first, second = (round(each) if whole else float(each) for each in (stated.value, *ends))
    return Fact(value, fact.unit, source, "measured", None if first == second else (first, second))


def calibrated_facts(target: Target) -> dict[str, Fact[Any]]:
    """The facts of ``target`` that come from a file, by name."""
    return {name: fact for name, fact in target.facts().items() if fact.source.startswith(MARK)}


def about_facts(target: Target) -> list[str]:
    """A row for each file of facts that ``target`` has facts of."""
    by_source: dict[str, list[str]] = {}
    for name, fact in calibrated_facts(target).items():
        by_source.setdefault(fact.source, []).append(f"{name} {fact.value:g}{' ' + fact.unit if fact.unit else ''}")
    return [f"facts: {', '.join(facts)}, {source}" for source, facts in by_source.items()]


def _refuse(file: Path, problem: str) -> NoReturn:
    raise CalibrationError(
        f"{file}: {problem}", fix="pass a file that nki profile --against CAPTURE --calibrate FILE writes"
    )
