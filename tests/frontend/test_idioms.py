"""Python builds kernels: idioms of meta-programming, functions that hold tiles, and code without source text."""

from __future__ import annotations

import contextlib
import functools
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.errors import DynamicLoopError, NkiError
from nki.frontend.capture import capture
from tests.frontend.idioms import EXPRESSIONS, IDIOMS
from tests.support.kernel_parts import returned

pytestmark = [
    pytest.mark.filterwarnings("ignore::nki.base.warning.NkiWarning"),
    pytest.mark.filterwarnings("ignore::nki.base.warning.NkiPortabilityWarning"),
    pytest.mark.filterwarnings("ignore::nki.base.warning.NkiDeprecationWarning"),
]

ONE = np.zeros((1, 1), np.float32)
A = np.arange(32, dtype=np.float32).reshape(4, 8)
ALL = [*EXPRESSIONS, *IDIOMS]


def kernel_of(*idioms: Callable[[], list[int]]) -> Any:
    """A kernel that returns the numbers of the idioms; one instruction has taken each number."""

    @nki.jit
    def kernel(x):
        values = []
        for one in idioms:
            values.extend(one())
        tile = nl.ndarray((1, len(values)), dtype=nl.float32, buffer=nl.sbuf)
        for i, value in enumerate(values):
            nisa.memset(tile[0:1, i : i + 1], float(value))
        return returned(tile)

    return kernel


