"""Fix-its for calls of instructions that break a rule: what users get wrong, and the code that satisfies the rule."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import Any, Final, cast

from nki.base.errors import EngineError, NkiError
from nki.frontend.site import Site
from nki.isa.tables.operators import Op
from nki.language.advice.call import Call, call_at
from nki.language.advice.fixit import Edit, FixIt, allocation, arguments, block, code, expression, fixed
from nki.language.advice.memory_regions import OUTPUTS, at_partition_zero, through_tiles
from nki.language.nki_tensor import NkiTensor

_MATMUL: Final = ("stationary", "moving")
_SECOND: Final = {"data1": "data2", "data0": "data1", "data": "operand1", "on_true": "predicate", "src": "predicate"}
"""The other one of two inputs; one of both may be in PSUM (:data:`nki.isa.rules.operand_rules.not_both_psum`)."""


def _inputs(call: Call) -> list[str]:
    return [name for name in call.tensors() if name != "dst"]


def _in_sbuf(call: Call, *names: str) -> bool:
    return all(call.arg(name).memory == "sbuf" for name in names)


def _maybe_in_psum(call: Call) -> bool:
    """True unless the operand is known to lie elsewhere."""
    operand = call.arg("operand")
    return not operand.is_tensor or operand.memory == "psum"


def _is_transpose(call: Call, one: str, other: str) -> bool:
    """True if ``one`` has its contracted dimension in the free one."""
    x, y = call.arg(one).tensor, call.arg(other).tensor
    return x.ndim == y.ndim == 2 and x.shape[1] == y.shape[0] <= 128


def _is_operator(call: Call, parameter: str, kind: str) -> bool:
    """True if an argument is an operator of the ``alu``, or a function of activation (``act``)."""
    op = call.value(parameter)
    return isinstance(op, Op) and getattr(op, kind) is not None


def _only_operator_and(call: Call, operand: str) -> bool:
    return _is_operator(call, "op", "alu") and call.passes(operand) and call.passes_only("dst", "op", "data", operand)


def _is_column(call: Call) -> bool:
    """True if the operand of ``tensor_tensor`` has one element in each partition, and the result more."""
    operand, dst = call.arg("operand").tensor, call.arg("dst").tensor
    return call.passes("data1", "data2", "op") and operand.size == operand.shape[0] and dst.size > dst.shape[0]


def _copies_in_sbuf(call: Call) -> bool:
    return call.arguments.keys() == {"dst", "src"} and all(t.buffer.value == "sbuf" for t in call.tensors().values())


def _loaded(call: Call) -> dict[str, str]:
    """By parameter, the load of each input that lies in HBM."""
    tensors = call.tensors()
    names = [name for name in _inputs(call) if tensors[name].buffer.is_hbm and tensors[name] is not tensors.get("dst")]
    return {name: f"{call.nl}.load({call.text(name)})" for name in names}


def _with_loads(call: Call) -> str | None:
    loaded = _loaded(call)
    return f"write `{call.with_arguments(**loaded)}`" if loaded else None


def _cut(dim: int) -> Edit:
    """The larger operands cut to the smallest one in dimension ``dim``; in a loop, whatever its size is."""

    def edit(call: Call) -> str | None:
        tensors = call.tensors()
        if any(tensor.ndim != 2 for tensor in tensors.values()) or len(tensors) < 2:
            return None
        smallest = min(tensors, key=lambda name: tensors[name].shape[dim])
        size = tensors[smallest].shape[dim]
        stop = str(size)
        if call.site.in_loop():
            if not isinstance(call.arguments[smallest], ast.Name):
                return None
            stop = f"{call.text(smallest)}.shape[{dim}]"
        part = f"[0:{stop}]" if dim == 0 else f"[:, 0:{stop}]"
        larger = [name for name, tensor in tensors.items() if tensor.shape[dim] > size]
        return f"write `{call.with_arguments(**{name: f'{call.text(name)}{part}' for name in larger})}`"

    return edit


def _kept_shape(call: Call) -> str | None:
    """The allocation of a reduction's destination in the shape that stays."""
    data, axis = call.arg("data").tensor, call.value("axis")
    axes = cast("tuple[Any, ...]", axis) if isinstance(axis, tuple) else (axis,)
    if any(type(a) is not int for a in axes):
        return None
    reduced = {a % data.ndim for a in axes}
    kept = tuple(size for dim, size in enumerate(data.shape) if dim not in reduced)
    return call.allocated_otherwise("dst", "shape", str(kept if len(kept) > 1 else (*kept, 1)))


