"""`python -m examples.llama [--framework jax] [--steps N]`."""

from __future__ import annotations

import sys

from examples.llama.main import main

sys.exit(main())
