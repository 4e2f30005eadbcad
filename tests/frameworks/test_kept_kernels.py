"""Kernels that graphs name: a limited number stays in memory, and those that were dropped still work."""

from __future__ import annotations

import gc
import shutil
from pathlib import Path
from typing import Any
from weakref import WeakSet

import jax
import numpy as np
import pytest
import torch

import nki
from nki.compilation import executable_cache
from nki.compilation.executable import Executable
from nki.compilation.executable_cache import NamedExecutables
from nki.frameworks import embedded, kernel_adapter, torch_simulated
from nki.frameworks.jax_program import CHECKS

from .kernels import add

MOST = 3
COLUMNS = range(1, 11)


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Few kernels are kept, none from other tests; the folder of the cache."""
    monkeypatch.setattr(executable_cache, "CAPACITY", MOST)
    monkeypatch.setattr(kernel_adapter, "_named", NamedExecutables(kernel_adapter._is_lasting))
    monkeypatch.setattr(embedded, "_named", NamedExecutables(lambda _name, _executable: True))
    monkeypatch.setenv("OPEN_NKI_CACHE", str(tmp_path))
    return tmp_path


@pytest.fixture
def alive(monkeypatch: pytest.MonkeyPatch) -> WeakSet[Executable]:
    """The executables in memory that the test has made."""
    made = WeakSet[Executable]()
    initialise = Executable.__init__

    def record(self: Executable, *args: Any, **kwargs: Any) -> None:
        initialise(self, *args, **kwargs)
        made.add(self)

    monkeypatch.setattr(Executable, "__init__", record)
    return made


def pair(columns: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    a = np.arange(4 * columns, dtype=np.float32).reshape(4, columns)
    return a, a * 3 + 1


def compiled_graph(inner: Any) -> Any:
    """A graph of PyTorch for each shape."""
    torch._dynamo.reset()
    return torch.compile(lambda a, b: inner(a, b) * 2, backend="eager", dynamic=False, fullgraph=True)


def check_graph(graph: Any, columns: int) -> None:
    a, b = pair(columns)
    assert np.array_equal(graph(torch.from_numpy(a), torch.from_numpy(b)), (a + b) * 2)


def check_jax(function: Any, columns: int) -> None:
    a, b = pair(columns)
    assert np.array_equal(function(a, b), (a + b) * 2)


@torch._dynamo.config.patch(recompile_limit=64)
def test_graphs_of_pytorch_find_their_kernels_again(alive: WeakSet[Executable]) -> None:
    fresh = nki.jit(add.func)
    graph = compiled_graph(fresh)
    for _ in range(2):
        for columns in COLUMNS:
            check_graph(graph, columns)
            assert len(kernel_adapter._named.by_key) <= MOST
    gc.collect()
    assert 0 < len(alive) <= 2 * MOST  # entries of the kernel, and entries of the graphs
    torch._dynamo.reset()


@torch._dynamo.config.patch(recompile_limit=64)
def test_what_no_file_holds_is_not_dropped(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    (cache / "file").write_text("a file, so that no folder can be made below it")
    monkeypatch.setenv("OPEN_NKI_CACHE", str(cache / "file"))
    graph = compiled_graph(nki.jit(add.func))
    for _ in range(2):
        for columns in COLUMNS:
            check_graph(graph, columns)
    torch._dynamo.reset()


@torch._dynamo.config.patch(recompile_limit=64)
def test_an_artifact_that_was_removed_is_written_again_before_its_kernel_is_dropped(cache: Path) -> None:
    graph = compiled_graph(nki.jit(add.func))
    for columns in COLUMNS:
        check_graph(graph, columns)
        if columns == MOST:
            shutil.rmtree(cache)
    for columns in COLUMNS:
        check_graph(graph, columns)
    torch._dynamo.reset()


def test_programs_that_jax_keeps_have_their_kernels(cache: Path) -> None:
    fresh = nki.jit(add.func)
    jitted = jax.jit(lambda a, b: fresh(a, b) * 2)
    lowered = [jitted.lower(*pair(columns)).compile() for columns in COLUMNS]
    for _ in range(2):
        for columns in COLUMNS:
            check_jax(jitted, columns)
            assert len(kernel_adapter._named.by_key) <= MOST
    fresh._executables.clear()
    jax.clear_caches()
    gc.collect()
    shutil.rmtree(cache)
    for columns, program in zip(COLUMNS, lowered, strict=True):
        check_jax(program, columns)


def test_exported_programs_compile_their_kernels_again(alive: WeakSet[Executable]) -> None:
    def exported(columns: int) -> bytes:
        fresh = nki.jit(add.func)
        function = jax.jit(lambda a, b: fresh(a, b) * 2)
        return bytes(jax.export.export(function, disabled_checks=CHECKS)(*pair(columns)).serialize())

    programs = [jax.export.deserialize(bytearray(exported(columns))) for columns in COLUMNS]
    jax.clear_caches()
    for _ in range(2):
        for columns, program in zip(COLUMNS, programs, strict=True):
            check_jax(program.call, columns)
            assert len(embedded._named.by_key) <= MOST
    gc.collect()
    assert 0 < len(alive) <= MOST


def test_a_loaded_model_keeps_its_kernels(tmp_path: Path, alive: WeakSet[Executable]) -> None:
    def every(*arrays: Any) -> list[Any]:
        fresh = nki.jit(add.func)
        return [fresh(a, b) * 2 for a, b in zip(arrays[::2], arrays[1::2], strict=True)]

    arrays = [array for columns in COLUMNS for array in pair(columns)]
    nki.export(every, tuple(jax.numpy.asarray(a) for a in arrays), tmp_path / "model.nkix")
    model = nki.load(tmp_path / "model.nkix")
    compiled = len(alive)
    for _ in range(2):
        results = model(*arrays)
        assert all(np.array_equal(r, (a + b) * 2) for r, a, b in zip(results, arrays[::2], arrays[1::2], strict=True))
    assert len(alive) <= compiled


@torch._dynamo.config.patch(recompile_limit=64)
def test_simulated_calls_hold_no_native_code(alive: WeakSet[Executable]) -> None:
    fresh = nki.jit(add.func)
    simulated = nki.simulate(fresh)
    graph = compiled_graph(simulated)
    before = len(torch_simulated._kernels)
    for _ in range(2):
        for columns in COLUMNS:
            check_graph(graph, columns)
    assert len(torch_simulated._kernels) == before + len(COLUMNS)
    gc.collect()
    assert 0 < len(alive) <= MOST
    torch._dynamo.reset()
