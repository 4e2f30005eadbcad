"""A change of what a kernel reads by another name, through objects, aliases or dictionaries, compiles it again."""

from __future__ import annotations

import types
from collections.abc import Callable
from enum import Enum
from typing import Any

import numpy as np
import pytest

import nki
from nki.compilation.cache.captured_values import seen, unchanged
from tests.compilation.float_kernels import one_operand as scaled

X = np.ones((2, 4), np.float32)
SCALE = 2.0
settings = types.ModuleType("settings_of_a_test")
settings.scale = 2.0


class Base:
    scale = 2.0
    sizes = {"rows": 2.0}  # noqa: RUF012  # a dictionary that changes is what is tested

    @classmethod
    def of_class(cls) -> float:
        return cls.scale

    def of_self(self) -> float:
        return self.scale

    def of_sizes(self) -> float:
        return self.sizes["rows"]


class Derived(Base):
    pass


class Kind(Enum):
    ONE = 2.0


def scale_of(module: Any) -> float:
    return module.scale


def class_method(x: Any) -> Any:
    return scaled(x, Base.of_class())


def inherited_class_method(x: Any) -> Any:
    return scaled(x, Derived.of_class())


def method_of_an_object(x: Any) -> Any:
    return scaled(x, Derived().of_self())


def class_of_an_object(x: Any) -> Any:
    made = Derived()
    return scaled(x, type(made).scale)


def dictionary_of_a_class(x: Any) -> Any:
    return scaled(x, Derived().of_sizes())


def alias_of_a_module(x: Any) -> Any:
    chosen = settings
    return scaled(x, chosen.scale)


def module_as_an_argument(x: Any) -> Any:
    return scaled(x, scale_of(settings))


def attribute_by_text(x: Any) -> Any:
    return scaled(x, getattr(settings, "sc" + "ale"))


def dictionary_of_a_module(x: Any) -> Any:
    return scaled(x, vars(settings)["scale"])


def global_by_text(x: Any) -> Any:
    return scaled(x, globals()["SCALE"])


CLASSES = (class_method, inherited_class_method, method_of_an_object, class_of_an_object)
MODULES = (alias_of_a_module, module_as_an_argument, attribute_by_text, dictionary_of_a_module)
CHANGES: dict[Callable[[Any], Any], Callable[[pytest.MonkeyPatch], None]] = {
    **{kernel: lambda patch: patch.setattr(Base, "scale", 5.0) for kernel in CLASSES},
    dictionary_of_a_class: lambda patch: patch.setitem(Base.sizes, "rows", 5.0),
    **{kernel: lambda patch: patch.setattr(settings, "scale", 5.0) for kernel in MODULES},
    global_by_text: lambda patch: patch.setitem(globals(), "SCALE", 5.0),
}


@pytest.mark.filterwarnings("ignore::nki.base.warning.NkiPortabilityWarning")
@pytest.mark.parametrize("function", CHANGES, ids=lambda function: function.__name__)
@pytest.mark.parametrize("disk", ["0", "1"], ids=["disk", "memory"])
@pytest.mark.usefixtures("own_cache")
def test_a_change_compiles_the_kernel_again(
    function: Any, disk: str, compilations: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPEN_NKI_CACHE_DISABLE", disk if disk == "1" else "")
    kernel = nki.jit(function)
    for _ in range(3):
        assert kernel(X)[0, 0] == 2.0
    assert len(compilations) == 1
    CHANGES[function](monkeypatch)
    for _ in range(3):
        assert kernel(X)[0, 0] == 5.0
    assert len(compilations) == 2


def test_a_class_stays_as_it_is_while_nobody_changes_it() -> None:
    before = seen([lambda: Derived, lambda: Kind])
    Derived().extra = 1  # type: ignore[attr-defined]
    assert unchanged(before)


@pytest.mark.parametrize("name", ["scale", "of_self", "new"])
def test_an_attribute_of_a_class_and_of_its_base(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for cls in (Base, Derived):
        before = seen([lambda: Derived])
        monkeypatch.setattr(cls, name, lambda self: 3.0, raising=False)
        assert not unchanged(before)


def test_another_class_of_the_same_content() -> None:
    classes = [type("Same", (Base,), {"__module__": __name__}) for _ in range(2)]
    before = seen([classes.pop])
    assert not unchanged(before)
