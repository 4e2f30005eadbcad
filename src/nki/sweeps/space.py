"""Spaces: the points at which a kernel is to run, from a TOML file or a dictionary of the same form.

``docs/sweep.md`` describes the form. A space names what varies, says how the kernel's arguments follow from that, in
the syntax of ``--arg``, and which combinations are legal. It is data: nothing of it is run.
"""

from __future__ import annotations

import itertools
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, cast

from nki import target as targets
from nki.base.errors import UnknownTargetError
from nki.base.sweep_errors import NoPointError, SpaceError
from nki.base.usage import UsageError, nearest
from nki.language.releases import RELEASES
from nki.sweeps.axes import Axis, Reading, axis_of
from nki.sweeps.expressions import IN_BRACES, Expression, ExpressionError, read, substituted
from nki.workload import arguments as argument
from nki.workload.arguments import TensorArgument

MOST: Final = 1_000_000
"""Limit on the combinations of a space that a sweep looks at."""
KEYS: Final = ("vary", "arguments", "where", "targets", "releases", "cores", "seeds", "reference", "tolerance", "tune")
_OWN: Final = ("target", "release", "cores", "seed")
"""Names that every point has beside the ones of the space."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """A result is right if it lies within ``absolute`` + ``relative`` · |reference|, or ``of_largest`` · the greatest
    |reference|. Without any number, rounding decides (:mod:`nki.sweeps.comparison`).
    """

    of_largest: float | None = None
    relative: float = 0.0
    absolute: float = 0.0


@dataclass(frozen=True, slots=True)
class Point:
    """A place in a space: the values of its names, and where and how the kernel runs there."""

    values: Mapping[str, Any]
    target: str | None
    release: str | None
    cores: int | None
    seed: int
    fill: str = ""
    """The filling of inputs that would be ``random``, if another one."""

    @property
    def names(self) -> dict[str, Any]:
        """All names that expressions know here."""
        own = {"target": self.target, "release": self.release, "cores": self.cores, "seed": self.seed}
        return {**self.values, **own}


@dataclass(frozen=True)
class Space:
    """Names that vary, the kernel's arguments as texts or values by parameter, conditions, and the judge of results."""

    origin: str
    axes: tuple[Axis, ...]
    arguments: Mapping[str, Any]
    where: tuple[Expression, ...] = ()
    targets: tuple[str | None, ...] = (None,)
    releases: tuple[str | None, ...] = (None,)
    cores: tuple[int | None, ...] = (None,)
    seeds: tuple[int, ...] = (0,)
    reference: str = ""
    tolerance: Tolerance = field(default_factory=Tolerance)
    choose: tuple[str, ...] = ()
    weight: Expression | None = None

    @property
    def combinations(self) -> int:
        """Number of combinations, legal or not."""
        lists = (self.targets, self.releases, self.cores, self.seeds)
        return math.prod([*(len(axis.values) for axis in self.axes), *map(len, lists)])

    def points(self) -> list[Point]:
        """The legal points, the last axis and the seed fastest. Raises :class:`NoPointError` if there are none."""
        if self.combinations > MOST:
            raise SpaceError(
                f"{self.origin} has {self.combinations:,} combinations; a sweep looks at {MOST:,} at most",
                fix="give fewer values, or let `nki tune` search",
            )
        excluded = dict.fromkeys((each.text for each in self.where), 0)
        points: list[Point] = []
        for values in self._values(self.axes):
            for rest in itertools.product(self.targets, self.releases, self.cores, self.seeds):
                point = Point(values, *rest)
                against = self.excluded_by(point)
                if against is None:
                    points.append(point)
                else:
                    excluded[against.text] += 1
        if not points:
            counts = "; ".join(f"{text!r} excludes {count}" for text, count in excluded.items() if count)
            raise NoPointError(
                f"{self.origin} has no legal point: of {self.combinations} combinations, {counts}",
                fix="change the conditions in `where`, or the values that they are about",
            )
        return points

    def excluded_by(self, point: Point) -> Expression | None:
        """The first condition that excludes ``point``."""
        names = point.names
        for condition in self.where:
            try:
                if not condition.value(names):
                    return condition
            except ExpressionError as error:
                raise SpaceError(f"{self.origin}: where: {error}", fix=f"the names are {', '.join(names)}") from None
        return None

    def texts(self, point: Point) -> tuple[str, ...]:
        """The arguments at ``point`` in the syntax of ``--arg NAME=…``."""
        texts = (f"{name}={self._text(name, value, point)}" for name, value in self.arguments.items())
        return tuple(refilled(text, point.fill) for text in texts) if point.fill else tuple(texts)

    @property
    def names_of_tensors(self) -> set[str]:
        """The names that tensors depend on."""
        first = Point(
            {n: v for axis in self.axes for n, v in zip(axis.names, axis.values[0], strict=True)}, *self._first
        )
        found: set[str] = set()
        for parameter, value in self.arguments.items():
            if _tensor(self._parsed(f"{parameter}={self._text(parameter, value, first)}")) is None:
                continue
            templates = [value]
            if value is Axis:
                found.add(parameter)
                templates = [row[0] for axis in self.axes if axis.names == (parameter,) for row in axis.values]
            for match in (m for each in templates if isinstance(each, str) for m in IN_BRACES.finditer(each)):
                found.update(read(match[1]).names if match[1] is not None else ())
        return found

    @property
    def _first(self) -> tuple[str | None, str | None, int | None, int]:
        return self.targets[0], self.releases[0], self.cores[0], self.seeds[0]

    def _parsed(self, text: str) -> Any:
        try:
            return argument.parse(text)[1]
        except UsageError as error:
            raise self._wrong("[arguments]", error.message.replace("--arg ", "", 1), error.fix) from None

    def _text(self, parameter: str, value: Any, point: Point) -> str:
        if value is Axis:  # a list of choices: an axis with the name of the parameter
            value = point.values[parameter]
        if not isinstance(value, str):
            return repr(value)
        try:
            return substituted(value, point.names)
        except (ExpressionError, KeyError) as error:
            raise self._wrong(f"[arguments] {parameter}", str(error)) from None

    def _values(self, axes: Sequence[Axis]) -> Iterator[dict[str, Any]]:
        for chosen in itertools.product(*(axis.values for axis in axes)):
            yield {n: v for axis, row in zip(axes, chosen, strict=True) for n, v in zip(axis.names, row, strict=True)}

    def _wrong(self, place: str, message: str, fix: str = "") -> SpaceError:
        return SpaceError(f"{self.origin}: {place}: {message}", fix=fix)

    def checked(self, kernel: str, parameters: Mapping[str, bool], takes_any: bool = False) -> Space:
        """The space, if it fits ``kernel`` with ``parameters``, by name: True for one without a default."""
        for name in self.arguments:
            if name not in parameters and not takes_any:
                fix = nearest(name, parameters, "parameters")
                raise self._wrong("[arguments]", f"kernel {kernel} has no parameter {name!r}", fix)
        missing = [name for name, needed in parameters.items() if needed and name not in self.arguments]
        if missing:
            raise self._wrong(
                "[arguments]", f"there is nothing for parameter {missing[0]!r} of kernel {kernel}",
                f'write {missing[0]} = "128x512:float32" for a tensor, or a constant',
            )  # fmt: skip
        return self

    def narrowed(self, **fields: Any) -> Space:
        """The same space with other ``fields``, as an option of a command sets them."""
        return replace(self, **fields)


