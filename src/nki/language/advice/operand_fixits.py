"""Fix-its for arguments that are no tensors, operators or flags where such are taken, or lie in another memory."""

from __future__ import annotations

import ast
import itertools
from types import FunctionType
from typing import Any, Final, cast

import numpy as np

from nki.base.element_types import DType
from nki.base.errors import ArgumentError, NkiError
from nki.base.python_operators import OPERATORS, UNARY
from nki.base.source import is_toolchain
from nki.frontend.scopes import UNKNOWN
from nki.frontend.site import Site
from nki.ir.instruction import REGISTRY
from nki.ir.instruction_handle import NkiInstruction
from nki.ir.types import Buffer as MemoryRegion
from nki.isa.tables.operators import OPS, Op
from nki.language.advice.argument_order import destination_first, reordered
from nki.language.advice.call import Call, call_at, parsed
from nki.language.advice.fixit import FixIt, allocation, arguments, code, expression, fixed
from nki.language.advice.tensor_expressions import dtype_name
from nki.language.beta1_functions import NUMPY_OPERATORS

_ARRAYS: Final = frozenset({"numpy", "torch", "jax", "jaxlib"})
_TRANSFERS: Final = ("load", "load_transpose2d", "store")
_SIGNS: Final = {word: row.function for row in OPERATORS if row not in UNARY for word in (row.sign, row.method)}
"""Operators by their sign, and by their name in Python's module ``operator``."""


def _is(parameter: str, call: Call, *kinds: type) -> bool:
    """True if ``parameter`` is the operand, and its value exactly of one of ``kinds``."""
    return call.operand == parameter and type(call.arg("operand").value) in kinds


def _lies(call: Call, *functions: str, on_chip: bool) -> bool:
    """True for a tensor on chip, or in HBM, that a function of ``nl`` gets; ``functions``: one of these."""
    of_nl = call.module == "nki.language" or isinstance(call.function, Op)
    named = call.name in (functions or (call.name,)) and call.operand != "dtype"
    return of_nl and named and call.arg("operand").tensor.buffer.on_chip == on_chip


def _is_array(value: Any) -> bool:
    package = type(value).__module__.partition(".")[0]
    return package in _ARRAYS and bool(getattr(value, "shape", ())) and hasattr(value, "dtype")


def _is_constant(call: Call) -> bool:
    """True for an array of NumPy that the compiler can put into the kernel."""
    value = call.arg("operand").value
    return _is_array(value) and isinstance(value, np.ndarray) and bool(dtype_name(cast("Any", value).dtype))


def _takes_tensor(call: Call, kind: type) -> bool:
    """True for a value of ``kind`` where an instruction, a load or a store takes a tensor."""
    taken = call.name in _TRANSFERS or call.module == "nki.isa"
    return taken and call.operand in ("src", "data", "x", "value") and type(call.arg("operand").value) is kind


def _with_operator(call: Call) -> str | None:
    """The operator that text, or a function of NumPy, means."""
    value = call.arg("operand").value
    of_numpy = callable(value) and getattr(np, getattr(value, "__name__", ""), None) is value
    name = value if isinstance(value, str) else value.__name__ if of_numpy else ""
    name = NUMPY_OPERATORS.get(name, _SIGNS.get(name, name))
    return f"write `{call.with_arguments(**{call.operand: f'{call.nl}.{name}'})}`" if name in OPS else None


def _with_member(call: Call) -> str | None:
    """The member of the enumeration that a parameter takes, by its name."""
    value = call.arg("operand").value
    declaration = REGISTRY.get(call.name) if call.module == "nki.isa" and isinstance(value, str) else None
    kinds = [f.symbol for f in declaration.fields if f.name == call.operand] if declaration is not None else []
    for kind in kinds:
        if kind is not None and value in getattr(kind, "__members__", ()):
            return f"write `{call.with_arguments(**{call.operand: f'{call.nisa}.{kind.__name__}.{value}'})}`"
    return None


