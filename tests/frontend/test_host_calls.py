"""What is called as it is, and what is captured as part of the kernel."""

import dataclasses
import functools
import math
import statistics
import types
from collections.abc import Callable

import numpy as np
import pytest

from nki.frontend.capture import is_host

Load = Callable[[str], types.ModuleType]


@dataclasses.dataclass
class Pair:
    first: int

    def __call__(self) -> int:
        return self.first


@pytest.mark.parametrize(
    "fn",
    [
        len,
        math.prod,
        statistics.mean,
        np.prod,
        np.float32,
        dict,
        Pair,
        Pair.__init__,
        [].append,
        str.upper,
        range,
        functools.cache(len),
        np.add,
    ],
)
def test_called_directly(fn: object) -> None:
    assert is_host(fn)


@pytest.mark.parametrize(
    "fn",
    [
        test_called_directly,
        Pair(1),
        Pair(1).__eq__,
        functools.partial(len),
        max,
        map,
        sorted,
        functools.reduce,
        3,
        None,
    ],
)
def test_looked_into_when_called(fn: object) -> None:
    assert not is_host(fn)


def test_a_users_module_may_share_its_name_with_the_standard_library(load: Load) -> None:
    module = load("def choose(a): return a\n")
    vars(module)["__name__"] = "select"
    assert not is_host(module.choose)


def test_nki_functions_are_called_directly(api: dict[str, types.ModuleType]) -> None:
    assert is_host(api["nisa"].tensor_copy)
    assert is_host(api["nl"].buffers)
