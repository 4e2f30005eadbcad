"""Advice on Python that tensors do not have: operators, assignment into a tensor, methods, ``if``, ``range``."""

from __future__ import annotations

import ast
import copy
from typing import Any, Final

from nki.base.errors import NkiError, RegisterUseError, TensorOperatorError
from nki.base.python_operators import FUNCTION_OF
from nki.frontend.frontend_errors import KernelPythonError, UnknownApiError
from nki.frontend.site import Site, keys_of
from nki.ir.loop import VirtualRegister
from nki.ir.types import Buffer as MemoryRegion
from nki.language.advice.beta1 import advise_at
from nki.language.advice.host_functions import instead_of_host_function, refuses_tensors
from nki.language.advice.tensor_expressions import Translator
from nki.language.nki_tensor import NkiTensor

_LATE: Final = "which has values only when the kernel runs"
_HOST: Final = (
    "return the tensor and read the value from the kernel's result; a loop count or an index on the device is "
    "`nisa.register_alloc(…)` of an integer tile of one element"
)


def advise_python(exc: Exception, site: Site) -> NkiError | None:
    """Python, NumPy or PyTorch on tensors, or a name of Beta 1: the statement with functions of NKI."""
    code = replacement(site) or _folded(site)
    fix = f"write `{code}`" if code is not None else instead_of_host_function(exc, site)
    older = advise_at(site) if _is_of_beta1(exc) else ""
    error = exc if isinstance(exc, NkiError) else _refusal(exc, site)
    if error is None and older:
        error = KernelPythonError(f"{type(exc).__name__}: {exc}")
    if error is None or not (older or fix):
        return None
    error.fix = older or fix
    return error


def _folded(site: Site) -> str | None:
    """``sum([a, b])`` of tiles in a list, which begins with Python's 0."""
    match site.node:
        case ast.Call(func=ast.Name(id="sum"), args=[parts]) if site.value(site.node.func) is sum:
            add = f"{_nl(site)}.add"
            return f"functools.reduce({add}, {ast.unparse(parts)})"
        case _:
            return None


def _is_of_beta1(exc: Exception) -> bool:
    """True for a member that Beta 1 gave to tensors and dtypes, and for several keys of a list of tiles."""
    if isinstance(exc, AttributeError):
        return exc.name in _MEMBERS
    return isinstance(exc, TypeError) and str(exc).startswith("list indices must be integers")


_MEMBERS: Final = frozenset({"broadcast_to", "assert_shape", "itemsize", "as_tile", "astype", "type"})


def advise_assignment(exc: NkiError, site: Site) -> NkiError | None:
    """The error for ``t[…] = bank`` that a DMA would have to copy, and for ``t[3] = u[5]`` that only a DMA copies."""
    match site.statement:
        case ast.Assign(targets=[ast.Subscript() as target], value=value) if exc.rule in ("DM01", "TL03"):
            code = replacement(site) if exc.rule == "DM01" else _moved_by_dma(site, target, value)
        case _:
            return None
    if code is None:
        return None
    exc.fix = f"write `{code}`"
    return exc


def _moved_by_dma(site: Site, target: ast.expr, value: ast.expr) -> str | None:
    """An assignment between partitions at which no engine can start, as a DMA."""
    if any(getattr(site.value(part), "buffer", None) is not MemoryRegion.sbuf for part in (target, value)):
        return None
    return f"{_nisa(site)}.dma_copy(dst={ast.unparse(target)}, src={ast.unparse(value)})"


def _refusal(exc: Exception, site: Site) -> NkiError | None:
    """The error in place of a Python exception, if a tensor is what it is about."""
    match site.node:
        case ast.Call(func=function, args=args):
            tensor = next((v for a in args if isinstance(v := site.value(a), NkiTensor)), None)
            called = ast.unparse(function)
            if tensor is not None:
                return TensorOperatorError(f"{called} on tensor '{tensor.name}' {tensor.shape}, {_LATE}")
            if refuses_tensors(exc, site):
                return TensorOperatorError(f"{called} on a tensor, {_LATE}")
        case _:
            pass
    return _attribute(exc)


