"""A release is one file: a made-up one beside the others, in a copy of the source, is all that anything asks.

``EARLIER`` releases are the same with the file and without it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from nki.language.releases import RELEASES
from tests.support.copied_source import ROOT, copied_source, run

NEWEST = RELEASES.versions[-1]
EARLIER = ("", *RELEASES.versions)
MADE_UP = f"{NEWEST.partition('.')[0]}.{int(NEWEST.partition('.')[2]) + 1}"
"""The version after the newest one, so that no file has it."""

FILE = f'''
"""NKI {MADE_UP}, made up."""

from nki.frontend.frontend_errors import DelError
from nki.frontend.release import LIST_ARGUMENT, Release

RELEASE = Release(
    version="{MADE_UP}",
    traced=True,
    names=("nki.language.twice",),
    parameters=("nki.isa.memset.engine",),
    instead={{"nki.language.twice": "write nl.add(x, x)"}},
    removed={{"nki.language.while_loop": "use `nl.fori_loop`"}},
    removed_parameters={{"nki.isa.iota.name": "leave it out"}},
    deprecated={{"nki.language.square": "write `nl.multiply(x, x)`"}},
    refuses=(DelError,),
    warnings={{LIST_ARGUMENT: "`{{0}}` is a list, again"}},
    compiler_frontends=("builder",),
)
'''
FUNCTION = """

def twice(x):
    return add(x, x)


__all__ += ["twice"]
"""
KERNEL = """
import nki
import nki.isa as nisa
import nki.language as nl

@nki.jit
def kernel(x, values=()):
    tile = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(tile, x)
    {line}
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out
"""
CHANGED = {
    "a new name": "nisa.tensor_copy(tile, nl.twice(tile))",
    "a new parameter": "nisa.memset(tile, 1.0, engine=nisa.engine.vector)",
    "a removed name": "loop = nl.while_loop",
    "a removed parameter": "nisa.iota(nl.ndarray((2, 2), nl.int32, buffer=nl.sbuf), [[1, 2]], name='n')",
    "a deprecated name": "nisa.tensor_copy(tile, nl.square(tile))",
    "del": "n = 1; del n",
    "a list": "n = len(values)",
}
SAME = {
    "a set": "n = {1, 2}",
    "nl.load": "nisa.tensor_copy(tile, nl.load(x))",
    "dynamic_range": "[nisa.tensor_copy(tile, tile) for _ in nl.dynamic_range(2)]",
    "range": "loop = nl.affine_range(2)",
    "while": "r = nisa.register_alloc(0)\n    while r:\n        nisa.tensor_copy(tile, tile)",
    "constants": "import nki.tensor\n    n = nki.tensor.zeros((2, 2), nl.int8)",
    "a slice of a slice": "nisa.tensor_copy(tile[0:2], tile[0:3][0:2])",
}
OBSERVE = """
import importlib.util, json, os, sys, tempfile, warnings
import numpy as np
from pathlib import Path
from nki.base.errors import NkiError

