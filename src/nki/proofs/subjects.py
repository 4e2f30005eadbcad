"""The two subjects of a proof: kernels as specialised programs, or functions on arrays."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from nki.frontend.specialise import launch_of
from nki.ir.program import Program
from nki.ir.types import TensorSpec
from nki.jit import Kernel
from nki.numerics.floating_point import default_environment
from nki.profiling.compiling import compiled_to, shaped_arguments
from nki.proofs import traced
from nki.proofs.executor import evaluate
from nki.proofs.reals import Reals
from nki.proofs.sides import Side
from nki.proofs.symbols import Symbols
from nki.target.model import Target
from nki.workload.reference import of_arrays_or_tensors

Array = NDArray[Any]
_STOP = "accumulate"
"""The stage that says which products add to what their tile holds: after it a program says all that it computes."""


@dataclass(frozen=True)
class Subject:
    """One of the two functions of a proof: ``evaluate`` gives its outputs over a finite field, ``side`` on arrays."""

    name: str
    evaluate: Callable[[Sequence[Symbols | Array], Reals], list[Symbols]]
    side: Side
    inputs: list[TensorSpec]
    outputs: list[tuple[int, ...]] | None
    """Shapes of the outputs; None if they are known after evaluation only."""
    given: list[Any] = field(default_factory=list[Any])
    """The arguments for the inputs: arrays, or what has only a shape."""


class Launch(NamedTuple):
    """A kernel, or a function without decorator that is one, and the arguments of a call."""

    kernel: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


def of_kernels(old: Launch, new: Launch, target: Target | None = None) -> tuple[Subject, Subject]:
    """Two kernels for arguments of their own; tensors count by shape and dtype only. Raises what compilation raises.

    Where a kernel of Beta 1 stands in the brackets of a grid, the other one gets the grid as its parameter ``grid``, if
    it has one: so migration writes it. Their outputs are what both return, and the inputs that one of them changes; of
    a kernel that returns nothing and one that does, these inputs only.
    """
    sides = [_specialised(each, target) for each in _with_grids(old, new)]
    programs = _with_changes(*(program for _, program, _ in sides))
    one, other = (of_program(side[0], each, side[2]) for side, each in zip(sides, programs, strict=True))
    return one, other


def of_kernel(launch: Launch, target: Target | None = None) -> Subject:
    """One kernel, beside a function."""
    return of_program(*_specialised(launch, target))


def _with_grids(*launches: Launch) -> Iterator[Launch]:
    """The launches; where a kernel of Beta 1 is in brackets, the other one has its grid as an argument."""
    kernels = [each.kernel for each in launches if isinstance(each.kernel, Kernel)]
    grids = [launch_of(each.grid, each.chosen_target())[1].axes[:-1] for each in kernels]  # behind them stands a 1
    grid = next(filter(None, grids), ())
    for each in launches:
        kernel = each.kernel
        names = kernel.names if isinstance(kernel, Kernel) and type(kernel) is Kernel else ()  # others are of Beta 1
        takes = bool(grid) and "grid" in names[len(each.args) :] and "grid" not in each.kwargs
        yield each._replace(kwargs={**each.kwargs, "grid": grid}) if takes else each


def _specialised(launch: Launch, target: Target | None) -> tuple[str, Program, list[Any]]:
    """Name and program of a kernel, and its arguments that are tensors, in the order of its inputs."""
    kernel = launch.kernel if isinstance(launch.kernel, Kernel) else Kernel(launch.kernel)
    chosen = target or kernel.chosen_target()
    kwargs = dict(launch.kwargs)
    adapter, arguments = shaped_arguments(kernel, launch.args, kwargs)
    program = compiled_to(_STOP, kernel, kernel.specs(arguments, adapter), chosen)
    given = kernel.bind(launch.args, kwargs)
    tensors = [given[name] for name, value in arguments.items() if adapter.is_framework_tensor(value)]
    return kernel.func.__name__, program, tensors


def _with_changes(old: Program, new: Program) -> tuple[Program, Program]:
    """Both programs with the same inputs among their outputs: those that one of them changes."""
    if len(old.inputs) != len(new.inputs):
        return old, new  # no proof compares them
    returned = [each.signature.returned for each in (old, new)]
    if not all(returned):
        returned = [(), ()]
    changed = sorted({at for each in (old, new) for at in each.signature.changed_inputs().values()})
    made: list[Program] = []
    for program, results in zip((old, new), returned, strict=True):
        inputs = [program.inputs[at] for at in changed]
        forms = program.signature.forms[: len(results)]
        signature = replace(program.signature, outputs=results, forms=forms, hidden=0)
        made.append(replace(program, signature=signature.with_hidden(inputs)))
    return made[0], made[1]


def of_program(name: str, program: Program, given: Sequence[Any] = ()) -> Subject:
    """A program that says which products add (see :data:`_STOP`)."""

    def outputs(inputs: Sequence[Symbols | Array], reals: Reals) -> list[Symbols]:
        with default_environment():
            return evaluate(program, inputs, reals)

    shapes = [spec.shape for spec in program.signature.output_specs()]
    side = Side(name, program)
    return Subject(name, outputs, side, list(program.signature.input_specs()), shapes, list(given))


def of_function(function: Callable[..., Any], args: tuple[Any, ...], inputs: list[TensorSpec]) -> Subject:
    """A function of NumPy, PyTorch or JAX; ``inputs``: of the kernel on the other side."""

    def outputs(values: Sequence[Symbols | Array], reals: Reals) -> list[Symbols]:
        return traced.evaluate_function(function, values, args, reals)

    call = of_arrays_or_tensors(function, sys.modules.get("torch"))

    def on_arrays(*arrays: Array) -> Any:
        values = iter(arrays)
        return call(*(next(values) if traced.is_tensor(each) else each for each in args))

    name = traced.name_of(function)
    given = [each for each in args if traced.is_tensor(each)]
    return Subject(name, outputs, Side.of_function(name, on_arrays), inputs, None, given)


def ranges(specs: Sequence[TensorSpec], tensors: Sequence[Any]) -> list[tuple[int, int] | None]:
    """The least and the most integer of each input of integers, None for the others.

    ``tensors``: the arguments for them. An array says it by its contents; a shape does not, and such integers number
    what the other inputs have: from 0 to below the smallest size, as labels, indices and lengths do.
    """
    sizes = [size for spec in specs if not spec.dtype.is_integer for size in spec.shape if size > 1]
    below = min(sizes, default=2)
    found: list[tuple[int, int] | None] = []
    for spec, tensor in zip(specs, tensors, strict=True):
        if not spec.dtype.is_integer:
            found.append(None)
        elif isinstance(tensor, np.ndarray) and tensor.size:
            numbers = cast("Array", tensor)
            found.append((int(numbers.min()), int(numbers.max())))
        else:
            found.append((0, below - 1))
    return found


def drawn(specs: Sequence[TensorSpec], allowed: Sequence[tuple[int, int] | None], seed: int) -> list[Array | None]:
    """Random integers for each input of integers, None for the others."""
    random = np.random.default_rng(seed)
    return [
        None if each is None else random.integers(each[0], each[1] + 1, spec.shape).astype(spec.dtype.dtype)
        for spec, each in zip(specs, allowed, strict=True)
    ]


def around(
    specs: Sequence[TensorSpec],
    known: Sequence[Array | None],
    allowed: Sequence[tuple[int, int] | None],
    thresholds: Sequence[float],
) -> Iterator[list[Array]]:
    """Inputs to try first: random ones with the ``known`` inputs, and numbers at and around ``thresholds``."""
    random = np.random.default_rng(0)
    integers = [one if one is not None else other for one, other in zip(known, drawn(specs, allowed, 0), strict=True)]
    scales = [0.0, 1.0] if any(each is not None for each in integers) else []
    fills: list[Callable[[tuple[int, ...]], Array]] = [partial(_normal, random, 0.0, scale) for scale in scales]
    for threshold in thresholds:
        fills += [partial(_normal, random, threshold, scale) for scale in (0.0, 2 * abs(threshold) + 1)]
    for fill in fills:
        yield [
            fill(spec.shape).astype(spec.dtype.dtype) if whole is None else whole
            for spec, whole in zip(specs, integers, strict=True)
        ]


def _normal(random: np.random.Generator, mean: float, scale: float, shape: tuple[int, ...]) -> Array:
    with np.errstate(over="ignore"):  # a threshold may be the largest float32
        return (mean + scale * random.standard_normal(shape)).astype(np.float32)


__all__ = [
    "Array", "Launch", "Subject", "around", "drawn", "of_function", "of_kernel", "of_kernels", "of_program", "ranges",
]  # fmt: skip
