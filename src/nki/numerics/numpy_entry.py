"""The compiled activation functions on NumPy arrays: what the executor that runs without compiling calls.

One loop per function is compiled at its first use and kept. The body works on vectors and the last elements one by one;
both come from the same formulas, so an element's bits do not depend on its place.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
from llvmlite import ir
from numpy.typing import ArrayLike, NDArray

from nki.isa.tables.activations import ACTIVATIONS
from nki.numerics.functions import emit, emit_power
from nki.numerics.llvm import F32, I64, POINTER, VOID, Builder, Variable, canonical_nan, i64, steps, taken
from nki.numerics.llvm_jit import Passes, engine

Array = NDArray[np.float32]
_Emit = Callable[[ir.IRBuilder, list[Any]], ir.Value]


def activate(name: str, x: Array, parameter: ArrayLike | None = None) -> Array:
    """The activation function ``name`` of every element of the float32 array ``x``; a new array of its shape.

    ``parameter`` (the slope of ``prelu``) is a number or an array that broadcasts to the shape of ``x``. Raises
    ``KeyError`` for an unknown name, ``TypeError`` for another dtype or for a parameter that is missing or too much.
    """
    row = ACTIVATIONS[name]
    if (parameter is not None) != bool(row.parameter):
        raise TypeError(f"{name} needs its {row.parameter}" if row.parameter else f"{name} has no parameter")
    if parameter is None:
        return _run(_compiled(name, 1), x)
    return _run(_compiled(name, 2), x, np.broadcast_to(np.asarray(parameter, np.float32), x.shape))


def power(x: Array, y: Array) -> Array:
    """``x`` to the power ``y``, element by element, of two float32 arrays that broadcast to one shape."""
    return _run(_compiled("power", 2), *np.broadcast_arrays(x, y))


def _run(function: Any, *inputs: Array) -> Array:
    for array in inputs:
        if array.dtype != np.float32:
            raise TypeError(f"activation functions take float32, not {array.dtype}")
    dense = [np.ascontiguousarray(array) for array in inputs]
    result = np.empty(inputs[0].shape, np.float32)
    function(result.ctypes.data, *[array.ctypes.data for array in dense], result.size)
    return result


@cache
def _compiled(name: str, inputs: int) -> Any:
    """The compiled loop of a function, or of "power", as a callable of addresses (result, inputs...) and a count."""

    def formula(builder: ir.IRBuilder, values: list[Any]) -> ir.Value:
        return emit_power(builder, *values) if name == "power" else emit(builder, name, *values)

    symbol = name if name == "power" else f"activate_{name}"
    make = partial(_text, symbol, inputs, formula)
    address = engine().fixed(f"nki_{symbol}_{inputs}", make, Passes.brief)[symbol]
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (1 + inputs), ctypes.c_int64)(address)


def _text(name: str, inputs: int, formula: _Emit) -> str:
    return taken(loop_module(name, inputs, formula, engine().vector_width))


def loop_module(name: str, inputs: int, formula: _Emit, width: int) -> ir.Module:
    """A module with ``void name(float* result, float* input..., int64 count)``: ``formula`` of each element.

    A NaN is written as the canonical one.
    """
    module = ir.Module(name)
    function = ir.Function(module, ir.FunctionType(VOID, [POINTER] * (1 + inputs) + [I64]), name)
    function.args[0].add_attribute("noalias")
    result, *pointers, count = function.args
    b: Builder = ir.IRBuilder(function.append_basic_block())
    done = Variable(b)
    done.set(i64(0))
    for lanes in (width, 1):
        kind = F32 if lanes == 1 else ir.VectorType(F32, lanes)
        with steps(b, count, lanes, done) as index:
            places = [b.gep(pointer, [index], source_etype=F32) for pointer in (result, *pointers)]
            values = [b.load(place, typ=kind, align=4) for place in places[1:]]
            b.store(canonical_nan(b, formula(b, values)), places[0], align=4)
    b.ret_void()
    return module
