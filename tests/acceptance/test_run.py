"""`make acceptance` on a library of our own: causes, resumption, and a table that counts real comparisons only."""

from __future__ import annotations

import fcntl
import json
from collections import Counter
from pathlib import Path

import pytest

from tests.acceptance import miniature_library
from tools.acceptance.__main__ import main

CAUSES = {
    "test_wrong": "values differ from the reference",
    "test_assertion": "the kernel's own assertion",
    "test_of_the_library": "the library's test: KeyError",
    "test_crash": "crash of the process: SIGKILL",
    "test_unwritten": "NKI-HZ001 UnwrittenReadError",
    "test_zeros_that_nothing_writes": "values of elements that the kernel never writes",
    "test_wrong_beside_unwritten": "values differ from the reference",
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return miniature_library.write(tmp_path_factory.mktemp("library"))


@pytest.fixture(scope="module")
def out(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of one run of all tests."""
    folder = tmp_path_factory.mktemp("out")
    assert run(library, folder) == 1, "tests failed, and so does the run"
    return folder


def run(library: Path, out: Path, *options: str) -> int:
    return main([str(library), "--out", str(out), "--platform", "trn2", "--jobs", "1", "--memory", "8", *options])


def journal(out: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (out / "journal.jsonl").read_text().splitlines()]


def test_every_failure_has_its_cause(out: Path) -> None:
    causes = {r["id"].rpartition("::")[2]: r["cause"] for r in journal(out) if r["outcome"] == "failed"}
    assert causes == CAUSES


def test_the_table_counts_comparisons(out: Path) -> None:
    table = json.loads((out / "table.json").read_text())
    double, faults = table["rows"]
    assert (double["kernel"], double["collected"], double["run"]) == ("core/double/double", 9, 9)
    assert double["compared"] == 6, "three of test_right, the wrong one, the seeing validator and the ranks"
    assert (double["right"], double["refusals"], double["uncompared"]) == (5, 1, 2)
    assert double["both"] == 5, "small launches run in the simulator, too"
    assert (faults["compared"], faults["right"]) == (5, 2)
    assert Counter(faults["skipped"]) == {
        "skipped by the library: no device": 1,
        "expected by the library: values differ from the reference": 1,
    }
    assert double["sbuf"] == 32 * 4
    assert all(double["latency"]["trn2"])
    assert {"record", "compile", "run", "reference"} == set(double["seconds"])
    text = (out / "table.md").read_text()
    assert "1 values of elements that the kernel never writes" in text
    assert "Do not fit on chip, and spill: 1 passed" in text
    assert "with OPEN_NKI_HAZARDS=0: 1 passed" in text


def test_a_run_goes_on_behind_a_power_cut(library: Path, out: Path, tmp_path: Path) -> None:
    for path in out.glob("collected-*"):
        (tmp_path / path.name).write_text(path.read_text())
    lines = (out / "journal.jsonl").read_text().splitlines(keepends=True)
    kept = "".join(lines[:-2]) + lines[-2][: len(lines[-2]) // 2]  # the cut came in the middle of a line
    (tmp_path / "journal.jsonl").write_text(kept)
    assert run(library, tmp_path) == 1
    after = (tmp_path / "journal.jsonl").read_text()
    assert after.startswith(kept), "nothing is written again"
    new = [json.loads(line)["id"] for line in after[len(kept) :].splitlines() if line]
    assert sorted(new) == sorted(json.loads(line)["id"] for line in lines[-2:])
    rows = [json.loads((folder / "table.json").read_text())["rows"] for folder in (out, tmp_path)]
    assert [row["right"] for row in rows[0]] == [row["right"] for row in rows[1]]


def test_another_commit_of_the_library_runs_again(library: Path, out: Path, tmp_path: Path) -> None:
    changed = miniature_library.write(tmp_path / "library")
    (changed / "src/nkilib_src/nkilib/changed.py").touch()
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "journal.jsonl").write_text((out / "journal.jsonl").read_text())
    assert run(changed, folder, "--only", "test_right") == 0
    assert len(journal(folder)) == len(journal(out)) + 3


def test_a_second_run_into_the_folder_is_refused(
    library: Path, out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in out.glob("collected-*"):
        (tmp_path / path.name).write_text(path.read_text())
    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert run(library, tmp_path) == 2
    assert "another run" in capsys.readouterr().err


def test_a_folder_without_the_library_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, tmp_path / "out") == 2
    assert "no checkout of nki-library" in capsys.readouterr().err
