"""Advice on calls of instructions that break a rule: the same call, with the operand that would satisfy it."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, Final, cast

from nki.base.errors import EngineError, NkiError, PartitionError, ShapeError
from nki.frontend.site import Site
from nki.language.advice import alu_operators, memory_regions
from nki.language.advice.call import Call, call_at
from nki.language.tensor import NkiTensor


def advise_call(error: NkiError, site: Site) -> NkiError | None:
    """``error``, which a rule of an instruction raised, with the fix of this very call; None if none is known."""
    if isinstance(error, ShapeError) and not error.rule:
        return _over_partitions(error, site) or _unequal(error, site)
    if isinstance(error, EngineError):
        return _other_engine(error, site)
    if isinstance(error, PartitionError) and not error.rule:
        return _row_loaded(error, site)
    call = call_at(site) if error.rule in _ADVICE or error.rule in _ADVICE_ON_OPERAND else None
    if call is None:
        return None
    direct = call.module == "nki.isa" and error.message.startswith(f"{call.name}:")
    if not direct and error.rule != "TL03":  # a function of nl passes on where its own operands begin
        return None
    if error.rule in _ADVICE:
        fix = _ADVICE[error.rule](call)
    else:
        operand = error.message.removeprefix(f"{call.name}: ").partition(" ")[0]
        fix = _ADVICE_ON_OPERAND[error.rule](call, operand)
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
    tile, nl, last = call.value("x"), call.nl, ""
    if call.name in ("max", "min") and len(call.node.args) == 2:
        two = f"{nl}.{call.name}imum({call.text('x')}, 0)"
        last = f"; for the {call.name}imum of each element and 0 write `{two}`"
        error.fix += last
    if not isinstance(tile, NkiTensor) or tile.ndim != 2 or tile.shape[1] > 128:
        return None
    turned = f"{nl}.copy({nl}.transpose({nl}.{call.name}({nl}.transpose({call.text('x')}), axis=1)))"
    error.fix = f"write `{call.in_statement(ast.parse(turned, mode='eval').body)}`"
    error.fix += last
    return error


def _row_loaded(error: NkiError, site: Site) -> NkiError | None:
    """``nl.load(x[0])``, a column of more elements than there are partitions: it is loaded as a row."""
    call = call_at(site)
    source = call.value("src") if call is not None and call.name == "load" else None
    if call is None or not isinstance(source, NkiTensor) or source.ndim != 1:
        return None
    code = call.with_arguments(src=f"{call.text('src')}.reshape((1, {source.shape[0]}))")
    error.fix = f"a tensor of one dimension becomes a column; for a row write `{code}`"
    return error


def _unequal(error: NkiError, site: Site) -> NkiError | None:
    """``nl.add(x, y)`` of tiles of which one is longer: it is cut."""
    call = call_at(site)
    tensors = call.tensors() if call is not None and call.module == "nki.language.elementwise" else {}
    if call is None or tensors.keys() != {"x", "y"} or any(t.ndim != 2 for t in tensors.values()):
        return None
    x, y = tensors["x"].shape, tensors["y"].shape
    unequal = [dim for dim in (0, 1) if x[dim] != y[dim]]
    if len(unequal) == 1 and 1 not in (x[unequal[0]], y[unequal[0]]) and (fix := _sliced(call, tensors, unequal[0])):
        error.fix = f"{fix}; or give both the same shape"
        return error
    return None


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


def _contracted(call: Call) -> str | None:
    """A matmul whose operands differ in partitions: one of them has its contracted dimension in the free one."""
    tensors = call.tensors()
    stationary, moving = tensors.get("stationary"), tensors.get("moving")
    if stationary is None or moving is None or stationary.ndim != 2 or moving.ndim != 2:
        return None
    for name, one, other in (("stationary", stationary, moving), ("moving", moving, stationary)):
        if one.shape[1] == other.shape[0] <= 128:
            form = "(K, M)" if name == "stationary" else "(K, N)"
            code = call.with_arguments(**{name: f"{call.nl}.copy({call.nl}.transpose({call.text(name)}))"})
            return (
                f"{name} takes {form}, K = {other.shape[0]} on the partitions; '{one.name}' {one.shape} is its "
                f"transpose: write `{code}`, or load it with `{call.nl}.load_transpose2d`"
            )
    return None


def _partitions(call: Call) -> str | None:
    """Operands that differ in partitions: a row is repeated, more rows than the destination has are left out."""
    tensors = call.tensors()
    dst = tensors.get("dst")
    if dst is None:
        return None
    if "axis" in call.arguments:
        data = tensors.get("data")
        rows = data.shape[0] if data is not None and data.ndim == 2 else 0
        return call.allocated_otherwise("dst", "shape", f"({rows}, 1)") if rows else None
    for name, operand in tensors.items():
        if name != "dst" and operand.shape[0] == 1 != dst.shape[0]:
            shape = (dst.shape[0], *operand.shape[1:])
            code = call.with_arguments(**{name: f"{call.nl}.broadcast_to({call.text(name)}, {shape})"})
            return f"'{operand.name}' {operand.shape} is one row; repeat it over the partitions: write `{code}`"
    return _sliced(call, tensors, 0)


def _elements(call: Call) -> str | None:
    """Operands that differ in elements per partition: a column becomes the operand of ``tensor_scalar``."""
    tensors = call.tensors()
    dst = tensors.get("dst")
    if dst is None:
        return None
    if {"data1", "data2", "op"} <= call.arguments.keys():
        for data, column in (("data1", "data2"), ("data2", "data1")):
            operand = tensors.get(column)
            if operand is not None and operand.size == operand.shape[0] and dst.size > dst.shape[0]:
                return _by_column(call, data, column, operand)
    for name, operand in tensors.items():
        if name != "dst" and operand.ndim == 2 == dst.ndim and operand.shape[1] == 1 != dst.shape[1]:
            code = call.with_arguments(**{name: f"{call.text(name)}.broadcast(1, {dst.shape[1]})"})
            return f"'{operand.name}' {operand.shape} is a column; repeat it: write `{code}`"
    return _sliced(call, tensors, 1)


def _by_column(call: Call, data: str, column: str, operand: NkiTensor) -> str:
    parts = {"dst": call.text("dst"), "data": call.text(data), "op0": call.text("op"), "operand0": call.text(column)}
    if operand.dtype.name != "float32":
        parts["operand0"] = f"{call.nl}.copy({parts['operand0']}, dtype={call.nl}.float32)"
    if data == "data2":
        parts["reverse0"] = "True"
    arguments = ", ".join(f"{name}={code}" for name, code in parts.items())
    return f"'{operand.name}' {operand.shape} is a column: write `{call.nisa}.tensor_scalar({arguments})`"


def _sliced(call: Call, tensors: dict[str, NkiTensor], dim: int) -> str | None:
    """The call with the larger operands cut to the smallest in dimension ``dim``; in a loop, whatever its size is."""
    if any(tensor.ndim != 2 for tensor in tensors.values()) or len(tensors) < 2:
        return None
    smallest = min(tensors, key=lambda name: tensors[name].shape[dim])
    size = tensors[smallest].shape[dim]
    stop = str(size)
    if call.site.in_loop():
        if not isinstance(call.arguments[smallest], ast.Name):
            return None
        stop = f"{call.text(smallest)}.shape[{dim}]"
    cut = f"[0:{stop}]" if dim == 0 else f"[:, 0:{stop}]"
    larger = [name for name, tensor in tensors.items() if tensor.shape[dim] > size]
    code = call.with_arguments(**{name: f"{call.text(name)}{cut}" for name in larger})
    return f"cut the larger operand to size: write `{code}`"


def _vector_operand(call: Call, operand: str) -> str | None:
    """An operand that should be a column (partitions, 1): a result is allocated so, a row or a tile becomes ``data2``.

    A number for all partitions, (1, 1), is repeated over them.
    """
    tensors = call.tensors()
    data, given = tensors.get("data", tensors.get("src")), tensors.get(operand)
    if data is None or given is None:
        return None
    if operand == "reduce_res":
        return call.allocated_otherwise(operand, "shape", f"({data.shape[0]}, 1)")
    if given.size == 1:
        code = call.with_arguments(**{operand: f"{call.nl}.broadcast_to({call.text(operand)}, ({data.shape[0]}, 1))"})
        return f"repeat it over the partitions: write `{code}`"
    alone = call.arguments.keys() <= {"dst", "data", "op0", "operand0"}
    if not alone or given.ndim != 2 or given.shape[1:] != data.shape[1:] or given.shape[0] not in (1, data.shape[0]):
        return None
    text = call.text(operand)
    tile = text if given.shape == data.shape else f"{call.nl}.broadcast_to({text}, {data.shape})"
    parts = {"dst": call.text("dst"), "data1": call.text("data"), "data2": tile, "op": call.text("op0")}
    arguments = ", ".join(f"{name}={code}" for name, code in parts.items())
    return f"'{given.name}' {given.shape} is no column: write `{call.nisa}.tensor_tensor({arguments})`"


def _mixed(call: Call) -> str | None:
    """A matmul of float32 with a narrower type."""
    tensors = call.tensors()
    for name, other in (("moving", "stationary"), ("stationary", "moving")):
        if name in tensors and other in tensors and tensors[other].dtype.name == "float32" != tensors[name].dtype.name:
            return _converted(call, name, "float32")
    return None


def _converted(call: Call, parameter: str, dtype: str) -> str | None:
    if parameter not in call.arguments:
        return None
    nl = call.nl
    code = call.with_arguments(**{parameter: f"{nl}.copy({call.text(parameter)}, dtype={nl}.{dtype})"})
    return f"copy it to {dtype}: write `{code}`"


def _float32_operand(call: Call) -> str | None:
    for name in ("operand0", "operand1", "scale", "bias", "scalar"):
        value = call.value(name)
        if isinstance(value, NkiTensor) and value.dtype.name != "float32":
            return _converted(call, name, "float32")
    return None


def _transposed_dtype(call: Call) -> str | None:
    data = call.tensors().get("data")
    return call.allocated_otherwise("dst", "dtype", f"{call.nl}.{data.dtype.name}") if data is not None else None


def _predicate(call: Call) -> str | None:
    return _converted(call, "predicate", "uint8")


def _product_dtype(call: Call) -> str | None:
    return call.allocated_otherwise("dst", "dtype", f"{call.nl}.float32")


def _moved_dtype(call: Call) -> str | None:
    source = call.tensors().get("src")
    return call.allocated_otherwise("dst", "dtype", f"{call.nl}.{source.dtype.name}") if source is not None else None


def _index_dtype(call: Call, operand: str) -> str | None:
    return call.allocated_otherwise(operand, "dtype", f"{call.nl}.uint32")


def _swapped_product(call: Call) -> str | None:
    """A stationary operand of more than 128 columns beside a narrow moving one, and the product of the two swapped."""
    tensors = call.tensors()
    if not {"dst", "stationary", "moving"} <= tensors.keys():
        return None
    dst, wide, narrow = (tensors[name] for name in ("dst", "stationary", "moving"))
    if narrow.shape[-1] > 128 or dst.shape != (narrow.shape[-1], wide.shape[-1]):
        return None
    code = call.with_arguments(stationary=call.text("moving"), moving=call.text("stationary"))
    return f"dst has the shape of the product of the two swapped: write `{code}`"


def _product_shape(call: Call) -> str | None:
    """The allocation of a matmul's destination in the shape of the product."""
    tensors = call.tensors()
    if "stationary" not in tensors or "moving" not in tensors:
        return None
    shape = (tensors["stationary"].shape[-1], tensors["moving"].shape[-1])
    return call.allocated_otherwise("dst", "shape", str(shape))


