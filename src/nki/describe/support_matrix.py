"""The releases of NKI that have each name, parameter and piece of Python: rows of the support matrix.

The columns come from the dialects of the releases and from the tables that they enforce.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from nki.base.errors import NkiError
from nki.base.warning import number_of
from nki.describe.public_names import index, short
from nki.frontend.rewrite import WHILE
from nki.ir.deprecation import DeprecatedParameter
from nki.ir.instruction import REGISTRY
from nki.language import collective_functions
from nki.language.nki_dialects import NKI, RELEASED
from nki.language.releases import RELEASES

_TENSOR: Final = "nki.language.NkiTensor"


class Row(NamedTuple):
    """A line of the matrix: ``there`` has one entry for each of ``RELEASES``."""

    name: str
    there: tuple[bool, ...]


def releases_of(full: str) -> tuple[bool, ...]:
    """For each release, whether it has the name or parameter ``full``."""
    return RELEASES.have(full)


def functions() -> list[Row]:
    """The public names of ``nki.language``, ``isa``, ``collectives`` and ``tensor`` that are no instructions."""
    spaces = ("nki.language.", "nki.isa.", "nki.collectives.", "nki.tensor.")
    instructions = {f"nki.isa.{name}" for name, cls in REGISTRY.items() if cls.public}
    removed = {*NKI.removed.names, *NKI.removed.parameters} - NKI.removed.misplaced.keys()
    names = {n for n in index() if n.startswith(spaces) and n.count(".") == 2 and n not in instructions | removed}
    added = [name for release in RELEASES for name in release.names]
    nested = {name for name in added if name.count(".") > 2 and not name.startswith(_TENSOR)}
    return [Row(short(name), releases_of(name)) for name in sorted(names | nested)]


def tensor_members() -> list[Row]:
    """The public members of tensors."""
    names = [n.removeprefix("tensor.") for n in index() if n.startswith("tensor.") and not n.startswith("tensor._")]
    return [Row(f"t.{name}", releases_of(f"{_TENSOR}.{name}")) for name in sorted(names)]


def parameters() -> list[Row]:
    """The parameters that came after their function, and those that a release has dropped."""
    listed = dict.fromkeys(full for one in RELEASES for full in (*one.parameters, *one.removed_parameters))
    dropped = [
        Row(_parameter(f"{full}.{form.parameter}"), row)
        for full, form in _dropped()
        if any(row := tuple(number_of(version) < number_of(form.since) for version in RELEASES.versions))
    ]
    return sorted([*[Row(_parameter(full), releases_of(full)) for full in listed], *dropped])


def python() -> list[Row]:
    """The Python of a kernel, by the error of the releases that refuse it."""
    rows = [
        Row(f"{kind.code}: {_summary(kind)}", tuple(kind in dialect.python.accepted for dialect in RELEASED))
        for kind in NKI.python.accepted
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
    for name, value in vars(collective_functions).items():
        forms: dict[str, Any] = getattr(value, "deprecated_parameters", {})
        yield from ((f"nki.collectives.{name}", form) for form in forms.values())


__all__ = ["Row", "functions", "parameters", "python", "releases_of", "tensor_members"]
