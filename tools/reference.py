"""Write what is generated from the declarations and the golden reports: ``python -m tools.reference [FOLDER]``.

The output is ``docs/reference/``, ``docs/errors.md`` with a page for each family of codes, ``docs/json.md``, the
drawings, the stub of ``nki.isa``, and the examples that ``nki explain`` shows.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import json
import math
import pkgutil
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from types import FunctionType
from typing import NamedTuple

import nki
from examples import instructions as instruction_kernels
from nki import target
from nki.base.errors import NkiError
from nki.cli.output import schema
from nki.compilation import pipeline
from nki.compilation.launch_errors import VendorModuleError
from nki.describe import instruction_facts, support_matrix
from nki.describe.example_kernels import COSTS, ExampleKernel
from nki.describe.example_kernels import MARK as EXAMPLE
from nki.describe.explanations import MARK, runs
from nki.describe.rule_texts import Grouped, grouped
from nki.describe.samples import generations
from nki.ir.estimate import Estimate
from nki.ir.instruction import REGISTRY, Inst
from nki.isa.stub import stub
from nki.isa.tables.activations import ACTIVATIONS
from nki.isa.tables.alu_operators import TABLE, AluRow
from nki.isa.tables.operators import OPS
from nki.jit import Kernel
from nki.language.releases import RELEASES
from nki.workload.arguments import parse
from tests.support.golden_reports import MARK as REPORT
from tests.support.golden_reports import Golden, golden
from tools import drawings
from tools.tuning_constants import constants

FOLDER = Path(__file__).parent.parent
NOTE = "Generated from the source by `make docs`; edit the declarations instead.\n"
ORACLES = FOLDER / "tests" / "isa" / "oracle"
PAGES = "docs/reference/isa"
ERRORS = "docs/errors"
RULES = "docs/reference/rules"
FOLDERS = PAGES, ERRORS, RULES
"""Folders in which every page is generated: a page of something that is gone goes, too."""
UNFORMATTED = "<!-- fmt: off -->\n"
"""Examples are short lines already, and costs are shown as the declaration writes them."""
_CODE = re.compile(r"(``.+?``|`[^`]+`)")


class Link(NamedTuple):
    """A link in a cell of a table."""

    label: str
    to: str


def text(value: object) -> str:
    """Text that shows as it is in Markdown, where code is shown as it is anyway."""
    parts = _CODE.split(str(value))
    return "".join(part if number % 2 else part.replace("<", "&lt;") for number, part in enumerate(parts))


def cell(value: object) -> str:
    """Text that stays inside its cell of a table."""
    if isinstance(value, Link):
        return f"[{value.label}]({value.to})"
    return text(value).replace("|", "\\|").replace("\n", " ")


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A table in Markdown."""
    names = list(head)
    lines = [f"| {' | '.join(names)} |", f"|{'---|' * len(names)}"]
    lines += [f"| {' | '.join(map(cell, row))} |" for row in rows]
    return "\n".join(lines) + "\n"


# Instructions


def instruction(cls: type[Inst], kernel: ExampleKernel) -> str:
    """One instruction: signature, meaning, operands, engines, targets, an example, cost, rules."""
    operands = [(o.name, o.role.value, o.buffers, o.dtypes, o.otherwise) for o in instruction_facts.operands(cls)]
    rules = [(_link_to_rule(r.rule.code, "../"), r.text, r.fix, _applies(r), r.rule.source) for r in grouped([cls])]
    return "\n".join([
        f"# nisa.{cls.mnemonic}\n\n{NOTE}\n{UNFORMATTED}",
        f"```text\n{instruction_facts.signature(cls)}\n```\n",
        f"{inspect.getdoc(cls)}\n",
        f"- Engines: {', '.join(engine.name for engine in cls.engines)}",
        f"- Targets: {', '.join(t.name for t in generations(cls))}",
        f"- Runs as: {runs(cls)}\n",
        "## Operands\n",
        "Each memory and each dtype belongs to some legal call; not every combination of them is legal.\n",
        table(("operand", "role", "in", "dtypes", "or"), operands),
        "## Example\n",
        f"```python\n{kernel.program}\n```\n",
        "## Cost\n",
        f"{instruction_facts.formula(cls)}\n",
        "The instruction in the example occupies its engine, or the shared DMA engines, for:\n",
        *(f"- {line}" for line in kernel.costs),
        "",
        "## Rules\n",
        table(("rule", "what is reported", "fix", "on", "source"), rules),
    ])  # fmt: skip


