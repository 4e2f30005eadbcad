"""A compiled kernel is used again only if everything that it was compiled with is as it was."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import types
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.compilation import executable_cache
from nki.compilation.cache.captured_values import constant_key, seen, unchanged
from tests.compilation.float_kernels import one_operand as scaled
from tests.support.kernel_parts import returned

X = np.ones((2, 4), np.float32)


class Plain:
    scale = 2.0

    def __init__(self, **fields: Any) -> None:
        vars(self).update(fields)


class ScaledList(list[Any]):
    pass


class Callable_:
    def __init__(self, by: float) -> None:
        self.by = by

    def __call__(self, x: float) -> float:
        return x * self.by


@dataclass(slots=True)
class Slotted:
    scale: float = 2.0


class Derived(Slotted):
    pass


def function() -> float:
    return 1.0


def with_list(items: list[int] = [1]) -> list[int]:  # noqa: B006  # the default that changes is what is tested
    return items


def replaced(fields: dict[str, Any], name: str, value: Any) -> None:
    fields[name] = value


CHANGES: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "attribute of a callable object": (Callable_(2.0), lambda c: setattr(c, "by", 3.0)),
    "field in a slot": (Slotted(), lambda c: setattr(c, "scale", 3.0)),
    "field in a slot of a base class": (Derived(), lambda c: setattr(c, "scale", 3.0)),
    "field of an object in an object": (Plain(inner=Slotted()), lambda c: setattr(c.inner, "scale", 3.0)),
    "attribute of the class": (
        type("Own", (Plain,), {"__module__": __name__})(),
        lambda c: setattr(type(c), "scale", 3),
    ),
    "method of the class": (
        type("Own", (Plain,), {"__module__": __name__, "m": function})(),
        lambda c: setattr(type(c), "m", with_list),
    ),
    "element of an array in a dict": ({"w": np.array([2.0])}, lambda d: d["w"].fill(3.0)),
    "element of an array in an object": (Plain(w=np.array([2.0])), lambda c: c.w.fill(3.0)),
    "attribute of a function": (types.FunctionType(function.__code__, globals()), lambda f: setattr(f, "scale", 3.0)),
    "default of a function": (with_list, lambda f: f.__defaults__[0].append(2)),
    "code of a function": (
        types.FunctionType(function.__code__, globals()),
        lambda f: setattr(f, "__code__", (lambda: 3.0).__code__),
    ),
    "attribute of a list": (ScaledList([1]), lambda c: setattr(c, "scale", 3.0)),
    "argument of a partial": (functools.partial(function, d={"f": 2.0}), lambda p: replaced(p.keywords["d"], "f", 3.0)),
    "object of a bound method": (Callable_(2.0).__call__, lambda m: setattr(m.__self__, "by", 3.0)),
    "set": ({1, 2}, lambda s: s.add(3)),
}


@pytest.mark.parametrize("case", CHANGES)
def test_a_change_is_noticed(case: str) -> None:
    value, change = CHANGES[case]
    before = seen([lambda: value])
    assert unchanged(before)
    change(value)
    assert not unchanged(before)


def test_a_value_that_holds_itself_can_change() -> None:
    value = Plain(child=Plain(scale=1.0))
    value.child.parent = value
    before = seen([lambda: value])
    assert unchanged(before)
    value.child.scale = 2.0
    assert not unchanged(before)


def test_a_list_that_holds_itself_and_one_that_is_deep() -> None:
    own: list[Any] = []
    own.append(own)
    deep: list[Any] = []
    for _ in range(2000):
        deep = [deep]
    before = seen([lambda: own, lambda: deep])
    assert unchanged(before)
    own.append(1)
    assert not unchanged(before)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.float32(0.0), np.float32(-0.0)),
        (0.0, -0.0),
        (1, True),
        (1, 1.0),
        (Derived(2.0), Derived(3.0)),
        (ScaledList([1]), [1]),
        (Callable_(2.0), Callable_(3.0)),
    ],
    ids=["numpy zero", "zero", "bool", "integer", "slots", "list", "callable"],
)
def test_arguments_that_compile_differently(one: Any, other: Any) -> None:
    assert constant_key("a", one) != constant_key("a", other)


@pytest.mark.parametrize(
    "make", [lambda: np.float32("nan"), lambda: float("nan"), lambda: Callable_(2.0), lambda: [1, (2,)]]
)
def test_arguments_that_compile_alike(make: Callable[[], Any]) -> None:
    one, other = constant_key("a", make()), constant_key("a", make())
    assert one == other and hash(one) == hash(other)


factor = 2.0
x = t = out = 1


@pytest.mark.usefixtures("without_disk")
def test_variables_of_the_module_that_a_kernel_only_shadows(
    compilations: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        t = nl.load(x)
        nisa.tensor_scalar(t, t, nl.multiply, factor)
        out = returned(t)
        return out  # noqa: RET504  # a variable of the module has its name

    for number in range(4):
        for name in ("x", "t", "out"):
            monkeypatch.setitem(globals(), name, number)
        assert kernel(X)[0, 0] == 2.0
    assert len(compilations) == 1
    monkeypatch.setitem(globals(), "factor", 5.0)
    assert kernel(X)[0, 0] == 5.0 and len(compilations) == 2


@pytest.fixture
def without_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPEN_NKI_CACHE_DISABLE", "1")


@pytest.mark.usefixtures("without_disk")
def test_a_number_that_changes_often_is_warned_of_once() -> None:
    kernel = nki.jit(scaled)
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        for number in range(12):
            assert kernel(X, number)[0, 0] == number
    (warning,) = given
    assert warning.category is nki.NkiWarning and warning.lineno == scaled.__code__.co_firstlineno
    assert "kernel 'one_operand' was compiled 9 times for other values of 'lr' alone (…, 6, 7, 8)" in str(
        warning.message
    )


@pytest.mark.usefixtures("without_disk")
def test_other_shapes_are_no_reason_to_warn() -> None:
    kernel = nki.jit(scaled)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for number in range(1, 12):
            kernel(np.ones((2, number), np.float32), 2.0)


@pytest.mark.usefixtures("without_disk")
def test_the_least_recently_used_executable_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = nki.jit(scaled)
    monkeypatch.setattr(executable_cache, "CAPACITY", 2)
    for by in (1, 2, 1, 3):
        kernel(X, by)
    assert [key[-1][1] for key in kernel._executables] == [1, 3]


def test_one_limit_is_for_all_grids(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = nki.jit(scaled)
    monkeypatch.setattr(executable_cache, "CAPACITY", 3)
    for grid in (1, 2):
        for columns in range(1, 4):
            assert (kernel[grid](np.ones((2, columns), np.float32), 2) == 2).all()
    assert [(key[0], key[-2][0]) for key in kernel._executables] == [((2,), (2, n)) for n in (1, 2, 3)]
    assert (kernel(np.ones((2, 3), np.float32), 2) == 2).all()


@pytest.mark.usefixtures("own_cache")
def test_an_executable_that_was_dropped_comes_back_from_disk(
    compilations: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executable_cache, "CAPACITY", 3)
    kernel = nki.jit(scaled)
    for _ in range(2):
        for columns in range(1, 9):
            assert (kernel(np.ones((2, columns), np.float32), 2) == 2).all()
    assert (len(compilations), len(kernel._executables)) == (8, 3)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="no /proc")
def test_a_thousand_shapes_take_no_more_memory_than_some(tmp_path: Path) -> None:
    code = """
