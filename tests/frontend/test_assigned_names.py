"""The names that tiles get from the code that makes them."""

import contextlib
import linecache
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nki
from tests.support.written_module import written

ONE = np.zeros((4, 8), np.float32)

HEADER = """
import collections
import contextlib
import functools
import nki
import nki.isa as nisa
import nki.language as nl

NAMES = {}
SHAPE = (4, 8)

def blank():
    return nl.ndarray(SHAPE, nl.float32)

def loaded(x):
    return nl.load(x)

def deep(x):
    return loaded(x)

def pair(x):
    return nl.load(x), nl.ndarray(SHAPE, nl.float32)

def chosen(x, first):
    if first:
        return nl.load(x)
    else:
        return (blank() if first is None else nl.exp(nl.load(x)))

def several(x, count):
    return [nl.load(x) for _ in range(count)]

def rounds(x):
    yield nl.load(x)

@contextlib.contextmanager
def lent(x):
    yield nl.load(x)

def same(tile):
    return tile

def seen(first, keys=None, *, dst=None):
    return next(tile for tile in (dst, keys, first) if tile is not None)

class Box:
    def __init__(self, tile=None):
        self.tile = tile

    def fill(self, x):
        self.q = nl.load(x)
        self.rows = [None]
        self.rows[0] = blank()
        return self

class Computed:
    def __init__(self, x):
        self.x = x

    def __add__(self, other):
        return nl.load(self.x)

    __iadd__ = __add__

    @property
    def tile(self):
        return nl.load(self.x)

def bare(tile):
    return tile.name.split(".")[0]

def wrapping(function):
    @functools.wraps(function)
    def wrapper(*args, **options):
        return function(*args, **options)
    return wrapper

wrapped = wrapping(loaded)
"""