def index() -> str:
    """The list of all public instructions."""
    rows = [
        (Link(f"nisa.{c.mnemonic}", f"isa/{c.mnemonic}.md"), ", ".join(e.name for e in c.engines), first_line(c))
        for _, c in sorted(REGISTRY.items())
        if c.public
    ]
    seen = "What runs where is in the [support matrix](support.md), every limit in the [rule index](rules.md).\n"
    return f"# Instructions\n\n{NOTE}\n{seen}\n{table(('instruction', 'engines', 'meaning'), rows)}"


def first_line(cls: type) -> str:
    """The meaning of an instruction or an error, in a sentence or two."""
    return (inspect.getdoc(cls) or "").partition("\n\n")[0].replace("\n", " ")


def support() -> str:
    """What exists on which target, and what executes it."""
    rows: list[tuple[object, ...]] = []
    for name, cls in sorted(REGISTRY.items()):
        shown = Link(f"nisa.{name}", f"isa/{name}.md") if cls.public else f"{name} (internal)"
        with contextlib.redirect_stdout(io.StringIO()):  # one of them prints
            simulated = instruction_facts.simulated(cls)
        native = "calls Python" if instruction_facts.calls_python(cls) else "native"
        oracle = _yes((ORACLES / f"{name}.py").exists()) if cls.write_names else "writes nothing"
        rules = len({r.rule.code for r in grouped([cls])})
        released = _released(support_matrix.releases_of(f"nki.isa.{name}")) if cls.public else [""] * len(RELEASES)
        rows.append((shown, *released, *_on(generations(cls)), _yes(simulated), native, rules, oracle))
    names = [t.name for t in target.GENERATIONS]
    alu = [
        (f"nl.{r.name}", *_named(r.name), *_on([t for t in target.GENERATIONS if t.generation >= r.since]))
        for r in TABLE.values()
    ]
    functions = [
        (f"nl.{a.name}", *_named(a.name), *_on([t for t in target.GENERATIONS if t.generation in a.cores]))
        for a in ACTIVATIONS.values()
    ]
    return "\n".join([
        f"# Support\n\n{NOTE}",
        "Every instruction, the targets that have it, and what executes it here: the NumPy executor (`nki.simulate`)\n"
        "and native code, which enters Python only where the table says so. Each rule has a test that breaks it. The\n"
        "oracle is a second formula, written from the documents, that judges what both executors write. Internal\n"
        "instructions come from the compiler or from a function of `nki.language`.\n",
        f"Columns {RELEASES[0].version} to {RELEASES[-1].version} are releases of NKI: `yes` where the documents of "
        "the release have the name.\n"
        "`NKI_VERSION` and `nki.jit(nki_version=…)` refuse the others; by default all of them can be used.\n"
        "[The language](../language.md#what-changed-when) has the changes that no name shows.\n",
        table(("instruction", *RELEASES.versions, *names, "NumPy", "native code", "rules", "oracle"), rows),
        f"## ALU operators\n\n{table(('operator', *RELEASES.versions, *names), alu)}",
        f"## Activation functions\n\n{table(('function', *RELEASES.versions, *names), functions)}",
        f"## Functions, types and constants\n\n{_matrix('name', support_matrix.functions())}",
        f"## Members of tensors\n\n{_matrix('member', support_matrix.tensor_members())}",
        "## Parameters\n\nThose that came after their function, and those that are gone (by default they run with a\n"
        f"warning).\n\n{_matrix('parameter', support_matrix.parameters())}",
        "## Python\n\nPython that some release refuses, by the code of its error; by default it runs.\n\n"
        f"{_matrix('Python', support_matrix.python())}",
    ])  # fmt: skip


def _matrix(head: str, rows: list[support_matrix.Row]) -> str:
    return table((head, *RELEASES.versions), [(row.name, *_released(row.there)) for row in rows])


def _named(operator: str) -> list[str]:
    return _released(support_matrix.releases_of(f"nki.language.{operator}"))


def _released(there: Iterable[bool]) -> list[str]:
    return [_yes(value) for value in there]


def _on(having: list[target.Target]) -> list[str]:
    return [_yes(t in having) for t in target.GENERATIONS]


def _yes(value: bool) -> str:
    return "yes" if value else "-"


