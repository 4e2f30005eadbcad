"""An instruction is one declaration: a made-up one, in a copy of the source. Kernels and commands ask no more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.copied_source import copied_source, run

DECLARATION = '''
"""``nisa.tensor_clamp``, made up."""

from nki.base.errors import ArgumentError
from nki.cost import engines as cost
from nki.ir.effects import Effects
from nki.ir.instruction import Inst, Rule, instruction
from nki.ir.types import In, Out, Scalar, Tile
from nki.isa.instructions.reciprocal import Reciprocal
from nki.isa.tables import enums


@instruction(engines=(enums.engine.vector,), effects=Effects(streamed=("data",)))
class TensorClamp(Inst):
    """``dst = min(max(data, low), high)``, element by element."""

    dst: Out[Tile]
    data: In[Tile]
    low: Scalar
    high: Scalar
    name: str | None = None

    rules = (
        *Reciprocal.rules,
        Rule("CL01", "low={i.low} is above high={i.high}", lambda i, t: i.low <= i.high, "a test made it up",
             error=ArgumentError, fix="exchange low= and high=", by_value=True),
    )

    def semantics(self, m):
        value = m.alu("maximum", m.load(self.data), m.load(self.low))
        m.store(self.dst, m.cast(m.alu("minimum", value, m.load(self.high)), self.dst.dtype))

    def cost(self, target):
        """One cycle for each element of a partition."""
        return cost.streaming(self, target, self.dst.free_elements, "made up")

    @classmethod
    def sample(cls, draw):
        tile = Reciprocal.sample(draw)
        return cls(tile.dst, tile.data, -1.0, draw.number() ** 2)
'''
KERNEL = """
import nki
import nki.isa as nisa
import nki.language as nl

@nki.jit
def kernel(x, low=-1.0):
    tile = nl.load(x)
    nisa.tensor_clamp(tile, tile, low=low, high=1.0)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out
"""
OBSERVE = """
import json, sys
sys.path.insert(0, sys.argv[1])
import numpy as np, nki
from nki.base.errors import NkiError
from nki.ir.text import parser, printer
from kernel import kernel

x = np.linspace(-3, 3, 24, dtype=np.float32).reshape(4, 6)
try:
    kernel(x, 2.0)
except NkiError as raised:
    error = str(raised)
program = kernel.compile(x).kernel
text = printer.show(program)
same = parser.parse(text) == program
print(json.dumps([kernel(x).tolist(), nki.simulate(kernel)(x).tolist(), error, text, same]))
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the source with the declaration, and a kernel beside it."""
    examples = f"=== tensor_clamp\n{KERNEL}-----\n"  # as `make docs` writes the kernel of examples/instructions
    added = {"isa/instructions/tensor_clamp.py": DECLARATION, "describe/instruction_examples.txt": examples}
    copy = copied_source(tmp_path_factory.mktemp("source"), added=added)
    (copy / "kernel.py").write_text(KERNEL, encoding="utf-8")
    return copy


def test_kernels_run_it(source: Path) -> None:
    native, simulated, error, text, same = json.loads(run(source, "-c", OBSERVE, str(source)))
    row: list[Any] = [value for line in native for value in line]
    assert row == [value for line in simulated for value in line]
    assert (row[0], row[-1]) == (-1.0, 1.0) and len(set(row)) == 10, "eight numbers lie between both limits"
    assert "/CL01] tensor_clamp: low=2.0 is above high=1.0" in error and "fix: exchange low= and high=" in error
    assert "tensor_clamp" in text and same


def test_the_tools_know_it(source: Path) -> None:
    assert "def tensor_clamp(" in run(source, "-m", "nki.isa.stub")
    told = run(source, "-m", "nki", "explain", "nisa.tensor_clamp")
    assert "element by element" in told and "CL01" in told
    page = run(source, "-m", "nki", "profile", f"{source / 'kernel.py'}:kernel", "--arg", "128x512:float32")
    assert "tensor_clamp" in page
