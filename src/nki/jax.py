"""``nki.jax``: kernels with their gradients, and kernels that XLA may split over devices (``docs/jax.md``)."""

# JAX declares types only in part.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero

from nki.base.errors import ArgumentError
from nki.base.framework_errors import NotDifferentiableError
from nki.compilation.executable_cache import CAPACITY
from nki.frameworks import jax_call
from nki.frameworks.jax import ADAPTER
from nki.frameworks.jax_partition import Names, is_split_by_hand, splittable
from nki.frameworks.kernel_adapter import check_gradient, pack
from nki.jit import Kernel

if TYPE_CHECKING:
    from nki.compilation.executable import Executable

Saved = Literal["inputs", "results", "all"]
_SAVED: Final = ("inputs", "results", "all")


@dataclass(frozen=True, slots=True)
class _Call:
    """The arguments of one call that are no tensors; ``names``: those that all values belong to, in order."""

    names: tuple[str, ...]
    positional: int
    constants: dict[int, Any]

    def bound(self, tensors: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
        """The positional and the keyword arguments, with ``tensors`` in their places."""
        rest = iter(tensors)
        values = [self.constants[i] if i in self.constants else next(rest) for i in range(len(self.names))]
        return values[: self.positional], dict(
            zip(self.names[self.positional :], values[self.positional :], strict=True)
        )


@jax.tree_util.register_static
@dataclass(frozen=True, slots=True)
class _Wanted:
    """For each tensor, if its gradient may be asked for."""

    flags: tuple[bool, ...]


class Operator:
    """A kernel and its gradient as one function of JAX arrays; made by :func:`op`."""

    def __init__(
        self,
        forward: Callable[..., Any],
        backward: Callable[..., Any] | None,
        save: Saved,
        kept: int,
        reference: Callable[..., Any] | None = None,
    ) -> None:
        if save not in _SAVED:
            raise ArgumentError(f"save={save!r} is none of {', '.join(map(repr, _SAVED))}")
        check_gradient("nki.jax.op", backward, reference, save)
        functools.update_wrapper(self, forward, updated=())
        self.forward, self.backward, self.reference, self.kept = forward, backward, reference, kept
        self.saves_inputs, self.saves_results = save != "results", save != "inputs"
        self.parameters = inspect.signature(forward).parameters
        wanted = () if backward is None else inspect.signature(backward).parameters
        self.shared = [name for name in wanted if name in self.parameters]
        """Arguments that the backward takes, too, by their names, unless they are tensors."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        names = (*tuple(self.parameters)[: len(args)], *kwargs)
        values = (*args, *kwargs.values())
        constants = {i: value for i, value in enumerate(values) if not ADAPTER.is_framework_tensor(value)}
        tensors = [jax_call.reverse_only(value, f"{self!r}") for i, value in enumerate(values) if i not in constants]
        return self.shown(_applied(self, _Call(names, len(args), constants), *tensors))

    def __repr__(self) -> str:
        return f"<nki operator {getattr(self.forward, '__qualname__', self.forward)}>"

    def run(self, call: _Call, tensors: Sequence[Any]) -> Any:
        """All results of the kernel."""
        args, kwargs = call.bound(tensors)
        return self.forward(*args, **kwargs)

    def shown(self, results: Any) -> Any:
        """The results without those that only the backward sees."""
        if not self.kept:
            return results
        shown = results[: -self.kept]
        return shown[0] if len(shown) == 1 else shown

    def constants(self, call: _Call) -> dict[str, Any]:
        """Keyword arguments of the backward: the call's arguments that are no tensors, and defaults."""
        given = {call.names[i]: value for i, value in call.constants.items()}
        defaults = {n: self.parameters[n].default for n in self.shared if n not in call.names}
        return {n: v for n, v in {**defaults, **given}.items() if n in self.shared and v is not inspect.Parameter.empty}

    def gradients(self, call: _Call, saved: Sequence[Any], grads: Any, wanted: Sequence[bool]) -> tuple[Any, ...]:
        """The gradient of each tensor, None for one that has none; raises if one lacks that may be asked for."""
        leaves = jax.tree_util.tree_leaves(grads, is_leaf=_is_zero)
        shown: list[Any] = leaves[: len(leaves) - self.kept]
        dense = [jnp.zeros(g.shape, g.dtype) if _is_zero(g) else g for g in shown]
        result = (
            self.pulled_back(call, saved, dense)
            if self.backward is None
            else self.backward(*saved, *dense, **self.constants(call))
        )
        found = tuple(cast("Sequence[Any]", result)) if isinstance(result, (tuple, list)) else (result,)
        if len(found) > len(wanted):
            raise ArgumentError(
                f"the backward of {self!r} returns {len(found)} gradients, and it takes {len(wanted)} tensors",
                fix="return a gradient for each tensor argument in order, at most as many",
            )
        for number, is_wanted in enumerate(wanted):
            if is_wanted and (number >= len(found) or found[number] is None):
                raise NotDifferentiableError(
                    f"the backward of {self!r} gives no gradient of tensor {number + 1}, which is differentiated",
                    fix="return one for each tensor argument in order; use jax.lax.stop_gradient where none is needed",
                )
        return (*found, *[None] * (len(wanted) - len(found)))

    def pulled_back(self, call: _Call, tensors: Sequence[Any], grads: Sequence[Any]) -> list[Any]:
        """The gradients of the reference."""
        chosen = [i for i, t in enumerate(tensors) if jnp.issubdtype(t.dtype, jnp.floating)]

        def function(*floats: Any) -> list[Any]:
            every = list(tensors)
            for i, value in zip(chosen, floats, strict=True):
                every[i] = value
            args, kwargs = call.bound(every)
            return jax.tree_util.tree_leaves(cast("Any", self.reference)(*args, **kwargs))

        results, pull = jax.vjp(function, *[tensors[i] for i in chosen])
        theirs, own = [r.shape for r in results], [g.shape for g in grads]
        if theirs != own:
            raise ArgumentError(
                f"the reference of {self!r} returns the shapes {theirs}, and the operator {own}",
                fix="return from the reference what the operator returns",
            )
        found = dict(zip(chosen, pull([g.astype(r.dtype) for g, r in zip(grads, results, strict=True)]), strict=True))
        return [found.get(i) for i in range(len(tensors))]


def _is_zero(gradient: Any) -> bool:
    return isinstance(gradient, SymbolicZero)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _applied(operator: Operator, call: _Call, *tensors: Any) -> Any:
    return operator.run(call, tensors)


def _applied_forward(operator: Operator, call: _Call, *primals: Any) -> Any:
    tensors = [primal.value for primal in primals]
    results = _applied(operator, call, *tensors)  # which has a derivative again
    saved = tensors if operator.saves_inputs else []
    if operator.saves_results:
        saved = [*saved, *(results if isinstance(results, tuple) else (results,))]
    return results, (saved, _Wanted(tuple([bool(p.perturbed) for p in primals])))


def _applied_backward(operator: Operator, call: _Call, kept: Any, grads: Any) -> tuple[Any, ...]:
    saved, wanted = kept
    return operator.gradients(call, saved, grads, wanted.flags)


_applied.defvjp(_applied_forward, _applied_backward, symbolic_zeros=True)


def op(
    kernel: Callable[..., Any],
    backward: Callable[..., Any] | None = None,
    *,
    reference: Callable[..., Any] | None = None,
    save: Saved = "inputs",
    kept: int = 0,
) -> Operator:
    """A kernel with its gradient: a function of JAX arrays that ``jax.grad`` differentiates.

    ``backward`` is a kernel or a Python function. Its positional arguments are first what ``save`` says (``"inputs"``:
    the tensor arguments of the call, ``"results"``: the results of ``kernel``, ``"all"``: both), then the gradient of
    each result. An argument of the call that is no tensor goes to it by name, if it has a parameter of that name. It
    returns the gradients of the tensor arguments in order. If it returns fewer, the last tensors have none: so tables
    and masks come last. None in a place says the same of that tensor.

    ``reference`` in place of ``backward`` is a function of JAX that computes what the function returns from the same
    arguments: the gradients are then the reference's (``jax.vjp``), which runs again in the backward.

    ``kept`` counts results at the end that the function does not return: they are only for the backward, which finds
    them with ``save="results"`` or ``"all"``.

    It raises :class:`NotDifferentiableError` while JAX traces the backward if a tensor is differentiated and gets no
    gradient.
    """
    return Operator(kernel, backward, save, kept, reference)


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

    @functools.wraps(kernel.func)
    def function(*args: Any, **kwargs: Any) -> Any:
        executable, tensors = ADAPTER.specialised(kernel, args, kwargs)
        _check(executable, ins, outs, rule)
        program = None
        if not is_split_by_hand():
            arguments = {
                n: jax.ShapeDtypeStruct(v.shape, v.dtype) if ADAPTER.is_framework_tensor(v) else v
                for n, v in kernel.bind(args, kwargs).items()
            }
            program = _program(executable, _Split(kernel, tuple(ins), tuple(outs), names, arguments))
        return pack(executable, jax_call.call(executable, kernel.launch_grid(), tensors, program))

    return function


@dataclass(frozen=True, slots=True)
class _Split:
    """A call that XLA may split. Equal calls of one executable have equal arguments."""

    kernel: Kernel
    ins: tuple[Names, ...]
    outs: tuple[Names, ...]
    axes: Names
    arguments: dict[str, Any] = field(compare=False)
    """By name, each tensor as its type."""

    def run(self, *parts: Any) -> tuple[Any, ...]:
        """The kernel on other tensors."""
        rest = iter(parts)
        own = {n: next(rest) if isinstance(v, jax.ShapeDtypeStruct) else v for n, v in self.arguments.items()}
        results = self.kernel(**own)
        return results if isinstance(results, tuple) else (results,)


@functools.lru_cache(CAPACITY)
def _program(executable: Executable, call: _Split) -> Any:  # noqa: ARG001  # the other half of the key
    types = [value for value in call.arguments.values() if isinstance(value, jax.ShapeDtypeStruct)]
    return splittable(call.run, types, call.ins, call.outs, call.axes)


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


__all__ = ["Operator", "op", "partitioned"]
