"""`python -m examples.minilm [sentence ...]`."""

from __future__ import annotations

import sys

from examples.minilm.main import main

sys.exit(main())
