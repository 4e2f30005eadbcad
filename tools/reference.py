"""Write what is generated from the declarations and the golden reports: ``python -m tools.reference [FOLDER]``.

That is ``docs/reference/``, ``docs/errors.md``, and the examples that ``nki explain`` shows.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable
from pathlib import Path

from nki import target
from nki.base.errors import NkiError
from nki.cli.explain import MARK, grouped
from nki.ir.inst import REGISTRY, Inst
from nki.isa.activations import ACTIVATIONS
from nki.isa.alu import TABLE
from nki.isa.publish import visible
from tests.errors.golden import MARK as REPORT
from tests.errors.golden import Golden, golden

FOLDER = Path(__file__).parent.parent
NOTE = "Generated from the source by `make docs`; edit the declarations instead.\n"


def cell(value: object) -> str:
    """Text that stays inside its cell of a table."""
    return str(value).replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A table in Markdown."""
    names = list(head)
    lines = [f"| {' | '.join(names)} |", f"|{'---|' * len(names)}"]
    lines += [f"| {' | '.join(map(cell, row))} |" for row in rows]
    return "\n".join(lines) + "\n"


def instruction(cls: type[Inst]) -> str:
    """One instruction: signature, meaning, engines and limits."""
    parameters = [
        f.name if f.default is inspect.Parameter.empty else f"{f.name}={getattr(f.default, 'name', f.default)}"
        for f in visible(cls)
    ]
    rules = [
        (r.rule.code, r.text, r.fix, _generations(r.rule.since, r.rule.until), r.rule.source) for r in grouped([cls])
    ]
    engines = ", ".join(engine.name for engine in cls.engines)
    return "\n".join([
        f"## nisa.{cls.mnemonic}\n",
        f"```text\nnisa.{cls.mnemonic}({', '.join(parameters)})\n```\n",
        f"{inspect.getdoc(cls)}\n",
        f"Engines: {engines}.\n",
        table(("rule", "what is reported", "fix", "on", "source"), rules),
    ])  # fmt: skip


def _generations(since: int, until: int) -> str:
    return ", ".join(t.name for t in target.GENERATIONS if since <= t.generation <= until)


def pages() -> dict[str, str]:
    """File names and contents of all pages."""
    shown = [cls for cls in REGISTRY.values() if cls.public]
    names = ", ".join(f"[{c.mnemonic}](#nisa{c.mnemonic})" for c in shown)
    instructions = [f"# Instructions\n\n{NOTE}\n{names}\n", *map(instruction, shown)]
    alu = [
        (f"nl.{r.name}", r.meaning, r.nan, "bits" if r.bits else "float32", "yes" if r.reduces else "", f"gen{r.since}")
        for r in TABLE.values()
    ]
    functions = [(f"nl.{a.name}", a.formula, a.ulp, _ranges(a.valid), a.special) for a in ACTIVATIONS.values()]
    targets = [
        f"# Targets\n\n{NOTE}\nEvery number of the hardware, with its source; kind is docs, measured or guess.\n"
    ]
    for t in target.GENERATIONS:
        facts = [(name, _short(f.value), f.unit, f.kind, f.source) for name, f in t.facts().items()]
        targets.append(
            f"## {t.name} ({', '.join(t.aliases)})\n\n{table(('fact', 'value', 'unit', 'kind', 'source'), facts)}"
        )
    operators = [
        f"# Operators\n\n{NOTE}",
        "## ALU operators\n",
        table(("operator", "meaning", "NaN", "on", "reduces", "since"), alu),
        "## Activation functions\n\nErrors are against float64, in units of the last place of float32.\n",
        table(("function", "formula", "error", "valid input on hardware", "special values"), functions),
    ]
    shortest = examples()
    return {
        "docs/reference/instructions.md": "\n".join(instructions),
        "docs/reference/operators.md": "\n".join(operators),
        "docs/reference/targets.md": "\n".join(targets),
        "docs/errors.md": errors(shortest),
        "src/nki/cli/examples.txt": "".join(
            f"{MARK}{code}\n{case.program}{REPORT}{case.report}" for code, case in sorted(shortest.items())
        ),
    }


def examples() -> dict[str, Golden]:
    """For each error code the shortest of the programs that make this mistake, and no other if there is such a one."""
    found: dict[str, Golden] = {}
    for case in sorted(golden(), key=lambda c: (len(c.codes), not c.program.isascii(), len(c.program + c.report))):
        for code in case.codes:
            found.setdefault(code, case)
    return found


def errors(shortest: dict[str, Golden]) -> str:
    """The page of all errors."""
    parts = [
        f"# Errors\n\n{NOTE}\n<!-- fmt: off -->\n\n"
        "Every report of a mistake begins with its code; `nki explain CODE` shows what stands here.\n"
        "The examples are the shortest golden reports of the tests; `nl` and `nisa` are imported there.\n"
    ]
    for code, cls in sorted(NkiError.registry.items()):
        if cls.__module__.startswith("nki."):
            parts.append(f"## {code}: {cls.__name__}\n\n{inspect.getdoc(cls)}\n")
            if code in shortest:
                case = shortest[code]
                parts.append(f"```python\n{case.program.strip()}\n```\n\n```text\n{case.report.strip()}\n```\n")
    return "\n".join(parts)


def _ranges(valid: Iterable[tuple[float, float]]) -> str:
    return ", ".join(f"[{low:g}, {high:g}]" for low, high in valid)


def _short(value: object) -> str:
    if isinstance(value, frozenset):
        return ", ".join(sorted(map(str, value)))
    if hasattr(value, "items"):
        return ", ".join(f"{k}: {v}" for k, v in value.items())
    return str(value)


def main(folder: Path) -> None:
    for name, text in pages().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
        print(folder / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