def _with_dtype(call: Call) -> str | None:
    """The dtype of NKI that one of another package, or text, means."""
    value = call.arg("operand").value
    foreign = type(value).__module__.partition(".")[0] in _ARRAYS or isinstance(value, str | type)
    name = dtype_name(value) if foreign and value is not UNKNOWN else ""
    return f"write `{call.with_arguments(dtype=f'{call.nl}.{name}')}`" if name else None


def _one_tuple(call: Call) -> str | None:
    """``nl.zeros((128, 512), …)`` for sizes that are no tuple."""
    sizes = list(itertools.takewhile(lambda arg: type(call.site.value(arg)) is int, call.node.args))
    if call.name not in ("ndarray", "zeros", "ones") or len(sizes) < 2:
        return None
    rest = call.node.args[len(sizes) :]
    named = any(keyword.arg == "dtype" for keyword in call.node.keywords)
    dtype = [] if rest or named else [parsed(f"{call.nl}.float32")]
    args = [ast.Tuple(sizes, ast.Load()), *dtype, *rest]
    return f"write `{call.in_statement(ast.Call(call.node.func, args, call.node.keywords))}`"


def _left_out(call: Call) -> str:
    """The statement without a load of what is a tile already."""
    text = call.in_statement(call.arguments[call.operand])
    to, _, source = text.partition(" = ")
    return "leave the call out" if to == source else f"write `{text}`"


def _allocated(call: Call) -> str:
    """An allocation in the kernel in place of an array of the host."""
    array = call.arg("operand")
    dtype = dtype_name(array.value.dtype) or "float32"
    return f"write `{array} = {call.nl}.ndarray({array.shape}, dtype={call.nl}.{dtype}, buffer={call.nl}.sbuf)`"


def _operators_named(call: Call) -> str | None:
    """The second operator of ``tensor_scalar`` and its operand by name."""
    if not isinstance(call.value("reverse0"), Op) or len(call.node.args) <= 4:
        return None
    second = zip(("op1", "operand1", "reverse1"), call.node.args[4:], strict=False)
    keywords = [*(ast.keyword(name, arg) for name, arg in second), *call.node.keywords]
    return f"write `{call.in_statement(ast.Call(call.node.func, list(call.node.args[:4]), keywords))}`"


_BY_ARGUMENT: Final = "pass it as an argument: `def kernel(…, {operand})`"
_COMPILED_IN: Final = "compile it in, if it never changes: {write}; else " + _BY_ARGUMENT
_TENSOR: Final = "pass a tensor of the kernel, for a kernel argument an array such as `np.array(…)`"

