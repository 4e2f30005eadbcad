"""Compare native code of two commits: ``python -m tools.compare_commits OLD NEW [--tests …] [--bench …] [--rounds N]``.

Each commit gets a worktree of its own in a temporary folder. First both run the tests with
:mod:`tests.support.recorded_launches`: launches of one test on the same inputs must have the same bits. Then the named
sections of the benchmarks run in turns, and the table shows the median of each row, and how much longer it takes now.
Exits with 1 if bits differ. A commit is anything that git knows by a name.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
_UNITS: Final = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "KB": 1e3, "MB": 1e6, "KiB": 2.0**10, "MiB": 2.0**20}
_QUANTITY: Final = re.compile(r"([\d.,]+)\s*(/s|ns|µs|ms|s|KB|MB|KiB|MiB)\b")
Outcomes = dict[tuple[str, str], set[str]]
"""By test and digest of what a launch read: the digests of what launches wrote."""


def main() -> int:
    """Compare; the number of the exit."""
    parser = argparse.ArgumentParser(prog="compare_commits", description=__doc__)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--tests", nargs="*", default=["tests"], help="what pytest runs; nothing: no tests")
    parser.add_argument("--bench", nargs="*", default=[], help="sections of the benchmarks; default: none")
    parser.add_argument("--rounds", type=int, default=5, help="times that each section runs at each commit")
    parser.add_argument("--jobs", default="2", help="test processes")
    options = parser.parse_args()
    differences = 0
    with tempfile.TemporaryDirectory(prefix="compare-commits-") as folder:
        trees = [Path(folder, name) for name in ("old", "new")]
        try:
            for tree, commit in zip(trees, (options.old, options.new), strict=True):
                subprocess.run(["git", "-C", ROOT, "worktree", "add", "-q", "--detach", tree, commit], check=True)
            if options.tests:
                differences = compare_bits(*(recorded(tree, options.tests, options.jobs) for tree in trees))
            if options.bench:
                compare_times([measured(tree, options.bench) for _ in range(options.rounds) for tree in trees])
        finally:
            for tree in trees:
                subprocess.run(["git", "-C", ROOT, "worktree", "remove", "--force", tree], check=False)
    return int(differences > 0)


def environment(tree: Path) -> dict[str, str]:
    """The environment in which Python imports the project from ``tree``, with a cache folder there."""
    paths = [str(tree / "src"), str(tree), str(ROOT / "tests" / "support")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "XDG_CACHE_HOME": str(tree / ".cache")}


def recorded(tree: Path, tests: list[str], jobs: str) -> Outcomes:
    """The outcomes of the launches of ``tests`` in ``tree``."""
    folder = tree / ".launches"
    folder.mkdir()
    command = [sys.executable, "-m", "pytest", "-q", "-n", jobs, "-p", "recorded_launches", *tests]
    subprocess.run(command, cwd=tree, env={**environment(tree), "NKI_RECORD_LAUNCHES": str(folder)}, check=False)
    outcomes: Outcomes = defaultdict(set)
    for file in folder.glob("*.jsonl"):
        for line in file.read_text(encoding="utf-8").splitlines():
            test, key, outcome = json.loads(line)
            outcomes[test, key].add(outcome)
    return outcomes


def compare_bits(old: Outcomes, new: Outcomes) -> int:
    """Print what differs; the number of differences."""
    both = old.keys() & new.keys()
    different = sorted(key for key in both if old[key] != new[key])
    print(f"launches on inputs that both commits saw: {len(both)}, with other bits: {len(different)}")
    print(f"only in the old commit: {len(old.keys() - both)}, only in the new one: {len(new.keys() - both)}")
    for test, key in different:
        print(f"  {test} {key}: {sorted(old[test, key])} -> {sorted(new[test, key])}")
    return len(different)


def measured(tree: Path, sections: list[str]) -> dict[str, str]:
    """Both columns of numbers of the benchmarks, by row; the second one is ours as well where a row has two of ours."""
    command = [sys.executable, "-m", "benchmarks", *sections]
    done = subprocess.run(command, cwd=tree, env=environment(tree), check=True, capture_output=True, text=True)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines()]
    return {
        f"{row[0]}{second}": row[number] for row in rows[2:] for number, second in ((1, ""), (2, "; 2")) if len(row) > 2
    }


def compare_times(runs: list[dict[str, str]]) -> None:
    """Print the medians of each row, old and new in turns, and the new one by the old one: above 1 is worse."""
    print(f"| {'what':<52} | {'old':>10} | {'new':>10} | ratio |")
    print(f"|{'-' * 54}|{'-' * 11}:|{'-' * 11}:|{'-' * 6}:|")
    for what in runs[0]:
        columns = [[cost(run[what]) for run in runs[first::2] if what in run] for first in (0, 1)]
        if all(columns) and None not in (*columns[0], *columns[1]):
            old, new = (statistics.median(each for each in column if each is not None) for column in columns)
            print(f"| {what:<52} | {old:>10.3g} | {new:>10.3g} | {new / old:>5.3f} |")


def cost(text: str) -> float | None:
    """The first quantity of ``text`` as seconds or bytes; of a rate, seconds of each; None if there is none."""
    found = _QUANTITY.search(text)
    if found is None:
        return None
    number, unit = float(found[1].replace(",", "")), found[2]
    return 1 / number if unit == "/s" else number * _UNITS[unit]


if __name__ == "__main__":
    sys.exit(main())
