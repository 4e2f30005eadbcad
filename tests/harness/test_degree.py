"""The degree of a launch: brackets, ``NEURON_LOGICAL_NC_CONFIG``, and both."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import nki
from nki.base.errors import GridError
from nki.cli import main
from nki.compilation.launch_errors import DegreeError
from nki.frameworks.backend_config import BackendConfig
from nki.frameworks.numpy import NumPyFrameworkKernel
from tests.harness import kernels

VARIABLE = "NEURON_LOGICAL_NC_CONFIG"


@pytest.fixture
def kernel() -> Any:
    return nki.jit(kernels.cores)


@pytest.fixture(params=["native", "simulate"])
def run(request: pytest.FixtureRequest, make: Any) -> Any:
    def call(kernel: Any) -> int:
        launch = kernel if request.param == "native" else nki.simulate(kernel)
        values = np.unique(np.asarray(launch(make(np.zeros((4, 4), np.float32)))))
        assert values.size == 1
        return int(values[0])

    return call


@pytest.mark.parametrize(
    ("degree", "expected"),
    [(None, 1), ("", 1), ("1", 1), ("2", 2), (" 2 ", 2)],
    ids=["unset", "empty", "1", "2", "spaces"],
)
def test_without_brackets_the_environment_decides(
    monkeypatch: pytest.MonkeyPatch, kernel: Any, run: Any, degree: str | None, expected: int
) -> None:
    if degree is not None:
        monkeypatch.setenv(VARIABLE, degree)
    assert run(kernel) == kernel.lnc == expected


def test_one_kernel_follows_the_environment_from_call_to_call(
    monkeypatch: pytest.MonkeyPatch, kernel: Any, run: Any
) -> None:
    for degree in ("1", "2", "1"):
        monkeypatch.setenv(VARIABLE, degree)
        assert run(kernel) == int(degree)


def test_brackets_alone_decide_and_may_agree(monkeypatch: pytest.MonkeyPatch, kernel: Any, run: Any) -> None:
    assert (run(kernel[1]), run(kernel[2])) == (1, 2)
    monkeypatch.setenv(VARIABLE, "2")
    assert run(kernel[2]) == kernel[2].lnc == 2


@pytest.mark.parametrize(("brackets", "degree"), [(1, "2"), (2, "1")])
def test_brackets_that_contradict_are_an_error(
    monkeypatch: pytest.MonkeyPatch, kernel: Any, run: Any, brackets: int, degree: str
) -> None:
    run(kernel[brackets])
    monkeypatch.setenv(VARIABLE, degree)
    with pytest.raises(DegreeError, match=rf"cores\[{brackets}\] runs on {brackets} core.*{VARIABLE}={degree}"):
        run(kernel[brackets])


@pytest.mark.parametrize("degree", ["0", "3", "two", "1.0", "²"])
def test_other_values_are_an_error(monkeypatch: pytest.MonkeyPatch, kernel: Any, run: Any, degree: str) -> None:
    monkeypatch.setenv(VARIABLE, degree)
    with pytest.raises(GridError, match="one or two cores"):
        run(kernel)


def test_a_target_with_single_cores(monkeypatch: pytest.MonkeyPatch, kernel: Any, run: Any) -> None:
    monkeypatch.setenv(VARIABLE, "2")
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn1")
    with pytest.raises(GridError, match="trn1 runs on at most one core"):
        run(kernel)


def test_graphs_name_the_degree(monkeypatch: pytest.MonkeyPatch, kernel: Any) -> None:
    monkeypatch.setenv(VARIABLE, "2")
    text, _, _ = NumPyFrameworkKernel(func=kernel).dump_config(np.zeros((4, 4), np.float32))
    assert BackendConfig.decode(text).grid == (2,)


@pytest.mark.parametrize("mode", [[], ["--simulate"]], ids=["native", "simulate"])
def test_the_command_follows_the_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], mode: list[str]
) -> None:
    command = ["run", f"{kernels.__file__}:cores", "--arg", "4x4:float32", "--json", *mode]
    instructions: list[int] = []
    for degree in ("1", "2"):
        monkeypatch.setenv(VARIABLE, degree)
        assert main(command) == 0
        instructions.append(json.loads(capsys.readouterr().out)["instructions"])
    assert instructions[1] == 2 * instructions[0]
    assert main([*command, "--target", "trn1"]) == 1
    assert json.loads(capsys.readouterr().out)["code"] == GridError.code
    assert main([*command, "--cores", "1"]) == 1
    assert json.loads(capsys.readouterr().out)["code"] == DegreeError.code
