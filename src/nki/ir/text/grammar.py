"""The lines of a kernel's text form, and their parts, as regular expressions."""

from __future__ import annotations

import re
from typing import Final

QUOTED: Final = r'"(?:[^"\\]|\\.)*"'
PLAIN: Final = r"[^\W\d][\w.]*"
NAME: Final = rf"({QUOTED}|{PLAIN})"
HEAD: Final = re.compile(
    rf"kernel ({QUOTED}) target=(\w+) grid=(\([\d, ]*\)) version=({QUOTED})(?: release=(\d{{1,4}}\.\d{{1,4}}))?"
    r"( undefined=carried)? \{$"
)
DECLARE: Final = re.compile(
    rf"(input|output|tensor|constant|spill) {NAME} : (\w+) (\w+)\[([\d,]+)\](?: at=\((\d+), (\d+)\))?"
    r"(?: place=\((\d+), (\d+)\))?(?: sha256=([0-9a-f]{64}) data=([\w+/=]*))?$"
)
FLOAT: Final = re.compile(rf"float {NAME} = (-?(?:\d+(?:\.\d*)?(?:e[+-]?\d+)?|inf|nan)|nan\(0x[0-9a-f]{{16}}\))$")
SHARED: Final = re.compile(rf"shared {NAME}$")
FOR: Final = re.compile(rf"for {NAME} = (?:(-?\d+)|{NAME}) to (?:(-?\d+)|{NAME}) step (\d+) \{{")
WHILE: Final = re.compile(rf"while {NAME} \{{")
OPERAND: Final = re.compile(rf"{NAME}\[(-?\d+) \| ([^\]\[]*?)(?: as (\w+))?(?:\]|(?= at | rows | elements ))")
INDEX: Final = re.compile(r" (at|rows|elements) (\d+)\*")
STEP: Final = re.compile(r"(-?\d+)x(\d+)")
RETURNED: Final = rf"{NAME}(?:\[([\d,]+)(?: as (\w+))?\])?"
OUTPUTS: Final = re.compile(
    rf"return (?:\(((?:{RETURNED}, )*{RETURNED})?\)|({RETURNED}))(?: changes (?P<changes>(?:{NAME}, )*{NAME}))?$"
)
NUMBER: Final = re.compile(r"-?(?:\d++(?:\.\d*+)?(?:e[+-]?\d++)?|inf|nan)(?![\w.(])|nan\(0x[0-9a-f]{16}\)")
STRING: Final = re.compile(QUOTED)
SOURCE: Final = re.compile(rf"# ({QUOTED}):(\d{{1,9}})")
WORD: Final = re.compile(r"[A-Za-z_][\w.]*")
_BRIEF: Final = r"[\w.+-]+(?:\[[^\[\]]*\])?"
"""A value without quotes, parentheses and run-time index, as most are."""
ARGUMENT: Final = re.compile(rf" (\w+)=({_BRIEF})(?= |$)")
INSTRUCTION: Final = re.compile(rf"({WORD.pattern})((?: \w+={_BRIEF}(?= |$))*)")
"""A mnemonic, and the arguments up to the first one with another value."""
