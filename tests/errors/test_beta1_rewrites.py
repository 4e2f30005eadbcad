"""Kernels of Beta 1 under `import nki`: what each error says to write is put in, until the kernel runs.

No line that was advised may be refused in turn, and both executors give the numbers of the same text as Beta 1.
"""

from __future__ import annotations

import ast
import re
import textwrap
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nki
from nki.base.errors import NkiError
from nki.frontend.frontend_errors import KernelErrors
from tests.errors.test_beta1_advice import imported

FOLDER = Path(__file__).parent / "beta1_fragments"
BETA1 = """\
import numpy as np
import neuronxcc.nki as nki
import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
from neuronxcc.nki.language import par_dim


@nki.jit
def kernel(x, y, w, n):
"""
TODAY = "import numpy as np\nimport nki\nimport nki.compiler as ncc\nimport nki.isa as nisa\n"
TODAY += "import nki.language as nl\n\n\n@nki.jit\ndef kernel(x, y, w, n):\n"
LOADED = "a = nl.load(x[0:128])\nb = nl.load(y)\n"
STORED = "out = nl.ndarray(c.shape, dtype=c.dtype, buffer=nl.shared_hbm)\nnl.store(out, c)\nreturn out\n"

_random = np.random.default_rng(0)
ARGUMENTS = (
    _random.standard_normal((200, 64)).astype(np.float32),
    np.abs(_random.standard_normal((128, 64))).astype(np.float32) + 0.5,
    _random.standard_normal((64, 128)).astype(np.float32),
    _random.integers(0, 60, (128, 64)).astype(np.int32),
)


def fragments() -> list[Any]:
    """Bodies by file and name; the line ``a, b`` stands for two loads."""
    found: list[Any] = []
    for file in sorted(FOLDER.glob("*.txt")):
        for part in file.read_text().removeprefix("## ").split("\n## "):
            name, _, body = part.partition("\n")
            body = body.rstrip("\n") + "\n"
            body = LOADED + body.removeprefix("a, b\n") if body.startswith("a, b\n") else body
            body += "" if re.search("^return", body, re.MULTILINE) else STORED
            found.append(pytest.param(textwrap.indent(body, "    "), id=f"{file.stem}: {name}"))
    return found


def advised(fix: str, line: int) -> list[tuple[int, list[str]]]:
    """The lines of the file that a fix replaces, each with its new code."""
    found: list[tuple[int, list[str]]] = []
    pair = r"allocate the destination and pass it: `([^`]+)`, then `([^`]+)`"
    for match in re.finditer(rf"(?:in line (\d+) )?(?:{pair}|(?:in place of the block )?write `\n?([^`]+)`)", fix):
        where, first, second, code = match.groups()
        new = [first, second] if first else textwrap.dedent(code.strip("\n")).split("\n")
        found.append((int(where or line), new))
    for match in re.finditer(r"leave lines? ([\d, ]+) out", fix):
        found += [(int(number), []) for number in match[1].split(",")]
    return found


def repaired(text: str, error: NkiError) -> tuple[str, set[str]]:
    """The program with the code of a fix in place, and the lines of that code."""
    assert error.span is not None
    lines, tree, new = text.split("\n"), ast.parse(text), set[str]()
    changes = advised(error.fix, error.span.line)
    assert changes, f"the fix gives no code: {error}"
    for number, code in sorted(changes, key=lambda change: -change[0]):
        around = [n for n in ast.walk(tree) if isinstance(n, ast.stmt) and n.lineno <= number <= (n.end_lineno or 0)]
        statement = max(around, key=lambda n: n.lineno)
        head = hasattr(statement, "body") and "in place of the block" not in error.fix
        assert not head or (len(code) == 1 and code[0].endswith(":")), str(error)
        last = statement.lineno if head else statement.end_lineno
        lines[statement.lineno - 1 : last] = [" " * statement.col_offset + each for each in code]
        new |= {each.strip() for each in code}
    return "\n".join(lines), new


def run(text: str, file: Path, arguments: Sequence[Any], name: str) -> tuple[Any, str]:
    """The result of both executors, and the warning about a swapped shuffle."""
    kernel = getattr(imported(text, file), name)
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        result = np.asarray(kernel(*arguments))
        np.testing.assert_array_equal(np.asarray(nki.simulate(kernel)(*arguments)), result)
    return result, next((str(each.message) for each in given if "Swap them" in str(each.message)), "")


def led(text: str, folder: Path, arguments: Sequence[Any] = ARGUMENTS, name: str = "kernel") -> tuple[str, Any]:
    """The kernel with all that its errors advise in place, and its result; advised lines are never refused."""
    written = set[str]()
    for number in range(30):
        try:
            result, swapped = run(text, folder / f"{name}_{number}.py", arguments, name)
        except NkiError as caught:
            error = caught.errors[0] if isinstance(caught, KernelErrors) else caught
            assert error.span is not None, str(error)
            assert text.split("\n")[error.span.line - 1].strip() not in written, f"advice is refused: {error}"
            text, new = repaired(text, error)
            written |= new
            continue
        if not swapped:
            return text, result
        place = next(line for line in text.split("\n") if "nc_stream_shuffle" in line)
        text = text.replace(place.strip(), re.findall("write `([^`]+)`", swapped)[0])
    pytest.fail(f"the advice leads in circles:\n{text}")


@pytest.mark.filterwarnings("ignore::nki.base.warning.NkiWarning")
@pytest.mark.parametrize("body", fragments())
def test_advice_leads_to_a_kernel_of_today(body: str, tmp_path: Path) -> None:
    expected = np.asarray(imported(BETA1 + body, tmp_path / "older.py").kernel(*ARGUMENTS))
    _, result = led(TODAY + body, tmp_path)
    if expected.dtype != result.dtype:  # comparisons were truth values
        assert expected.dtype in (bool, np.uint8) and result.dtype == np.float32
    np.testing.assert_allclose(result.astype(np.float64), expected.astype(np.float64), rtol=1e-6, atol=1e-6)