def _attribute(exc: Exception) -> NkiError | None:
    if isinstance(exc, AttributeError) and isinstance(exc.obj, NkiTensor):
        return UnknownApiError(f"tensor '{exc.obj.name}' {exc.obj.shape} has no `{exc.name}`")
    return None


def advise_no_tensor(exc: AttributeError, site: Site) -> NkiError | None:
    """``bias.shape`` where ``bias`` is None, text, a number or a list: an attribute of a tensor, and no tensor."""
    if not isinstance(site.node, ast.Attribute):
        return None
    kind: type[Any] = type(exc.obj)
    if not issubclass(kind, _PLAIN) or exc.name is None or not hasattr(NkiTensor, exc.name):
        return None
    name = ast.unparse(site.node.value)
    if exc.obj is None:
        fix = f"pass a tensor for `{name}`, or write `if {name} is not None:` before it is used"
    else:
        fix = f"`{name}` is a {kind.__name__}: pass a tensor, or for a kernel argument an array"
    return KernelPythonError(f"AttributeError: {exc}", fix=fix)


_PLAIN: Final = (type(None), str, int, float, list, tuple, dict)


def advise_pointer(_: Exception, site: Site) -> NkiError | None:
    """``nl.load(x + offset)``: arithmetic on a tensor in HBM where a transfer takes a part of it."""
    node = site.node
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add) or not _is_address(site, node):
        return None
    tensor = site.value(node.left)
    if not isinstance(tensor, NkiTensor) or not tensor.buffer.is_hbm or isinstance(site.value(node.right), NkiTensor):
        return None
    name = ast.unparse(node.left)
    part = ", ".join(["start:start + size", *(":" for _ in tensor.shape[1:])])
    fix = f"a tensor is no pointer: pass the part that is meant, `{name}[{part}]`, or a pattern, `{name}.ap(…)`"
    return TensorOperatorError(f"Python's + on tensor '{tensor.name}' {tensor.shape}", fix=fix)


def _is_address(site: Site, node: ast.expr) -> bool:
    """True if ``node`` is what a load reads, or where a store writes."""
    for call in ast.walk(site.statement):
        match call:
            case ast.Call(func=ast.Attribute(attr="load" | "load_transpose2d" | "store"), args=args, keywords=keywords):
                places = [*args[:1], *(k.value for k in keywords if k.arg in ("src", "dst"))]
                if any(place is node for place in places):
                    return True
            case _:
                pass
    return False


def advise_conversion(_: Exception, site: Site) -> NkiError | None:
    """``float(t)``, ``t.item()`` and the like, which ask for a value."""
    match site.node:
        case ast.Call(func=ast.Name(id="float" | "int" | "complex" | "bool" as called), args=[argument]):
            value = site.value(argument)
        case ast.Attribute(attr="item" | "tolist" | "numpy" as called, value=argument):
            value = site.value(argument)
        case _:
            return None
    if not isinstance(value, NkiTensor):
        return None
    return TensorOperatorError(f"`{called}` of tensor '{value.name}' {value.shape}, {_LATE}", fix=_HOST)


def advise_attribute(_: Exception, site: Site) -> NkiError | None:
    """``t.shape = …``: a tensor's attributes are facts about it."""
    match site.statement:
        case ast.Assign(targets=[ast.Attribute(value=owner, attr=name)], value=wanted):
            tensor = site.value(owner)
            if not isinstance(tensor, NkiTensor):
                return None
            text = ast.unparse(owner)
            fix = (
                f"write `{text} = {text}.reshape({ast.unparse(wanted)})`, another view of the same memory"
                if name == "shape"
                else f"keep the value in a variable of its own: `{text}_{name} = {ast.unparse(wanted)}`"
            )
            return TensorOperatorError(f"`{name}` of tensor '{tensor.name}' {tensor.shape} cannot be assigned", fix=fix)
        case _:
            return None


