"""``nki.typing``: annotations. In a kernel, the value of ``x: nt.tensor[128, 512] = …`` has to have this shape."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, cast

from nki.base.beta1_errors import Beta1FlowError
from nki.beta1.beta1_tensor import Tensor


class _Annotated:
    """``tensor[shape]``: an annotation with a shape."""

    def __init__(self, kind: type[Any], shape: tuple[Any, ...]) -> None:
        self.kind = kind
        self.shape = shape

    def __repr__(self) -> str:
        return f"nt.{self.kind.__name__}[{', '.join(map(str, self.shape))}]"


class _Described(_Annotated):
    """``tensor[[128, 512], nl.float32]``: an argument without data, as harnesses pass it to ``nki.benchmark``."""

    def __init__(self, kind: type[Any], shape: tuple[Any, ...], dtype: Any) -> None:
        super().__init__(kind, shape)
        self.dtype = dtype


def annotated(value: Any, late: Callable[[], Any]) -> Any:
    """``value`` of ``x: annotation = value``. Raises :class:`Beta1TensorError` if ``nt.tensor[…]`` has another shape.

    Published kernels count free dimensions as one: only the partitions and the number of elements are compared.
    """
    if not isinstance(value, Tensor):
        return value
    try:
        kind = late()
    except (AttributeError, NameError, TypeError):  # Python does not evaluate annotations of variables
        return value
    sizes = kind.shape if isinstance(kind, _Annotated) else ()
    if sizes and all(isinstance(n, int) for n in sizes) and (value.shape[0], value.size) != (sizes[0], prod(sizes)):
        value.assert_shape(sizes)
    return value


class _TensorMeta(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor)

    def __getitem__(cls, shape: Any) -> _Annotated:
        parts = cast("tuple[Any, ...]", shape) if isinstance(shape, tuple) else ()
        if len(parts) == 2 and isinstance(parts[0], list | tuple):
            return _Described(cls, tuple(cast("tuple[Any, ...]", parts[0])), parts[1])
        return _Annotated(cls, cast("tuple[Any, ...]", shape if isinstance(shape, tuple) else (shape,)))


class tensor(metaclass=_TensorMeta):  # noqa: N801  # the public name
    """A tensor; ``tensor[shape]``: a tensor of this shape."""


class mutable_tensor(tensor):  # noqa: N801  # the public name
    """A parameter that the kernel writes to and returns."""


def scalar(_value: Any) -> Any:
    """Refused: a loop with a number of rounds that only the data tell."""
    raise Beta1FlowError(
        "while_loop_requires_unconditional_entry: nt.scalar makes the condition of a loop at run time, which is not "
        "supported",
        fix="use a loop of known length, or nki.language.while_loop of the present language",
    )
