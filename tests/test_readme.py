"""The program in the README runs as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools.release import first_program

README = Path(__file__).parent.parent / "README.md"


def test_first_kernel(tmp_path: Path) -> None:
    file = tmp_path / "first.py"  # a kernel needs a source file
    file.write_text(first_program(README.read_text(encoding="utf-8")), encoding="utf-8")
    run = subprocess.run(
        [sys.executable, "-W", "error", str(file)], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert run.returncode == 0, run.stderr
    label, _, deviation = run.stdout.strip().rpartition(": ")
    assert label == "largest deviation from NumPy"
    # Values reach 5; the sum of 512 squares, rsqrt and two products cost a few units in the last place of float32.
    assert 0 <= float(deviation) < 5e-6


TRAINING = Path(__file__).parent.parent / "docs" / "training.md"
LANGUAGE = README.parent / "docs" / "language.md"
USES = {
    "add_up": """
x = np.arange(40, dtype=np.float32).reshape(10, 4)
for rows in range(11):
    for run in (add_up, nki.simulate(add_up)):
        np.testing.assert_array_equal(run(x, np.array([[rows]], np.int32)), x[:rows].sum(axis=0, keepdims=True))
""",
    "every_second": """
x = np.arange(40, dtype=np.float32).reshape(10, 4)
for run in (every_second, nki.simulate(every_second)):
    out, doubled = run(x, np.array([[4]], np.int32))
    np.testing.assert_array_equal(out, np.concatenate([x[:8:2], np.zeros((6, 4))]))
    assert doubled.item() == 8
""",
    "scale_in_place": """
for run in (scale_in_place, nki.simulate(scale_in_place)):
    x = np.arange(40, dtype=np.float32).reshape(10, 4)
    assert run(x, 3.0).ctypes.data == x.ctypes.data
    np.testing.assert_array_equal(x, 3 * np.arange(40).reshape(10, 4))
""",
    "step": """
w, g = np.linspace(-1, 1, 40, dtype=np.float32).reshape(10, 4), np.ones((10, 4), np.float32)
for rate in (1.0 / (n + 1) for n in range(40)):
    new = step(w, g, rate, 0.5)
    np.testing.assert_array_equal(new, nki.simulate(step)(w, g, rate, 0.5))
    np.testing.assert_allclose(new, w * (1 - rate * 0.01) - rate * 0.5, rtol=1e-5, atol=1e-6)
assert len(step._executables) == 1
""",
    "square_chosen": """
import os

os.environ["NEURON_PLATFORM_TARGET_OVERRIDE"] = "trn3"
table, lists = np.full((128, 64), 3, np.float32), np.arange(256, dtype=np.uint16).reshape(128, 2) % 32
for run in (square_chosen, nki.simulate(square_chosen)):
    np.testing.assert_array_equal(run(table, lists), np.tile(np.repeat([9, 3], 32), (128, 1)))
""",
}


@pytest.mark.parametrize("kernel", USES)
def test_the_kernels_of_the_language_page(tmp_path: Path, kernel: str) -> None:
    programs = re.findall(r"^```python\n(.*?)^```$", LANGUAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(programs) == len(USES)
    (program,) = [found for found in programs if f"def {kernel}(" in found]
    imports = "import numpy as np\n\nimport nki\nimport nki.isa as nisa\nimport nki.language as nl\n\n\n"
    file = tmp_path / "kernel.py"
    file.write_text(imports + program + USES[kernel], encoding="utf-8")
    subprocess.run([sys.executable, "-W", "error", str(file)], cwd=tmp_path, check=True)


def test_the_programs_of_the_training_page(tmp_path: Path) -> None:
    programs = re.findall(r"^```python\n(.*?)^```$", TRAINING.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    file = tmp_path / "training.py"
    file.write_text("\n\n".join(programs), encoding="utf-8")
    run = subprocess.run(
        [sys.executable, "-W", "error", str(file)], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    deviation, gradients = run.stdout.splitlines()
    assert float(deviation.removeprefix("largest deviation: ")) < 1e-6
    assert gradients == "2 gradients are right"


def test_the_programs_of_the_page_on_verification(tmp_path: Path) -> None:
    page = (README.parent / "docs" / "verify.md").read_text(encoding="utf-8")
    programs = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    file = tmp_path / "verified.py"
    file.write_text("\n\n".join(programs), encoding="utf-8")
    run = subprocess.run(
        [sys.executable, "-W", "error", str(file)], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    score, failed = run.stdout.splitlines()
    assert score == "1.0"
    assert failed.startswith("FAIL dtypes of outputs: out is bfloat16: coarser than float32")
