"""The trace of a step in PyTorch: each operator that it calls, kernels included, on tensors without data.

A mode of PyTorch's dispatcher sees the operators below autograd, so that the backward is a part of a step. Fake tensors
stand for all tensors, so nothing is computed and no tensor of the caller changes. Blocks of memory are PyTorch's
storages: a view depends on all that its storage holds.
"""

# PyTorch declares types only in part.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportPrivateUsage=false, reportUntypedBaseClass=false

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import numpy as np
import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedOperatorException,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from nki.base import element_types as dtypes
from nki.base.locks import imported
from nki.base.profile_errors import StepTraceError
from nki.compilation.traced_step import Event, Launch, Operation, TensorType
from nki.frameworks import torch_simulated
from nki.frameworks.kernel_adapter import find
from nki.frameworks.torch_operators import launch_op, update_op
from nki.frameworks.torch_tensors import torch_dtype

_IN_PLACE: Final = "c10d"
"""The namespace of collectives that change their tensors, which their declarations do not say."""
COLLECTIVES: Final = (_IN_PLACE, "_c10d_functional", "c10d_functional")
"""Namespaces of operators between devices."""
_CONSTANTS: Final = (torch.ops.aten.lift_fresh.default, torch.ops.aten.lift.default)
"""Operators that make a tensor of a Python number; its value stays known."""
_ALLOCATIONS: Final = {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"}
"""Operators that set no element."""
_WAITS: Final = {"wait_tensor"}
"""Operators that wait for a collective, with a result that is their operand."""


def trace(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Event]:
    """The events of ``function``; see :meth:`nki.frameworks.kernel_adapter.Adapter.trace`."""
    fake = FakeTensorMode()
    recorder = _Recorder(fake)
    try:
        given: tuple[Any, Any] = tree_map(recorder.faked, (args, kwargs))
        with fake, recorder:
            function(*given[0], **given[1])
    except (DataDependentOutputException, DynamicOutputShapeException) as error:
        raise StepTraceError(
            f"{_name(function)} reads the contents of a tensor in Python ({error.func}), and a trace has only shapes",
            fix="pass what it reads as a Python number, and leave out the part of the step that decides by data",
        ) from error
    except UnsupportedOperatorException as error:
        raise StepTraceError(
            f"{_name(function)} calls {error.func}, which says nothing of its results without data",
            fix="give the operator a fake implementation, torch.library.register_fake, or leave it out of the step",
        ) from error
    return recorder.events


def _name(function: Any) -> str:
    return getattr(function, "__name__", type(function).__name__)


class _Recorder(TorchDispatchMode):
    """Records the operators that are called while it is on."""

    def __init__(self, fake: FakeTensorMode) -> None:
        super().__init__()
        self.fake = fake
        self.events: list[Event] = []
        self._kept: dict[int, torch.UntypedStorage] = {}
        self._same: dict[int, int] = {}

    def faked(self, value: Any) -> Any:
        """``value`` as a tensor without data, if it is a tensor or an array of NumPy."""
        if isinstance(value, np.ndarray):
            with self.fake:
                return torch.empty(value.shape, dtype=torch_dtype(dtypes.of(value.dtype)))
        if isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor):
            return self.fake.from_tensor(value)
        return value

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given: dict[str, Any] = kwargs or {}
        if func in _CONSTANTS:
            return func(*args, **given)
        args, given = tree_map(self.faked, (args, given))
        result = _not_carried_out(func, args) if func.namespace == _IN_PLACE else func(*args, **given)
        if func is launch_op:
            self._launch(args[1], self._blocks(args[0]), self._blocks(result))
        elif func is update_op:
            changed, results, others, kernel = args
            self._launch(kernel, self._blocks((changed, others)), self._blocks((changed, results)))
        else:
            self._operation(func, args, given, result)
        return result

    def _launch(self, kernel: str, reads: frozenset[int], writes: frozenset[int]) -> None:
        if kernel.startswith(torch_simulated.MARK):
            raise StepTraceError(
                f"kernel {torch_simulated.find(kernel).name!r} of the step runs in the eager simulator",
                fix="trace it without NKI_SIMULATOR=1 and nki.simulate",
            )
        self.events.append(Launch(find(kernel), reads, writes))

    def _operation(self, func: Any, args: Any, kwargs: Mapping[str, Any], result: Any) -> None:
        name = func.overloadpacket.__name__
        if name in _ALLOCATIONS:
            return
        if name in _WAITS:
            self._alias(result, args[0])
            return
        operands, results = _tensors((args, kwargs)), _tensors(result)
        written = self._blocks(operands if func.namespace == _IN_PLACE else _written(func, args, kwargs))
        reads, writes = self._blocks(operands), self._blocks(results)
        if writes <= reads and not written:
            return  # a view, or a number about a tensor
        collective = func.namespace in COLLECTIVES
        types = tuple(map(_type, operands)), tuple(map(_type, results))
        self.events.append(Operation(str(func.overloadpacket), *types, reads, writes | written, collective))

    def _blocks(self, values: Any) -> frozenset[int]:
        """The storages of the tensors in ``values``, which stay alive so that no later one has the same number."""
        found: set[int] = set()
        for tensor in _tensors(values):
            storage = tensor.untyped_storage()
            number = cast("int", storage._cdata)
            self._kept.setdefault(number, storage)
            found.add(self._same.get(number, number))
        return frozenset(found)

    def _alias(self, result: torch.Tensor, tensor: torch.Tensor) -> None:
        """``result`` holds the data of ``tensor``, though without data it has memory of its own."""
        (own,), (block,) = self._blocks(result), self._blocks(tensor)
        if own != block:
            self._same[own] = block


def _not_carried_out(func: Any, args: Any) -> Any:
    """The result of a collective that no other process takes part in: its first tensors, and what waits for nothing."""
    work = imported("torch._C._distributed_c10d").FakeWork().boxed()
    return work if len(func._schema.returns) == 1 else (args[0], work)


def _written(func: Any, args: Any, kwargs: Mapping[str, Any]) -> list[Any]:
    """The arguments that an operator changes."""
    return [
        args[number] if number < len(args) else kwargs.get(argument.name)
        for number, argument in enumerate(func._schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]


def _tensors(values: Any) -> list[torch.Tensor]:
    return [value for value in tree_leaves(values) if isinstance(value, torch.Tensor)]


def _type(tensor: torch.Tensor) -> TensorType:
    dtype = str(tensor.dtype).removeprefix("torch.")
    return TensorType(tuple(tensor.shape), dtype, tensor.numel() * tensor.itemsize)
