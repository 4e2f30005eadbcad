"""The rule book is complete, and each error says exactly what it should.

NKI_TEST_REWRITE=1 writes the present reports into the cases, for their author to read.
"""

import ast
import dataclasses
import os
import re
import types
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import nki
from nki.base.errors import NkiError
from nki.base.warning import NkiDeprecationWarning, NkiWarning
from nki.frontend import frontend_errors
from nki.frontend.capture import capture
from nki.frontend.diagnostics import explain
from nki.frontend.dialect import default_dialect
from nki.frontend.inlining import compile_function
from nki.frontend.name_checks import spelling
from nki.frontend.syntax_rules import RULES, check

pytestmark = pytest.mark.usefixtures("nki_0_6")

Load = Callable[[str], types.ModuleType]
CASES = sorted((Path(__file__).parent / "cases").glob("*.txt"))

# Classes that `ast` keeps for programs written for older Pythons, and the bases of the real ones.
NOT_NODES = {
    "AST", "AugLoad", "AugStore", "Bytes", "Ellipsis", "ExtSlice", "Index", "NameConstant", "Num", "Param", "Str",
    "Suite", "boolop", "cmpop", "excepthandler", "expr", "expr_context", "mod", "operator", "pattern", "slice", "stmt",
    "type_ignore", "type_param", "unaryop",
}  # fmt: skip


def test_every_node_class_has_a_row() -> None:
    nodes = {
        value
        for name, value in vars(ast).items()
        if isinstance(value, type) and issubclass(value, ast.AST) and name not in NOT_NODES
        and not name.startswith("_")
    }  # fmt: skip
    assert len(nodes) > 90
    assert {node.__name__ for node in nodes} == {node.__name__ for node in RULES}


def message_of(load: Load, text: str) -> str:
    """The report on the function `kernel` of ``text``: it is refused, or fails when it is called without arguments."""
    module = load(text)
    try:
        compile_function(check(capture(module.kernel)))()
    except Exception as exc:
        return shown(explain(exc), Path(str(module.__file__)))
    pytest.fail("the kernel was accepted and ran")


def shown(error: NkiError, file: Path) -> str:
    text = re.sub(r"\n  \(open-nki .*\)$", "", str(error))
    return text.replace(str(file), "kernel.py")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_the_report_is_exactly(case: Path, load: Load) -> None:
    text, _, expected = case.read_text(encoding="utf-8").partition("-----\n")
    found = message_of(load, text)
    if os.environ.get("NKI_TEST_REWRITE"):
        case.write_text(f"{text}-----\n{found}\n", encoding="utf-8")
        return
    assert found == expected.rstrip("\n"), (
        "if it is right: NKI_TEST_REWRITE=1 pytest tests/frontend/test_syntax_rules.py, then `make docs`"
    )


def test_accepted_python(load: Load) -> None:
    module = load('''
        import math
        from dataclasses import dataclass

        @dataclass
        class Config:
            rows: int
            tag: str = ""

        def helper(x, *rest, scale=2, **named):
            """Helpers may take anything."""
            return x * scale + sum(rest) + len(named)

        def kernel(a, b=3):
            """A docstring."""
            config = Config(4)
            total: int = 0
            for i, (p, q) in enumerate(zip([1, 2], (3, 4))):
                if 0 < i <= 2 and not q == 5:
                    total += p
                elif i is None:
                    continue
                else:
                    total -= q if q else 1
            else:
                total += 1
            while total < 10:
                total += 1
                if total == 7:
                    break
            values = {"a": 1, **{"b": 2}}
            first, *others = [v * 2 for v in values.values() if v]
            double = lambda x, y=2: x * y
            def inner(x):
                return helper(x, *others, scale=double(1), more=1)
            assert total == 7, f"{total=} {a:>3} {config.rows!r}"
            pass
            t = nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_copy(t[0:2, ..., None], t[::-1])
            nisa.tensor_copy(*[t, t], **{"name": "x"})
            print(any(x for x in others), {k: v for k, v in values.items()})
            return math.prod([inner(2), ~3, -1 ** 2, 5 @ a if False else 1]), total
    ''')
    check(capture(module.kernel))
    check(capture(module.helper), kernel=False)


def test_is_warns_except_with_none(load: Load) -> None:
    module = load("""
        def kernel(a, flag):
            if a is None or flag is not True:
                return a
    """)
    with pytest.warns(NkiWarning, match="write `!=`") as caught:
        check(capture(module.kernel))
    assert [(w.filename, w.lineno) for w in caught] == [(module.__file__, 3)]


def test_unknown_names_in_branches_are_warnings_until_they_run(load: Load) -> None:
    module = load("""
        def kernel(flag=False):
            size = 1
            if flag:
                size = sise
            return size
    """)
    with pytest.warns(NkiWarning, match="name `sise` is not defined.*did you mean `size`") as caught:
        check(capture(module.kernel))
    assert [w.lineno for w in caught] == [5]
    function = compile_function(capture(module.kernel))
    assert function() == 1
    with pytest.raises(NameError) as reached:
        function(True)
    error = explain(reached.value)
    assert isinstance(error, frontend_errors.UnknownNameError)
    assert error.fix == "did you mean `size`?"  # built-ins only where no name of the kernel is near


def test_keyword_only_parameters_are_deprecated(load: Load) -> None:
    module = load("def kernel(a, *, flag=True): return a")
    with pytest.warns(NkiDeprecationWarning, match="keyword-only"):
        check(capture(module.kernel))


