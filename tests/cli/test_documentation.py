"""The examples of some pages print what the pages say, but for times, checksums and the like."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from nki.compilation.pipeline import STAGES

ROOT = Path(__file__).parent.parent.parent
NAMES = ("cli.md", "profiling.md", "accuracy.md", "proofs.md", "optimise.md")
PAGES = [(ROOT / "docs" / name).read_text(encoding="utf-8") for name in NAMES]
EXAMPLES = [example for page in PAGES for example in re.findall(r"```console\n\$ (.*)\n((?:.*\n)*?)```", page)]

CHANGING = (
    (r" *[+-]?[\d.]+ (s|ms|µs|ns)\b", " TIME"),
    (r" *[+-]?[\d.]+ ?%", " PERCENT"),
    (r" *[\d.]+ (GB/s|x\b)", r" RATE"),
    (r"[█▒·]{24} ", "BAR "),
    (r"\d{4}-\d\d-\d\d", "DATE"),
    (r"[█·]{40}$", "BAR"),
    (r"sha256 \w+  sum \S+", "CHECKSUM"),
    (r"\d+ bytes", "BYTES"),
    (r"\S+/examples/", "examples/"),
    (r"\S+/tests/cli/", "tests/cli/"),
    (r"\S+/kernels$", "kernels"),
    (r"\S+/native\b", "native"),
    (r"\b(?:[0-9a-f]{40}|[0-9a-f]{64})\b", "DIGEST"),
    (r"\S*model\.nkix", "model.nkix"),
    (r"torch \d\S*", "torch VERSION"),
    (r"\S*rms\.klir", "rms.klir"),
    (r'(open-nki |version=")[^\s")]+', r"\1VERSION"),
)


def masked(text: str) -> str:
    for pattern, name in CHANGING:
        text = re.sub(pattern, name, text)
    return text


def test_there_are_examples():
    commands = {command.split()[1] for command, _ in EXAMPLES}
    assert commands == {"run", "profile", "check", "dump", "explain", "cache", "info", "accuracy", "prove", "optimise"}


@pytest.mark.parametrize(("command", "shown"), EXAMPLES, ids=[command for command, _ in EXAMPLES])
def test_example(command, shown, tmp_path, monkeypatch):
    monkeypatch.delenv("NKI_SIMULATOR", raising=False)
    monkeypatch.delenv("NEURON_PLATFORM_TARGET_OVERRIDE", raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    artifact = tmp_path / "rms.klir"
    if command == "nki run /tmp/rms.klir":  # the example before it has written the file
        before = next(c for c, _ in EXAMPLES if "--artifact" in c)
        assert run(before.replace("/tmp/rms.klir", str(artifact)))
    if command.startswith("nki cache"):
        monkeypatch.setenv("OPEN_NKI_CACHE", str(tmp_path))
        monkeypatch.delenv("OPEN_NKI_CACHE_DISABLE")
        script = "import numpy, examples.rms_normalise as e; e.rms_normalise.compile(numpy.zeros((128, 512), 'f4'))"
        subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True)
    model = tmp_path / "model.nkix"
    if command.startswith("nki info"):
        script = "import sys, torch, nki, examples.rms_normalise as e\n"
        script += "nki.export(e.rms_normalise, (torch.zeros(128, 512),), sys.argv[1])"
        subprocess.run([sys.executable, "-c", script, str(model)], cwd=ROOT, check=True)
    command = command.replace("/tmp/rms.klir", str(artifact)).replace("/tmp/model.nkix", str(model))
    assert masked(run(command)) == masked(shown)


def run(command: str) -> str:
    """What ``command`` prints, by this interpreter in place of the installed script."""
    ours = re.sub(r"(^|\| )nki ", rf"\1{sys.executable} -m nki ", command)
    done = subprocess.run(ours, shell=True, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return done.stdout.decode()


def test_the_program_in_the_chapter_about_accuracy_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    [program] = re.findall(r"```python\n(.*?)```", PAGES[2], re.DOTALL)
    exec(program, {})
    assert (tmp_path / "accuracy.html").exists()


def test_pages_list_the_stages() -> None:
    """The row of the glossary, and the drawing of the way from a function to its program."""
    architecture, glossary = (
        (ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("architecture.md", "glossary.md")
    )
    names = ", ".join(STAGES.names)
    assert f"| stage | one step of the pipeline ({names})" in glossary, f"docs/glossary.md, stage: write ({names})"
    drawn = [word for word in re.findall(r"^[ │]+([a-z]+) {2,}\S", architecture, re.MULTILINE) if word in STAGES.names]
    assert drawn == list(STAGES.names), f"docs/architecture.md, the drawing: write a line for each of {names}"
