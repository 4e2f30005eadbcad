"""Kernels on PyTorch tensors: eager, inside ``autograd.Function``, and in graphs of ``torch.compile``.

In graphs, under ``torch.func`` and for tensors with gradients, operators stand for kernels
(:mod:`nki.frameworks.torch_operators`). Plain eager calls bypass them, because their dispatch costs more than the rest
of the call.
"""

# PyTorch declares types only in part, and of its internals not that they may give None.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnnecessaryComparison=false
# pyright: reportPrivateUsage=false

from __future__ import annotations

from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np
import torch
from torch._C import _is_tracing, _len_torch_dispatch_stack, _len_torch_function_stack
from torch._C._functorch import is_functorch_wrapped_tensor, peek_interpreter_stack
from torch.autograd import forward_ad
from torch.compiler import is_dynamo_compiling
from torch.fx.experimental.symbolic_shapes import guard_scalar, has_free_unbacked_symbols

from nki.base import element_types as dtypes
from nki.base.framework_errors import EagerTraceError, FixedShapeError
from nki.base.locks import imported
from nki.compilation import ranked_launch
from nki.frameworks import embedded, torch_distributed, torch_simulated
from nki.frameworks.kernel_adapter import Adapter, FrameworkKernel, check_elements, pack, remember
from nki.frameworks.torch_launch import extent, fresh_specs, launch, launch_in_place, launch_plain, shaped, updated
from nki.frameworks.torch_operators import launch_op, update_op
from nki.frameworks.torch_simulated import Simulated
from nki.frameworks.torch_tensors import (
    PLAIN,
    StandIn,
    TorchTensors,
    check_devices,
    check_open,
    not_differentiable,
    open_sizes,
    refuse_unknown,
    torch_dtype,
)
from nki.jit import simulate_eagerly

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from numpy.typing import NDArray

    from nki.compilation.executable import Executable
    from nki.compilation.traced_step import Event
    from nki.jit import Kernel


