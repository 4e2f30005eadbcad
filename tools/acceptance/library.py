"""A checkout of the library: its commit, its tests, and a sample of them that a seed fixes."""

from __future__ import annotations

import hashlib
import json
import math
import os
import random
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tools.acceptance import pairwise

ROOT: Final = Path(__file__).parent.parent.parent
PLATFORMS: Final = ("trn2", "trn3")
_PAIRS: Final = hashlib.sha256(Path(pairwise.__file__).read_bytes()).hexdigest()[:6]
"""Another choice of pairs is another set of tests."""
_TESTS: Final = "test/integration/nkilib"


class LibraryError(Exception):
    """A folder without a library, or one with tests that pytest cannot collect."""


class Test(NamedTuple):
    """A test as pytest names it, relative to the library's folder."""

    id: str
    platform: str
    fast: bool

    @property
    def file(self) -> str:
        return self.id.partition("::")[0]

    @property
    def kernel(self) -> str:
        """The folder of the test below ``nkilib``, and the file where a folder has several kernels."""
        return kernel_of(self.id)

    @property
    def size_class(self) -> int:
        """A number that grows with the inputs, as a guess: all numbers among the parameters are lengths of axes."""
        lengths = re.findall(r"\d+", self.id.partition("[")[2])
        return math.prod(max(1, int(length)) for length in lengths).bit_length() // 8

    @property
    def stratum(self) -> tuple[str, bool, str]:
        return self.kernel, self.fast, self.platform


def kernel_of(test: str) -> str:
    """The kernel that a test is about: its file below ``nkilib``, without ``test_``, ``_model_config`` and ``.py``."""
    path = Path(test.partition("::")[0].rpartition("nkilib/")[2])
    return str(path.with_name(path.stem.removeprefix("test_").removesuffix("_model_config")))


def commit_of(tree: Path, *below: str) -> str:
    """The commit of the checkout at ``tree``, with a digest of changes below the folders ``below``; without git the
    digest of their files.
    """
    git = ["git", "-C", str(tree)]
    if (tree / ".git").exists():
        head = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True)
        changes = subprocess.run([*git, "diff", "HEAD", "--", *below], capture_output=True, check=True).stdout
        return head.stdout.strip() + (f"+{hashlib.sha256(changes).hexdigest()[:8]}" if changes else "")
    digest = hashlib.sha256()
    for file in sorted(file for folder in below for file in (tree / folder).rglob("*.py")):
        digest.update(str(file.relative_to(tree)).encode() + b"\0" + file.read_bytes())
    return f"files-{digest.hexdigest()[:12]}"


def environment(tree: Path, out: Path, platform: str) -> dict[str, str]:
    """The environment of a process of pytest that runs tests of ``tree``, with its caches below ``out``."""
    return os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "NEURON_PYTHONHASHSEED": "0",  # by which the library seeds the choice of its parameters
        "NEURON_PLATFORM_TARGET_OVERRIDE": platform,
        "OPEN_NKI_CACHE": str(out / "cache"),
        "OPEN_NKI_FIRST_CALL": "native",
        "NKILIB_ACCEPTANCE_TREE": str(tree),
    }


def command(tree: Path, platform: str, *arguments: str) -> list[str]:
    """The command of such a process."""
    plugins = ["-p", "tools.acceptance.plugin", "-p", "no:cacheprovider", "-p", "no:xdist"]
    tests = ["-c", str(tree / "test/pytest.ini"), "--rootdir", str(tree / "test"), "--platform-target", platform]
    return [sys.executable, "-m", "pytest", "-q", "-W", "ignore", *plugins, *tests, *arguments]


def collected(tree: Path, out: Path, library: str, platforms: Iterable[str]) -> list[Test]:
    """All tests of the library at ``tree`` for ``platforms``, collected once for each commit of the library.

    Raises :class:`LibraryError` if pytest cannot collect them.
    """
    if not (tree / _TESTS).is_dir():
        raise LibraryError(f"{tree} is no checkout of nki-library: it has no folder {_TESTS}")
    tests: list[Test] = []
    for platform in platforms:
        path = out / f"collected-{library}-{_PAIRS}-{platform}.json"
        if not path.exists():
            _collect(tree, out, platform, path)
        tests += [Test(name, platform, fast) for name, fast in json.loads(path.read_text(encoding="utf-8"))]
    return tests


def _collect(tree: Path, out: Path, platform: str, path: Path) -> None:
    part = path.with_suffix(".part")
    variables = environment(tree, out, platform) | {"NKILIB_ACCEPTANCE_COLLECT": str(part)}
    arguments = command(tree, platform, "--collect-only", "-qq", str(tree / _TESTS))
    with (out / f"collect-{platform}.log").open("wb") as log:
        code = subprocess.run(
            arguments, cwd=scratch(out), env=variables, stdout=log, stderr=log, check=False
        ).returncode
    if code or not part.exists():
        raise LibraryError(f"pytest cannot collect the tests of {tree}: {log.name} has its words")
    part.replace(path)


def scratch(out: Path) -> Path:
    """The folder in which pytest runs: the library's harness writes into it."""
    folder = out / "scratch"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def sample(tests: Iterable[Test], count: int, seed: int) -> list[Test]:
    """``count`` tests drawn with ``seed``: in turns one of each stratum, until the count is reached or none is left.

    A stratum is a kernel, fast or not, on a platform. The draw depends on the set of tests, not on their order.
    """
    strata = defaultdict[tuple[str, bool, str], list[Test]](list)
    for test in sorted(set(tests)):
        strata[test.stratum].append(test)
    for key, members in strata.items():
        random.Random(f"{seed} {key}").shuffle(members)
    return [test for turn in _turns(strata, seed) for test in turn][:count]


def _turns(strata: Mapping[tuple[str, bool, str], list[Test]], seed: int) -> Iterator[list[Test]]:
    names = sorted(strata)
    random.Random(seed).shuffle(names)  # so that a count below the number of strata favours none
    for turn in range(max(map(len, strata.values()), default=0)):
        yield [strata[name][turn] for name in names if turn < len(strata[name])]
