"""Entries of kernels with float arguments: one for all values of those that launches pass.

Whether a kernel takes the value of a float while it is compiled is known only then. The entry of a kernel that takes
none has the digest without any value. Of other kernels a note under that digest lists the floats that they take, with
the line of each, and the digest of the entry has the values of these.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from nki.base import files
from nki.base.errors import NkiError
from nki.base.source import Noted, Span, Where
from nki.base.warning import Warned
from nki.compilation.cache import store
from nki.compilation.cache.fingerprint import Fingerprint
from nki.ir.floats.runtime_float import RuntimeFloat, Uses
from nki.ir.instruction import NOWHERE
from nki.ir.program import Program
from nki.ir.text import artifact
from nki.target.model import Target


def load(key: Fingerprint, specs: Mapping[str, Any], target: Target) -> tuple[Program, list[Warned]] | None:
    """The kernel under ``key`` and the warnings of its compilation; None if there is no entry.

    The values of the floats that it was compiled for are noted for the run-time floats among ``specs``.
    """
    floats = _floats(specs)
    kept = store.load(key.digest, specs, target, list(floats))
    if kept is not None or not floats:
        return kept
    for taken in _notes(store.note_path(key.digest)):
        if taken.keys() <= floats.keys():
            values = {name: floats[name].current() for name in taken}
            passed = [name for name in floats if name not in taken]
            if kept := store.load(key.for_values(values), specs, target, passed):
                _uses(floats).update(taken)
                return kept
    return None


def save(key: Fingerprint, program: Program, code: Any, specs: Mapping[str, Any], warned: Iterable[Warned]) -> None:
    """Keep ``program``, the kernel of the function with ``code`` that was compiled for ``specs``, if possible."""
    floats = _floats(specs)
    passed = {spec.name for spec in program.signature.floats}
    values = {name: value.current() for name, value in floats.items() if name not in passed}
    if values:
        uses = _uses(floats)
        _note(store.note_path(key.digest), {name: uses.get(name, NOWHERE) for name in values})
    store.store(key.for_values(values), program, code, specs, warned)


def _floats(specs: Mapping[str, Any]) -> dict[str, RuntimeFloat]:
    return {name: value for name, value in specs.items() if type(value) is RuntimeFloat}


def _uses(floats: Mapping[str, RuntimeFloat]) -> Uses:
    """The uses that all floats of one compilation share."""
    uses = next(iter(floats.values())).uses
    return {} if uses is None else uses


def _notes(path: Path) -> Iterator[dict[str, Where]]:
    """For each kernel, the floats that it takes and the places where it does; none if there is no note."""
    data = files.read(path)
    try:
        listed: Any = artifact.about(data).get("compiled in", []) if data is not None else []
        for item in cast("list[dict[str, list[Any]]]", listed):
            yield {str(n): Noted(Span(str(file), int(line))) if file else NOWHERE for n, (file, line) in item.items()}
    except (NkiError, AttributeError, TypeError, ValueError):
        return


def _note(path: Path, taken: Mapping[str, Where]) -> None:
    known = list(_notes(path))
    if any(one.keys() == taken.keys() for one in known):
        return
    listed = [{name: _place(where) for name, where in one.items()} for one in (*known, taken)]
    with contextlib.suppress(OSError):
        files.write(path, artifact.note({"compiled in": listed}))


def _place(where: Where) -> list[str | int]:
    return ["", 0] if where.span is None else [where.span.file, where.span.line]


__all__ = ["load", "save"]
