"""What the rules' test cases are made of: tiles as a case describes them, and the case itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from nki.base import element_types as dt
from nki.ir.loop import VirtualRegister
from nki.ir.scalars import NkiScalar
from nki.ir.types import Access, Buffer, Dynamic, IndexKind, Tensor, row_major


class Spec:
    """A tile as a case describes it: its shape, and what is special about it."""

    def __init__(self, *shape: int, dtype: str = "float32", buffer: str = "sbuf", **more: Any) -> None:
        self.shape, self.dtype, self.buffer, self.more = shape, dtype, buffer, more

    def but(self, **changes: Any) -> Spec:
        """The same with another number of ``partitions``, buffer or dtype, and what :meth:`make` takes."""
        shape = (changes.pop("partitions", self.shape[0]), *self.shape[1:])
        return Spec(*shape, **{"dtype": self.dtype, "buffer": self.buffer, **self.more, **changes})

    def make(self, name: str) -> Access:
        """``at``: first partition; ``step``: between partitions; in each, ``skip`` elements of ``width`` precede it.

        ``role``: of the tensor in its kernel.
        """
        at, step, skip = (self.more.get(k, default) for k, default in (("at", 0), ("step", 1), ("skip", 0)))
        width = self.more.get("width", self.shape[-1])
        kind = dt.BY_NAME[self.dtype]
        storage = (max(128, self.shape[0] * step), *self.shape[1:-1], width)
        steps = row_major(storage)
        tensor = Tensor(f"the_{name}", storage, kind, Buffer[self.buffer], role=self.more.get("role", ""))
        return Access(tensor, at * steps[0] + skip, self.shape, (steps[0] * step, *steps[1:]), kind)


class Register(Spec):
    """A scalar register, which a loop may own."""

    def __init__(self, *, frozen: bool = False) -> None:
        super().__init__(1, 1)
        self.frozen = frozen

    def make(self, name: str) -> Access:
        return VirtualRegister(Tensor(f"the_{name}", (1, 1), dt.int32, Buffer.register), self.frozen)


class Scalar(Spec):
    """A scalar, as kernels compute with it."""

    def __init__(self, dtype: str = "int32") -> None:
        super().__init__(1, 1, dtype=dtype)

    def make(self, name: str) -> Access:
        return NkiScalar(Tensor(f"the_{name}", (1, 1), dt.BY_NAME[self.dtype], Buffer.register))


class Indexed(Spec):
    """A tile, or a tensor in HBM, with a run-time index for each row."""

    def make(self, name: str) -> Access:
        made = super().make(name)
        index = Spec(self.shape[0], 1, dtype="int32").make(f"{name}_index")
        steps = Dynamic(index, made.strides[0], IndexKind.rows)
        return Access(made.tensor, made.offset, made.shape, made.strides, made.dtype, steps)


def tile(*shape: int, **more: Any) -> Spec:
    return Spec(*shape, **more)


def psum(*shape: int, **more: Any) -> Spec:
    return Spec(*shape, buffer="psum", **more)


def ints(*shape: int, dtype: str = "int32") -> Spec:
    return Spec(*shape, dtype=dtype)


def call(tiles: str = "", columns: str = "", /, **others: Any) -> dict[str, Any]:
    """Arguments by name: tiles of 4 partitions and 8 elements, of 4 and one element, and all others."""
    return {**{name: tile(4, 8) for name in tiles.split()}, **{name: tile(4, 1) for name in columns.split()}, **others}


@dataclass(frozen=True)
class Case:
    """``twin`` turns the legal call into another legal one, which ``broken`` breaks.

    ``target`` is where it is broken; the twin is legal there or, where the target itself is the mistake, on
    ``legal_on``. ``release``: of NKI, for a rule that a later one hides. ``says``: what the message must contain
    besides, or in place of, the name of a tensor.
    """

    mnemonic: str
    code: str
    broken: dict[str, Any]
    twin: dict[str, Any] = field(default_factory=dict)
    target: str = "trn3"
    legal_on: str = ""
    says: str = ""
    release: str = ""

    def __str__(self) -> str:
        return f"{self.mnemonic}-{self.code}-" + "-".join(self.broken)
