"""The name of a compiled kernel changes with all that it depends on, and with nothing else."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nki import target as targets
from nki.base import element_types as dtypes
from nki.base import version
from nki.compilation.cache.fingerprint import Fingerprint, fingerprint
from nki.ir.types import TensorSpec

TRN3 = targets.find("trn3")

KERNEL = '''
import collections, contextlib, dataclasses, enum, functools, math, os, random, typing
import numpy as np
import nki
import nki.isa as nisa
import nki.language as nl
import beside
from beside import scale, Settings

FACTOR = 2.0
TABLE = {"rows": [1, 2, 3], "op": nl.add}
WEIGHTS = np.arange(4)
UNUSED = 1

class Mode(enum.Enum):
    FAST = 1
    SLOW = 2

@dataclasses.dataclass
class Config:
    width: int = 3
    mode: Mode = Mode.FAST
    names: list = dataclasses.field(default_factory=list)

    def __post_init__(self):
        self.width += 1

    @property
    def doubled(self):
        return 2 * self.width

class Pair(typing.NamedTuple):
    first: int
    second: int = 5

def with_closure(step):
    def add(x):
        return x + step
    return add

add_one = with_closure(1)
partial = functools.partial(scale, by=4)

@functools.lru_cache
def kept(n):
    return n + 7

@contextlib.contextmanager
def around():
    yield 11

def unreached(x):
    return x - 100

@nki.jit
def inner(x):
    return nisa.tensor_copy(dst=x, src=x)

def kernel(x, n=3, *, key=4):
    """What it does."""
    settings = Settings(1)
    config, pair, mode = Config(), Pair(1), Mode.FAST
    f = lambda v: v * math.pi
    if n > 1000:
        del x
    return (scale(x, FACTOR), beside.LIMIT, TABLE, WEIGHTS, config, pair, mode, f, add_one, partial, kept, around,
            inner, settings, collections.deque([1]))
'''
BESIDE = """
LIMIT = 16
OTHER = 17

class Settings:
    level = 1
    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value + hidden()

def hidden():
    return 21

def scale(x, by=1.0):
    return deeper(x) * by

def deeper(x):
    return x + 31
