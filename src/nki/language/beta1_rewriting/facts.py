"""Facts about tensors: what expressions were in a run of the old kernel, and what the source tells."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from nki.source_text.polynomial import Polynomial


@dataclass(frozen=True, slots=True)
class Seen:
    """A tensor that an expression was; ``blocks`` are the block dimensions, ``shape`` the others."""

    shape: tuple[int, ...]
    dtype: str
    buffer: str  # "sbuf", "psum" or "hbm"
    blocks: tuple[int, ...] = ()


class Facts:
    """The values that expressions had, by syntax node; empty where nothing has run."""

    def __init__(self, *, assumed: bool = False) -> None:
        self.assumed = assumed
        """A kernel is being mended: its calls may be of today, and operands of unknown shape have two dimensions."""
        self.tensors: dict[int, Seen] = {}
        self.others: dict[int, str] = {}
        """Expressions that were no tensors, by the kind of value: "number", "index", "list", …"""
        self.all: dict[int, set[Seen]] = {}
        """All different tensors that an expression was."""
        self.varying: set[int] = set()
        """Expressions that were different tensors at different times."""
        self.reached: set[int] = set()
        """Expressions that were evaluated."""

    def seen(self, node: ast.AST) -> Seen | None:
        """The tensor that ``node`` was; None where nothing is known, or where it varied."""
        return None if id(node) in self.varying else self.tensors.get(id(node))

    def kind(self, node: ast.AST) -> str:
        """The kind of value that is no tensor; "" where nothing is known."""
        return self.others.get(id(node), "")

    def note(self, node: ast.AST, value: Seen | str) -> None:
        """Add one observation."""
        if isinstance(value, str):
            same = self.others.get(id(node), value) == value or "none" not in (value, self.others[id(node)])
            self.others[id(node)] = value if same else "varying"
            return
        self.all.setdefault(id(node), set()).add(value)
        before = self.tensors.setdefault(id(node), value)
        if before != value:
            self.varying.add(id(node))


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor with what the source tells of it: sizes and dtype as code, ``buffer`` "sbuf", "psum", "hbm" or ""."""

    shape: tuple[Polynomial, ...] | None = None
    dtype: str = ""
    buffer: str = "sbuf"
    blocks: tuple[Polynomial, ...] = field(default=())
    name: str = ""
    """The variable that holds it, if that is all that the expression is."""
    observed: bool = False
    """The shape was seen in a run: its numbers may change with other arguments."""

    @property
    def shape_text(self) -> str:
        """The shape as code; "" if it is not known."""
        if self.name and not self.blocks:
            return f"{self.name}.shape"
        return shape_text(self.shape) if self.shape is not None else ""

    @property
    def on_chip(self) -> bool:
        """True in SBUF and in PSUM."""
        return self.buffer in ("sbuf", "psum")


def shape_text(shape: tuple[Polynomial, ...]) -> str:
    """A shape as a tuple in source code; ``x.shape`` where that is what the sizes are."""
    texts = [size.text for size in shape]
    owner = texts[0].removesuffix(".shape[0]") if texts and texts[0].endswith(".shape[0]") else ""
    if owner.isidentifier() and texts == [f"{owner}.shape[{k}]" for k in range(len(texts))] and len(texts) > 1:
        return f"{owner}.shape"
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"


def joint(one: tuple[Polynomial, ...], other: tuple[Polynomial, ...]) -> tuple[Polynomial, ...]:
    """The shape to which tiles of two shapes of equal rank are repeated."""
    return tuple(b if a.constant == 1 else a for a, b in zip(one, other, strict=True))


def is_repeated(shape: tuple[Polynomial, ...], whole: tuple[Polynomial, ...]) -> bool:
    """True if a tile has to be repeated to the shape ``whole``."""
    return any(a.constant == 1 != b.constant for a, b in zip(shape, whole, strict=True))


def tensor_of(seen: Seen) -> Tensor:
    """A fact as numbers in source code."""
    shape = tuple(Polynomial.of(n) for n in seen.shape)
    blocks = tuple(Polynomial.of(n) for n in seen.blocks)
    return Tensor(shape, f"nl.{seen.dtype}", seen.buffer, blocks)


__all__ = ["Facts", "Seen", "Tensor", "is_repeated", "joint", "shape_text", "tensor_of"]
