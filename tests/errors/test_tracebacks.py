"""An uncaught error shows the user's own line and call, not the insides of the compiler; NKI_DEBUG=1 shows all."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import traceback
from pathlib import Path

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.errors import NkiError, TensorOperatorError
from nki.frontend.frontend_errors import KernelPythonError

SCRIPT = """
import numpy as np, nki, nki.isa as nisa, nki.language as nl

def helper(tile):
    nisa.tensor_tensor(tile, tile, tile, op=np.add)

@nki.jit
def kernel(a):
    tile = nl.load(a)
    helper(tile)
    return tile

kernel(np.zeros((4, 4), np.float32))
"""


def uncaught(tmp_path: Path, **environment: str) -> str:
    file = tmp_path / "script.py"
    file.write_text(textwrap.dedent(SCRIPT))
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, env={**env(), **environment})
    assert done.returncode == 1
    return done.stderr


def env() -> dict[str, str]:
    import os

    return {k: v for k, v in os.environ.items() if not k.startswith("NKI_")}


@pytest.mark.parametrize("simulator", ["0", "1"])
def test_what_a_user_sees(tmp_path: Path, simulator: str) -> None:
    text = uncaught(tmp_path, NKI_SIMULATOR=simulator)
    assert "nki.base.errors.ArgumentError: [NKI-AR001] tensor_tensor: op must be an operator" in text
    assert "write `nisa.tensor_tensor(tile, tile, tile, op=nl.add)`" in text
    assert "script.py:5" in text and "called from" in text and "script.py:10" in text
    frames = [line for line in text.splitlines() if line.startswith('  File "')]
    assert len(frames) == 2 and "script.py" in frames[0] and "jit.py" in frames[1], text
    assert "During handling" not in text and "direct cause" not in text


def test_the_knob_shows_everything(tmp_path: Path) -> None:
    text = uncaught(tmp_path, NKI_DEBUG="1")
    assert "specialise.py" in text and "pipeline.py" in text and "script.py:5" in text


@nki.jit
def breaks(a):
    tile = nl.load(a)
    nisa.memset(tile, 1 // (a.shape[0] - 4))
    return tile


@nki.jit
def adds(a):
    return nl.load(a) + 1.0


A = np.zeros((4, 4), np.float32)


@pytest.mark.parametrize("run", [adds, nki.simulate(adds), adds.compile], ids=["call", "simulate", "compile"])
def test_no_frame_of_the_compiler(run):
    with pytest.raises(TensorOperatorError) as caught:
        run(A)
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert [Path(f.filename).name for f in frames] == [Path(__file__).name, "jit.py"]
    assert caught.value.span is not None
    assert caught.value.span.file == __file__


def test_an_exception_of_the_kernels_own_code_stays_the_cause():
    with pytest.raises(KernelPythonError, match="ZeroDivisionError") as caught:
        breaks(A)
    cause = caught.value.__cause__
    assert isinstance(cause, ZeroDivisionError)
    assert {f.filename for f in traceback.extract_tb(cause.__traceback__)} == {__file__}


def test_the_same_error_can_be_met_again():
    seen = set()
    for _ in range(3):
        with pytest.raises(NkiError) as caught:
            adds(A)
        seen.add(str(caught.value))
        assert len(traceback.extract_tb(caught.value.__traceback__)) == 2
    assert len(seen) == 1
