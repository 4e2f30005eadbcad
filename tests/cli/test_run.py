"""``nki run``: what it computes and prints."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import numpy as np

from nki.base.version import version
from tests.support.command_line import KERNELS, SHAPE, complaint, report


def test_run_reports_shapes_checksums_times_and_counts(file, nki):
    ran = nki("run", f"{file}:affine", "--arg", SHAPE, "--arg", "2.0")
    assert ran.code == 0 and ran.err == ""
    lines = ran.out.splitlines()
    assert lines[0] == "specialising for (128, 32)"
    assert lines[1] == "affine on trn3: 3 instructions, 1 native routine"
    assert re.fullmatch(r"  input  x  float32\[128,32\]  sha256 [0-9a-f]{16}  sum -?[\d.]+", lines[2])
    assert re.fullmatch(r"  output y  float32\[128,32\]  sha256 [0-9a-f]{16}  sum -?[\d.]+", lines[3])
    number = r"[\d.]+ (s|ms|µs)"
    assert re.fullmatch(rf"  compiled in {number} \({number} to specialise, {number} to native code\)", lines[4])
    assert re.fullmatch(rf"  ran in {number} \(median of 5\)", lines[5])
    assert len(lines) == 6


def test_run_computes_what_numpy_does(file, nki, tmp_path):
    x = np.random.default_rng(7).standard_normal((128, 32), np.float32)
    np.save("x.npy", x)
    found = report(nki("run", f"{file}:affine", "--arg", "x.npy", "--arg", "2.0", "--json", "--save", "y.npy"))
    y = x * np.float32(2) + np.float32(1)
    np.testing.assert_array_equal(np.load("y.npy"), y)
    assert found["outputs"][0]["sum"] == float(y.astype(np.float64).sum())
    assert found["outputs"][0]["shape"] == [128, 32]
    assert found["kernel"] == "affine" and found["target"] == "trn3" and found["version"] == version()
    assert found["executor"] == "native" and found["instructions"] == 3 and found["runs"] == 5


def test_json_is_alone_on_stdout(file, nki):
    ran = nki("run", f"{file}:affine", "--arg", SHAPE, "--arg", "2.0", "--json")
    assert report(ran)["kernel"] == "affine"
    assert ran.err == "specialising for (128, 32)\n"


def test_simulation_agrees_with_native_code(file, nki, monkeypatch):
    command = ("run", f"{file}:both", "--arg", "128x9:bfloat16", "--arg", "128x9:bfloat16", "--json")
    native = report(nki(*command))
    simulated = report(nki(*command, "--simulate"))
    monkeypatch.setenv("NKI_SIMULATOR", "1")
    chosen = report(nki(*command))
    assert native["outputs"] == simulated["outputs"] == chosen["outputs"]
    assert simulated["executor"] == chosen["executor"] == "simulator"
    assert simulated["routines"] is None and simulated["runs"] == 1


def test_seed_decides_random_arguments(file, nki):
    def outputs(*more):
        return report(nki("run", f"{file}:affine", "--arg", SHAPE, "--arg", "2.0", "--json", *more))["outputs"]

    assert outputs() == outputs() == outputs("--seed", "0")
    assert outputs() != outputs("--seed", "1")


def test_tensors_of_one_shape_differ(file, nki):
    a, b = report(nki("run", f"{file}:both", "--arg", SHAPE, "--arg", SHAPE, "--json"))["inputs"]
    assert a["sha256"] != b["sha256"]


def test_arguments_by_name_in_any_order(file, nki):
    plain = report(nki("run", f"{file}:affine", "--arg", SHAPE, "--arg", "3", "--arg", "-2.5", "--json"))
    named = ("--arg", "shift=-2.5", "--arg", f"x={SHAPE}", "--arg", "factor=3")
    assert report(nki("run", f"{file}:affine", *named, "--json"))["outputs"] == plain["outputs"]


def test_constants_of_all_kinds(file, nki):
    more = ("--arg", "op=nl.multiply", "--arg", 'text="it\'s"', "--arg", "pair=(1, 2)")
    made = ("--arg", f"{SHAPE}:arange", "--arg", f"{SHAPE}:ones")
    a, b = report(nki("run", f"{file}:both", *made, *more, "--json"))["outputs"]
    assert a["sum"] == sum(range(128 * 32)) and b["sum"] == 128 * 32


def test_target_is_chosen(file, nki, monkeypatch):
    command = ("run", f"{file}:affine", "--arg", SHAPE, "--arg", "2.0", "--json")
    assert report(nki(*command, "--target", "trn1"))["target"] == "trn1"
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")
    assert report(nki(*command))["target"] == "trn2"


def test_results_of_several_outputs_are_saved_by_name(file, nki):
    command = ("run", f"{file}:both", "--arg", f"{SHAPE}:ones", "--arg", f"{SHAPE}:arange", "--save")
    assert nki(*command, "r.npz").code == 0
    saved = np.load("r.npz")
    np.testing.assert_array_equal(saved["copy"], np.arange(128 * 32, dtype=np.float32).reshape(128, 32))
    np.testing.assert_array_equal(saved["total"], saved["copy"] + 1)
    assert "both has 2 outputs" in complaint(nki(*command, "r.npy"))


def test_saved_bfloat16_is_read_back(file, nki):
    first = nki("run", f"{file}:affine", "--arg", "128x32:bfloat16", "--arg", "2.0", "--save", "y.npy", "--json")
    again = nki("run", f"{file}:affine", "--arg", "y.npy:bfloat16", "--arg", "2.0", "--json")
    assert report(again)["inputs"][0]["sha256"] == report(first)["outputs"][0]["sha256"]
    assert "raw elements of 2 bytes" in complaint(nki("run", f"{file}:affine", "--arg", "y.npy", "--arg", "2.0"))


def test_infinite_sums_are_valid_json(file, nki):
    found = report(nki("run", f"{file}:affine", "--arg", SHAPE, "--arg", "1.0", "--arg=inf", "--json"))
    assert found["outputs"][0]["sum"] == "inf"


def test_file_runs_inside_its_package(tmp_path, nki, monkeypatch):
    package = tmp_path / "outer" / "inner"
    package.mkdir(parents=True)
    (tmp_path / "outer" / "__init__.py").write_text("")
    (package / "__init__.py").write_text("")
    (package / "beside.py").write_text("TWO = 2\n")
    (package / "kernels.py").write_text(KERNELS.replace("from beside", "from .beside"))
    path = list(sys.path)
    assert nki("run", f"{package / 'kernels.py'}:affine", "--arg", SHAPE, "--arg", "1.0").code == 0
    assert sys.path == path
    assert "outer.inner.kernels" in sys.modules


def test_file_named_like_a_module_in_use(tmp_path, nki):
    (tmp_path / "json.py").write_text(KERNELS.replace("from beside import TWO", "TWO = 2"))
    assert nki("run", f"{tmp_path / 'json.py'}:affine", "--arg", SHAPE, "--arg", "1.0").code == 0
    assert sys.modules["json"] is json


def test_edited_file_is_read_again(file, nki):
    command = ("run", f"{file}:affine", "--arg", f"{SHAPE}:ones", "--arg", "1.0", "--json")
    assert report(nki(*command))["outputs"][0]["sum"] == 2 * 128 * 32
    Path(file).write_text(KERNELS.replace("shift=1.0", "shift=20.0"))
    assert report(nki(*command))["outputs"][0]["sum"] == 21 * 128 * 32


def test_progress_only_on_a_terminal(file, nki, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    assert nki("run", f"{file}:affine", "--arg", "128x37:float32", "--arg", "2.0").code == 0
    assert "compiling [........................] 0/1 routines" in shown.getvalue()
    assert shown.getvalue().endswith("\r\x1b[K")


def test_two_cores(tmp_path, nki):
    file = tmp_path / "cores.py"
    file.write_text(CORES, encoding="utf-8")
    command = ("run", f"{file}:number", "--arg", "1x1:float32", "--json")
    for extra, total in ((), 21), (("--cores", "2"), 41), (("--cores", "2", "--simulate"), 41):
        assert report(nki(*command, *extra))["outputs"][0]["sum"] == total
    assert "core 1 {" in nki("dump", *command[1:4], "--cores", "2").out
    assert "--cores 2: a kernel on trn1 runs on at most 1 core\n" in complaint(
        nki(*command[:4], "--cores", "2", "--target", "trn1")
    )


CORES = """
import nki
import nki.language as nl


