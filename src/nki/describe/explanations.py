"""Descriptions of error codes, rules, instructions, operators and functions as text, for ``nki explain``."""

from __future__ import annotations

import inspect
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, Literal

from nki import isa, language, target
from nki.base import beta1_errors, framework_errors, profile_errors
from nki.base.errors import NkiError
from nki.base.source import is_toolchain
from nki.base.terms import TERMS, term
from nki.base.usage import UsageError, nearest
from nki.describe import instruction_facts as facts
from nki.describe import public_names, vendor_errors
from nki.describe.example_kernels import example_kernels
from nki.describe.public_names import wrapped
from nki.describe.rule_texts import Grouped, grouped
from nki.describe.samples import generations
from nki.ir.instruction import REGISTRY, Inst
from nki.isa.tables.operators import OPS, Op

LATE = (beta1_errors, framework_errors, profile_errors)
"""Modules of errors that the package imports late; imported here, so that their codes are known."""
MARK = "=== "
"""First characters of each entry of ``examples.txt``."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The ``text`` about a topic of a ``kind``; of the list of all topics, also the topics by kind."""

    kind: Literal["list", "error", "vendor error", "rule", "instruction", "operator", "function", "name", "term"]
    text: str
    topics: dict[str, list[str]] = field(default_factory=dict[str, list[str]])


def topics() -> str:
    """Everything that can be explained, a line each."""
    return _all().text


def _all() -> Explanation:
    errors = [f"  {code}  {_first_line(cls)}" for code, cls in sorted(NkiError.registry.items())]
    errors += ["", "errors of the vendor's compiler and runtime", wrapped(", ".join(vendor_errors.CODES))]
    width = max(map(len, REGISTRY))
    instructions = [f"  {name:<{width}}  {_first_line(cls)}" for name, cls in _public()]
    by_kind = {
        "error": sorted(NkiError.registry),
        "vendor error": list(vendor_errors.CODES),
        "instruction": [name for name, _ in _public()],
        "operator": [f"nl.{name}" for name in OPS],
        "function": [f"nl.{name}" for name in _functions() if name not in OPS],
        "rule": _rules(),
        "term": list(TERMS),
    }
    parts = ["errors", *errors, "", "instructions", *instructions]
    for title, kind in (("operators", "operator"), ("functions", "function"), ("rules", "rule")):
        parts += ["", title, wrapped(", ".join(by_kind[kind]))]
    parts += ["", "terms of profiles", wrapped(", ".join(TERMS))]
    listed = {*(f"nl.{name}" for name in (*OPS, *_functions())), *(f"nisa.{name}" for name in REGISTRY)}
    listed |= {cls.__name__ for cls in NkiError.registry.values()}
    by_kind["name"] = [
        name for name in dict.fromkeys(map(public_names.short, public_names.index())) if name not in listed
    ]
    return Explanation("list", "\n".join([*parts, "", "other names", wrapped(", ".join(by_kind["name"]))]), by_kind)


def about(topic: str) -> str:
    """The text of an explanation."""
    return explanation(topic).text


def explanation(topic: str) -> Explanation:
    """The explanation of an error code, a rule's code, an instruction, an operator or another public name; of "", the
    list of all.

    ``NCC_EVRF066`` is an error of the vendor's compiler, ``NRT_EXEC_OOB``, ``1006`` and ``TDRV:log_dev_mem`` are of its
    runtime; ``NKI-SH001/TL02`` is the rule TL02; ``nl.reciprocal`` the operator, ``reciprocal`` the instruction.
    """
    if not topic:
        return _all()
    name = topic.strip("[]")
    if vendor_errors.is_code(name):
        return Explanation("vendor error", vendor_errors.about(name))
    code, _, rule = name.upper().partition("/")
    if not rule and code in NkiError.registry:
        return Explanation("error", error(NkiError.registry[code]))
    if rule or code in _rules():
        return Explanation("rule", rules(rule or code))
    space, _, word = name.rpartition(".")
    cls = REGISTRY.get(word.lower())
    if space in ("", "nisa", "nki.isa") and cls is not None and cls.public:
        return Explanation("instruction", instruction(cls) + public_names.since(f"nki.isa.{word.lower()}"))
    if space in ("", "nl", "nki.language") and word in OPS:
        return Explanation("operator", operator(OPS[word]) + public_names.since(f"nki.language.{word}"))
    if space in ("", "nl", "nki.language") and word in _functions():
        return Explanation("function", function(word, _functions()[word]) + public_names.since(f"nki.language.{word}"))
    if (text := public_names.explain(name)) is not None:
        return Explanation("name", text)
    if (known := term(topic)) is not None:
        return Explanation("term", f"{known[0]}\n\n{wrapped(known[1], '')}")
    raise UsageError(f"nothing is known about {topic!r}", _nearest(code, name, word))


def _nearest(code: str, name: str, word: str) -> str:
    """The way out of an unknown topic: near codes, instructions and operators first, then all other names."""
    known = [*NkiError.registry, *_rules(), *(n for n, _ in _public()), *OPS, *_functions()]
    public = list(map(public_names.short, public_names.index()))
    tries = ((code if "-" in name else word, known), (name, public), (word, (n.rpartition(".")[2] for n in public)))
    for asked, among in tries:
        near = nearest(asked, dict.fromkeys(among), "topics") if asked else ""
        if near.startswith("did"):
            return near
    return "list all: nki explain"


