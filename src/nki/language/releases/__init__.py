"""The releases of NKI: one file each, which holds what the release changes of the one before.

Source of names and parameters: the release notes of NKI 0.2 to 0.7, and the API reference of each release. A name
counts from the first release with documents that mention it anywhere; the migration guide and the public library of 0.2
show more of that release.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import Final

from nki.frontend.release import History
from nki.language.releases.beta1 import BETA_1

RELEASES: Final = History(
    import_module(f"{__name__}.{file.name}").RELEASE
    for file in pkgutil.iter_modules(__path__)
    if file.name.startswith("v")
)
"""All files ``v*_*.py`` of this folder. The support matrix shows what they say, and ``NKI_VERSION`` enforces it."""


def returns_results(version: str) -> bool:
    """True if instructions return their results under the release ``version``; "" is the newest one."""
    return any(release.returns_results for release in (BETA_1, *RELEASES) if release.version == version)


__all__ = ["BETA_1", "RELEASES", "returns_results"]
