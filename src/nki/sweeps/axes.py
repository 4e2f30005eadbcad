"""Axes of a space: the values of one name, or of several names together; and the reading of its other entries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from nki.base.sweep_errors import SpaceError
from nki.base.usage import nearest
from nki.sweeps.expressions import Expression, ExpressionError, read

MOST: Final = 100_000
"""Limit on the values of one axis."""
_RANGE: Final = ("from", "to", "step", "times")


@dataclass(frozen=True, slots=True)
class Axis:
    """Names that vary together, and their values: a row for each."""

    names: tuple[str, ...]
    values: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """A space that is being read; ``origin`` is the name that errors give it."""

    origin: str

    def wrong(self, place: str, message: str, fix: str = "") -> SpaceError:
        """The error about an entry."""
        return SpaceError(f"{self.origin}: {place}: {message}", fix=fix)

    def table(self, table: Mapping[str, Any], key: str) -> Mapping[str, Any]:
        """The table under ``key``; empty if there is none."""
        value = table.get(key, {})
        if not isinstance(value, Mapping):
            raise self.wrong(key, f"{value!r:.60} is no table", f"write [{key}] and a line for each name")
        return cast("Mapping[str, Any]", value)

    def texts(self, table: Mapping[str, Any], key: str) -> list[str]:
        """The text, or the list of texts, under ``key``; empty if there is none."""
        value: Any = table.get(key, [])
        found = list(cast("list[Any]", value)) if isinstance(value, list | tuple) else [value]
        if not all(isinstance(each, str) for each in found):
            raise self.wrong(key, f"{value!r:.60} is no text and no list of texts", f'write {key} = ["…"]')
        return found

    def numbers(self, table: Mapping[str, Any], key: str, least: int) -> list[int]:
        """The whole number, or the list of them, under ``key``; empty if there is none."""
        value: Any = table.get(key, [])
        found = list(cast("list[Any]", value)) if isinstance(value, list | tuple) else [value]
        if not all(type(each) is int and each >= least for each in found):
            raise self.wrong(
                key, f"{value!r:.60} is no list of whole numbers from {least} on", f"write {key} = [{least}]"
            )
        return found

    def expression(self, place: str, text: str, names: Sequence[str], own: Sequence[str]) -> Expression:
        """The expression in ``text``, over ``names`` of the space and the ``own`` ones of every point."""
        try:
            found = read(text)
        except ExpressionError as error:
            raise self.wrong(place, str(error)) from None
        for name in found.names:
            if name not in names and name not in own:
                raise self.wrong(
                    place, f"{text!r} names {name!r}, which does not vary", nearest(name, [*names, *own], "names")
                )
        return found


def axis_of(reading: Reading, name: str, value: Any) -> Axis:
    """The axis ``name = value``: a value, a list, a range, or for ``"a, b"`` a list of pairs."""
    names = tuple(part.strip() for part in name.split(","))
    for part in names:
        if not part.isidentifier():
            raise reading.wrong(name, f"{part!r} is no name", "use letters, digits and _")
    values = _values(reading, name, value)
    if not values:
        raise reading.wrong(name, "the list is empty", "give it a value")
    if len(names) == 1:
        return Axis(names, tuple((each,) for each in values))
    for row in values:
        if not isinstance(row, list | tuple) or len(cast("list[Any]", row)) != len(names):
            raise reading.wrong(name, f"{row!r:.60} has no value for each name", f"write a list of {len(names)} values")
    return Axis(names, tuple(tuple(row) for row in values))


def _values(reading: Reading, name: str, value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return _range(reading, name, cast("Mapping[str, Any]", value))
    return list(cast("list[Any]", value)) if isinstance(value, list | tuple) else [value]


def _range(reading: Reading, name: str, value: Mapping[str, Any]) -> list[int]:
    """The numbers ``from`` … ``to``, both included, by ``step`` or each ``times`` the one before."""
    fix = f"write {name} = {{ from = 128, to = 1024, step = 128 }}, or times = 2 in place of a step"
    for key, number in value.items():
        if key not in _RANGE or type(number) is not int:
            raise reading.wrong(name, f"{key} = {number!r} is no part of a range", fix)
    if "from" not in value or "to" not in value or len({"step", "times"} & value.keys()) > 1:
        raise reading.wrong(name, "a range has from, to, and one of step and times", fix)
    step, times = value.get("step", 1), value.get("times", 1)
    if step < 1 or ("times" in value and (times < 2 or value["from"] < 1)):
        raise reading.wrong(name, "this range does not grow", fix)
    numbers: list[int] = []
    number = value["from"]
    while number <= value["to"]:
        numbers.append(number)
        if len(numbers) > MOST:
            raise reading.wrong(name, f"this range has more than {MOST:,} values", fix)
        number = number * times if "times" in value else number + step
    return numbers