@nki.jit
def number(x):
    out = nl.ndarray((1, 2), dtype=x.dtype, buffer=nl.shared_hbm)
    cores = [nl.program_id(0)] if nl.num_programs() > 1 else [0, 1]
    for core in cores:
        nl.store(out[:, core : core + 1], nl.full((1, 1), 10.0 * nl.num_programs() + core, dtype=x.dtype))
    return out
"""


CHANGING = """
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def put(cache, x):
    tile = nl.load(x)
    nisa.dma_copy(dst=cache, src=tile)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out
"""


def test_an_input_that_changes_is_an_output_beside_the_result(nki, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "put.py").write_text(CHANGING)
    kernel = (f"{tmp_path / 'put.py'}:put", "--arg", "4x8:float32", "--arg", "4x8:float32")
    for kind in ((), ("--simulate",), ("--check",)):
        found = report(nki("run", *kernel, "--json", "--save", "y.npz", *kind))
        cache, x = found["inputs"]
        assert [each["name"] for each in found["outputs"]] == ["out", "cache"] and cache["sha256"] != x["sha256"]
        assert {each["sha256"] for each in found["outputs"]} == {x["sha256"]}
        assert sorted(np.load("y.npz")) == ["cache", "out"]
    assert nki("run", *kernel, "--save", "y.npy").code == 0 and np.load("y.npy").shape == (4, 8)
    dumped = nki("dump", *kernel, "--after", "specialise").out
    assert "  return out changes cache\n" in dumped
    (tmp_path / "put.nki").write_text(dumped)
    assert report(nki("run", str(tmp_path / "put.nki"), "--json"))["outputs"] == found["outputs"]
