"""Random changes of syntax trees: what people mistype, misremember and bring along from Python."""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Callable, Iterator
from typing import Any

CONSTANTS: tuple[Any, ...] = (0, 1, -1, 2, 3, 129, 2**31, 1.5, float("nan"), "a", "", None, True, False, ..., b"x", 2j)
ATTRIBUTES = (
    "shape",
    "dtype",
    "buffer",
    "name",
    "exp",
    "add",
    "load",
    "store",
    "sbuf",
    "psum",
    "hbm",
    "float16",
    "int8",
    "append",
    "pop",
    "items",
    "arange",
    "mgrid",
    "par_dim",
    "tensor_copy",
    "activation",
    "memset",
    "nc_matmul",
    "dma_copy",
    "ap",
    "reshape",
    "rows",
    "parts",
    "mode",
    "strides",
    "no_such_thing",
    "__class__",
    "__dict__",
    "_private",
)
NAMES = ("x", "tile", "out", "i", "nl", "nisa", "nki", "np", "LIMITS", "Tiling", "Options", "len", "range", "undefined")
KEYWORDS = ("dst", "src", "data", "op", "dtype", "mask", "name", "engine", "buffer", "axis", "x", "no_such_keyword")
BINARY = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.MatMult, ast.BitAnd, ast.LShift)
COMPARING = (ast.Eq, ast.NotEq, ast.Lt, ast.GtE, ast.Is, ast.IsNot, ast.In, ast.NotIn)
UNARY = (ast.Not, ast.USub, ast.UAdd, ast.Invert)

# The statement at its mark, inside of something else.
AROUND = (
    "with open('f'):\n    MARK",
    "with nl.no_reorder():\n    MARK",
    "with x as y, nl.no_reorder() as z:\n    MARK",
    "try:\n    MARK\nexcept ValueError:\n    pass",
    "try:\n    MARK\nfinally:\n    pass",
    "while False:\n    MARK",
    "while x:\n    MARK",
    "while nisa.register_alloc(1):\n    MARK\n    break",
    "for i in range(2):\n    MARK",
    "for i in nl.dynamic_range(2):\n    MARK",
    "for i in x:\n    MARK",
    "if x:\n    MARK",
    "if None:\n    MARK\nelse:\n    pass",
    "match x:\n    case 1:\n        MARK\n    case _:\n        pass",
    "def inner(a, *b, c=1, **d):\n    MARK\ninner(1)",
    "async def inner():\n    MARK",
    "class Inner:\n    MARK",
    "@nki.jit\ndef inner():\n    MARK\ninner()",
    "@staticmethod\ndef inner():\n    MARK",
    "lambda: 1\nMARK",
    "def inner(i):\n    MARK\nnl.fori_loop(0, 2, inner)",
    "def inner(r):\n    MARK\n    return r\nnl.while_loop(1, inner)",
)
STATEMENTS = (
    "raise ValueError('x')",
    "del x",
    "global LIMITS",
    "import os",
    "from os import path",
    "yield x",
    "assert False",
    "assert x",
    "assert x.shape == (1,), 'no'",
    "LIMITS['a'] = 1",
    "LIMITS['rows'].append(1)",
    "LIMITS = 1",
    "Tiling.rows = 1",
    "x.name = 'y'",
    "x[0] = 1",
    "x[...] = nisa.tensor_copy(x)",
    "x += nisa.nc_matmul(x, x)",
    "return",
    "t = nisa.activation(nl.exp, x, mask=None)",
    "nl.arange(4)[:, None]",
    "y = {1: 2}",
    "y = {}\ny[1] = 2",
    "y = {1, 2}",
    "(y := 1)",
    "y: int",
    "x, *y = range(3)",
    "print(x)",
    "print(x, file=open('f'))",
    "eval('1')",
    "globals()",
    "np.exp(x)",
    "np.sum(x, axis=0)",
    "np.float32(1) + x",
    "x + 1",
    "-x",
    "x == 1",
    "x in [1]",
    "sorted([x, x])",
    "sum(x)",
    "len(x)[0]",
    "float(x)",
    "nl.ndarray((0,), nl.float32)",
    "nl.ndarray((4, 4), 'float64')",
    "nl.ndarray('a', 'b', 'c')",
    "nl.load(1)",
    "nl.store(x, x)",
    "nisa.memset(x, 'a')",
    "setattr(Tiling, 'rows', 2)",
    "Tiling(row=1)",
    "Mode.no",
    "[] + x",
    "f'{x:>9}'",
    "x.reshape(1, 2, 3)",
    "x[99]",
    "x[0:0]",
    "x[x]",
    "x[1.5]",
    "x[0][0][0][0]",
    "(lambda: y)()",
    "x.ap([[1, 2]], 10**9)",
    "x.ap(1, 2, 3)",
    "x.ap([[16, 8], [1, 16]], 0, vector_offset=x, indirect_dim=0)",
    "x.ap([[16, 8], [1, 16]], scalar_offset=nisa.register_alloc(1), indirect_dim=5)",
    "x.permute((1, 0)).reshape((128,))",
    "x.rearrange(('a', ('b', 'c')), ('c', 'a'), {'b': x})",
    "x.view('int8').select(9, x)",
    "nl.load(x).indirect(nl.load(x))",
    "nl.device_print('x', x)",
    "nl.device_print(x)",
    "nisa.register_alloc('a')",
    "nisa.register_load(1, x)",
    "nl.fori_loop(0, 1, None)",
    "break",
    "continue",
    "nl.program_id(1)",
    "nl.tile_size.pmax += 1",
    "x.shape[0] = 1",
    "for x[0] in range(2): pass",
    "pass",
)
# The expression at its mark, inside of something else.
INSIDE = (
    "[MARK]",
    "(MARK,)",
    "{MARK}",
    "{'a': MARK}",
    "{MARK: 1}",
    "(lambda: MARK)",
    "(lambda: MARK)()",
    "(yield MARK)",
    "(await MARK)",
    "(q := MARK)",
    "f'{MARK}'",
    "MARK[0]",
    "MARK[...]",
    "MARK[:, 1:0]",
    "MARK()",
    "MARK.shape",
    "-MARK",
    "not MARK",
    "MARK + 1",
    "MARK * x",
    "MARK if x else 1",
    "MARK if True else 1",
    "[MARK for q in range(2)]",
    "(MARK)(x=1)",
    "MARK and x",
    "x or MARK",
    "sum(MARK for q in x)",
    "[*MARK]",
    "{**MARK}",
    "np.asarray(MARK)",
    "str(MARK)",
    "int(MARK)",
    "nl.ds(MARK, 1)",
    "slice(MARK)",
    "list(MARK)",
    "MARK[None]",
    "nl.load(MARK)",
    "{q: MARK for q in range(2)}",
    "id(MARK)",
)

