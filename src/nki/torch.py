"""``nki.torch``: kernels as operators of PyTorch, with their gradients (``docs/training.md``)."""

# PyTorch declares types only in part.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportPrivateUsage=false
# pyright: reportUnnecessaryComparison=false

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, cast

import torch
from torch._C import _is_tracing
from torch._C._functorch import peek_interpreter_stack
from torch.compiler import is_dynamo_compiling
from torch.fx.node import has_side_effect
from torch.overrides import has_torch_function

from nki.base.errors import ArgumentError
from nki.base.framework_errors import NotBatchableError, NotDifferentiableError, Unscriptable
from nki.frameworks import torch_fx, torch_transformed
from nki.frameworks.kernel_adapter import check_gradient, check_shape
from nki.frameworks.torch_transformed import uses_autograd

Saved = Literal["inputs", "results", "all"]
_SAVED: Final = ("inputs", "results", "all")


class Operator(Unscriptable):
    """A kernel and its gradient as one function of tensors; made by :func:`op`."""

    def __init__(
        self,
        forward: Callable[..., Any],
        backward: Callable[..., Any] | None,
        save: Saved,
        kept: int,
        changes: Sequence[str],
        reference: Callable[..., Any] | None = None,
    ) -> None:
        if save not in _SAVED:
            raise ArgumentError(f"save={save!r} is none of {', '.join(map(repr, _SAVED))}")
        check_gradient("nki.torch.op", backward, reference, save, changes)
        functools.update_wrapper(self, forward, updated=())
        self.forward, self.reference = forward, reference
        self.backward: Callable[..., Any] = backward or self.pulled_back
        self.uses_autograd = uses_autograd(self.backward)
        """The backward calls ``torch.autograd`` itself, which PyTorch's compiler does not trace."""
        self.saves_inputs, self.saves_results, self.kept = save != "results", save != "inputs", kept
        parameters = inspect.signature(forward).parameters
        self.names = tuple(parameters)
        self.changes = (changes,) if isinstance(changes, str) else tuple(changes)
        if unknown := [name for name in self.changes if name not in parameters]:
            raise ArgumentError(
                f"changes={unknown!r}: {getattr(forward, '__name__', 'the kernel')} has no such parameter",
                fix=f"of {', '.join(self.names)}, name what the kernel writes to",
            )
        wanted = set[str]() if backward is None else set(inspect.signature(backward).parameters)
        # Arguments that are no tensors and that the backward takes too, by their names.
        self.shared = tuple(name for name in self.names if name in wanted)
        self.defaults = {
            name: parameters[name].default
            for name in self.shared
            if parameters[name].default is not inspect.Parameter.empty
        }

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        values = (*args, *kwargs.values())
        if has_torch_function(values) and torch_fx.is_recorded(values):
            return torch_fx.record(has_side_effect(self) if self.changes else self, args, kwargs)
        if not torch.is_grad_enabled():  # the Function would be most of a small kernel's time
            return self.shown(self.forward(*args, **kwargs))
        function = _EagerKernelFunction
        if is_dynamo_compiling():
            in_func = torch._C._are_functorch_transforms_active()
            if (in_func or self.uses_autograd) and not self.changes and not torch.compiler.is_exporting():
                return self.shown(torch_transformed.apply(self, tuple(kwargs), *values))
            # The compiler traces a Function without a gradient as its forward, for which it counts parameters wrongly.
            if not any(isinstance(v, torch.Tensor) and v.requires_grad for v in values):
                return self.shown(self.forward(*args, **kwargs))
            function = _KernelFunction
        elif _is_tracing():  # torch.jit.trace keeps the operator of the kernel alone, as torch.export does
            return self.shown(self.forward(*args, **kwargs))
        elif (
            peek_interpreter_stack() is not None and torch_transformed.functionalizes()
        ):  # where PyTorch has no rule for a Function
            return self.shown(
                self.forward(*args, **kwargs) if self.changes else torch_transformed.apply(self, tuple(kwargs), *values)
            )
        if self.changes:
            self.check_changed(tuple(kwargs), values)
        results = cast("Any", function).apply(self, tuple(kwargs), *values)
        return self.shown(_restored(results, values) if self.changes else results)

    @property
    def function(self) -> type[torch_transformed.Function]:
        """The Function that takes the operator as its first argument."""
        return _KernelFunction

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
        """The results of the forward; the last values belong to the keywords ``names``.

        A result that is a changed argument is replaced by the number of this argument among ``values``. Raises
        :class:`ArgumentError` if the kernel has changed an argument that was not declared.
        """
        split = len(values) - len(names)
        before = _versions(values)
        results = self.forward(*values[:split], **dict(zip(names, values[split:], strict=True)))
        for i in [i for i, (one, other) in enumerate(zip(before, _versions(values), strict=True)) if one != other]:
            self.check_declared(self.names_of(names, values)[i])
        if not isinstance(results, tuple):
            return self.numbered(results, names, values)
        return tuple([self.numbered(r, names, values) for r in results])

    def numbered(self, result: Any, names: tuple[str, ...], values: Sequence[Any]) -> Any:
        """``result``, or its number if it is one of ``values``. Raises :class:`ArgumentError` if that was not
        declared.
        """
        for i, value in enumerate(values):
            if value is result:
                self.check_declared(self.names_of(names, values)[i])
                return i
        return result

    def check_declared(self, name: str) -> None:
        """Raise :class:`ArgumentError` if the argument ``name``, which the kernel changes, was not declared."""
        if name not in self.changes:
            raise ArgumentError(
                f"{self!r} changes, or returns, its argument {name!r}",
                fix=f"say so: nki.torch.op(kernel, backward, changes=[{name!r}])",
            )

    def names_of(self, names: tuple[str, ...], values: Sequence[Any]) -> tuple[str, ...]:
        """The parameters that ``values`` belong to; the last ones to the keywords ``names``."""
        return (*self.names[: len(values) - len(names)], *names)

    def check_changed(self, names: tuple[str, ...], values: Sequence[Any]) -> None:
        """Raise :class:`NotDifferentiableError` if a tensor that the kernel changes requires a gradient."""
        for name, value in zip(self.names_of(names, values), values, strict=True):
            if name in self.changes and value.requires_grad:
                raise NotDifferentiableError(
                    f"{self!r} changes {name!r}, which requires a gradient: its former contents are lost",
                    fix=f"pass {name}.detach(), or write a kernel that returns the new contents",
                )

    def constants(self, names: tuple[str, ...], values: Sequence[Any]) -> dict[str, Any]:
        """Keyword arguments of the backward: the forward's arguments that are no tensors."""
        if self.reference is not None:
            flags = tuple([isinstance(value, torch.Tensor) for value in values])
            plain = tuple([None if isinstance(value, torch.Tensor) else value for value in values])
            return {"names": names, "flags": flags, "plain": plain}
        given = dict(zip(self.names_of(names, values), values, strict=False))
        result = {**self.defaults, **{name: given[name] for name in self.shared if name in given}}
        return {name: value for name, value in result.items() if not isinstance(value, torch.Tensor)}

    def gradients(self, saved: Sequence[Any], grads: Sequence[Any], constants: dict[str, Any]) -> tuple[Any, ...]:
        """The gradients that the backward returns, as a tuple."""
        shown = grads[: -self.kept] if self.kept else grads
        if self.changes:  # these have no gradient
            shown = [g for g in shown if g is not None]
        found = self.backward(*saved, *shown, **constants)
        return tuple(cast("Sequence[Any]", found)) if isinstance(found, (tuple, list)) else (found,)

    def pulled_back(
        self, *tensors: torch.Tensor, names: tuple[str, ...], flags: tuple[bool, ...], plain: tuple[Any, ...]
    ) -> list[Any]:
        """The gradients of the reference; ``flags`` say which arguments are tensors, ``plain`` has the others."""
        count = sum(flags)
        inputs, grads = tensors[:count], tensors[count:]
        places = [place for place, flag in enumerate(flags) if flag]
        chosen = [i for i, t in enumerate(inputs) if t.is_floating_point()]

        def function(*floats: torch.Tensor) -> tuple[torch.Tensor, ...]:
            values = list(plain)
            for i, t in enumerate(inputs):
                values[places[i]] = floats[chosen.index(i)] if i in chosen else t
            split = len(values) - len(names)
            results = cast("Any", self.reference)(*values[:split], **dict(zip(names, values[split:], strict=True)))
            return tuple(cast("Any", results)) if isinstance(results, (tuple, list)) else (results,)

        vjp: Any = torch.func.vjp
        results, pull = vjp(function, *[inputs[i] for i in chosen])
        if [r.shape for r in results] != [g.shape for g in grads]:
            _refuse_reference(self, [tuple(r.shape) for r in results], [tuple(g.shape) for g in grads])
        found = pull(tuple([g.to(r.dtype) for g, r in zip(grads, results, strict=True)]))
        return [found[chosen.index(i)] if i in chosen else None for i in range(count)]


