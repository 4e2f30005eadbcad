"""``nki run --where``: the host's time by line and by routine, and the number of calls into Python."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nki.backend.cpu.runtime.entry_times import EntryTime, EntryTimes
from tests.support.command_line import report

SOURCE = """
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def looped(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)

    def inner(_):
        nisa.activation(tile, nl.tanh, tile)

    def outer(_):
        nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
        nl.fori_loop(0, 3, inner)

    nl.fori_loop(0, 5, outer)
    nl.device_print("tile", tile[0:1, 0:2])
    nl.store(out, tile)
    return out
"""
LINES = {text: number for number, text in enumerate(map(str.strip, SOURCE.splitlines()), 1)}


@pytest.fixture
def looped(file: str) -> str:
    with open("looped.py", "w", encoding="utf-8") as kernels:
        kernels.write(SOURCE)
    return "looped.py"


def test_calls_are_those_of_one_run(looped, nki):
    command = ("run", looped, "--arg", "128x256:float32", "--repeat", "4", "--json")
    plain, timed = report(nki(*command)), report(nki(*command, "--where"))
    assert timed["outputs"] == plain["outputs"]
    assert "where" not in plain
    where = timed["where"]
    calls = {entry["line"]: entry["calls"] for entry in where["lines"]}
    assert calls[LINES["nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)"]] == 5
    assert calls[LINES["nisa.activation(tile, nl.tanh, tile)"]] == 15
    assert calls[LINES["nl.store(out, tile)"]] == 1
    assert not calls.keys() & {number for text, number in LINES.items() if "fori_loop" in text}
    assert where["python_calls"] == 1
    assert sum(entry["calls"] for entry in where["routines"]) == sum(calls.values())


def test_times_are_measured_and_add_up(looped, nki):
    where = report(nki("run", looped, "--arg", "128x4096:float32", "--json", "--where"))["where"]
    for kind in ("lines", "routines"):
        times = [entry["nanoseconds"] for entry in where[kind]]
        assert sum(times) == pytest.approx(where["nanoseconds"])
        assert times == sorted(times, reverse=True) and all(time > 0 for time in times)


def test_the_slow_line_is_first(looped, nki, monkeypatch: pytest.MonkeyPatch):
    """With times that the test invents: a real clock depends on what else the machine does."""
    rows = EntryTimes.entries

    def invented(times: EntryTimes) -> list[EntryTime]:
        slow = {"activation": 700, "tensor_scalar": 300}
        return [
            replace(row, nanoseconds=row.calls * slow.get(row.inst.mnemonic if row.inst else "", 10))
            for row in rows(times)
        ]

    monkeypatch.setattr(EntryTimes, "entries", invented)
    command = ("run", looped, "--arg", "128x256:float32", "--repeat", "4", "--json", "--where")
    where = report(nki(*command))["where"]
    lines = [(entry["line"], entry["nanoseconds"]) for entry in where["lines"]]
    assert lines[:2] == [
        (LINES["nisa.activation(tile, nl.tanh, tile)"], 15 * 700),
        (LINES["nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)"], 5 * 300),
    ]
    assert all(time == 10 for _, time in lines[2:])
    assert where["routines"][0]["routine"].startswith("activation ")
    assert where["routines"][0]["nanoseconds"] == 15 * 700


def test_text(looped, nki):
    lines = nki("run", looped, "--arg", "128x256:float32", "--where").out.splitlines()
    assert any(line.endswith(" in native routines, 1 call into Python") for line in lines)
    number = LINES["nisa.activation(tile, nl.tanh, tile)"]
    (shown,) = [line for line in lines if line.startswith(f"  looped.py:{number} ")]
    assert "15  nisa.activation(tile" in shown


def test_several_cores(file, nki):
    command = ("run", f"{file}:affine", "--arg", "128x32:float32", "--arg", "2.0", "--json", "--cores", "2")
    once = report(nki(*command[:-2], "--where"))["where"]
    both = report(nki(*command, "--where"))["where"]
    assert sum(e["calls"] for e in both["lines"]) == 2 * sum(e["calls"] for e in once["lines"])


def test_the_simulator_has_no_routines(looped, nki):
    ran = nki("run", looped, "--arg", "128x32:float32", "--where", "--simulate")
    assert ran.code == 2 and "--where" in ran.err


FUSED = """
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def fused(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    twice = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.sbuf)
    result = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(twice, tile, nl.multiply, 2.0)
    nisa.activation(result, nl.tanh, twice)
    nl.store(out, result)
    return out
"""


def test_instructions_that_share_a_loop_have_one_time(file, nki):
    with open("fused.py", "w", encoding="utf-8") as kernels:
        kernels.write(FUSED)
    command = ("run", "fused.py", "--arg", "128x256:float32", "--where")
    first, last = (number for number, line in enumerate(FUSED.splitlines(), 1) if "twice," in line or "tanh" in line)
    (entry,) = report(nki(*command, "--json"))["where"]["lines"]
    assert (entry["line"], entry["with"], entry["calls"]) == (last, [first], 1)
    (shown,) = [line for line in nki(*command).out.splitlines() if line.startswith(f"  fused.py:{last} ")]
    assert shown.endswith(f"(one loop with line {first})") and "nisa.activation(" in shown