class TorchAdapter(TorchTensors, Adapter):
    """Runs kernels on tensors in the memory of the CPU."""

    def call(self, kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if is_dynamo_compiling():
            if torch_distributed.among([*args, *kwargs.values()]):
                return torch_distributed.call(kernel, args, kwargs, _changed)
            return _call_in_graph(kernel, args, kwargs, False)
        under_func = _under_func()
        # What PyTorch shows to a mode, or records in torch.jit.trace, is its operators' calls.
        watched = under_func or _len_torch_dispatch_stack() or _len_torch_function_stack() or _is_tracing()
        if not (kwargs or watched):
            results = launch_plain(kernel, args)
            if results is not None:
                return results
        if _is_tracing():
            return _call_in_trace(kernel, args, kwargs)
        executable, tensors, floats = kernel.launchable(args, kwargs, self)
        if executable.changes and ranked_launch.active:
            ranked_launch.check_apart(executable.inputs, tensors, executable.changes.values())
        grad = torch.is_grad_enabled()
        plain = not watched
        for t in tensors:
            if not t.is_cpu:
                if any(x.device.type == "xla" for x in tensors):
                    return imported("nki.frameworks.torch_xla").call(kernel, args, kwargs, self)
                check_devices([t.device.type for t in tensors])
                plain = False
            elif type(t) not in PLAIN or (grad and t.requires_grad) or t.is_neg():
                plain = False
        if plain:
            run = launch_in_place if executable.changes else launch
            try:
                return pack(executable, run(executable, tensors, floats))
            except RuntimeError:
                # Tensors of a torch.func that has returned, as in the function of torch.func.vjp, have no memory here.
                if not any(map(is_functorch_wrapped_tensor, tensors)):
                    raise
        if torch_distributed.among(tensors):
            return torch_distributed.call(kernel, args, kwargs, _changed)
        if executable.float_names:  # graphs name kernels without float arguments
            executable, tensors = kernel.specialise(args, kwargs, self)
        return pack(executable, _dispatched(_named(executable), tensors, _changes(executable), under_func))

    def simulate(self, kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if torch_distributed.among([*args, *kwargs.values()]):
            return torch_distributed.call(kernel, args, kwargs, _changed)
        if is_dynamo_compiling() or _under_func() or _len_torch_dispatch_stack() or _len_torch_function_stack():
            return _call_in_graph(kernel, args, kwargs, True)
        if _is_tracing():
            raise _no_simulator("torch.jit.trace")
        return super().simulate(kernel, args, kwargs)

    def carried(self) -> Callable[[], AbstractContextManager[Any]]:
        grad, inference = torch.is_grad_enabled(), torch.is_inference_mode_enabled()

        @contextmanager
        def entered() -> Generator[None]:
            with torch.inference_mode(inference), torch.set_grad_enabled(grad):
                yield

        return entered

    def extent(self, t: Any) -> tuple[int, int]:
        return extent(t) if t.is_cpu and t.layout is torch.strided else (0, 0)

    def to_numpy(self, t: Any) -> NDArray[Any]:
        check_devices([t.device.type, "cpu"])
        if torch.is_grad_enabled() and t.requires_grad:
            raise not_differentiable("a kernel in the eager simulator")
        dtype = self.translate_to_neuron_dtype(t.dtype).dtype
        _refuse_export()
        # By way of bytes, because PyTorch hands only its oldest dtypes to NumPy. The last dimension may have any stride
        # if its size is 1, also in a contiguous tensor; the flat one has stride 1.
        dense = t.detach().resolve_neg().contiguous().reshape(-1)
        return dense.view(torch.uint8).numpy().view(dtype).reshape(t.shape)

    def update(self, t: Any, array: NDArray[Any], name: str) -> Any:
        check_elements(name, t.shape, t.stride())
        return updated([self.from_numpy(array)], [t], {0: 0})[0]

    def from_numpy(self, array: NDArray[Any]) -> Any:
        dtype = torch_dtype(dtypes.of(array.dtype))
        return torch.from_numpy(array.view(np.uint8)).view(dtype).reshape(array.shape)

    def trace(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Event]:
        return imported("nki.frameworks.torch_step").trace(function, args, kwargs)


class PyTorchFrameworkKernel(TorchTensors, FrameworkKernel):
    """A :class:`FrameworkKernel` with PyTorch tensors as example arguments (of any device, meta included)."""


def _under_func() -> bool:
    """True inside ``torch.func`` and forward mode, where tensors have more than their own elements."""
    level: int = forward_ad._current_level
    return peek_interpreter_stack() is not None or level >= 0


def _call_in_trace(kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The results of ``kernel``, as a node of the graph that ``torch.jit.trace`` records.

    Such a graph is saved, so it holds the kernel itself. While it is recorded, sizes of tensors are tensors, too, but a
    kernel is compiled for numbers. PyTorch itself copies what changes: such graphs drop an operator that has no effect
    but on a list of tensors.
    """
    state: Any = torch._C
    trace = state._get_tracing_state()
    state._set_tracing_state(None)
    try:
        executable, tensors = kernel.specialise(args, kwargs, ADAPTER)
        check_devices([t.device.type for t in tensors])
        name = embedded.embed(executable)
    finally:
        state._set_tracing_state(trace)
    results = launch_op(tensors, name)
    for output, number in executable.changes.items():
        tensors[number].copy_(results[output].view(executable.inputs[number].shape))
        results[output] = tensors[number].view(executable.outputs[output].shape)
    return pack(executable, results)


def _no_simulator(tracer: str) -> EagerTraceError:
    return EagerTraceError(
        f"the eager simulator runs in this process alone, and {tracer} records a program for others",
        fix="record it without nki.simulate and NKI_SIMULATOR=1",
    )


def _refuse_export() -> None:
    if torch.compiler.is_exporting():
        raise _no_simulator("torch.export")


def _named(executable: Executable) -> str:
    """The argument ``kernel`` of the operators: a path, and in an exported program the artifact itself."""
    return embedded.embed(executable) if torch.compiler.is_exporting() else remember(executable)


class _Changes(NamedTuple):
    """The results of a kernel that changes its arguments, by their numbers."""

    inputs: tuple[tuple[int, int, tuple[int, ...]], ...]
    """Results that are inputs: number of the result and of the input, shape of the result."""
    fresh: tuple[tuple[tuple[int, ...], torch.dtype], ...]
    """Shape and dtype of the other results."""
    returned: int
    """The number of results that the caller of the kernel receives, the first ones."""


def _changes(executable: Executable) -> _Changes:
    return _Changes(
        tuple((o, i, tuple(executable.outputs[o].shape)) for o, i in sorted(executable.changes.items())),
        tuple((tuple(spec.shape), torch_dtype(spec.dtype)) for spec in fresh_specs(executable)),
        executable.returned,
    )


def _dispatched(name: str, tensors: Sequence[torch.Tensor], changes: _Changes, under_func: bool) -> list[torch.Tensor]:
    """The results of the operator that stands for the kernel ``name``.

    With a gradient, or under ``torch.func``, PyTorch itself copies what changes, for it knows both.
    """
    inputs = list(tensors)
    if not changes.inputs:
        return launch_op(inputs, name)
    if under_func or (torch.is_grad_enabled() and any(t.requires_grad for t in inputs)):
        return updated(launch_op(inputs, name), inputs, {output: number for output, number, _ in changes.inputs})
    numbers = sorted({number for _, number, _ in changes.inputs})
    others = [t for i, t in enumerate(inputs) if i not in numbers]
    changed = [inputs[i] for i in numbers]
    results = [torch.empty(shape, dtype=dtype, device=changed[0].device) for shape, dtype in changes.fresh]
    update_op(changed, results, others, name)
    for output, number, shape in changes.inputs:
        results = [*results[:output], shaped(inputs[number], shape), *results[output:]]  # Dynamo lacks list.insert
    return results


def _changed(kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """The tensors among the arguments that ``kernel`` changes."""
    if not is_dynamo_compiling():
        executable, tensors, _ = kernel.launchable(args, kwargs, ADAPTER)
        return [tensors[i] for i in executable.changes.values()]
    found: list[torch.Tensor] = []
    dynamic = _dynamic()
    described = [_describe(x, found) for x in (*args, *kwargs.values())]
    _, order, _, changes = _prepare(kernel, False, dynamic, tuple(kwargs), *described)
    return [found[order[i]] for _, i, _ in changes.inputs]


# Under torch.compile. Dynamo traces _call_in_graph itself; it calls _prepare for real, once per set of arguments, and
# treats what it returns as a constant. So the code here keeps to what Dynamo understands.

_TENSOR: Final = "open_nki::tensor"


def _call_in_graph(kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any], simulated: bool) -> Any:
    tensors: list[torch.Tensor] = []
    dynamic = _dynamic()
    described = [_describe(x, tensors) for x in (*args, *kwargs.values())]
    name, order, is_sequence, changes = _prepare(kernel, simulated, dynamic, tuple(kwargs), *described)
    outputs = _dispatched(name, [tensors[i] for i in order], changes, simulated)[: changes.returned]
    return tuple(outputs) if is_sequence else outputs[0]


def _describe(value: Any, tensors: list[torch.Tensor]) -> Any:
    """``value`` with each tensor replaced by constants that describe it; the tensors are appended to ``tensors``.

    Dynamo may hold sizes and numbers as symbols; ``guard_scalar`` makes it compile for their present values, as a
    kernel needs.
    """
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        if has_free_unbacked_symbols(value):
            _refuse_unknown()
        shape = tuple([guard_scalar(d) for d in value.shape])
        # Not the layout, at which no backward may look under the compiler; the operator looks at it.
        return (_TENSOR, len(tensors) - 1, shape, value.dtype, value.device.type)
    if isinstance(value, (list, tuple)):
        items = [_describe(x, tensors) for x in cast("Sequence[Any]", value)]
        return tuple(items) if isinstance(value, tuple) else items
    if isinstance(value, dict):
        return {k: _describe(x, tensors) for k, x in cast("dict[Any, Any]", value).items()}
    return guard_scalar(value) if isinstance(value, (int, float)) else value


def _restore(value: Any) -> Any:
    """Undo :func:`_describe`, with stand-ins for the tensors."""
    if isinstance(value, tuple):
        items = cast("tuple[Any, ...]", value)
        return StandIn(*items[1:]) if items and items[0] == _TENSOR else tuple(map(_restore, items))
    if isinstance(value, list):
        return [_restore(x) for x in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {k: _restore(x) for k, x in cast("dict[Any, Any]", value).items()}
    return value


@torch.compiler.assume_constant_result
def _dynamic() -> tuple[str, ...]:
    return open_sizes()


@torch.compiler.assume_constant_result
def _refuse_unknown() -> None:
    refuse_unknown()


@torch.compiler.assume_constant_result
def _prepare(
    kernel: Kernel, simulated: bool, dynamic: tuple[str, ...], names: tuple[str, ...], *described: Any
) -> tuple[str, tuple[int, ...], bool, _Changes]:
    """Compile; returns the operator's name for the kernel, the order of its inputs among the tensors, its form, and the
    outputs that are inputs. ``dynamic``: the sizes that had to stay open before the kernel's arguments were described.
    """
    try:
        check_open(dynamic, open_sizes())
    except FixedShapeError as error:
        error.message = f"kernel {kernel.func.__name__!r}: {error.message}"
        raise
    values = [_restore(x) for x in described]
    split = len(values) - len(names)
    args, kwargs = tuple(values[:split]), dict(zip(names, values[split:], strict=True))
    executable, tensors = kernel.specialise(args, kwargs, ADAPTER)
    check_devices([t.device_type for t in tensors])
    order = tuple(t.position for t in tensors)
    name = _simulated(kernel, args, kwargs, executable, order) if simulated else _named(executable)
    return name, order, executable.returns_sequence, _changes(executable)


def _simulated(
    kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any], executable: Executable, order: tuple[int, ...]
) -> str:
    """The name of ``kernel`` with these arguments in the eager simulator; ``order`` comes from :func:`_prepare`."""
    _refuse_export()
    changes, is_sequence = executable.changes, executable.returns_sequence
    unreturned = range(executable.returned, len(executable.outputs))

    def run(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        # What the kernel changes is a copy: the caller of a graph's operator updates its tensors itself.
        copies = [t.clone() if i in changes.values() else t for i, t in enumerate(tensors)]
        by_position = dict(zip(order, copies, strict=True))

        def actual(value: Any) -> Any:
            return by_position[value.position] if isinstance(value, StandIn) else value

        found = simulate_eagerly(kernel, tuple(map(actual, args)), {k: actual(v) for k, v in kwargs.items()}, ADAPTER)
        hidden = [copies[changes[output]] for output in unreturned]
        return [*(found if is_sequence else [found]), *hidden]

    key = kernel.key(kernel.bind(args, kwargs), ADAPTER)[0]
    simulated = Simulated(executable.name, executable.inputs, executable.outputs, changes, run)
    return torch_simulated.remember((kernel, key, order), simulated)


ADAPTER: Final = TorchAdapter()
