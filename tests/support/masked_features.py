"""A pytest plugin that hides features of the processor: native code is made, and run, as on one that lacks them.

``NKI_TEST_WITHOUT=amx,avx512 python -m pytest -p tests.support.masked_features …``, or ``make older``: LLVM does not
see the features with names that begin with one of these. It must be loaded before any native code is made; processes
that tests start see all features.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from llvmlite import binding

_HIDDEN = tuple(name for name in os.environ.get("NKI_TEST_WITHOUT", "").split(",") if name)
_real = binding.get_host_cpu_features


def _masked() -> Mapping[str, bool]:
    """The features of the processor; hidden ones are off."""
    return {name: is_there and not name.startswith(_HIDDEN) for name, is_there in _real().items()}


if _HIDDEN:
    binding.get_host_cpu_features = _masked


def pytest_report_header() -> str:
    """What is hidden, for the head of the report."""
    return f"hidden features of the processor: {', '.join(_HIDDEN) or 'none'}"
