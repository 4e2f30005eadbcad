"""Output on terminals and in pipes whose encoding lacks letters that the commands print, such as ``µ`` and ``█``."""

from __future__ import annotations

import codecs
from typing import Final, TextIO

_PLAIN: Final = {"µ": "u", "█": "#", "▒": ":", "·": ".", "…": "...", "−": "-", "–": "-", "→": "->", "×": "x", "≤": "<="}
"""ASCII in place of a letter that the encoding lacks; other letters become escapes."""
_NAME: Final = "nki.plain"


def make_lenient(stream: TextIO) -> None:
    """Let ``stream`` write ASCII for the letters that its encoding lacks, where Python would raise an error."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None and not (stream.encoding or "").lower().startswith("utf"):
        reconfigure(errors=_NAME)


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    return "".join(_PLAIN.get(letter) or ascii(letter)[1:-1] for letter in letters), error.end


codecs.register_error(_NAME, _plain)
