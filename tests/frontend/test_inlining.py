"""Rewritten functions mean what Python says, and everything of the user's that they reach is rewritten too."""

import functools
import gc
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from nki.base.errors import NkiError
from nki.base.source import Span
from nki.frontend.capture import capture
from nki.frontend.captured_state import watching
from nki.frontend.code_objects import origin
from nki.frontend.diagnostics import explain, locate
from nki.frontend.dialect import default_dialect
from nki.frontend.frontend_errors import (
    GeneratorError,
    KernelPythonError,
    NoSourceError,
    UnknownApiError,
    UnknownNameError,
)
from nki.frontend.inlining import Inliner, compile_function, inliner, invoke
from nki.frontend.syntax_rules import check
from tests.frontend import programs

prepare = inliner(default_dialect()).prepare
Load = Callable[[str], types.ModuleType]


@pytest.mark.parametrize("name", programs.PROGRAMS)
def test_rewriting_keeps_the_meaning(name: str) -> None:
    function = vars(programs)[name]
    expected = function()
    assert compile_function(capture(function))() == expected
    assert expected is not None


def frames() -> list[str]:
    """The functions that are running and have been rewritten, innermost first."""
    found: list[str] = []
    frame = sys._getframe(1)
    while frame is not None:
        if (mark := origin(frame.f_code)) is not None:
            found.append(mark.function)
        frame = frame.f_back
    return found


@pytest.fixture
def trace(api: dict[str, types.ModuleType]) -> types.ModuleType:
    """A module ``nki.trace`` with ``mark()``, which notes the rewritten functions that are running."""
    module = types.ModuleType("nki.trace")
    module.frames = frames  # type: ignore[attr-defined]
    module.seen = []  # type: ignore[attr-defined]
    exec("def mark(): seen.append(frames()); return len(seen)", vars(module))
    return module


def run(module: types.ModuleType, trace: types.ModuleType, *args: Any) -> list[list[str]]:
    vars(module)["trace"] = trace
    compile_function(capture(module.kernel))(*args)
    return trace.seen


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def f(): trace.mark()\ndef kernel(): f()", ["f", "kernel"]),
        ("class C:\n    def m(self): trace.mark()\ndef kernel(): C().m()", ["C.m", "kernel"]),
        ("class C:\n    @staticmethod\n    def m(): trace.mark()\ndef kernel(): C.m()", ["C.m", "kernel"]),
        ("class C:\n    @classmethod\n    def m(cls): trace.mark()\ndef kernel(): C.m()", ["C.m", "kernel"]),
        ("class C:\n    def __call__(self): trace.mark()\ndef kernel(): C()()", ["C.__call__", "kernel"]),
        (
            "class A:\n    def m(self): trace.mark()\nclass B(A):\n    def m(self): super().m()\ndef kernel(): B().m()",
            ["A.m", "B.m", "kernel"],
        ),
        ("import functools\ndef f(n): trace.mark()\ng = functools.partial(f, 1)\ndef kernel(): g()", ["f", "kernel"]),
        ("def f(x): return trace.mark()\ndef kernel(): max([1], key=f)", ["f", "kernel"]),
        ("def f(x): return trace.mark()\ndef kernel(): [1].sort(key=f)", ["f", "kernel"]),
        ("def f(x): return trace.mark()\ndef kernel(): list(map(f, [1]))", ["f", "kernel"]),
        ("import functools\ndef f(x, y): trace.mark()\ndef kernel(): functools.reduce(f, [1, 2])", ["f", "kernel"]),
        (
            "def kernel():\n    def inner(): trace.mark()\n    inner()",
            ["kernel.<locals>.inner", "kernel"],
        ),
        ("def kernel(): return (lambda: trace.mark())()", ["kernel.<locals>.<lambda>", "kernel"]),
        ("f = lambda: trace.mark()\ndef kernel(): return f()", ["<lambda>", "kernel"]),
        (
            "def deco(f):\n    def wrapper(*args): return f(*args)\n    return wrapper\n@deco\ndef f(x): trace.mark()\n"
            "def kernel(): f(1)",
            ["f", "deco.<locals>.wrapper", "kernel"],
        ),
    ],
)
def test_what_a_kernel_reaches_is_rewritten(
    load: Load, trace: types.ModuleType, text: str, expected: list[str]
) -> None:
    assert run(load(text + "\n"), trace) == [expected]


def test_a_bound_method_of_an_extension_keeps_its_object(load: Load, trace: types.ModuleType) -> None:
    module = load("def kernel(size): return size()\n")
    assert compile_function(capture(module.kernel))(types.MethodType(len, [1, 2])) == 2


