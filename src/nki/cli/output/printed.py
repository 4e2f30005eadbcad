"""The one place that prints JSON, and the fields that every document has."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, TypedDict

from nki.base.version import version

SCHEMA: Final = "open-nki/1"
"""The name and the version of the schema; a field that goes, or changes its meaning, raises the number."""


class Stamp(TypedDict):
    """The fields of every document."""

    schema: Annotated[str, f"`{SCHEMA}`: the schema, with its version; new fields do not change it"]
    version: Annotated[str, "the version of Open NKI"]


def stamp() -> Stamp:
    """The fields of every document, of this package."""
    return {"schema": SCHEMA, "version": version()}


def print_document(document: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
    """Print a document, in one line."""
    print(json.dumps(document, allow_nan=False))
