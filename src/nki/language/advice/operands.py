"""Advice on arguments that are no tensors, operators or flags where such are taken."""

from __future__ import annotations

import ast
import itertools
from enum import Enum
from types import FunctionType
from typing import Any, Final, cast

import numpy as np

from nki.base.dtype import DType
from nki.base.errors import ArgumentError, MemoryRegionError, NkiError, UnknownDTypeError
from nki.base.toolchain import is_toolchain
from nki.frontend.scopes import UNKNOWN
from nki.frontend.site import Site
from nki.ir.instruction import REGISTRY
from nki.ir.instruction_handle import NkiInstruction
from nki.ir.types import Buffer as MemoryRegion
from nki.isa.tables.operators import OPS, Op
from nki.language.advice.argument_order import destination_first, reordered
from nki.language.advice.call import Call, call_at
from nki.language.advice.expressions import dtype_name
from nki.language.beta1_rewriting.tables import NUMPY_OPERATORS
from nki.language.tensor import NkiTensor

_ARRAYS: Final = frozenset({"numpy", "torch", "jax", "jaxlib"})


def advise_operand(error: NkiError, site: Site) -> NkiError | None:
    """The error for a call with an argument of a wrong kind; None if the arguments are not what is wrong."""
    call = call_at(site) if isinstance(error, ArgumentError | MemoryRegionError | UnknownDTypeError) else None
    if call is None:
        return None
    order = reordered(call) if isinstance(error, ArgumentError) else destination_first(call)
    if order is not None:
        error.fix = order
        return error
    for parameter, node in call.arguments.items():
        value = call.value(parameter)
        if isinstance(value, NkiInstruction):
            return _instruction(error, site, node, value)
        fix = _fix(call, parameter, node, value)
        if fix is not None:
            error.fix = fix
            return error
    if isinstance(error, ArgumentError) and (fix := _positional_operator(call)):
        error.fix = fix
        return error
    return None


def _fix(call: Call, parameter: str, node: ast.expr, value: Any) -> str | None:
    nl = call.site.module("nki.language", "nl")
    operator = _operator_name(value) if parameter.startswith(("op", "cmp")) else ""
    if operator:
        return f"write `{call.with_arguments(**{parameter: f'{nl}.{operator}'})}`"
    if parameter == "op" and "axis" in call.arguments and isinstance(value, FunctionType):
        return _function_of_tiles(call, value, nl)
    if isinstance(value, str) and (kind := _enumeration(call, parameter)) is not None and value in kind.__members__:
        return f"write `{call.with_arguments(**{parameter: f'{call.nisa}.{kind.__name__}.{value}'})}`"
    if parameter == "dtype" and isinstance(value, MemoryRegion):
        return _dtype_and_buffer(call, value)
    if parameter == "dtype" and type(value) is int:
        return _sizes(call, nl)
    if parameter == "dtype":
        name = dtype_name(value) if value is not UNKNOWN and _is_foreign(value) else ""
        return f"write `{call.with_arguments(dtype=f'{nl}.{name}')}`" if name else None
    if parameter == "data2" and {"data1", "op"} <= call.arguments.keys() and _is_number(value):
        return _with_number(call)
    if _is_array(value):
        return _array(call, parameter, node, value, nl)
    if parameter == "value" and call.name == "store" and _is_number(value):
        to = call.text("dst")
        return f"write `{call.with_arguments(value=f'{nl}.full({to}.shape, {ast.unparse(node)}, {to}.dtype)')}`"
    if parameter == "src" and call.name == "load" and _is_number(value):
        code = call.in_statement(_expression(f"{nl}.full((1, 1), {ast.unparse(node)}, dtype={nl}.float32)"))
        return f"a tile of a number is `{code}`"
    if isinstance(value, NkiTensor):
        return _elsewhere(call, parameter, value, nl)
    taken = call.name in ("load", "load_transpose2d", "store") or call.module == "nki.isa"
    if taken and parameter in ("src", "data", "x", "value") and (value is None or type(value) in (list, tuple)):
        kind = "None" if value is None else f"a {type(value).__name__}"
        name = ast.unparse(node)
        return f"{name} is {kind}: pass a tensor of the kernel, for a kernel argument an array such as `np.array(…)`"
    return None


