"""``nki sweep`` and ``nki tune``: what they print, and their errors."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from nki.cli.output import schema
from tests.support.json_validator import mistakes
from tests.sweeps import kernels

SCHEMA = schema.json_schema()
FILE = str(Path(kernels.__file__))
SPACE = """
reference = "reference"
[arguments]
x = "4x{n}:float32"
factor = [2.0, 3.0]
[vary]
n = [8, 200]
"""


@pytest.fixture
def space(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "space.toml").write_text(SPACE)
    return "space.toml"


def test_sweep_prints_its_table_and_writes_files(space, nki):
    ran = nki(
        "sweep", f"{FILE}:scaled", "--space", space, "--out", "kept", "--html", "t.html", "--parquet", "t.parquet"
    )
    assert ran.code == 0, ran.out + ran.err
    lines = ran.out.splitlines()
    assert lines[0] == "scaled: 4 points, 4 ok"
    assert lines[2].split() == ["n", "factor", "target", "seed", "predicted", "interval", "native", "error"]
    assert lines[3].split()[:3] == ["200", "2.0", "trn3"] and lines[-2:] == ["t.html: 4 rows", "t.parquet: 4 rows"]
    assert Path("t.html").is_file() and Path("t.parquet").is_file()
    again = nki("sweep", f"{FILE}:scaled", "--space", space, "--out", "kept", "--rows", "1")
    assert again.out.splitlines()[0] == "scaled: 4 points, 4 ok (4 kept from before)"
    assert again.out.splitlines()[-1] == "  … and 3 faster ones; --rows all, --html or --parquet has them"


def test_sweep_as_json_follows_the_schema_and_fails_if_a_point_does(space, nki):
    words = (
        "sweep",
        f"{FILE}:scaled",
        "--space",
        space,
        "--out",
        "kept",
        "--json",
        "--target",
        "trn1",
        "--target",
        "trn2",
    )
    ran = nki(*words, "--reference", "wrong_from_3", "--seeds", "2")
    shown = json.loads(ran.out)
    assert ran.code == 0 and not list(mistakes(shown, SCHEMA["$defs"]["sweep"], SCHEMA)), ran.out
    assert (
        shown["points"] == 16 and shown["failed"] == 0 and {row["target"] for row in shown["rows"]} == {"trn1", "trn2"}
    )
    Path(space).write_text(SPACE.replace("3.0]", "4.0]"))
    ran = nki(*words, "--reference", f"{FILE}:wrong_from_3")
    shown = json.loads(ran.out)
    assert ran.code == 1 and shown["failed"] == 4 and not list(mistakes(shown, SCHEMA["$defs"]["sweep"], SCHEMA))
    [failure] = shown["failures"]
    assert (
        failure["code"] == "NKI-SW005"
        and failure["points"] == 4
        and failure["first"] == ["x=4x8:float32", "factor=4.0"]
    )


def test_tune_prints_the_winner(space, nki):
    Path(space).write_text('targets = ["trn2"]\n[arguments]\nx = "64x256:float32"\nparts = [1, 2, 4]\n')
    ran = nki("tune", f"{FILE}:scaled", "--space", space, "--out", "kept")
    assert ran.code == 0 and ran.out.startswith("scaled on trn2: parts="), ran.out + ran.err
    ran = nki("tune", f"{FILE}:scaled", "--space", space, "--out", "kept", "--json")
    shown = json.loads(ran.out)
    assert not list(mistakes(shown, SCHEMA["$defs"]["tune"], SCHEMA)), ran.out
    [choice] = shown["choices"]
    assert choice["tried"] == 3 and choice["exhaustive"] and choice["least"] <= choice["seconds"] <= choice["most"]


@pytest.mark.parametrize(
    ("command", "words", "message"),
    [
        ("sweep", ("--rows", "some"), "--rows some: this is no number of rows"),
        ("sweep", ("--seeds", "0"), "--seeds 0: there is at least one"),
        ("sweep", ("--processes", "0"), "--processes 0: there is at least one"),
        ("sweep", ("--target", "trn9"), "--target: target 'trn9' does not exist"),
        ("sweep", ("--html", "none/t.html"), "--html none/t.html: there is no folder none"),
        ("sweep", ("--parquet", "."), "--parquet .: this is no file"),
        ("sweep", ("--dask", "0"), "--dask 0: a cluster has at least one worker"),
        ("sweep", ("--dask", "tcp://127.0.0.1:1"), "--dask tcp://127.0.0.1:1: there is no scheduler"),
        ("sweep", ("--sapce", "x"), "--sapce"),
        ("tune", ("--trials", "0"), "--trials 0: a search tries at least one configuration"),
        ("tune", ("--by", "luck"), "--by"),
    ],
)
def test_wrong_options(space, nki, command, words, message):
    ran = nki(command, f"{FILE}:scaled", "--space", space, *words)
    assert ran.code == 2 and message in ran.err and ran.out == "", ran.err


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('[arguments]\nx = "4x8:float32"\nfaktor = 2.0\n', "NKI-SW001"),
        ('where = "n > 9"\n[vary]\nn = [8]\n[arguments]\nx = "4x{n}:float32"\n', "NKI-SW002"),
        ('reference = "refrence"\n[arguments]\nx = "4x8:float32"\n', "NKI-SW004"),
        ("[arguments\n", "NKI-SW001"),
    ],
)
def test_wrong_spaces(space, nki, text, code):
    Path(space).write_text(text)
    ran = nki("sweep", f"{FILE}:scaled", "--space", space)
    assert ran.code == 1 and ran.err.startswith(f"[{code}]")


def test_a_compiled_program_has_no_space(space, nki):
    nki("dump", f"{FILE}:scaled", "--arg", "4x8:float32", "--artifact", "k.klir")
    ran = nki("sweep", "k.klir", "--space", space)
    assert ran.code == 2 and "k.klir is a compiled program" in ran.err


def test_a_reference_that_raises_is_named_with_its_point(space, nki):
    Path("raises.py").write_text("def broken(x, factor):\n    return x @ x\n")
    ran = nki("sweep", f"{FILE}:scaled", "--space", space, "--reference", "raises.py:broken", "--out", "kept")
    assert ran.code == 1 and "4 points reference  NKI-SW004" in ran.out and "'broken' raises ValueError" in ran.out


def test_ctrl_c_keeps_what_is_done(space):
    """A real process gets a real SIGINT."""
    Path(space).write_text(SPACE.replace("[8, 200]", "{ from = 1, to = 400 }"))
    Path("slow.py").write_text(
        textwrap.dedent(
            """
            import time

            def slow(x, factor):
                time.sleep(0.1)
                return x * factor
            """
        )
    )
    words = [sys.executable, "-m", "nki", "sweep", f"{FILE}:scaled", "--space", space, "--out", "kept"]
    words += ["--reference", "slow.py:slow", "--processes", "2"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        limit = time.monotonic() + 120
        while sum(1 for _ in Path("kept").rglob("*.json")) < 4 and time.monotonic() < limit:
            time.sleep(0.05)
        process.send_signal(2)
        _, err = process.communicate(timeout=120)
    kept = sum(1 for _ in Path("kept").rglob("*.json"))
    assert process.returncode == 130 and 4 <= kept < 800
    assert "800 points are done; the same command goes on from there" in err and "nki: interrupted" in err, err
