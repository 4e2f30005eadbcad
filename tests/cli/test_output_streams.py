"""The output of a command holds nothing that users' code prints, from wherever it prints."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

PRINTS = """\
import atexit
import ctypes
import os
import subprocess
import sys
import threading
import time


def later():
    time.sleep(0.3)
    print("thread")


def everywhere():
    print("print")
    sys.__stdout__.write("stream\\n")
    os.write(1, b"descriptor\\n")
    ctypes.CDLL(None).puts(b"library")
    subprocess.run(["echo", "child"], check=True)
    threading.Thread(target=later).start()
    atexit.register(print, "exit")


everywhere()
"""
WORDS = ("print", "stream", "descriptor", "library", "child", "thread", "exit")
BETA1 = f"""\
{PRINTS}
import numpy as np

import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


@nki.jit
def doubled(x):
    everywhere()
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x) * 2.0)
    return out


if __name__ == "__main__":
    print("main")
    doubled(np.ones((8, 16), np.float32))
"""
TODAY = BETA1.replace("neuronxcc.nki", "nki").replace("import nki as nki", "import nki").replace(
    "nl.load(x) * 2.0", "nl.multiply(nl.load(x), 2.0)"
)  # fmt: skip


def ran(*words: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([sys.executable, "-m", "nki", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    missing = [word for word in WORDS if word not in done.stderr.split("\n")]
    assert missing == [], done.stderr
    return done


@pytest.fixture
def beta1(tmp_path: Path) -> Path:
    path = tmp_path / "printing.py"
    path.write_text(BETA1)
    return path


def test_a_migrated_file_is_python_and_gives_the_same(beta1: Path, tmp_path: Path) -> None:
    new = ran("migrate", str(beta1)).stdout
    assert new.startswith("import atexit\n")
    ast.parse(new)
    assert "nl.multiply(nl.load(x), 2.0)" in new


def test_a_difference_is_one(beta1: Path) -> None:
    lines = ran("migrate", str(beta1), "--diff").stdout.split("\n")
    assert [line for line in lines if not line.startswith(("---", "+++", "@@", " ", "+", "-")) and line] == []


@pytest.mark.parametrize("words", [("run", "--json"), ("profile", "--json"), ("check", "--json")])
def test_json_is_json(words: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "printing.py"
    path.write_text(TODAY)
    given = [str(path)] if words[0] == "check" else [f"{path}:doubled", "--arg", "8x16:float32"]
    json.loads(ran(words[0], *given, *words[1:]).stdout)


def test_a_dump_begins_with_the_program(tmp_path: Path) -> None:
    path = tmp_path / "printing.py"
    path.write_text(TODAY)
    text = ran("dump", f"{path}:doubled", "--arg", "8x16:float32").stdout
    assert not set(WORDS) & set(text.split("\n"))
