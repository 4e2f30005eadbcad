"""``nki optimise``: what it prints and writes, and its errors."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.command_line import SHAPE, complaint

DRAFT = Path(__file__).parent.parent.parent / "examples" / "first_draft.py"
ARGS = ("--arg", "512x512:bfloat16", "--arg", "128x512:bfloat16", "--target", "trn2")


def test_the_file_changes_only_with_write(tmp_path, nki):
    path = tmp_path / "draft.py"
    shutil.copy(DRAFT, path)
    shown = nki("optimise", str(path), *ARGS)
    assert shown.code == 0, shown.err
    assert "--write does that" in shown.out and "+++ b/" in shown.out
    assert path.read_text() == DRAFT.read_text()
    written = nki("optimise", str(path), *ARGS, "--write")
    assert written.code == 0 and "the file is written" in written.out
    assert path.read_text() != DRAFT.read_text()
    again = nki("optimise", str(path), *ARGS)
    assert again.code == 0 and "no edit makes it faster" in again.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere.py:affine", "--arg", SHAPE), "nowhere.py"),
        (("{file}:affin", "--arg", SHAPE), "has no kernel 'affin'"),
        (("{file}:affine", "--arg", SHAPE, "--arg", "2.0", "--seed", "-1"), "--seed -1"),
        (("{file}:affine", "--arg", SHAPE, "--arg", "2.0", "--seconds", "0"), "--seconds 0"),
        (("{file}:affine", "--arg", SHAPE, "--arg", "2.0", "--error", "0"), "--error 0"),
    ],
)
def test_wrong_commands(file, nki, arguments, message):
    ran = nki("optimise", *(each.format(file=file) for each in arguments))
    assert ran.code == 2 and message in complaint(ran), ran.err


def test_text_has_no_source_to_edit(file, nki, tmp_path):
    artifact = tmp_path / "affine.klir"
    assert nki("dump", f"{file}:affine", "--arg", SHAPE, "--arg", "2.0", "--artifact", str(artifact)).code == 0
    ran = nki("optimise", str(artifact))
    assert ran.code == 2 and "has no source to edit" in complaint(ran)


def test_a_wrong_kernel_is_the_error_of_the_compiler(file, nki):
    ran = nki("optimise", f"{file}:wrong", "--arg", SHAPE)
    assert ran.code == 1 and "kernels.py" in ran.err and "tensor_tensor" in ran.err