def advise_control_flow(_: Exception, site: Site) -> NkiError | None:
    """``range(tile)`` and ``if tile > 0``, which the device would have to decide."""
    match site.statement:
        case ast.For(target=ast.Name() as index, iter=ast.Call(func=ast.Name(id="range"), args=[stop])) as loop:
            count = site.value(stop)
            if not isinstance(count, NkiTensor | VirtualRegister) or loop.orelse:
                return None
            register = isinstance(count, VirtualRegister)
            what = f"register '{count.name}'" if register else f"tensor '{count.name}' {count.shape}"
            bound = (
                ast.unparse(stop) if register else f"{_nisa(site)}.register_alloc({_whole_number(site, stop, count)})"
            )
            kind = RegisterUseError if register else TensorOperatorError
            code = _function(loop.body, "body", index.id, f"{_nl(site)}.fori_loop(0, {bound}, body)")
            late = "which has a value only when the kernel runs" if register else _LATE
            return kind(f"range of {what}, {late}", fix=f"count on the device: {code}")
        case ast.Assert(test=test) if _inside(site.node, test) and Translator(site).is_tensor(test):
            fix = (
                "assert what is known at compile time, such as shapes; return the tensor and compare it outside the "
                "kernel, or print it in the simulator, `nki.simulate(kernel)(…)`"
            )
            return TensorOperatorError(f"`assert` on a tensor, {_LATE}", fix=fix)
        case ast.While(test=test, orelse=[]) if _inside(site.node, test):
            return _while_on_tile(site, test)
        case ast.If(test=test, body=body, orelse=[]) if _inside(site.node, test):
            translator = Translator(site)
            test, known = _late_part(translator, test)
            code = _condition(translator, test)
            if code is None:
                return None
            if known:
                return _branch_on_tile(None, code, f", inside `if {known}:`")
            value = site.value(test.left) if isinstance(test, ast.Compare) else None
            if not isinstance(value, NkiTensor) or value.size != 1:
                return _branch_on_tile(value, code)
            flag = _as_numbers(translator, code, "int32")
            run = f"{_nl(site)}.fori_loop(0, {_nisa(site)}.register_alloc({flag}), then)"
            fix = f"run the branch 0 or 1 times on the device: {_function(body, 'then', '_', run)}"
            return TensorOperatorError(f"`if` on tensor '{value.name}' {value.shape}, {_LATE}", fix=fix)
        case _:
            return None


def _whole_number(site: Site, node: ast.expr, count: NkiTensor | VirtualRegister) -> str:
    """A tensor as a register takes it: of floats it would hold the bits."""
    text = ast.unparse(node)
    if not isinstance(count, NkiTensor) or not count.dtype.is_float:
        return text
    loaded = f"{_nl(site)}.load({text})" if count.buffer.is_hbm else text
    return f"{_nl(site)}.copy({loaded}, dtype={_nl(site)}.int32)"


def _while_on_tile(site: Site, test: ast.expr) -> NkiError | None:
    translator = Translator(site)
    code = _condition(translator, test)
    if code is None:
        return None
    flag, nisa = _as_numbers(translator, code, "int32"), _nisa(site)
    fix = (
        f"repeat on the device: put the block into `def body(again):`, with results written into tensors that were "
        f"made before the loop, end it with `{nisa}.register_load(again, {flag})` and `return again`, and call "
        f"`{_nl(site)}.while_loop({nisa}.register_alloc({flag}), body)`"
    )
    return TensorOperatorError(f"`while` on a tensor, {_LATE}", fix=fix)


def _late_part(translator: Translator, test: ast.expr) -> tuple[ast.expr, str]:
    """The part of a condition that asks tensors, and the code of the rest, which Python decides; "" if none is."""
    if not isinstance(test, ast.BoolOp) or not isinstance(test.op, ast.And):
        return test, ""
    late = [value for value in test.values if translator.is_tensor(value)]
    known = [value for value in test.values if not translator.is_tensor(value)]
    if not late or not known:
        return test, ""
    whole = late[0] if len(late) == 1 else ast.BoolOp(ast.And(), late)
    return whole, " and ".join(map(ast.unparse, known))


