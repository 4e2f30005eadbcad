"""The operators of PyTorch that stand for all kernels in graphs.

- ``open_nki::launch(Tensor[] inputs, str kernel) -> Tensor[]``: results in new memory.
- ``open_nki::update(Tensor(a!)[] changed, Tensor(b!)[] results, Tensor[] others, str kernel) -> ()``: a kernel that
  changes arguments. ``changed`` holds these in the order of the kernel's inputs, ``others`` the rest; ``results`` are
  dense tensors for those results that are no inputs, because PyTorch's compiler takes no operator that both changes
  tensors and returns a list.
- ``open_nki::no_gradient``: the backward of ``launch``, which raises an error.

``kernel`` is the path of a compiled artifact, so that a graph from PyTorch's on-disk cache names the same kernel in
another process. In programs of ``torch.export`` it is the artifact itself (:mod:`nki.frameworks.embedded`), under
``NKI_SIMULATOR=1`` a name that this process alone knows (:mod:`nki.frameworks.torch_simulated`).
"""

# PyTorch declares types only in part, and of its internals not that they may give None.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnnecessaryComparison=false
# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import torch
from torch._C._functorch import peek_interpreter_stack
from torch._functorch.utils import enable_single_level_autograd_function
from torch.autograd import forward_ad
from torch.autograd.forward_ad import _set_fwd_grad_enabled
from torch.autograd.function import _SingleLevelFunction

from nki.base.framework_errors import NotBatchableError, OperandError
from nki.compilation.launch_errors import BugReports
from nki.frameworks import torch_simulated
from nki.frameworks.kernel_adapter import Operand, check_operands, check_shape, find
from nki.frameworks.torch_launch import fresh_specs, launch, launch_in_place, updated
from nki.frameworks.torch_simulated import Simulated
from nki.frameworks.torch_tensors import PLAIN, TENSORS, TO_NKI, check_devices, not_differentiable, torch_dtype

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nki.compilation.executable import Executable


def _found(kernel: str) -> Executable | Simulated:
    return torch_simulated.find(kernel) if kernel.startswith(torch_simulated.MARK) else find(kernel)