def test_jit_objects_inside_a_kernel_run_their_function(load: Load, trace: types.ModuleType) -> None:
    exec(
        "import functools\n"
        "class jit:\n"
        "    def __init__(self, func): self.func = func; functools.update_wrapper(self, func)\n"
        "    def __call__(self, *args): raise AssertionError('launched')\n",
        vars(trace),
    )
    module = load("def kernel(jitted):\n    jitted()\n    @trace.jit\n    def inner(): trace.mark()\n    inner()\n")
    vars(module)["trace"] = trace
    other = load("def f(): trace.mark()\n")
    vars(other)["trace"] = trace
    assert run(module, trace, trace.jit(other.f)) == [["f", "kernel"], ["kernel.<locals>.inner", "kernel"]]


def test_the_users_module_gets_no_names_of_ours(load: Load) -> None:
    module = load("def f(): return 1\ndef kernel(): return f()\n")
    before = set(vars(module))
    function = compile_function(capture(module.kernel))
    assert function() == 1
    assert set(vars(module)) == before
    assert function.__globals__ is vars(module)


def test_globals_closures_and_defaults_are_live(load: Load) -> None:
    module = load("""
        SIZE = 1
        def outer():
            free = 10
            def kernel(x=[]):
                x.append(SIZE + free)
                return x
            def change(n):
                nonlocal free
                free = n
            return kernel, change
    """)
    kernel, change = module.outer()
    function = compile_function(capture(kernel))
    assert function() == [11]
    module.SIZE = 2
    change(20)
    assert function() == [11, 22]
    assert kernel() == [11, 22, 22]


def test_closures_share_their_code_and_keep_their_cells(load: Load) -> None:
    module = load("""
        def make(f):
            def call(x): return f(x)
            return call
        def double(x): return helper(x) * 2
        def helper(x): return x
        first, second = make(abs), make(double)
        def kernel(): return first(-3), second(-3)
    """)
    assert compile_function(capture(module.kernel))() == (3, -6)
    assert prepare(module.first).__code__ is prepare(module.second).__code__


def test_prepared_code_goes_with_the_function(load: Load) -> None:
    module = load("def make():\n    def f(): return f\n    return f\n")
    function = module.make()
    watched = weakref.ref(prepare(function).__code__)
    code = weakref.ref(function.__code__)
    del function
    gc.collect()
    assert code() is not None, "the code lives as long as `make`, whose constant it is"
    module.make.__code__ = (lambda: None).__code__
    gc.collect()
    assert code() is None
    assert watched() is None


def test_while_a_kernel_is_recorded_its_functions_are_rewritten_once(load: Load) -> None:
    module = load("""
        def f(x=1, *, y=2): return x, y
        def other(x=1, *, y=2): return y, x
        def make(n):
            def call(): return n
            return call
        class Counter:
            n = 0
            def count(self): self.n += 1
            def inherited(self): return invoked()
        def invoked(): return 7
    """)
    f, counter = module.f, module.Counter()
    with watching():
        rewritten = prepare(f)
        assert prepare(f) is rewritten is not f
        assert Inliner(default_dialect()).prepare(f) is not rewritten
        assert prepare(functools.wraps) is functools.wraps
        f.__defaults__ = (10,)
        assert prepare(f)() == (10, 2)
        f.__kwdefaults__ = {"y": 20}
        assert prepare(f)() == (10, 20)
        f.__code__ = module.other.__code__
        assert prepare(f)() == (20, 10)
        one, two = module.make(1), module.make(2)
        assert [prepare(each)() for each in (one, two, one)] == [1, 2, 1]
        for _ in range(3):
            invoke(counter.count)
        assert counter.n == 3
        assert invoke(counter.inherited) == 7


def test_kernels_in_other_kernels_note_the_functions_of_both(load: Load) -> None:
    function = load("def f(): return 1\n").f
    with watching() as outer:
        prepare(function)
        with watching() as inner:
            prepare(function)
        prepare(function)
    assert inner.codes == outer.codes == [function.__code__]


def test_rewritten_functions_go_when_the_kernel_is_recorded(load: Load) -> None:
    module = load("def make():\n    def f(): return f\n    return f\n")
    function = module.make()
    with watching():
        watched = weakref.ref(prepare(function))
        gc.collect()
        assert watched() is not None
    gc.collect()
    assert watched() is None


def test_rewritten_and_host_functions_are_left_alone(load: Load) -> None:
    module = load("def kernel(): return 1\n")
    function = compile_function(capture(module.kernel))
    assert prepare(function) is function
    assert prepare(functools.wraps) is functools.wraps
    assert invoke(len, [1]) == 1
    assert invoke(dict, key=1) == {"key": 1}
    with pytest.raises(TypeError, match="not callable"):
        invoke(3)


