"""The command as a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from nki.base.version import version
from nki.cli import main
from nki.compilation.pipeline import STAGES

ROOT = Path(__file__).parent.parent.parent


def run_python(*arguments: str, **more) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, **more)


def test_help_lists_the_commands_that_exist_and_imports_no_framework():
    script = """
import sys
from nki.cli import main
try:
    main(["--help"])
finally:
    print(*sorted({name.partition(".")[0] for name in sys.modules} & {"torch", "torch_xla", "jax", "jaxlib"}))
"""
    run = run_python("-W", "error", "-c", script)
    assert run.returncode == 0, run.stderr
    assert re.findall(r"^    (\w+) ", run.stdout, re.MULTILINE) == [
        "run",
        "profile",
        "prove",
        "accuracy",
        "optimise",
        "verify",
        "check",
        "sweep",
        "tune",
        "migrate",
        "dump",
        "explain",
        "cache",
        "info",
    ]
    assert run.stdout.endswith("\n\n")


def test_a_profile_loads_neither_executor():
    script = """
import sys
from nki.cli import main
code = main(["profile", "examples/rms_normalise.py", "--arg", "128x512:float32", "--target", "trn2"])
print(code, *sorted(name for name in sys.modules if name.startswith(("llvmlite", "nki.backend", "http.server"))))
"""
    run = run_python("-c", script, cwd=ROOT)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[-1] == "0"


def test_module_and_version():
    run = run_python("-m", "nki", "--version")
    assert run.returncode == 0 and run.stdout == f"open-nki {version()}\n"


def test_help_names_the_stages(nki, capsys):
    with pytest.raises(SystemExit) as left:
        main(["dump", "--help"])
    assert left.value.code == 0
    assert ", ".join(["specialise", *(stage.name for stage in STAGES)]) in " ".join(capsys.readouterr().out.split())


def test_a_closed_pipe_is_no_error(file):
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "nki", "explain"]
    run = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert run.returncode == 0 and run.stderr == ""


@pytest.mark.parametrize("command", [["explain"], ["run", "nothing.py", "--json"]])
def test_output_that_cannot_be_written_is_one_line(command: list[str]) -> None:
    ours = [sys.executable, "-m", "nki", *command]
    with open("/dev/full", "w") as full:
        run = subprocess.run(ours, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (run.returncode, run.stderr) == (2, "nki: the output cannot be written: No space left on device\n")
    shell = ["sh", "-c", 'exec "$@" >&-', "sh", *ours]
    run = subprocess.run(shell, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (2, "nki: the standard output is closed\n")


def test_a_closed_error_output_is_no_error(file: str) -> None:
    command = [sys.executable, "-m", "nki", "run", f"{file}:affine", "--arg", "128x32:float32", "--arg", "2.0"]
    shell = ["sh", "-c", 'exec "$@" 2>&-', "sh", *command]
    run = subprocess.run(shell, stdout=subprocess.PIPE, text=True, check=False)
    assert run.returncode == 0 and "affine on trn3" in run.stdout
