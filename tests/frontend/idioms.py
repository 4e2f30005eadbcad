"""Idioms of meta-programming: Python that computes the numbers which a kernel's instructions take.

Each function returns a list of small numbers, in plain Python as inside a kernel. They are written as people write
them, not as a linter would. A construct that ``emitting_idioms`` has, in an order of instructions, is not here again.
"""
# ruff: noqa: C400, C417, PT017, SIM222

from __future__ import annotations

import bisect
import collections
import contextlib
import copy
import functools
import itertools
import math
import operator
import string
import types
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

IDIOMS: list[Any] = []


def idiom(function: Any) -> Any:
    """Decorator of an idiom."""
    IDIOMS.append(function)
    return function


# Expressions: each is one idiom, a lambda without a name of its own.

EXPRESSIONS = [
    lambda: [(n := 5), n + 1],
    lambda: sorted({3, 1, 2}),
    lambda: sorted({i * i for i in (-1, 1, 2)}),
    lambda: list({i: i + 1 for i in range(3)}.values()),
    lambda: list(i for i in range(5) if i % 2),
    lambda: [a + b for a, b in zip([1, 2], [3, 4], strict=True)],
    lambda: [i * j for i in range(3) for j in range(i)],
    lambda: [x for row in [[1, 2], [3]] for x in row],
    lambda: list(map(lambda v: v * 2, range(4))),
    lambda: list(filter(None, [0, 1, 0, 2])),
    lambda: [functools.reduce(operator.mul, [1, 2, 3, 4])],
    lambda: [functools.partial(pow, 2)(5)],
    lambda: [functools.partial(lambda a, b=1: a - b, b=3)(10)],
    lambda: list(itertools.accumulate([1, 2, 3])),
    lambda: list(itertools.accumulate([3, 1, 4], max)),
    lambda: list(itertools.chain([1], (2, 3), range(4, 6))),
    lambda: list(itertools.chain.from_iterable([[1], [2, 3]])),
    lambda: [sum(p) for p in itertools.product(range(2), repeat=2)],
    lambda: [a * 10 + b for a, b in itertools.combinations([1, 2, 3], 2)],
    lambda: [a * 10 + b for a, b in itertools.permutations([1, 2, 3], 2)],
    lambda: list(itertools.islice(itertools.count(3, 2), 4)),
    lambda: list(itertools.islice(itertools.cycle([1, 2]), 5)),
    lambda: list(itertools.repeat(7, 3)),
    lambda: list(itertools.takewhile(lambda v: v < 3, itertools.count())),
    lambda: list(itertools.dropwhile(lambda v: v < 3, range(6))),
    lambda: list(itertools.compress([1, 2, 3], [1, 0, 1])),
    lambda: [b - a for a, b in itertools.pairwise([1, 4, 9])],
    lambda: [len(list(group)) for _, group in itertools.groupby("aabccc")],
    lambda: list(itertools.starmap(pow, [(2, 3), (3, 2)])),
    lambda: [a + b for a, b in itertools.zip_longest([1, 2, 3], [4], fillvalue=0)],
    lambda: list(itertools.filterfalse(lambda v: v % 2, range(5))),
    lambda: list(reversed(range(4))),
    lambda: [i * v for i, v in enumerate([5, 6, 7], start=1)],
    lambda: [*range(3), *[7]],
    lambda: list({"a": 1, "b": 2}.values()),
    lambda: list(({"a": 1} | {"a": 5}).values()),
    lambda: [divmod(17, 5)[0], divmod(17, 5)[1]],
    lambda: [-(-17 // 4)],
    lambda: [math.ceil(10 / 4), math.floor(2.5), math.gcd(12, 18), math.isqrt(17), math.prod([2, 3])],
    lambda: [max([3, 1], default=0), min([], default=4)],
    lambda: [max("abc", "de", key=len) == "abc", min([3, -4], key=abs)],
    lambda: sorted([3, 1, 2], key=lambda v: -v),
    lambda: sorted([3, 1, 2], reverse=True),
    lambda: [any(v > 2 for v in [1, 3]), all([])],
    lambda: [sum(range(5)), sum([1, 2], 10)],
    lambda: [1 if 2 in (1, 2) else 0, 1 if 3 not in [1] else 0],
    lambda: [1 < 2 < 3, 3 > 2 > 5],
    lambda: [0 or 4, 3 and 5, not 0],
    lambda: [x if (x := 4) > 3 else 0],
    lambda: list(range(10))[2:8:3],
    lambda: list("abc").index("b") * [1] + [int("12"), int("ff", 16), int("101", 2)],
    lambda: [len(f"{3:>5}"), int(f"{7:03d}")],
    lambda: [ord(c) - 96 for c in "abc"],
    lambda: [len(b"abc"), b"abc"[1], bytes([1, 2])[1]],
    lambda: [int((3 + 4j).real), int(abs(3 + 4j))],
    lambda: [0x1F & 0b110, 1 << 4, 7 ^ 2, ~-3 & 3],
    lambda: [2**5, 7 // 2, 7 % 3, int(7 / 2)],
    lambda: [v.bit_length() for v in (1, 7, 8)],
    lambda: [Fraction(1, 3).denominator],
    lambda: list(np.cumsum([1, 2, 3])),
    lambda: np.arange(6).reshape(2, 3).T.ravel().tolist(),
    lambda: [int(np.prod((2, 3, 4)))],
    lambda: [collections.Counter("aab")["a"]],
    lambda: list(collections.deque([1, 2, 3], maxlen=2)),
    lambda: list(collections.OrderedDict(a=1, b=2).values()),
    lambda: [collections.ChainMap({"a": 1}, {"a": 2, "b": 3})["b"]],
    lambda: [types.SimpleNamespace(a=3).a],
    lambda: [operator.itemgetter(1)([4, 5]), operator.attrgetter("real")(6)],
    lambda: [bisect.bisect([1, 3, 5], 4)],
    lambda: [isinstance(True, int), issubclass(bool, int), callable(len)],
    lambda: [len(set("hello")), len(frozenset([1, 1]))],
    lambda: sorted({1, 2, 3} & {2, 3, 4}) + sorted({1} ^ {1, 2}),
    lambda: [next(iter([4])), next(iter([]), 9)],
    lambda: [(lambda *a, **k: len(a) + len(k))(1, 2, c=3)],
    lambda: [(lambda f: f(f, 5))(lambda f, n: 1 if n < 2 else n * f(f, n - 1))],
    lambda: [eval("1 + 2"), len(string.ascii_lowercase)],
    lambda: [types.SimpleNamespace(x=2).x, getattr(object(), "y", 3)],
    lambda: [hasattr([], "append"), len(dir(object)) > 3],
    lambda: [{(0, 1): 4}[0, 1], {None: 5}[None], {1.5: 6}[1.5], {int: 7}[int]],
    lambda: copy.deepcopy([[1, 2]])[0],
    lambda: [int(c) for c in str(2**10)],
]


# Functions


@idiom
def context_manager_function() -> list[int]:
    log = []

    @contextlib.contextmanager
    def scope(n: int) -> Iterator[int]:
        log.append(n)
        try:
            yield n + 1
        finally:
            log.append(-n)

    with scope(3) as m, scope(m):
        log.append(7)
    return log


@idiom
def try_else_finally() -> list[int]:
    order = []
    for text in ("4", "x"):
        try:
            n = int(text)
        except ValueError:
            order.append(0)
        else:
            order.append(n)
        finally:
            order.append(7)
    return order


@idiom
def exception_is_raised_from_another() -> list[int]:
    class Wrong(Exception):
        pass

    try:
        try:
            raise KeyError(1)
        except KeyError as e:
            raise Wrong(2) from e
    except Wrong as e:
        assert e.__cause__ is not None
        return [e.args[0], e.__cause__.args[0]]
    return []


@idiom
def targets_are_unpacked() -> list[int]:
    first, *middle, last = range(5)
    (a, b), c = (1, 2), 3
    return [first, len(middle), last, a, b, c]


@idiom
def match_of_mappings_and_guards() -> list[int]:
    def read(config: Any) -> int:
        match config:
            case {"kind": "row", "n": int(n)} if n > 2:
                return n
            case {"kind": "row" | "column", **rest}:
                return len(rest)
            case str() as text:
                return len(text)
        return -1

    return [read({"kind": "row", "n": 4}), read({"kind": "column", "n": 1}), read("abc"), read(None)]


@idiom
def closures_count() -> list[int]:
    def counter() -> Any:
        n = 0

        def step() -> int:
            nonlocal n
            n += 1
            return n

        return step

    one, other = counter(), counter()
    return [one(), one(), other()]


@idiom
def registry_by_decorator() -> list[int]:
    table: dict[str, Any] = {}

    def register(f: Any) -> Any:
        table[f.__name__] = f
        return f

    @register
    def one() -> int:
        return 1

    @register
    def two() -> int:
        return 2

    return [table[name]() for name in sorted(table)]


@idiom
def single_dispatch() -> list[int]:
    @functools.singledispatch
    def size(value: Any) -> int:
        return 0

    @size.register
    def _(value: int) -> int:
        return value

    @size.register(list)
    def _(value: Any) -> int:
        return len(value)

    return [size(4), size([1, 2]), size("a")]


@idiom
def operators_are_overloaded() -> list[int]:
    class Size:
        def __init__(self, *n: int) -> None:
            self.n = n

        def __add__(self, other: Any) -> Any:
            return Size(*self.n, *other.n)

        def __len__(self) -> int:
            return len(self.n)

        def __getitem__(self, i: int) -> int:
            return self.n[i]

        def __contains__(self, n: int) -> bool:
            return n in self.n

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Size) and self.n == other.n

        def __hash__(self) -> int:
            return hash(self.n)

        def __call__(self) -> int:
            return sum(self.n)

        def __iter__(self) -> Iterator[int]:
            return iter(self.n)

    size = Size(1, 2) + Size(3)
    return [*size, len(size), size[-1], 2 in size, size == Size(1, 2, 3), size()]


@idiom
def class_made_by_type() -> list[int]:
    kind = type("Made", (), {"n": 4, "get": lambda self: self.n + 1})
    return [kind().get()]


@idiom
def default_dictionary() -> list[int]:
    groups = collections.defaultdict(list)
    for i in range(5):
        groups[i % 2].append(i)
    return groups[0] + [len(groups[1])]


@idiom
def imports_inside() -> list[int]:
    import itertools as it
    from math import comb as choose

    return [choose(4, 2), next(it.count(5))]


@idiom
def deleted_names_and_items() -> list[int]:
    values = [1, 2, 3, 4]
    del values[1:3]
    table = {"a": 1, "b": 2}
    del table["a"]
    return values + list(table.values())


@idiom
def pipeline_of_functions() -> list[int]:
    def compose(*fs: Any) -> Any:
        return functools.reduce(lambda f, g: lambda v: g(f(v)), fs)

    return [compose(lambda v: v + 1, lambda v: v * 2, abs)(-5)]


@idiom
def blocks_of_a_range() -> list[int]:
    def blocks(total: int, size: int) -> Iterator[slice]:
        for start in range(0, total, size):
            yield slice(start, min(start + size, total))

    return [s.stop - s.start for s in blocks(10, 4)]


@idiom
def search_of_a_tiling() -> list[int]:
    candidates = ((p, f) for p in (32, 64, 128) for f in (64, 128, 512) if p * f <= 16384)
    best = max(candidates, key=lambda tile: (tile[0] * tile[1], tile[0]))
    return [best[0], best[1] // 4]


@idiom
def assertions_pass() -> list[int]:
    n = 4
    assert n % 2 == 0, f"{n} is odd"
    return [n]


@idiom
def labels_of_nested_loops() -> list[int]:
    class Done(Exception):
        pass

    seen = []
    try:
        for i in range(3):
            for j in range(3):
                if i * j == 2:
                    raise Done
                seen.append(i * j)
    except Done:
        pass
    return seen