def rules() -> dict[str, str]:
    """The list of all rules, and a page for each first letter of their codes."""
    by_code: dict[str, list[Grouped]] = {}
    for r in grouped(REGISTRY.values()):
        by_code.setdefault(r.rule.code, []).append(r)
    by_letter: dict[str, list[str]] = {}
    for code, several in sorted(by_code.items()):
        parts = by_letter.setdefault(code[0], [f"# Rules {code[0]}\n\n{NOTE}\n{UNFORMATTED}"])
        parts += [f"## {code}\n", *map(_rule, several)]
    listed = [
        (_link_to_rule(code, ""), several[0].text, ", ".join(_names(several)))
        for code, several in sorted(by_code.items())
    ]
    introduction = (
        "A broken rule is named in brackets behind the error's code: `[NKI-SH002/TL02]`. Words in &lt;> stand for\n"
        "values of the call. The page of a rule has its fix and its source, and marks a choice that NKI's documents\n"
        "leave open. Where they are silent about a result, [numerics](../numerics.md) has what is computed.\n"
    )
    columns = "rule", "what is reported", "instructions"
    return {
        f"{RULES}.md": f"# Rules\n\n{NOTE}\n{UNFORMATTED}\n{introduction}\n{table(columns, listed)}",
        **{f"{RULES}/{letter}.md": "\n".join(parts) for letter, parts in by_letter.items()},
    }


def _link_to_rule(code: str, up: str) -> Link:
    """The link to a rule from a page of ``docs/reference`` (``up`` is empty), or of a folder in it (``../``)."""
    return Link(code, f"{up}rules/{code[0]}.md#{code.lower()}")


def _names(several: list[Grouped]) -> list[str]:
    """The instructions that have the rule: five of them, and how many more."""
    names = sorted({name for r in several for name in r.instructions})
    return names if len(names) <= 6 else [*names[:5], f"{len(names) - 5} more"]


def _rule(r: Grouped) -> str:
    error = r.rule.error
    lines = [f"{text(r.text)}\n"]
    lines += [f"- fix: {text(r.fix)}"] if r.fix else []
    lines += [f"- error: {cell(_link_to_error(error, '../../errors/'))}", f"- on: {_applies(r)}"]
    lines += [f"- source: {r.rule.source}{' (a choice: the documents are silent)' if r.ours else ''}"]
    lines += [f"- operands: {', '.join(r.operands)}"] if r.operands else []
    shown = (f"[{n}](../isa/{n}.md)" if REGISTRY[n].public else f"{n} (internal)" for n in r.instructions)
    return "\n".join([*lines, f"- instructions: {', '.join(shown)}\n"])


def _applies(r: Grouped) -> str:
    on = ", ".join(t.name for t in target.GENERATIONS if r.rule.since <= t.generation <= r.rule.until)
    return f"{on}, from NKI {r.rule.release} on" if r.rule.release else on


# Operators and targets


def _since(row: AluRow) -> str:
    """The first generation that has the operator, or that NKI's own instructions do not take it."""
    return "not in NKI: runs here, with a warning" if OPS[row.name].portability_note else f"gen{row.since}"


def operators() -> str:
    """The tables of ALU operators and activation functions."""
    alu = [
        (f"nl.{r.name}", r.meaning, r.nan, "bits" if r.bits else "float32", "yes" if r.reduces else "", _since(r))
        for r in TABLE.values()
    ]
    functions = [(f"nl.{a.name}", a.formula, a.ulp, _ranges(a.valid), a.special) for a in ACTIVATIONS.values()]
    return "\n".join([
        f"# Operators\n\n{NOTE}",
        "## ALU operators\n",
        table(("operator", "meaning", "NaN", "on", "reduces", "since"), alu),
        "## Activation functions\n\nErrors are against float64, in units of the last place of float32.\n",
        table(("function", "formula", "error", "valid input on hardware", "special values"), functions),
    ])  # fmt: skip


def targets() -> str:
    """The numbers of the hardware."""
    parts = [f"# Targets\n\n{NOTE}\nEvery number of the hardware, with its source; kind is docs, measured or guess.\n"]
    for t in target.GENERATIONS:
        known = [(name, _short(f.value), f.unit, f.kind, f.source) for name, f in t.facts().items()]
        parts.append(
            f"## {t.name} ({', '.join(t.aliases)})\n\n{table(('fact', 'value', 'unit', 'kind', 'source'), known)}"
        )
    return "\n".join(parts)