def _branch_on_tile(value: Any, condition: ast.expr, inside: str = "") -> NkiError:
    what = f"tensor '{value.name}' {value.shape}" if isinstance(value, NkiTensor) else "a tensor"
    fix = f"compute both results and choose element by element: `nl.where({ast.unparse(condition)}, x, y)`{inside}"
    return TensorOperatorError(f"`if` on {what}, {_LATE}", fix=fix)


def _condition(translator: Translator, test: ast.expr) -> ast.Call | None:
    """The call that computes a condition on tensors; None if the condition asks no tensor."""
    code = translator.translate(test)
    return code if translator.changed and isinstance(code, ast.Call) else None


def _as_numbers(translator: Translator, code: ast.Call, dtype: str) -> str:
    """A condition as numbers 0 and 1 of a dtype."""
    name = code.func.attr if isinstance(code.func, ast.Attribute) else ast.unparse(code.func)
    return ast.unparse(translator.call(name, code.args, dtype=translator.dtype(dtype)))


def _inside(node: ast.AST, around: ast.AST) -> bool:
    return any(part is node for part in ast.walk(around))


def _function(body: list[ast.stmt], name: str, parameter: str, call: str) -> str:
    """Code that puts ``body`` into a function and passes it to a loop of the device."""
    assigned = [n.id for s in body for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    if (
        len(body) > 12
        or assigned
        or any(isinstance(n, ast.Return | ast.Break | ast.Continue) for s in body for n in ast.walk(s))
    ):
        return f"put the block into `def {name}({parameter}):` and call `{call}`"
    lines = "\n".join(ast.unparse(s) for s in body).split("\n")
    text = "\n".join([f"def {name}({parameter}):", *(f"    {line}" for line in lines), call])
    return "write `\n" + "\n".join(f"        {line}" for line in text.split("\n")) + "`"


def _nl(site: Site) -> str:
    return site.module("nki.language", "nl")


def _nisa(site: Site) -> str:
    return site.module("nki.isa", "nisa")


def replacement(site: Site) -> str | None:
    """The statement of the site with calls in place of Python on tensors; of a block only the expression."""
    translator = Translator(site)
    statement = site.statement
    match statement:
        case ast.Assign(targets=[ast.Subscript() as target], value=value) if translator.is_tensor(target):
            return _write(translator, target, value)
        case ast.AugAssign(target=target, op=op, value=value) if translator.is_tensor(target):
            return _update(translator, target, op, value)
        case ast.Assign() | ast.AnnAssign() | ast.AugAssign() | ast.Expr() | ast.Return() if (
            statement.value is not None
        ):
            changed = copy.copy(statement)
            changed.value = translator.translate(statement.value)  # type: ignore[assignment]
            text = ast.unparse(changed)
        case _ if isinstance(site.node, ast.expr):
            text = ast.unparse(translator.translate(site.node))
        case _:
            return None
    if not translator.changed and isinstance(site.node, ast.expr):
        text = ast.unparse(translator.translate(site.node))
    return text if translator.changed else None


def _write(translator: Translator, target: ast.expr, value: ast.expr) -> str:
    """``t[…] = value`` as the instruction that writes there."""
    target = _whole(target)
    to, source = ast.unparse(target), ast.unparse(translator.translate(value))
    destination, kind = translator.kind(target), translator.kind(value)
    nisa, nl = translator.nisa, translator.nl
    mask = _chosen(translator, target) if "hbm" not in destination else None
    if mask is not None and isinstance(target, ast.Subscript):
        return f"{nisa}.tensor_copy_predicated(dst={ast.unparse(target.value)}, src={source}, predicate={mask})"
    if not kind:  # a number
        if "hbm" in destination:
            filled = f"{nl}.full({to}.shape, {source}, {to}.dtype)"
            return f"{nisa}.dma_copy(dst={to}, src={filled})"
        return f"{nisa}.memset(dst={to}, value={source})"
    match value:
        case ast.Call(func=ast.Attribute(attr="load"), args=[loaded], keywords=[]) if "hbm" not in destination:
            return f"{nisa}.dma_copy(dst={to}, src={ast.unparse(loaded)})"
        case _:
            pass
    if "hbm" in destination or "hbm" in kind:
        staged = f"{nl}.copy({source})" if kind == "psum" else source
        return f"{nisa}.dma_copy(dst={to}, src={staged})"
    return f"{nisa}.tensor_copy(dst={to}, src={source})"


def _chosen(translator: Translator, target: ast.expr) -> str | None:
    """The predicate of ``t[u > 0] = value``."""
    if not isinstance(target, ast.Subscript) or not isinstance(target.slice, ast.Compare):
        return None
    code = _condition(translator, target.slice)
    return _as_numbers(translator, code, "uint8") if code is not None else None


def _whole(target: ast.expr) -> ast.expr:
    """``t`` for ``t[...]`` and ``t[:, :]``."""
    if not isinstance(target, ast.Subscript):
        return target
    full = all(
        (isinstance(key, ast.Constant) and key.value is ...)
        or (isinstance(key, ast.Slice) and key.lower is key.upper is key.step is None)
        for key in keys_of(target)
    )
    return target.value if full else target


def _update(translator: Translator, target: ast.expr, op: ast.operator, value: ast.expr) -> str | None:
    """``t += value`` as the instruction that updates ``t`` where it lies."""
    nisa, nl, to = translator.nisa, translator.nl, ast.unparse(target)
    accumulated = _matmul_operands(value)
    if isinstance(op, ast.Add) and accumulated and translator.kind(target) == "psum":
        stationary, moving, turned = accumulated
        stationary = stationary if turned else f"{nl}.copy({nl}.transpose({stationary}))"
        return f"{nisa}.nc_matmul(dst={to}, stationary={stationary}, moving={moving})"
    name = FUNCTION_OF.get(type(op))
    whole, change = translator.site.value(target), translator.site.value(value)
    operand = ast.unparse(translator.loaded(value))
    in_hbm = "hbm" in translator.kind(target)
    if name is None or in_hbm:
        loaded = ast.Assign([target], ast.BinOp(target, op, value))
        return _write(translator, target, loaded.value) if in_hbm or name is None else None
    column = isinstance(whole, NkiTensor) and isinstance(change, NkiTensor) and change.shape != whole.shape
    if column and change.shape == (whole.shape[0], 1):
        operand = operand if change.dtype.name == "float32" else f"{nl}.copy({operand}, dtype={nl}.float32)"
    elif translator.is_tensor(value):
        if column and change.ndim == whole.ndim:
            operand = f"{nl}.broadcast_to({operand}, {whole.shape})"
        if translator.kind(target) == translator.kind(value) == "psum":
            operand = f"{nl}.copy({operand})"
        return f"{nisa}.tensor_tensor(dst={to}, data1={to}, data2={operand}, op={nl}.{name})"
    return f"{nisa}.tensor_scalar(dst={to}, data={to}, op0={nl}.{name}, operand0={operand})"


def _matmul_operands(value: ast.expr) -> tuple[str, str, bool] | None:
    """The operands of ``nl.matmul(x, y, transpose_x=…)``, and whether the first one is transposed already."""
    match value:
        case ast.Call(func=ast.Attribute(attr="matmul"), args=args, keywords=keywords):
            given = dict(zip(("x", "y", "transpose_x"), args, strict=False)) | {str(k.arg): k.value for k in keywords}
            flag = given.get("transpose_x", ast.Constant(False))
            if not given.keys() >= {"x", "y"} or not isinstance(flag, ast.Constant):
                return None
            return ast.unparse(given["x"]), ast.unparse(given["y"]), flag.value is True
        case _:
            return None


__all__ = [
    "advise_assignment",
    "advise_attribute",
    "advise_control_flow",
    "advise_conversion",
    "advise_no_tensor",
    "advise_pointer",
    "advise_python",
    "replacement",
]
