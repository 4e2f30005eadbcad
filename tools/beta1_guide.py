"""Write docs/beta1_guide.md: ``python -m tools.beta1_guide [FILE]``.

Each file of ``tests/migrate/beta1`` is a kernel of NKI Beta 1; its docstring is a section of the page. The page shows
the kernel and its migration, and the tool runs both: a difference of one bit, or something left to do, is an error.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from nki.migrate.migration import Migration, migrated
from nki.migrate.runs.run_comparison import Call
from nki.workload import arguments

ROOT = Path(__file__).parent.parent
CASES = ROOT / "tests" / "migrate" / "beta1"
PAGE = ROOT / "docs" / "beta1_guide.md"
_MARK = "# arguments:"

_HEAD = """\
# From NKI Beta 1 to today

`neuronxcc.nki`, the namespace of NKI Beta 1, runs in this package as it is: `nki check` and the kernels themselves need
no change. `nki migrate` rewrites such files for the present NKI:

```text
nki migrate kernel.py              # print the new file; what was found out goes to stderr
nki migrate kernel.py --diff       # print the difference
nki migrate kernel.py --write      # replace the file
nki migrate kernel.py:scale --arg 256x512:float32 --arg 2.0     # with arguments for the runs
nki migrate kernel.py:tiled --arg 256x512:float32 --grid 2,2    # and the launch grid
```

Comments, layout and names stay. Shapes, dtypes and memories of results come from a run of the old kernel, with the
arguments of `--arg` or those with which the file's own host code and tests launch it (which then runs, in a temporary
folder). Afterwards both versions run on the same data, and the command says `same bits`, the largest difference, or
what it could not carry over: that stays, below a comment `# TODO(nki-migrate): …`, and the exit code is 1. Results
that differ by more than rounding get such a comment, too. Then it [proves](proofs.md) that both are one function over
the real numbers for all inputs of these shapes, and says for each run `proved equal`, with the probability of an error
and what is assumed; `proved different`, with an input that shows it and the lines on both sides; or `not proved`, with
the reason. What is proved different ends the command with 1 like results that differ, with `>=` in place of `>` even
where random numbers give the same bits. What is not proved was compared only. The proofs of a file take at most
`--seconds 60`; with 0 there are none. The exit code is also 1 if no kernel of a Beta 1 file could
be compared, or one of its kernels was not. Lines that the arguments did not reach are named: no run shows their
new form. Without a name, `--arg` is for the kernels of the file that take such arguments. A file with a block
`if __name__ == "__main__":` also runs as a program before and after, and an error that is new ends the command with 1.
Output of these runs goes to stderr. Kernels of NKI 0.2 to 0.6 take the same way to 0.7.

Each section below shows a kernel in both forms. This page is generated: `python -m tools.beta1_guide` runs both and
compares the bits.
"""

_FOOT = """\
## What is left to do by hand

| Beta 1 | today |
|---|---|
| two stores to HBM below complementary triangles | fill one tile, store it once |
| masks that a function takes as parameters | pass bounds, and slice there |
| index tiles with a step as parameters of a function; partitions backwards | `t.ap(pattern=…, offset=…)`, or a loop |
| `//` of tiles | `nl.floor` of the product with the reciprocal |
| `nl.all_reduce` | accumulate in one tensor |
| one index over several blocks | a loop over the list, or a free dimension |
| `ncc.psum.alloc(rule)` | the compiler chooses the address; `nl.ndarray(…, address=(partition, byte))` fixes one |
"""


@dataclass(frozen=True, slots=True)
class Pair:
    """A section of the page: a kernel of Beta 1, its source without the docstring, and its migration."""

    title: str
    text: str
    before: str
    migration: Migration


def pair(path: Path) -> Pair:
    """The section of one file."""
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    title, _, text = (ast.get_docstring(tree) or path.stem).partition("\n\n")
    line = next(line for line in source.split("\n") if line.startswith(_MARK))
    before = source.partition(line)[2].strip("\n") + "\n"
    kernel = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)][-1]
    values = [arguments.parse(word)[1] for word in line.removeprefix(_MARK).split()]
    arrays = tuple(value.array(0, index) for index, value in enumerate(values))
    grid = (2, 2) if "program_id" in before else ()
    return Pair(title, text, before, migrated(path, before, [Call(kernel, arrays, grid=grid)], kernel))


def page(pairs: list[Pair]) -> str:
    """The whole page."""
    parts = [_HEAD]
    for one in pairs:
        parts += [f"## {one.title}\n\n{one.text}\n", f"```python\n# Beta 1\n{one.before}```\n"]
        parts.append(f"```python\n# today\n{one.migration.new}```\n")
    return _formatted("\n".join([*parts, _FOOT]))


def _formatted(text: str) -> str:
    """The page as the formatter of this repository lays it out."""
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(PAGE), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True, cwd=ROOT).stdout


def main(words: list[str]) -> None:
    """Write the page."""
    pairs = [pair(path) for path in sorted(CASES.glob("*.py"))]
    for one in pairs:
        wrong = [each.text for each in one.migration.outcomes if each.text != "same bits"]
        if wrong or not one.migration.outcomes or not one.migration.done:
            raise SystemExit(f"{one.title}: {wrong or one.migration.left or one.migration.notes}")
    (Path(words[0]) if words else PAGE).write_text(page(pairs), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
