"""The schema of ``--json`` as JSON Schema, and as a page, both read from the records."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterable, Iterator
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from nki.cli.output.documents import (
    AccuracyDocument,
    CacheEntry,
    Check,
    Cleared,
    Dump,
    Explain,
    Info,
    KernelCalls,
    Migrate,
    Optimise,
    PartingDocument,
    Prove,
    Run,
    Sweep,
    Tune,
    Verify,
)
from nki.cli.output.findings import Failure, Finding
from nki.cli.output.printed import SCHEMA, Stamp
from nki.profiling.record import Details
from nki.profiling.steps.step_record import StepRecord
from nki.profiling.summary_fields import FIELDS


class Profile(Stamp, Details):
    """A session of `nki profile`. The document has one for each title, such as `rms_normalise on trn2`; for a target
    that refuses the kernel, the error instead.
    """

    warnings: Annotated[list[Finding], "the warnings of the compiler"]


class Step(Stamp, StepRecord):
    """A session of `nki profile --step`: the kernels that a function calls, and what it does between them. The document
    has one for each title, such as `decode on trn2`; for a target that refuses a kernel, the error instead.
    """

    warnings: Annotated[list[Finding], "the warnings of the compiler"]


class Document(NamedTuple):
    """The output of a command: its record, further ``fields`` (name, type, meaning), and if it is a list of records, or
    an object of them by title.
    """

    record: Any
    fields: tuple[tuple[str, Any, str], ...] = ()
    several: Literal["", "list", "by title"] = ""


DOCUMENTS: Final[dict[str, Document]] = {
    "run": Document(Run),
    "profile": Document(Profile, FIELDS, "by title"),
    "profile --step": Document(Step, several="by title"),
    "prove": Document(Prove),
    "accuracy": Document(AccuracyDocument),
    "accuracy --bisect": Document(PartingDocument),
    "optimise": Document(Optimise),
    "verify": Document(Verify),
    "check": Document(Check),
    "migrate": Document(Migrate),
    "dump": Document(Dump),
    "explain": Document(Explain),
    "cache": Document(CacheEntry, several="list"),
    "cache --clear": Document(Cleared),
    "sweep": Document(Sweep),
    "tune": Document(Tune),
    "info": Document(Info),
    "info MODULE": Document(KernelCalls),
}
"""By command, its output with ``--json`` if it does not fail."""
FAILURE: Final = Document(Failure)
"""The output of every command that fails."""


_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


RECORDS: Final = "reference/json_records.md"
"""The page of the records, as the page of the documents links to it."""


class Field(NamedTuple):
    """A field of a record: its type, its meaning, and if it is always there."""

    name: str
    type: Any
    text: str
    required: bool


def fields(record: Any) -> Iterator[Field]:
    """The fields of a record, the fields of its bases first."""
    for name, hint in get_type_hints(record, include_extras=True).items():
        required = get_origin(hint) is not NotRequired
        annotated = hint if required else get_args(hint)[0]
        kind, text = get_args(annotated)[:2]
        yield Field(name, kind, text, required)


def _fields(document: Document) -> list[Field]:
    own = list(fields(document.record))
    stamp = len(list(fields(Stamp)))
    return own[:stamp] + [Field(name, kind, text, True) for name, kind, text in document.fields] + own[stamp:]


def json_schema() -> dict[str, Any]:
    """The JSON Schema of each command's document, under its name in ``$defs``; ``failure`` is what any prints."""
    definitions: dict[str, Any] = {}
    for record in _records():
        definitions[record.__name__] = _object(fields(record))
    for command, document in {**DOCUMENTS, "failure": FAILURE}.items():
        schema = _object(_fields(document))
        if document.several == "list":
            schema = {"type": "array", "items": schema}
        elif document.several == "by title":
            either = {"anyOf": [schema, {"$ref": "#/$defs/failure"}]}
            schema = {"type": "object", "additionalProperties": either}
        definitions[command] = schema
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA, "$defs": definitions}


def _object(listed: Iterable[Field]) -> dict[str, Any]:
    rows = list(listed)
    return {
        "type": "object",
        "properties": {row.name: {**_schema(row.type), "description": row.text} for row in rows},
        "required": [row.name for row in rows if row.required],
        "additionalProperties": False,
    }


def _schema(kind: Any) -> dict[str, Any]:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return {}
    if kind in _PLAIN:
        return {"type": _PLAIN[kind]}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_schema(each) for each in arguments]}
    if origin is list:
        return {"type": "array", "items": _schema(arguments[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema(arguments[1])}
    assert is_typeddict(kind), f"{kind} has no JSON"
    return {"$ref": f"#/$defs/{kind.__name__}"}


def _records() -> list[Any]:
    """The records inside the documents, each behind the first one that has it."""
    found: dict[Any, None] = {}

    def look(record: Any) -> None:
        for field in fields(record):
            for inner in _inner(field.type):
                if inner not in found:
                    found[inner] = None
                    look(inner)

    for document in (*DOCUMENTS.values(), FAILURE):
        look(document.record)
    return list(found)


def _inner(kind: Any) -> Iterator[Any]:
    if is_typeddict(kind):
        yield kind
    for argument in get_args(kind):
        yield from _inner(argument)


Table = tuple[str, str, list[tuple[str, str, str]]]
"""A part of a page: a heading, what it is about, and rows of field, type and meaning."""


def documents() -> Iterator[Table]:
    """The parts of the page about the commands. Types that are records are links into :data:`RECORDS`."""
    for command, document in DOCUMENTS.items():
        yield f"nki {command}", _about(document.record), _rows(_fields(document), RECORDS)
    failure = _rows(_fields(FAILURE), RECORDS)
    yield "Errors", f"{_about(FAILURE.record)} Any command prints it if it fails.", failure


def records() -> Iterator[Table]:
    """The parts of the page :data:`RECORDS`: the records inside the documents."""
    for record in _records():
        yield record.__name__, _about(record), _rows(fields(record), "")


def _about(record: Any) -> str:
    return " ".join((inspect.getdoc(record) or "").split())


def _rows(listed: Iterable[Field], page: str) -> list[tuple[str, str, str]]:
    return [
        (f"`{row.name}`" + ("" if row.required else " (if any)"), _type(row.type, page), row.text) for row in listed
    ]


def _type(kind: Any, page: str) -> str:
    """The words for a type; records are links into ``page``."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return "any"
    if kind in _PLAIN:
        return _PLAIN[kind]
    if origin is Literal:
        return " or ".join(f'`"{each}"`' for each in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(_type(each, page) for each in arguments)
    if origin is list:
        return f"list of {_type(arguments[0], page)}"
    if origin is dict:
        return f"object of {_type(arguments[1], page)} by name"
    return f"[{kind.__name__}]({page}#{kind.__name__.lower()})"
