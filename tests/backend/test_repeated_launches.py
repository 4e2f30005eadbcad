"""The plugin that repeats launches notices one wrong bit, also in a NaN and in another process, and leaves none out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.backend.cpu.runtime import launch as native
from nki.base.errors import DeadlockError, NkiError, OutOfBoundsError
from tests.support import repeated_launches, repetition
from tests.support.kernel_parts import returned

ROOT = Path(__file__).parents[2]
X = np.linspace(-2, 2, 128 * 64, dtype=np.float32).reshape(128, 64)


def fresh() -> Any:
    """A kernel without a launch so far: twice ``x``, of (128, 64)."""

    @nki.jit
    def doubled(x):
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(tile, x)
        nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
        return returned(tile)

    return doubled


doubled = fresh()


def repeated(
    x: np.ndarray[Any, Any], expected: np.ndarray[Any, Any], error: NkiError | None = None
) -> repetition.Session:
    """The plugin's notes about a launch on ``x`` with the result ``expected``."""
    session = repetition.Session()
    executable = doubled.compile(x)
    kernel = repetition.Repetition(executable, session)
    arrays = [np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in (x, expected)]
    with repetition.repeating():
        kernel.run(executable, repetition.Launch(arrays[:1], arrays[1:], error=error))
    return session


def test_the_same_bits() -> None:
    session = repeated(X, 2 * X)
    assert not session.differences
    assert session.counts["launches compared with the simulator"] == 1


def test_one_wrong_bit() -> None:
    wrong = 2 * X
    wrong.view(np.uint32)[127, 63] ^= 1
    session = repeated(X, wrong)
    places = [text.split("'out', ")[-1].split(":")[0] for text in session.differences]
    assert places == ["1 threads", "2 threads", "3 threads", "the simulator"]
    assert all("1 of 8192 elements, first 8191" in text for text in session.differences)


def test_the_payload_of_a_nan_counts() -> None:
    x = X.copy()
    x.view(np.uint32)[3, 4] = 0xFFC12345
    expected = 2 * x
    expected[3, 4] = np.nan
    assert not repeated(x, expected).differences
    expected.view(np.uint32)[3, 4] ^= 1
    assert len(repeated(x, expected).differences) == len(repetition.THREADS) + 1


def test_an_error_that_does_not_come_again() -> None:
    session = repeated(X, 2 * X, OutOfBoundsError("index 7"))
    assert [text.split(": ")[1] for text in session.differences] == ["no OutOfBoundsError"] * 4


def test_errors_differ_by_type_and_text() -> None:
    one, other = OutOfBoundsError("index 7"), OutOfBoundsError("index 8")
    difference = repetition.Repetition.difference
    assert difference(one, one, "2 threads", 1) is None
    assert difference(one, other, "2 threads", 1)
    assert difference(one, other, "the simulator", 1) is None
    assert difference(one, DeadlockError("core 1"), "the simulator", 2)
    assert difference(one, None, "the simulator", 1)


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> repetition.Session:
    """A watch of this test's own, whether or not the plugin runs."""
    monkeypatch.setattr(repetition, "session", session := repetition.Session())
    monkeypatch.setattr(native.Executable, "_link", repetition._link)
    monkeypatch.setattr(native.Executable, "launch", repetition._launch)
    return session


def test_each_launch_is_compared_or_has_a_reason(session: repetition.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = fresh()
    for number in (0, 1, 0, 2, 3, 0):
        monkeypatch.setattr(repetition, "BUDGET", 0.0 if number == 3 else 1e9)
        np.testing.assert_array_equal(kernel(X + number), 2 * (X + number))
    monkeypatch.setattr(repetition, "MEGABYTES", 0.0)
    kernel(X)
    assert not session.differences
    counts = session.counts
    assert counts["launches"] == 7
    assert counts["launches compared"] == 5
    assert counts["launches compared on 1, 2 and 3 threads"] == counts["launches compared with the simulator"] == 3
    assert counts["not compared: new inputs, and the time for this kernel is up"] == 1
    assert counts["not compared: too large"] == 1
    assert not any("without an outcome" in line for line in repeated_launches.summary(counts))


def test_a_launch_without_an_outcome_is_in_the_summary() -> None:
    lines = repeated_launches.summary({"launches": 3, "launches compared": 1, "not compared: too large": 1})
    assert lines[-1].split(maxsplit=1) == ["1", "launches without an outcome: interrupted when it was noted"]


def test_other_outputs_on_the_same_inputs(session: repetition.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = fresh()
    kernel(X)
    plain = repetition._first_launch

    def wrong(self: Any, pointers: Any, *more: Any) -> None:
        plain(self, pointers, *more)
        repetition._array(pointers[1], 4)[0] ^= 1

    monkeypatch.setattr(repetition, "_first_launch", wrong)
    kernel(X)
    assert session.differences == ["doubled: another launch on the same inputs had other outputs"]


PLUGGED = """
import os, subprocess, sys
SCRIPT = '''
import os, sys
import numpy as np
from tests.backend import test_repeated_launches as kernels
from tests.support import repetition
if sys.argv[1] == "wrong":
    first = repetition._first_launch
    def launch(self, pointers, *more):
        first(self, pointers, *more)
        if not repetition.is_repeating():
            repetition._array(pointers[1], 4)[0] ^= 1
    repetition._first_launch = launch
if sys.argv[1] == "fork":
    if (child := os.fork()):
        sys.exit(os.waitpid(child, 0)[1])
    kernels.doubled(kernels.X)
    os._exit(0)
kernels.doubled(kernels.X)
'''

def started(how, **more):
    subprocess.run([sys.executable, "-c", SCRIPT, how], check=True, **more)

def test_right():
    started("right")

def test_fork():
    started("fork", env={**os.environ, "PYTHONPATH": os.getcwd()})

def test_wrong():
    started("wrong")

def test_isolated():
    subprocess.run([sys.executable, "-I", "-c", ""], check=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_processes_of_tests_take_part(tmp_path: Path) -> None:
    file = tmp_path / "test_plugged.py"
    file.write_text(PLUGGED)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.support.repeated_launches",
        "-p",
        "no:cacheprovider",
        str(file),
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}
    done = subprocess.run(
        [*command, "-n0", "-q"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert "1 failed, 3 passed" in done.stdout, done.stdout + done.stderr
    assert "doubled, output 'out', the simulator: 1 of 8192 elements, first 0 differ" in done.stdout
    lines = [line.split(maxsplit=1) for line in done.stdout.splitlines() if line[:8].strip().isdigit()]
    counts = {name: int(count) for count, name in lines}
    assert counts["launches"] == counts["launches compared"] == 3
    assert counts["Python processes watched"] == 3
    assert counts["Python processes not watched: without PYTHONPATH"] == 1
