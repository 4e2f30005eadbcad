"""Advice on calls of instructions that break a rule: the same call, with the operand that would satisfy it."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Final

from nki.base.errors import EngineError, NkiError, ShapeError
from nki.frontend.site import Site
from nki.language.advice.call import Call, call_at
from nki.language.tensor import NkiTensor


def advise_call(error: NkiError, site: Site) -> NkiError | None:
    """``error``, which a rule of an instruction raised, with the fix of this very call; None if none is known."""
    if isinstance(error, ShapeError) and not error.rule:
        return _over_partitions(error, site)
    if isinstance(error, EngineError):
        return _other_engine(error, site)
    if error.rule == "TL03" and (fixed := _from_partition_0(error, site)) is not None:
        return fixed
    advise = _ADVICE.get(error.rule)
    call = call_at(site) if advise is not None else None
    if advise is None or call is None or call.module != "nki.isa" or not error.message.startswith(f"{call.name}:"):
        return None
    fix = advise(call)
    if fix is None:
        return None
    error.fix = fix
    return error


def _over_partitions(error: NkiError, site: Site) -> NkiError | None:
    """``nl.sum(t, axis=0)``: the partitions are reduced as the free dimension of the transpose."""
    call = call_at(site)
    if (
        call is None
        or call.name not in ("sum", "max", "min", "prod", "mean")
        or call.value("axis") not in (0, (0,), [0])
    ):
        return None
    tile = call.value("x")
    if not isinstance(tile, NkiTensor) or tile.ndim != 2 or tile.shape[1] > 128:
        return None
    nl = _nl(call)
    turned = f"{nl}.copy({nl}.transpose({nl}.{call.name}({nl}.transpose({call.text('x')}), axis=1)))"
    error.fix = f"write `{call.in_statement(ast.parse(turned, mode='eval').body)}`"
    return error


def _other_engine(error: NkiError, site: Site) -> NkiError | None:
    """A call that names an engine which cannot run it: the compiler chooses one.

    Not for random numbers: the shape of a generator's state depends on the engine.
    """
    call = call_at(site)
    if call is None or error.rule.startswith("RN") or not any(k.arg == "engine" for k in call.node.keywords):
        return None
    node = ast.Call(call.node.func, call.node.args, [k for k in call.node.keywords if k.arg != "engine"])
    choice = error.fix if error.fix.endswith("leave engine out") else f"{error.fix}; or leave engine out"
    error.fix = f"{choice}: write `{call.in_statement(node)}`"
    return error


def _from_partition_0(error: NkiError, site: Site) -> NkiError | None:
    """An operand that begins where no engine can start: a DMA moves it to partition 0 first."""
    call = call_at(site)
    if call is None or hasattr(site.statement, "body") or call.arguments.keys() == {"dst", "src"}:
        return None
    for name, tensor in _tensors(call).items():
        if tensor.buffer.value == "sbuf" and tensor.access.start_partition % 32 and name != "dst":
            moved = next(n for n in ("moved", *(f"moved_{i}" for i in range(99))) if n not in call.site.variables)
            source, nl = call.text(name), _nl(call)
            lines = [
                f"{moved} = {nl}.ndarray({source}.shape, {source}.dtype, buffer={nl}.sbuf)",
                f"{_nisa(call)}.dma_copy(dst={moved}, src={source})",
                call.with_arguments(**{name: moved}),
            ]
            error.fix = "move it to partition 0 first: write `\n" + "\n".join(f"        {line}" for line in lines) + "`"
            return error
    return None


def _nl(call: Call) -> str:
    return call.site.module("nki.language", "nl")


def _nisa(call: Call) -> str:
    return call.site.module("nki.isa", "nisa")


def _tensors(call: Call) -> dict[str, NkiTensor]:
    """The tensor arguments whose values are known, by parameter."""
    values = {name: call.value(name) for name in call.arguments}
    return {name: value for name, value in values.items() if isinstance(value, NkiTensor)}


def _contracted(call: Call) -> str | None:
    """A matmul whose operands differ in partitions: one of them has its contracted dimension in the free one."""
    tensors = _tensors(call)
    stationary, moving = tensors.get("stationary"), tensors.get("moving")
    if stationary is None or moving is None or stationary.ndim != 2 or moving.ndim != 2:
        return None
    for name, one, other in (("stationary", stationary, moving), ("moving", moving, stationary)):
        if one.shape[1] == other.shape[0] <= 128:
            form = "(K, M)" if name == "stationary" else "(K, N)"
            code = call.with_arguments(**{name: f"{_nl(call)}.copy({_nl(call)}.transpose({call.text(name)}))"})
            return (
                f"{name} takes {form}, K = {other.shape[0]} on the partitions; '{one.name}' {one.shape} is its "
                f"transpose: write `{code}`, or load it with `{_nl(call)}.load_transpose2d`"
            )
    return None


def _partitions(call: Call) -> str | None:
    """Operands that differ in partitions: a row is repeated, more rows than the destination has are left out."""
    tensors = _tensors(call)
    dst = tensors.get("dst")
    if dst is None:
        return None
    for name, operand in tensors.items():
        if name != "dst" and operand.shape[0] == 1 != dst.shape[0]:
            shape = (dst.shape[0], *operand.shape[1:])
            code = call.with_arguments(**{name: f"{_nl(call)}.broadcast_to({call.text(name)}, {shape})"})
            return f"'{operand.name}' {operand.shape} is one row; repeat it over the partitions: write `{code}`"
    return _sliced(call, tensors, 0)


def _elements(call: Call) -> str | None:
    """Operands that differ in elements per partition: a column becomes the operand of ``tensor_scalar``."""
    tensors = _tensors(call)
    dst = tensors.get("dst")
    if dst is None:
        return None
    if {"data1", "data2", "op"} <= call.arguments.keys():
        for data, column in (("data1", "data2"), ("data2", "data1")):
            operand = tensors.get(column)
            if operand is not None and operand.size == operand.shape[0] and dst.size > dst.shape[0]:
                return _by_column(call, data, column, operand)
    return _sliced(call, tensors, 1)


def _by_column(call: Call, data: str, column: str, operand: NkiTensor) -> str:
    parts = {"dst": call.text("dst"), "data": call.text(data), "op0": call.text("op"), "operand0": call.text(column)}
    if operand.dtype.name != "float32":
        parts["operand0"] = f"{_nl(call)}.copy({parts['operand0']}, dtype={_nl(call)}.float32)"
    if data == "data2":
        parts["reverse0"] = "True"
    arguments = ", ".join(f"{name}={code}" for name, code in parts.items())
    return f"'{operand.name}' {operand.shape} is a column: write `{_nisa(call)}.tensor_scalar({arguments})`"


def _sliced(call: Call, tensors: dict[str, NkiTensor], dim: int) -> str | None:
    """The call with the larger operands cut to the smallest in dimension ``dim``."""
    if any(tensor.ndim != 2 for tensor in tensors.values()) or len(tensors) < 2:
        return None
    size = min(tensor.shape[dim] for tensor in tensors.values())
    cut = f"[0:{size}]" if dim == 0 else f"[:, 0:{size}]"
    larger = [name for name, tensor in tensors.items() if tensor.shape[dim] > size]
    code = call.with_arguments(**{name: f"{call.text(name)}{cut}" for name in larger})
    return f"cut the larger operand to size: write `{code}`"


def _start_partition(call: Call) -> str | None:
    if call.arguments.keys() == {"dst", "src"} and all(t.buffer.value == "sbuf" for t in _tensors(call).values()):
        code = f"{_nisa(call)}.dma_copy(dst={call.text('dst')}, src={call.text('src')})"
        return f"DMA begins at any partition: write `{code}`"
    return None


def _on_hbm(call: Call) -> str | None:
    """Operands in HBM: loaded first, or for a result stored afterwards."""
    tensors, nl = _tensors(call), _nl(call)
    dst = tensors.get("dst")
    loaded = {name: f"{nl}.load({call.text(name)})" for name, t in tensors.items() if t.buffer.is_hbm and t is not dst}
    if dst is None:
        return None
    if not dst.buffer.is_hbm:
        return f"load it into SBUF first: write `{call.with_arguments(**loaded)}`" if loaded else None
    name = next(n for n in ("tile", "result", *(f"tile{i}" for i in range(99))) if n not in call.site.variables)
    to = call.text("dst")
    lines = [
        f"{name} = {nl}.ndarray({to}.shape, {to}.dtype, buffer={nl}.sbuf)",
        call.with_arguments(dst=name, **loaded),
        f"{_nisa(call)}.dma_copy(dst={to}, src={name})",
    ]
    return "compute into a tile and copy that: write `\n" + "\n".join(f"        {line}" for line in lines) + "`"


def _allocated_otherwise(call: Call, parameter: str, keyword: str, value: str) -> str | None:
    """The allocation of an operand with another buffer or dtype."""
    tensor = _tensors(call).get(parameter)
    span = tensor.access.tensor.span if tensor is not None else None
    if tensor is None or span is None:
        return None
    statement = call.site.assignment(span.line, tensor.name)
    match statement:
        case ast.Assign(value=ast.Call(func=ast.Attribute(attr="ndarray") as function) as made) as assignment:
            position = ("shape", "dtype", "buffer").index(keyword)
            new = ast.parse(value, mode="eval").body
            args = [new if index == position else arg for index, arg in enumerate(made.args)]
            others = [k for k in made.keywords if k.arg != keyword]
            keywords = others if position < len(made.args) else [*others, ast.keyword(keyword, new)]
            code = ast.unparse(ast.Assign(assignment.targets, ast.Call(function, args, keywords), lineno=0))
            return f"in line {span.line} write `{code}`"
        case _:
            return None


def _buffer(call: Call) -> str | None:
    dst = _tensors(call).get("dst")
    if dst is None or dst.buffer.value != "sbuf" or not {"stationary", "moving"} <= call.arguments.keys():
        return None
    return _allocated_otherwise(call, "dst", "buffer", f"{_nl(call)}.psum")


def _mixed(call: Call) -> str | None:
    """A matmul of float32 with a narrower type."""
    tensors = _tensors(call)
    for name, other in (("moving", "stationary"), ("stationary", "moving")):
        if name in tensors and other in tensors and tensors[other].dtype.name == "float32" != tensors[name].dtype.name:
            return _converted(call, name, "float32")
    return None


def _converted(call: Call, parameter: str, dtype: str) -> str | None:
    if parameter not in call.arguments:
        return None
    nl = _nl(call)
    code = call.with_arguments(**{parameter: f"{nl}.copy({call.text(parameter)}, dtype={nl}.{dtype})"})
    return f"copy it to {dtype}: write `{code}`"


def _float32_operand(call: Call) -> str | None:
    for name in ("operand0", "operand1", "scale", "bias", "scalar"):
        value = call.value(name)
        if isinstance(value, NkiTensor) and value.dtype.name != "float32":
            return _converted(call, name, "float32")
    return None


def _transposed_dtype(call: Call) -> str | None:
    data = _tensors(call).get("data")
    return _allocated_otherwise(call, "dst", "dtype", f"{_nl(call)}.{data.dtype.name}") if data is not None else None


def _dma_of_psum(call: Call) -> str | None:
    source = call.value("src")
    if not isinstance(source, NkiTensor) or source.buffer.value != "psum":
        return None
    staged = f"{_nl(call)}.copy({call.text('src')})"
    return f"copy it to SBUF first: write `{call.with_arguments(src=staged)}`"


def _product_shape(call: Call) -> str | None:
    """The allocation of a matmul's destination in the shape of the product."""
    tensors = _tensors(call)
    if "stationary" not in tensors or "moving" not in tensors:
        return None
    shape = (tensors["stationary"].shape[-1], tensors["moving"].shape[-1])
    return _allocated_otherwise(call, "dst", "shape", str(shape))


_ADVICE: Final[dict[str, Callable[[Call], str | None]]] = {
    "BU01": _buffer,
    "DM01": _dma_of_psum,
    "DT02": _float32_operand,
    "DT03": _float32_operand,
    "MM01": _contracted,
    "MM04": _product_shape,
    "MM05": _mixed,
    "NT02": _transposed_dtype,
    "SE01": _elements,
    "SP01": _partitions,
    "TL01": _on_hbm,
    "TL03": _start_partition,
}
"""The advice for a call, by the rule that it breaks."""

__all__ = ["advise_call"]