def _versions(values: Sequence[Any]) -> list[int]:
    """The number of changes of each tensor, as PyTorch counts it, -1 where it does not; nothing under its compiler."""
    if is_dynamo_compiling():
        return []
    return [-1 if not isinstance(v, torch.Tensor) or v.is_inference() else v._version for v in values]


def _restored(results: Any, values: Sequence[Any]) -> Any:
    """``results`` of :meth:`Operator.run` with the changed arguments themselves."""
    if not isinstance(results, tuple):
        return results if isinstance(results, torch.Tensor) else values[results]
    return tuple([r if isinstance(r, torch.Tensor) else values[r] for r in cast("tuple[Any, ...]", results)])


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
        if operator.changes:
            results = _restored(results, values)
        saved = [v for v in values if isinstance(v, torch.Tensor)] if operator.saves_inputs else []
        ctx.save_for_backward(*saved, *(results if operator.saves_results else ()))
        if operator.kept:
            ctx.mark_non_differentiable(*results[-operator.kept :])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        found = ctx.operator.gradients(ctx.saved_tensors, grads, ctx.constants)
        result: list[Any] = [None, None]
        count = 0
        for is_tensor, is_needed in zip(ctx.tensors, ctx.needs_input_grad[-len(ctx.tensors) :], strict=True):
            gradient = found[count] if is_tensor and count < len(found) else None
            count += is_tensor
            if is_needed and gradient is None:
                _refuse_missing(ctx.operator, count, len(found))
            result.append(gradient)
        if len(found) > count:
            _refuse_surplus(ctx.operator, count, len(found))
        return tuple(result)


