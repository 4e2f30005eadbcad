"""HTML and SVG as text: attributes and text of elements are escaped, whatever a kernel is called."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

_VOID = {"meta", "link", "input", "br", "wbr"}


class Markup(str):
    """Text that is markup already; any other text is escaped where it goes into an element."""

    __slots__ = ()


Child = str | int | float | None
Attribute = str | int | float | bool | None


def tag(name: str, /, *children: Child | Iterable[Child], **attributes: Attribute) -> Markup:
    """An element. Attributes that are None or False are left out; ``class_`` is ``class``, other ``_`` are ``-``."""
    written = "".join(
        f' {_attribute(key)}="{"" if value is True else escape(_plain(value))}"'
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in _VOID:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{joined(*children)}</{name}>")


def joined(*children: Child | Iterable[Child]) -> Markup:
    """The children one after the other; plain text is escaped."""
    parts: list[str] = []
    for child in children:
        if isinstance(child, Markup):
            parts.append(child)
        elif isinstance(child, str | int | float):
            parts.append(escape(_plain(child), quote=False))
        elif child is not None:
            parts.append(joined(*child))
    return Markup("".join(parts))


def _attribute(key: str) -> str:
    return key.rstrip("_").replace("_", "-") if key != "viewBox" else key


def _plain(value: str | float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
