"""``nki check`` proposes numbers for parameters that are no tensors, and assumes them to find what is always wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

KERNEL = """
import math
import nki
import nki.isa as nisa
import nki.language as nl

@nki.jit
def kernel(x, {parameter}):
    t = nl.load(x)
    {lines}
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, t)
    return out
"""


@pytest.fixture
def check(nki: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NEURON_PLATFORM_TARGET_OVERRIDE", raising=False)

    def check(parameter: str, lines: str, *options: str) -> Any:
        (tmp_path / "file.py").write_text(KERNEL.format(parameter=parameter, lines=lines))
        return json.loads(nki("check", "file.py", *options, "--json").out)

    return check


NUMBERS = [
    ("n", "for i in range(n): nisa.tensor_scalar(t, t, nl.add, 1.0)", "4"),
    ("n", "for i in range(0, 2 * n + 1): pass", "4"),
    ("n", "u = nl.zeros((128, n), nl.float32)", "4"),
    ("n", "u = t[:, 0:n]", "4"),
    ("n", "u = x.shape[1] // n", "4"),
    ("n", "if n > 3: pass", "4"),
    ("n", "while n % 2 == 0: n += 1", "4"),
    ("n", "u = nl.load(x[nl.ds(n, 8), :])", "4"),
    ("n", "u = x.reshape((n, -1))", "4"),
    ("scale", "u = 1.0 / math.sqrt(scale)", "1.0"),
    ("rate", "assert rate > 0.5", "1.0"),
    ("causal", "if causal and x.shape[0] == 128: pass", "True"),
    ("causal", "u = 1 if not causal else 2", "True"),
]


@pytest.mark.parametrize(("parameter", "line", "value"), NUMBERS)
def test_a_number_is_proposed(check: Callable[..., Any], parameter: str, line: str, value: str) -> None:
    (skipped,) = check(parameter, line)["not_compiled"]
    assert skipped["reason"] == f"nothing in the file shows the shape of x and the value of {parameter}"
    assert skipped["arguments"] == f"--arg x=128x512:float32 --arg {parameter}={value}"


@pytest.mark.parametrize(
    "line",
    [
        "for i in range(y.shape[0]): pass",
        "nisa.tensor_scalar(t, t, nl.add, y)",
        "if y.shape[0] > 3: pass",
        "u = nl.load(y); v = t[:, 0:4] if y is None else u",
        "u = nl.load(y[0:4])",
        "u = nl.load(y); v = 1 if y > 0 else 2",
        "u = nl.load(y[0:8, :]); v = y % 2",
        "if y == 'row': pass",
        "if y is None: pass",
    ],
)
def test_no_number_where_the_source_does_not_say_so(check: Callable[..., Any], line: str) -> None:
    (skipped,) = check("y", line)["not_compiled"]
    assert skipped["arguments"] == "--arg x=128x512:float32 --arg y=128x512:float32"


def test_the_proposed_command_compiles(check: Callable[..., Any]) -> None:
    line = "for i in range(n): nisa.tensor_scalar(t, t, nl.add, 1.0)"
    (skipped,) = check("n", line)["not_compiled"]
    options = skipped["arguments"].split()
    assert not check("n", line, *options)["not_compiled"]


def test_a_kernel_that_is_wrong_for_any_count(check: Callable[..., Any]) -> None:
    (found,) = check("n", "for i in range(n): t = t + 1.0")["findings"]
    assert found["code"] == "NKI-TN003"
    assert found["message"].endswith("(with x assumed as 128x512:float32, n as 4)")
