"""What is generated and kept in the repository is what the declarations and the golden reports give."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import runpy
from pathlib import Path

import pytest

import nki
from examples import instructions
from nki.compilation import pipeline
from nki.describe.samples import generations
from nki.ir.instruction import REGISTRY
from nki.workload.arguments import parse

ROOT = Path(__file__).parent.parent
PUBLIC = [name for name, cls in REGISTRY.items() if cls.public]
MODULES = [f"{instructions.__name__}.{file.name}" for file in pkgutil.iter_modules(instructions.__path__)]
PAGES = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]


def test_pages_are_current() -> None:
    generator = runpy.run_path(str(ROOT / "tools" / "reference.py"))
    made: dict[str, str] = generator["pages"]()
    stale = [n for n, text in made.items() if not (ROOT / n).exists() or (ROOT / n).read_text(encoding="utf-8") != text]
    stale += [file.relative_to(ROOT).as_posix() for file in generator["stale"](ROOT, made)]
    assert not stale, f"run `make docs`: {', '.join(stale)}"
    long = {name: text.count("\n") for name, text in made.items() if name.endswith(".md") and text.count("\n") > 1000}
    assert not long, "split the page"


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


KERNELS = {
    name: (module, arguments)
    for module in map(importlib.import_module, MODULES)
    for name, arguments in module.ARGUMENTS.items()
}


def test_every_instruction_has_an_example_kernel() -> None:
    assert set(KERNELS) == set(PUBLIC)


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_the_example_kernel_uses_the_instruction_and_both_executors_agree(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the newest target, without a warning; on every target that has the instruction it compiles."""
    module, texts = KERNELS[name]
    cores = getattr(module, "CORES", {}).get(name, 1)
    kernel = getattr(module, name)[cores]
    parameters = list(inspect.signature(kernel.func).parameters)
    arguments = dict(zip(parameters, (parse(text)[1] for text in texts), strict=True))
    specs = {parameter: value.spec(parameter) for parameter, value in arguments.items()}
    page = (ROOT / "docs" / "reference" / "isa" / f"{name}.md").read_text(encoding="utf-8")
    shown = next(line for line in page.splitlines() if line.startswith("- Targets: "))
    assert shown.removeprefix("- Targets: ").split(", ") == [t.name for t in generations(REGISTRY[name])]
    assert f"def {name}(" in page
    for on in generations(REGISTRY[name]):
        if on.logical_core_max >= cores:
            program = pipeline.compile(kernel.func, specs, on, grid=kernel.grid)
            assert name in {inst.mnemonic for inst in program.instructions()}
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", generations(REGISTRY[name])[-1].name)
    arrays = [value.array(0, number) for number, value in enumerate(arguments.values())]
    native, simulated = kernel(*arrays), nki.simulate(kernel)(*arrays)
    outputs = zip(*([r if isinstance(r, tuple) else (r,) for r in (native, simulated)]), strict=True)
    assert all(one.tobytes() == other.tobytes() for one, other in outputs)
