"""Rules in readable words, for ``nki explain`` and the reference."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from nki.ir.instruction import Inst, Rule

_VALUE = re.compile(r"\{([it])\.([^}]*)\}")
_OPERAND = re.compile(r"\{o\[([^\]]*)\]\}")
_OWN_CHOICE = ("this project", "open")


@dataclass(slots=True)
class Grouped:
    """A rule in readable words, and all operands and instructions that it limits in the same words."""

    rule: Rule
    text: str
    fix: str
    operands: dict[str, None]
    instructions: dict[str, None]

    @property
    def ours(self) -> bool:
        """Whether it is a choice of this project, where NKI's documents say nothing."""
        return self.rule.source.startswith(_OWN_CHOICE)


def grouped(classes: Iterable[type[Inst]]) -> list[Grouped]:
    """The rules of ``classes``, each once: rules of one operand that differ only in its name are one."""
    found: dict[tuple[object, ...], Grouped] = {}
    for cls in classes:
        names = [f.name for f in cls.fields if f.role is not None]
        for rule in cls.rules:
            used = [n for n in names if f"{{i.{n}." in rule.text]
            own = rule.text.partition(" ")[0]
            operand = own if used == [own] else ""
            text, fix = (_readable(t, operand) for t in (rule.text, rule.fix))
            key = (rule.code, text, rule.source, rule.since, rule.until)
            group = found.setdefault(key, Grouped(rule, text, fix, {}, {}))
            group.instructions[cls.mnemonic] = None
            if operand:
                group.operands[operand] = None
    return list(found.values())


def _readable(text: str, operand: str) -> str:
    """A rule's text with its values named, ``{i.dst.shape}`` as <dst.shape>; ``operand`` is called "operand"."""
    if operand:
        text = re.sub(rf"\b{operand}\b", "operand", text)
    text = _VALUE.sub(lambda m: f"<{'target.' if m[1] == 't' else ''}{m[2]}>", text)
    text = _OPERAND.sub(r"<\1>", text)
    return text.replace("'<operand.name>' ", "").replace("{{", "{").replace("}}", "}")