def error(cls: type[NkiError]) -> str:
    """An error class: meaning, the rules that raise it, and a program that causes it."""
    lines = [f"{cls.code}: {cls.__name__}", "", inspect.getdoc(cls) or ""]
    raised = [r for r in grouped(REGISTRY.values()) if r.rule.error is cls]
    if raised:
        lines += ["", "rules that report it (nki explain RULE says more)"]
        lines += [wrapped(f"{r.rule.code}  {r.text}") for r in sorted(raised, key=lambda r: r.rule.code)]
    if example := examples().get(cls.code):
        lines += ["", "example", *(f"  {line}".rstrip() for line in example.splitlines())]
    return "\n".join(lines)


def examples() -> dict[str, str]:
    """For each error code a program and the report on it."""
    written = resources.files("nki.describe").joinpath("examples.txt").read_text(encoding="utf-8")
    entries = (entry.partition("\n") for entry in written.split(MARK)[1:])
    return {code: example for code, _, example in entries}


def rules(code: str) -> str:
    """Every rule with this code, and the instructions that it limits."""
    matching = [r for r in grouped(REGISTRY.values()) if r.rule.code == code]
    if not matching:
        raise UsageError(f"there is no rule {code!r}", nearest(code, _rules(), "rules"))
    parts = [f"rule {code}"]
    for r in matching:
        parts += ["", *_shown(r), wrapped(f"instructions: {', '.join(r.instructions)}", "      ")]
    return "\n".join(parts)


def instruction(cls: type[Inst]) -> str:
    """An instruction: signature, meaning, engines, targets, operands, cost, an example, rules."""
    parts = [facts.signature(cls), "", inspect.getdoc(cls) or "", ""]
    parts += [f"engines: {', '.join(e.name for e in cls.engines)}"]
    parts += [f"targets: {', '.join(t.name for t in generations(cls))}"]
    parts += [f"runs as: {runs(cls)}", "", "operands"]
    parts += [wrapped(operand(o)) for o in facts.operands(cls)]
    kernel = example_kernels().get(cls.mnemonic)  # None before `make docs` has run for a new declaration
    parts += ["", "example", *_indented(kernel.program)] if kernel is not None else []
    parts += ["", "cost", wrapped(facts.formula(cls).replace("``", ""))]
    parts += [wrapped(f"in the example: {line}") for line in (kernel.costs if kernel is not None else ())]
    parts += ["", "rules"]
    for r in grouped([cls]):
        parts += _shown(r)
    return "\n".join(parts)


def runs(cls: type[Inst]) -> str:
    """Executors of the instruction."""
    native = "native code that calls Python" if facts.calls_python(cls) else "native code"
    return f"NumPy (nki.simulate), {native}"


def operand(o: facts.Operand) -> str:
    """An operand in a line."""
    otherwise = f"; or {o.otherwise}" if o.otherwise else ""
    return f"{o.name} ({o.role.value}): in {o.buffers}; {o.dtypes}{otherwise}"


def operator(op: Op) -> str:
    """An operator: its rows in the tables of operators and activation functions, and the parameters that take it."""
    parts = [public_names.called(repr(op), op.function) if op.function is not None else repr(op)]
    if op.function is not None:
        parts += ["", inspect.getdoc(op.function) or ""]
    if (row := op.alu) is not None:
        parts += ["", "ALU operator", f"  meaning: {row.meaning}", f"  operands: {row.arity}"]
        parts += [f"  computes on: {'bits' if row.bits else 'float32'}", f"  NaN: {row.nan}"]
        parts += [f"  reduces: {'yes' if row.reduces else 'no'}", f"  targets: {_targets(range(row.since, 99))}"]
    if (act := op.act) is not None:
        parts += ["", "activation function", f"  formula: {act.formula}", f"  error: {act.ulp:g} ulp of float32"]
        valid = ", ".join(f"[{low:g}, {high:g}]" for low, high in act.valid)
        parts += [f"  valid input on hardware: {valid}", f"  special values: {act.special}"]
        parts += [f"  targets: {_targets(act.cores)}", f"  source: {act.source}"]
    return "\n".join([*parts, "", "taken by", wrapped(", ".join(facts.accepting(op)) or "nothing")])


def _targets(numbers: Container[int]) -> str:
    return ", ".join(t.name for t in target.GENERATIONS if t.generation in numbers)


def function(name: str, value: Any) -> str:
    """Another function or class of ``nki.language``: signature and documentation."""
    return f"{public_names.called(f'nl.{name}', value)}\n\n{inspect.getdoc(value) or ''}"


def _shown(r: Grouped) -> Iterator[str]:
    rule = r.rule
    limited = (rule.since, rule.until) != (2, 99)
    on = f", on {_targets(range(rule.since, rule.until + 1))}" if limited else ""
    on += f", from NKI {rule.release} on" if rule.release else ""
    yield wrapped(f"{rule.code}  {r.text} [{rule.error.code}{on}]")
    if r.operands:
        yield wrapped(f"operand: {', '.join(r.operands)}", "      ")
    if rule.fix:
        yield wrapped(f"fix: {r.fix}", "      ")
    yield wrapped(f"source: {rule.source}", "      ")


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines()]


def _first_line(cls: type[NkiError | Inst]) -> str:
    return (inspect.getdoc(cls) or "").partition("\n\n")[0].replace("\n", " ")


def _public() -> list[tuple[str, type[Inst]]]:
    """The instructions of ``nki.isa``."""
    return [(name, REGISTRY[name]) for name in REGISTRY if name in isa.__all__]


def _functions() -> dict[str, Any]:
    """Functions and classes of ``nki.language`` besides operators, types and buffers."""
    own = {n: v for n, v in sorted(vars(language).items()) if n[0] != "_" and n not in OPS}
    return {n: v for n, v in own.items() if callable(v) and is_toolchain(v)}


def _rules() -> list[str]:
    return sorted({r.code for cls in REGISTRY.values() for r in cls.rules})
