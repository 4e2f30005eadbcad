"""The two subjects of a proof: kernels as specialised programs, or functions on arrays."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

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


def of_kernel(
    kernel: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], target: Target | None = None
) -> Subject:
    """``kernel`` for arguments; tensors count by shape and dtype only. Raises what compilation raises."""
    launched = kernel if isinstance(kernel, Kernel) else Kernel(kernel)
    chosen = target or launched.chosen_target()
    adapter, arguments = shaped_arguments(launched, args, kwargs)
    return of_program(launched.func.__name__, compiled_to(_STOP, launched, launched.specs(arguments, adapter), chosen))


def of_program(name: str, program: Program) -> Subject:
    """A program that says which products add (see :data:`_STOP`)."""

    def outputs(inputs: Sequence[Symbols | Array], reals: Reals) -> list[Symbols]:
        with default_environment():
            return evaluate(program, inputs, reals)

    shapes = [spec.shape for spec in program.signature.output_specs()]
    side = Side.of_program(name, program)
    return Subject(name, outputs, side, list(program.signature.input_specs()), shapes)


def of_function(function: Callable[..., Any], args: tuple[Any, ...], inputs: list[TensorSpec]) -> Subject:
    """A function of NumPy, PyTorch or JAX; ``inputs``: of the kernel on the other side."""

    def outputs(values: Sequence[Symbols | Array], reals: Reals) -> list[Symbols]:
        return traced.evaluate_function(function, values, args, reals)

    call = of_arrays_or_tensors(function, sys.modules.get("torch"))

    def on_arrays(*arrays: Array) -> Any:
        values = iter(arrays)
        return call(*(next(values) if traced.is_tensor(each) else each for each in args))

    name = traced.name_of(function)
    return Subject(name, outputs, Side.of_function(name, on_arrays), inputs, None)


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


__all__ = ["Array", "Subject", "around", "drawn", "of_function", "of_kernel", "of_program", "ranges"]
