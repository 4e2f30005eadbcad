"""Parser of the formulas of run-time floats, as :func:`nki.ir.floats.runtime_float.show` writes them."""

from __future__ import annotations

import json
import re
from typing import Final

from nki.ir.floats.runtime_float import Formula
from nki.ir.text.grammar import NAME

_CONSTANT: Final = re.compile(r"-?(?:\d++(?:\.\d*+)?(?:e[+-]?\d++)?|inf)(?![\w.])")
_NAME: Final = re.compile(NAME)
_OPERATOR: Final = re.compile(r"[-+*/]")
_DEEPEST: Final = 32


def parse_formula(text: str, at: int, depth: int = 0) -> tuple[Formula, int]:
    """The formula that starts at ``at``, and the index behind it. Raises :class:`ValueError` for anything else."""
    if match := _CONSTANT.match(text, at):
        return float(match[0]), match.end()
    if match := _NAME.match(text, at):
        return (str(json.loads(match[1])) if match[1].startswith('"') else match[1]), match.end()
    if not text.startswith("(", at) or depth > _DEEPEST:
        raise ValueError("a formula is a number, a name, (-x), or (x+y) with one of + - * /")
    if text.startswith("-", at + 1) and not _CONSTANT.match(text, at + 1):
        inner, at = parse_formula(text, at + 2, depth + 1)
        return ("-", inner), _closed(text, at)
    left, at = parse_formula(text, at + 1, depth + 1)
    operator = _OPERATOR.match(text, at)
    if operator is None:
        raise ValueError("an operator is missing in a formula")
    right, at = parse_formula(text, operator.end(), depth + 1)
    return (operator[0], left, right), _closed(text, at)


def _closed(text: str, at: int) -> int:
    if not text.startswith(")", at):
        raise ValueError("a formula is not closed")
    return at + 1