def _reduced_shape(call: Call) -> str | None:
    """The allocation of a reduction's destination in the shape that stays."""
    data, axis = call.tensors().get("data"), call.value("axis")
    axes = cast("tuple[Any, ...]", axis) if isinstance(axis, tuple) else (axis,)
    if data is None or any(type(a) is not int for a in axes):
        return None
    reduced = {a % data.ndim for a in axes}
    kept = tuple(size for dim, size in enumerate(data.shape) if dim not in reduced)
    return call.allocated_otherwise("dst", "shape", str(kept if len(kept) > 1 else (*kept, 1)))


_ADVICE: Final[dict[str, Callable[[Call], str | None]]] = {
    "AC01": alu_operators.alu_as_activation,
    "CP01": _predicate,
    "DM01": memory_regions.dma_of_psum,
    "DT02": _float32_operand,
    "DT03": _float32_operand,
    "DX04": _moved_dtype,
    "MM01": _contracted,
    "MM02": _swapped_product,
    "MM04": _product_shape,
    "MM05": _mixed,
    "MM07": _product_dtype,
    "NT02": _transposed_dtype,
    "NT06": memory_regions.transposed_into_psum,
    "OP01": alu_operators.activation_as_alu,
    "SE01": _elements,
    "SP01": _partitions,
    "TL01": memory_regions.on_hbm,
    "TL03": memory_regions.start_partition,
    "TR01": alu_operators.fold_of_magnitudes,
    "TR03": _reduced_shape,
    "TS01": alu_operators.two_instructions,
}
"""The advice for a call, by the rule that it breaks."""
_ADVICE_ON_OPERAND: Final[dict[str, Callable[[Call, str], str | None]]] = {
    "BU01": memory_regions.in_another_memory,
    "BU02": memory_regions.one_of_two,
    "CO01": _vector_operand,
    "M801": _index_dtype,
}
"""As :data:`_ADVICE`, where the advice depends on the operand that the rule complains of."""

__all__ = ["advise_call"]
