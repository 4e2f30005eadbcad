"""Write docs/validation.md; with ``--check`` compare it instead. Progress goes to standard error."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

from nki.base.warning import NkiPortabilityWarning
from validation.page import page

PAGE = Path(__file__).parents[1] / "docs" / "validation.md"


def main() -> None:
    """Write or compare the page."""
    warnings.simplefilter("ignore", NkiPortabilityWarning)
    text = "\n".join(page()) + "\n"
    if "--check" in sys.argv[1:]:
        if text != PAGE.read_text(encoding="utf-8"):
            sys.exit("docs/validation.md is not current: run `make validate`")
        return
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
