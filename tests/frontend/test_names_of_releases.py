"""Names that a release lacks are errors under its rules, chosen for a process or for one kernel.

The expectations are written from the release notes of NKI 0.3 to 0.7, apart from the table that the frontend uses.
"""

from __future__ import annotations

import copy
import importlib
import inspect
import pickle
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nki
from nki import target as targets
from nki.base.errors import NkiError
from nki.cli import main
from nki.compilation.cache.fingerprint import fingerprint
from nki.frontend.dialect import default_dialect, dialect_of, release
from nki.frontend.frontend_errors import NewerApiError, ReleaseError, RemovedApiError
from nki.language.releases import RELEASES
from tests.frontend.test_releases import HEADER, A, module_of, told

VERSIONS = RELEASES.versions
T = "t = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)\nnisa.dma_copy(t, x)\n"
END = "out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)\nnisa.dma_copy(out, t)\nreturn out"

SINCE = {
    "nl.load": ("t = nl.load(x)", "0.3"),
    "nl.zeros_like": ("t = nl.zeros_like(t)", "0.3"),
    "nl.full": ("t = nl.full(t.shape, 2.0, t.dtype)", "0.3"),
    "src= of nisa.register_move": ("r = nisa.register_alloc(1)\nnisa.register_move(dst=r, src=2)", "0.3"),
    "nl.tile_size.sbuf_fmax_bytes": ("n = nl.tile_size.sbuf_fmax_bytes", "0.4"),
    "nl.abs_max": ("op = nl.abs_max", "0.4"),
    "priority= of nisa.dma_copy": ("nisa.dma_copy(t, x, priority=None)", "0.4"),
    "nl.tile_size.psum_num_banks": ("n = nl.tile_size.psum_num_banks", "0.5"),
    "nl.float8_e8m0fnu": ("u = nl.ndarray((4, 4), nl.float8_e8m0fnu, buffer=nl.sbuf)", "0.5"),
    "NkiTensor.permute": ("u = t.reshape((4, 2, 2)).permute((0, 2, 1))", "0.5"),
    "NkiTensor.is_contiguous": ("u = t.is_contiguous()", "0.5"),
    "nl.fori_loop": ("nl.fori_loop(0, 2, lambda i: nisa.tensor_copy(t, t))", "0.6"),
    "nisa.topk": ("op = nisa.topk", "0.6"),
    "nl.tiles": ("g = nl.tiles(x, tile_shape=(2, 2))", "0.7"),
    "nl.int64": ("kind = nl.int64", "0.7"),
    "nisa.scalar_load": ("f = nisa.scalar_load", "0.7"),
    "t.data": ("t = t.data", "0.7"),
}


def kernel_of(body: str, file: Path, options: str = "") -> Any:
    return module_of(f"@nki.jit({options})\ndef kernel(x):\n{textwrap.indent(T + body, '    ')}\n", file).kernel


