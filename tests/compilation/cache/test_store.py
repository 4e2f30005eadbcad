"""Compiled kernels on disk: when another process uses them, when not, and what can happen to the files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest

from nki import target as targets
from nki.base import files as files
from nki.base.source import Span
from nki.base.warning import NkiDeprecationWarning, NkiPortabilityWarning, NkiWarning, Warned
from nki.compilation.cache import store
from nki.ir.text import artifact
from tests.support import forked_process
from tests.support.program_text import KERNEL as PROGRAM

KERNEL = '''
import numpy as np
import nki
import nki.isa as nisa
import nki.language as nl
import beside

SHIFT = 1.0

def maker(factor):
    @nki.jit
    def scaled(x, power=1):
        """(x * factor ** power + SHIFT) * beside.FACTOR"""
        t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=t, src=x)
        for _ in range(power):
            nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=factor)
        nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=SHIFT)
        beside.finish(t)
        y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=y, src=t)
        return y
    return scaled

scaled = maker(2.0)
'''
BESIDE = """
import nki.isa as nisa
import nki.language as nl

FACTOR = 3.0

def finish(t):
    nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=FACTOR)
"""
MAIN = """
import json
import sys
import warnings
import numpy as np
from nki.compilation import pipeline

specialised = []
real = pipeline.specialise

def specialise(captured, *rest, **options):
    specialised.append(captured.name)
    return real(captured, *rest, **options)

pipeline.specialise = specialise
import kernels

x = np.ones((4, 8), np.float32)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    results = RESULTS
for result in results if isinstance(results, list) else [results]:
    total = float(np.asarray(result, np.float32).sum() / 32)