def _checked(executable: Executable | Simulated, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """``tensors`` as the kernel takes them: of its shapes, and of no subclass, which may have a shape of its own."""
    inputs = [t if type(t) in PLAIN else t.as_subclass(torch.Tensor) for t in tensors]
    check_operands(executable.name, executable.inputs, [_operand(t) for t in inputs])
    return inputs


def _operand(tensor: torch.Tensor) -> Operand:
    return tensor.data_ptr(), tensor.shape, TO_NKI.get(tensor.dtype)


def _merged(changes: Sequence[int], changed: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    """The inputs of a kernel in order; those with the sorted numbers ``changes`` are ``changed``."""
    if len(changes) != len(changed):
        raise OperandError(
            f"the kernel changes {len(changes)} of its tensors; the graph passes {len(changed)} to change",
            fix="call the kernel itself, which makes the call of the operator",
        )
    result = list(others)
    for number, tensor in zip(changes, changed, strict=True):
        result.insert(number, tensor)
    return result


# open_nki::launch


@BugReports()
def _launch(inputs: list[torch.Tensor], kernel: str) -> list[torch.Tensor]:
    executable = _found(kernel)
    tensors = _checked(executable, inputs)
    return executable.run(tensors) if isinstance(executable, Simulated) else launch(executable, tensors)


@BugReports()
def _infer_launch(inputs: list[torch.Tensor], kernel: str) -> list[torch.Tensor]:
    for t in inputs:
        TENSORS.map_framework_tensor(t)  # refuses a layout that the kernel cannot read
    device = inputs[0].device if inputs else "cpu"
    return [torch.empty(s.shape, dtype=torch_dtype(s.dtype), device=device) for s in _found(kernel).outputs]


class _Launch(_SingleLevelFunction):
    """The operator for inputs with gradients, at one level of torch.func or at none.

    ``torch.library.register_autograd`` would do, but for torch.func, where PyTorch refuses its function even if nothing
    asks for the gradient.
    """

    @staticmethod
    def forward(ctx: Any, keys: torch._C.DispatchKeySet, kernel: str, *inputs: torch.Tensor) -> Any:
        ctx.count, ctx.kernel = len(inputs), kernel
        return tuple(at_next_level(launch_op, keys, list(inputs), kernel))

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        # Not an error yet: the compiler traces a backward for every forward, whether the program asks for one or not.
        return None, None, *_no_gradient(ctx.kernel, ctx.count)


def below_autograd(op: Any, keys: torch._C.DispatchKeySet, *arguments: Any) -> Any:
    """Call ``op`` with ``arguments``, without the derivatives of this level."""
    with torch._C._AutoDispatchBelowAutograd():
        return op.redispatch(keys & torch._C._after_autograd_keyset, *arguments)


def at_next_level(op: Any, keys: torch._C.DispatchKeySet, *arguments: Any) -> Any:
    """Call ``op`` from the forward of a Function, where PyTorch switches derivatives off: levels of ``torch.func``
    below this one have their own.
    """
    if peek_interpreter_stack() is None:
        return below_autograd(op, keys, *arguments)
    with torch.enable_grad(), _set_fwd_grad_enabled(True):
        return below_autograd(op, keys, *arguments)


def has_tangent(tensors: Sequence[torch.Tensor]) -> bool:
    """True if forward mode asks for the derivative of a result."""
    forward_mode = forward_ad._current_level >= 0 and torch._C._is_fwd_grad_enabled()
    return forward_mode and any(forward_ad.unpack_dual(t).tangent is not None for t in tensors)


@BugReports()
def _differentiated(keys: torch._C.DispatchKeySet, inputs: list[torch.Tensor], kernel: str) -> list[torch.Tensor]:
    # In forward mode the derivative is asked for now, in reverse mode maybe later: see _Launch.backward.
    if has_tangent(inputs):
        raise not_differentiable(f"kernel {_found(kernel).name!r}")
    if not (torch.is_grad_enabled() and any(t.requires_grad for t in inputs)):
        return below_autograd(launch_op, keys, inputs, kernel)
    with enable_single_level_autograd_function():
        outputs: tuple[torch.Tensor, ...] = cast("Any", _Launch).apply(keys, kernel, *inputs)
        return list(outputs)


def batched_by_element(
    op: Any, info: Any, in_dims: tuple[Sequence[int | None], None], tensors: list[torch.Tensor], name: str
) -> tuple[list[torch.Tensor], list[int]]:
    """``torch.vmap``: one call of ``op`` for each element of the batch, then one copy of each result into a stack."""
    check_shape((info.batch_size,))
    calls = [
        op([t if d is None else t.select(d, i) for t, d in zip(tensors, in_dims[0], strict=True)], name)
        for i in range(info.batch_size)
    ]
    results = [torch.stack(column) for column in zip(*calls, strict=True)]
    return results, [0] * len(results)


@BugReports()
def _batched(info: Any, in_dims: Any, inputs: list[torch.Tensor], kernel: str) -> Any:
    return batched_by_element(launch_op, info, in_dims, inputs, kernel)


def _raise_no_gradient(kernel: str, _count: int) -> list[torch.Tensor]:
    raise not_differentiable(f"kernel {_found(kernel).name!r}")


def _infer_no_gradient(kernel: str, count: int) -> list[torch.Tensor]:
    return [torch.empty(s.shape, dtype=torch_dtype(s.dtype), device="cpu") for s in _found(kernel).inputs[:count]]


# open_nki::update


@BugReports()
def _update(changed: list[torch.Tensor], results: list[torch.Tensor], others: list[torch.Tensor], kernel: str) -> None:
    executable = _found(kernel)
    changes = executable.changes
    tensors = _checked(executable, _merged(sorted(set(changes.values())), changed, others))
    check_operands(executable.name, fresh_specs(executable), [_operand(t) for t in results])
    if isinstance(executable, Simulated):
        found = updated(executable.run(tensors), tensors, changes)
        for result, tensor in zip(results, [t for i, t in enumerate(found) if i not in changes], strict=True):
            result.copy_(tensor)
        return
    dense = [t if t.is_contiguous() else torch.empty_like(t, memory_format=torch.contiguous_format) for t in results]
    launch_in_place(executable, tensors, (), dense)
    for result, tensor in zip(results, dense, strict=True):
        if result is not tensor:
            result.copy_(tensor)


@BugReports()
def _infer_update(
    changed: list[torch.Tensor], _results: list[torch.Tensor], others: list[torch.Tensor], kernel: str
) -> None:
    _infer_launch([*changed, *others], kernel)  # refuses what the kernel cannot take


@BugReports()
def _update_differentiated(
    keys: torch._C.DispatchKeySet,
    changed: list[torch.Tensor],
    results: list[torch.Tensor],
    others: list[torch.Tensor],
    kernel: str,
) -> None:
    tensors = [*changed, *others]
    if has_tangent(tensors) or (torch.is_grad_enabled() and any(t.requires_grad for t in tensors)):
        raise not_differentiable(f"kernel {_found(kernel).name!r}, which changes its arguments,")
    below_autograd(update_op, keys, changed, results, others, kernel)


@BugReports()
def _update_negated(
    keys: torch._C.DispatchKeySet,
    changed: list[torch.Tensor],
    results: list[torch.Tensor],
    others: list[torch.Tensor],
    kernel: str,
) -> None:
    """Update copies of tensors that PyTorch negates lazily, and copy them back: their memory has other numbers."""
    plain, fresh = [t.resolve_neg() for t in changed], [t.resolve_neg() for t in results]
    below = keys & torch._C._dispatch_keyset_full_after(torch._C.DispatchKey.Negative)
    update_op.redispatch(below, plain, fresh, [t.resolve_neg() for t in others], kernel)
    for tensor, copy in zip((*changed, *results), (*plain, *fresh), strict=True):
        if copy is not tensor:
            tensor.copy_(copy)


def _raise_no_batch(_info: Any, _in_dims: Any, _changed: Any, _results: Any, _others: Any, kernel: str) -> Any:
    raise NotBatchableError(
        f"kernel {_found(kernel).name!r}, which changes its arguments, cannot run under torch.vmap in a graph",
        fix="call it for each element, or write the batch axis into the kernel",
    )


def _refuse_elsewhere(*arguments: Any) -> Any:
    """The operators for tensors that are not in the memory of the CPU, or not one block of it, or for none."""
    for tensors in arguments[:-1]:
        for t in tensors:
            TENSORS.map_framework_tensor(t)
            check_devices([t.device.type])
    raise OperandError(
        f"kernel {_found(arguments[-1]).name!r} is called without tensors",
        fix="call the kernel itself, which makes the call of the operator",
    )


_library: Final = torch.library.Library("open_nki", "DEF")
_TAGS: Final = (torch.Tag.pt2_compliant_tag,)
_library.define("launch(Tensor[] inputs, str kernel) -> Tensor[]", tags=_TAGS)
_library.define("update(Tensor(a!)[] changed, Tensor(b!)[] results, Tensor[] others, str kernel) -> ()", tags=_TAGS)
_library.define("no_gradient(str kernel, int count) -> Tensor[]", tags=_TAGS)
_library.impl("launch", _launch, "CPU")
_library.impl("update", _update, "CPU")
_library.impl("launch", _refuse_elsewhere, "CompositeExplicitAutograd")
_library.impl("update", _refuse_elsewhere, "CompositeExplicitAutograd")
_library.impl("no_gradient", _raise_no_gradient, "CompositeExplicitAutograd")
torch.library.register_fake("open_nki::launch", _infer_launch, lib=_library)
torch.library.register_fake("open_nki::update", _infer_update, lib=_library)
torch.library.register_fake("open_nki::no_gradient", _infer_no_gradient, lib=_library)
_library.impl("launch", _differentiated, "Autograd", with_keyset=True)
_library.impl("update", _update_differentiated, "Autograd", with_keyset=True)
_library.impl("update", _update_negated, "Negative", with_keyset=True)
torch.library.register_vmap("open_nki::launch", _batched, lib=_library)
torch.library.register_vmap("open_nki::update", _raise_no_batch, lib=_library)
launch_op: Final = torch.ops.open_nki.launch.default
update_op: Final = torch.ops.open_nki.update.default
_no_gradient: Final = torch.ops.open_nki.no_gradient.default