def _enumeration(call: Call, parameter: str) -> type[Enum] | None:
    """The enumeration whose members a parameter of an instruction takes; None for other parameters."""
    declaration = REGISTRY.get(call.name) if call.module == "nki.isa" else None
    kinds = (f.symbol for f in declaration.fields if f.name == parameter) if declaration is not None else ()
    return next((kind for kind in kinds if kind is not None and issubclass(kind, Enum)), None)


def _dtype_and_buffer(call: Call, memory: MemoryRegion) -> str | None:
    """``nl.ndarray(shape, nl.sbuf, nl.float32)``: dtype and memory in the wrong order."""
    if {"dtype", "buffer"} <= call.arguments.keys() and isinstance(call.value("buffer"), DType):
        code = call.with_arguments(dtype=call.text("buffer"), buffer=call.text("dtype"))
        return f"the dtype comes before the memory: write `{code}`"
    if "buffer" not in call.arguments:
        code = call.with_arguments(dtype=f"{call.nl}.float32", buffer=call.text("dtype"))
        return f"nl.{memory.name} is a memory: write `{code}`, with the dtype in front of it"
    return None


def _function_of_tiles(call: Call, function: FunctionType, nl: str) -> str | None:
    """``nisa.tensor_reduce(dst, nl.mean, data, axis=1)``: a function of tiles in place of an operator."""
    if not is_toolchain(function) or not isinstance(call.arguments.get("dst"), ast.Name):
        return None
    code = f"{call.text('dst')} = {nl}.{function.__name__}({call.text('data')}, axis={call.text('axis')})"
    return f"nl.{function.__name__} is a function of tiles: write `{code}`"


def _sizes(call: Call, nl: str) -> str | None:
    """``nl.zeros(128, 512)``: sizes that are no tuple."""
    sizes = list(itertools.takewhile(lambda arg: type(call.site.value(arg)) is int, call.node.args))
    if call.name not in ("ndarray", "zeros", "ones") or len(sizes) < 2:
        return None
    rest = call.node.args[len(sizes) :]
    named = any(keyword.arg == "dtype" for keyword in call.node.keywords)
    dtype = [] if rest or named else [_expression(f"{nl}.float32")]
    code = call.in_statement(
        ast.Call(call.node.func, [ast.Tuple(sizes, ast.Load()), *dtype, *rest], call.node.keywords)
    )
    return f"the sizes are one tuple: write `{code}`"


def _elsewhere(call: Call, parameter: str, value: NkiTensor, nl: str) -> str | None:
    """The fix for a tensor in a memory that a function of ``nl`` does not take."""
    if call.module != "nki.language" and not isinstance(call.function, Op):
        return None
    second = call.value("dtype")
    if call.name == "load" and value.buffer.on_chip and isinstance(second, NkiTensor) and second.buffer.is_hbm:
        code = f"{call.nisa}.dma_copy(dst={call.text(parameter)}, src={call.text('dtype')})"
        return f"nl.load returns a new tile; into one that exists write `{code}`"
    if call.name == "load" and value.buffer.on_chip:
        code = call.in_statement(call.arguments[parameter])
        to, _, source = code.partition(" = ")
        return "it is a tile already: leave the call out" if to == source else f"it is a tile already: write `{code}`"
    if call.name == "store" and parameter == "dst" and value.buffer.on_chip:
        if not call.names_memory("dst"):  # a store is meant for HBM; nl.ndarray without a buffer is in SBUF
            return call.allocated_otherwise("dst", "buffer", f"{nl}.shared_hbm")
        return (
            f"copy within the chip: write `{call.nisa}.tensor_copy(dst={call.text('dst')}, src={call.text('value')})`"
        )
    if value.buffer.is_hbm and call.name not in ("load", "load_transpose2d", "store"):
        return f"load it first: write `{call.with_arguments(**{parameter: f'{nl}.load({call.text(parameter)})'})}`"
    return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.generic) and not isinstance(value, bool)