print(json.dumps({"compiled": len(specialised), "mean": total, "warnings": [str(w.message) for w in caught]}))
"""
CALL = "kernels.scaled(x)"
Run = Callable[..., dict[str, Any]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "kernels.py").write_text(KERNEL)
    (tmp_path / "beside.py").write_text(BESIDE)
    return tmp_path


def variables(folder: Path, **environment: str) -> dict[str, str]:
    others = {k: v for k, v in os.environ.items() if not k.startswith(("NKI_", "OPEN_NKI", "NEURON_"))}
    others |= {"OPEN_NKI_CACHE": str(folder / "cache"), "PYTHONDONTWRITEBYTECODE": "1", **environment}
    return others | {"PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}


def started(folder: Path, results: str = CALL) -> subprocess.Popen[str]:
    """A new process that evaluates ``results`` and says how often it compiled."""
    command = [sys.executable, "-W", "error", "-c", MAIN.replace("RESULTS", results)]
    return subprocess.Popen(
        command, cwd=folder, env=variables(folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def outcome(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = process.communicate(timeout=120)
    return reported(process.returncode, out, err)


def reported(code: int, out: str, err: str) -> dict[str, Any]:
    assert code == 0, err
    return json.loads(out.splitlines()[-1]) | {"printed": out.splitlines()[:-1]}


@pytest.fixture
def run(folder: Path) -> Run:
    """The same in a process that is forked, so that it need not import NKI."""

    def forked(results: str = CALL, **environment: str) -> dict[str, Any]:
        program, others = MAIN.replace("RESULTS", results), variables(folder, **environment)
        done = forked_process.ran(program, folder=folder, environment=others, is_strict=True)
        return reported(done.returncode, done.stdout, done.stderr)

    return forked


def entries(folder: Path) -> list[Path]:
    return sorted((folder / "cache" / "kernels").glob("*.klir"))


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


def test_the_second_process_does_not_run_the_kernels_python(folder: Path) -> None:
    """Nothing is in common to the two, neither addresses nor the hashes of texts."""
    first, second = outcome(started(folder)), outcome(started(folder))
    assert (first["compiled"], second["compiled"]) == (1, 0)
    assert first["mean"] == second["mean"] == 9.0
    assert len(entries(folder)) == 1
    assert {p.name for p in folder.iterdir()} == {"kernels.py", "beside.py", "cache"}, "something was written elsewhere"


@pytest.mark.parametrize(
    ("file", "old", "new", "mean"),
    [
        ("beside.py", "op0=nl.multiply", "op0=nl.add", 6.0),
        ("beside.py", "FACTOR = 3.0", "FACTOR = 4.0", 12.0),
        ("kernels.py", "SHIFT = 1.0", "SHIFT = 2.0", 12.0),
        ("kernels.py", "maker(2.0)", "maker(4.0)", 15.0),
        ("kernels.py", "range(power)", "range(2 * power)", 15.0),
    ],
)
def test_an_edit_is_compiled(run: Run, folder: Path, file: str, old: str, new: str, mean: float) -> None:
    run()
    edit(folder / file, old, new)
    edited = run()
    assert (edited["compiled"], edited["mean"]) == (1, mean)
    edit(folder / file, new, old)
    assert run() == {"compiled": 0, "mean": 9.0, "warnings": [], "printed": []}, "the first entry is still there"


def test_what_else_decides(run: Run) -> None:
    run()
    for results, environment in (
        ("kernels.scaled(x, 2)", {}),
        ("kernels.scaled(x.astype(np.float16))", {}),
        ("kernels.scaled(x.T.copy())", {}),
        (CALL, {"NEURON_PLATFORM_TARGET_OVERRIDE": "trn2"}),
    ):
        assert run(results, **environment)["compiled"] == 1
        assert run(results, **environment)["compiled"] == 0
    version = "__import__('nki.compilation.cache.fingerprint', fromlist=['*']).__dict__.update(build=lambda: 'newer')"
    assert run(f"({version}, {CALL})[1]")["compiled"] == 1


def test_values_that_change_after_an_entry_was_found_are_noticed(run: Run) -> None:
    run()
    changing = f"[{CALL}, setattr(kernels.beside, 'FACTOR', 5.0) or {CALL}]"
    changed = run(changing)
    assert (changed["compiled"], changed["mean"]) == (1, 15.0)
    assert run(changing)["compiled"] == 0, "both are kept now"


def test_it_can_be_switched_off(run: Run, folder: Path) -> None:
    assert [run(OPEN_NKI_CACHE_DISABLE="1")["compiled"] for _ in range(2)] == [1, 1]
    assert not entries(folder)
    assert [run()["compiled"] for _ in range(2)] == [1, 0]
    assert run(OPEN_NKI_CACHE_DISABLE="1")["compiled"] == 1


def test_the_simulator_leaves_the_disk_alone(run: Run, folder: Path) -> None:
    assert run("__import__('nki').simulate(kernels.scaled)(x)")["mean"] == 9.0
    assert run(NKI_SIMULATOR="1")["mean"] == 9.0
    assert not (folder / "cache").exists()


def test_a_kernel_that_prints_still_prints(run: Run, folder: Path) -> None:
    edit(folder / "beside.py", "def finish(t):\n", "def finish(t):\n    print('finishing', t.shape)\n")
    for _ in range(2):
        assert run()["printed"] == ["finishing (4, 8)"]
    assert not entries(folder)


def test_a_function_reached_by_no_name_keeps_the_kernel_off_the_disk(run: Run, folder: Path) -> None:
    edit(
        folder / "beside.py",
        "def finish(t):",
        "def finish(t):\n    finish.__globals__['end' + 'ing'](t)\n\ndef ending(t):",
    )
    for _ in range(2):
        assert run() == {"compiled": 1, "mean": 9.0, "warnings": [], "printed": []}
    assert not entries(folder)


def test_a_kernel_that_changes_what_it_reads_is_not_kept(run: Run, folder: Path) -> None:
    edit(
        folder / "beside.py",
        "def finish(t):\n",
        "SEEN = []\ndef finish(t):\n    seen = SEEN  # which hides it from the check\n    seen.append(1)\n",
    )
    assert [run()["compiled"] for _ in range(2)] == [1, 1]
    assert not entries(folder)


def test_warnings_are_given_again(run: Run, folder: Path) -> None:
    edit(folder / "kernels.py", "        for _ in", "        same = power is 1\n        for _ in")
    edit(folder / "kernels.py", "power is 1", "power is SHIFT")
    first, second = run(), run()
    assert (first["compiled"], second["compiled"]) == (1, 0)
    assert first["warnings"] == second["warnings"] and "identity" in first["warnings"][0]


def test_processes_at_once(folder: Path) -> None:
    together = [started(folder) for _ in range(3)]
    assert {outcome(process)["mean"] for process in together} == {9.0}
    assert len(entries(folder)) == 1 and not list((folder / "cache").rglob("*.part"))
    assert outcome(started(folder))["compiled"] == 0


@pytest.mark.parametrize("damage", ["cut", "empty", "flipped", "foreign", "other kernel", "no warnings", "text"])
def test_a_damaged_entry_is_made_anew(run: Run, folder: Path, damage: str) -> None:
    run()
    (path,) = entries(folder)
    data = path.read_bytes()
    fields = msgpack.unpackb(data)
    path.write_bytes(
        {
            "cut": data[: len(data) // 2],
            "empty": b"",
            "flipped": data.replace(fields["kernel"], bytes(b ^ 1 for b in fields["kernel"])),
            "foreign": msgpack.packb([1, 2]),
            "other kernel": msgpack.packb(fields | {"kernel": b"x"}),
            "no warnings": msgpack.packb(fields | {"about": {"warnings": [3]}}),
            "text": b"kernel",
        }[damage]
    )
    assert run() == {"compiled": 1, "mean": 9.0, "warnings": [], "printed": []}
    assert run()["compiled"] == 0
    assert entries(folder) == [path]


@pytest.mark.parametrize("sealed", [False, True], ids=["moved", "moved and sealed again"])
def test_an_entry_of_another_call_is_not_used(run: Run, folder: Path, sealed: bool) -> None:
    """Native code would read and write beyond the caller's arrays."""
    run()
    (small,) = entries(folder)
    large = "kernels.scaled(np.zeros((64, 4096), np.float32))"
    run(large)
    (other,) = set(entries(folder)) - {small}
    about = artifact.about(small.read_bytes())
    moved = artifact.dumps(artifact.loads(other.read_bytes()), about) if sealed else other.read_bytes()
    small.write_bytes(moved)
    assert run()["compiled"] == 1 and run() == {"compiled": 0, "mean": 9.0, "warnings": [], "printed": []}


