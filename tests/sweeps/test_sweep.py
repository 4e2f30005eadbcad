"""Sweeps: outcomes, executors, workers that die, and what is kept."""

from __future__ import annotations

import hashlib
import json
import os
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

import nki
from nki.base.errors import GridError
from nki.base.sweep_errors import BadReferenceError, ExecutorError, FailedPointsError, SpaceError, WrongResultError
from nki.profiling.kernel_profile import profile
from nki.sweeps.record import HOST_FIELDS
from nki.sweeps.run import sweep
from nki.sweeps.table import page
from nki.workload.arguments import parse
from tests.sweeps import kernels

FILE = str(Path(kernels.__file__))
SPACE = {
    "vary": {"n": [8, 16], "fill": ["random", "wide"]},
    "arguments": {"x": "4x{n}:float32:{fill}", "factor": [2.0, 3.0]},
    "seeds": 2,
}


def facts(table):
    """The rows without what differs from run to run."""
    return [{name: value for name, value in row.items() if name not in HOST_FIELDS} for row in table.rows]


class Here(Executor):
    """Calls at once, in this process."""

    def submit(self, fn, /, *args, **kwargs):
        future: Future = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def test_every_point_is_compiled_run_judged_and_timed():
    table = sweep(kernels.scaled, SPACE, reference=kernels.reference, executor=Here())
    assert len(table) == 16 and table.failed == 0 and table.check() is table and table.judged
    assert [row["values"] for row in table.rows[:3]] == [
        {"n": 8, "fill": "random", "factor": 2.0}, {"n": 8, "fill": "random", "factor": 2.0},
        {"n": 8, "fill": "random", "factor": 3.0},
    ]  # fmt: skip
    for row in table.rows:
        assert row["status"] == "ok" and row["error"] < 1e-7 and row["instructions"] == 3 and row["run_seconds"] > 0
        assert row["latency_min"] <= row["latency"] <= row["latency_max"]
    assert len({row["sha256"] for row in table.rows}) == 16
    first = table.rows[0]
    x = parse("4x8:float32")[1].array(0, 0)
    assert first["sha256"] == hashlib.sha256((x * np.float32(2)).tobytes()).hexdigest()[:16]


def test_the_predicted_time_is_the_profiles():
    table = sweep(kernels.scaled, {"arguments": {"x": "4x64:float32"}, "targets": ["trn2"]}, executor=Here())
    found = profile(kernels.scaled, "trn2")(np.zeros((4, 64), np.float32))
    [row] = table.rows
    assert (row["latency"], row["latency_min"], row["latency_max"]) == (found.latency, *found.interval)


def test_processes_threads_and_packed_programs_find_the_same(tmp_path):
    """Processes read the user's file; other workers get the program as data."""
    in_processes = sweep(f"{FILE}:scaled", SPACE, reference="reference", processes=2, results=tmp_path / "a")
    packed = sweep(kernels.scaled, SPACE, reference="reference", executor=Here(), results=tmp_path / "b")
    with ThreadPoolExecutor(2) as pool:
        in_threads = sweep(kernels.scaled, SPACE, reference="reference", executor=pool, results=tmp_path / "c")
    assert facts(in_processes) == facts(packed) == facts(in_threads)


def test_kinds_of_failure():
    space = {
        "arguments": {"x": ["4x8:float32", "200x8:float32"], "factor": [2.0, 4.0]},
        "cores": [1, 2],
        "targets": ["trn1"],
    }
    table = sweep(kernels.scaled, space, reference=kernels.wrong_from_3, executor=Here())
    found = {(f.status, f.code, len(f.rows)) for f in table.failures}
    assert found == {("refused", GridError.code, 4), ("refused", "NKI-SH002", 2), ("wrong", "NKI-SW005", 1)}
    [refused] = [f for f in table.failures if f.code == "NKI-SH002"]
    text = Path(FILE).read_text().splitlines()
    assert refused.file == FILE and "tile = nl.ndarray" in text[refused.line - 1]
    with pytest.raises(FailedPointsError, match="7 of 8 points fail"):
        table.check()
    only_wrong = sweep(
        kernels.scaled,
        {"arguments": {"x": "4x8:float32", "factor": 4.0}},
        reference=kernels.wrong_from_3,
        executor=Here(),
    )
    with pytest.raises(WrongResultError, match=r"off by .*, tolerance .*; 32 of 32 elements are wrong"):
        only_wrong.check()


def test_hazards_are_found():
    [row] = sweep(kernels.unwritten, {"arguments": {"x": "4x8:float32"}}, executor=Here()).rows
    assert row["status"] == "hazard" and row["code"].startswith("NKI-HZ") and row["file"] == FILE


def test_exceptions_of_the_kernel_belong_to_its_point():
    [row] = sweep(kernels.raising, {"arguments": {"x": "4x8:float32"}}, executor=Here()).rows
    assert row["status"] in ("raised", "refused") and row["file"] == FILE and row["line"]