import gc, json, os
import numpy as np, nki, nki.language as nl
from nki.backend.cpu.runtime import routines
from nki.compilation import executable_cache
executable_cache.CAPACITY = routines_kept = 32
routines._recent = type(routines._recent)(maxlen=routines_kept)

@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(x), 2.0))
    return out

sizes = []
for number in range(1, 401):
    kernel(np.ones((2, number), np.float32))
    if number in (100, 400):
        gc.collect()
        lines = open("/proc/self/smaps_rollup").read().splitlines()
        sizes += [int(line.split()[1]) for line in lines if line.startswith("Rss:")]
print(json.dumps(sizes))
"""
    file = tmp_path / "shapes.py"
    file.write_text(code)
    before, after = json.loads(subprocess.run([sys.executable, file], check=True, capture_output=True).stdout)
    assert after - before < 300 * 30, "kilobytes; it was 85 for each shape, and 11 are left that caches of forms take"


def test_a_kernel_sees_the_attribute_of_an_arguments_class() -> None:
    class Model(Plain):
        scale = 2.0

    kernel, model = nki.jit(lambda_free), Model()
    assert kernel(X, model)[0, 0] == 2.0
    Model.scale = 3.0
    assert kernel(X, model)[0, 0] == 3.0


def lambda_free(a: Any, model: Any) -> Any:
    return scaled(a, model.scale)