@pytest.mark.parametrize("name", SINCE)
@pytest.mark.parametrize("eager", [False, True], ids=["native", "eager"])
def test_a_release_refuses_names_that_came_later(
    name: str, eager: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line, since = SINCE[name]
    kernel = kernel_of(f"{line}\n{END}", tmp_path / "kernel.py")
    run = nki.simulate(kernel) if eager else kernel
    shape = told(run, A)[0].shape
    for version in VERSIONS:
        monkeypatch.setenv("NKI_VERSION", version)
        if VERSIONS.index(version) >= VERSIONS.index(since):
            assert told(run, A)[0].shape == shape
            continue
        with pytest.raises(NewerApiError) as caught:
            run(A)
        error = caught.value
        assert f"`{name}` came with NKI {since}; NKI {version} does not have it" in error.message
        assert f"NKI_VERSION={since}" in error.fix and f"nki.jit(nki_version='{since}')" in error.fix
        assert error.span is not None and error.span.file == str(tmp_path / "kernel.py")


def test_the_default_has_all_names(tmp_path: Path) -> None:
    body = "\n".join(line for line, _ in SINCE.values())
    told(kernel_of(f"{body}\n{END}", tmp_path / "kernel.py"), A)


def test_imported_names_are_judged_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NKI_VERSION", "0.5")
    text = "from nki.language import fori_loop\n\n@nki.jit\ndef kernel(x):\n    fori_loop(0, 2, print)\n    return x\n"
    with pytest.raises(NewerApiError, match="`fori_loop` came with"):
        module_of(text, tmp_path / "kernel.py").kernel(A)


def test_what_is_not_reached_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NKI_VERSION", "0.3")
    kernel = kernel_of(f"if x.shape[0] > 4:\n    f = nisa.topk\n{END}", tmp_path / "kernel.py")
    np.testing.assert_array_equal(told(kernel, A)[0], A)


DROPPED = {
    "nisa.dma_copy(t, x, dst_rmw_op=None)": "0.3",
    "r = nisa.register_alloc(1)\nnisa.register_move(r, imm=2)": "0.3",
}


@pytest.mark.parametrize("line", DROPPED)
def test_parameters_that_a_release_dropped(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = kernel_of(f"{line}\n{END}", tmp_path / "kernel.py")
    for version in ("", *VERSIONS):
        monkeypatch.setenv("NKI_VERSION", version)
        if version in ("", "0.2"):
            told(kernel, A)
        else:
            with pytest.raises(RemovedApiError, match=f"since NKI {DROPPED[line]}") as caught:
                kernel(A)
            assert caught.value.fix


def test_the_counter_of_a_loop_is_a_register_before_scalars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = "nl.fori_loop(0, 2, lambda i: nisa.dma_copy(t[0:1], x[nl.ds(i + 1, 1)]))"
    kernel = kernel_of(f"{loop}\n{END}", tmp_path / "kernel.py")
    told(kernel, A)
    monkeypatch.setenv("NKI_VERSION", "0.6")
    with pytest.raises(NkiError, match="NKI-RG001"):
        kernel(A)


def test_check_names_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernel_of(f"f = nisa.topk\n{END}", tmp_path / "kernel.py")
    assert main(["check", "--nki", "0.5", str(tmp_path / "kernel.py")]) == 1
    assert "[NKI-FE034] `nisa.topk` came with NKI 0.6; NKI 0.5 does not have it" in capsys.readouterr().out
    assert main(["check", "--nki", "0.6", str(tmp_path / "kernel.py")]) == 0


# The table


def test_every_name_of_the_table_exists() -> None:
    parameters = {full for release in RELEASES for full in release.parameters}
    others = {full for one in RELEASES for full in (*one.names, *one.removed, *one.deprecated)}
    for full in sorted(parameters | others):
        parts = full.split(".")
        value: Any = importlib.import_module(".".join(parts[:2]))
        for part in parts[2:-1]:
            value = getattr(value, part)
        if full in parameters:
            inspect.signature(value).parameters[parts[-1]]
        else:
            assert hasattr(value, parts[-1]), full


def test_the_releases_are_in_order() -> None:
    numbers = [tuple(int(part) for part in version.split(".")) for version in VERSIONS]
    assert numbers == sorted(set(numbers)) and VERSIONS[:2] == ("0.2", "0.3")
    assert RELEASES.last_parsed.version == "0.6"
    for one in RELEASES:
        assert set(one.instead) | one.operators <= set(one.names)
    later, ended = VERSIONS.index("0.6"), VERSIONS.index("0.7")
    assert RELEASES.have("nki.language.fori_loop") == tuple(place >= later for place in range(len(VERSIONS)))
    assert RELEASES.have("nki.language.dynamic_range") == tuple(place < ended for place in range(len(VERSIONS)))
    assert all(RELEASES.have("nki.isa.dma_copy"))


def test_each_release_is_in_the_tables() -> None:
    for one in RELEASES:
        version, file = one.version, "tests/frontend/test_names_of_releases.py"
        if one.names or one.parameters:
            added = f"a name or parameter that came with NKI {version}"
            assert version in {since for _, since in SINCE.values()}, f"add {added} to SINCE in {file}"
        if one.deprecated:
            assert version in ENDED.values(), f"add a form that NKI {version} deprecates to ENDED in {file}"


def test_forms_end_with_a_release() -> None:
    source = Path(inspect.getfile(nki)).parent
    texts = [file.read_text(encoding="utf-8") for file in source.rglob("*.py")]
    versions = {version for text in texts for version in re.findall(r'\bsince="(\d[\d.]*)"', text)}
    assert versions and versions <= set(VERSIONS)


# A release for one kernel


def test_the_kernel_decides_before_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = f"n = {{1, 2}}\nfor i in nl.dynamic_range(2):\n    nisa.tensor_copy(t, t)\n{END}"
    for own, environment, error in [
        ("", "", None),
        ("", "0.6", "NKI-FE021"),
        ("", "0.7", "NKI-FE032"),
        ("nki_version='0.6'", "", "NKI-FE021"),
        ("nki_version='0.6'", "0.7", "NKI-FE021"),
        ("nki_version='0.7.1'", "0.6", "NKI-FE032"),
        ("nki_version='0.7'", "", "NKI-FE032"),
    ]:
        monkeypatch.setenv("NKI_VERSION", environment)
        kernel = kernel_of(body, tmp_path / "kernel.py", own)
        for run in (kernel, nki.simulate(kernel)):
            if error is None:
                np.testing.assert_array_equal(told(run, A)[0], A)
            else:
                with pytest.raises(NkiError, match=error):
                    told(run, A)


def test_a_kernel_of_one_release_warns_of_nothing_that_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NKI_VERSION", "0.6")
    kernel = kernel_of(f"n = {{1, 2}}\n{END}", tmp_path / "kernel.py", "nki_version='0.7'")
    assert told(kernel, A)[1] == []


@pytest.mark.parametrize("version", ["9", "", 0.7, "newest"])
def test_an_unknown_release_of_a_kernel(version: Any) -> None:
    with pytest.raises(ReleaseError, match=re.escape(f"nki_version={version!r}")) as caught:
        nki.jit(nki_version=version)
    assert "0.6, 0.7" in caught.value.fix


def test_one_function_under_two_releases(tmp_path: Path) -> None:
    text = f"def kernel(x):\n{textwrap.indent(f'{T}n = {{1, 2}}{chr(10)}{END}', '    ')}\n"
    kernel = module_of(text, tmp_path / "kernel.py").kernel
    old, new = nki.jit(kernel, nki_version="0.6"), nki.jit(kernel, nki_version="0.7")
    np.testing.assert_array_equal(told(new, A)[0], A)
    with pytest.raises(NkiError, match="NKI-FE021"):
        old(A)
    assert told(nki.jit(kernel), A)[1]
    again = nki.jit(old, nki_version="0.7")
    np.testing.assert_array_equal(told(again, A)[0], A)


def test_check_reads_a_kernel_under_its_own_release(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernel_of(f"n = {{1, 2}}\n{END}", tmp_path / "kernel.py", "nki_version='0.6'")
    assert main(["check", str(tmp_path / "kernel.py")]) == 1
    assert "NKI-FE021" in capsys.readouterr().out
    assert main(["check", "--nki", "0.7", str(tmp_path / "kernel.py")]) == 1


def test_releases_by_text() -> None:
    assert [release(one).versions for one in VERSIONS] == [(one,) for one in VERSIONS]
    assert default_dialect().versions == VERSIONS


# Two libraries in one process

OLD = """
def rows(x):
    out = []
    for i in range(0, x.shape[0], 2):
        out.append((i, i + 2))
    return out

@nki.jit(nki_version="0.3")
def double(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    for start, stop in rows(x):
        tile = nl.ndarray((2, x.shape[1]), x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(tile, x[start:stop])
        for i in nl.dynamic_range(2):
            nisa.tensor_scalar(tile, tile, nl.add, 1.0)
        nisa.dma_copy(out[start:stop], tile)
    return out

@nki.jit(nki_version="0.3")
def add_one(tile):
    for i in nl.dynamic_range(1):
        nisa.tensor_scalar(tile, tile, nl.add, 1.0)
    return tile

@nki.jit(nki_version="0.3")
def uses_a_set(tile):
    return len({1, 2})
"""
NEW = """
import old_library

class Rows:
    def __init__(self, x):
        self.x = x

    def __iter__(self):
        yield from range(0, self.x.shape[0], 2)

@nki.jit(nki_version="0.7")
def double(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tiles, results = nl.tiles(x, tile_shape=(2, x.shape[1])), nl.tiles(out, tile_shape=(2, x.shape[1]))
    for i, _ in enumerate(Rows(x)):
        tile = nl.ndarray((2, x.shape[1]), x.dtype, buffer=nl.sbuf)
        tile[...] = tiles[i, 0].data
        nl.fori_loop(0, 2, lambda k: nisa.tensor_scalar(tile, tile, nl.add, 1.0))
        results[i, 0].data[...] = tile
    return out

@nki.jit(nki_version="0.7")
def through_the_old_one(x):
    n = {1, 2}
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = old_library.add_one(nl.load(x))
    nl.fori_loop(0, len(n), lambda k: nisa.tensor_scalar(tile, tile, nl.add, 1.0))
    nl.store(out, tile)
    return out

@nki.jit(nki_version="0.7")
def asks_the_old_one_for_a_set(x):
    old_library.uses_a_set(x)
    return x

@nki.jit(nki_version="0.7")
def add_two(tile):
    for _ in {1, 2}:
        nisa.tensor_scalar(tile, tile, nl.add, 1.0)
    return tile

@nki.jit(nki_version="0.7")
def removed(x):
    old_library.add_one(nl.load(x))
    for i in nl.dynamic_range(2):
        pass
    return x
"""
BETWEEN = """
import new_library

@nki.jit(nki_version="0.6")
def through_the_new_one(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, new_library.add_two(nl.load(x)))
    return out

@nki.jit(nki_version="0.6")
def and_a_set_of_its_own(x):
    new_library.add_two(nl.load(x))
    return {1}
"""


@pytest.fixture
def libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Modules for 0.3, for 0.7 and for 0.6, which call each other."""
    monkeypatch.syspath_prepend(str(tmp_path))
    for name, text in (("old_library", OLD), ("new_library", NEW), ("between", BETWEEN)):
        (tmp_path / f"{name}.py").write_text(HEADER + text, encoding="utf-8")
        monkeypatch.delitem(sys.modules, name, raising=False)
    importlib.invalidate_caches()
    return {name: importlib.import_module(name) for name in ("old_library", "new_library", "between")}


@pytest.mark.parametrize("environment", ["", "0.5", "0.7"])
@pytest.mark.parametrize("eager", [False, True], ids=["native", "eager"])
def test_libraries_of_two_releases_in_one_process(
    environment: str, eager: bool, libraries: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NKI_VERSION", environment)
    old, new, between = libraries["old_library"], libraries["new_library"], libraries["between"]

    def run(kernel: Any) -> Any:
        return told(nki.simulate(kernel) if eager else kernel, A)[0]

    np.testing.assert_array_equal(run(old.double), A + 2)
    np.testing.assert_array_equal(run(new.double), A + 2)
    np.testing.assert_array_equal(run(between.through_the_new_one), A + 2)
    for kernel, error in (
        (new.asks_the_old_one_for_a_set, "NKI-FE021"),
        (between.and_a_set_of_its_own, "NKI-FE021"),
        (new.removed, "no longer has"),
    ):
        with pytest.raises(NkiError, match=error):
            run(kernel)


@pytest.mark.parametrize("eager", [False, True], ids=["native", "eager"])
def test_a_new_kernel_calls_an_old_one(eager: bool, libraries: dict[str, Any]) -> None:
    kernel = libraries["new_library"].through_the_old_one
    result, caught = told(nki.simulate(kernel) if eager else kernel, A)
    np.testing.assert_array_equal(result, A + 3)
    assert not [one for one in caught if "NKI-FE" in str(one.message)]


def test_a_pickle_keeps_the_release(libraries: dict[str, Any]) -> None:

    plain = libraries["between"].through_the_new_one
    assert pickle.loads(pickle.dumps(plain)) is plain
    other = nki.jit(libraries["old_library"].rows, nki_version="0.7")
    for again in (pickle.loads(pickle.dumps(other)), copy.copy(other)):
        assert again.func.__code__ is other.func.__code__
        assert dialect_of(again.func).versions == ("0.7",)
    assert dialect_of(libraries["old_library"].rows).versions == VERSIONS


@pytest.mark.usefixtures("libraries")
def test_the_matrix_shows_what_the_dialects_enforce() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "support.md").read_text(encoding="utf-8")
    shown = {cells[0]: cells[1:7] for line in page.splitlines() if len(cells := line.strip("| ").split(" | ")) > 6}
    for name, line in {
        "nl.fori_loop": "- - - - yes yes",
        "nl.dynamic_range": "yes yes yes yes yes -",
        "nl.load": "- yes yes yes yes yes",
        "nl.abs_max": "- - yes yes yes yes",
        "nl.tile_size.psum_num_banks": "- - - yes yes yes",
        "t.permute": "- - - yes yes yes",
        "t.reshape": "yes yes yes yes yes yes",
        "t.data": "- - - - - yes",
        "nisa.dma_copy(dst_rmw_op=)": "yes - - - - -",
        "[nisa.topk](isa/topk.md)": "- - - - yes yes",
        "nisa.scalar_load": "- - - - - yes",
        "nccl.all_gather_v": "- - - - yes yes",
        "NKI-FE010: ``yield``, or a generator function": "- - - - - yes",
        "a loop `while register:`": "yes yes yes yes yes -",
    }.items():
        assert shown[name] == line.split(), name


# Warnings about forms that later releases ended

ENDED = {
    "t[0:2] if t is x else t": "0.3",
    "nl.ndarray((2, 2), nl.float32, buffer='sbuf')": "0.3",
    "nisa.dma_copy(t, x, dge_mode=3)": "0.3",
    "nisa.register_move(nisa.register_alloc(1), imm=2)": "0.3",
    "nisa.memset(nl.ndarray((2, 2), nl.int32, buffer=nl.sbuf), 2.0)": "0.3",
    "list(nl.sequential_range(2))": "0.3",
    "list(nl.static_range(2))": "0.4",
    "nl.tile_size.psum_fmax": "0.4",
    "nl.tile_size.total_available_sbuf_size": "0.4",
    "nisa.vector_engine": "0.6",
    "[nisa.tensor_copy(t, t) for _ in nl.dynamic_range(2)]": "0.6",
}


@pytest.mark.parametrize("form", ENDED)
@pytest.mark.parametrize("eager", [False, True], ids=["native", "eager"])
def test_a_release_is_not_warned_of_what_ended_later(
    form: str, eager: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, version in enumerate(["", *VERSIONS]):
        monkeypatch.setenv("NKI_VERSION", version)
        kernel = kernel_of(f"u = {form}\n{END}", tmp_path / f"kernel_{number}.py")
        try:
            caught = told(nki.simulate(kernel) if eager else kernel, A)[1]
        except RemovedApiError:
            assert version not in VERSIONS[: VERSIONS.index(ENDED[form])], (form, version)
            continue
        except NewerApiError:  # the form came with a later release, and ended with a still later one
            assert version in VERSIONS[: VERSIONS.index(ENDED[form])], (form, version)
            continue
        quiet = version != "" and VERSIONS.index(version) < VERSIONS.index(ENDED[form])
        if " is " in form and version and RELEASES.find(version).traced:
            quiet = True  # where it means what Python means
        texts = [str(one.message) for one in caught if "NKI-FE" not in str(one.message)]
        expected = "no warning" if quiet else "a warning"
        message = (
            f"NKI {version or 'any'}: {expected} of `{form}` expected, which ends with NKI {ENDED[form]} as ENDED says"
        )
        assert bool(texts) is not quiet, f"{message} (tests/frontend/test_names_of_releases.py); warnings: {texts}"


def test_libraries_of_their_own_release_are_silent(libraries: dict[str, Any]) -> None:
    for kernel in (libraries["old_library"].double, libraries["new_library"].through_the_old_one):
        assert told(kernel, A)[1] == []
        assert told(nki.simulate(kernel), A)[1] == []


def test_options_that_ended_later(libraries: dict[str, Any]) -> None:
    rows = libraries["old_library"].rows
    for version, count in (("0.2", 0), ("0.3", 2), (None, 2)):
        options = {} if version is None else {"nki_version": version}
        caught = told(lambda options=options: nki.jit(rows, mode="jax", platform_target="trn2", **options))[1]
        assert len(caught) == count


def test_the_cache_on_disk_knows_the_release(libraries: dict[str, Any]) -> None:
    def digest(kernel: Any) -> str:
        found = fingerprint(kernel.func, {}, targets.find("trn2"), ())
        assert found is not None
        return found.digest

    old, new = libraries["old_library"], libraries["new_library"]
    plain = old.double.func
    versions = [nki.jit(plain, nki_version=version) for version in ("0.3", "0.6", "0.6")]
    assert digest(old.double) == digest(versions[0]) != digest(versions[1]) == digest(versions[2])
    before = digest(new.through_the_old_one)
    old.add_one = nki.jit(old.add_one, nki_version="0.4")
    assert digest(new.through_the_old_one) != before