def test_times_that_depend_on_data_are_times_of_each_point(tmp_path):
    np.save(tmp_path / "three.npy", np.full((1, 1), 3, np.int32))
    np.save(tmp_path / "nine.npy", np.full((1, 1), 9, np.int32))
    files = [str(tmp_path / "three.npy"), str(tmp_path / "nine.npy")]
    table = sweep(kernels.counted, {"arguments": {"x": "4x8:float32:ones", "rounds": files}}, executor=Here())
    three, nine = table.check().rows
    assert three["depends_on_data"] and three["latency"] < nine["latency"]


@pytest.mark.parametrize(
    ("reference", "status", "message"),
    [
        (lambda x, factor: x @ x, "reference", "raises ValueError"),
        (lambda x, factor: (x, x), "reference", "returns 2 results, the kernel 1"),
        (lambda x, factor: x[0], "reference", "returns shape (8,)"),
        (lambda x, factor: x * factor * np.where(x > 0, np.nan, 1), "wrong", "the reference says nan"),
        (lambda x, factor: x * factor + 1e-9, "ok", ""),
    ],
)
def test_references(reference, status, message):
    [row] = sweep(
        kernels.scaled, {"arguments": {"x": "4x8:float32", "factor": 2.0}}, reference=reference, executor=Here()
    ).rows
    assert row["status"] == status and message in row["message"], row


@pytest.mark.parametrize("name", ["nothing", "none.py:reference", "no.such.module.f"])
def test_references_that_are_not_there(name):
    with pytest.raises(BadReferenceError):
        sweep(kernels.scaled, SPACE, reference=name, executor=Here())


def test_references_of_pytorch_and_jax():
    torch = pytest.importorskip("torch")
    space = {"arguments": {"x": "4x8:float32", "factor": 2.0}}
    sweep(kernels.scaled, space, reference=lambda x, factor: torch.add(x, x), executor=Here()).check()
    jax = pytest.importorskip("jax")
    sweep(kernels.scaled, space, reference=lambda x, factor: jax.numpy.multiply(x, factor), executor=Here()).check()
    sweep(
        kernels.scaled, {"arguments": {"x": "4x8:float32", "factor": -1.0}}, reference="numpy.negative", executor=Here()
    ).check()


def test_tolerances():
    space = {"arguments": {"x": "4x8:float32:ones", "factor": 2.0}}
    off = {"reference": lambda x, factor: x * factor * 1.01, "executor": Here()}
    assert sweep(kernels.scaled, space, **off).failed == 1
    assert sweep(kernels.scaled, {**space, "tolerance": 0.02}, **off).failed == 0
    assert sweep(kernels.scaled, {**space, "tolerance": {"relative": 0.005, "absolute": 0.02}}, **off).failed == 0
    assert sweep(kernels.scaled, {**space, "tolerance": {"relative": 0.005}}, **off).failed == 1


@hypothesis.given(st.integers(0, 15), st.integers(1, 15))
@hypothesis.settings(max_examples=6)
def test_a_stopped_sweep_goes_on_with_the_same_table(tmp_path_factory, first, second):
    """Ctrl-C after some points, twice: what was done is kept, and the table is as if nothing had stopped it."""
    whole = facts(sweep(kernels.scaled, SPACE, reference=kernels.reference, executor=Here()))
    folder = tmp_path_factory.mktemp("results")

    def stopping(limit):
        def progress(done, _):
            if done >= limit:
                raise KeyboardInterrupt

        return progress

    kept = []
    for limit in (first, first + second):
        with pytest.raises(KeyboardInterrupt):
            sweep(
                kernels.scaled,
                SPACE,
                reference=kernels.reference,
                executor=Here(),
                results=folder,
                progress=stopping(min(limit, 16)),
            )
        kept.append(sum(1 for _ in folder.rglob("*.json")))
        assert kept[-1] >= min(limit, 16)
    table = sweep(kernels.scaled, SPACE, reference=kernels.reference, executor=Here(), results=folder)
    assert sum(row["kept"] for row in table.rows) == kept[-1]
    assert facts(table) == whole


def test_what_changes_runs_again(tmp_path):
    def run(**changes):
        table = sweep(
            kernels.scaled, {**SPACE, **changes}, reference=kernels.reference, executor=Here(), results=tmp_path
        )
        return sum(row["kept"] for row in table.rows), len(table)

    assert run() == (0, 16)
    assert run() == (16, 16)
    assert run(seeds=3) == (16, 24)
    assert run(tolerance=0.5) == (0, 16)
    for file in list(tmp_path.rglob("*.json"))[::2]:
        file.write_text(json.dumps({"status": "ok"}) if file.name[0] < "8" else "{")
    kept, all_points = run()
    assert kept < all_points == 16