@pytest.mark.parametrize("category", [NkiWarning, NkiDeprecationWarning, NkiPortabilityWarning])
def test_a_warning_keeps_its_category(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, category: type[NkiWarning]
) -> None:
    monkeypatch.setenv("OPEN_NKI_CACHE", str(tmp_path))
    specs = {spec.name: spec for spec in PROGRAM.signature.input_specs()}
    warned = Warned(Span("file.py", 3), "text", category)
    store.store("0" * 64, PROGRAM, test_a_warning_keeps_its_category.__code__, specs, [warned])
    loaded = store.load("0" * 64, specs, targets.find(PROGRAM.target))
    assert loaded is not None and loaded[1] == [warned]


def test_artifacts_of_graphs_count_and_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPEN_NKI_CACHE", str(tmp_path))
    paths = [store.store_artifact(name, bytes([size]) * size) for name, size in (("a", 100), ("b", 50), ("b", 60))]
    assert sorted(store.artifacts()) == sorted(zip(paths, (100, 50, 60), strict=True))
    os.utime(paths[0], (1, 1))
    files.trim(store.SUFFIX, 150, store.folder(), store.artifacts_folder())
    assert {path for path, _ in store.artifacts()} == set(paths[1:])
    assert store.store_artifact("a", bytes([100]) * 100) == paths[0] and len(store.artifacts()) == 3
    assert store.clear("b") == 2 and store.clear() == 1 and store.artifacts() == []


def test_an_entry_breaks_no_rules(run: Run, folder: Path) -> None:
    """One that was tampered with and sealed again is verified like any artifact."""
    run()
    (path,) = entries(folder)
    program = artifact.loads(path.read_bytes())
    program.core.body[1].data.offset = 1 << 20  # type: ignore[attr-defined]
    path.write_bytes(artifact.dumps(program, artifact.about(path.read_bytes())))
    assert run()["compiled"] == 1 and run()["compiled"] == 0