class _EagerKernelFunction(_KernelFunction):
    """The same outside of PyTorch's compiler, which follows neither ``torch.vmap`` nor the error for forward mode."""

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        """One call for each element of the batch, then one copy of each result into a stack."""
        operator, names, *values = args
        if operator.changes:
            raise NotBatchableError(
                f"{operator!r}, which changes {', '.join(operator.changes)}, cannot run under torch.vmap",
                fix="call it for each element, or write the batch axis into the kernel",
            )
        check_shape((info.batch_size,))
        apply = cast("Any", _EagerKernelFunction).apply
        placed = list(zip(values, in_dims[2:], strict=True))
        calls: list[Any] = [
            apply(operator, names, *[v if d is None else v.select(d, i) for v, d in placed])
            for i in range(info.batch_size)
        ]
        if isinstance(calls[0], torch.Tensor):
            return torch.stack(calls), 0
        results = tuple([torch.stack(column) for column in zip(*calls, strict=True)])
        return results, (0,) * len(results)

    @staticmethod
    def jvp(ctx: Any, *_: Any) -> Any:
        raise NotDifferentiableError(
            f"{ctx.operator!r} has a backward alone, and forward mode (torch.func.jvp) needs the derivative of results",
            fix="use torch.func.vjp or grad; or write a torch.autograd.Function with a jvp that calls kernels",
        )


def _refuse_reference(operator: Operator, theirs: list[Any], own: list[Any]) -> None:
    raise ArgumentError(
        f"the reference of {operator!r} returns the shapes {theirs}, and the operator {own}",
        fix="return from the reference what the operator returns",
    )


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


def op(
    kernel: Callable[..., Any],
    backward: Callable[..., Any] | None = None,
    *,
    reference: Callable[..., Any] | None = None,
    save: Saved = "inputs",
    kept: int = 0,
    changes: Sequence[str] = (),
) -> Operator:
    """A kernel with its gradient: an operator of PyTorch.

    ``backward`` is a kernel or a Python function. Its positional arguments are first what ``save`` says (``"inputs"``:
    the tensor arguments of the call, ``"results"``: the results of ``kernel``, ``"all"``: both), then the gradient of
    each result. An argument of the call that is no tensor goes to it by name, if it has a parameter of that name. It
    returns the gradients of the tensor arguments in order. If it returns fewer, the last tensors have none: so tables
    and masks come last. None in a place says the same of that tensor.

    ``reference`` in place of ``backward`` is a function of PyTorch that computes what the operator returns from the
    same arguments: the gradients are then the reference's (``torch.func.vjp``), which runs again in the backward.

    ``kept`` counts results at the end that the operator does not return: they are only for the backward, which finds
    them with ``save="results"`` or ``"all"``; they have no gradient.

    ``changes`` names the tensor arguments that the kernel writes to. The call changes them in place, and returns those
    that the kernel returns; they must not require a gradient, and the backward gets no gradient of them. If ``save``
    gives them to the backward, then as they are after the call.

    The operator works eagerly, in graphs of ``torch.compile``, under ``torch.func`` and activation checkpointing. It
    raises :class:`NotDifferentiableError` in the backward if a tensor requires a gradient and gets none.
    """
    return Operator(kernel, backward, save, kept, changes, reference)


__all__ = ["Operator", "op"]
