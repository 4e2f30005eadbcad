"""Instructions of ``nki.isa`` in a Beta 1 kernel: results become ``dst=``, index expressions patterns."""

from __future__ import annotations

from typing import Final

import libcst as cst

from nki import isa
from nki.language.advice.beta1.results import LIKE, PARAMETERS, RESULTS
from nki.migrate.calls import cleaned, nki_value, with_destination
from nki.migrate.facts import Tensor, shape_text
from nki.migrate.indices import Bounds, Index, Mask
from nki.migrate.language_calls import LanguageCalls
from nki.migrate.operands import as_bytes, trailing_axes
from nki.migrate.subscripts import NotCarriedOverError
from nki.migrate.syntax.code import expression, one_line, statement
from nki.migrate.types import arguments

COMPARISONS: Final = {"<": "less", "<=": "less_equal", "==": "equal", "!=": "not_equal"}
"""The operator of each comparison with 0."""


class InstructionCalls(LanguageCalls):
    """Rewrites calls of ``nki.isa``."""

    def _instruction(self, name: str, original: cst.Call, updated: cst.Call, bounds: Bounds) -> cst.BaseExpression:
        if name in RESULTS:
            if original is self.top:
                return updated
            if any(arg.keyword is not None and arg.keyword.value == "dst" for arg in original.args):
                return updated  # it is a call of today
            return self._temporary(name, original, updated)
        if name == "tensor_copy_dynamic_dst":
            name, updated = "tensor_copy", updated.with_changes(func=expression("nisa.tensor_copy"))
        function = getattr(isa, name, None)
        if function is None or isinstance(function, type):
            return updated
        if name == "nc_stream_shuffle":
            named = arguments(updated, ("src", "dst", "shuffle_mask"))
            texts = [f"{key}={one_line(named[key].value)}" for key in ("dst", "src", "shuffle_mask") if key in named]
            return expression(f"nisa.nc_stream_shuffle({', '.join(texts)})")
        updated = as_bytes(self.types, original, self._operands_cut(original, updated, bounds))
        named = arguments(updated, ("dst", "src"))
        if name == "dma_copy" and "dst_rmw_op" in named and {"dst", "src"} <= named.keys():
            op = nki_value(self.names, named["dst_rmw_op"].value)
            if one_line(op) != "None":
                dst, src = one_line(named["dst"].value), one_line(named["src"].value)
                return expression(f"nisa.dma_compute({dst}, [{src}, {dst}], {one_line(op)})")
            updated = updated.with_changes(args=[arg for arg in updated.args if arg is not named["dst_rmw_op"]])
        return updated.with_changes(args=cleaned(self.names, updated.args, function))

    def _temporary(self, name: str, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        """A result inside an expression: a tile of its own, computed before the statement."""
        if self.inner:
            raise NotCarriedOverError(f"`nisa.{name}` inside a comprehension or lambda")
        text = self.fresh(f"{name}_result")
        self.before += self.computed(text, name, original, updated)
        return cst.Name(text)

    def fresh(self, name: str) -> str:
        """A name that the function does not use."""
        candidates = (name, *(f"{name}_{k}" for k in range(2, 999)))
        found = next(each for each in candidates if each not in self.taken)
        self.taken.add(found)
        return found

    def computed(self, target: str, name: str, original: cst.Call, updated: cst.Call) -> list[cst.BaseStatement]:
        """``target`` allocated, and the instruction that writes it."""
        tensor = self.types.tensor(original)
        if tensor is None or not tensor.shape_text:
            raise NotCarriedOverError(
                f"the shape of the result of `nisa.{name}`: add --arg, so that the kernel can run"
            )
        if not tensor.dtype:
            raise NotCarriedOverError(
                f"the dtype of the result of `nisa.{name}`: add --arg, so that the kernel can run"
            )
        if tensor.observed:
            self.notes.append(
                f"`{target}` has the shape {tensor.shape_text} of the run; other arguments may need another"
            )
        kind = "ndarray" if name != "memset" else "full"
        if kind == "full":
            named = arguments(updated, PARAMETERS["memset"])
            value = one_line(named["value"].value)
            return [
                statement(f"{target} = nl.full({tensor.shape_text}, {value}, dtype={tensor.dtype}, buffer=nl.sbuf)")
            ]
        dtype = f"{tensor.name}.dtype" if tensor.name and "dtype" not in arguments(original, ()) else tensor.dtype
        dtype = self._operand_dtype(name, original) or dtype
        if name == "tensor_tensor" and "dtype" not in arguments(original, ()):
            self._note_promotion(target, dtype, original)
        made = f"{target} = nl.ndarray({tensor.shape_text}, dtype={dtype}, buffer=nl.{tensor.buffer})"
        return [statement(made), self.written(target, name, original, updated)]

    def _note_promotion(self, target: str, dtype: str, original: cst.Call) -> None:
        """Note what the dtype of a result takes for granted: no code of today says what two dtypes promote to."""
        named = arguments(original, PARAMETERS["tensor_tensor"])
        tiles = [self.types.tensor(named[key].value) for key in ("data1", "data2") if key in named]
        one, other = (tile.dtype if tile is not None else "" for tile in tiles) if len(tiles) == 2 else ("", "")
        if one == other or not (one.endswith(".dtype") and other.endswith(".dtype")):
            return
        if dtype.endswith(".dtype"):
            self.types.equal.append((one, other))
        else:
            self.notes.append(f"`{target}` has the dtype {dtype} of the run; other arguments may need another")

    def _operand_dtype(self, name: str, original: cst.Call) -> str:
        """``x.dtype`` for a result whose dtype only a run tells, if its operand x had the same; else ""."""
        named, seen = arguments(original, PARAMETERS[name]), self.types.facts.seen(original)
        source = LIKE.get(name) or next((key for key in ("data", "src") if key in named), "")
        if source not in named or name == "nc_find_index8" or "dtype" in named or seen is None:
            return ""
        if self.types.declared(original).dtype:
            return ""
        node = named[source].value
        operand = self.types.facts.seen(node)
        while isinstance(node, cst.Subscript):
            node = node.value
        tensor = self.types.tensor(node)
        plain = isinstance(node, cst.Name) and tensor is not None and not tensor.blocks
        return f"{one_line(node)}.dtype" if plain and operand is not None and operand.dtype == seen.dtype else ""

    def written(
        self, target: str, name: str, original: cst.Call, updated: cst.Call, extra: str = ""
    ) -> cst.SimpleStatementLine:
        """The instruction with ``target`` as its destination."""
        updated = self._operands_cut(original, updated, self.bounds[-1])
        if name == "tensor_reduce":
            updated = trailing_axes(self.types, original, updated, PARAMETERS[name], "data")
        if name == "tensor_tensor":
            updated, name = self._of_one_shape(original, updated)
        if name in ("iota", "affine_select"):
            call = self._patterned(target, name, original, updated)
        elif name == "memset":
            named = arguments(updated, PARAMETERS["memset"])
            call: cst.BaseExpression = expression(f"nisa.memset(dst={target}, value={one_line(named['value'].value)})")
        else:
            if name == "tensor_copy_dynamic_src":  # the operand says where it lies
                name, updated = "tensor_copy", updated.with_changes(func=expression("nisa.tensor_copy"))
            call = with_destination(self.names, updated, name, target, extra)
        return cst.SimpleStatementLine([cst.Expr(call)])

    def _of_one_shape(self, original: cst.Call, updated: cst.Call) -> tuple[cst.Call, str]:
        """``nisa.tensor_tensor`` of tiles of equal shape, and its name: a column is an operand of ``tensor_scalar``."""
        named, then = arguments(original, PARAMETERS["tensor_tensor"]), arguments(updated, PARAMETERS["tensor_tensor"])
        if not {"data1", "data2", "op"} <= named.keys():
            return updated, "tensor_tensor"
        one, other = self.types.tensor(named["data1"].value), self.types.tensor(named["data2"].value)
        x, y = one_line(then["data1"].value), one_line(then["data2"].value)
        if one is not None and other is not None and one.buffer == other.buffer == "psum":
            y = f"nl.copy({y})"
        columns = [_is_column(one, other), _is_column(other, one)]
        if any(columns) and one is not None and other is not None:
            small, big = (other, one) if columns[1] else (one, other)
            column, tile = (y, x) if columns[1] else (x, y)
            seen = self.types.facts.seen(named["data2" if columns[1] else "data1"].value)
            if seen is not None and seen.dtype == "float32" and small.shape is not None:
                column = column if len(small.shape) == 2 else f"{column}.reshape({shape_text(small.shape[:2])})"
                parts = [f"data={tile}", f"op0={one_line(then['op'].value)}", f"operand0={column}"]
                parts += ["reverse0=True"] if columns[0] else []
                parts += [f"engine={one_line(then['engine'].value)}"] if "engine" in then else []
                return cst.ensure_type(expression(f"nisa.tensor_scalar({', '.join(parts)})"), cst.Call), "tensor_scalar"
            if big.shape is not None and small.shape is not None and len(big.shape) == len(small.shape):
                column = f"nl.broadcast_to({column}, {big.shape_text})"
            x, y = (tile, column) if columns[1] else (column, tile)
        elif one is not None and other is not None:
            x, y = self.aligned(named["data1"].value, named["data2"].value, x, y)
        changed = {id(then["data1"]): x, id(then["data2"]): y}
        args = [
            arg.with_changes(value=expression(changed[id(arg)]))
            if id(arg) in changed and changed[id(arg)] != one_line(arg.value) else arg
            for arg in updated.args
        ]  # fmt: skip
        return updated.with_changes(args=args), "tensor_tensor"

    def _patterned(self, target: str, name: str, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        """``nisa.iota`` and ``nisa.affine_select``: the index expression as pattern, offset and channel multiplier."""
        named, then = arguments(original, PARAMETERS[name]), arguments(updated, PARAMETERS[name])
        value = self.types.value(named["expr" if name == "iota" else "pred"].value)
        op = "equal"
        if isinstance(value, Mask) and len(value.parts) == 1:
            # Differences of the two sides: left - right, or right - left for `>` and `>=`.
            op = COMPARISONS[value.parts[0].op]
            value = value.parts[0].index
        if not isinstance(value, Index):
            raise NotCarriedOverError(f"the index expression of `nisa.{name}`")
        data = (
            self.types.tensor(named["on_true_tile"].value) if "on_true_tile" in named else self.types.tensor(original)
        )
        pattern, multiplier = pattern_of(value, data)
        parts = [f"dst={target}", f"pattern={pattern}"]
        if name == "iota":
            parts += [f"offset={value.base.text}", f"channel_multiplier={multiplier}"]
        else:
            tile = self._in_sbuf(named["on_true_tile"].value, one_line(then["on_true_tile"].value))
            parts += [f"channel_multiplier={multiplier}", f"on_true_tile={tile}"]
            parts += [f"on_false_value={one_line(nki_value(self.names, then['on_false_value'].value))}"]
            parts += [f"cmp_op=nl.{op}", f"offset={value.base.text}"]
        return expression(f"nisa.{name}({', '.join(parts)})")


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


def _is_column(small: Tensor | None, big: Tensor | None) -> bool:
    """True for a tile of one element per partition beside a tile of more."""
    if small is None or big is None or small.shape is None or big.shape is None or len(small.shape) < 2:
        return False
    return all(size.constant == 1 for size in small.shape[1:]) and any(size.constant != 1 for size in big.shape[1:])


__all__ = ["COMPARISONS", "InstructionCalls", "pattern_of"]
