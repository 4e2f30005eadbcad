"""``nki dump``: a kernel after a stage as text, its LLVM IR, its assembly, its artifact, or the map of its memory."""

from __future__ import annotations

import argparse
import json
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from nki.backend.cpu.runtime.routines import listing, loop_listing
from nki.base.errors import StageError
from nki.base.source import source_line
from nki.base.usage import UsageError
from nki.base.warning import collecting
from nki.base.wording import shown_path
from nki.cli.memory_map import described_map, drawn, maps
from nki.cli.memory_svg import html, svg
from nki.cli.output.documents import Dump, Form, Instruction
from nki.cli.output.findings import warnings
from nki.cli.output.printed import print_document, stamp
from nki.cli.output.streams import aside
from nki.compilation.executable import lower
from nki.compilation.pipeline import NATIVE_STOP, STAGES
from nki.ir.instruction import Inst
from nki.ir.loop import Statement, basic_blocks
from nki.ir.program import Program
from nki.ir.stage import Stages
from nki.ir.text import artifact
from nki.ir.text.printer import show
from nki.target.model import Target
from nki.workload.job import prepared

_WIDTH: Final = 100
"""Columns of a map without a terminal."""
_PLACE: Final = re.compile(r'  # ("(?:[^"\\]|\\.)*"):(\d+)$')


def command(options: argparse.Namespace) -> int:
    """Carry out ``nki dump``."""
    others = (options.loops, options.llvm, options.asm, options.artifact, options.memory is not None)
    if options.lines and any(others):
        raise UsageError("--lines is for the text form", "leave it out, or leave out what asks for another form")
    if options.queues and any((options.lines, options.after, *others)):
        raise UsageError("--queues is a form of its own", "leave out what asks for another form")
    if options.artifact and not options.artifact.endswith(".klir"):
        raise UsageError(f"--artifact {options.artifact}: artifacts are .klir files")
    if options.memory and not options.memory.endswith((".svg", ".html")):
        raise UsageError(f"--memory {options.memory}: maps are .svg or .html files", "leave the file out to see text")
    for option, file in (("--artifact", options.artifact), ("--memory", options.memory)):
        if file and not Path(file).parent.is_dir():
            raise UsageError(f"{option} {file}: there is no folder {Path(file).parent}")
    stages = _stages([*["schedule:reorder=false"] * options.in_order, *options.stage])
    # What a kernel prints while it is specialised must not end up inside the dump.
    with (
        aside(),
        collecting() as warned,
        prepared(options.kernel, options.arg, options.target, options.cores, options.grid) as work,
    ):
        native = options.artifact or options.loops or options.llvm or options.asm
        stage = "allocate" if options.memory is not None else NATIVE_STOP if native else options.after
        program = work.compile(stage, stages=stages)
    form = _form(options)
    named: str | None = options.artifact or options.memory
    file = Path(named) if named else None
    if file is not None:
        text = _write(f"--{form}", file, program, _contents(form, program, work.target, file)) + "\n"
    else:
        text = _printed(form, program, work.target, options)
    if not options.json:
        print(text, end="")
        return 0
    document: Dump = {
        **stamp(),
        "kernel": program.name,
        "target": program.target,
        "form": form,
        "stage": stage or STAGES[-1].name,
        "size": program.size,
        "instructions": listed(program),
        "warnings": warnings(warned),
    }
    if file is not None:
        document["file"], document["bytes"] = str(file), file.stat().st_size
    else:
        document["text"] = text
    if form == "memory":
        document["memory"] = list(map(described_map, maps(program, work.target)))
    print_document(document)
    return 0


def _stages(options: Iterable[str]) -> Stages:
    """The stages of the compiler with ``options``, each ``NAME:option=value`` or several of them behind commas."""
    stages = STAGES
    for option in options:
        name, _, values = option.partition(":")
        try:
            stages = stages.with_stage(stages.find(name).with_options(values))
        except StageError as error:
            raise UsageError(f"--stage {option}: {error.message}", error.fix) from None
    return stages


def _form(options: argparse.Namespace) -> Form:
    """The form that the options ask for."""
    if options.memory is not None:
        return "memory"
    asked: dict[Form, Any] = {
        "artifact": options.artifact,
        "loops": options.loops,
        "llvm": options.llvm,
        "assembly": options.asm,
        "queues": options.queues,
    }
    for form, given in asked.items():
        if given:
            return form
    return "program"


