"""Object code on disk: found again, refused in folders that others can write to, and recompiled when damaged."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from llvmlite import ir

from nki.base.warning import NkiWarning
from nki.numerics import llvm_jit, object_cache
from nki.numerics.llvm_jit import Engine, Passes

pytestmark = pytest.mark.skipif(os.name != "posix", reason="files have no owners: there is no cache of native code")

KERNEL = """
import sys, hashlib
import numpy as np
import nki, nki.isa as nisa, nki.language as nl
from nki.numerics import llvm_jit

@nki.jit
def kernel(a, b):
    out = nl.ndarray((64, 96), dtype=a.dtype, buffer=nl.shared_hbm)
    left, right = nl.load(a), nl.load(b)
    product = nl.ndarray((64, 96), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(product, left, right)
    tile = nl.ndarray((64, 96), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(tile, nl.gelu, product, scale=0.25)
    nisa.tensor_scalar(tile, tile, nl.multiply, 3.0, op1=nl.add, operand1=1.0)
    nl.store(out, tile)
    return out

compiled = []
original = llvm_jit.Engine._compiled
llvm_jit.Engine._compiled = lambda self, unit: compiled.append(1) or original(self, unit)
generator = np.random.default_rng(5)
a, b = (generator.standard_normal((32, n), dtype=np.float32) for n in (64, 96))
print(hashlib.sha256(kernel(a, b).tobytes()).hexdigest(), len(compiled))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the cache, which does not exist yet."""
    monkeypatch.setenv("OPEN_NKI_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("OPEN_NKI_CACHE_DISABLE")
    monkeypatch.setattr(object_cache, "_refused", set[str]())
    return tmp_path / "cache" / "native"


def doubled() -> ir.Module:
    """``int64 doubled(int64)``."""
    module = ir.Module("doubled")
    function = ir.Function(module, ir.FunctionType(ir.IntType(64), [ir.IntType(64)]), "doubled")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    builder.ret(builder.add(function.args[0], function.args[0]))
    return module


def load(module: ir.Module) -> llvm_jit.Code:
    """``module`` in memory, by an engine of its own."""
    return Engine().load_all([str(module)])[0]


def result(code: llvm_jit.Code) -> int:
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(code.addresses["doubled"])(21)


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The IR that is compiled from now on."""
    texts: list[str] = []
    compiled: Callable[[Engine, Any], Any] = Engine._compiled

    def note(self: Engine, unit: Any) -> Any:
        texts.append(unit.text)
        return compiled(self, unit)

    monkeypatch.setattr(Engine, "_compiled", note)
    return texts


def test_the_second_load_compiles_nothing(folder: Path, compilations: list[str]) -> None:
    assert result(load(doubled())) == 42
    assert len(list(folder.iterdir())) == 1
    assert result(load(doubled())) == 42
    assert len(compilations) == 1


def test_files_are_for_the_user_alone(folder: Path) -> None:
    before = os.umask(0)
    try:
        load(doubled())
    finally:
        os.umask(before)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [file.stat().st_mode & 0o777 for file in folder.iterdir()] == [0o600]


@pytest.mark.parametrize("variable", ["NKI_CACHE_NATIVE=0", "OPEN_NKI_CACHE_DISABLE=1"])
def test_it_can_be_switched_off(
    folder: Path, compilations: list[str], monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    load(doubled())
    monkeypatch.setenv(*variable.split("="))
    load(doubled())
    assert len(compilations) == 2
    object_cache.write("other", b"")
    assert len(list(folder.iterdir())) == 1


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777, 0o1777])
def test_a_folder_that_others_can_write_to_is_refused(folder: Path, compilations: list[str], mode: int) -> None:
    load(doubled())
    folder.chmod(mode)
    with pytest.warns(NkiWarning, match=r"can be written to by others.*NKI_CACHE_NATIVE=0"):
        assert result(load(doubled())) == 42
    assert len(compilations) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(doubled())  # one warning is enough


def test_a_folder_of_somebody_else_is_refused(
    folder: Path, compilations: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    load(doubled())
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.warns(NkiWarning, match="belongs to another user"):
        load(doubled())
    assert len(compilations) == 2


def test_a_link_is_refused(folder: Path, compilations: list[str]) -> None:
    elsewhere = folder.parent.parent / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    folder.parent.mkdir()
    folder.symlink_to(elsewhere)
    with pytest.warns(NkiWarning, match="is a link"):
        load(doubled())
    assert not list(elsewhere.iterdir())


def test_a_file_that_is_a_link_or_others_can_write_to_is_not_read(folder: Path, compilations: list[str]) -> None:
    load(doubled())
    (file,) = folder.iterdir()
    file.chmod(0o666)
    assert object_cache.read(file.name) is None
    moved = folder.parent / "moved"
    file.chmod(0o600)
    file.rename(moved)
    file.symlink_to(moved)
    assert object_cache.read(file.name) is None
    file.unlink()
    os.mkfifo(file)
    assert object_cache.read(file.name) is None  # and does not wait
    load(doubled())
    assert len(compilations) == 2


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "longer", "other name"])
def test_a_damaged_file_is_removed_and_compiled_again(folder: Path, compilations: list[str], damage: str) -> None:
    load(doubled())
    (file,) = folder.iterdir()
    data = file.read_bytes()
    if damage == "other name":  # the code of another module, complete and undamaged
        object_cache.write("0" * 40, b"other")
        data = (folder / ("0" * 40)).read_bytes()
    changes = {"cut": data[:-9], "flip": data[:200] + bytes([data[200] ^ 1]) + data[201:] if len(data) > 200 else data}
    file.write_bytes(changes.get(damage, {"empty": b"", "longer": data + b"x"}.get(damage, data)))
    assert object_cache.read(file.name) is None
    assert not file.exists()
    assert result(load(doubled())) == 42
    assert len(compilations) == 2
    assert result(load(doubled())) == 42
    assert len(compilations) == 2


