"""Complaints about options and commands that do not exist, and about values that they do not take."""

from __future__ import annotations

import re
from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Final

from nki.base.usage import nearest

_CHOICE: Final = re.compile(r"argument (\S+): invalid choice: '([^']*)' \(choose from (.*)\)")
_MISSING: Final = re.compile(r"argument (\S+): expected (?:one|at least one) argument")
_WHOLE: Final = re.compile(r"argument (\S+): invalid int value: '([^']*)'")


def explained(message: str, parser: ArgumentParser) -> tuple[str, str]:
    """The message and the way out of what ``argparse`` complains about."""
    if match := _CHOICE.fullmatch(message):
        option, value, choices = match[1], match[2], re.findall(r"[\w.-]+", match[3])
        if option == "COMMAND":
            return f"there is no command {value!r}", nearest(value, choices, "commands")
        return f"{option} {value}: there is no such value", nearest(value, choices, "values")
    if match := _MISSING.fullmatch(message):
        name = match[1]
        return f"{name} needs a value", f"write {name} VALUE, or {name}=VALUE if the value begins with -"
    if match := _WHOLE.fullmatch(message):
        return f"{match[1]} {match[2]}: this is no whole number", f"pass a number, such as {match[1]} 1"
    return message, f"see {parser.prog} --help"


def unknown(words: Sequence[str], parser: ArgumentParser) -> tuple[str, str]:
    """The message and the way out of ``words`` that ``parser`` does not know."""
    first = words[0]
    help_ = f"see {parser.prog} --help"
    if not first.startswith("-"):
        return f"{parser.prog} does not know what to do with {first!r}", help_
    name = first.partition("=")[0]
    options = re.findall(r"--[\w-]+", parser.format_help())
    near = nearest(name, dict.fromkeys(options), "options")
    return f"{parser.prog} has no option {name}", near if near.startswith("did you mean") else help_