def _contents(form: Form, program: Program, target: Target, file: Path) -> bytes:
    """The contents of the file of ``--artifact`` or ``--memory``."""
    if form == "artifact":
        return artifact.dumps(program)
    return (html if file.suffix == ".html" else svg)(program, target).encode()


def _printed(form: Form, program: Program, target: Target, options: argparse.Namespace) -> str:
    """The text of a form."""
    if form == "memory":
        return drawn(program, target, shutil.get_terminal_size((_WIDTH, 24)).columns)
    if form == "loops":
        return loop_listing(lower(program))
    if form in ("llvm", "assembly"):
        return listing(lower(program), assembly=form == "assembly")
    if form == "queues":
        return "".join(queued(program))
    return annotated(program) if options.lines else shortened(program)


def _write(option: str, path: Path, program: Program, data: bytes) -> str:
    """Write the file of ``option``; a line that describes it."""
    try:
        path.write_bytes(data)
    except OSError as error:
        raise UsageError(f"{option} {path}: {error.strerror}") from None
    return f"{path}: {program.name} for {program.target}, {program.size} instructions, {len(data)} bytes"


def shortened(program: Program) -> str:
    """The text form, with source files relative to the current folder."""
    return "".join(_shorten(line) + "\n" for line in show(program).splitlines())


def _shorten(line: str) -> str:
    source = _PLACE.search(line)
    if source is None:
        return line
    return f"{line[: source.start()]}  # {json.dumps(shown_path(json.loads(source[1])))}:{source[2]}"


def queued(program: Program) -> Iterator[str]:
    """Instructions and waits of each queue in order: basic block by basic block, loops between them."""
    for core in program.cores:
        yield f"{program.name} on {program.target}" + (f", core {core.rank}" if len(program.cores) > 1 else "") + "\n"
        yield from _queues(core.body, "  ")


def _queues(body: Iterable[Statement], indent: str) -> Iterator[str]:
    for region in basic_blocks(body):
        if not isinstance(region, list):
            span = region.where.span
            yield f"{indent}loop" + (f" of line {span.line}" if span else "") + ", behind everything before it\n"
            yield from _queues(region.body, indent + "  ")
            continue
        lines: dict[str, list[str]] = {}
        for inst in region:
            span = inst.where.span
            queue_lines = lines.setdefault(inst.queue, [])
            waits = "  wait " * bool(inst.waits) + ", ".join(f"{queue}>={count}" for queue, count in inst.waits)
            place = f"  # {shown_path(span.file)}:{span.line}" if span else ""
            queue_lines.append(f"{indent}  {len(queue_lines) + 1:>4}  {_short(inst)}{waits}{place}\n")
        for queue in sorted(lines, key=_natural):
            yield f"{indent}{queue}\n"
            yield from lines[queue]


def listed(program: Program) -> list[Instruction]:
    """The instructions of all cores as records."""
    result: list[Instruction] = []
    for core in program.cores:
        for number, inst in enumerate(core.numbered):
            span = inst.where.span
            result.append(
                {
                    "core": core.rank,
                    "number": number,
                    "mnemonic": inst.mnemonic,
                    "name": inst.user_name or "",
                    "queue": inst.queue,
                    "waits": [{"queue": queue, "count": count} for queue, count in inst.waits],
                    "writes": list(dict.fromkeys(access.name for access in inst.writes())),
                    "reads": list(dict.fromkeys(access.name for access in inst.reads())),
                    "file": span.file if span else None,
                    "line": span.line if span else None,
                }
            )
    return result


def _short(inst: Inst) -> str:
    written, read = (", ".join(dict.fromkeys(a.name for a in accesses)) for accesses in (inst.writes(), inst.reads()))
    name = inst.user_name
    return inst.mnemonic + (f" '{name}'" if name else "") + (f" {written} <- {read}" if read else f" {written}")


def _natural(queue: str) -> tuple[str, int]:
    word, _, number = queue.partition(".")
    return word, int(number or 0)


def annotated(program: Program) -> str:
    """The text form, with each source line as a comment above its instructions."""
    result: list[str] = []
    last: tuple[str, int] | None = None
    for line in show(program).splitlines():
        source = _PLACE.search(line)
        place = (json.loads(source[1]), int(source[2])) if source else None
        if place is not None and place != last:
            text = source_line(*place).strip()
            result.append(f"  # {shown_path(place[0])}:{place[1]}  {text}".rstrip())
        last = place
        result.append(line[: source.start()] if source else line)
    return "".join(line + "\n" for line in result)
