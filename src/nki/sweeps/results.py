"""Outcomes on disk: a file for each point, named by all that the outcome depends on.

The name is a digest of the kernel's fingerprint (its code, the code that it calls, the arguments, the target and this
compiler: :mod:`nki.compilation.cache.fingerprint`), the fillings, the seed, the reference and the tolerance. So a sweep
that was stopped goes on, one that was changed runs what changed, and several sweeps share a folder. A file is JSON.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, cast

from nki.base import files, knobs
from nki.base.sweep_errors import SpaceError
from nki.sweeps.record import Outcome, outcome

SUFFIX: Final = ".point.json"
LIMIT: Final = 64 << 20
"""Limit on the bytes of the folder in the cache; the user's own folder has none."""
_PLAIN: Final = (str, int, float, type(None))


def key(*parts: object) -> str:
    """The name of an outcome that depends on ``parts``, which have an unambiguous text."""
    return hashlib.sha256("\n".join(map(repr, parts)).encode(errors="surrogatepass")).hexdigest()


class Results:
    """The outcomes in a folder: the one that the user names, else ``sweeps`` in the cache folder."""

    def __init__(self, folder: str | Path | None = None) -> None:
        self._is_own = folder is None
        self.folder = knobs.cache_folder() / "sweeps" if folder is None else Path(folder)
        if folder is not None:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise SpaceError(
                    f"the folder of results {folder} cannot be made: {error.strerror}", fix="name another folder"
                ) from None

    @property
    def _is_used(self) -> bool:
        """The cache folder is, unless ``OPEN_NKI_CACHE_DISABLE`` says no."""
        return not (self._is_own and knobs.cache_disabled())

    def find(self, name: str | None) -> Outcome | None:
        """The outcome under ``name``; None if there is none, or a damaged one."""
        data = files.read(self._path(name)) if name is not None and self._is_used else None
        if data is None:
            return None
        try:
            found: Any = json.loads(data)
        except ValueError:
            return None
        blank = outcome()
        if not isinstance(found, dict) or cast("dict[str, Any]", found).keys() != blank.keys():
            return None
        fields = cast("dict[str, Any]", found)
        return cast("Outcome", fields) if all(isinstance(value, _PLAIN) for value in fields.values()) else None

    def keep(self, name: str | None, found: Outcome) -> None:
        """Keep an outcome, but for a lost worker, which may have been the machine's fault."""
        if name is None or found["status"] == "lost" or not self._is_used:
            return
        with contextlib.suppress(OSError):  # a full disk costs the next sweep time, and this one nothing
            files.write(self._path(name), json.dumps(found).encode())

    def trim(self) -> None:
        """Remove what was not used for longest, if the folder is in the cache and has grown too large."""
        if self._is_own:
            files.trim(SUFFIX, LIMIT, *self._folders())

    def _folders(self) -> Iterable[Path]:
        return [path for path in self.folder.glob("??") if path.is_dir()]

    def _path(self, name: str) -> Path:
        return self.folder / name[:2] / f"{name[2:42]}{SUFFIX}"