def test_what_cannot_be_kept_is_said(tmp_path):
    named = sweep(kernels.scaled, SPACE, reference=kernels.reference, executor=Here(), results=tmp_path)
    assert named.unkept == 0 and "will run again" not in str(named)
    unnamed = sweep(kernels.scaled, SPACE, reference=lambda x, factor: x * factor, executor=Here(), results=tmp_path)
    assert unnamed.unkept == 16 and "  16 points will run again: " in str(unnamed)


def test_results_are_data(tmp_path):
    sweep(kernels.scaled, SPACE, executor=Here(), results=tmp_path)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == 16 and all(set(json.loads(path.read_text())) >= {"status", "latency"} for path in files)


def test_a_killed_worker_loses_nothing(tmp_path, monkeypatch):
    """A worker dies in the middle; what it had, and what others had, is run again."""
    monkeypatch.setenv("SWEEP_MARKER", str(tmp_path / "marker"))
    space = {"arguments": {"x": "4x8:float32", "factor": [float(n) for n in range(1, 13)]}}
    table = sweep(f"{FILE}:scaled", space, reference="killing_once", processes=2, results=tmp_path / "results")
    assert (tmp_path / "marker").exists()
    assert [row["status"] for row in table.rows] == ["ok"] * 12
    assert sum(1 for _ in (tmp_path / "results").rglob("*.json")) == 12


def test_a_point_that_kills_its_worker_twice_is_found_out(tmp_path):
    space = {"arguments": {"x": "4x8:float32", "factor": [1.0, 2.0, 3.0, 4.0]}, "seeds": 2}
    table = sweep(f"{FILE}:scaled", space, reference="killing", processes=2, results=tmp_path)
    assert [row["status"] for row in table.rows] == ["ok"] * 4 + ["lost"] * 2 + ["ok"] * 2
    assert {row["code"] for row in table.rows if row["status"] == "lost"} == {"NKI-SW006"}
    assert sum(1 for _ in tmp_path.rglob("*.json")) == 6, "a lost point is not kept: it may have been the machine"


class Ending(Here):
    """Ends after some calls."""

    def __init__(self, calls):
        self.calls = calls

    def submit(self, fn, /, *args, **kwargs):
        self.calls -= 1
        if self.calls < 0:
            raise RuntimeError("cannot schedule new futures after shutdown")
        return super().submit(fn, *args, **kwargs)


def test_an_executor_that_ends_keeps_what_is_done(tmp_path):
    space = {"vary": {"n": {"from": 1, "to": 60}}, "arguments": {"x": "4x{n}:float32"}}
    with pytest.raises(ExecutorError, match=r"the executor \(Ending\) ended before the sweep"):
        sweep(kernels.scaled, space, executor=Ending(40), results=tmp_path)
    assert sum(1 for _ in tmp_path.rglob("*.json")) >= 8
    assert sum(row["kept"] for row in sweep(kernels.scaled, space, executor=Here(), results=tmp_path).rows) >= 8


def test_the_kernels_parameters():
    with pytest.raises(SpaceError, match="nothing for parameter 'x'"):
        sweep(kernels.scaled, {"arguments": {"factor": 2.0}}, executor=Here())
    with pytest.raises(SpaceError, match="no parameter 'fator'"):
        sweep(kernels.scaled, {"arguments": {"x": "4x8:float32", "fator": 2.0}}, executor=Here())
    with pytest.raises(SpaceError, match="'flot32' is not an NKI dtype"):
        sweep(kernels.scaled, {"arguments": {"x": "4x8:flot32"}}, executor=Here())


def test_files_of_the_table(tmp_path):
    table = sweep(kernels.scaled, SPACE, executor=Here())
    parquet = pytest.importorskip("pyarrow.parquet")
    read = parquet.read_table(table.to_parquet(tmp_path / "t.parquet")).to_pydict()
    assert read["values.n"] == [row["values"]["n"] for row in table.rows]
    assert read["latency"] == [row["latency"] for row in table.rows] and read["status"] == ["ok"] * 16
    html = table.to_html(tmp_path / "t.html").read_text()
    assert html == page(table) and html.count("<tr") == 17 and "<script" not in html
    assert str(table).startswith("scaled: 16 points, 16 ok, no reference")


def test_a_kernel_without_a_file_of_its_own_is_swept_too():
    @nki.jit
    def inner(x):
        return kernels.scaled(x, 3.0)

    assert sweep(inner, {"arguments": {"x": "4x8:float32"}}, reference=lambda x: 3 * x, executor=Here()).check()


def test_this_process_keeps_its_environment():
    before = dict(os.environ)
    sweep(kernels.scaled, {"arguments": {"x": "4x8:float32"}, "releases": ["0.6", "0.7"]}, executor=Here()).check()
    assert dict(os.environ) == before