def _other_copied(call: Call) -> str:
    other = _SECOND.get(call.operand, "")
    return f"write `{call.with_arguments(**{other: f'{call.nl}.copy({call.arg(other)})'})}`"


def _one_operator_each(call: Call) -> str | None:
    """``tensor_scalar`` with an arithmetic and a bit operator as two instructions."""
    if not call.passes("dst", "data", "op0", "operand0", "op1", "operand1") or not isinstance(
        call.site.statement, ast.Expr
    ):
        return None
    parts = {name: call.text(name) for name in call.arguments}
    first = {name: parts[name] for name in ("dst", "data", "op0", "operand0", "reverse0") if name in parts}
    second = {"dst": parts["dst"], "data": parts["dst"], "op0": parts["op1"], "operand0": parts["operand1"]}
    second |= {"reverse0": parts["reverse1"]} if "reverse1" in parts else {}
    calls = (", ".join(f"{name}={text}" for name, text in each.items()) for each in (first, second))
    return block(f"{call.nisa}.tensor_scalar({each})" for each in calls)


def _without_engine(call: Call) -> str | None:
    """The call without ``engine``; not of random numbers, for the shape of a generator's state depends on it."""
    if call.rule.startswith("RN") or not any(k.arg == "engine" for k in call.node.keywords):
        return None
    keywords = [k for k in call.node.keywords if k.arg != "engine"]
    return f"write `{call.in_statement(ast.Call(call.node.func, call.node.args, keywords))}`"


def _folds_rows(call: Call) -> bool:
    """True for a sum or the like over the partitions, of a tile that fits when it is transposed."""
    reduces = call.name in ("sum", "max", "min", "prod", "mean") and call.value("axis") in (0, (0,), [0])
    x = call.value("x")
    return reduces and isinstance(x, NkiTensor) and x.ndim == 2 and x.shape[1] <= 128


def _names_maximum(call: Call) -> bool:
    """True for ``nl.max(x, 0)``, which may mean ``nl.maximum(x, 0)``."""
    return call.name in ("max", "min") and len(call.node.args) == 2 and call.value("axis") in (0, (0,), [0])


def _differs_in(call: Call, dim: int) -> bool:
    """True if two operands of an element-wise function differ in ``dim`` alone, where neither repeats."""
    tensors = call.tensors() if call.module == "nki.language.elementwise" else {}
    if tensors.keys() != {"x", "y"} or any(t.ndim != 2 for t in tensors.values()):
        return False
    x, y = tensors["x"].shape, tensors["y"].shape
    return x[dim] != y[dim] and x[1 - dim] == y[1 - dim] and 1 not in (x[dim], y[dim])


def _row(
    rule: str, mistake: str, text: str = "{write}", edit: Edit | None = None,
    when: Callable[[Call], bool] | None = None, of: tuple[str, ...] | Callable[[Call], Iterable[str]] = (),
) -> FixIt:  # fmt: skip
    return FixIt(mistake, text, edit, when, of, rule)


_MAXIMUM: Final = "; for the {name}imum of each element and 0 write `{nl}.{name}imum({x}, 0)`"
_FOLDED: Final = expression("{nl}.copy({nl}.transpose({nl}.{name}({nl}.transpose({x}), axis=1)))")
_ONE_ROW: Final = "'{operand.name}' {operand.shape} is one row; repeat it over the partitions: {write}"
_TURNED: Final = "'{operand.name}' {operand.shape} is its transpose: {write}, or load it with `{nl}.load_transpose2d`"
_CUT: Final = "cut the larger operand to size: {write}"
_TO_SBUF: Final = "copy it to SBUF first: {write}"
_IN_FLOAT32: Final = "copy it to float32: {write}"
_TO_FLOAT32: Final = arguments(operand="{nl}.copy({operand}, dtype={nl}.float32)")
_BY_COLUMN: Final = "{nisa}.tensor_scalar(dst={dst}, data={data}, op0={op}, operand0={operand.in_float32}"

