"""``nl.device_print``: the same text from compiled code and from the simulator, and the files that it writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base import tensor_text
from tests.support.kernel_parts import returned


@nki.jit
def chatty(x, rounds):
    tile = nl.load(x, dtype=nl.bfloat16)

    def body(i):
        nisa.tensor_scalar(tile, tile, nl.add, 1.0)
        nl.device_print("tile", tile[:, 1:3])
        nl.device_print("../round: i", i)

    nl.fori_loop(0, rounds, body)
    nl.device_print("input", x)
    return returned(tile)


X = np.arange(6, dtype=np.float32).reshape(2, 3)
TEXT = """\
tile [core 0, iteration 0] bfloat16[2, 2]
[[2. 3.]
 [5. 6.]]
../round: i [core 0, iteration 0] int32[1, 1]
[[0]]
tile [core 0, iteration 1] bfloat16[2, 2]
[[3. 4.]
 [6. 7.]]
../round: i [core 0, iteration 1] int32[1, 1]
[[1]]
input [core 0, iteration 0] float32[2, 3]
[[0. 1. 2.]
 [3. 4. 5.]]
"""


@pytest.fixture(autouse=True)
def _from_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor_text, "_rounds", type(tensor_text._rounds)())
    monkeypatch.delenv("NEURON_RT_DEBUG_OUTPUT_DIR", raising=False)


@pytest.mark.parametrize("run", [lambda k: k, nki.simulate], ids=["native", "eager"])
def test_prints_whenever_the_kernel_gets_there(run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    got = run(chatty)(X, 2)
    assert capsys.readouterr().out == TEXT
    np.testing.assert_array_equal(got.astype(np.float32), X + 2)
    run(chatty)(X, 0)
    assert capsys.readouterr().out.splitlines()[0] == "input [core 0, iteration 1] float32[2, 3]"


@pytest.mark.parametrize("run", [lambda k: k, nki.simulate], ids=["native", "eager"])
def test_writes_files_into_its_folder_only(run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "inner" / "output"
    monkeypatch.setenv("NEURON_RT_DEBUG_OUTPUT_DIR", str(folder))
    run(chatty)(X, 2)
    written = {str(p.relative_to(tmp_path)): np.load(p) for p in tmp_path.rglob("*.npy")}
    place = "inner/output/{}/core_0/{}/tensor.npy"
    assert sorted(written) == sorted(
        [place.format(name, i) for name in ("tile", "_round_i") for i in range(2)] + [place.format("input", 0)]
    )
    np.testing.assert_array_equal(written[place.format("tile", 1)], np.array([[3, 4], [6, 7]], np.float32))
    np.testing.assert_array_equal(written[place.format("_round_i", 1)], np.array([[1]], np.int32))
    np.testing.assert_array_equal(written[place.format("input", 0)], X)


@nki.jit
def one_of_many(x, column):
    """A print through a run-time index shows what the index points at."""
    tile, index = nl.load(x), nl.load(column)
    chosen = tile.select(1, index)
    nl.device_print("chosen", chosen)
    return returned(chosen)


@pytest.mark.parametrize("run", [lambda k: k, nki.simulate], ids=["native", "eager"])
def test_follows_run_time_indices(run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run(one_of_many)(X, np.array([[2]], np.int32))
    assert capsys.readouterr().out == "chosen [core 0, iteration 0] float32[2, 1]\n[[2.]\n [5.]]\n"