def _is_array(value: Any) -> bool:
    package = type(value).__module__.partition(".")[0]
    return package in _ARRAYS and bool(getattr(value, "shape", ())) and hasattr(value, "dtype")


def _is_foreign(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] in _ARRAYS or isinstance(value, str | type)


def _operator_name(value: Any) -> str:
    """The name in ``nki.language`` of an operator that was given as text or as a function of NumPy."""
    of_numpy = callable(value) and getattr(np, getattr(value, "__name__", ""), None) is value
    name = value if isinstance(value, str) else value.__name__ if of_numpy else ""
    name = NUMPY_OPERATORS.get(name, _SIGNS.get(name, name))
    return name if name in OPS else ""


_SIGNS: Final = {
    "+": "add", "-": "subtract", "*": "multiply", "/": "divide", "**": "power", "mul": "multiply", "sub": "subtract",
}  # fmt: skip


def _expression(code: str) -> Any:
    return ast.parse(code, mode="eval").body


def _array(call: Call, parameter: str, node: ast.expr, value: Any, nl: str) -> str:
    """The fix for an array that the kernel reads from outside."""
    name = ast.unparse(node)
    if parameter == "dst":
        dtype = dtype_name(value.dtype) or "float32"
        code = f"{name} = {nl}.ndarray({tuple(value.shape)}, dtype={nl}.{dtype}, buffer={nl}.sbuf)"
        return f"allocate it in the kernel: write `{code}`"
    by_argument = f"pass it as an argument: `def kernel(…, {name})`"
    if isinstance(value, np.ndarray) and value.ndim and dtype_name(cast("Any", value).dtype):
        constant = f"{nl}.shared_constant({name})"
        if call.module == "nki.isa" and parameter != "dst":
            constant = f"{nl}.load({constant})"
        code = call.with_arguments(**{parameter: constant})
        return f"compile it in, if it never changes: write `{code}`; else {by_argument}"
    return by_argument


def _with_number(call: Call) -> str:
    nisa = call.site.module("nki.isa", "nisa")
    parts = {"dst": "dst", "data": "data1", "op0": "op", "operand0": "data2"}
    arguments = ", ".join(f"{new}={call.text(old)}" for new, old in parts.items() if old in call.arguments)
    return f"tensor_tensor takes two tiles; with a number write `{nisa}.tensor_scalar({arguments})`"


def _positional_operator(call: Call) -> str | None:
    """``tensor_scalar(t, t, nl.multiply, 2.0, nl.add, 1.0)``: the second operator has come to ``reverse0``."""
    if not isinstance(call.value("reverse0"), Op):
        return None
    node, names = call.node, ("op1", "operand1", "reverse1")
    if len(node.args) <= 4:
        return None
    keywords = [ast.keyword(name, arg) for name, arg in zip(names, node.args[4:], strict=False)]
    code = call.in_statement(ast.Call(node.func, list(node.args[:4]), [*keywords, *node.keywords]))
    return f"the fifth parameter is reverse0; name the second operator: write `{code}`"


def _instruction(error: NkiError, site: Site, node: ast.expr, value: NkiInstruction) -> NkiError:
    """``e = nisa.activation(dst=e, …)``: the name of the tile has become that of the instruction."""
    name = ast.unparse(node)
    where = getattr(value, "where", None)
    span = where.span if where is not None else None
    statement = site.assignment(span.line, name) if span is not None else None
    made = f", which line {span.line} recorded" if span is not None else ""
    text = f"`{name}` is an instruction{made}, not a tensor: functions of nki.isa write to `dst`"
    fixed = type(error)(text, fix=f"pass the tile that was `dst` in place of `{name}`")
    match statement:
        case ast.Assign(value=ast.Call() as call) if span is not None:
            fixed.fix = f"in line {span.line} write `{ast.unparse(call)}`, without `{name} =`"
            fixed.span, fixed.stack = span, where.stack if where is not None else ()
        case _:
            pass
    return fixed


__all__ = ["advise_operand"]