ROWS: Final = (
    _row("AC01", "nisa.activation(t, nl.add, a, bias=column)", "{op.value} is an operator of two numbers: {write}",
         code("{nisa}.tensor_scalar(dst={dst}, data={data}, op0={op}, operand0={bias})"),
         lambda c: _only_operator_and(c, "bias")),
    _row("AC01", "nisa.activation(t, nl.multiply, a, scale=column)",
         "{op.value} is an operator of two numbers: {write}",
         code("{nisa}.tensor_scalar(dst={dst}, data={data}, op0={op}, operand0={scale})"),
         lambda c: _only_operator_and(c, "scale")),
    _row("AC01", "nisa.activation(t, nl.add, a)",
         "{op.value} is an operator of two numbers: use nisa.tensor_scalar, or nisa.tensor_tensor for two tiles",
         when=lambda c: _is_operator(c, "op", "alu") and not c.passes("reduce_op")),
    _row("OP01", "nisa.tensor_scalar(t, a, nl.exp, 1.0)", "it is an activation function: {write}",
         code("{nisa}.activation(dst={dst}, op={op0}, data={data})"),
         lambda c: _is_operator(c, "op0", "act") and c.passes_only("dst", "data", "op0", "operand0")),
    _row("TR01", "nisa.tensor_reduce(column, nl.abs_max, a, axis=1)", "take absolute values first: {write}",
         arguments(op="{nl}.maximum", data="{nl}.abs({data})"),
         lambda c: c.passes("axis") and getattr(c.value("op"), "name", "") == "abs_max"),
    _row("TR01", "nisa.tensor_reduce(column, nl.abs_min, a, axis=1)", "take absolute values first: {write}",
         arguments(op="{nl}.minimum", data="{nl}.abs({data})"),
         lambda c: c.passes("axis") and getattr(c.value("op"), "name", "") == "abs_min"),
    _row("TS01", "nisa.tensor_scalar(whole, whole, nl.add, 1, op1=nl.bitwise_and, operand1=3)",
         "use two instructions: {write}", _one_operator_each),
    # dtypes
    _row("CP01", "nisa.tensor_copy_predicated(t, a, b)", "copy it to uint8: {write}",
         arguments(predicate="{nl}.copy({predicate}, dtype={nl}.uint8)")),
    _row("AC03", "nisa.activation(t, nl.exp, a, scale=half_column)", _IN_FLOAT32, _TO_FLOAT32),
    _row("DT02", "nisa.tensor_scalar(t, a, nl.add, half_column)", _IN_FLOAT32, _TO_FLOAT32),
    _row("DT03", "nisa.exponential(t, a, max_value=half_column)", _IN_FLOAT32, _TO_FLOAT32),
    _row("DX04", "nisa.dma_transpose(half, a)", edit=allocation("dst", dtype="{nl}.{src.dtype}")),
    _row("M801", "nisa.nc_find_index8(index, a, b)", edit=allocation("operand", dtype="{nl}.uint32")),
    _row("MM05", "nisa.nc_matmul(bank, a, half)", _IN_FLOAT32, _TO_FLOAT32,
         lambda c: c.arg("stationary").dtype == "float32" != c.arg("moving").dtype, ("moving",)),
    _row("MM05", "nisa.nc_matmul(bank, half, a)", _IN_FLOAT32, _TO_FLOAT32,
         lambda c: c.arg("moving").dtype == "float32" != c.arg("stationary").dtype, ("stationary",)),
    _row("MM07", "nisa.nc_matmul(whole_bank, a, b)", edit=allocation("dst", dtype="{nl}.float32")),
    _row("NT02", "nisa.nc_transpose(half_bank, a)", edit=allocation("dst", dtype="{nl}.{data.dtype}")),
    # shapes
    _row("CO01", "nisa.activation_reduce(t, nl.exp, a, nl.add, b)",
         edit=allocation("reduce_res", shape="({input.rows}, 1)"),
         when=lambda c: c.operand == "reduce_res" and c.arg("operand").is_tensor),
    _row("CO01", "nisa.tensor_scalar(t, a, nl.add, one)", "repeat it over the partitions: {write}",
         arguments(operand="{nl}.broadcast_to({operand}, ({input.rows}, 1))"),
         lambda c: c.operand != "reduce_res" and c.arg("operand").tensor.size == 1),
    _row("CO01", "nisa.tensor_scalar(t, a, nl.add, b)", "'{operand.name}' {operand.shape} is no column: {write}",
         code("{nisa}.tensor_tensor(dst={dst}, data1={data}, data2={operand}, op={op0})"),
         lambda c: c.passes_only("dst", "data", "op0", "operand0")
         and c.arg("operand").tensor.shape == c.arg("data").tensor.shape and c.arg("operand").ndim == 2),
    _row("CO01", "nisa.tensor_scalar(t, a, nl.add, row)", "'{operand.name}' {operand.shape} is no column: {write}",
         code("{nisa}.tensor_tensor(dst={dst}, data1={data}, "
              "data2={nl}.broadcast_to({operand}, {data.shape}), op={op0})"),
         lambda c: c.passes_only("dst", "data", "op0", "operand0") and c.arg("operand").tensor.ndim == 2
         and c.arg("operand").rows == 1 and c.arg("operand").free == c.arg("data").free),
    _row("MM01", "nisa.nc_matmul(bank, tall, a)",
         "stationary takes (K, M), K = {moving.rows} on the partitions; " + _TURNED,
         arguments(stationary="{nl}.copy({nl}.transpose({stationary}))"),
         lambda c: _is_transpose(c, *_MATMUL), ("stationary",)),
    _row("MM01", "nisa.nc_matmul(bank, a, tall)",
         "moving takes (K, N), K = {stationary.rows} on the partitions; " + _TURNED,
         arguments(moving="{nl}.copy({nl}.transpose({moving}))"),
         lambda c: _is_transpose(c, "moving", "stationary"), ("moving",)),
    _row("MM02", "nisa.nc_matmul(wide_bank, wide, a)",
         "dst has the shape of the product of the two swapped: {write}",
         arguments(stationary="{moving}", moving="{stationary}"),
         lambda c: c.arg("moving").tensor.shape[-1] <= 128
         and c.arg("dst").tensor.shape == (c.arg("moving").columns, c.arg("stationary").tensor.shape[-1])),
    _row("MM04", "nisa.nc_matmul(bank, long, a)",
         edit=allocation("dst", shape="({stationary.columns}, {moving.columns})"),
         when=lambda c: c.arg("stationary").is_tensor and c.arg("moving").is_tensor),
    _row("SE01", "nisa.tensor_tensor(t, a, column, nl.add)", "'{operand.name}' {operand.shape} is a column: {write}",
         code(_BY_COLUMN.replace("{data}", "{data1}") + ")"), _is_column, ("data2",)),
    _row("SE01", "nisa.tensor_tensor(t, column, a, nl.add)", "'{operand.name}' {operand.shape} is a column: {write}",
         code(_BY_COLUMN.replace("{data}", "{data2}") + ", reverse0=True)"), _is_column, ("data1",)),
    _row("SE01", "nisa.tensor_copy(t, column)", "'{operand.name}' {operand.shape} is a column; repeat it: {write}",
         arguments(operand="{operand}.broadcast(1, {dst.columns})"),
         lambda c: c.arg("operand").ndim == 2 == c.arg("dst").tensor.ndim
         and c.arg("operand").columns == 1 != c.arg("dst").columns, _inputs),
    _row("SE01", "nisa.tensor_tensor(t, a, long, nl.add)", _CUT, _cut(1), lambda c: c.arg("dst").is_tensor),
    _row("SP01", "nisa.tensor_reduce(one, nl.add, a, axis=1)", edit=allocation("dst", shape="({data.rows}, 1)"),
         when=lambda c: c.passes("axis") and c.arg("data").tensor.ndim == 2),
    _row("SP01", "nisa.tensor_tensor(t, a, row, nl.add)", _ONE_ROW,
         arguments(operand="{nl}.broadcast_to({operand}, ({dst.rows}, {operand.free}))"),
         lambda c: not c.passes("axis") and c.arg("operand").rows == 1 != c.arg("dst").tensor.shape[0], _inputs),
    _row("SP01", "nisa.tensor_tensor(t, a, tall, nl.add)", _CUT, _cut(0),
         lambda c: not c.passes("axis") and c.arg("dst").is_tensor),
    _row("TR03", "nisa.tensor_reduce(t, nl.add, a, axis=1)", edit=_kept_shape),
    # memories
    _row("BU01", "nisa.nc_matmul(t, a, b)", edit=allocation("dst", buffer="{nl}.psum"),
         when=lambda c: c.operand == "dst" and c.passes(*_MATMUL) and _in_sbuf(c, "dst")),
    _row("BU01", "nisa.iota(whole_bank, [[1, 8]])", edit=allocation("operand", buffer="{nl}.sbuf"),
         when=lambda c: c.operand in OUTPUTS and _maybe_in_psum(c)
         and not (c.operand == "dst" and c.passes(*_MATMUL))),
    _row("BU01", "nisa.nc_matmul(bank, other_bank, a)", _TO_SBUF, arguments(operand="{nl}.copy({operand})"),
         lambda c: c.operand not in OUTPUTS and _maybe_in_psum(c)),
    _row("BU02", "nisa.tensor_tensor(t, bank, other_bank, nl.add)", _TO_SBUF, _other_copied),
    _row("DM01", "nisa.dma_copy(bank, x)", "load into SBUF, and copy on chip: {write}",
         code("{nisa}.tensor_copy(dst={dst}, src={nl}.load({src}))"),
         lambda c: c.arg("dst").memory == "psum" and c.arg("src").tensor.buffer.is_hbm),
    _row("DM01", "nisa.dma_copy(bank, a)", "load into SBUF, and copy on chip: {write}",
         code("{nisa}.tensor_copy(dst={dst}, src={src})"),
         lambda c: c.arg("dst").memory == "psum" and c.arg("src").is_tensor),
    _row("DM01", "nisa.dma_copy(t, bank)", _TO_SBUF, arguments(src="{nl}.copy({src})"),
         lambda c: c.arg("src").memory == "psum"),
    _row("NT06", "nisa.nc_transpose(large, other_large)", edit=allocation("dst", buffer="{nl}.psum"),
         when=lambda c: _in_sbuf(c, "dst", "data")),
    _row("TL01", "nisa.tensor_copy(t, x)", "load it into SBUF first: {write}",
         _with_loads, lambda c: not c.arg("dst").tensor.buffer.is_hbm),
    _row("TL01", "nisa.tensor_tensor(out, a, x, nl.add)", "compute into a tile and copy that: {write}",
         lambda c: through_tiles(c, _loaded(c)), lambda c: c.arg("dst").tensor.buffer.is_hbm),
    _row("TL03", "nisa.tensor_copy(t[3:5], a[0:2])", "DMA begins at any partition: {write}",
         code("{nisa}.dma_copy(dst={dst}, src={src})"), _copies_in_sbuf),
    _row("TL03", "nisa.activation(t[0:2], nl.exp, a[3:5])", "move it to partition 0 first: {write}",
         lambda c: at_partition_zero(c, stored=False), lambda c: not _copies_in_sbuf(c)),
    _row("TL03", "nisa.activation(t[3:5], nl.exp, a[0:2])", "work at partition 0 and let DMA move the tiles: {write}",
         lambda c: at_partition_zero(c, stored=True), lambda c: not _copies_in_sbuf(c)),
    # errors without a rule
    _row("ShapeError", "nl.max(a, 0)", "{write}" + _MAXIMUM, _FOLDED, lambda c: _folds_rows(c) and _names_maximum(c)),
    _row("ShapeError", "nl.sum(a, axis=0)", edit=_FOLDED, when=_folds_rows),
    _row("ShapeError", "nl.max(wide, 0)", "{fix}" + _MAXIMUM, when=_names_maximum),
    _row("ShapeError", "nl.add(a, tall)", _CUT + "; or give both the same shape", _cut(0), lambda c: _differs_in(c, 0)),
    _row("ShapeError", "nl.add(a, long)", _CUT + "; or give both the same shape", _cut(1), lambda c: _differs_in(c, 1)),
    _row("EngineError", "nisa.tensor_tensor(t, a, b, nl.add, engine=nisa.engine.scalar)", "{fix}: {write}",
         _without_engine, lambda c: c.fix.endswith("leave engine out")),
    _row("EngineError", "nisa.dma_copy(out, a, engine=nisa.engine.vector)",
         "{fix}; or leave engine out: {write}", _without_engine),
    _row("PartitionError", "nl.load(line[0])",
         "a tensor of one dimension becomes a column; for a row {write}",
         arguments(src="{src}.reshape((1, {src.rows}))"),
         lambda c: c.name == "load" and c.arg("src").tensor.ndim == 1),
)  # fmt: skip
"""By rule, or by the class of an error without one; the first row of a rule that fits is the fix."""


def advise_call(error: NkiError, site: Site) -> NkiError | None:
    """``error``, which a rule of an instruction raised, with the fix of this very call; None if none is known."""
    by_class = isinstance(error, EngineError) or not error.rule
    topic = type(error).__name__ if by_class else error.rule
    rows = [row for row in ROWS if row.rule == topic]
    call = call_at(site, error) if rows else None
    if call is None:
        return None
    if not by_class:
        direct = call.module == "nki.isa" and error.message.startswith(f"{call.name}:")
        if not direct and error.rule != "TL03":  # a function of nl passes on where its own operands begin
            return None
    return fixed(error, call, rows, [error.message.removeprefix(f"{call.name}: ").partition(" ")[0]])


__all__ = ["advise_call"]
