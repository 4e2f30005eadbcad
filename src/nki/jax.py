"""``nki.jax``: kernels that XLA may split over devices (``docs/jax.md``)."""

# JAX declares types only in part.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax

from nki.base.errors import ArgumentError
from nki.frameworks import jax_call
from nki.frameworks.jax import ADAPTER
from nki.frameworks.jax_partition import Names, is_split_by_hand, splittable
from nki.frameworks.kernel import pack
from nki.jit import Kernel

if TYPE_CHECKING:
    from nki.compiler.executable import Executable


def partitioned(kernel: Kernel, rule: str, *, split: str) -> Callable[..., Any]:
    """The kernel as a function of JAX arrays that XLA may split over devices along the axes ``split``.

    ``rule`` names the axes of each tensor argument and of each result: ``"n d, d -> n d"``. Axes of one name have one
    size. ``split`` lists those along which elements of the results do not depend on each other, such as ``"n"``: each
    device calls the kernel, compiled for its part, on its part. Every result has them. Along other axes an operand that
    is sharded is gathered first.

    The result is right only if ``split`` is: nothing can check that the rows of a kernel are independent. Raises
    :class:`ArgumentError` for a rule that does not fit the kernel.
    """
    sides = [[tuple(tensor.split()) for tensor in side.split(",")] for side in rule.split("->")]
    if len(sides) != 2:
        raise ArgumentError(f"the rule {rule!r} has no arrow", fix='write it like "n d, d -> n d"')
    ins, outs = sides
    names = tuple(split.split())
    for name in names:
        if any(name not in out for out in outs):
            raise ArgumentError(
                f"the axis {name!r} of split={split!r} is not in every result of {rule!r}",
                fix="split axes that each result has; sum over the others with jax.shard_map and jax.lax.psum",
            )
    programs: dict[Executable, Any] = {}

    @functools.wraps(kernel.func)
    def function(*args: Any, **kwargs: Any) -> Any:
        executable, tensors = kernel.specialise(args, kwargs, ADAPTER)
        _check(executable, ins, outs, rule)
        program = None
        if not is_split_by_hand():
            program = programs.get(executable)
            if program is None:
                run = functools.partial(_run, kernel, kernel.bind(args, kwargs))
                types = [jax.ShapeDtypeStruct(t.shape, t.dtype) for t in tensors]
                program = programs[executable] = splittable(run, types, ins, outs, names)
        return pack(executable, jax_call.call(executable, kernel.launch_grid(), tensors, program))

    return function


def _run(kernel: Kernel, arguments: dict[str, Any], *parts: Any) -> tuple[Any, ...]:
    """The kernel on other tensors than those of ``arguments``."""
    rest = iter(parts)
    own = {name: next(rest) if ADAPTER.is_framework_tensor(value) else value for name, value in arguments.items()}
    results = kernel(**own)
    return results if isinstance(results, tuple) else (results,)


def _check(executable: Executable, ins: Sequence[Names], outs: Sequence[Names], rule: str) -> None:
    specs = (*executable.inputs, *executable.outputs)
    ranks = [len(spec.shape) for spec in specs]
    if (len(ins), len(outs)) != (len(executable.inputs), len(executable.outputs)) or ranks != [
        len(names) for names in (*ins, *outs)
    ]:
        has = ", ".join(f"{spec.name} {spec.shape}" for spec in specs)
        raise ArgumentError(f"the rule {rule!r} does not fit kernel {executable.name!r} with {has}")
    sizes: dict[str, int] = {}
    for spec, names in zip(specs, (*ins, *outs), strict=True):
        for size, name in zip(spec.shape, names, strict=True):
            if sizes.setdefault(name, size) != size:
                raise ArgumentError(
                    f"the axis {name!r} of the rule {rule!r} has {sizes[name]} elements, and in {spec.name} {size}"
                )


__all__ = ["partitioned"]