@pytest.mark.parametrize("idiom", ALL, ids=lambda f: f"{f.__name__}-{f.__code__.co_firstlineno}")
@pytest.mark.parametrize("release", ["", "0.7"])
def test_a_kernel_computes_what_python_computes(
    idiom: Callable[[], list[int]], release: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NKI_VERSION", release)
    expected = np.array([idiom()], np.float32)
    np.testing.assert_array_equal(nki.simulate(kernel_of(idiom))(ONE), expected)


@pytest.mark.parametrize("start", range(0, len(ALL), 30))
def test_native_code_has_the_same_bits(start: int) -> None:
    idioms = ALL[start : start + 30]
    expected = np.array([[n for idiom in idioms for n in idiom()]], np.float32)
    kernel = kernel_of(*idioms)
    assert kernel(ONE).tobytes() == nki.simulate(kernel)(ONE).tobytes() == expected.tobytes()


# Helpers that hold tiles


def tiles(x: Any, rows: int) -> Iterator[tuple[Any, Any]]:
    for start in range(0, x.shape[0], rows):
        tile = nl.load(x[start : start + rows])
        yield start, tile


@contextlib.contextmanager
def accumulator(shape: tuple[int, int], out: Any) -> Iterator[Any]:
    total = nl.zeros(shape, nl.float32)
    yield total
    nisa.dma_copy(out, total)


class Stored:
    def __init__(self, out: Any) -> None:
        self.out = out

    def __enter__(self) -> Any:
        self.tile = nl.ndarray(self.out.shape, dtype=self.out.dtype, buffer=nl.sbuf)
        return self.tile

    def __exit__(self, *exc: object) -> None:
        if exc[0] is None:
            nisa.dma_copy(self.out, self.tile)


@nki.jit
def sum_of_tiles(x):
    out = nl.ndarray((2, 8), dtype=x.dtype, buffer=nl.shared_hbm)
    with accumulator((2, 8), out) as total:
        for _, tile in tiles(x, 2):
            nisa.tensor_tensor(total, total, tile, nl.add)
    return out


@nki.jit
def through_a_class(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    with Stored(out) as tile:
        nisa.dma_copy(tile, x)
        nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
    return out


@pytest.mark.parametrize(
    ("kernel", "expected"), [(sum_of_tiles, A[0:2] + A[2:4]), (through_a_class, 2 * A)], ids=["generator", "class"]
)
def test_helpers_that_hold_tiles(kernel: Any, expected: Any) -> None:
    np.testing.assert_array_equal(kernel(A), expected)
    assert kernel(A).tobytes() == nki.simulate(kernel)(A).tobytes()


def test_each_instruction_knows_its_line() -> None:
    from nki import target
    from nki.base.element_types import float32
    from nki.frontend.specialise import specialise
    from nki.frontend.syntax_rules import check
    from nki.ir.types import TensorSpec

    program = specialise(check(capture(sum_of_tiles)), {"x": TensorSpec("x", (4, 8), float32)}, target.find("trn2"))
    spans = [inst.where.span for inst in program.instructions()]
    assert [span.function.rpartition(".")[2] for span in spans if span is not None] == [
        "accumulator", "tiles", "sum_of_tiles", "tiles", "sum_of_tiles", "accumulator",
    ]  # fmt: skip
    text = Path(__file__).read_text(encoding="utf-8").split("\n")
    assert "nisa.tensor_tensor" in text[spans[2].line - 1] if spans[2] else False


# Errors of the compiler are no exceptions of the kernel


def bad(x: Any) -> None:
    nisa.tensor_copy(nl.load(x), nl.load(x[0:2]))


@contextlib.contextmanager
def swallowing() -> Iterator[None]:
    try:  # noqa: SIM105
        yield
    except Exception:
        pass


@nki.jit
def caught_by_try(x):
    try:  # noqa: SIM105
        bad(x)
    except Exception:
        pass
    return x


@nki.jit
def caught_by_suppress(x):
    with contextlib.suppress(Exception):
        bad(x)
    return x


@nki.jit
def caught_by_a_manager(x):
    with swallowing():
        bad(x)
    return x


@pytest.mark.parametrize("kernel", [caught_by_try, caught_by_suppress, caught_by_a_manager], ids=lambda k: k.__name__)
@pytest.mark.parametrize("eager", [False, True])
def test_errors_of_the_compiler_pass_through(kernel: Any, eager: bool) -> None:
    with pytest.raises(NkiError) as caught:
        (nki.simulate(kernel) if eager else kernel)(A)
    assert caught.value.code != "NKI-FE041"
    assert caught.value.span is not None and caught.value.span.function == "bad"


def test_a_clause_that_names_them_catches_them() -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        try:
            bad(x)
        except NkiError:
            nisa.dma_copy(out, x)
        return out

    np.testing.assert_array_equal(kernel(A), A)


# Loops on the device


def rounds(n: int) -> Iterator[Any]:
    for i in nl.dynamic_range(n):  # noqa: UP028
        yield i


def test_runs_of_one_generator_are_loops_of_their_own() -> None:
    @nki.jit
    def kernel(x):
        tile = nl.load(x)
        for _ in rounds(3):
            nisa.tensor_scalar(tile, tile, nl.add, 1.0)
            for _ in rounds(2):
                nisa.tensor_scalar(tile, tile, nl.add, 10.0)
        for _ in rounds(2):
            nisa.tensor_scalar(tile, tile, nl.add, 100.0)
        return returned(tile)

    np.testing.assert_array_equal(kernel(A), A + 263)
    np.testing.assert_array_equal(nki.simulate(kernel)(A), A + 263)


KEPT: list[Any] = []


@nki.jit
def left_by_an_exception(x):
    tile = nl.load(x)
    try:
        for _ in nl.dynamic_range(2):
            nisa.tensor_scalar(tile, tile, nl.add, 1.0)
            raise ValueError
    except ValueError:
        pass
    return returned(tile)


@nki.jit
def body_left_by_an_exception(x):
    tile = nl.load(x)

    def body(i):
        nisa.tensor_scalar(tile, tile, nl.add, 1.0)
        raise ValueError

    with contextlib.suppress(ValueError):
        nl.fori_loop(0, 2, body)
    return returned(tile)


@nki.jit
def left_by_break_in_a_generator(x):
    tile = nl.load(x)
    for _ in rounds(2):
        nisa.tensor_scalar(tile, tile, nl.add, 1.0)
        break
    return returned(tile)


@nki.jit
def entangled(x):
    tile = nl.load(x)
    one, other = rounds(2), rounds(2)
    next(one)
    next(other)
    nisa.tensor_scalar(tile, tile, nl.add, 1.0)
    next(one, None)
    next(other, None)
    return returned(tile)


@nki.jit
def never_ended(x):
    tile = nl.load(x)
    generator = rounds(2)
    KEPT.append(generator)
    next(generator)
    nisa.tensor_scalar(tile, tile, nl.add, 1.0)
    return returned(tile)


@pytest.mark.parametrize(
    "kernel",
    [left_by_an_exception, body_left_by_an_exception, left_by_break_in_a_generator, entangled, never_ended],
    ids=lambda kernel: kernel.__name__,
)
@pytest.mark.parametrize("eager", [False, True])
def test_a_device_loop_runs_to_its_end(kernel: Any, eager: bool) -> None:
    with pytest.raises(DynamicLoopError) as caught:
        (nki.simulate(kernel) if eager else kernel)(A)
    assert caught.value.span is not None and caught.value.fix
    KEPT.clear()


# Code without source text

EXEC = """
N = 3

def helper(tile):
    for _ in range(N):
        nisa.tensor_scalar(tile, tile, nl.add, 1.0)
    return tile

def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, helper(nl.load(x)))
    return out

def wrong(x):
    return helper(x[0:
        2].missing)
"""


@pytest.fixture
def space() -> dict[str, Any]:
    space: dict[str, Any] = {"nl": nl, "nisa": nisa, "__name__": "made"}
    exec(EXEC, space)
    return space


def test_a_kernel_made_by_exec(space: dict[str, Any]) -> None:
    kernel = nki.jit(space["kernel"])
    np.testing.assert_array_equal(kernel(A), A + 3)
    assert kernel(A).tobytes() == nki.simulate(kernel)(A).tobytes()
    space["N"] = 5
    np.testing.assert_array_equal(kernel(A), A + 5)


def test_errors_in_it_know_their_line(space: dict[str, Any]) -> None:
    with pytest.raises(NkiError, match="missing") as caught:
        nki.jit(space["wrong"])(A)
    assert caught.value.span is not None and caught.value.span.line == 16


def test_lambdas_are_kernels() -> None:
    twice = nki.jit(lambda x: returned(nl.load(x))), nki.jit(lambda x: returned(nl.add(nl.load(x), 1.0)))
    np.testing.assert_array_equal(twice[0](A), A)
    np.testing.assert_array_equal(twice[1](A), A + 1)
    np.testing.assert_array_equal(nki.jit(eval("lambda x: f(x)", {"f": lambda x: returned(nl.load(x))}))(A), A)


@pytest.mark.parametrize("how", ["-c", "-i"])
def test_kernels_of_the_prompt(how: str) -> None:
    program = textwrap.dedent("""
        import numpy as np, nki, nki.language as nl, nki.isa as nisa
        @nki.jit
        def kernel(x):
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            nl.store(out, nl.load(x))
            return out

        print("result", kernel(np.full((2, 2), 7, np.float32)).sum())
    """)
    command = [sys.executable, "-c", program] if how == "-c" else [sys.executable, "-i", "-q"]
    done = subprocess.run(command, input=program, capture_output=True, text=True, check=False, timeout=120)
    assert "result 28.0" in done.stdout, done.stderr


def test_a_decorated_kernel() -> None:
    def logged(f: Any) -> Any:
        @functools.wraps(f)
        def call(*args: Any, **kwargs: Any) -> Any:
            return f(*args, **kwargs)

        return call

    @nki.jit
    @logged
    def kernel(x, n=2):
        return returned(nl.multiply(nl.load(x), float(n)))

    np.testing.assert_array_equal(kernel(A), 2 * A)
    np.testing.assert_array_equal(kernel(A, n=3), 3 * A)


def test_state_that_unrewritten_functions_read_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = nki.jit(lambda x: returned(nl.multiply(nl.load(x), float(factor()))))
    np.testing.assert_array_equal(kernel(A), 2 * A)
    monkeypatch.setitem(globals(), "FACTOR", 4)
    factor.cache_clear()
    np.testing.assert_array_equal(kernel(A), 4 * A)


FACTOR = 2


@functools.lru_cache
def factor() -> int:
    return FACTOR
