"""The releases of NKI that have each name, parameter and piece of Python: rows of the support matrix.

The columns come from the dialects of the releases and from the tables that they enforce.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from nki.base.errors import NkiError
from nki.describe.names import index, short
from nki.frontend.rewrite import WHILE
from nki.ir.deprecation import DeprecatedParameter
from nki.ir.instruction import REGISTRY
from nki.language import collectives
from nki.language.dialect import NKI, RELEASED
from nki.language.releases.names import FIRST_RELEASE, FIRST_RELEASE_OF_PARAMETERS, RELEASES, has

_TENSOR: Final = "nki.language.NkiTensor"


class Row(NamedTuple):
    """A line of the matrix: ``there`` has one entry for each of ``RELEASES``."""

    name: str
    there: tuple[bool, ...]


def releases_of(full: str) -> tuple[bool, ...]:
    """For each release, whether it has the name or parameter ``full``."""
    return tuple(has(full, release) for release in RELEASES)


def functions() -> list[Row]:
    """The public names of ``nki.language``, ``isa``, ``collectives`` and ``tensor`` that are no instructions."""
    spaces = ("nki.language.", "nki.isa.", "nki.collectives.", "nki.tensor.")
    instructions = {f"nki.isa.{name}" for name, cls in REGISTRY.items() if cls.public}
    removed = {*NKI.removed.names, *NKI.removed.parameters}
    names = {n for n in index() if n.startswith(spaces) and n.count(".") == 2 and n not in instructions | removed}
    nested = {name for name in FIRST_RELEASE if name.count(".") > 2 and not name.startswith(_TENSOR)}
    return [Row(short(name), releases_of(name)) for name in sorted(names | nested)]


def tensor_members() -> list[Row]:
    """The public members of tensors."""
    names = [n.removeprefix("tensor.") for n in index() if n.startswith("tensor.") and not n.startswith("tensor._")]
    return [Row(f"t.{name}", releases_of(f"{_TENSOR}.{name}")) for name in sorted(names)]


def parameters() -> list[Row]:
    """The parameters that came after their function, and those that a release has dropped."""
    added = [Row(_parameter(full), releases_of(full)) for full in FIRST_RELEASE_OF_PARAMETERS]
    dropped = [
        Row(_parameter(f"{full}.{form.parameter}"), tuple(_before(release, form.since) for release in RELEASES))
        for full, form in _dropped()
        if _before(RELEASES[0], form.since)
    ]
    return sorted([*added, *dropped])


def python() -> list[Row]:
    """The Python of a kernel, by the error of the releases that refuse it."""
    rows = [
        Row(f"{kind.code}: {_summary(kind)}", tuple(not _before(release, since) for release in RELEASES))
        for kind, since in NKI.newer.since.items()
    ]
    loop = Row("a loop `while register:`", tuple(WHILE in dialect.hooks for dialect in RELEASED))
    return [*sorted(rows), loop]


def _summary(kind: type[NkiError]) -> str:
    return (inspect.getdoc(kind) or "").partition("\n")[0].rstrip(".")


def _parameter(full: str) -> str:
    function, _, parameter = full.rpartition(".")
    return f"{short(function)}({parameter}=)"


def _dropped() -> Iterator[tuple[str, DeprecatedParameter]]:
    for name, cls in REGISTRY.items():
        yield from ((f"nki.isa.{name}", form) for form in cls.deprecated.parameters)
    for name, value in vars(collectives).items():
        forms: dict[str, Any] = getattr(value, "deprecated_parameters", {})
        yield from ((f"nki.collectives.{name}", form) for form in forms.values())


def _before(release: str, other: str) -> bool:
    return RELEASES.index(release) < RELEASES.index(other)


__all__ = ["Row", "functions", "parameters", "python", "releases_of", "tensor_members"]
