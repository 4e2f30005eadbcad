"""Functions of other libraries that users and their tools expect in NKI: the error says what to write."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.errors import NkiError
from nki.language.advice.other_libraries import OTHERS

X = np.zeros((4, 8), np.float32)


@nki.jit
def casts(x):
    return nl.cast(x, nl.bfloat16)


@nki.jit
def joins(x):
    return nisa.concat([x, x])


@nki.jit
def greatest(x):
    return nl.topk(x, 8)


@nki.jit
def misspells(x):
    return nl.sigmiod(x)


@nki.jit
def asks_numpy(x):
    return np.cast(x)  # noqa: NPY201


@pytest.mark.parametrize(
    ("kernel", "fix"),
    [
        (casts, "write `nl.copy(x, dtype=…)`"),
        (joins, "`nisa.tensor_copy(dst=whole[:, 0:n], src=part)`"),
        (greatest, "use `nisa.topk`: the greatest of the numbers in each group of 16 partitions"),
        (greatest, "of rows, use `nisa.max8`"),
        (misspells, "did you mean `nl.sigmoid`"),
    ],
)
def test_the_fix_names_what_nki_has(kernel: Any, fix: str) -> None:
    with pytest.raises(NkiError, match=re.escape(fix)):
        kernel(X)


def test_other_modules_get_no_advice_about_nki() -> None:
    with pytest.raises(Exception, match="cast") as caught:
        asks_numpy(X)
    assert "nl.copy" not in str(caught.value)


@pytest.mark.parametrize("name", OTHERS)
def test_nki_lacks_the_name_and_has_what_the_text_proposes(name: str) -> None:
    assert not hasattr(nl, name)
    proposed = re.findall(r"\b(nl|nisa)\.(\w+)", OTHERS[name])
    assert proposed, "the text names a function"
    for module, function in proposed:
        assert hasattr({"nl": nl, "nisa": nisa}[module], function), function
