"""Instructions that idioms of meta-programming emit are those that Python's order of evaluation asks for."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nki
import nki.isa as nisa
import nki.language as nl
from tests.frontend.emitting_idioms import EMITTING
from tests.support.kernel_parts import returned

pytestmark = [
    pytest.mark.filterwarnings("ignore::nki.base.warning.NkiWarning"),
    pytest.mark.filterwarnings("ignore::nki.base.warning.NkiPortabilityWarning"),
]

ONE = np.zeros((1, 1), np.float32)


class Columns:
    """Takes numbers, one instruction each, into the columns of a tile."""

    def __init__(self, tile: Any) -> None:
        self.tile = tile
        self.count = 0

    def emit(self, number: Any) -> None:
        nisa.memset(self.tile[0:1, self.count : self.count + 1], float(number))
        self.count += 1


def emitted(*idioms: Callable[..., Any]) -> list[int]:
    """The numbers that plain Python emits."""
    numbers: list[int] = []
    for one in idioms:
        one(numbers.append)
    return numbers


def kernel_of(count: int, *idioms: Callable[..., Any]) -> Any:
    """A kernel that returns the ``count`` numbers that ``idioms`` emit, in order."""

    @nki.jit
    def kernel(x):
        columns = Columns(nl.ndarray((1, count), dtype=nl.float32, buffer=nl.sbuf))
        for one in idioms:
            one(columns.emit)
        assert columns.count == count
        return returned(columns.tile)

    return kernel


def test_each_idiom_has_a_name_of_its_own() -> None:
    names = [f.__name__ for f in EMITTING]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("idiom", EMITTING, ids=lambda f: f.__name__)
@pytest.mark.parametrize("release", ["", "0.7"])
def test_instructions_are_in_pythons_order(idiom: Any, release: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NKI_VERSION", release)
    numbers = emitted(idiom)
    assert numbers
    np.testing.assert_array_equal(nki.simulate(kernel_of(len(numbers), idiom))(ONE), np.array([numbers], np.float32))


@pytest.mark.parametrize("start", range(0, len(EMITTING), 16))
def test_native_code_has_the_same_bits(start: int) -> None:
    idioms = EMITTING[start : start + 16]
    numbers = emitted(*idioms)
    kernel = kernel_of(len(numbers), *idioms)
    expected = np.array([numbers], np.float32).tobytes()
    assert kernel(ONE).tobytes() == nki.simulate(kernel)(ONE).tobytes() == expected


# Combinations: programs of nested constructs, drawn at random

HELPERS = """\
import contextlib

class Left(Exception):
    pass

@contextlib.contextmanager
def scope(emit, n):
    emit(n)
    try:
        yield n + 1
    except Left:
        emit(n + 2)
    finally:
        emit(n + 3)

class Scope:
    def __init__(self, emit, n):
        self.emit, self.n = emit, n

    def __enter__(self):
        self.emit(self.n)
        return self.n

    def __exit__(self, *exc):
        self.emit(self.n + 1)
        return False

def counting(emit, n):
    for i in range(n):
        emit(i)
        got = yield i
        if got is not None:
            emit(got)

def delegating(emit, n):
    emit(7)
    yield from counting(emit, n)
    yield n

def twice(f):
    def call(*args):
        f(*args)
        return f(*args)

    return call

"""

SIMPLE = (
    "emit({n})", "emit(a + {n})", "a += {n}", "a = (a * 3 + {n}) % 17", "emit(b := a % 5)", "last, a = a, last % 7",
    "emit(sum(i for i in range(a % 4)))", "emit(len([emit(i) for i in range({n} % 3)]))",
    "emit((lambda k: k + a)({n}))", "emit(max({n}, a % 9))", "emit({{'x': {n}, 'y': a}}['x'])",
    "emit([*range({n})][-1] if {n} else 0)", "log.append(a % 6)", "emit(log.pop() if log else 40)",
)  # fmt: skip
BLOCKS = (
    ("for {v} in range({n} % 4):", ""),
    ("for {v} in counting(emit, {n} % 3):", ""),
    ("for {v} in delegating(emit, {n} % 3):", ""),
    ("if a % 2 == {n} % 2:", "else:"),
    ("with scope(emit, {n}) as {v}:", ""),
    ("with Scope(emit, {n}) as {v}, scope(emit, a % 5):", ""),
    ("try:", "except Left:"),
    ("try:", "finally:"),
    ("while (a := a // 2) > {n} and (steps := steps - 1):", ""),
)
JUMPS = ("raise Left", "return emit(60)", "break", "continue")


def indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


@st.composite
def blocks(draw: Any, depth: int, loops: int) -> list[str]:
    """The lines of a block; ``loops`` around it."""
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        number = draw(st.integers(0, 9))
        kind = draw(st.integers(0, 9))
        if depth == 0 or kind < 4:
            lines.append(draw(st.sampled_from(SIMPLE)).format(n=number))
        elif kind == 4:
            jump = draw(st.sampled_from(JUMPS[: 4 if loops else 2]))
            lines += [f"if a % 3 == {number % 3}:", f"    {jump}"]
        elif kind == 5:
            name = f"f{depth}"
            inner = draw(blocks(depth - 1, 0))
            head = [draw(st.sampled_from(["@twice", "# plain"])), f"def {name}(a):", "    last, steps = 0, 9"]
            lines += [*head, *indented(inner), "    return a", f"a = ({name}(a) or 1) % 50"]
        else:
            head, other = draw(st.sampled_from(BLOCKS))
            around = loops + head.startswith(("for", "while"))
            lines += [
                head.format(v=f"v{depth}", n=number),
                *(f"    {line}" for line in draw(blocks(depth - 1, around))),
            ]
            if other:
                lines += [other, *(f"    {line}" for line in draw(blocks(depth - 1, loops)))]
    return lines


def function_of(lines: list[str]) -> Any:
    """A function of ``emit`` with a body of ``lines``, and its text in ``linecache``."""
    body = ["def program(emit):", "    a, last, log, steps = 5, 2, [], 9", *indented(lines)]
    guard = ["", "def whole(emit):", "    try:", "        program(emit)", "    except Left:", "        emit(77)"]
    text = "\n".join([HELPERS, *body, *guard, "    emit(88)", ""])
    file = "<drawn program>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space: dict[str, Any] = {"__name__": "drawn"}
    exec(compile(text, file, "exec"), space)
    return space["whole"]


@given(blocks(depth=3, loops=0))
@settings(max_examples=150)
def test_combinations_emit_what_python_emits(lines: list[str]) -> None:
    whole = function_of(lines)
    numbers = emitted(whole)
    if len(numbers) > 400:
        return
    eager = nki.simulate(kernel_of(len(numbers), whole))(ONE)
    np.testing.assert_array_equal(eager, np.array([numbers], np.float32))


@given(blocks(depth=3, loops=0))
@settings(max_examples=15)
def test_native_code_of_combinations_has_the_same_bits(lines: list[str]) -> None:
    whole = function_of(lines)
    numbers = emitted(whole)
    if len(numbers) > 100:
        return
    assert kernel_of(len(numbers), whole)(ONE).tobytes() == np.array([numbers], np.float32).tobytes()
