"""The parts of the acceptance run: sample, journal, packed numbers, pairs, validators, limits of time."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nki.language as nl
from tools.acceptance import journal, number_types
from tools.acceptance.comparisons import reads_its_argument, reread
from tools.acceptance.launches import DifferentBitsError, check_bits
from tools.acceptance.library import Test as Case
from tools.acceptance.library import kernel_of, sample
from tools.acceptance.pairwise import all_pairs
from tools.acceptance.phases import Phases, TimeLimitError
from tools.acceptance.workers import CHUNK, chunks

CASES = [
    Case(f"integration/nkilib/core/{kernel}/test_{kernel}.py::test[{number}]", platform, number % 2 == 0)
    for kernel, count in (("attention", 60), ("cumsum", 4), ("rope", 1))
    for number in range(count)
    for platform in ("trn2", "trn3")
]


def test_a_sample_holds_every_stratum_and_depends_on_the_seed_alone() -> None:
    drawn = sample(CASES, 20, seed=1)
    assert len(set(drawn)) == 20
    assert {case.stratum for case in drawn} == {case.stratum for case in CASES}
    shuffled = list(CASES)
    random.Random(0).shuffle(shuffled)
    assert sample(shuffled, 20, seed=1) == drawn
    assert sample(CASES, 20, seed=2) != drawn
    assert set(sample(CASES, 10**6, seed=1)) == set(CASES)
    assert sample(CASES, 30, seed=1)[:20] == drawn, "a larger sample goes on where the smaller one ends"


def test_a_model_configuration_counts_for_its_kernel() -> None:
    assert kernel_of("integration/nkilib/core/mlp/test_mlp_tkg_model_config.py::A::test[1]") == "core/mlp/mlp_tkg"


def test_a_process_runs_tests_of_one_file_and_platform() -> None:
    made = chunks(CASES)
    assert sorted(itertools.chain(*made)) == sorted(CASES)
    assert all(len({(case.file, case.platform) for case in chunk}) == 1 for chunk in made)
    assert max(map(len, made)) == CHUNK


def test_small_tests_come_first() -> None:
    sizes = [Case(f"a.py::test[{ends}]", "trn2", True).size_class for ends in ("", "4-2_x", "512-512", "8192-8192-64")]
    assert sizes[0] == sizes[1] < sizes[2] < sizes[3]


def test_the_journal_ignores_torn_lines_and_keeps_the_last_record(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    one = {"id": "a", "platform": "trn2", "library": "L", "ours": "O", "outcome": "failed"}
    journal.append(path, one)
    path.write_text(path.read_text() + '{"id": "b", "platf')
    journal.append(path, one | {"outcome": "passed"})
    journal.append(path, one | {"ours": "P", "id": "c"})
    assert journal.finished(path, "L", "O") == {("trn2", "a"): one | {"outcome": "passed"}}
    assert set(journal.finished(path, "L", None)) == {("trn2", "a"), ("trn2", "c")}
    assert journal.finished(path, "another", None) == {}


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "float4_e2m1fn"])
def test_packed_numbers_come_back(name: str) -> None:
    values = np.arange(16, dtype=np.uint8).view(np.dtype(getattr(ml_dtypes, name))).astype(np.float32).reshape(2, 8)
    packed = number_types.static_cast(values, getattr(nl, f"{name}_x4"))
    assert packed.shape == (2, 2)
    assert packed.dtype == np.dtype(getattr(nl, f"{name}_x4"))
    np.testing.assert_array_equal(number_types.static_cast(packed, np.float32), values)
    word = int(packed.view(packed.dtype.fields and f"<u{packed.itemsize}")[0, 0])
    bits = 4 if name.startswith("float4") else 8
    assert [word >> bits * place & (1 << bits) - 1 for place in range(4)] == [0, 1, 2, 3], "the lowest bits first"


def test_bfloat16_by_name_and_floating_point() -> None:
    assert number_types.static_cast(np.ones(3, np.float32), "bfloat16").dtype == ml_dtypes.bfloat16
    assert number_types.is_float_type(ml_dtypes.float8_e4m3)
    assert not number_types.is_float_type(np.int32)


def test_pairs_that_the_filter_allows_are_covered() -> None:
    parameters: list[list[Any]] = [[1, 2, 3], ["a", "b"], [True, False], [None]]

    def allowed(case: list[Any]) -> bool:
        return not (case[0] == 1 and case[1] == "b")

    cases = all_pairs(parameters, allowed)
    assert all(map(allowed, cases))
    assert len(cases) < 12
    for i, j in itertools.combinations(range(4), 2):
        wanted = {(a, b) for a in parameters[i] for b in parameters[j]} - ({(1, "b")} if (i, j) == (0, 1) else set())
        assert {(case[i], case[j]) for case in cases} == wanted


class Blind:
    def validate(self, inference_output: object) -> bool:
        return True


class Seeing:
    def validate(self, inference_output: object) -> bool:
        return (lambda: inference_output)() is not None


def test_a_validator_that_reads_nothing_is_no_evidence() -> None:
    assert not reads_its_argument(Blind)
    assert reads_its_argument(Seeing)


def test_results_are_read_with_the_dtype_and_shape_of_the_test() -> None:
    words = np.arange(6, dtype=np.uint32).reshape(2, 3)
    np.testing.assert_array_equal(reread(words, np.float32, (3, 2)), words.view(np.float32).reshape(3, 2))
    with pytest.raises(ValueError, match="the reference"):
        reread(words, np.float32, (7,))


def test_bits_of_executors_are_compared_and_not_values() -> None:
    check_bits([[np.array([np.nan])]], [[np.array([np.nan])]])
    with pytest.raises(DifferentBitsError, match="1 of 4 bytes"):
        check_bits([[np.array([0.0], np.float32)]], [[np.array([-0.0], np.float32)]])
    with pytest.raises(DifferentBitsError):
        check_bits([[np.zeros(2, np.float32)]], [[np.zeros(2, np.int32)]])


def work_forever(clock: Phases) -> None:
    clock.enter("inputs", 60)
    clock.enter("run")
    while True:
        try:
            sum(range(1000))
        except Exception:  # the library's tests of refusals do
            return


def test_a_phase_over_its_limit_is_stopped_though_the_test_expects_an_exception() -> None:
    seen: list[str] = []
    clock = Phases(0.05, seen.append)
    with pytest.raises(TimeLimitError, match="run"):
        work_forever(clock)
    clock.end()
    assert seen == ["inputs", "run"]
    assert set(clock.seconds) == {"inputs", "run"}
