"""The compiled activation functions on NumPy arrays: what the executor that runs without compiling calls.

One loop per function is compiled at its first use and kept. The body works on vectors and the last elements one by one;
both come from the same formulas, so an element's bits do not depend on its place.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numpy.typing import ArrayLike, NDArray

from nki.isa.tables.activations import ACTIVATIONS
from nki.numerics.functions import emit, emit_power
from nki.numerics.jit import engine
from nki.numerics.llvm import canonical_nan
from nki.numerics.simd import F32, I64

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
    address = engine().compile(loop_module(symbol, inputs, formula, engine().vector_width))[symbol]
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (1 + inputs), ctypes.c_int64)(address)


def loop_module(name: str, inputs: int, formula: _Emit, width: int) -> ir.Module:
    """A module with ``void name(float* result, float* input..., int64 count)``: ``formula`` of each element.

    A NaN is written as the canonical one.
    """
    module = ir.Module(name)
    signature = ir.FunctionType(ir.VoidType(), [F32.as_pointer()] * (1 + inputs) + [I64])
    function = ir.Function(module, signature, name)
    function.args[0].add_attribute("noalias")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    count = function.args[-1]
    whole = builder.and_(count, I64(-width))
    _loop(builder, I64(0), whole, formula, width)
    _loop(builder, whole, count, formula, 1)
    builder.ret_void()
    return module


def _loop(builder: ir.IRBuilder, start: Any, stop: Any, formula: _Emit, width: int) -> None:
    """``formula`` on elements ``start`` to ``stop``, ``width`` at a time; leaves the builder behind the loop."""
    function = builder.function
    result, *inputs = function.args[:-1]
    before = builder.block
    body, after = function.append_basic_block("body"), function.append_basic_block("after")
    builder.cbranch(builder.icmp_signed("<", start, stop), body, after)
    builder.position_at_end(body)
    index = builder.phi(I64)
    index.add_incoming(start, before)
    kind = F32 if width == 1 else ir.VectorType(F32, width)

    def place(pointer: Any) -> Any:
        return builder.bitcast(builder.gep(pointer, [index]), kind.as_pointer())

    values = [builder.load(place(pointer), align=4) for pointer in inputs]
    builder.store(canonical_nan(builder, formula(builder, values)), place(result), align=4)
    following = builder.add(index, I64(width))
    index.add_incoming(following, builder.block)
    again = builder.cbranch(builder.icmp_signed("<", following, stop), body, after)
    again.set_metadata("llvm.loop", _as_written(builder.module))
    builder.position_at_end(after)


def _as_written(module: ir.Module) -> Any:
    """The property of a loop that LLVM neither unrolls nor vectorises it, which would double the time to compile."""
    unroll = module.add_metadata(["llvm.loop.unroll.disable"])
    vectorise = module.add_metadata(["llvm.loop.vectorize.enable", ir.IntType(1)(0)])
    loop = module.add_metadata([])
    loop.operands = (loop, unroll, vectorise)  # a node that names itself first is how LLVM identifies a loop
    return loop
