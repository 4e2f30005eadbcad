"""Finding the source of what Python runs, and saying so when it cannot be found."""

import ast
import functools
import linecache
import os
import subprocess
import sys
import textwrap
import time
import types
from collections.abc import Callable
from pathlib import Path

import pytest

from nki.frontend.capture import EMPTY, capture, unwrap
from nki.frontend.frontend_errors import NoSourceError, NotAFunctionError, SourceChangedError

Load = Callable[[str], types.ModuleType]


def test_positions_are_those_of_the_file(load: Load) -> None:
    module = load("""
        import functools

        def decorate(fn):
            return fn

        if True:
            class Holder:
                @decorate
                @functools.wraps(decorate)
                def method(self, x):
                    text = '''
        left of everything'''
                    return x
    """)
    node = capture(module.Holder.method).node
    assert isinstance(node, ast.FunctionDef)
    assert (node.lineno, node.col_offset) == (11, 8)
    assert (node.body[1].lineno, node.body[1].col_offset) == (14, 12)


def test_class_closure_and_defaults_are_captured(load: Load) -> None:
    module = load("""
        def outer(free):
            class Inner:
                def kernel(self, x, y=2, *, z=3):
                    return free, later, __class__
            result = Inner.kernel
            return result
            later = 1
    """)
    captured = capture(module.outer([1]))
    assert captured.class_name == "Inner"
    assert captured.qualname == "outer.<locals>.Inner.kernel"
    assert captured.closure("free") == [1]
    assert captured.closure("later") is EMPTY
    assert captured.defaults == (2,)
    assert captured.kwdefaults == {"z": 3}
    assert captured.globals is vars(module)


def test_methods_and_jit_objects_are_unwrapped(load: Load, api: dict[str, types.ModuleType]) -> None:
    class Jit:
        def __init__(self, fn: Callable[..., object]) -> None:
            self.func = fn
            functools.update_wrapper(self, fn)

        def __call__(self) -> None:
            raise AssertionError("never called")

    Jit.__module__ = "nki.jit"
    module = load("class C:\n    def kernel(self): return 1\n\n\ndef plain(): return 2\n")
    assert unwrap(Jit(module.plain)) is module.plain
    assert capture(Jit(module.plain)).name == "plain"
    assert capture(module.C().kernel).code is module.C.kernel.__code__
    Jit.__module__ = "elsewhere"
    with pytest.raises(NotAFunctionError):
        capture(Jit(module.plain))


def test_lambdas_on_one_line_are_told_apart(load: Load) -> None:
    module = load("a, b, c = (lambda x: x + 1), (lambda x: x + 2), (lambda x: (lambda x: x + 3))\n")
    assert ast.unparse(capture(module.a).node) == "lambda x: x + 1"
    assert ast.unparse(capture(module.b).node) == "lambda x: x + 2"
    assert ast.unparse(capture(module.c).node) == "lambda x: lambda x: x + 3"
    assert ast.unparse(capture(module.c(0)).node) == "lambda x: x + 3"


def test_functions_of_one_name_on_one_line_are_told_apart(load: Load) -> None:
    module = load("""
        class A: f = staticmethod(lambda x: x * 2); g = f
        def h(x): return x; h2 = h
    """)
    assert ast.unparse(capture(module.A.g).node) == "lambda x: x * 2"
    assert capture(module.h).name == "h"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (len, "`len` is a built-in function, which has no Python source"),
        (int, "`int` is a class, not a function"),
        (3, "`3` is an object of type `int`, which has no Python source"),
        (functools.partial(print), "a functools.partial object is no kernel"),
    ],
)
def test_what_is_no_function_is_refused(value: Callable[..., object], message: str) -> None:
    with pytest.raises(NotAFunctionError) as caught:
        capture(value)
    assert caught.value.message == message


@pytest.mark.usefixtures("nki_0_6")
def test_a_function_made_by_exec_has_no_source() -> None:
    space: dict[str, Callable[..., object]] = {}
    exec("def kernel(a): return a", space)
    with pytest.raises(NoSourceError) as caught:
        capture(space["kernel"])
    assert caught.value.message == ("kernel `kernel` has no source: it was made by `exec` or given with `python -c`")


@pytest.mark.usefixtures("nki_0_6")
@pytest.mark.skipif(sys.version_info >= (3, 13), reason="since 3.13 Python keeps what is typed or given with -c")
@pytest.mark.parametrize(("how", "said"), [("-c", "python -c"), ("-", "typed at the Python prompt")])
def test_a_function_of_no_file_has_no_source(how: str, said: str) -> None:
    program = textwrap.dedent("""
        from nki.frontend.capture import capture
        def kernel(a): return a
        capture(kernel)
    """)
    command = [sys.executable, "-c", program] if how == "-c" else [sys.executable, "-"]
    done = subprocess.run(command, input=program, capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode == 1
    assert "[NKI-FE001] kernel `kernel` has no source" in done.stderr
    assert said in done.stderr


@pytest.mark.usefixtures("nki_0_6")
def test_a_missing_file_is_named(load: Load) -> None:
    module = load("def kernel(a): return a\n")
    Path(str(module.__file__)).unlink()
    linecache.clearcache()
    module.__loader__ = None
    with pytest.raises(NoSourceError, match="there is no file"):
        capture(module.kernel)


def test_notebook_cells_are_sources() -> None:
    text = "def kernel(a):\n    return a + 1\n"
    linecache.cache["<cell 7>"] = (len(text), None, text.splitlines(keepends=True), "<cell 7>")
    space: dict[str, Callable[..., object]] = {}
    exec(compile(text, "<cell 7>", "exec"), space)
    assert capture(space["kernel"]).node.lineno == 1


def edit(module: types.ModuleType, text: str) -> None:
    file = Path(str(module.__file__))
    file.write_text(text)
    os.utime(file, (time.time() + 2, time.time() + 2))


@pytest.mark.usefixtures("nki_0_6")
@pytest.mark.parametrize(
    "text",
    [
        "\ndef kernel(a):\n    return a + 1\n",
        "def other(a):\n    return a + 1\n",
        "def kernel(a, b):\n    return a + 1\n",
        "def kernel(a):\n    return a + 2\n",
        "def kernel(a:\n",
    ],
    ids=["moved", "renamed", "parameters", "body", "broken"],
)
def test_an_edited_file_is_noticed(load: Load, text: str) -> None:
    module = load("def kernel(a):\n    return a + 1\n")
    capture(module.kernel)
    edit(module, text)
    with pytest.raises(SourceChangedError) as caught:
        capture(module.kernel)
    assert "the function `kernel` of line 1 is not the one that is running" in caught.value.message


def test_edits_elsewhere_in_the_file_do_not_matter(load: Load) -> None:
    module = load("import math\ndef kernel(a):\n    return math.sqrt(a)\n")
    edit(module, "import math\ndef kernel(a):\n    return math.sqrt(a)\n\nprint(1)\n")
    assert capture(module.kernel).name == "kernel"
