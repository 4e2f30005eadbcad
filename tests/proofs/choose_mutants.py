"""Write ``mutants.jsonl``: python -m tests.proofs.choose_mutants [how many].

Each candidate runs once in the simulator beside the side that stays, on two inputs. The choice goes round the pairs
and takes the next one, kinds of changes in turn, so that every family and kind is there; it has no random part but the
order of candidates by their hash.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import io
import json
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from . import mutants
from .pair import DRAWS, Array, Pair, Side, distance, outputs
from .pairs import PAIRS

APART = 1e-3
"""So far from the right result, relative to the largest: many times what rounding explains in any pair but those that
round to bfloat16."""
MOST_OF_A_KIND = 90
_expected: dict[tuple[str, Side], list[list[Array]]] = {}


def expected(pair: Pair, side: Side) -> list[list[Array]]:
    """What the side that stays computes on each input."""
    if (pair.name, side) not in _expected:
        right = pair.side("new" if side == "old" else "old")
        _expected[pair.name, side] = [outputs(right, pair.arguments(*draw)) for draw in DRAWS]
    return _expected[pair.name, side]


def differs(mutant: mutants.Mutant, folder: Path) -> bool:
    """Whether the mutant compiles without a warning, and its finite results are others, on any of the inputs."""
    pair = PAIRS[mutant.pair]
    worst = 0.0
    wanted = expected(pair, mutant.side)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("error")
            wrong = mutant.wrong(folder)
            for draw, right in zip(DRAWS, wanted, strict=True):
                got = outputs(wrong, pair.arguments(*draw))
                if not all(np.isfinite(o).all() for o in got) or [o.shape for o in got] != [o.shape for o in right]:
                    return False
                worst = max(worst, distance(right, got))
    except Exception:  # whatever refuses it: Python, the compiler, the simulator
        return False
    return worst > max(APART, 10 * pair.bound)


def candidates(pair: Pair) -> Iterator[mutants.Mutant]:
    """Kinds in turn, within a kind in the order of their hashes."""
    found = [
        mutants.described(pair, side, change)
        for side, _ in pair.kernels()
        for change in mutants.changes(pair, side).values()
    ]
    found.sort(key=lambda m: hashlib.blake2b(m.name.encode()).digest())
    rank: Counter[tuple[str, str]] = Counter()
    order = []
    for number, mutant in enumerate(found):
        kind = mutant.change.rsplit(" ", 1)[0]
        order.append((rank[mutant.side, kind], number))
        rank[mutant.side, kind] += 1
    yield from (found[number] for _, number in sorted(order))


def main(count: int = 500) -> None:
    waiting = {name: candidates(pair) for name, pair in PAIRS.items() if not pair.slow}
    chosen: list[mutants.Mutant] = []
    seen: set[tuple[str, str]] = set()
    kinds: Counter[str] = Counter()
    begun, tried = time.monotonic(), 0
    with tempfile.TemporaryDirectory() as folder:
        while waiting and len(chosen) < count:
            for name in list(waiting):
                for mutant in waiting[name]:
                    kernel = mutants.kernel_of(PAIRS[name], mutant.side).func.__qualname__
                    change = (f"{PAIRS[name].family} {kernel}", mutant.change)
                    kind = mutant.change.rsplit(" ", 1)[0]
                    if change in seen or kinds[kind] == MOST_OF_A_KIND:
                        continue
                    tried += 1
                    if differs(mutant, Path(folder)):
                        seen.add(change)
                        chosen.append(mutant)
                        kinds[kind] += 1
                        break
                else:
                    del waiting[name]
                if len(chosen) == count:
                    break
            print(f"{len(chosen)} of {tried} after {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
    chosen.sort(key=lambda m: (list(PAIRS).index(m.pair), m.side, m.line, m.change))
    lines = [json.dumps(dataclasses.asdict(mutant), ensure_ascii=False) for mutant in chosen]
    mutants.LIST.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(Counter(m.change.rsplit(" ", 1)[0] for m in chosen))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
