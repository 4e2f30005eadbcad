"""``nki explain``: what an error code, a rule or an instruction means, from the declarations themselves."""

from __future__ import annotations

import argparse
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from importlib import resources

from nki import isa
from nki.base.errors import NkiError
from nki.cli.usage import UsageError, nearest
from nki.ir.inst import REGISTRY, Inst, Rule
from nki.isa.publish import visible

MARK = "=== "
"""What each entry of ``examples.txt`` begins with."""
_VALUE = re.compile(r"\{([it])\.([^}]*)\}")
_OPERAND = re.compile(r"\{o\[([^\]]*)\]\}")


def command(options: argparse.Namespace) -> int:
    """Carry out ``nki explain``."""
    topic: str = options.topic
    print(topics() if not topic else about(topic))
    return 0


def topics() -> str:
    """Everything that can be explained, a line each."""
    errors = [f"  {code}  {_first_line(cls)}" for code, cls in sorted(NkiError.registry.items())]
    width = max(map(len, REGISTRY))
    instructions = [f"  {name:<{width}}  {_first_line(cls)}" for name, cls in _public()]
    return "\n".join(["errors", *errors, "", "instructions", *instructions])


def about(topic: str) -> str:
    """The explanation of an error code, a rule's code or an instruction; ``NKI-SH001/TL02`` is the rule TL02."""
    name = topic.strip("[]").removeprefix("nki.isa.").removeprefix("nisa.")
    code, _, rule = name.upper().partition("/")
    if not rule and code in NkiError.registry:
        return error(NkiError.registry[code])
    if rule or code in _rules():
        return rules(rule or code)
    cls = REGISTRY.get(name.lower())
    if cls is None or not cls.public:
        known = [*NkiError.registry, *_rules(), *(n for n, _ in _public())]
        near = nearest(code if "-" in name else name, known, "topics") if name else ""
        raise UsageError(
            f"nothing is known about {topic!r}", near if near.startswith("did") else "list all: nki explain"
        )
    return instruction(cls)


def error(cls: type[NkiError]) -> str:
    """An error class: what it means, the rules that raise it, and a program that makes the mistake."""
    lines = [f"{cls.code}: {cls.__name__}", "", inspect.getdoc(cls) or ""]
    raised = [r for r in grouped(c for _, c in _public()) if r.rule.error is cls]
    if raised:
        lines += ["", "rules that report it (nki explain RULE says more)"]
        lines += [_wrapped(f"{r.rule.code}  {r.text}") for r in sorted(raised, key=lambda r: r.rule.code)]
    if example := examples().get(cls.code):
        lines += ["", "example", *(f"  {line}".rstrip() for line in example.splitlines())]
    return "\n".join(lines)


def examples() -> dict[str, str]:
    """For each error code a program and the report on it."""
    written = resources.files("nki.cli").joinpath("examples.txt").read_text(encoding="utf-8")
    entries = (entry.partition("\n") for entry in written.split(MARK)[1:])
    return {code: example for code, _, example in entries}


def rules(code: str) -> str:
    """Every rule with this code, and the instructions that it limits."""
    found = [r for r in grouped(c for _, c in _public()) if r.rule.code == code]
    if not found:
        raise UsageError(f"there is no rule {code!r}", nearest(code, _rules(), "rules"))
    parts = [f"rule {code}"]
    for r in found:
        parts += ["", *_shown(r), _wrapped(f"instructions: {', '.join(r.instructions)}", "      ")]
    return "\n".join(parts)


def instruction(cls: type[Inst]) -> str:
    """An instruction: signature, meaning, engines, rules."""
    parameters = [
        f.name if f.default is inspect.Parameter.empty else f"{f.name}={_default(f.default)}" for f in visible(cls)
    ]
    engines = ", ".join(e.name for e in cls.engines)
    parts = [f"nisa.{cls.mnemonic}({', '.join(parameters)})", "", inspect.getdoc(cls) or ""]
    parts += ["", f"engines: {engines}", "", "rules"]
    for r in grouped([cls]):
        parts += _shown(r)
    return "\n".join(parts)


@dataclass(slots=True)
class Grouped:
    """A rule in readable words, and all operands and instructions that it limits in the same words."""

    rule: Rule
    text: str
    fix: str
    operands: dict[str, None]
    instructions: dict[str, None]


def grouped(classes: Iterable[type[Inst]]) -> list[Grouped]:
    """The rules of ``classes``, each once: rules of one operand that differ only in its name are one."""
    found: dict[tuple[str, str, str], Grouped] = {}
    for cls in classes:
        names = [f.name for f in cls.fields if f.role is not None]
        for rule in cls.rules:
            used = [n for n in names if f"{{i.{n}." in rule.text]
            own = rule.text.partition(" ")[0]
            operand = own if used == [own] else ""
            text, fix = (_readable(t, operand) for t in (rule.text, rule.fix))
            group = found.setdefault((rule.code, text, rule.source), Grouped(rule, text, fix, {}, {}))
            group.instructions[cls.mnemonic] = None
            if operand:
                group.operands[operand] = None
    return list(found.values())


def _shown(r: Grouped) -> Iterator[str]:
    rule = r.rule
    since = f", from gen{rule.since}" if rule.since > 2 else ""
    until = f", up to gen{rule.until}" if rule.until < 99 else ""
    yield _wrapped(f"{rule.code}  {r.text} [{rule.error.code}{since}{until}]")
    if r.operands:
        yield _wrapped(f"operand: {', '.join(r.operands)}", "      ")
    if rule.fix:
        yield _wrapped(f"fix: {r.fix}", "      ")
    yield _wrapped(f"source: {rule.source}", "      ")


def _readable(text: str, operand: str) -> str:
    """A rule's text with its values named, ``{i.dst.shape}`` as <dst.shape>; ``operand`` is called "operand"."""
    if operand:
        text = re.sub(rf"\b{operand}\b", "operand", text)
    text = _VALUE.sub(lambda m: f"<{'target.' if m[1] == 't' else ''}{m[2]}>", text)
    text = _OPERAND.sub(r"<\1>", text)
    return text.replace("'<operand.name>' ", "").replace("{{", "{").replace("}}", "}")


def _wrapped(text: str, indent: str = "  ") -> str:
    return textwrap.fill(text, 100, initial_indent=indent, subsequent_indent=indent + "    ", break_on_hyphens=False)


def _default(value: object) -> str:
    return f"{type(value).__name__}.{value.name}" if isinstance(value, Enum) else repr(value)


def _first_line(cls: type[NkiError | Inst]) -> str:
    return (inspect.getdoc(cls) or "").partition("\n\n")[0].replace("\n", " ")


def _public() -> list[tuple[str, type[Inst]]]:
    """The instructions of ``nki.isa``."""
    return [(name, REGISTRY[name]) for name in REGISTRY if name in isa.__all__]


def _rules() -> list[str]:
    return sorted({r.code for _, cls in _public() for r in cls.rules})
