"""Statements of NKI Beta 1 as those of today, from the source alone: index tiles as slices, masks as their ends,
results as destinations, operators as functions.
"""

from __future__ import annotations

import ast
import copy
import inspect
from typing import Any, Final

import nki.isa as nisa_module
from nki.language.advice.beta1 import allocations, conditions, subscripts
from nki.language.advice.beta1.allocations import parameters_of
from nki.language.advice.beta1.dense import groups_in
from nki.language.advice.beta1.formulas import Bounds, UnknownFormError, bounds_of
from nki.language.advice.beta1.operand_rewriting import OperandRewriter
from nki.language.advice.beta1.parsed import expression
from nki.language.advice.beta1.results import bound, buffer_of, shape_and_dtype
from nki.language.advice.beta1.scope import NISA, NL, Memory
from nki.language.advice.expressions import OPERATORS

_CREATE: Final = ("ndarray", "zeros", "ones", "full", "rand", "empty_like", "zeros_like")
_UNUSED: Final = frozenset({"mask", "lazy_initialization", "precise_schedule", "kernel_return"})
"""Keywords that no function has today."""
_CONTEXTS: Final = ("multi_buffer", "allocation_scope")


class Rewriter(OperandRewriter):
    """Rewrites one statement."""

    # -- statements -------------------------------------------------------------------------------------------------

    def statement(self, node: ast.stmt) -> list[str]:
        """The lines in place of a statement. Raises :class:`UnknownFormError`."""
        self.groups = groups_in(self.scope, node)
        match node:
            case ast.Assign(targets=[target], value=value):
                last = self._assign(target, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                last = self._assign(target, value)
            case ast.AugAssign(target=target, op=op, value=value):
                last = self._update(node, target, op, value)
            case ast.Expr(value=ast.Call() as call):
                last = self._call_alone(call)
            case ast.Return(value=ast.expr() as value):
                last = f"return {self.text(value)}"
            case ast.Assert(test=test):
                changed = copy.deepcopy(node)
                changed.test = self.visit(copy.deepcopy(test))
                last = ast.unparse(changed)
            case ast.With():
                return self._with(node)
            case _:
                raise UnknownFormError
        lines = [*self.lines, *([last] if last else [])]
        if self.conditions:
            return [f"if {' and '.join(dict.fromkeys(self.conditions))}:", *(f"    {line}" for line in lines)]
        return lines

    def _assign(self, target: ast.expr, value: ast.expr) -> str:
        match target, value:
            case ast.Name(id=name), ast.Call(args=[added, *_]) if self.scope.full(value.func) == NL + "loop_reduce":
                return self._combined(name, value, added)
            case ast.Name(id=name), ast.Call() if self.returns_result(value):
                mentioned = {n.id for n in ast.walk(value) if isinstance(n, ast.Name)}
                into = self.fresh("result") if name in mentioned else name
                result = self.result(value, into)
                return "" if result == name else f"{name} = {result}"
            case ast.Subscript(), ast.Call() if self.masked_by_several(value):
                return self._masked(target, value)
            case ast.Subscript(), _ if self.scope.memory(target) is not None:
                return self._write(target, value)
            case _:
                return ast.unparse(ast.Assign([copy.deepcopy(target)], self.visit(copy.deepcopy(value)), lineno=0))

    def _masked(self, target: ast.expr, value: ast.Call) -> str:
        """``t[…] = f(…, mask=i >= j)``: the result, a tile of truth values, and a predicated copy."""
        nl, nisa = self.nl, self.nisa
        mask = self.scope.mask(next(k.value for k in value.keywords if k.arg == "mask"))
        parts = mask or ()
        bounds = bounds_of(parts)
        if len(parts) != 1 or bounds.conditions or len(bounds.several) != 1:
            raise UnknownFormError
        plain = ast.Call(value.func, value.args, [k for k in value.keywords if k.arg != "mask"])
        to = self.destination(target)
        source, inside = self.fresh("masked"), self.fresh("inside")
        if self.scope.full(plain.func) == NL + "copy" and len(plain.args) == 1:
            source = self.text(plain.args[0])
        elif self.returns_result(plain):
            self.result(plain, source)
        else:
            self.lines.append(f"{source} = {self.text(plain)}")
        pattern, shape = conditions.pattern_of(parts[0].difference)
        self.lines += [
            f"{inside} = {nl}.ndarray(({', '.join(shape)}), {nl}.uint8, buffer={nl}.sbuf)",
            f"{nisa}.memset({inside}, 1)",
            f"{nisa}.affine_select({inside}, {pattern}, on_true_tile={inside}, on_false_value=0, "
            f"cmp_op={nl}.{conditions.OPS[parts[0].op]})",
        ]
        return f"{nisa}.tensor_copy_predicated(dst={to}, src={source}, predicate={inside})"

    def _combined(self, name: str, value: ast.Call, added: ast.expr) -> str:
        op = next((k.value for k in value.keywords if k.arg == "op"), value.args[1] if len(value.args) > 1 else None)
        if op is None or name not in self.scope.tensors:
            raise UnknownFormError
        operator = self.text(self.operator(op))
        return f"{self.nisa}.tensor_tensor(dst={name}, data1={name}, data2={self.text(added)}, op={operator})"

    def _write(self, target: ast.Subscript, value: ast.expr) -> str:
        """``t[…] = value`` as the instruction that writes there."""
        memory = self.scope.memory(target)
        on_hbm = memory is not None and "hbm" in memory.buffer
        if isinstance(value, ast.Call) and self.returns_result(value):
            to = self.destination(target, self.bounded(value))
            if memory is not None and buffer_of(value, self.instruction(value)) == "psum" != memory.buffer:
                moved = "tensor_copy" if memory.buffer == "sbuf" else "dma_copy"
                source = self.result(value, self.fresh("product"))
                source = source if moved == "tensor_copy" else f"{self.nl}.copy({source})"
                return f"{self.nisa}.{moved}(dst={to}, src={source})"
            return self.into(value, to)
        match value:
            case ast.Constant(value=int() | float()) | ast.UnaryOp(operand=ast.Constant(value=int() | float())):
                to, number = self.destination(target), ast.unparse(value)
                if on_hbm:
                    return f"{self.nisa}.dma_copy(dst={to}, src={self.nl}.full({to}.shape, {number}, {to}.dtype))"
                return f"{self.nisa}.memset(dst={to}, value={number})"
            case ast.Call(args=[source, *_]) if self.scope.full(value.func) in (NL + "load", NL + "copy"):
                mine = self.bounded(value)
                to, code = self.destination(target, mine), self.operand(source, mine)
                copied = self.scope.full(value.func) == NL + "copy" and not on_hbm
                return f"{self.nisa}.{'tensor_copy' if copied else 'dma_copy'}(dst={to}, src={code})"
            case _:
                mine = self.bounded(value) if isinstance(value, ast.Call) else Bounds()
                to, source = self.destination(target, mine), self.scope.memory(value)
                code = self.text(value)
                if source is None:
                    return f"{to} = {code}"
                if on_hbm or "hbm" in source.buffer:
                    code = f"{self.nl}.copy({code})" if source.buffer == "psum" else code
                    return f"{self.nisa}.dma_copy(dst={to}, src={code})"
                return f"{self.nisa}.tensor_copy(dst={to}, src={code})"

    def _update(self, node: ast.AugAssign, target: ast.expr, op: ast.operator, value: ast.expr) -> str:
        """``t += value``: a sum of products in PSUM, or an instruction that updates ``t`` where it lies."""
        memory = self.scope.memory(target)
        name = OPERATORS.get(type(op))
        if memory is None and self.scope.full(getattr(value, "func", node)) == NISA + "nc_matmul":
            memory = Memory("psum")
        if memory is None or name is None:
            changed = copy.deepcopy(node)
            return ast.unparse(ast.AugAssign(self.visit(changed.target), op, self.visit(changed.value)))
        to = self.destination(target, self.bounded(value) if isinstance(value, ast.Call) else None)
        if memory.buffer == "psum" and isinstance(op, ast.Add) and isinstance(value, ast.Call):
            product = self._product(value, to)
            if product:
                return product
        if isinstance(value, ast.Constant):
            return (
                f"{self.nisa}.tensor_scalar(dst={to}, data={to}, op0={self.nl}.{name}, operand0={ast.unparse(value)})"
            )
        code = self.text(value)
        if self.scope.memory(value) is None:
            raise UnknownFormError
        if _index_text(target) == _index_text(value) and isinstance(value, ast.Subscript):
            return f"{self.nisa}.tensor_tensor(dst={to}, data1={to}, data2={code}, op={self.nl}.{name})"
        return f"{self.nisa}.tensor_copy(dst={to}, src={self.nl}.{name}({to}, {code}))"

    def _product(self, call: ast.Call, to: str) -> str:
        full = self.scope.full(call.func)
        if full == NISA + "nc_matmul":
            return self.into(call, to)
        if full != NL + "matmul":
            return ""
        given = dict(zip(("x", "y", "transpose_x"), call.args, strict=False))
        given |= {k.arg: k.value for k in call.keywords if k.arg is not None}
        flag = given.get("transpose_x")
        x, y = self.text(given["x"]), self.text(given["y"])
        if flag is None or (isinstance(flag, ast.Constant) and flag.value is False):
            x = f"{self.nl}.copy({self.nl}.transpose({x}))"
        elif not isinstance(flag, ast.Constant):
            return ""
        return f"{self.nisa}.nc_matmul(dst={to}, stationary={x}, moving={y})"

    def _call_alone(self, call: ast.Call) -> str:
        full = self.scope.full(call.func)
        if full == NL + "store" and len(call.args) + len(call.keywords) >= 2:
            return self._store(call)
        if self.returns_result(call):
            self.result(call, self.fresh("unused"))
            return ""
        if isinstance(call.func, ast.Attribute) and call.func.attr == "assert_shape" and len(call.args) == 1:
            owner, shape = self.text(call.func.value), call.args[0]
            shape = ast.Tuple(shape.elts, ast.Load()) if isinstance(shape, ast.List) else shape
            return f"assert {owner}.shape == {ast.unparse(shape)}"
        return self.text(call)

    def _store(self, call: ast.Call) -> str:
        """``nl.store(dst, value)``; a number and a tile in PSUM go through SBUF."""
        changed = copy.deepcopy(call)
        named = {k.arg: k for k in changed.keywords}
        value = named["value"].value if "value" in named else changed.args[-1]
        memory = self.scope.memory(value)
        store: Any = self.visit(changed)
        named = {k.arg: k for k in store.keywords}
        dst = ast.unparse(named["dst"].value if "dst" in named else store.args[0])
        held = named.get("value")
        inner = ast.unparse(held.value if held is not None else store.args[-1])
        if isinstance(value, ast.Constant):
            inner = f"{self.nl}.full({dst}.shape, {inner}, {dst}.dtype)"
        elif memory is not None and memory.buffer == "psum":
            inner = f"{self.nl}.copy({inner})"
        new = expression(inner)
        if held is not None:
            held.value = new
        else:
            store.args[-1] = new
        return ast.unparse(store)

    def _with(self, node: ast.With) -> list[str]:
        names = [
            self.scope.full(item.context_expr.func) for item in node.items if isinstance(item.context_expr, ast.Call)
        ]
        if names == ["nki.compiler.no_reorder"]:
            return [f"with {self.nl}.no_reorder():"]
        if len(names) == len(node.items) and all(name.removeprefix("nki.compiler.") in _CONTEXTS for name in names):
            return "\n".join(ast.unparse(inner) for inner in node.body).split("\n")
        raise UnknownFormError

    # -- results of instructions ------------------------------------------------------------------------------------

    def result(self, call: ast.Call, into: str) -> str:
        """Allocate the tile ``into`` for the result of an instruction and write there; the name of the tile."""
        name = self.instruction(call)
        mine = self.bounded(call)
        if name == "memset":
            self.lines.append(f"{into} = {self._filled(call)}")
            return into
        given = bound(call, name)
        if name in ("iota", "affine_select"):
            allocated = conditions.allocated(self, name, given)
        else:
            visited = {key: self.argument(key, node, mine) for key, node in given.items() if key != "mask"}
            allocated = shape_and_dtype(visited, name, self.nl)
            call = self._with_visited(call, name, visited)
        if allocated is None:
            raise UnknownFormError
        buffer = buffer_of(call, name)
        self.lines.append(f"{into} = {self.nl}.ndarray({', '.join(allocated)}, buffer={self.nl}.{buffer})")
        self.scope.tensors[into] = Memory(buffer)
        self.lines.append(self.into(call, into, visited=True))
        return into

    def _with_visited(self, call: ast.Call, name: str, visited: dict[str, ast.expr]) -> ast.Call:
        order = [key for key, node in bound(call, name).items() if any(node is arg for arg in call.args)]
        args = [visited[key] for key in order]
        keywords = [ast.keyword(k.arg, visited[k.arg]) for k in call.keywords if k.arg in visited]
        return ast.Call(call.func, args, keywords)

    def into(self, call: ast.Call, to: str, *, visited: bool = False) -> str:
        """The call of an instruction with the destination ``to``; ``visited``: its arguments are of today."""
        name = self.instruction(call)
        if name == "memset":
            return f"{self.nisa}.memset({to}, {ast.unparse(bound(call, name)['value'])})"
        if name in ("iota", "affine_select"):
            return conditions.call(self, name, bound(call, name), to)
        if not visited:
            mine = self.bounded(call)
            given = {key: self.argument(key, node, mine) for key, node in bound(call, name).items() if key != "mask"}
            call = self._with_visited(call, name, given)
        parameters = inspect.signature(getattr(nisa_module, name)).parameters
        keywords = [k for k in call.keywords if k.arg in parameters]
        return ast.unparse(ast.Call(call.func, [expression(to), *call.args], keywords))

    def _filled(self, call: ast.Call) -> str:
        given = bound(call, "memset")
        if not {"shape", "value", "dtype"} <= given.keys():
            raise UnknownFormError
        dtype = ast.unparse(self.dtype(given["dtype"]))
        return f"{self.nl}.full({self.text(given['shape'])}, {ast.unparse(given['value'])}, {dtype})"

    # -- expressions ------------------------------------------------------------------------------------------------

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        """An index as slices, lists and views."""
        new = subscripts.indexed(self, node)
        return new if new is not None else self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        """Constants that are gone."""
        full = self.scope.full(node)
        if full == NL + "fp32.min":
            return ast.UnaryOp(ast.USub(), ast.Constant(3.4028234663852886e38))
        if node.attr == "itemsize" and self.scope.memory(node.value) is not None:
            return ast.Attribute(ast.Attribute(node.value, "dtype"), "itemsize")
        return self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        """An operator on tensors as a function."""
        name = OPERATORS.get(type(node.op))
        tensors = self.scope.memory(node.left) or self.scope.memory(node.right)
        if name is None or tensors is None:
            return self.generic_visit(node)
        return self._function(name, node.left, node.right)

    def visit_Compare(self, node: ast.Compare) -> Any:
        """A comparison of tensors as a function."""
        name = OPERATORS.get(type(node.ops[0])) if len(node.ops) == 1 else None
        right = node.comparators[0]
        if name is None or not (self.scope.memory(node.left) or self.scope.memory(right)):
            return self.generic_visit(node)
        return self._function(name, node.left, right)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        """A sign or complement of a tensor as a function."""
        name = OPERATORS.get(type(node.op))
        if name is None or self.scope.memory(node.operand) is None:
            return self.generic_visit(node)
        return self._function(name, node.operand)

    def _function(self, name: str, *operands: ast.expr) -> ast.expr:
        return ast.Call(ast.Attribute(ast.Name(self.nl), name), [self.visit(each) for each in operands], [])

    def visit_Call(self, node: ast.Call) -> Any:
        """A call of Beta 1 as one of today."""
        full = self.scope.full(node.func)
        package, _, name = full.rpartition(".")
        if full == NL + "par_dim" and node.args:
            return self.visit(node.args[0])
        if self.returns_result(node):
            if name == "memset":
                return expression(self._filled(node))
            return expression(self.result(node, self.fresh("tile")))
        if package + "." == NL and name in _CREATE:
            return allocations.allocation(self, node)
        match node.func:
            case ast.Attribute(value=ast.Attribute(value=owner, attr="dtype"), attr="type") if self.scope.memory(owner):
                return self.visit(node.args[0])
            case ast.Attribute(value=owner, attr=method) if self.scope.memory(owner) is not None and not full:
                return self._method(node, owner, method)
            case _:
                pass
        if package + "." not in (NL, NISA):
            return self.generic_visit(node)
        if full == NL + "static_cast":
            node.func = ast.Attribute(ast.Name(self.nl), "copy")
        mine = self.bounded(node)
        parameters = parameters_of(package, name)
        args = [self.positional(arg, mine) for arg in node.args]
        keywords: list[ast.keyword] = []
        for k in node.keywords:
            if k.arg in _UNUSED or (parameters and k.arg == "name" and "name" not in parameters):
                continue
            renamed = (
                "dtype" if k.arg == "compute_dtype" and parameters and "compute_dtype" not in parameters else k.arg
            )
            keywords.append(ast.keyword(renamed, self.argument(str(renamed), k.value, mine)))
        return ast.Call(node.func, args, keywords)

    def _method(self, node: ast.Call, owner: ast.expr, name: str) -> Any:
        match name:
            case "broadcast_to" if node.args or node.keywords:
                shape = node.args[0] if len(node.args) == 1 else None
                shape = shape or next((k.value for k in node.keywords if k.arg == "shape"), None)
                shape = shape or ast.Tuple(list(node.args), ast.Load())
                return ast.Call(ast.Attribute(ast.Name(self.nl), name), [self.visit(owner), self.visit(shape)], [])
            case "astype" if len(node.args) == 1:
                dtype = ast.keyword("dtype", self.dtype(node.args[0]))
                return ast.Call(ast.Attribute(ast.Name(self.nl), "copy"), [self.visit(owner)], [dtype])
            case "assert_shape" | "as_tile":
                return self.visit(owner)
            case _:
                return self.generic_visit(node)


def _index_text(node: ast.expr) -> str:
    return ast.unparse(node.slice) if isinstance(node, ast.Subscript) else ""


__all__ = ["Rewriter"]
