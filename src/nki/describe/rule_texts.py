"""Rules in words, for ``nki explain`` and the reference.

A rule's text is the template of an error message: ``dst {i.dst} has {i.dst.partitions} partitions``. Words replace its
values here: ``dst has P partitions``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from nki import target
from nki.ir.instruction import Inst, Rule

_VALUE = re.compile(r"\{([it])\.([^}]*)\}")
_LISTED = re.compile(r"\{o\[([^\]]*)\]\}")
_QUANTITIES = {
    "partitions": "P",
    "free_elements": "N",
    "size": "N",
    "ndim": "D",
    "start_partition": "p",
    "partition_step": "S",
    "offset": "k",
    "shape": "its shape",
    "shape[0]": "P",
    "shape[1]": "N",
    "strides[0]": "s",
    "dtype": "another dtype",
    "buffer.value": "another memory",
}
"""Words for the properties of an operand."""
_PHRASES = (
    (r"\b(\w+)=\{i\.\w+(?:\.name)?\}", r"\1"),
    (r"\b(\w+) '?\{[io](?:\.|\[)\1(?:\.name|\.shape)?\]?\}'?", r"\1"),
    (r"\boperand \{i\.\w+\.shape\}", "operand"),
    (r"offsets '\{i\.\w+\.dynamic\.source\.name\}'", "offsets"),
    (r"'\{i\.\w+\.dynamic\.source\.name\}'", "its index"),
    (r" \{i\.\w+\.dynamic\.source\.shape\}", ""),
)
"""Parts of templates that name an argument twice, once with its value."""
_REPETITIONS = (
    (r"\b(\w+) is \1, a dtype", r"\1 is of a dtype"),
    (r"\b(\w+) is \1(?:, neither| and not)", r"\1 is not"),
    (r"\b(\w+) is \1;", r"\1 is another value;"),
    (r"\b(\w+) (?:is|are) \1\b", r"\1"),
    (r"\b(\w+)=\1\b", r"\1"),
    (r"operand is operand in", "operand is in"),
)
"""Values for which the argument's name is used again."""
_LISTS = {"in psum": "an operand in psum", "by rows": "a row-indexed operand", "by elements": "an indirect operand"}
_OWN_CHOICE = ("this project", "open")


@dataclass(frozen=True, slots=True)
class Grouped:
    """A rule in readable words, and all operands and instructions that it limits in the same words."""

    rule: Rule
    text: str
    fix: str
    operands: dict[str, None]
    instructions: dict[str, None]

    @property
    def ours(self) -> bool:
        """True for a choice of this project on which NKI's documents are silent."""
        return self.rule.source.startswith(_OWN_CHOICE)


def grouped(classes: Iterable[type[Inst]]) -> list[Grouped]:
    """The rules of ``classes``, each once: rules of one operand that differ only in its name are one."""
    return list(_grouped(tuple(classes)))


@cache
def _grouped(classes: tuple[type[Inst], ...]) -> tuple[Grouped, ...]:
    groups: dict[tuple[object, ...], Grouped] = {}
    for cls in classes:
        names = [f.name for f in cls.fields if f.role is not None]
        for rule in cls.rules:
            used = [n for n in names if f"{{i.{n}." in rule.text]
            own = rule.text.partition(" ")[0]
            operand = own if used == [own] else ""
            text, fix = (_readable(t, operand) for t in (rule.text, rule.fix))
            key = (rule.code, text, rule.source, rule.since, rule.until)
            group = groups.setdefault(key, Grouped(rule, text, fix, {}, {}))
            group.instructions[cls.mnemonic] = None
            if operand:
                group.operands[operand] = None
    return tuple(groups.values())


def _readable(text: str, operand: str) -> str:
    """A rule's text with words for its values; ``operand`` is called "operand"."""
    if operand:
        text = re.sub(rf"\b{operand}\b", "operand", text)
    for pattern, words in _PHRASES:
        text = re.sub(pattern, words, text)
    text = _VALUE.sub(lambda match: _target(match[2]) if match[1] == "t" else _word(match[2]), text)
    text = _LISTED.sub(lambda match: _LISTS.get(match[1], match[1]), text)
    for pattern, words in _REPETITIONS:
        text = re.sub(pattern, words, text)
    text = re.sub(r"another (dtype|memory) to another \1", r"one \1 to another", text)
    return text.replace("dtype another dtype", "another dtype").replace("{{", "{").replace("}}", "}")


def _target(fact: str) -> str:
    """A fact of the target: its value, or one per target where they differ."""
    if fact == "name":
        return "the target"
    values = {t.name: getattr(t, fact) for t in target.GENERATIONS}
    if len(set(values.values())) == 1:
        return str(next(iter(values.values())))
    return ", ".join(f"{value} ({name})" for name, value in values.items())


def _word(path: str) -> str:
    """A field of the instruction, or a property of one of its operands."""
    name, _, rest = path.partition(".")
    if not rest or rest == "name":
        return name
    rest = rest.removeprefix("dynamic.source.")
    return _QUANTITIES.get(rest, f"{name}.{rest}")