def _tensor(value: Any) -> TensorArgument | None:
    return value if isinstance(value, TensorArgument) else None


def refilled(text: str, fill: str) -> str:
    """An argument NAME=…, with ``fill`` in place of random numbers if its dtype has such a filling."""
    name, value = argument.parse(text)
    tensor = _tensor(value)
    if tensor is None or tensor.fill != "random" or tensor.dtype.kind == "x":
        return text
    return f"{name}={'x'.join(map(str, tensor.shape))}:{tensor.dtype}:{fill}"


def of(given: Space | str | Path | Mapping[str, Any]) -> Space:
    """The space in a TOML file, or in a dictionary. Raises :class:`SpaceError`."""
    if isinstance(given, Space):
        return given
    if isinstance(given, Mapping):
        return _space(given, "space")
    path = Path(given)
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        near = nearest(path.name, (p.name for p in sorted(path.parent.glob("*.toml"))), f".toml files in {path.parent}")
        raise SpaceError(f"there is no file {path}", fix=near) from None
    except (OSError, UnicodeDecodeError) as error:
        raise SpaceError(f"cannot read {path}: {error}", fix="check the path") from None
    except tomllib.TOMLDecodeError as error:
        raise SpaceError(f"{path} is no TOML: {error}", fix="docs/sweep.md has an example") from None
    return _space(table, str(path))