@pytest.mark.parametrize("place", ["a file", "read-only"])
def test_a_folder_that_cannot_be_written_to(run: Run, folder: Path, place: str) -> None:
    if place == "a file":
        (folder / "cache").write_text("")
    else:
        (folder / "cache" / "kernels").mkdir(parents=True)
        (folder / "cache" / "kernels").chmod(0o500)
        if os.access(folder / "cache" / "kernels", os.W_OK):  # root may do anything
            (folder / "cache" / "kernels").rmdir()
            (folder / "cache" / "kernels").symlink_to("/proc/self/nowhere")
    assert [run()["mean"] for _ in range(2)] == [9.0, 9.0]


def test_entries_of_a_read_only_folder_are_used(run: Run, folder: Path) -> None:
    run()
    kernels = folder / "cache" / "kernels"
    kernels.chmod(0o500)
    assert run()["compiled"] == 0
    kernels.chmod(0o700)


def test_an_entry_is_data_and_tells_nothing_else(run: Run, folder: Path) -> None:
    run("kernels.scaled(x, 2)", SECRET_TOKEN="sesame")
    (path,) = entries(folder)
    data = path.read_bytes()
    fields = msgpack.unpackb(data, ext_hook=lambda *_: pytest.fail("an object"))
    assert set(fields) == {"format", "version", "compiler", "digest", "kernel", "about"}
    assert fields["about"].pop("digest")[:40] == path.stem
    assert fields["about"] == {
        "kernel": "scaled",
        "file": str(folder / "kernels.py"),
        "line": 11,
        "arguments": ["x=4x8:float32", "power=2"],
        "target": "trn3",
        "instructions": 6,
        "warnings": [],
    }
    assert b"sesame" not in data and b"pickle" not in data
    assert os.stat(path).st_mode & 0o077 == 0, "others may read it"


def test_an_entry_is_an_artifact_like_any_other(run: Run, folder: Path) -> None:
    """What was loaded is written as the very same text: programs that carry artifacts do not change with the cache."""
    writing = f"(kernels.scaled.compile(x).artifact(), {CALL})[1]"
    assert [run(writing)["compiled"] for _ in range(2)] == [1, 0]
    (written,) = (folder / "cache" / "klir").iterdir()
    (kept,) = entries(folder)
    assert artifact.loads(kept.read_bytes()) == artifact.loads(written.read_bytes())


def test_the_folder_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(6):
        files.write(tmp_path / f"{number}.klir", bytes(100))
        os.utime(tmp_path / f"{number}.klir", (number, number))
    (tmp_path / "old.part").write_bytes(b"")
    os.utime(tmp_path / "old.part", (1, 1))
    (tmp_path / "new.part").write_bytes(b"")
    (tmp_path / "mine.txt").write_bytes(bytes(1000))
    assert files.read(tmp_path / "1.klir") == bytes(100), "which makes it the newest"
    files.trim(".klir", 350, tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {"1.klir", "5.klir", "4.klir", "new.part", "mine.txt"}


def test_storing_looks_after_the_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPEN_NKI_CACHE", str(tmp_path))
    monkeypatch.setattr(store, "LIMIT", 0)
    monkeypatch.setitem(store._written, "bytes", store._ROUND)

    def code() -> None: ...

    store.store("0" * 64, PROGRAM, code.__code__, {"x": 1.5, "op": np.add}, [])
    assert store.entries() == []
    monkeypatch.setattr(store, "LIMIT", 1 << 20)
    store.store("1" * 64, PROGRAM, code.__code__, {"x": 1.5, "op": np.add, "long": "a" * 50}, [])
    (entry,) = store.entries()
    assert entry.arguments == ("x=1.5", "op=…", "long=…") and entry.kernel == PROGRAM.name
    assert store.clear("another") == 0 and store.clear(entry.kernel) == 1 and store.entries() == []