def test_another_host_or_llvm_has_other_code(
    folder: Path, compilations: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    load(doubled())
    host = Engine().host
    assert "llvm-" in host
    for other in (host.replace("+", "-", 1), host.replace("llvm-", "llvm-9")):
        monkeypatch.setattr(Engine, "host", property(lambda _, other=other: other))
        load(doubled())
    assert len(compilations) == len(list(folder.iterdir())) == 3


def test_code_with_an_address_of_this_process_is_not_kept(folder: Path) -> None:
    module = doubled()
    function = ir.Function(module, ir.FunctionType(ir.IntType(64), []), "read")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    place = ctypes.c_int64(7)
    address = ir.Constant(ir.IntType(64), ctypes.addressof(place))
    builder.ret(builder.load(builder.inttoptr(address, ir.IntType(64).as_pointer())))
    assert not load(module).is_portable
    assert not folder.exists()


@pytest.mark.parametrize("on_disk", ["1", "0"])
def test_a_module_that_is_begun_ahead_is_compiled_once(
    folder: Path, compilations: list[str], monkeypatch: pytest.MonkeyPatch, on_disk: str
) -> None:
    monkeypatch.setenv("NKI_CACHE_NATIVE", on_disk)
    made: list[str] = []

    def make() -> str:
        made.append(str(doubled()))
        return made[-1]

    def call(compiler: Engine) -> int:
        address = compiler.fixed("doubled", make)["doubled"]
        return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)(21)

    first = Engine()
    for _ in range(2):
        with first.ahead([("doubled", make, Passes.full)]):
            assert call(first) == 42
    assert call(first) == 42
    assert len(made) == len(compilations) == 1
    with Engine().ahead([("doubled", make, Passes.full)]):  # nothing asks for it
        pass
    assert len(made) == len(compilations) == (1 if on_disk == "1" else 2)


def test_the_least_recently_used_goes_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_cache, "LIMIT", 3000)
    monkeypatch.setattr(object_cache, "_ROUND", 0)
    for number in range(5):
        object_cache.write(f"{number}", bytes(900))
        os.utime(folder / f"{number}", (number, number))
    assert object_cache.read("2") is not None  # used now
    object_cache.write("5", bytes(900))
    assert sorted(file.name for file in folder.iterdir()) == ["2", "4", "5"]


def test_clear_removes_all(folder: Path) -> None:
    object_cache.write("a", b"1")
    object_cache.write("b", b"2")
    assert len(object_cache.sizes()) == object_cache.clear() == 2
    assert not list(folder.iterdir())


def run(folder: Path, **variables: str) -> subprocess.Popen[str]:
    """A process that runs :data:`KERNEL`."""
    kernel = folder.parent.parent / "kernel.py"
    kernel.write_text(KERNEL, encoding="utf-8")
    environment = os.environ | variables
    return subprocess.Popen([sys.executable, str(kernel)], env=environment, stdout=subprocess.PIPE, text=True)


def answer(process: subprocess.Popen[str]) -> tuple[str, int]:
    """The digest of the result, and the number of modules that were compiled."""
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    digest, count = output.split()
    return digest, int(count)


def test_another_process_gets_the_same_bits_without_compiling(folder: Path) -> None:
    plain, count = answer(run(folder, NKI_CACHE_NATIVE="0"))
    assert count
    assert not folder.exists()
    assert answer(run(folder)) == (plain, count)
    assert answer(run(folder)) == (plain, 0)
    for file in folder.iterdir():
        if not file.suffix:  # the object code, but not the notes that tell where it is
            file.unlink()
    assert answer(run(folder)) == (plain, count)


def test_files_that_another_version_wrote_are_replaced(folder: Path) -> None:
    plain = answer(run(folder))
    for number, file in enumerate(sorted(folder.iterdir())):
        object_cache.write(file.name, [b"", b"\x93", b"\x90", b"\x01\x01"][number % 4])
    assert answer(run(folder)) == plain
    assert answer(run(folder)) == (plain[0], 0)


def test_two_processes_at_once(folder: Path) -> None:
    answers = [answer(process) for process in [run(folder), run(folder)]]
    assert answers[0][0] == answers[1][0]
    assert answer(run(folder)) == (answers[0][0], 0)
    assert not [file for file in folder.iterdir() if file.suffix == ".part"]
