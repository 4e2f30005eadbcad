"""What is generated and kept in the repository is what the declarations and the golden reports give."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

import nki.isa as nisa
import nki.language as nl
from nki import target
from nki.describe.samples import example, generations
from nki.frontend.builder import Builder
from nki.ir.instruction import NOWHERE, REGISTRY, Inst
from nki.ir.recorder import recording
from nki.ir.text.printer import show_inst

ROOT = Path(__file__).parent.parent
PUBLIC = [name for name, cls in REGISTRY.items() if cls.public]
PAGES = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]


def test_pages_are_current() -> None:
    made: dict[str, str] = runpy.run_path(str(ROOT / "tools" / "reference.py"))["pages"]()
    stale = [n for n, text in made.items() if not (ROOT / n).exists() or (ROOT / n).read_text(encoding="utf-8") != text]
    gone = {file.stem for file in (ROOT / "docs/reference/isa").glob("*.md")} - set(PUBLIC)
    assert not stale and not gone, "run `make docs`"


def anchors(page: Path) -> set[str]:
    """What can stand behind # in a link: headings in lower case without punctuation."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    code = re.compile(r"^```.*?^```|`[^`\n]+`", re.MULTILINE | re.DOTALL)
    for link in set(re.findall(r"\]\(([^)\s]+)\)", code.sub("", page.read_text(encoding="utf-8")))):
        file, _, anchor = link.partition("#")
        if not file.startswith(("http:", "https:")):
            there = (page.parent / file).resolve() if file else page
            assert there.exists(), link
            assert not anchor or anchor in anchors(there), link


@pytest.mark.parametrize("name", PUBLIC)
def test_the_example_records_the_instruction_on_every_target(name: str) -> None:
    page = (ROOT / "docs" / "reference" / "isa" / f"{name}.md").read_text(encoding="utf-8")
    program = page.partition("## Example\n\n```python\n")[2].partition("```")[0]
    shown = next(line for line in page.splitlines() if line.startswith("- Targets: "))
    names = shown.removeprefix("- Targets: ").split(", ")
    assert names == [t.name for t in generations(REGISTRY[name])]
    for on in names:
        with recording(Builder("example", target.find(on))) as builder:
            exec(program, {"nl": nl, "nisa": nisa})
        recorded = builder.body[-1]
        assert isinstance(recorded, Inst)
        recorded.where = NOWHERE
        assert show_inst(recorded) == show_inst(example(REGISTRY[name]).inst)
