"""Statements of NKI Beta 1 as those of today, from the source alone: index tiles as slices, masks as their ends,
results as destinations, operators as functions.
"""

from __future__ import annotations

import ast
import copy
import inspect
from typing import Any, Final, cast

import numpy as np

import nki.isa as nisa_module
from nki.isa.tables.operators import OPS
from nki.language.advice.beta1 import allocations, conditions, subscripts
from nki.language.advice.beta1.allocations import parameters_of
from nki.language.advice.beta1.dense import Group, groups_in
from nki.language.advice.beta1.formulas import Bounds, UnknownFormError, bounds_of
from nki.language.advice.beta1.results import NUMPY_OPERATORS, bound, buffer_of, shape_and_dtype
from nki.language.advice.beta1.scope import NISA, NL, Memory, Scope
from nki.language.advice.expressions import OPERATORS, dtype_name
from nki.language.releases.removed_names import TENSORS, is_number

_CREATE: Final = ("ndarray", "zeros", "ones", "full", "rand", "empty_like", "zeros_like")
_UNUSED: Final = frozenset({"mask", "lazy_initialization", "precise_schedule", "kernel_return"})
"""Keywords that no function has today."""
_COLUMNS: Final = frozenset({"bias", "scale", "operand0", "operand1", "bound0", "bound1", "reduce_res"})
"""Parameters that take one number per partition."""
_CONTEXTS: Final = ("multi_buffer", "allocation_scope")