@pytest.mark.usefixtures("nki_0_6")
def test_a_generator_that_is_reached_is_refused_where_it_yields(load: Load) -> None:
    module = load("""
        def rows(n):
            for i in range(n):
                yield i

        def kernel():
            return list(rows(3))
    """)
    error = failure(module)
    assert isinstance(error, GeneratorError)
    assert error.span is not None
    assert (error.span.line, [s.line for s in error.stack]) == (4, [7])


@pytest.mark.usefixtures("nki_0_6")
def test_a_function_without_source_is_refused_where_it_is_called(load: Load) -> None:
    module = load("def kernel():\n    return made(3)\n")
    exec("def made(x): return x", vars(module))
    error = failure(module)
    assert isinstance(error, NoSourceError)
    assert error.span is not None
    assert (error.span.line, error.span.column, error.span.end_column) == (2, 11, 18)


def failure(module: types.ModuleType) -> NkiError:
    with pytest.raises(Exception) as caught:
        compile_function(capture(module.kernel))()
    return explain(caught.value)


def test_the_cause_keeps_only_frames_of_the_user(load: Load) -> None:
    module = load("def f(x): return x / 0\ndef kernel(): return f(1)\n")
    error = failure(module)
    assert isinstance(error, KernelPythonError)
    assert isinstance(error.__cause__, ZeroDivisionError)
    names: list[str] = []
    tb = error.__cause__.__traceback__
    while tb is not None:
        names.append(tb.tb_frame.f_code.co_qualname)
        tb = tb.tb_next
    assert names == ["kernel", "f"]


def test_endless_recursion_is_an_error_of_the_kernel(load: Load) -> None:
    error = failure(load("def kernel(): return kernel()\n"))
    assert isinstance(error, KernelPythonError)
    assert "RecursionError" in error.message
    assert len(str(error).splitlines()) < 40


def test_outside_of_kernels_there_is_no_place() -> None:
    assert explain(NkiError("nowhere")).span is None
    assert locate(ValueError("never raised")) == (None, ())


def test_an_error_that_has_a_place_keeps_it_and_gets_the_calls(load: Load) -> None:
    module = load("import math\ndef f(fail): fail()\ndef kernel(): f(fail)\n")
    place = Span("elsewhere.py", 7)

    class Fail:
        def __call__(self) -> None:
            raise NkiError("placed", span=place)

    vars(module)["fail"] = functools.cache(Fail())
    error = failure(module)
    assert error.span is place
    assert [s.line for s in error.stack][:2] == [3, 2]
    assert error.stack[2].function.endswith("Fail.__call__")  # which Python has called itself


def test_place_names_line_columns_and_calls(load: Load) -> None:
    module = load("def f(x):\n    return int('x'), 1\ndef kernel():\n    ä = 1; return f(2)\n")
    error = failure(module)
    file = str(module.__file__)
    assert error.span == Span(file, 2, 11, 19, "f")
    assert error.stack == (Span(file, 4, 18, 22, "kernel"),)


def test_a_failed_assertion_shows_the_values_of_its_names(load: Load) -> None:
    module = load("""
        LIMIT = 128
        class Tile:
            shape = (129, 4)
            dtype = "float32"
            parts = [1]
        def kernel():
            tile, other = Tile(), Tile()
            assert (tile.shape[0] <= LIMIT
                    and tile.parts == other.parts), ""
    """)
    expected = (
        "this does not hold: tile.shape[0] <= LIMIT and tile.parts == other.parts, "
        "where tile.shape = (129, 4), LIMIT = 128"
    )
    assert failure(module).message == expected


def test_names_that_turn_out_unknown_are_told_with_the_nearest(load: Load) -> None:
    module = load("def kernel(tile=1):\n    return til\n")
    module.kernel.__globals__["til"] = 1
    function = compile_function(check(capture(module.kernel)))
    del module.til
    with pytest.raises(NameError) as caught:
        function()
    error = explain(caught.value)
    assert isinstance(error, UnknownNameError)
    assert error.fix == "did you mean `tile`?"


def test_attributes_that_turn_out_unknown_are_told_with_the_nearest(load: Load) -> None:
    error = failure(load("class C:\n    shape = 1\ndef kernel():\n    return C().shpae\n"))
    assert isinstance(error, KernelPythonError)
    assert error.fix == "did you mean `shape`?"
    error = failure(load("def kernel():\n    return [m.exq for m in [nl]]\n"))
    assert isinstance(error, UnknownApiError)
    assert error.fix == "did you mean `exp`?"


def test_a_variable_read_too_early_is_an_error_of_python(load: Load) -> None:
    error = failure(load("def kernel():\n    if False:\n        x = 1\n    return x\n"))
    assert isinstance(error, KernelPythonError)
    assert "UnboundLocalError" in error.message
