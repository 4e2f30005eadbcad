"""Kernels inside others that share a ``compile_config``, and such that disagree: each command gives the same answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nki
from nki.compilation.launch_errors import NestedConfigError
from tests.support.command_line import SHAPE, Ran

KERNELS = """
import nki
import nki.language as nl
from nki.compiler import CompileConfig

OPTIONS = {"compile_config": CompileConfig(non_ssa_legalization=True)}

@nki.jit(**OPTIONS)
def load(a):
    return nl.load(a)

def outer(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, load(a))
    return out

agree = nki.jit(outer, **OPTIONS)
differ = nki.jit(outer)
"""
COMMANDS = {
    "run": ("run",),
    "run on the simulator": ("run", "--simulate"),
    "check": ("check",),
    "dump": ("dump",),
    "profile": ("profile",),
}
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "call": lambda kernel, a: kernel(a),
    "simulate": lambda kernel, a: nki.simulate(kernel)(a),
    "profile": lambda kernel, a: nki.profile(kernel)(a),
    "compile": lambda kernel, a: kernel.compile(a),
}


@pytest.fixture
def kernels(file: str) -> str:
    Path(file).write_text(KERNELS)
    return file


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_know_the_configuration_around_a_nested_kernel(
    nki: Callable[..., Ran], kernels: str, command: str
) -> None:
    run, *options = COMMANDS[command]
    agree, differ = (nki(run, f"{kernels}:{name}", "--arg", SHAPE, *options) for name in ("agree", "differ"))
    assert agree.code == 0, agree.err
    assert differ.code == 1
    assert NestedConfigError.code in differ.out + differ.err


def test_the_kernels_of_a_file_are_compiled_with_their_configurations(nki: Callable[..., Ran], kernels: str) -> None:
    Path(kernels).write_text(called := f"{KERNELS}\nimport numpy as np\nagree(np.ones((4, 4), np.float32))\n")
    assert nki("check", kernels).code == 0
    Path(kernels).write_text(f"{called}differ(np.ones((4, 4), np.float32))\n")
    assert NestedConfigError.code in nki("check", kernels).out


@pytest.mark.parametrize("call", CALLS)
def test_calls_know_the_configuration_around_a_nested_kernel(kernels: str, call: str) -> None:
    names: dict[str, Any] = {"__name__": "nested"}
    exec(compile(Path(kernels).read_text(), kernels, "exec"), names)
    a = np.ones((4, 4), np.float32)
    CALLS[call](names["agree"], a)
    with pytest.raises(NestedConfigError, match="'load', which becomes a part of its caller"):
        CALLS[call](names["differ"], a)
