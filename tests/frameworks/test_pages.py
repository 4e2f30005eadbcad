"""The Python of docs/pytorch.md and docs/jax.md runs, from top to bottom."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from .elsewhere import Elsewhere

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", ["pytorch", "jax"])
def test_page(page, tmp_path):
    if page == "jax":
        pytest.importorskip("flatbuffers", reason="jax.export serializes programs with flatbuffers")
    elif shutil.which("g++") is None:
        pytest.skip("AOTInductor needs a C++ compiler")
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / f"{page}.md").read_text(encoding="utf-8"), re.DOTALL)
    checks = "\nassert (np.asarray(result) == np.asarray(a) * 2 + 1).all()\nchecked += 1\n"
    programs: list[str] = []
    for block in blocks:
        if not programs or (page == "jax" and block.startswith("import ")):
            programs.append("import numpy as np\nchecked = 0\n")
        programs[-1] += block + (checks if "result =" in block else "")
    counts = []
    for number, program in enumerate(programs):
        script, folder = tmp_path / f"page{number}.py", tmp_path / f"run{number}"
        script.write_text(program + "print(checked)", encoding="utf-8")
        folder.mkdir()
        shown = Elsewhere(folder).read(f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')").stdout
        counts.append(int(shown))
    assert counts == {"pytorch": [4], "jax": [0, 0, 2]}[page]
