"""Golden texts of the kernel IR: what native code does for each kernel of the corpus, on two kinds of processors.

``NKI_TEST_REWRITE=1`` writes them anew. One text serves both kinds where they agree.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nki.backend.cpu.fusion import epilogue
from nki.backend.cpu.kernel_ir import lowering_algebra
from nki.backend.cpu.runtime.routines import loop_listing
from nki.compilation.executable import lower
from nki.ir.program import Program
from nki.numerics.matmul import host
from nki.numerics.matmul.contract import BLOCK

from . import test_corpus  # noqa: F401  # enters the kernels into the corpus
from .case import CASES

GOLDEN = Path(__file__).parent / "golden"
REWRITE = bool(os.environ.get("NKI_TEST_REWRITE"))


def program_of(name: str, pairs: bool, monkeypatch: pytest.MonkeyPatch) -> Program:
    """A kernel, on a processor that multiplies pairs, or on one that does not; register tiles have whole blocks."""
    program = CASES[name].compile(monkeypatch).kernel
    for module in (host, lowering_algebra, epilogue):
        monkeypatch.setattr(module, "bf16_unit", lambda: object() if pairs else None)
    for module in (host, lowering_algebra):
        monkeypatch.setattr(module, "columns_of_block", lambda: BLOCK)
    return program


@pytest.mark.parametrize("pairs", [False, True], ids=["floats", "pairs"])
@pytest.mark.parametrize("name", CASES)
def test_kernel_ir_is_the_golden_one(name: str, pairs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = loop_listing(lower(program_of(name, pairs, monkeypatch)))
    common, own = GOLDEN / f"{name}.txt", GOLDEN / f"{name}.pairs.txt"
    if REWRITE and not pairs:
        common.write_text(shown, encoding="utf-8")
    elif REWRITE:
        own.unlink(missing_ok=True)
        if shown != common.read_text(encoding="utf-8"):
            own.write_text(shown, encoding="utf-8")
    golden = own if pairs and own.exists() else common
    assert shown == golden.read_text(encoding="utf-8")


def test_a_program_is_lowered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("causal_attention", "softmax", "layernorm", "gelu_mlp"):
        lowered = lower(program_of(name, True, monkeypatch))
        assert loop_listing(lower(lowered)) == loop_listing(lowered)


def test_every_golden_text_is_of_a_kernel() -> None:
    assert {file.name.split(".")[0] for file in GOLDEN.glob("*.txt")} == set(CASES)