FORMS: list[tuple[str, str, str]] = [
    # code, the tile, its name
    ("q = nl.load(x)", "q", "q"),
    ("q: object = nl.load(x)", "q", "q"),
    ("q = p = nl.load(x)", "p", "q"),
    ("q = (\n    nl\n    .load(\n        x,\n    )\n)", "q", "q"),
    ("é, q = 1, nl.load(x)", "q", "q"),
    ("q, k = nl.load(x), nl.ndarray(SHAPE, nl.float32)", "q", "q"),
    ("q, k = nl.load(x), nl.ndarray(SHAPE, nl.float32)", "k", "k"),
    ("[q, (k, v)] = [nl.load(x), (nl.load(x), nl.load(x))]", "k", "k"),
    ("[q, (k, v)] = [nl.load(x), (nl.load(x), nl.load(x))]", "v", "v"),
    ("q, *k, v = nl.load(x), nl.load(x), nl.load(x), nl.load(x)", "k[1]", "k"),
    ("q, *k, v = nl.load(x), nl.load(x), nl.load(x), nl.load(x)", "v", "v"),
    ("q, *k, v = nl.load(x), nl.load(x)", "v", "v"),
    ("q, k = [nl.load(x) for _ in range(2)]", "q", "x_tile"),
    ("if (q := nl.load(x)) is not None:\n    pass", "q", "q"),
    ("box = Box()\nbox.q = nl.load(x)", "box.q", "q"),
    ("box = Box().fill(x)", "box.q", "q"),
    ("box = Box().fill(x)", "box.rows[0]", "rows"),
    ("tiles = {}\ntiles['q'] = nl.load(x)", "tiles['q']", "q"),
    ("tiles = {}\ntiles['q.w'] = nl.load(x)", "tiles['q.w']", "tiles"),
    ("tiles = {}\nfor i in range(2):\n    tiles[f'q{i}'] = nl.load(x)", "tiles['q1']", "tiles"),
    ("tiles = {'q': nl.load(x)}", "tiles['q']", "q"),
    ("tiles = {'q.w': nl.load(x)}", "tiles['q.w']", "tiles"),
    ("tiles = {'class': nl.load(x)}", "tiles['class']", "tiles"),
    ("tiles = {name: nl.load(x) for name in ('q', 'k')}", "tiles['k']", "tiles"),
    ("tiles = dict(q=nl.load(x))", "tiles['q']", "q"),
    ("tiles = dict(x=nl.load(x))", "tiles['x']", "x"),
    ("tiles = {}\ntile = tiles.setdefault('q', nl.load(x))", "tile", "q"),
    ("tiles = [nl.load(x), nl.load(x)]", "tiles[1]", "tiles"),
    ("tiles = [nl.load(x) for _ in range(3)]", "tiles[2]", "tiles"),
    ("tiles = [[nl.load(x) for _ in range(2)] for _ in range(2)]", "tiles[1][1]", "tiles"),
    ("tiles = tuple(nl.load(x) for _ in range(2))", "tiles[1]", "tiles"),
    ("tiles = [None] * 2\ntiles[1] = nl.load(x)", "tiles[1]", "tiles"),
    ("tiles = []\ntiles.append(nl.load(x))", "tiles[0]", "tiles"),
    ("tiles = []\ntiles.insert(0, nl.load(x))", "tiles[0]", "tiles"),
    ("tiles = []\ntiles.extend(nl.load(x) for _ in range(2))", "tiles[0]", "tiles"),
    ("tiles = []\ntiles += [nl.load(x)]", "tiles[0]", "tiles"),
    ("tiles = collections.deque()\ntiles.appendleft(nl.load(x))", "tiles[0]", "tiles"),
    ("box = Box()\nbox.rows = []\nbox.rows.append(nl.load(x))", "box.rows[0]", "rows"),
    ("q = Computed(x) + 1", "q", "q"),
    ("q = Computed(x)\nq += 1", "q", "q"),
    ("q = Computed(x).tile", "q", "q"),
    ("q = seen(None, keys=nl.load(x))", "q", "keys"),
    ("q = seen(None, dst=nl.ndarray(SHAPE, nl.float32))", "q", "dst"),
    ("q = seen(None, dst=nl.load(x))", "q", "x_tile"),
    ("q = seen(**{'first': nl.load(x)})", "q", "first"),
    ("q = nl.load(x) if x is not None else None", "q", "q"),
    ("q = None or nl.load(x)", "q", "q"),
    ("q = blank()", "q", "q"),
    ("q = deep(x)", "q", "q"),
    ("q = wrapped(x)", "q", "q"),
    ("q = (lambda: nl.load(x))()", "q", "q"),
    ("q, k = pair(x)", "q", "q"),
    ("q, k = pair(x)", "k", "k"),
    ("(q, k), v = pair(x), deep(x)", "k", "k"),
    ("q = chosen(x, True)", "q", "q"),
    ("q = chosen(x, False)", "q", "q"),
    ("q = chosen(x, None)", "q", "q"),
    ("q = pair(x)[0]", "q", "q"),
    ("tiles = several(x, 2)", "tiles[1]", "tiles"),
    ("tiles = {'q': [deep(x)]}", "tiles['q'][0]", "q"),
    ("for q in rounds(x):\n    pass", "q", "q"),
    ("q = next(rounds(x))", "q", "q"),
    ("for q in (nl.load(x), nl.load(x)):\n    pass", "q", "q"),
    ("with lent(x) as q:\n    pass", "q", "q"),
    ("q = nl.load(x).reshape((4, 2, 4))", "q", "q"),
    ("q = nl.load(x)[:, 0:4]", "q", "q"),
    ("q = nl.expand_dims(nl.load(x), 1)", "q", "q"),
    ("q = same(nl.ndarray(SHAPE, nl.float32))", "q", "q"),
    ("q = Box(nl.ndarray(SHAPE, nl.float32)).tile", "q", "q"),
    ("q = same(blank()).reshape((4, 2, 4))", "q", "q"),
    # What is only computed with, or taken apart in a way that is not seen, has no name.
    ("q = nl.exp(nl.load(x))", "q", "q"),
    ("q = same(nl.load(x))", "q", "x_tile"),
    ("q = Box(nl.load(x)).tile", "q", "x_tile"),
    ("for _, q in enumerate([nl.load(x)]):\n    pass", "q", "x_tile"),
    ("_ = nl.load(x)", "_", "x_tile"),
    ("out = nl.ndarray(SHAPE, nl.float32)\nout[0:4] = q = nl.load(x)", "q", "q"),
]  # fmt: skip


