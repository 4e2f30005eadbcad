"""How mistakes in kernels and on the command line are reported."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from nki.base.version import version
from tests.support.command_line import KERNELS, SHAPE, complaint, dumped


def test_error_of_a_kernel_is_text_without_a_traceback(file, nki):
    ran = nki("run", f"{file}:wrong", "--arg", SHAPE)
    assert ran.code == 1 and ran.out == ""
    assert ran.err.startswith("[NKI-SH001/SE01] tensor_tensor: elements per partition differ")
    assert "kernels.py:" in ran.err and "^^^" in ran.err and "Traceback" not in ran.err


def test_error_of_a_kernel_as_json(file, nki):
    ran = nki("run", f"{file}:wrong", "--arg", SHAPE, "--json")
    assert ran.code == 1 and ran.err == ""
    error = json.loads(ran.out)
    line = KERNELS.splitlines().index("    nisa.tensor_tensor(dst=t, data1=t, data2=t[:, 0:2], op=nl.add)") + 1
    assert error["code"] == "NKI-SH001" and error["rule"] == "SE01" and error["line"] == line
    assert Path(error["file"]).name == "kernels.py" and error["fix"].startswith("cut the larger operand")
    assert error["version"] == version()


def test_several_errors_as_json(file, nki, monkeypatch):
    monkeypatch.setenv("NKI_VERSION", "0.6")  # NKI 0.7 takes all of Python
    error = json.loads(nki("run", f"{file}:unsupported", "--arg", SHAPE, "--json").out)
    assert error["code"] == "NKI-FE000"
    assert {part["code"] for part in error["errors"]} >= {"NKI-FE012", "NKI-FE016"}
    assert all(part["line"] for part in error["errors"])


def test_python_error_in_a_kernel(file, nki):
    ran = nki("run", f"{file}:broken", "--arg", SHAPE)
    assert ran.code == 1 and ran.err.startswith("[NKI-FE041]")


def test_exceptions_of_the_users_module_are_shown_at_their_line(tmp_path, nki):
    # A name of its own: modules that other tests of this process import stay.
    (tmp_path / "fails_at_import.py").write_text("import math\n\nraise ZeroDivisionError('at import')\n")
    ran = nki("run", f"{tmp_path / 'fails_at_import.py'}:kernel")
    assert ran.code == 1 and "ZeroDivisionError: at import" in ran.err and "fails_at_import.py:3" in ran.err
    assert "fails_at_import" not in sys.modules


def test_damaged_files(tmp_path, nki):
    (tmp_path / "a.klir").write_bytes(b"\x81\x00nonsense")
    (tmp_path / "a.nki").write_text("kernel {")
    (tmp_path / "b.nki").write_bytes(b"\xff\xfe\x00")
    for name, code in (("a.klir", "NKI-IR002"), ("a.nki", "NKI-IR001"), ("b.nki", "NKI-IR001")):
        ran = nki("run", str(tmp_path / name))
        assert ran.code == 1 and ran.err.startswith(f"[{code}]"), ran.err


def test_no_command_and_unknown_options(file, nki):
    assert "COMMAND" in complaint(nki())
    assert "KERNEL" in complaint(nki("run"))
    assert "--nonsense" in complaint(nki("run", f"{file}:affine", "--nonsense"))
    assert "--js" in complaint(nki("run", f"{file}:affine", "--arg", SHAPE, "--arg", "1", "--js"))
    assert "KERNEL" in complaint(nki("profile"))
    assert "'profil'" in complaint(nki("profil"))


def test_unknown_kernel_names(file, nki):
    assert "did you mean affine?" in complaint(nki("run", f"{file}:afine", "--arg", SHAPE))
    assert "did you mean both?" in complaint(nki("run", f"{file}:bot"))
    everything = complaint(nki("run", f"{file}:zzz"))
    assert "kernels in the file: affine, tile, both" in everything
    assert "'two' in kernels.py is int" in complaint(nki("run", f"{file}:two"))
    assert "'Config' in kernels.py is type" in complaint(nki("run", f"{file}:Config"))


def test_the_only_kernel_needs_no_name(file, nki):
    assert nki("run", file, "--arg", SHAPE, "--arg", "1.0").code == 0
    Path(file).write_text(KERNELS.replace("def both", "@nki.jit\ndef both"))
    several = complaint(nki("run", file, "--arg", SHAPE))
    assert "2 kernels; say which" in several
    assert f"fix: write one of {file}:affine, {file}:both" in several
    assert "tile" not in several  # a helper is no kernel


def test_missing_files(file, nki):
    assert "did you mean kernels.py?" in complaint(nki("run", "kernel.py:affine"))
    assert "no file nowhere/a.klir" in complaint(nki("run", "nowhere/a.klir"))
    assert "names no kernel" in complaint(nki("run", "kernels"))
    assert "names no kernel" in complaint(nki("dump", "kernels.txt:affine"))
    np.save("weights.npy", np.ones((128, 32), np.float32))
    assert "did you mean weights.npy?" in complaint(nki("run", f"{file}:affine", "--arg", "weigths.npy"))


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("256x1024", "write 256x1024:float32"),
        ("256x1024:flaot32", "did you mean float32"),
        ("256x1024:float64", "not an NKI dtype"),
        ("256x1024:float32:zeroes", "did you mean zeros"),
        ("4x4:float8_e4m3fn_x4:ones", "no fill 'ones'"),
        ("relu", "write \"'relu'\""),
        ("nl.nothing", "SHAPE:DTYPE"),
        ("1 +", "SHAPE:DTYPE"),
        ("open('f')", "accepted are"),
        ("x=", "accepted are"),
    ],
)
def test_malformed_arguments(file, nki, argument, words):
    found = complaint(nki("run", f"{file}:affine", "--arg", argument))
    assert f"--arg {argument}" in found or "no fill" in found
    assert words in found


def test_too_many_too_few_and_unknown_arguments(file, nki):
    assert "missing a required argument: 'factor'" in complaint(nki("run", f"{file}:affine", "--arg", SHAPE))
    four = [part for value in (SHAPE, "1", "2", "3") for part in ("--arg", value)]
    assert "affine(x, factor, shift=1.0): too many" in complaint(nki("run", f"{file}:affine", *four))
    assert "no parameter 'y'" in complaint(nki("run", f"{file}:affine", "--arg", f"y={SHAPE}"))
    assert "twice" in complaint(nki("run", f"{file}:affine", "--arg", "factor=1", "--arg", "factor=2"))


def test_arguments_of_a_compiled_kernel(file, nki):
    dumped(nki, file, "--artifact", "both.klir")
    run = ("run", "both.klir", "--arg")
    assert "pass a=128x32:float32" in complaint(nki(*run, "128x33:float32"))
    assert "pass a=128x32:float32" in complaint(nki(*run, "128x32:bfloat16"))
    assert "input a is a tensor" in complaint(nki(*run, "3"))
    assert "no input 'c'" in complaint(nki(*run, f"c={SHAPE}"))
    assert "both has 2 inputs" in complaint(nki(*run, SHAPE, "--arg", SHAPE, "--arg", SHAPE))
    assert "compiled for trn3" in complaint(nki("run", "both.klir", "--target", "trn2"))
    assert nki("run", "both.klir", "--target", "gen4").code == 0


def test_other_options(file, nki):
    command = ("run", f"{file}:affine", "--arg", SHAPE, "--arg", "1")
    assert "at least once" in complaint(nki(*command, "--repeat", "0"))
    assert "not negative" in complaint(nki(*command, "--seed", "-1"))
    assert "trn1, trn1n" in complaint(nki(*command, "--target", "trn9"))
    assert ".npz" in complaint(nki(*command, "--save", "y.txt"))
    assert "no folder nowhere" in complaint(nki(*command, "--save", "nowhere/y.npy"))
    dump = ("dump", *command[1:])
    assert "did you mean accumulate?" in complaint(nki(*dump, "--after", "acumulate"))
    assert "not allowed with" in complaint(nki(*dump, "--after", "verify", "--llvm"))
    assert "--lines" in complaint(nki(*dump, "--asm", "--lines"))
    assert ".klir" in complaint(nki(*dump, "--artifact", "a.bin"))
    assert ".svg or .html" in complaint(nki(*dump, "--memory", "map.png"))
    assert "no folder nowhere" in complaint(nki(*dump, "--memory", "nowhere/map.svg"))
    assert "--lines" in complaint(nki(*dump, "--memory", "--lines"))
    assert "no folder nowhere" in complaint(nki(*dump, "--artifact", "nowhere/a.klir"))


def test_usage_mistake_as_json(file, nki):
    ran = nki("run", f"{file}:afine", "--json")
    assert ran.code == 2 and ran.err == ""
    error = json.loads(ran.out)
    assert (error["code"], error["severity"], error["version"]) == ("usage", "error", version())
    assert (error["message"], error["fix"]) == ("kernels.py has no kernel 'afine'", "did you mean affine?")
    assert error["file"] is error["line"] is error["column"] is None