cases, versions, folder = json.loads(sys.argv[1]), json.loads(sys.argv[2]), Path(tempfile.mkdtemp())
outcomes = {}
for variable, version in versions:
    os.environ.pop("NKI_VERSION", None), os.environ.pop("NKI_COMPILER_FRONTEND", None)
    os.environ[variable] = version
    for name, text in cases.items():
        file = folder / f"kernel_{len(outcomes)}.py"
        file.write_text(text)
        spec = importlib.util.spec_from_file_location(file.stem, file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        error = ""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                module.kernel(np.ones((4, 4), np.float32), [1] if name == "a list" else ())
            except NkiError as raised:
                error = f"{raised.message} | {raised.fix}"
        texts = sorted({str(one.message).partition(" (open-nki")[0] for one in caught})
        outcomes[f"{version}: {name}"] = [error, texts]
print(json.dumps(outcomes))
"""


class Outcome(NamedTuple):
    error: str
    warnings: list[str]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the source with the release and its function."""
    release = f"language/releases/v{MADE_UP.replace('.', '_')}.py"
    added = {release: FILE, "language/__init__.py": FUNCTION}
    return copied_source(tmp_path_factory.mktemp("source"), added=added)


def observed(source: Path, lines: Mapping[str, str], *versions: tuple[str, str]) -> dict[str, Outcome]:
    cases = {name: KERNEL.replace("{line}", line) for name, line in lines.items()}
    outcomes: dict[str, Any] = json.loads(run(source, "-c", OBSERVE, json.dumps(cases), json.dumps(versions)))
    return {name: Outcome(*outcome) for name, outcome in outcomes.items()}


@pytest.fixture(scope="module")
def outcomes(source: Path) -> dict[str, Outcome]:
    versions = [("NKI_VERSION", version) for version in (*EARLIER, MADE_UP)]
    return observed(source, CHANGED | SAME, *versions)


ERRORS = {
    "a removed name": (f"NKI {MADE_UP} no longer has `nl.while_loop`", "use `nl.fori_loop`"),
    "a removed parameter": (f"NKI {MADE_UP} no longer has `name= of nisa.iota`", "leave it out"),
    "del": ("`del`", ""),
}
WARNINGS = {
    "a removed name": f"`nl.while_loop` is deprecated since NKI {MADE_UP}: use `nl.fori_loop`",
    "a removed parameter": f"`name= of nisa.iota` is deprecated since NKI {MADE_UP}: leave it out",
    "a deprecated name": f"`nl.square` is deprecated since NKI {MADE_UP}: write `nl.multiply(x, x)`",
}


def test_the_release_enforces_its_file(outcomes: dict[str, Outcome]) -> None:
    for name in CHANGED:
        error, warned = outcomes[f"{MADE_UP}: {name}"]
        message, fix = ERRORS.get(name, ("", ""))
        assert (message in error and fix in error) if message else not error, error
        if name not in ERRORS:
            assert warned == (
                [WARNINGS[name]] if name in WARNINGS else ["`values` is a list, again"] * ("list" in name)
            )
    assert all(
        "no longer has `nl.dynamic_range`" in outcomes[f"{one}: dynamic_range"].error for one in ("0.7", MADE_UP)
    )


def test_other_releases_do_not_have_what_is_new(outcomes: dict[str, Outcome]) -> None:
    for version in RELEASES.versions:
        twice, engine = (outcomes[f"{version}: a new {kind}"].error for kind in ("name", "parameter"))
        assert f"`nl.twice` came with NKI {MADE_UP}; NKI {version} does not have it | write nl.add(x, x)" in twice
        assert f"`engine= of nisa.memset` came with NKI {MADE_UP}; NKI {version} does not have it" in engine
        assert not outcomes[f"{version}: a removed parameter"].error
        assert ("came with NKI 0.6" in outcomes[f"{version}: a removed name"].error) is (
            version in RELEASES.versions[: RELEASES.versions.index("0.6")]
        )
        assert outcomes[f"{version}: a deprecated name"] == ("", [])


def test_the_default_accepts_all_and_warns(outcomes: dict[str, Outcome]) -> None:
    for name in CHANGED:
        error, warned = outcomes[f": {name}"]
        assert not error
        if name in WARNINGS:
            assert warned == [WARNINGS[name]]
    assert "NKI 0.7 is the first release that takes this" in outcomes[": del"].warnings[0]


def test_what_it_does_not_change_stays(outcomes: dict[str, Outcome]) -> None:
    lines = SAME | {name: CHANGED[name] for name in ("del", "a list")}
    before = observed(ROOT / "src", lines, *[("NKI_VERSION", version) for version in EARLIER])
    assert before == {name: outcomes[name] for name in before}
    assert any(outcome.error for outcome in before.values()) and any(outcome.warnings for outcome in before.values())


def test_the_variable_of_its_frontend(source: Path, outcomes: dict[str, Outcome]) -> None:
    words = [("NKI_COMPILER_FRONTEND", word) for word in ("builder", "tracer", "parser")]
    chosen = observed(source, {"del": CHANGED["del"]}, *words)
    for (_, word), version in zip(words, (MADE_UP, "0.7", "0.6"), strict=True):
        assert chosen[f"{word}: del"] == outcomes[f"{version}: del"]


def test_the_commands_know_it(source: Path, tmp_path: Path) -> None:
    file = tmp_path / "kernel.py"
    file.write_text(KERNEL.replace("{line}", CHANGED["a removed name"]), encoding="utf-8")
    told = run(source, "-m", "nki", "check", "--nki", MADE_UP, str(file), code=1)
    assert f"[NKI-FE032] NKI {MADE_UP} no longer has `nl.while_loop`" in told and "use `nl.fori_loop`" in told
    run(source, "-m", "nki", "check", "--nki", NEWEST, str(file))
    assert f"since NKI {MADE_UP}" in run(source, "-m", "nki", "explain", "nl.twice")
    assert f"not after NKI {NEWEST}" in run(source, "-m", "nki", "explain", "nl.while_loop")


def test_migration_marks_what_it_removed(source: Path, tmp_path: Path) -> None:
    file = tmp_path / "kernel.py"
    lines = f"{CHANGED['a removed name']}\n    {CHANGED['a removed parameter']}"
    file.write_text(KERNEL.replace("{line}", lines), encoding="utf-8")
    marks = "`nl.while_loop` is gone: use `nl.fori_loop`", "`name=` of `nki.isa.iota` is gone: leave it out"
    for options in ((), ("--to", MADE_UP)):
        told = run(source, "-m", "nki", "migrate", *options, str(file), code=1)
        assert all(mark in told for mark in marks)
    for version in ("0.6", NEWEST):
        told = run(source, "-m", "nki", "migrate", "--to", version, str(file))
        assert not any(mark in told for mark in marks)


def test_the_support_matrix_shows_it(source: Path) -> None:
    page = run(source, "-c", "from tools import reference; print(reference.support())")
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("|")]
    shown = {cells[0]: cells[1 : len(RELEASES) + 2] for cells in rows}
    versions = [*RELEASES.versions, MADE_UP]
    assert shown["name"] == versions
    for name, (first, last) in {
        "nl.twice": (MADE_UP, MADE_UP),
        "nl.while_loop": ("0.6", NEWEST),
        "nl.load": ("0.3", MADE_UP),
        "nisa.memset(engine=)": (MADE_UP, MADE_UP),
        "nisa.iota(name=)": ("0.2", NEWEST),
        "NKI-FE016: ``del``": ("0.7", NEWEST),
        "NKI-FE010: ``yield``, or a generator function": ("0.7", MADE_UP),
    }.items():
        there = range(versions.index(first), versions.index(last) + 1)
        assert shown[name] == ["yes" if place in there else "-" for place in range(len(versions))], name
