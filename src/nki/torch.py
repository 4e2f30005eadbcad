"""``nki.torch``: kernels as operators of PyTorch, with their gradients (``docs/training.md``)."""

# PyTorch declares types only in part.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, cast

import torch

from nki.base.errors import ArgumentError, NotDifferentiableError

Saved = Literal["inputs", "results", "all"]
_SAVED: Final = ("inputs", "results", "all")


class Operator:
    """A kernel and its gradient as one function of tensors; made by :func:`op`."""

    def __init__(self, forward: Callable[..., Any], backward: Callable[..., Any], save: Saved, kept: int) -> None:
        if save not in _SAVED:
            raise ArgumentError(f"save={save!r} is none of {', '.join(map(repr, _SAVED))}")
        functools.update_wrapper(self, forward, updated=())
        self.forward, self.backward = forward, backward
        self.saves_inputs, self.saves_results, self.kept = save != "results", save != "inputs", kept
        parameters = inspect.signature(forward).parameters
        self.names = tuple(parameters)
        wanted = set(inspect.signature(backward).parameters)
        # Arguments that are no tensors and that the backward takes too, by their names.
        self.shared = tuple(name for name in self.names if name in wanted)
        self.defaults = {
            name: parameters[name].default
            for name in self.shared
            if parameters[name].default is not inspect.Parameter.empty
        }

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():  # the Function would be most of a small kernel's time
            return self.shown(self.forward(*args, **kwargs))
        results = cast("Any", _KernelFunction).apply(self, tuple(kwargs), *args, *kwargs.values())
        return self.shown(results)

    def shown(self, results: Any) -> Any:
        """The results without those that only the backward sees."""
        if not self.kept:
            return results
        shown = results[: -self.kept]
        return shown[0] if len(shown) == 1 else shown

    def __deepcopy__(self, memo: Any) -> Operator:
        return self  # it holds nothing that changes; models with operators are copied

    def __repr__(self) -> str:
        return f"<nki operator {getattr(self.forward, '__qualname__', self.forward)}>"

    def run(self, names: tuple[str, ...], values: Sequence[Any]) -> Any:
        """The results of the forward; the last values belong to the keywords ``names``."""
        split = len(values) - len(names)
        return self.forward(*values[:split], **dict(zip(names, values[split:], strict=True)))

    def constants(self, names: tuple[str, ...], values: Sequence[Any]) -> dict[str, Any]:
        """Keyword arguments of the backward: those of the forward that are no tensors."""
        split = len(values) - len(names)
        given = dict(zip((*self.names[:split], *names), values, strict=False))
        result = {**self.defaults, **{name: given[name] for name in self.shared if name in given}}
        return {name: value for name, value in result.items() if not isinstance(value, torch.Tensor)}

    def gradients(self, saved: Sequence[Any], grads: Sequence[Any], constants: dict[str, Any]) -> tuple[Any, ...]:
        """The gradients that the backward returns, as a tuple."""
        shown = grads[: -self.kept] if self.kept else grads
        found = self.backward(*saved, *shown, **constants)
        return tuple(cast("Sequence[Any]", found)) if isinstance(found, (tuple, list)) else (found,)


class _KernelFunction(torch.autograd.Function):
    """Any operator: the first arguments are the operator and the names of the keyword arguments, which come last.

    PyTorch's compiler follows a class of a module, but not one with an operator in its closure.
    """

    @staticmethod
    def forward(operator: Operator, names: tuple[str, ...], *values: Any) -> Any:
        return operator.run(names, values)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        operator, names, *values = inputs
        ctx.operator = operator
        ctx.tensors = tuple([isinstance(v, torch.Tensor) for v in values])
        ctx.constants = operator.constants(names, values)
        results = output if isinstance(output, tuple) else (output,)
        saved = [v for v in values if isinstance(v, torch.Tensor)] if operator.saves_inputs else []
        ctx.save_for_backward(*saved, *(results if operator.saves_results else ()))
        if operator.kept:
            ctx.mark_non_differentiable(*results[-operator.kept :])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        found = ctx.operator.gradients(ctx.saved_tensors, grads, ctx.constants)
        result: list[Any] = [None, None]
        count = 0
        for is_tensor, is_needed in zip(ctx.tensors, ctx.needs_input_grad[2:], strict=True):
            gradient = found[count] if is_tensor and count < len(found) else None
            count += is_tensor
            if is_needed and gradient is None:
                _refuse_missing(ctx.operator, count, len(found))
            result.append(gradient)
        if len(found) > count:
            _refuse_surplus(ctx.operator, count, len(found))
        return tuple(result)


def _refuse_missing(operator: Operator, position: int, found: int) -> None:
    raise NotDifferentiableError(
        f"the backward of {operator!r} gives no gradient of tensor {position}, which requires one: it gives {found}",
        fix="return a gradient for each tensor argument in order; pass what needs none with requires_grad=False",
    )


def _refuse_surplus(operator: Operator, tensors: int, found: int) -> None:
    raise ArgumentError(
        f"the backward of {operator!r} returns {found} gradients, and the operator takes {tensors} tensors",
        fix="return a gradient for each tensor argument in order, at most as many",
    )


def op(kernel: Callable[..., Any], backward: Callable[..., Any], *, save: Saved = "inputs", kept: int = 0) -> Operator:
    """A kernel with its gradient: an operator of PyTorch.

    ``backward`` is a kernel or a Python function. Its positional arguments are first what ``save`` says (``"inputs"``:
    the tensor arguments of the call, ``"results"``: the results of ``kernel``, ``"all"``: both), then the gradient of
    each result. An argument of the call that is no tensor goes to it by name, if it has a parameter of that name. It
    returns the gradients of the tensor arguments in order. If it returns fewer, the last tensors have none: so tables
    and masks come last. None in a place says the same of that tensor.

    ``kept`` counts results at the end that the operator does not return: they are only for the backward, which finds
    them with ``save="results"`` or ``"all"``; they have no gradient.

    The operator works eagerly, in graphs of ``torch.compile``, under ``torch.func`` and activation checkpointing. It
    raises :class:`NotDifferentiableError` in the backward if a tensor requires a gradient and gets none.
    """
    return Operator(kernel, backward, save, kept)


__all__ = ["Operator", "op"]
