"""``nki verify``: exit codes, sizes, constants by name, mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

REFERENCES = """
def affine(x, factor, shift):
    return x * factor + shift
"""


@pytest.fixture
def reference(file: str) -> str:
    Path("references.py").write_text(REFERENCES)
    return "references.py:affine"


def test_a_right_kernel_passes_at_all_sizes(file, reference, nki):
    sizes = ("--arg", "{M}x64:float32", "--sizes", "M=1,128")
    ran = nki("verify", f"{file}:affine", reference, *sizes, *("--arg", "2.0", "--arg", "shift=0.5", "--seeds", "1"))
    assert ran.code == 0, ran.out
    assert "1x64:float32" in ran.out and "128x64:float32" in ran.out
    assert "same bits as a call: a program of a few lines" in ran.out


def test_a_wrong_kernel_fails(file, reference, nki):
    Path("references.py").write_text(REFERENCES.replace("+ shift", "- shift"))
    ran = nki("verify", f"{file}:affine", reference, "--arg", "8x64:float32", "--arg", "2.0", "--arg", "shift=0.5")
    assert ran.code == 1 and "FAIL results, random" in ran.out, ran.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--sizes", "M=few"), "write NAME=128, NAME=1,7,128 or NAME=1:300"),
        (("--special", "odd"), "special: there is no 'odd'"),
        (("--target", "trn9"), "trn9"),
    ],
)
def test_mistakes_say_what_to_write(file, reference, nki, words, said):
    ran = nki("verify", f"{file}:affine", reference, "--arg", "8x64:float32", "--arg", "2.0", *words)
    assert ran.code != 0 and said in ran.out + ran.err
