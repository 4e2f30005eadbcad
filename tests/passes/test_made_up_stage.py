"""A stage is one file and its instance in ``STAGES``: a made-up one, in a copy of the source. Commands ask no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.copied_source import copied_source, run

STAGE = '''
"""Stage ``unread``, made up: it leaves out instructions that write only tiles that nothing reads."""

from dataclasses import dataclass

from nki.ir.instruction import Inst
from nki.ir.stage import CoreStage
from nki.ir.types import Buffer


@dataclass(frozen=True)
class RemoveUnread(CoreStage):
    name = "unread"
    careful: bool = True

    def transform(self, core, program, target):
        read = read_by(core) if self.careful else set()
        return core.with_body(inst for inst in core.body if not is_unread(inst, read))

    def check(self, before, after, target):
        for old, new in zip(before.cores, after.cores, strict=True):
            for inst in old.body:
                stays = any(inst is other for other in new.body)
                assert stays or is_unread(inst, read_by(old)), f"unread left out {inst}, which is read"


def read_by(core):
    return {access.tensor for inst in core.instructions() for access in (*inst.reads(), *inst.indexed_by())}


def is_unread(inst, read):
    if not isinstance(inst, Inst) or inst.effects.external or inst.label or inst.ordered_after:
        return False
    tiles = [access.tensor for access in inst.changes()]
    return bool(tiles) and all(t.buffer is Buffer.sbuf and t.address is None and t not in read for t in tiles)
'''
KERNEL = """
import nki
import nki.isa as nisa
import nki.language as nl

@nki.jit
def kernel(x):
    tile = nl.load(x)
    spare = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    nisa.memset(spare, 1.0)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out
"""
CHANGES = {
    "compilation/pipeline.py": {
        "from nki.passes.verify import": "from nki.passes.unread import RemoveUnread\nfrom nki.passes.verify import",
        "CheckHazards(), ": "CheckHazards(), RemoveUnread(), ",
    }
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the source with the stage behind ``hazards``, and a kernel beside it."""
    copy = copied_source(tmp_path_factory.mktemp("source"), added={"passes/unread.py": STAGE}, changed=CHANGES)
    (copy / "kernel.py").write_text(KERNEL, encoding="utf-8")
    return copy


def dump(source: Path, *words: str, code: int = 0) -> str:
    """The output of ``nki dump`` of the kernel."""
    kernel = f"{source / 'kernel.py'}:kernel"
    return run(source, "-m", "nki", "dump", kernel, "--arg", "4x6:float32", *words, code=code)


def test_the_pipeline_runs_it_in_its_place(source: Path) -> None:
    assert "memset" in dump(source, "--after", "hazards")
    for stage in ("unread", "order", "sync"):
        assert "memset" not in (text := dump(source, "--after", stage)) and text.count("dma_copy") == 2


def test_the_command_knows_its_name_and_its_options(source: Path) -> None:
    assert "hazards, unread, order" in " ".join(dump(source, "--help").split())
    assert "options of unread: careful=true|false (default true)" in dump(
        source, "--stage", "unread:eager=true", code=2
    )


def test_its_check_refuses_a_wrong_result(source: Path) -> None:
    told = dump(source, "--stage", "unread:careful=false", code=1)
    assert "AssertionError: unread left out" in told and "which is read" in told