class Rewriter(ast.NodeTransformer):
    """Rewrites one statement; ``lines`` are the statements that go before it."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.nl = scope.alias("nki.language", "nl")
        self.nisa = scope.alias("nki.isa", "nisa")
        self.lines: list[str] = []
        self.bounds = Bounds()
        self.conditions: list[str] = []
        self.groups: tuple[Group, ...] = ()
        """Axes of the statement that are one axis of the new one."""

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
                return conditions.masked(self, target, value)
            case ast.Subscript(), _ if self.scope.memory(target) is not None:
                return self._write(target, value)
            case _:
                return ast.unparse(ast.Assign([copy.deepcopy(target)], self.visit(copy.deepcopy(value)), lineno=0))

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

    def destination(self, target: ast.expr, bounds: Bounds | None = None) -> str:
        """The code of an assigned subscript, cut to the mask of what is assigned; ``t`` for ``t[...]``."""
        if not isinstance(target, ast.Subscript):
            return self.text(target)
        keys = subscripts.keys_of(target)
        whole = all(
            (isinstance(key, ast.Constant) and key.value is ...)
            or (isinstance(key, ast.Slice) and key.lower is key.upper is key.step is None)
            for key in keys
        )
        return self.operand(target.value if whole else target, bounds or Bounds())

    def operand(self, node: ast.expr, bounds: Bounds) -> str:
        """The code of a tensor within the limits of a mask."""
        before, self.bounds = self.bounds, bounds
        code = ast.unparse(self._limited(self.visit(copy.deepcopy(node)), node, columns=True))
        self.bounds = before
        return code

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
        new = _expression(inner)
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

    def returns_result(self, call: ast.Call) -> bool:
        """True for a call of an instruction in the form of Beta 1, without destination."""
        full = self.scope.full(call.func)
        function = getattr(nisa_module, full.removeprefix(NISA), None) if full.startswith(NISA) else None
        if not callable(function) or any(k.arg == "dst" for k in call.keywords):
            return False
        try:
            signature = inspect.signature(function)
            if next(iter(signature.parameters), "") != "dst":
                return False
            named = [k.arg for k in call.keywords if k.arg in signature.parameters]
            given = signature.bind(*call.args, **dict.fromkeys(cast("list[str]", named))).arguments
        except TypeError:
            return True
        return any(isinstance(node := given.get(each), ast.expr) and self.is_no_tensor(each, node) for each in TENSORS)

    def instruction(self, call: ast.Call) -> str:
        """The name of the instruction that a call is of."""
        return self.scope.full(call.func).removeprefix(NISA)

    def is_no_tensor(self, parameter: str, node: ast.expr) -> bool:
        """True for a shape, a number, an index and an operator."""
        package, _, name = self.scope.full(node).rpartition(".")
        number = isinstance(node, ast.Constant) and is_number(parameter, node.value)
        plain = isinstance(node, ast.Tuple | ast.List) or number or self.scope.is_index(node)
        return plain or (package in ("numpy", "nki.language") and name != "")

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

    def argument(self, parameter: str, node: ast.expr, bounds: Bounds) -> ast.expr:
        before, self.bounds = self.bounds, bounds
        if parameter == "dtype":
            new = self.dtype(node)
        elif parameter.startswith(("op", "reduce_op", "comp")) and not parameter.startswith("operand"):
            new = self.operator(node)
        else:
            new = self._limited(self.visit(copy.deepcopy(node)), node, columns=parameter not in _COLUMNS)
        self.bounds = before
        return new

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
        return ast.unparse(ast.Call(call.func, [_expression(to), *call.args], keywords))

    def _filled(self, call: ast.Call) -> str:
        given = bound(call, "memset")
        if not {"shape", "value", "dtype"} <= given.keys():
            raise UnknownFormError
        dtype = ast.unparse(self.dtype(given["dtype"]))
        return f"{self.nl}.full({self.text(given['shape'])}, {ast.unparse(given['value'])}, {dtype})"

    # -- expressions ------------------------------------------------------------------------------------------------

    def text(self, node: ast.expr) -> str:
        """The code of an expression of today."""
        return ast.unparse(self.visit(copy.deepcopy(node)))

    def fresh(self, name: str) -> str:
        """A name that the function does not have."""
        found = next(n for n in (name, *(f"{name}_{k}" for k in range(2, 99))) if n not in self.scope.taken)
        self.scope.taken.add(found)
        return found

    def bounded(self, call: ast.Call) -> Bounds:
        """The limits of the mask of a call; conditions without a variable go to an ``if`` around the statement."""
        node = next((k.value for k in call.keywords if k.arg == "mask"), None)
        mask = self.scope.mask(node)
        if mask is None:
            raise UnknownFormError
        bounds = bounds_of(mask)
        if bounds.several:
            raise UnknownFormError
        self.conditions += bounds.conditions
        return bounds

    def masked_by_several(self, call: ast.Call) -> bool:
        """True if the mask of a call compares index tiles with each other, so that no slice expresses it."""
        node = next((k.value for k in call.keywords if k.arg == "mask"), None)
        mask = self.scope.mask(node)
        return mask is not None and bool(bounds_of(mask).several)

    def _limited(self, new: ast.expr, old: ast.expr, *, columns: bool) -> ast.expr:
        """A whole tile, cut to the mask; other operands as they are."""
        memory = self.scope.memory(old)
        whole = isinstance(old, ast.Name) or (isinstance(old, ast.Subscript) and "..." in ast.unparse(old.slice))
        if memory is None or not whole or memory.blocks or not (self.bounds.lower or self.bounds.upper):
            return new
        return subscripts.cut(new.value if isinstance(new, ast.Subscript) else new, self.bounds, columns=columns)

    def operator(self, node: ast.expr) -> ast.expr:
        """An operator of NumPy, which Beta 1 took, as that of ``nl``."""
        package, _, name = self.scope.full(node).rpartition(".")
        name = NUMPY_OPERATORS.get(name, name)
        return ast.Attribute(ast.Name(self.nl), name) if package == "numpy" and name in OPS else node

    def dtype(self, node: ast.expr) -> ast.expr:
        """A dtype of NumPy, or text, as that of ``nl``."""
        package, _, name = self.scope.full(node).rpartition(".")
        if package == "numpy":
            name = dtype_name(getattr(np, name, name))
            return ast.Attribute(ast.Name(self.nl), name) if name else node
        match node:
            case ast.Constant(value=str(text)) if dtype_name(text):
                return ast.Attribute(ast.Name(self.nl), dtype_name(text))
            case ast.Call(args=[inner]) if self.scope.full(node.func) == "numpy.dtype":
                return self.dtype(inner)
            case _:
                return node

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
                return _expression(self._filled(node))
            return _expression(self.result(node, self.fresh("tile")))
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

    def positional(self, node: ast.expr, bounds: Bounds) -> ast.expr:
        """A positional argument: an operator or dtype of NumPy, or a tensor."""
        new = self.operator(node)
        new = self.dtype(node) if new is node else new
        return self.argument("", node, bounds) if new is node else new

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


def _expression(code: str) -> Any:
    return ast.parse(code, mode="eval").body


__all__ = ["Rewriter"]
