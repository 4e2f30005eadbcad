"""``nki explain NCC_…``."""

from __future__ import annotations

import pytest

import nki.runtime  # noqa: F401  # all errors are registered
from nki.base.errors import NkiError
from nki.base.usage import UsageError
from nki.describe import compiler_errors
from nki.describe.explain import about, topics


def test_a_code_is_explained_with_the_check_that_comes_before() -> None:
    text = about("NCC_EVRF066")
    assert "NEURON_LOGICAL_NC_CONFIG" in text
    assert "found before by NKI-KN020" in text
    assert about("[ncc_evrf066]") == text


def test_codes_of_one_meaning_name_each_other() -> None:
    assert "same meaning: NCC_EVRF007, NCC_EXTP004" in about("NCC_EBVF030")
    assert "no check of Open NKI finds it before" in about("NCC_EBVF030")
    assert about("NCC_IXGM002").startswith("NCC_IXGM002: internal error")


def test_every_check_exists() -> None:
    for code, row in compiler_errors.CODES.items():
        for check in row.checks.split():
            error, _, rule = check.partition("/")
            assert error in NkiError.registry, code
            assert check in about(error) or not rule or rule in about(error), code


def test_each_code_has_one_row() -> None:
    codes = [code for row in compiler_errors.ROWS for code in row.codes.split()]
    assert len(codes) == len(set(codes)) == len(compiler_errors.CODES)


def test_unknown_codes() -> None:
    with pytest.raises(UsageError, match="nothing public is known about NCC_EVRF999"):
        about("NCC_EVRF999")
    assert not compiler_errors.is_code("NKI-SH001")


def test_the_list_of_topics_has_the_codes() -> None:
    assert "NCC_EVRF066" in topics()
