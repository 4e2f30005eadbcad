"""``nki dump``, and what it writes fed back in."""

from __future__ import annotations

import io
import json
import re
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import pytest

from nki.base.errors import StageError
from nki.compilation.pipeline import STAGES
from nki.ir.stage import CoreStage
from nki.ir.text import artifact, parser
from tests.support.command_line import KERNELS, SHAPE, dumped, report


@pytest.mark.parametrize("stage", ["specialise", *(stage.name for stage in STAGES)])
def test_dump_after_each_stage_can_be_read(file, nki, stage):
    kernel = parser.parse(dumped(nki, file, "--after", stage))
    assert kernel.name == "both" and len(kernel.core.body) == 5


def test_dump_shows_the_last_stage_and_short_paths(file, nki):
    shown = dumped(nki, file)
    assert shown == dumped(nki, file, "--after", STAGES[-1].name)
    line = KERNELS.splitlines().index("    nisa.tensor_tensor(dst=s, data1=s, data2=t, op=op)") + 1
    assert f'  # "kernels.py":{line}\n' in shown


def test_dump_with_source_lines(file, nki):
    shown = dumped(nki, file, "--lines")
    lines = shown.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("  tensor_tensor"))
    assert re.fullmatch(r"  # kernels\.py:\d+  nisa\.tensor_tensor\(dst=s, data1=s, data2=t, op=op\)", lines[at - 1])
    assert parser.parse(shown) == parser.parse(dumped(nki, file))


def test_dump_by_queues(file, nki):
    shown = dumped(nki, file, "--queues")
    assert re.search(r"^  vector\n +1  tensor_tensor .*  wait dma\.\d+>=1, dma", shown, re.MULTILINE)
    assert re.search(r"^  dma\.0\n +1  dma_copy", shown, re.MULTILINE)
    assert len([line for line in shown.splitlines() if re.match(r" +\d+  ", line)]) == 5
    assert parser.parse(dumped(nki, file, "--in-order"))


def test_queues_are_a_form_of_their_own(file, nki):
    ran = nki("dump", f"{file}:both", "--arg", SHAPE, "--arg", SHAPE, "--queues", "--lines")
    assert ran.code == 2
    assert "--queues is a form of its own" in ran.err


def test_dump_loops_shows_each_routine_once(file, nki):
    loops = dumped(nki, file, "--loops")
    routines = [line for line in loops.splitlines() if line and not line.startswith(" ")]
    assert len(set(routines)) == len(routines) == dumped(nki, file, "--llvm").count("\ndefine ")
    assert all(f"r{number}_" in line for number, line in enumerate(routines))


def test_dump_llvm_and_assembly(file, nki):
    ir = dumped(nki, file, "--llvm")
    assert "define void @r0_tensor_tensor(" in ir and "_dma_copy(" in ir
    assembly = dumped(nki, file, "--asm")
    assert re.search(r"^r0_tensor_tensor:", assembly, re.MULTILINE)


def test_text_and_artifact_compute_the_same(file, nki, monkeypatch):
    source = report(nki("run", f"{file}:both", "--arg", SHAPE, "--arg", SHAPE, "--json"))
    assert "both for trn3, 5 instructions" in dumped(nki, file, "--artifact", "both.klir")
    Path("both.nki").write_text(dumped(nki, file, "--after", "specialise"))
    monkeypatch.setattr(sys, "stdin", io.StringIO(dumped(nki, file)))
    for given in ("both.klir", "both.nki", "-"):
        found = report(nki("run", given, "--json"))
        assert found["inputs"] == source["inputs"] and found["outputs"] == source["outputs"]
    assert report(nki("run", "both.klir", "--json", "--simulate"))["outputs"] == source["outputs"]
    mixed = report(nki("run", "both.klir", "--arg", f"b={SHAPE}:zeros", "--json"))
    assert mixed["outputs"][0]["sha256"] == source["inputs"][0]["sha256"]
    assert nki("dump", "both.klir").out == dumped(nki, file)


def test_edited_text_is_fed_back_in(file, nki):
    Path("both.nki").write_text(dumped(nki, file).replace("op=add", "op=subtract"))
    found = report(nki("run", "both.nki", "--arg", f"{SHAPE}:ones", "--arg", f"{SHAPE}:ones", "--json"))
    assert found["outputs"][0]["sum"] == 0


