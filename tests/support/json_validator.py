"""A validator of the parts of JSON Schema that the project's own schema uses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

KINDS = {"string": str, "boolean": bool, "null": type(None), "array": list, "object": dict}


def mistakes(value: Any, schema: dict[str, Any], root: dict[str, Any], at: str = "$") -> Iterator[str]:
    """The parts of ``value`` that do not agree with ``schema``; its references lead into ``root``."""
    if "$ref" in schema:
        yield from mistakes(value, root["$defs"][schema["$ref"].removeprefix("#/$defs/")], root, at)
    if "anyOf" in schema and all(list(mistakes(value, each, root, at)) for each in schema["anyOf"]):
        yield f"{at}: {value!r:.200} is none of {schema['anyOf']}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at}: {value!r} is none of {schema['enum']}"
    if "type" in schema and not is_of(value, schema["type"]):
        yield f"{at}: {value!r:.60} is no {schema['type']}"
        return
    if isinstance(value, list):
        for number, each in enumerate(value):
            yield from mistakes(each, schema.get("items", {}), root, f"{at}[{number}]")
    if isinstance(value, dict):
        known = schema.get("properties", {})
        others = schema.get("additionalProperties", {})
        yield from (f"{at}: no {name}" for name in schema.get("required", ()) if name not in value)
        for name, each in value.items():
            if name not in known and others is False:
                yield f"{at}: {name} is in no schema"
            elif name in known or others:
                yield from mistakes(each, known.get(name, others), root, f"{at}.{name}")


def is_of(value: Any, kind: str) -> bool:
    """True for a value of a type of JSON Schema; a whole number is a number, and a truth is none."""
    if kind in ("integer", "number"):
        return isinstance(value, int if kind == "integer" else (int, float)) and not isinstance(value, bool)
    return isinstance(value, KINDS[kind])
