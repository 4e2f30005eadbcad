"""NKI Beta 1, the release before 0.2. Its names are in a package of their own, ``neuronxcc.nki``."""

from __future__ import annotations

from typing import Final

from nki.frontend.frontend_errors import PARSER_ERRORS
from nki.frontend.release import Release

BETA_1: Final = Release(version="0.1", traced=True, accepts=PARSER_ERRORS, returns_results=True)
