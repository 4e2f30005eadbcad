"""``nki.typing``: annotations of tensors, ``nt.tensor`` and ``nt.tensor[128, 512]``.

They inform the reader. The compiler specialises a kernel for its actual arguments and ignores annotations.
"""

from __future__ import annotations

from typing import Any, cast, final

from nki.language.nki_tensor import NkiTensor


class tensor(NkiTensor):  # noqa: N801  # NKI's own name
    """A tensor of any shape; ``tensor[shape]``: a tensor of this shape. For annotations only."""

    __slots__ = ()

    def __class_getitem__(cls, shape: Any) -> Shaped:
        return Shaped(cls, cast("tuple[Any, ...]", shape) if isinstance(shape, tuple) else (shape,))


class mutable_tensor(tensor):  # noqa: N801  # NKI's own name
    """A tensor that the kernel writes to, as NKI Beta 1 required."""

    __slots__ = ()


@final
class Shaped:
    """Value of ``tensor[shape]``: the annotation ``kind`` with a ``shape`` of integers or names."""

    __slots__ = ("kind", "shape")

    def __init__(self, kind: type[tensor], shape: tuple[Any, ...]) -> None:
        self.kind = kind
        self.shape = shape

    def __repr__(self) -> str:
        return f"nt.{self.kind.__name__}[{', '.join(map(str, self.shape))}]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shaped) and (self.kind, self.shape) == (other.kind, other.shape)

    def __hash__(self) -> int:
        return hash((self.kind, self.shape))


__all__ = ["mutable_tensor", "tensor"]
