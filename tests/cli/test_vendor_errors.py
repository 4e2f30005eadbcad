"""``nki explain`` of errors of the vendor's compiler (``NCC_…``) and runtime (``NRT_…``, ``TDRV:…``, ``ENC:…``)."""

from __future__ import annotations

import pytest

import nki.runtime  # noqa: F401  # all errors are registered
from nki.base.errors import NkiError
from nki.base.usage import UsageError
from nki.describe import compiler_errors, runtime_errors, vendor_errors
from nki.describe.explanations import about, topics


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
    for code, row in vendor_errors.CODES.items():
        for check in row.checks.split():
            error, _, rule = check.partition("/")
            assert error in NkiError.registry, code
            assert check in about(error) or not rule or rule in about(error), code


def test_each_code_has_one_row() -> None:
    codes = [code for row in (*compiler_errors.ROWS, *runtime_errors.ROWS) for code in row.codes.split()]
    assert len(codes) == len(set(codes)) == len(vendor_errors.CODES)


def test_every_status_of_the_runtime_has_a_row() -> None:
    assert {code for code in vendor_errors.CODES if code.startswith("NRT_")} == set(runtime_errors.STATUS)
    assert all(row.source and row.meaning for row in runtime_errors.ROWS)


@pytest.mark.parametrize("topic", ["NRT_EXEC_OOB", "nrt_exec_oob", "1006", "TDRV:exec_wait_round_robin"])
def test_a_status_and_the_lines_of_its_log(topic: str) -> None:
    text = about(topic)
    assert "NKI-RG005" in text
    assert text.partition(":")[0] in ("NRT_EXEC_OOB", "TDRV")
    assert ("status 1006 of the Neuron runtime" in text) is not topic.startswith("TDRV")


def test_messages_of_collectives() -> None:
    assert about("ENC:validate_neff_cc_ops").startswith("ENC:validate_neff_cc_ops: message of the Neuron runtime")
    assert "issue 779" in about("enc:VALIDATE_neff_cc_ops")


def test_unknown_codes() -> None:
    with pytest.raises(UsageError, match="nothing public is known about NCC_EVRF999"):
        about("NCC_EVRF999")
    for topic in ("NRT_EXEC_OOPS", "TDRV:no_such_function", "ENC:x", "8"):
        with pytest.raises(UsageError, match=f"nothing public is known about {topic}"):
            about(topic)
    for topic in ("NKI-SH001", "nl.load", "nc_matmul", "trn2", "NCC", "nrt"):
        assert not vendor_errors.is_code(topic), topic


def test_the_list_of_topics_has_the_codes() -> None:
    assert "NCC_EVRF066" in topics()
