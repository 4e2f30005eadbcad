"""Instructions of ``nki.isa`` in a Beta 1 kernel: results become ``dst=``, index expressions patterns."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from nki.language.beta1_functions import FUNCTIONS, RESULTS
from nki.language.beta1_rewriting.calls import (
    Argument,
    NewCall,
    NotCarriedOverError,
    as_dma_compute,
    cleaned,
    code_in_place,
    function_of,
    nki_value,
    with_destination,
)
from nki.language.beta1_rewriting.facts import Tensor, shape_text
from nki.language.beta1_rewriting.indices import Bounds, Index, Mask
from nki.language.beta1_rewriting.language_calls import LanguageCalls
from nki.language.beta1_rewriting.operands import as_bytes, trailing_axes
from nki.language.beta1_rewriting.result_shapes import Operand, Reader, reduced_axes, result_tensor
from nki.language.beta1_rewriting.tables import LIKE, PARAMETERS
from nki.language.beta1_rewriting.types import arguments
from nki.source_text.lines import Line
from nki.source_text.polynomial import Polynomial
from nki.source_text.source import one_line, owner_of

_OPERANDS: Final = ("data", "src", "stationary", "src_buffer", "segment_ids")
"""Operands that have the dtype of a result."""
COMPARISONS: Final = {"<": "less", "<=": "less_equal", "==": "equal", "!=": "not_equal"}
"""The operator of each comparison with 0."""


class InstructionCalls(LanguageCalls):
    """Rewrites calls of ``nki.isa``."""

    def _instruction(self, name: str, node: ast.Call, call: NewCall, bounds: Bounds) -> str:
        """The code of ``nisa.name(…)``."""
        if self.types.result_of(node):
            return code_in_place(node, call) if node is self.top else self._temporary(name, node, call)
        if name in RESULTS:  # a call of today
            function = function_of("nki.isa", name)
            return code_in_place(node, cleaned(self.names, call, function) if function is not None else call)
        if name == "tensor_copy_dynamic_dst":
            name, call = "tensor_copy", replace(call, func="nisa.tensor_copy")
        function = function_of("nki.isa", name)
        if function is None:
            return code_in_place(node, call)
        if name == "nc_stream_shuffle":
            named = call.by_name(PARAMETERS[name])
            parts = [f"{key}={named[key]}" for key in ("dst", "src", "shuffle_mask") if key in named]
            return f"nisa.nc_stream_shuffle({', '.join(parts)})"
        call = as_bytes(self.types, self._operands_cut(call, bounds))
        if name == "dma_copy":
            call = as_dma_compute(self.names, call)
            if call.func == "nisa.dma_compute":
                return call.code
        return code_in_place(node, cleaned(self.names, call, function))

    def _value(self, node: ast.expr, text: str) -> str:
        """An operator, dtype or limit under its name of today; other code as it is."""
        return nki_value(self.names, node) or text

    def _temporary(self, name: str, node: ast.Call, call: NewCall) -> str:
        """A result inside an expression: a tile of its own, computed before the statement."""
        if self.inner:
            raise NotCarriedOverError(f"`nisa.{name}` inside a comprehension or lambda")
        text = self.fresh(f"{name}_result")
        self.before += self.computed(text, name, node, call)
        return text

    def fresh(self, name: str) -> str:
        """A name that the function does not use."""
        candidates = (name, *(f"{name}_{k}" for k in range(2, 999)))
        found = next(each for each in candidates if each not in self.taken)
        self.taken.add(found)
        return found

    def computed(self, target: str, name: str, node: ast.Call, call: NewCall) -> list[Line]:
        """``target`` allocated, and the instruction that writes it."""
        tensor = self.types.tensor(node) or Tensor()
        shape, dtype = self._assumed(name, node, call) if self.types.facts.assumed else ("", "")
        shape, dtype = tensor.shape_text or shape, tensor.dtype or dtype
        for what, known in (("shape", shape), ("dtype", dtype)):
            if not known:
                raise NotCarriedOverError(
                    f"the {what} of the result of `nisa.{name}`: add --arg, so that the kernel can run"
                )
        if tensor.observed:
            self.report.notes.append(f"`{target}` has the shape {shape} of the run; other arguments may need another")
        if name == "memset":
            value = call.by_name(PARAMETERS["memset"])["value"]
            return [Line(f"{target} = nl.full({shape}, {value}, dtype={dtype}, buffer=nl.sbuf)")]
        given = "dtype" in arguments(node)
        dtype = f"{tensor.name}.dtype" if tensor.name and not given else dtype
        dtype = self._operand_dtype(name, node) or dtype
        if name == "tensor_tensor" and not given:
            self._note_promotion(target, dtype, node)
        made = f"{target} = nl.ndarray({shape}, dtype={dtype}, buffer=nl.{tensor.buffer})"
        return [Line(made), self.written(target, name, node, call)]

    def _assumed(self, name: str, node: ast.Call, call: NewCall) -> tuple[str, str]:
        """Shape and dtype of a result of operands with two dimensions; "" where they do not tell."""
        then = call.by_name(PARAMETERS[name])
        x = next((then[key] for key in (LIKE.get(name), *_OPERANDS) if key in then), "")
        if not x:
            return "", ""
        named = arguments(node, PARAMETERS[name])
        axes = reduced_axes(named.get("axis"))
        if name == "tensor_reduce" and min(axes, default=1) > 1:
            return f"{x}.shape[:{min(axes)}]", f"{x}.dtype"
        operands = {key: Operand(value, _of_two_dimensions(then[key])) for key, value in named.items() if key in then}
        if name == "tensor_reduce":
            operands = {"data": operands["data"], "axis": Operand(ast.Constant(1))}
        result = result_tensor(FUNCTIONS[name], operands, Reader(self.types.evaluator.polynomial, lambda _: None))
        return result.shape_text, f"{x}.dtype"

    def _note_promotion(self, target: str, dtype: str, node: ast.Call) -> None:
        """Note what the dtype of a result takes for granted: no code of today says what two dtypes promote to."""
        named = arguments(node, PARAMETERS["tensor_tensor"])
        tiles = [self.types.tensor(named[key]) for key in ("data1", "data2") if key in named]
        one, other = (tile.dtype if tile is not None else "" for tile in tiles) if len(tiles) == 2 else ("", "")
        if one == other or not (one.endswith(".dtype") and other.endswith(".dtype")):
            return
        if dtype.endswith(".dtype"):
            self.types.equal.append((one, other))
        else:
            self.report.notes.append(f"`{target}` has the dtype {dtype} of the run; other arguments may need another")

    def _operand_dtype(self, name: str, node: ast.Call) -> str:
        """``x.dtype`` for a result, where only a run tells its dtype and its operand x had the same; else ""."""
        named, seen = arguments(node, PARAMETERS[name]), self.types.facts.seen(node)
        source = LIKE.get(name) or next((key for key in ("data", "src") if key in named), "")
        if source not in named or name == "nc_find_index8" or "dtype" in named or seen is None:
            return ""
        if self.types.declared(node).dtype:
            return ""
        operand, owner = self.types.facts.seen(named[source]), owner_of(named[source])
        tensor = self.types.tensor(owner)
        plain = isinstance(owner, ast.Name) and tensor is not None and not tensor.blocks
        return f"{one_line(owner)}.dtype" if plain and operand is not None and operand.dtype == seen.dtype else ""

    def written(self, target: str, name: str, node: ast.Call, call: NewCall, extra: Sequence[Argument] = ()) -> Line:
        """The instruction with ``target`` as its destination."""
        call = self._operands_cut(call, self.bounds[-1])
        if name == "tensor_reduce":
            call = trailing_axes(self.types, node, call, PARAMETERS[name], "data")
        if name == "tensor_tensor":
            call, name = self._of_one_shape(node, call)
        if name in ("iota", "affine_select"):
            return Line(self._patterned(target, name, node, call))
        if name == "memset":
            return Line(f"nisa.memset(dst={target}, value={call.by_name(PARAMETERS[name])['value']})")
        if name == "tensor_copy_dynamic_src":  # the operand says where it lies
            name, call = "tensor_copy", replace(call, func="nisa.tensor_copy")
        return Line(with_destination(self.names, call, name, target, extra).code)

    def _of_one_shape(self, node: ast.Call, call: NewCall) -> tuple[NewCall, str]:
        """``nisa.tensor_tensor`` of tiles of equal shape, and its name: a column is an operand of ``tensor_scalar``."""
        order = PARAMETERS["tensor_tensor"]
        named, then = arguments(node, order), call.by_name(order)
        if not {"data1", "data2", "op"} <= named.keys():
            return call, "tensor_tensor"
        one, other = self.types.tensor(named["data1"]), self.types.tensor(named["data2"])
        x, y = then["data1"], then["data2"]
        if one is not None and other is not None and one.buffer == other.buffer == "psum":
            y = f"nl.copy({y})"
        columns = [_is_column(one, other), _is_column(other, one)]
        if any(columns) and one is not None and other is not None:
            small, big = (other, one) if columns[1] else (one, other)
            column, tile = (y, x) if columns[1] else (x, y)
            seen = self.types.facts.seen(named["data2" if columns[1] else "data1"])
            if seen is not None and seen.dtype == "float32" and small.shape is not None:
                column = column if len(small.shape) == 2 else f"{column}.reshape({shape_text(small.shape[:2])})"
                op = self._value(named["op"], then["op"])
                args = [Argument("data", tile), Argument("op0", op), Argument("operand0", column)]
                args += [Argument("reverse0", "True")] if columns[0] else []
                args += [Argument("engine", then["engine"])] if "engine" in then else []
                return NewCall("nisa.tensor_scalar", tuple(args)), "tensor_scalar"
            if big.shape is not None and small.shape is not None and len(big.shape) == len(small.shape):
                column = f"nl.broadcast_to({column}, {big.shape_text})"
            x, y = (tile, column) if columns[1] else (column, tile)
        elif one is not None and other is not None:
            x, y = self.aligned(named["data1"], named["data2"], x, y)
        return call.with_texts({"data1": x, "data2": y}, order), "tensor_tensor"

    def _patterned(self, target: str, name: str, node: ast.Call, call: NewCall) -> str:
        """``nisa.iota`` and ``nisa.affine_select``: the index expression as pattern, offset and channel multiplier."""
        named, then = arguments(node, PARAMETERS[name]), call.by_name(PARAMETERS[name])
        value = self.types.value(named["expr" if name == "iota" else "pred"])
        op = "equal"
        if isinstance(value, Mask) and len(value.parts) == 1:
            # Differences of the two sides: left - right, or right - left for `>` and `>=`.
            op = COMPARISONS[value.parts[0].op]
            value = value.parts[0].index
        if not isinstance(value, Index):
            raise NotCarriedOverError(f"the index expression of `nisa.{name}`")
        data = self.types.tensor(named.get("on_true_tile", node))
        pattern, multiplier = pattern_of(value, data)
        if name == "iota":
            more = f"offset={value.base.text}, channel_multiplier={multiplier}"
            return f"nisa.iota(dst={target}, pattern={pattern}, {more})"
        tile = self._in_sbuf(named["on_true_tile"], then["on_true_tile"])
        other = self._value(named["on_false_value"], then["on_false_value"])
        return (
            f"nisa.affine_select(dst={target}, pattern={pattern}, channel_multiplier={multiplier}, "
            f"on_true_tile={tile}, on_false_value={other}, cmp_op=nl.{op}, offset={value.base.text})"
        )


def pattern_of(index: Index, data: Tensor | None) -> tuple[str, str]:
    """The pattern of the free axes and the channel multiplier of an index expression over the tile ``data``."""
    ndim = max(index.ndim, 2)
    steps: dict[int, tuple[str, str]] = {v.axis: (s.text, v.size.text) for v, s in index.steps}
    free: list[str] = []
    for axis in range(1 - ndim, 0):
        size = data.shape[axis].text if data is not None and data.shape is not None else "1"
        step, count = steps.get(axis, ("0", size))
        free.append(f"[{step}, {count}]")
    return f"[{', '.join(free)}]", steps.get(-ndim, ("0", ""))[0]


def _of_two_dimensions(operand: str) -> Tensor:
    """A tensor with this code."""
    shape = tuple(Polynomial.of(f"{operand}.shape[{axis}]") for axis in range(2))
    return Tensor(shape, f"{operand}.dtype", name=operand)


def _is_column(small: Tensor | None, big: Tensor | None) -> bool:
    """True for a tile of one element per partition beside a tile of more."""
    if small is None or big is None or small.shape is None or big.shape is None or len(small.shape) < 2:
        return False
    return all(size.constant == 1 for size in small.shape[1:]) and any(size.constant != 1 for size in big.shape[1:])


__all__ = ["COMPARISONS", "InstructionCalls", "pattern_of"]
