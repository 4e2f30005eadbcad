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


def strip(rects: Iterable[Child], label: str | None = None) -> Markup:
    """A drawing as wide as its place, 100 by 10: a bar of ``rects``. Without a ``label`` readers of screens skip it."""
    seen, hidden = ("img", None) if label else (None, "true")
    ends = {"viewBox": "0 0 100 10", "preserveAspectRatio": "none"}
    return tag("svg", rects, **ends, role=seen, aria_hidden=hidden, aria_label=label)


def side_by_side(parts: Iterable[tuple[float, str]]) -> list[Markup]:
    """The rects of a bar: parts of 1, each with its class, one beside the other."""
    rects: list[Markup] = []
    x = 0.0
    for part, class_ in parts:
        width = part * 100
        if width > 0:
            rects.append(tag("rect", x=x, width=width, height=10, class_=class_))
        x += width
    return rects


def _attribute(key: str) -> str:
    return key.rstrip("_").replace("_", "-") if key != "viewBox" else key


def _plain(value: str | float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
