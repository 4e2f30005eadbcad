"""No mistake that the package can report is without a program that makes it."""

from __future__ import annotations

import contextlib
import importlib
import pkgutil

import nki
from nki.base.errors import NkiError
from nki.compilation.launch_errors import VendorModuleError
from tests.support.golden_reports import golden


def registry() -> set[str]:
    for module in pkgutil.walk_packages(nki.__path__, "nki."):
        if not module.name.endswith("__main__"):
            with contextlib.suppress(VendorModuleError):  # there for its report
                importlib.import_module(module.name)
    return {code for code, cls in NkiError.registry.items() if cls.__module__.startswith("nki.")}


def test_every_error_has_a_golden_report() -> None:
    shown = {code for case in golden() for code in case.codes}
    missing = sorted(registry() - shown)
    assert not missing, (
        f"{missing}: add tests/errors/cases/<mistake>.txt, a kernel with the mistake, its call and a line -----; "
        "NKI_TEST_REWRITE=1 pytest tests/errors/test_reports.py -k <mistake> writes the report behind it"
    )
