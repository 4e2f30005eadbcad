"""``python -m nki``: the command ``nki``."""

from __future__ import annotations

import sys

from nki.cli import main

if __name__ == "__main__":
    sys.exit(main())
