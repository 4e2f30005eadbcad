"""The version that every error report, dump and artifact carries.

An installed package has the version of its build: plain (``1.2.0``) for a build from a release tag, with a local label
(``1.2.1.dev3+g0123abcde``, ``0.1.0.dev5+untagged.g0123abcde`` without a tag) for any other. Run from a checkout,
whether installed in place or not at all, the label has the commit that is checked out now and not the one of the day
it was installed.
"""

from __future__ import annotations

import functools
import hashlib
import os
from pathlib import Path

from nki.base.locks import imported


def _built() -> str:
    # Imported when someone asks: it costs a fifth of `import nki`.
    metadata = imported("importlib.metadata")
    imported("email.parser")  # reads the metadata; it would be imported while a signal's handler may ask the same
    try:
        return metadata.version("open-nki")
    except metadata.PackageNotFoundError:  # a source tree that was never installed
        return "0.0.0+uninstalled"


def _checked_out(root: Path) -> str:
    """The commit of the checkout at ``root``, "" when that is not a checkout of this project.

    Read from git's files, since starting git would cost more than the rest of ``import nki`` put together.
    """
    try:
        if 'name = "open-nki"' not in (root / "pyproject.toml").read_text(encoding="utf-8"):
            return ""
        git = root / ".git"
        if git.is_file():  # a linked worktree: "gitdir: PATH"
            git = root / git.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
        head = (git / "HEAD").read_text(encoding="utf-8").strip()
        if not head.startswith("ref: "):
            return head
        name = head.removeprefix("ref: ")
        shared = git / "commondir"
        refs = git / shared.read_text(encoding="utf-8").strip() if shared.is_file() else git
        if (refs / name).is_file():
            return (refs / name).read_text(encoding="utf-8").strip()
        packed = (refs / "packed-refs").read_text(encoding="utf-8").splitlines()
        return next((line.split()[0] for line in packed if line.endswith(f" {name}")), "")
    except (OSError, UnicodeDecodeError):
        return ""


def find(root: Path) -> str:
    """The version of the package with its source under ``root/src``."""
    commit = _checked_out(root)
    if not commit:
        return _built()
    public, _, label = _built().partition("+")
    mark = "untagged." if "untagged" in label else ""  # as the build says, so that pip shows the same version
    return f"{public}+{mark}g{commit[:9]}"


@functools.cache
def version() -> str:
    """The version of this package."""
    return find(Path(__file__).resolve().parent.parent.parent.parent)


@functools.cache
def build() -> str:
    """A digest of the paths and contents of source files and coefficients: every edit and every update changes it.

    Sizes and dates do not tell: an image or an archive may give all files one date. Costs ten milliseconds, once in a
    process, when someone asks; :func:`version` costs four times that.
    """
    package = str(Path(__file__).resolve().parent.parent)
    digest = hashlib.sha256(package.encode(errors="surrogateescape"))
    for folder, folders, names in os.walk(package):
        folders.sort()
        for name in sorted(names):
            if name.endswith((".py", ".json", ".ll")):
                path = f"{folder}/{name}"
                with open(path, "rb", buffering=0) as file:
                    contents = file.read()
                place = path[len(package) :].encode(errors="surrogateescape")
                digest.update(b"%s %d\n%s" % (place, len(contents), contents))
    return digest.hexdigest()