def _space(table: Mapping[str, Any], origin: str) -> Space:
    reading = Reading(origin)
    for key in table:
        if key not in KEYS:
            raise reading.wrong(key, "this is no key of a space", nearest(key, KEYS, "keys"))
    axes = [axis_of(reading, name, value) for name, value in reading.table(table, "vary").items()]
    arguments = dict(reading.table(table, "arguments"))
    for name, value in arguments.items():
        if isinstance(value, list | tuple | dict):
            axes.append(axis_of(reading, name, value))
            arguments[name] = Axis
    names = [name for axis in axes for name in axis.names]
    for name in names:
        if names.count(name) > 1 or name in _OWN:
            raise reading.wrong(name, "this name varies twice", "rename one of them")
    where = tuple(reading.expression("where", text, names, _OWN) for text in reading.texts(table, "where"))
    tuning = reading.table(table, "tune")
    space = Space(
        origin=origin,
        axes=tuple(axes),
        arguments=arguments,
        where=where,
        targets=tuple(_target(reading, text) for text in reading.texts(table, "targets")) or (None,),
        releases=tuple(_release(reading, text) for text in reading.texts(table, "releases")) or (None,),
        cores=tuple(reading.numbers(table, "cores", 1)) or (None,),
        seeds=_seeds(reading, table.get("seeds", 1)),
        reference="".join(reading.texts(table, "reference")[:1]),
        tolerance=_tolerance(reading, table.get("tolerance")),
        choose=tuple(_chosen(reading, tuning, names)),
        weight=reading.expression("tune.weight", str(tuning["weight"]), names, _OWN) if "weight" in tuning else None,
    )
    _check_uses(reading, space, names)
    return space


def _check_uses(reading: Reading, space: Space, names: Sequence[str]) -> None:
    """Refuse an unknown name in an argument, and a name that varies for nothing."""
    used = {name for expression in space.where for name in expression.names}
    used |= {name for name, value in space.arguments.items() if value is Axis}
    for parameter, value in space.arguments.items():
        texts: list[Any] = [value]
        if value is Axis:
            texts = [row[0] for axis in space.axes if axis.names == (parameter,) for row in axis.values]
        for text in (each for each in texts if isinstance(each, str)):
            for match in IN_BRACES.finditer(text):
                if match[1] is not None:
                    used.update(reading.expression(f"[arguments] {parameter}", match[1], names, _OWN).names)
    for name in names:
        if name not in used:
            raise reading.wrong(
                f"[vary] {name}", "no argument and no condition uses it",
                f'write {{{name}}} into an argument, such as x = "{{{name}}}x512:float32"',
            )  # fmt: skip


def _target(reading: Reading, text: str) -> str:
    try:
        return targets.find(text).name
    except UnknownTargetError as error:
        raise reading.wrong("targets", error.message, error.fix) from None


def _release(reading: Reading, text: str) -> str:
    if text not in RELEASES.versions:
        raise reading.wrong("releases", f"there is no release {text!r}", f"releases: {', '.join(RELEASES.versions)}")
    return text


def _seeds(reading: Reading, value: Any) -> tuple[int, ...]:
    """A number of seeds, or a list of them."""
    if type(value) is int and value > 0:
        return tuple(range(value))
    return tuple(reading.numbers({"seeds": value}, "seeds", 0)) or (0,)


def _tolerance(reading: Reading, value: Any) -> Tolerance:
    if value is None:
        return Tolerance()
    given: dict[str, Any] = {"of_largest": value}
    if isinstance(value, dict):
        given = cast("dict[str, Any]", value)
    known = ("of_largest", "relative", "absolute")
    for name, number in given.items():
        if name not in known:
            raise reading.wrong("tolerance", f"there is no {name!r}", nearest(name, known, "tolerances"))
        if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number < math.inf:
            raise reading.wrong("tolerance", f"{number!r} is no tolerance", "write a number, such as 1e-3")
    return Tolerance(**{name: float(number) for name, number in given.items()})


def _chosen(reading: Reading, tuning: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    for key in tuning:
        if key not in ("choose", "weight"):
            raise reading.wrong(f"[tune] {key}", "this is no key", nearest(key, ("choose", "weight"), "keys"))
    chosen = reading.texts(tuning, "choose")
    for name in chosen:
        if name not in names:
            raise reading.wrong("[tune] choose", f"{name!r} does not vary", nearest(name, names, "names"))
    return chosen
