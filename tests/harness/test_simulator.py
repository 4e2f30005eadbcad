"""``nki.simulator``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nki
import nki.simulator
from nki.base.errors import FileImportError
from nki.compilation.launch_errors import DegreeError
from nki.simulator import simulate_kernel, simulate_py
from tests.harness import kernels
from tests.support.fresh_process import finished


@pytest.mark.parametrize("wrap", [lambda f: f, nki.jit], ids=["function", "kernel"])
def test_the_forms_of_the_call(arrays: Any, make: Any, wrap: Any) -> None:
    a, b = map(make, arrays)
    func = wrap(kernels.add)
    results = [
        simulate_kernel(func, (a, b), {}, 1),
        simulate_kernel(func, args=[], kwargs={"a": a, "b": b}, lnc=1),
        simulate_kernel(func, [a, b]),
    ]
    for result in results:
        assert type(result) is type(a)
        assert np.array_equal(np.asarray(result), arrays[0] + arrays[1])


def test_lnc_is_the_number_of_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    a = np.zeros((4, 4), np.float32)
    assert [np.unique(simulate_kernel(kernels.cores, [a], lnc=lnc)) for lnc in (None, 1, 2)] == [1, 1, 2]
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "2")
    assert np.unique(simulate_kernel(kernels.cores, [a])) == 2
    with pytest.raises(DegreeError):
        simulate_kernel(kernels.cores, [a], lnc=1)


def test_calls_can_be_counted(arrays: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    original = nki.simulator.simulate_kernel
    monkeypatch.setattr(nki.simulator, "simulate_kernel", lambda *a, **k: calls.append(a) or original(*a, **k))
    nki.simulator.simulate_kernel(kernels.add, args=list(arrays), kwargs={}, lnc=1)
    assert len(calls) == 1


def test_a_function_of_a_file(arrays: Any, tmp_path: Path) -> None:
    file = tmp_path / "kernel.py"
    file.write_text("from tests.harness.kernels import add\n")
    assert np.array_equal(simulate_py(file, "add", list(arrays)), arrays[0] + arrays[1])
    with pytest.raises(FileImportError, match="defines no 'sub'"):
        simulate_py(str(file), "sub", [])
    with pytest.raises(FileImportError, match="there is no Python file"):
        simulate_py(tmp_path / "other.py", "add", [])


def test_importing_nki_imports_no_entry_point() -> None:
    script = "import sys, nki; print(*sys.modules)"
    loaded = set(finished(script).stdout.split())
    assert (
        not {"nki.framework", "nki.runtime", "nki.simulator", "nki.compiler", "nki.compilation.vendor_options"} & loaded
    )
    assert not [name for name in loaded if name.startswith("nki.harness.")]