OPERANDS: Final = (
    FixIt("nisa.tensor_tensor(t, a, b, op='+')", edit=_with_operator,
          when=lambda c: c.operand.startswith(("op", "cmp"))),
    FixIt("nisa.tensor_reduce(column, nl.mean, a, axis=1)",
          "nl.{operand.value.__name__} is a function of tiles: {write}",
          code("{dst} = {nl}.{operand.value.__name__}({data}, axis={axis})"),
          lambda c: _is("op", c, FunctionType) and is_toolchain(c.arg("op").value) and c.passes("axis")
          and isinstance(c.arg("dst").node, ast.Name)),
    FixIt("nisa.tensor_copy(t, a, engine='vector')", edit=_with_member),
    FixIt("nl.ndarray((8, 8), nl.sbuf, nl.float32)", "the dtype comes before the memory: {write}",
          arguments(dtype="{buffer}", buffer="{dtype}"),
          lambda c: _is("dtype", c, MemoryRegion) and isinstance(c.arg("buffer").value, DType)),
    FixIt("nl.ndarray((8, 8), nl.sbuf)", "nl.{operand.value.name} is a memory: {write}, with the dtype in front of it",
          arguments(dtype="{nl}.float32", buffer="{dtype}"),
          lambda c: _is("dtype", c, MemoryRegion) and not c.passes("buffer")),
    FixIt("nl.zeros(128, 512)", "the sizes are one tuple: {write}", _one_tuple, lambda c: _is("dtype", c, int)),
    FixIt("nl.ndarray((8, 8), dtype='float')", edit=_with_dtype, when=lambda c: c.operand == "dtype"),
    FixIt("nisa.tensor_tensor(t, a, 2.0, nl.add)", "tensor_tensor takes two tiles; with a number {write}",
          code("{nisa}.tensor_scalar(dst={dst}, data={data1}, op0={op}, operand0={data2})"),
          lambda c: c.operand == "data2" and c.arg("operand").is_number),
    FixIt("nl.store(out, 0.0)", edit=arguments(value="{nl}.full({dst}.shape, {value}, {dst}.dtype)"),
          when=lambda c: c.name == "store" and c.operand == "value" and c.arg("value").is_number),
    FixIt("nl.load(2.0)", "for a tile of a number {write}",
          expression("{nl}.full((1, 1), {src}, dtype={nl}.float32)"),
          lambda c: c.name == "load" and c.operand == "src" and c.arg("src").is_number),
    FixIt("nisa.tensor_copy(ARRAY, a)", "allocate it in the kernel: {write}", _allocated,
          lambda c: c.operand == "dst" and _is_array(c.arg("dst").value)),
    FixIt("nisa.tensor_tensor(t, a, ARRAY, nl.add)", _COMPILED_IN,
          arguments(operand="{nl}.load({nl}.shared_constant({operand}))"),
          lambda c: c.module == "nki.isa" and _is_constant(c)),
    FixIt("nl.load(ARRAY)", _COMPILED_IN, arguments(operand="{nl}.shared_constant({operand})"),
          _is_constant),
    FixIt("nl.load(TORCH)", _BY_ARGUMENT, when=lambda c: _is_array(c.arg("operand").value)),
    FixIt("nl.load(a, out)", "nl.load returns a new tile; into one that exists {write}",
          code("{nisa}.dma_copy(dst={operand}, src={dtype})"),
          lambda c: _lies(c, "load", on_chip=True) and c.arg("dtype").tensor.buffer.is_hbm),
    FixIt("nl.load(a)", "it is a tile already: {write}", _left_out,
          lambda c: _lies(c, "load", on_chip=True)),
    FixIt("nl.store(plain, a)",
          edit=allocation("dst", buffer="{nl}.shared_hbm"),  # a store is meant for HBM
          when=lambda c: c.operand == "dst" and _lies(c, "store", on_chip=True) and not c.names_memory("dst")),
    FixIt("nl.store(t, a)", "copy within the chip: {write}",
          code("{nisa}.tensor_copy(dst={dst}, src={value})"),
          lambda c: c.operand == "dst" and _lies(c, "store", on_chip=True) and c.names_memory("dst")),
    FixIt("nl.exp(x)", "load it first: {write}", arguments(operand="{nl}.load({operand})"),
          lambda c: c.name not in _TRANSFERS and _lies(c, on_chip=False)),
    FixIt("nisa.tensor_scalar(t, a, nl.multiply, 2.0, nl.add, 1.0)",
          "the fifth parameter is reverse0; name the second operator: {write}", _operators_named,
          lambda c: c.operand == "reverse0"),
    FixIt("nl.load(None)", "{operand} is None: " + _TENSOR, when=lambda c: _takes_tensor(c, type(None))),
    FixIt("nl.load([1, 2])", "{operand} is a list: " + _TENSOR, when=lambda c: _takes_tensor(c, list)),
    FixIt("nl.load((1, 2))", "{operand} is a tuple: " + _TENSOR, when=lambda c: _takes_tensor(c, tuple)),
)  # fmt: skip
"""Tried for each argument of a call that raised one of the errors of :func:`advise_operand`."""


def advise_operand(error: NkiError, site: Site) -> NkiError | None:
    """The error for a call with an argument of a wrong kind; None if the arguments are not what is wrong."""
    call = call_at(site, error)
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
        if fixed(error, call, OPERANDS, [parameter]):
            return error
    return None


def _instruction(error: NkiError, site: Site, node: ast.expr, value: NkiInstruction) -> NkiError:
    """``e = nisa.activation(dst=e, …)``: the name of the tile is now the name of the instruction."""
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