Change = Callable[[random.Random, ast.FunctionDef], bool]


def mutated(function: ast.FunctionDef, draw: random.Random) -> ast.FunctionDef:
    """A copy of ``function`` with one to three changes."""
    made = copy.deepcopy(function)
    made.decorator_list, made.args = [], ast.parse("lambda: 0", mode="eval").body.args  # these run with the module
    wanted = draw.choice((1, 1, 1, 2, 3))
    while wanted:
        if draw.choice(CHANGES)(draw, made):
            wanted -= 1
    made.decorator_list, made.args = function.decorator_list, function.args
    return ast.fix_missing_locations(made)


def _bodies(function: ast.AST) -> list[list[ast.stmt]]:
    """All lists of statements below ``function``."""
    fields = (getattr(n, name, None) for n in ast.walk(function) for name in ("body", "orelse", "finalbody"))
    return [body for body in fields if isinstance(body, list) and body and isinstance(body[0], ast.stmt)]


def _places(function: ast.AST, kind: type[ast.AST]) -> list[tuple[ast.AST, str, int]]:
    """Where nodes of ``kind`` that are read stand: parent, field, and the place in it (-1 if it holds no list)."""
    found: list[tuple[ast.AST, str, int]] = []
    for parent in ast.walk(function):
        if isinstance(parent, ast.JoinedStr):
            continue  # its parts are of two kinds only
        for name, value in ast.iter_fields(parent):
            if name in ("args", "returns", "annotation", "decorator_list", "target", "targets") and not isinstance(
                parent, ast.Call
            ):
                continue
            for index, child in enumerate(value) if isinstance(value, list) else [(-1, value)]:
                if isinstance(child, kind) and not isinstance(getattr(child, "ctx", None), ast.Store):
                    found.append((parent, name, index))
    return found


def _get(place: tuple[ast.AST, str, int]) -> Any:
    parent, name, index = place
    value = getattr(parent, name)
    return value if index < 0 else value[index]


def _put(place: tuple[ast.AST, str, int], node: ast.AST) -> None:
    parent, name, index = place
    if index < 0:
        setattr(parent, name, node)
    else:
        getattr(parent, name)[index] = node


def _any(draw: random.Random, function: ast.FunctionDef, kind: type[ast.AST]) -> Any:
    """A node of ``kind`` in the body, or None."""
    found = [node for part in function.body for node in ast.walk(part) if isinstance(node, kind)]
    return draw.choice(found) if found else None


def swap_statements(draw: random.Random, function: ast.FunctionDef) -> bool:
    body = draw.choice(_bodies(function))
    i, j = draw.randrange(len(body)), draw.randrange(len(body))
    body[i], body[j] = body[j], body[i]
    return i != j


