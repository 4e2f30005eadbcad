"""``nki accuracy``: what it prints, its exit codes, and its errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_line import SHAPE, complaint

NORM = str(Path(__file__).parent.parent.parent / "examples" / "layer_norm.py")
DATA = ("--arg", "128x512:float32:arange", "--target", "trn2")


def test_the_line_is_named_and_the_page_written(file, nki):
    ran = nki("accuracy", f"{NORM}:in_bfloat16", *DATA, "--html", "a.html", "--lines", "2")
    assert ran.code == 0, ran.out + ran.err
    lines = ran.out.splitlines()
    assert lines[0] == "in_bfloat16 on trn2: 11 instructions"
    assert lines[1].endswith("layer_norm.py:35 loses the most: rounds to bfloat16")
    assert "other lines (--lines all shows them)" in ran.out
    assert "store 'mean' in float32 instead of bfloat16" in ran.out
    assert lines[-1] == "a.html: the report for a browser" and Path("a.html").is_file()


def test_kernels_that_part_have_an_exit_code(file, nki):
    same = nki("accuracy", f"{NORM}:by_squares", *DATA, "--bisect", f"{NORM}:by_differences")
    assert same.code == 0 and "the same up to rounding" in same.out
    parted = nki("accuracy", f"{NORM}:by_differences", *DATA, "--bisect", f"{NORM}:with_a_mistake")
    assert parted.code == 1 and "part by more than rounding explains" in parted.out
    assert "nl.mean(nl.square(tile), axis=1)" in parted.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere.py:affine", "--arg", SHAPE), "nowhere.py"),
        (("{file}:affin", "--arg", SHAPE), "has no kernel 'affin'"),
        (("{file}:affine",), "missing"),
        (("{file}:affine", "--arg", SHAPE, "--arg", "2.0", "--seed", "-1"), "--seed -1"),
        (("{file}:affine", "--arg", SHAPE, "--arg", "2.0", "--lines", "none"), "--lines none"),
        (("{file}:affine", "--arg", SHAPE, "--arg", "2.0", "--html", ""), "--html is empty"),
        (("{file}:affine", "--arg", SHAPE, "--arg", "2.0", "--html", "kernels.py"), "the command reads this file"),
        (("{file}:affine", "--arg", SHAPE, "--arg", "2.0", "--html", "no/a.html"), "there is no folder no"),
        (("{file}:affine", "--arg", SHAPE, "--arg", "2.0", "--bisect", "{file}:gone"), "--bisect kernels.py:gone"),
        (
            ("{file}:affine", "--arg", SHAPE, "--arg", "2.0", "--bisect", "{file}:affine", "--html", "a.html"),
            "do not go together",
        ),
    ],
)
def test_wrong_commands(file, nki, arguments, message):
    ran = nki("accuracy", *(each.format(file=file) for each in arguments))
    assert ran.code == 2 and message in complaint(ran), ran.err


def test_wrong_kernels(file, nki):
    ran = nki("accuracy", f"{file}:wrong", "--arg", SHAPE)
    assert ran.code == 1 and "kernels.py" in ran.err and "tensor_tensor" in ran.err
    ran = nki("accuracy", f"{file}:affine", "--arg", SHAPE, "--arg", "2.0", "--bisect", f"{file}:wrong")
    assert ran.code in (1, 2) and "wrong" in ran.err


def test_other_signatures(file, nki):
    ran = nki("accuracy", f"{file}:both", "--arg", SHAPE, "--arg", SHAPE, "--bisect", f"{file}:both")
    assert ran.code == 0, ran.err