"""


Load = Callable[[str, str], Any]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    """Both files anew, under the names and paths that they always have."""
    monkeypatch.syspath_prepend(tmp_path)

    def module(name: str, text: str) -> Any:
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        made = sys.modules[name] = importlib.util.module_from_spec(spec)
        exec(compile(text, str(path), "exec"), vars(made))
        return made

    def both(kernel: str, beside: str) -> Any:
        module("beside", beside)
        return module("kernels", kernel)

    yield both
    for name in ("beside", "kernels"):
        sys.modules.pop(name, None)


def tensor(*shape: int, dtype: str = "float32") -> TensorSpec:
    return TensorSpec("x", shape, dtypes.of(dtype))


def name_of(fn: Any, **changes: Any) -> Fingerprint | None:
    arguments = {"x": tensor(128, 64), "n": 3, **changes}
    return fingerprint(fn, arguments, TRN3, ())


def digest(fn: Any, **changes: Any) -> str:
    found = name_of(fn, **changes)
    assert found is not None
    return found.digest


def changed(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1, old
    return text.replace(old, new)


def test_a_new_process_would_find_the_same_name(load: Load) -> None:
    first = digest(load(KERNEL, BESIDE).kernel)
    assert digest(load(KERNEL, BESIDE).kernel) == first
    assert len(first) == 64


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("FACTOR = 2.0", "FACTOR = 2.5"),
        ("FACTOR = 2.0", "FACTOR = 2"),
        ("[1, 2, 3]", "[1, 2, 4]"),
        ('"op": nl.add', '"op": nl.subtract'),
        ("np.arange(4)", "np.arange(4) + 1"),
        ("np.arange(4)", "np.arange(4.0)"),
        ("FAST = 1", "FAST = 3"),
        ("width: int = 3", "width: int = 4"),
        ("mode: Mode = Mode.FAST\n", "mode: Mode = Mode.SLOW\n"),
        ("default_factory=list", "default_factory=dict"),
        ("self.width += 1", "self.width += 2"),
        ("2 * self.width", "3 * self.width"),
        ("second: int = 5", "second: int = 6"),
        ("with_closure(1)", "with_closure(2)"),
        ("return x + step", "return x - step"),
        ("by=4", "by=5"),
        ("return n + 7", "return n + 8"),
        ("yield 11", "yield 12"),
        ("dst=x, src=x", "dst=x[:], src=x"),
        ("v * math.pi", "v * math.e"),
        ("n=3, *, key=4", "n=3, *, key=5"),
        ("n=3, *, key=4", "n=4, *, key=4"),
        ("def kernel(x", "\ndef kernel(x"),
        ("\nUNUSED = 1", "\nbeside.LIMIT = 3"),
        ("        del x", "        pass"),
    ],
)
def test_an_edit_of_the_kernels_file(load: Load, old: str, new: str) -> None:
    before = digest(load(KERNEL, BESIDE).kernel)
    assert digest(load(changed(KERNEL, old, new), BESIDE).kernel) != before


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LIMIT = 16", "LIMIT = 15"),
        ("x) * by", "x) / by"),
        ("x + 31", "x + 32"),
        ("return 21", "return 22"),
        ("value + hidden", "value - hidden"),
        ("level = 1", "level = 2"),
        ("by=1.0", "by=1.5"),
    ],
)
def test_an_edit_of_another_file(load: Load, old: str, new: str) -> None:
    before = digest(load(KERNEL, BESIDE).kernel)
    assert digest(load(KERNEL, changed(BESIDE, old, new)).kernel) != before


@pytest.mark.parametrize(
    ("kernel", "beside"),
    [
        (changed(KERNEL, "UNUSED = 1", "UNUSED = 2"), BESIDE),
        (changed(KERNEL, "x - 100", "x - 101"), BESIDE),
        (KERNEL + "\n\ndef another():\n    pass\n", BESIDE),
        (KERNEL, changed(BESIDE, "OTHER = 17", "OTHER = 18")),
    ],
)
def test_an_edit_of_what_the_kernel_cannot_reach(load: Load, kernel: str, beside: str) -> None:
    before = digest(load(KERNEL, BESIDE).kernel)
    assert digest(load(kernel, beside).kernel) == before


def test_code_that_can_never_run_counts_since_it_is_checked(load: Load) -> None:
    last = "inner, settings, collections.deque([1]))\n"
    dead = changed(KERNEL, last, f"{last}    if 0:\n        with x: pass\n")
    live = changed(KERNEL, last, f"{last}    if 0:\n        x = 1\n")
    assert load(dead, BESIDE).kernel.__code__.co_code == load(live, BESIDE).kernel.__code__.co_code
    assert digest(load(dead, BESIDE).kernel) != digest(load(live, BESIDE).kernel)


@pytest.mark.parametrize(
    "change",
    [
        {"x": tensor(128, 65)},
        {"x": tensor(128, 64, dtype="bfloat16")},
        {"n": 4},
        {"n": 3.0},
        {"n": True},
        {"n": [1, 2]},
        {"n": (1, 2)},
        {"key": 5},
        {"n": float},
        {"n": np.float32(3)},
        {"n": dtypes.float32},
        {"n": None},
    ],
    ids=repr,
)
def test_arguments(load: Load, change: dict[str, Any]) -> None:
    kernel = load(KERNEL, BESIDE).kernel
    assert digest(kernel, **change) != digest(kernel)
    assert digest(kernel, **change) == digest(kernel, **change)


def test_target_grid_and_compiler(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = load(KERNEL, BESIDE).kernel
    names = [fingerprint(kernel, {"n": 3}, TRN3, grid) for grid in ((), (1,))]
    names.append(fingerprint(kernel, {"n": 3}, targets.find("trn2"), ()))
    names.append(fingerprint(kernel, {"n": 3}, TRN3, (), (("sum", ("load",)),)))
    monkeypatch.setattr("nki.compilation.cache.fingerprint.build", lambda: "another")
    names.append(fingerprint(kernel, {"n": 3}, TRN3, ()))
    assert len({found.digest for found in names if found is not None}) == 5


def test_an_edit_of_the_compiler_changes_its_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "nki" / "base" / "version.py"
    file.parent.mkdir(parents=True)
    file.write_text("first")
    monkeypatch.setattr(version, "__file__", str(file))
    builds = [version.build.__wrapped__(), version.build.__wrapped__()]
    file.write_text("first edit")
    builds.append(version.build.__wrapped__())
    for other in ("passes.py", "coefficients.json"):
        (tmp_path / "nki" / other).write_text("")
        builds.append(version.build.__wrapped__())
    status = file.stat()
    file.write_text("third edit")  # of the same size and date, as in two images of a container
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    builds.append(version.build.__wrapped__())
    file.rename(file.with_name("versions.py"))
    builds.append(version.build.__wrapped__())
    assert builds[0] == builds[1] and len(set(builds)) == 6


@pytest.mark.parametrize(
    "line",
    [
        "print(x)",
        "breakpoint()",
        "os.environ.get('LEVEL')",
        "random.random()",
        "np.random.rand()",
        "id(x)",
        "hash('x')",
        "open(__file__)",
        "getattr(beside, 'LIMIT')",
        "beside.__dict__",
        "handle",
        "generator",
        "self_written",
    ],
)
def test_what_another_process_cannot_repeat_has_no_name(load: Load, line: str) -> None:
    made = "import sys\nhandle = sys.stdout\ngenerator = np.random.default_rng()\nself_written = (i for i in ())\n"
    kernel = f"{KERNEL}{made}def odd(x, n=3):\n    {line}\n    return kernel(x)\n"
    assert name_of(load(kernel, BESIDE).odd) is None


def test_the_reads_are_those_of_everything_reached(load: Load) -> None:
    module = load(KERNEL, BESIDE)
    found = name_of(module.kernel)
    assert found is not None
    values = {id(read()) for read in found.reads}
    for value in (module.FACTOR, module.TABLE, module.WEIGHTS, module.beside.LIMIT, module.scale, module.Mode.FAST):
        assert id(value) in values
    module.FACTOR = 9.0
    assert 9.0 in [value for value in (read() for read in found.reads) if isinstance(value, float)]
    assert {code.co_name for code in found.codes} >= {"kernel", "scale", "deeper", "hidden", "add", "kept", "inner"}


def test_a_value_that_holds_itself(load: Load) -> None:
    kernel = load(KERNEL, BESIDE).kernel
    ring: list[Any] = [1]
    ring.append(ring)
    longer: list[Any] = [1, ring]
    assert digest(kernel, n=ring) == digest(kernel, n=ring) != digest(kernel, n=longer)