def delete_statement(draw: random.Random, function: ast.FunctionDef) -> bool:
    body = draw.choice(_bodies(function))
    body[draw.randrange(len(body))] = ast.Pass()
    return True


def duplicate_statement(draw: random.Random, function: ast.FunctionDef) -> bool:
    body = draw.choice(_bodies(function))
    body.insert(draw.randrange(len(body) + 1), copy.deepcopy(draw.choice(body)))
    return True


def insert_statement(draw: random.Random, function: ast.FunctionDef) -> bool:
    body = draw.choice(_bodies(function))
    at = draw.randrange(len(body) + 1)
    body[at:at] = ast.parse(draw.choice(STATEMENTS)).body
    return True


def wrap_statement(draw: random.Random, function: ast.FunctionDef) -> bool:
    body = draw.choice(_bodies(function))
    at = draw.randrange(len(body))
    around = ast.parse(draw.choice(AROUND))
    for inner in _bodies(around):
        for index, statement in enumerate(inner):
            if (
                isinstance(statement, ast.Expr)
                and isinstance(statement.value, ast.Name)
                and statement.value.id == "MARK"
            ):
                inner[index] = body[at]
    body[at : at + 1] = around.body
    return True


def wrap_expression(draw: random.Random, function: ast.FunctionDef) -> bool:
    places = _places(function, ast.expr)
    if not places:
        return False
    place = draw.choice(places)
    around = ast.parse(draw.choice(INSIDE), mode="eval")
    mark = next(p for p in _places(around, ast.Name) if _get(p).id == "MARK")
    _put(mark, _get(place))
    _put(place, around.body)
    return True


def replace_expression(draw: random.Random, function: ast.FunctionDef) -> bool:
    places = _places(function, ast.expr)
    if places:
        _put(draw.choice(places), copy.deepcopy(_get(draw.choice(places))))
    return bool(places)


def replace_operator(draw: random.Random, function: ast.FunctionDef) -> bool:
    node = _any(draw, function, draw.choice((ast.BinOp, ast.AugAssign, ast.Compare, ast.UnaryOp, ast.BoolOp)))
    match node:
        case ast.BinOp() | ast.AugAssign():
            node.op = draw.choice(BINARY)()
        case ast.Compare():
            node.ops[0] = draw.choice(COMPARING)()
        case ast.UnaryOp():
            node.op = draw.choice(UNARY)()
        case ast.BoolOp():
            node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        case _:
            return False
    return True


def replace_constant(draw: random.Random, function: ast.FunctionDef) -> bool:
    places = [p for p in _places(function, ast.Constant) if not isinstance(p[0], ast.JoinedStr)]
    if places:
        _put(draw.choice(places), ast.Constant(draw.choice(CONSTANTS)))
    return bool(places)


def replace_name(draw: random.Random, function: ast.FunctionDef) -> bool:
    node = _any(draw, function, ast.Name)
    if node is None:
        return False
    used = [n.id for n in ast.walk(function) if isinstance(n, ast.Name)]
    node.id = draw.choice([*used, *NAMES])
    return True


def replace_attribute(draw: random.Random, function: ast.FunctionDef) -> bool:
    node = _any(draw, function, ast.Attribute)
    if node is not None:
        used = [n.attr for n in ast.walk(function) if isinstance(n, ast.Attribute)]
        node.attr = draw.choice([*used, *ATTRIBUTES])
    return node is not None


def change_arguments(draw: random.Random, function: ast.FunctionDef) -> bool:
    call = _any(draw, function, ast.Call)
    if call is None:
        return False
    match draw.randrange(6):
        case 0 if call.args:
            del call.args[draw.randrange(len(call.args))]
        case 1 if call.keywords:
            del call.keywords[draw.randrange(len(call.keywords))]
        case 2 if call.keywords:
            draw.choice(call.keywords).arg = draw.choice(KEYWORDS)
        case 3 if call.keywords:
            call.args.append(call.keywords.pop().value)
        case 4 if len(call.args) > 1:
            draw.shuffle(call.args)
        case _:
            call.keywords.append(ast.keyword(draw.choice(KEYWORDS), ast.Constant(draw.choice(CONSTANTS))))
    return True


CHANGES: tuple[Change, ...] = (
    swap_statements,
    delete_statement,
    duplicate_statement,
    insert_statement,
    insert_statement,
    wrap_statement,
    wrap_expression,
    wrap_expression,
    replace_expression,
    replace_operator,
    replace_constant,
    replace_constant,
    replace_name,
    replace_attribute,
    change_arguments,
    change_arguments,
)


def functions(tree: ast.Module, names: list[str]) -> Iterator[tuple[int, ast.FunctionDef]]:
    """The functions of ``tree`` called ``names``, each with its place."""
    for index, node in enumerate(tree.body):
        if isinstance(node, ast.FunctionDef) and node.name in names:
            yield index, node