def test_names_are_found_in_every_scope(load: Load) -> None:
    module = load("""
        def outer(free):
            def kernel(a):
                def recursive(n):
                    return recursive(n - 1) + free + later
                later = 1
                return [x + y for x in range(a) for y in range(x)], recursive, (lambda q: q + a), __name__, kernel
            return kernel
    """)
    check(capture(module.outer(1)))


def test_beta1_package_is_refused(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    module = load("""
        def kernel(a):
            return old.language.add(a, a)
    """)
    monkeypatch.setattr(module, "old", types.ModuleType("neuronxcc.driver"), raising=False)
    with pytest.raises(frontend_errors.RemovedApiError, match="`old` comes from `neuronxcc`") as caught:
        check(capture(module.kernel))
    assert "import nki.language as nl" in caught.value.fix


def test_all_errors_of_a_kernel_come_at_once_and_in_order(load: Load) -> None:
    module = load("""
        def kernel(a):
            x = {1: 2}
            with a:
                pass
            return missing(x)
    """)
    with pytest.raises(frontend_errors.KernelErrors) as caught:
        check(capture(module.kernel))
    assert [type(e).__name__ for e in caught.value.errors] == ["DictKeyError", "WithError", "UnknownNameError"]
    assert [e.span.line for e in caught.value.errors if e.span] == [3, 4, 6]


def test_syntax_of_a_newer_python_is_refused(load: Load) -> None:
    class Newer(ast.stmt):
        pass

    captured = capture(load("def kernel(a):\n    return a\n").kernel)
    body = [Newer(lineno=2, col_offset=4, end_lineno=2, end_col_offset=10)]
    assert isinstance(captured.node, ast.FunctionDef)
    node = ast.FunctionDef(captured.node.name, captured.node.args, body, [], None, None, lineno=1, col_offset=0)
    with pytest.raises(frontend_errors.SyntaxNotInNkiError) as caught:
        check(dataclasses.replace(captured, node=node))
    assert caught.value.span is not None
    assert (caught.value.span.line, caught.value.span.column, caught.value.span.end_column) == (2, 4, 10)


IMPURE = """
import math
import collections
import numpy as np
import beside
import nki.language as nl

sizes = [1, 2]
by_name = {"a": 1}
weights = np.zeros(3)
buffered = bytearray(2)
counted = collections.Counter()
TABLE = [1, 2]
_TABLE2 = {"a": 1}
pair = (1, 2)
level = 1
MODE = "fast"
hook = None

def set_level(value):
    global level, MODE, hook
    level = value

def helper(x):
    return x

def make():
    inner, Inner, rows, COLUMNS = [1], 2, {3}, [4]
    def kernel(x):
        return LINE
    return kernel

kernel = make()
"""


@pytest.mark.parametrize(
    ("line", "about"),
    [
        ("sizes[0]", "`sizes`, a value of type list"),
        ("(sizes, sizes[1])", "`sizes`, a value of type list"),
        ("by_name['a']", "`by_name`, a value of type dict"),
        ("weights.shape", "`weights`, a value of type ndarray"),
        ("buffered", "`buffered`, a value of type bytearray"),
        ("counted", "`counted`, a value of type Counter"),
        ("level", "`level`, a variable that functions of its file assign to"),
        ("MODE", "`MODE`, a variable that functions of its file assign to"),
        ("inner", "`inner`, a value of type list"),
        ("rows", "`rows`, a value of type set"),
        ("beside.table", "`beside.table`, a value of type list"),
        ("TABLE, _TABLE2, pair, Inner, COLUMNS, beside.TABLE, helper, nl.add, math.pi, collections, set_level", ""),
        ("[sizes for sizes in x], (lambda level: level)(x)", ""),
    ],
)
def test_a_value_from_outside_that_can_change(line: str, about: str, load: Load) -> None:
    beside = types.ModuleType("beside")
    vars(beside).update(table=[1], TABLE=[1], __file__="beside.py")
    module = load(IMPURE.replace("import beside\n", "").replace("LINE", line))
    vars(module)["beside"] = beside
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check(capture(module.kernel))
    expected = [about] if about else []
    assert len(caught) == len(expected), [str(w.message) for w in caught]
    for warned in caught:
        assert str(warned.message).startswith(f"`kernel` reads {about}")
        assert "compiled with the present value: pass it as an argument" in str(warned.message)
        assert (
            warned.category is NkiWarning and warned.lineno == 1 + IMPURE.splitlines().index("        return LINE") - 1
        )


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("pstart", "did you mean `p_start`?"),
        ("ragne", "did you mean `range`?"),
        ("pirnt", "did you mean `print`?"),
        ("starts", "define it, or take it as an argument"),
    ],
)
def test_built_ins_are_offered_where_no_own_name_is_near(name, fix):
    dialect = default_dialect()
    around = {"p_start": 0} if name == "pstart" else {}
    assert spelling(dialect, name, around, ()) == fix


def compares_with_a_list(x, written=True):
    if written:
        assert x.shape == [2, 3]
    shape = list(x.shape)
    assert shape == x.shape
    return x


@pytest.mark.parametrize(
    ("written", "fix"), [(True, "write `x.shape == (2, 3)`"), (False, "write `tuple(shape) == x.shape`")]
)
def test_an_assertion_that_compares_a_shape_with_a_list_says_so(written, fix):
    with pytest.raises(NkiError) as caught:
        nki.jit(compares_with_a_list).compile(np.ones((2, 3), np.float32), written=written)
    assert "shapes are tuples" in caught.value.fix and fix in caught.value.fix