def test_edited_text_is_judged_by_its_own_lines(file, nki):
    edited = re.sub(r"(data2=\S+ \| 32x128, 1x)32", r"\g<1>31", dumped(nki, file))
    Path("both.nki").write_text(edited)
    line = next(i for i, text in enumerate(edited.splitlines(), 1) if "1x31" in text)
    ran = nki("run", "both.nki", "--json")
    assert ran.code == 1
    error = json.loads(ran.out)
    assert (error["code"], error["rule"], error["file"], error["line"]) == ("NKI-SH001", "SE01", "both.nki", line)


def test_artifact_keeps_the_users_lines(file, nki):
    dumped(nki, file, "--artifact", "both.klir")
    kept, shown = artifact.load(Path("both.klir")), parser.parse(dumped(nki, file))
    # The text is in the order of stage schedule, the artifact in the program's.
    lines = [sorted(i.where.span.line for i in program.core.body) for program in (kept, shown)]
    assert lines[0] == lines[1] and len(lines[0]) == 5


def test_the_map_of_the_memory(file, nki, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = dumped(nki, file, "--memory")
    assert "\nat most 256 bytes in use at one moment, at kernels.py:" in shown
    assert shown.startswith("both: 5 instructions\n\nsbuf of trn3: 2 tensors, 256 of 245752 bytes per partition\n")
    lines = shown.splitlines()
    assert max(map(len, lines)) <= 80
    rows = {line[:9].strip(): line[11:-1] for line in lines if line.endswith("|")}
    assert rows["0"] == "A" * 52 + "·" * 13 and rows["132"] == "·" * 13 + "B" * 52
    assert re.fullmatch(r"  B t \(128, 32\) float32: 128 bytes at 128, kernels\.py:\d+ to kernels\.py:\d+", lines[-1])


def test_maps_as_files(file, nki):
    assert "both for trn3, 5 instructions" in dumped(nki, file, "--memory", "map.svg")
    drawing = ET.parse("map.svg").getroot()
    told = [title.text for title in drawing.iter("{http://www.w3.org/2000/svg}title")]
    assert len(told) == 3 and told[0] == "Memory of both on trn3" and ": 128 bytes at 128, kernels.py:" in told[2]
    words = [text.text or "" for text in drawing.iter("{http://www.w3.org/2000/svg}text")]
    assert "bytes per partition" in words and "instructions in the order of the program (5), by source line" in words
    assert sum(": 128 bytes at " in text for text in words) == 2  # the legend
    dumped(nki, file, "--memory", "map.html")
    page = Path("map.html").read_text()
    assert page.count("<tr>") == 3 and "http" not in page.replace("http://www.w3.org/2000/svg", "")


BESIDE = """\
kernel "beside" target=trn3 grid=() version="1" {
  input a : hbm float32[32,4]
  output c : shared_hbm float32[64,4]
  tensor low : sbuf float32[32,4] at=(0, 0)
  tensor a_name_that_is_too_long_for_a_line_of_the_legend : sbuf float32[32,4] at=(32, 0)
  dma_copy dst=low[0 | 4x32, 1x4] src=a[0 | 4x32, 1x4]
  dma_copy dst=a_name_that_is_too_long_for_a_line_of_the_legend[0 | 4x32, 1x4] src=a[0 | 4x32, 1x4]
  dma_copy dst=c[0 | 4x32, 1x4] src=low[0 | 4x32, 1x4]
  dma_copy dst=c[128 | 4x32, 1x4] src=a_name_that_is_too_long_for_a_line_of_the_legend[0 | 4x32, 1x4]
  return c
}
"""


def test_tiles_beside_one_another_have_maps_of_their_own(nki, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    Path("beside.nki").write_text(BESIDE)
    shown = nki("dump", "beside.nki", "--memory").out
    assert "\nsbuf of trn3, partitions 0 to 31: 1 tensor, 16 of 245752 bytes per partition\n" in shown
    assert "\nsbuf of trn3, partitions 32 to 127: 1 tensor, 16 of 245752 bytes per partition\n" in shown
    assert re.search(r"\n  A a_\w+… \(32, 4\) float32: 16 bytes at partition 32, byte 0, given, beside\.n…", shown)
    assert max(map(len, shown.splitlines())) <= 80


def test_labels_of_lines_neither_overlap_nor_leave_the_drawing(file, nki, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    long = tmp_path / "a_file_whose_name_is_as_long_as_those_of_kernels_are.nki"
    copies = "".join(
        f"  dma_copy dst=low[0 | 4x32, 1x4] src=a[0 | 4x32, 1x4]  # {str(long)!r}:{i}\n".replace("'", '"')
        for i in range(40)
    )
    long.write_text(BESIDE.replace("  dma_copy dst=low", copies + "  dma_copy dst=low", 1))
    nki("dump", str(long), "--memory", "map.svg")
    drawing = ET.parse("map.svg").getroot()
    labels = [t for t in drawing.iter("{http://www.w3.org/2000/svg}text") if (t.text or "").startswith(long.name)]
    assert len(labels) >= 4
    for one, two in pairwise(labels):
        if one.get("y") == two.get("y") and float(two.get("x")) > float(one.get("x")):
            assert float(two.get("x")) - float(one.get("x")) > 6 * len(one.text)
    assert all(float(t.get("x")) + 90 + 6 * len(t.text) < float(drawing.get("width")) for t in labels)


def test_map_of_a_kernel_without_tiles(nki, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("plain.nki").write_text(PLAIN)
    assert nki("dump", "plain.nki", "--memory").out == "plain: 1 instructions\n\nno tensor lies in sbuf or psum\n"


PLAIN = """\
kernel "plain" target=trn3 grid=() version="1" {
  input a : hbm float32[4,4]
  output c : shared_hbm float32[4,4]
  dma_copy dst=c[0 | 4x4, 1x4] src=a[0 | 4x4, 1x4]
  return c
}
"""


@dataclass(frozen=True)
class Tuned(CoreStage):
    """A stage with an option of each type."""

    name: ClassVar[str] = "tuned"
    depth: int = 4
    share: float | None = None
    word: str = "all"
    strict: bool = True
    calls: Callable[[], bool] = bool

    def transform(self, core, program, target):
        return core

    def check(self, before, after, target):
        pass


def test_options_of_a_stage_by_their_types():
    stage = Tuned().with_options("depth=7,share=0.5,word=some,strict=false")
    assert stage == Tuned(7, 0.5, "some", strict=False)
    assert stage.with_options("share=none") == Tuned(7, None, "some", strict=False)
    for text in ("depth=many", "share=", "strict=0", "calls=true", "deep=1", "depth=1,", ""):
        with pytest.raises(StageError) as caught:
            stage.with_options(text)
        assert caught.value.fix == (
            "options of tuned: depth=int (default 4); share=none|float (default none); word=str (default all); "
            "strict=true|false (default true)"
        )


def test_dump_with_options_of_stages(file, nki):
    in_order = dumped(nki, file, "--in-order", "--queues")
    assert in_order == dumped(nki, file, "--stage", "schedule:reorder=false", "--queues")
    both = ("--stage", "allocate:check_overlap=false", "--stage", "schedule:reorder=true")
    assert dumped(nki, file, *both) == dumped(nki, file)


@pytest.mark.parametrize(
    ("option", "message", "fix"),
    [
        ("sched:reorder=false", "there is no compiler stage 'sched'", "did you mean schedule? stages: verify, "),
        ("schedule", "stage schedule has no option ''", "reorder=true|false|none (default none)"),
        ("schedule:order=true", "has no option 'order'", "options of schedule: reorder="),
        ("schedule:reorder=maybe", "'reorder=maybe' is no value of it", "options of schedule: reorder="),
        ("verify:strict=true", "stage verify has no option 'strict'", "verify has no options"),
    ],
)
def test_wrong_options_of_stages(option, message, fix, file, nki):
    ran = nki("dump", f"{file}:both", "--arg", SHAPE, "--arg", SHAPE, "--stage", option)
    assert ran.code == 2
    assert f"--stage {option}: " in ran.err and message in ran.err and fix in " ".join(ran.err.split())
