"""The owner of loaded code: nothing of it hangs on an object that the collector can take, and it is freed in order."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from llvmlite import ir
from llvmlite.binding import ffi

from nki.numerics import llvm_library
from nki.numerics.llvm_jit import Code, engine

I32 = ir.IntType(32)


@pytest.fixture(autouse=True)
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def module(value: Any = 1) -> str:
    made = ir.Module()
    function = ir.Function(made, ir.FunctionType(I32, []), "f")
    ir.IRBuilder(function.append_basic_block()).ret(value if isinstance(value, ir.Constant) else I32(value))
    return str(made)


def loaded(value: int) -> Code:
    return engine().load_all([module(value)])[0]


def call(code: Code) -> int:
    return ctypes.CFUNCTYPE(ctypes.c_int)(code.addresses["f"])()


def open_objects() -> list[Any]:
    """The objects of llvmlite with finalizers that free memory, but for the owner's."""
    owned = {id(each) for _, own in llvm_library._loaded.values() for each in own}
    return [
        each
        for each in gc.get_objects()
        if issubclass(type(each), ffi.ObjectRef)  # isinstance asks PyTorch's proxies, which warn
        and not (each._closed or each._owned or id(each) in owned)
        and type(each)._dispose is not ffi.ObjectRef._dispose
    ]


def test_code_holds_no_object_of_llvmlite() -> None:
    code = loaded(3)
    assert call(code) == 3
    assert open_objects() == []


def test_an_error_of_llvm_leaves_no_object() -> None:
    with pytest.raises(RuntimeError, match="function result type"):
        engine().load_all([module(ir.FloatType()(0.0))])
    assert open_objects() == []


def test_the_collector_does_not_know_the_token() -> None:
    assert not gc.is_tracked(loaded(4).token)


def test_code_is_freed_when_other_code_is_loaded() -> None:
    first, other = loaded(5), loaded(6)
    count = len(llvm_library._loaded)
    del first
    assert len(llvm_library._loaded) == count
    assert [call(loaded(value)) for value in (7, 8, 9)] == [7, 8, 9]
    assert call(other) == 6
    assert len(llvm_library._loaded) == count


def test_code_stays_as_long_as_a_finalizer_of_its_cycle_can_call_it() -> None:
    results: list[int] = []

    class Caller:
        def __init__(self, code: Code) -> None:
            self.code, self.me = code, self

        def __del__(self) -> None:
            results.append(call(loaded(11)))  # which frees what it may
            results.append(call(self.code))

    for value in range(20):
        Caller(loaded(value))
    gc.collect()
    assert sorted(results) == sorted([*range(20), *[11] * 20])


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="no /proc")
def test_compilations_leave_no_memory_behind() -> None:
    def resident() -> int:
        lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("Rss:"))

    texts = [module(value) for value in range(400)]
    for text in texts[:100]:
        engine().load_all([text])
    before = resident()
    for text in texts[100:]:
        engine().load_all([text])
    assert resident() - before < 300 * 8  # kilobytes, of the 48 that llvmlite forgets for each


def test_what_a_signal_interrupts_is_not_freed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupting:
        closed = 0

        def close(self) -> None:
            Interrupting.closed += 1
            raise KeyboardInterrupt

    code = loaded(12)
    llvm_library.dispose()
    ((reference, own),) = [entry for entry in llvm_library._loaded.values() if entry[0]() is code.token]
    own.append(Interrupting())
    del code
    with llvm_library.lock, pytest.raises(KeyboardInterrupt):
        llvm_library.dispose()
    with llvm_library.lock:
        llvm_library.dispose()
    assert Interrupting.closed == 1
    own.pop()
    llvm_library._released.append(reference)
    assert call(loaded(13)) == 13
    assert id(reference) not in llvm_library._loaded


def test_a_load_that_a_signal_ends_at_once_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> Any:
        raise KeyboardInterrupt

    count = len(llvm_library._loaded)
    with monkeypatch.context() as patch:
        patch.setattr(llvm_library.binding, "create_mcjit_compiler", interrupt)
        with pytest.raises(KeyboardInterrupt):
            loaded(14)
    gc.collect()
    assert call(loaded(15)) == 15
    assert len(llvm_library._loaded) <= count + 1