def source(around: str) -> str:
    """A kernel that notes the names of all forms. ``around``: the functions with the forms are made in there."""
    functions = [
        f"def form_{n}(x):\n{textwrap.indent(code, '    ')}\n    return bare({tile})"
        for n, (code, tile, _) in enumerate(FORMS)
    ]
    calls = [f"    NAMES[{n}] = form_{n}(x)" for n in range(len(FORMS))]
    return "\n".join([
        HEADER, around.replace("FORMS", "\n\n".join(functions)), "@nki.jit", "def kernel(x):", *calls,
        "    result = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)", "    nl.store(result, nl.load(x))",
        "    return result", "",
    ])  # fmt: skip


def decorated() -> str:
    """The forms in the wrapper that a decorator makes."""
    made: list[str] = []
    for n, (code, tile, _) in enumerate(FORMS):
        body = textwrap.indent(f"{code}\nreturn function(x, {tile})", " " * 8)
        made.append(
            f"def decorator_{n}(function):\n    @functools.wraps(function)\n    def wrapper(x):\n{body}\n"
            f"    return wrapper\n\n@decorator_{n}\ndef form_{n}(x, tile):\n    return bare(tile)"
        )
    return "\n\n".join(made)


def in_file(text: str, folder: Path) -> dict[str, Any]:
    return vars(written(text, folder / "assigned_names_of_kernels.py"))


@contextlib.contextmanager
def in_cell(text: str) -> Iterator[dict[str, Any]]:
    file = "<ipython-input-7-0a1b2c3d4e5f>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space: dict[str, Any] = {"__name__": "__main__"}
    try:
        exec(compile(text, file, "exec"), space)
        yield space
    finally:
        del linecache.cache[file]


def check(space: dict[str, Any], run: Callable[[Any], Any]) -> None:
    run(space["kernel"])
    assert len(space["NAMES"]) == len(FORMS)
    wrong = [(*form, space["NAMES"][n]) for n, form in enumerate(FORMS) if space["NAMES"][n] != form[-1]]
    assert not wrong


pytestmark = pytest.mark.filterwarnings("ignore::nki.base.warning.NkiPortabilityWarning")


@pytest.mark.parametrize("eager", [False, True], ids=["native", "eager"])
def test_forms_in_a_file(eager: bool, tmp_path: Path) -> None:
    check(in_file(source("FORMS"), tmp_path), lambda k: nki.simulate(k)(ONE) if eager else k(ONE))


def test_forms_in_a_cell_of_a_notebook() -> None:
    with in_cell(source("FORMS")) as space:
        check(space, lambda k: k(ONE))


def test_forms_in_a_decorator(tmp_path: Path) -> None:
    check(in_file(source(decorated()), tmp_path), lambda k: k(ONE))


def test_code_without_source_gets_the_general_names(tmp_path: Path) -> None:
    body = """
TEXT = '''
def form(x):
    q = nl.load(x)
    k = nl.ndarray(SHAPE, nl.float32)
    return q, k
'''
exec(TEXT)

@nki.jit
def kernel(x):
    q, k = form(x)
    NAMES["names"] = [q.name, k.name]
    result = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(result, q)
    return result
"""
    space = in_file(HEADER + body, tmp_path)
    space["kernel"](ONE)
    assert space["NAMES"]["names"] == ["x_tile", "tensor"]


def test_tiles_of_one_name_are_numbered_like_the_items_of_their_list(capsys: pytest.CaptureFixture[str]) -> None:
    @nki.jit
    def kernel(x):
        result = nki.language.ndarray(x.shape, x.dtype, buffer=nki.language.shared_hbm)
        tiles = [nki.language.load(x) for _ in range(3)]
        print(*[tile.name for tile in tiles])
        nki.language.store(result, tiles[0])
        return result

    kernel(ONE)
    assert capsys.readouterr().out == "tiles tiles.1 tiles.2\n"