JSON_INTRODUCTION = f"""\
Every command takes `--json` and prints one document on its standard output, in one line; what kernels print goes to the
standard error. Each document names the schema, `"schema": "{schema.SCHEMA}"`: new fields do not change it, and a field
that goes, or changes its meaning, raises its number. The same as JSON Schema, for tools that check it:
[`reference/open-nki.schema.json`](reference/open-nki.schema.json).

- Times are seconds, except in `nki run --where` on this host, which says `nanoseconds`. Sizes are bytes. Parts are
  fractions of 1, also in fields named `..._percent`, as in the public profiler's files. Lines and columns count from 1.
- A field that may be missing says "if any". Null stands for what is not known, or what the command did not do.
- The exit code is the same as without `--json`. A command that fails prints [an error](#errors), and no document.
- The events of a profile one by one, and memory over time, are in the
  [tables and the trace](profiling.md#files-that-tools-read).
"""


def native_constants() -> str:
    """The constants of native code: sizes, limits and rough times."""
    rows = [(f"`{c.file}`", f"`{c.name}`", f"`{c.value}`", c.text) for c in constants(FOLDER / "src" / "nki")]
    head = "Results never depend on them, only times do. Measurements are in [experiments](../experiments.md)."
    columns = "file", "constant", "value", "unit, and why"
    return f"# Constants of native code\n\n{NOTE}\n{head}\n\n{table(columns, rows)}"


JSON_RECORDS = "The records inside the documents that `--json` prints ([JSON](../json.md)).\n"


def json_page(head: str, tables: Iterable[schema.Table]) -> str:
    """A page of the schema of ``--json``."""
    parts = [head]
    for heading, about, rows in tables:
        parts.append(f"## {heading}\n\n{text(about)}\n\n{table(('field', 'type', 'meaning'), rows)}")
    return "\n".join(parts)


def pages() -> dict[str, str]:
    """File names and contents of all pages."""
    shortest, kernels = examples(), example_kernels()
    return {
        "docs/reference/instructions.md": index(),
        **{f"{PAGES}/{name}.md": instruction(cls, kernels[name]) for name, cls in REGISTRY.items() if cls.public},
        "docs/reference/support.md": support(),
        **rules(),
        "docs/reference/operators.md": operators(),
        "docs/reference/targets.md": targets(),
        "docs/reference/native_constants.md": native_constants(),
        **errors(shortest),
        "docs/json.md": json_page(f"# JSON\n\n{NOTE}\n{JSON_INTRODUCTION}", schema.documents()),
        f"docs/{schema.RECORDS}": json_page(f"# Records of JSON\n\n{NOTE}\n{JSON_RECORDS}", schema.records()),
        "docs/images/device.svg": drawings.device(),
        "docs/images/overlap.svg": drawings.overlap(),
        "docs/reference/open-nki.schema.json": json.dumps(schema.json_schema(), indent=1, ensure_ascii=False) + "\n",
        "src/nki/isa/__init__.pyi": stub(),
        "src/nki/describe/instruction_examples.txt": "".join(
            f"{EXAMPLE}{name}\n{kernel.program}\n{COSTS}" + "".join(f"{line}\n" for line in kernel.costs)
            for name, kernel in kernels.items()
        ),
        "src/nki/describe/examples.txt": "".join(
            f"{MARK}{code}\n{case.program}{REPORT}{case.report}" for code, case in sorted(shortest.items())
        ),
    }


# Example kernels


def example_kernels() -> dict[str, ExampleKernel]:
    """The kernel of ``examples/instructions`` for each instruction, in the order of the registry."""
    kernels: dict[str, ExampleKernel] = {}
    for file in pkgutil.iter_modules(instruction_kernels.__path__):
        module = importlib.import_module(f"{instruction_kernels.__name__}.{file.name}")
        for name, arguments in module.ARGUMENTS.items():
            kernel = getattr(module, name)[module.CORES.get(name, 1) if hasattr(module, "CORES") else 1]
            estimates = [(t, estimate(kernel, arguments, t)) for t in generations(REGISTRY[name]) if runs_on(kernel, t)]
            kernels[name] = ExampleKernel(source(kernel.func), tuple(instruction_facts.costs(estimates)))
    return {name: kernels[name] for name in REGISTRY if name in kernels}


