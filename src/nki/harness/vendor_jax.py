"""``jax_neuronx.nki_call``: kernels of Beta 1 that write to output arguments, on arrays of JAX."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, cast

from nki.base.locks import imported


def nki_call(
    func: Callable[..., Any],
    *args: Any,
    grid: int | tuple[Any, ...] | None = None,
    out_shape: Any,
    platform_target: str | None = None,  # noqa: ARG001  # the environment names the target
) -> Any:
    """Run ``func(*args, *outputs)``, a kernel of Beta 1, and return its outputs: an operator, in ``jax.jit`` as well.

    ``out_shape`` is one ``jax.ShapeDtypeStruct``, and the result one array, or a list or tuple of them, and the result
    is a tuple. Constants are keywords of a ``functools.partial``. ``grid`` is the launch grid.
    """
    single = not isinstance(out_shape, (list, tuple))
    outputs = [out_shape] if single else list(cast("Sequence[Any]", out_shape))
    kernel = _returning(func, tuple([(tuple(output.shape), output.dtype) for output in outputs]))
    results = (kernel if grid is None else kernel[grid])(*args)
    return results[0] if single else results


def _returning(func: Callable[..., Any], outputs: tuple[tuple[tuple[int, ...], Any], ...]) -> Any:
    """The kernel that makes its ``outputs``, by shape and dtype, and returns them in a tuple."""
    language = imported("neuronxcc.nki.language")
    part = cast("functools.partial[Any]", func if isinstance(func, functools.partial) else functools.partial(func))
    body: Callable[..., Any] = getattr(part.func, "func", part.func)

    def kernel(*inputs: Any) -> tuple[Any, ...]:
        results = [language.ndarray(shape, dtype=dtype, buffer=language.shared_hbm) for shape, dtype in outputs]
        body(*part.args, *inputs, *results, **part.keywords)
        return tuple(results)

    kernel.__name__ = getattr(body, "__name__", kernel.__name__)
    return imported("neuronxcc.nki").jit(kernel)