def source(function: FunctionType) -> str:
    """The text of a function, behind the functions of its module that it calls."""
    called = (function.__globals__.get(name) for name in function.__code__.co_names)
    helpers = [f for f in called if isinstance(f, FunctionType) and f.__module__ == function.__module__]
    return "\n\n".join(inspect.getsource(f).strip() + "\n" for f in (*helpers, function)).strip()


def runs_on(kernel: Kernel, on: target.Target) -> bool:
    """True if the target launches as many cores as the kernel needs."""
    return math.prod(kernel.grid) <= on.logical_core_max


def estimate(kernel: Kernel, texts: list[str], on: target.Target) -> Estimate:
    """The estimate of the first instruction that has the kernel's name."""
    name = kernel.func.__name__
    arguments = dict(zip(inspect.signature(kernel.func).parameters, (parse(text)[1] for text in texts), strict=True))
    specs = {parameter: value.spec(parameter) for parameter, value in arguments.items()}
    program = pipeline.compile(kernel.func, specs, on, grid=kernel.grid, stop="verify")
    return next(inst for inst in program.instructions() if inst.mnemonic == name).cost(on)


# Errors


def examples() -> dict[str, Golden]:
    """For each error code the shortest of the programs that make this mistake, and no other if there is such a one."""
    found: dict[str, Golden] = {}
    for case in sorted(golden(), key=lambda c: (len(c.codes), not c.program.isascii(), len(c.program + c.report))):
        for code in case.codes:
            found.setdefault(code, case)
    return found


def _import_all() -> None:
    """Import every module of the package, so that all errors are in the registry."""
    for module in pkgutil.walk_packages(nki.__path__, "nki."):
        if not module.name.endswith("__main__"):
            with contextlib.suppress(VendorModuleError):  # there for its report
                importlib.import_module(module.name)


def errors(shortest: dict[str, Golden]) -> dict[str, str]:
    """The list of all errors, and a page for each family of codes: the first two letters behind ``NKI-``."""
    _import_all()
    ours = [cls for _, cls in sorted(NkiError.registry.items()) if cls.__module__.startswith("nki.")]
    by_family: dict[str, list[str]] = {}
    for cls in ours:
        family = _family(cls)
        parts = by_family.setdefault(family, [f"# Errors {family}\n\n{NOTE}\n{UNFORMATTED}"])
        parts.append(f"## {cls.code}: {cls.__name__}\n\n{inspect.getdoc(cls)}\n")
        if cls.code in shortest:
            case = shortest[cls.code]
            parts.append(f"```python\n{case.program.strip()}\n```\n\n```text\n{case.report.strip()}\n```\n")
    introduction = (
        "Every report of a mistake begins with its code. `nki explain CODE` shows what stands on the code's page: the\n"
        "meaning, and the shortest golden report of the tests as an example; `nl` and `nisa` are imported there.\n"
    )
    listed = [(_link_to_error(cls, "errors/"), f"`{cls.__name__}`", first_line(cls)) for cls in ours]
    return {
        f"{ERRORS}.md": f"# Errors\n\n{NOTE}\n{introduction}\n{table(('code', 'class', 'meaning'), listed)}",
        **{f"{ERRORS}/{family}.md": "\n".join(parts) for family, parts in by_family.items()},
    }


def _family(error: type[NkiError]) -> str:
    return error.code.removeprefix("NKI-")[:2]


def _link_to_error(error: type[NkiError], folder: str) -> Link:
    anchor = f"{error.code}-{error.__name__}".lower()
    return Link(error.code, f"{folder}{_family(error)}.md#{anchor}")


def _ranges(valid: Iterable[tuple[float, float]]) -> str:
    return ", ".join(f"[{low:g}, {high:g}]" for low, high in valid)


def _short(value: object) -> str:
    if isinstance(value, frozenset):
        return ", ".join(sorted(map(str, value)))
    if hasattr(value, "items"):
        return ", ".join(f"{k}: {v}" for k, v in value.items())
    return str(value)


def stale(folder: Path, made: dict[str, str]) -> list[Path]:
    """Pages of instructions, errors and rules that are gone."""
    files = (file for name in FOLDERS for file in (folder / name).glob("*.md"))
    return [file for file in files if file.relative_to(folder).as_posix() not in made]


def main(folder: Path) -> None:
    made = pages()
    for name, content in made.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content, encoding="utf-8")
    for file in stale(folder, made):
        file.unlink()
    print(f"{len(made)} files in {folder}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
