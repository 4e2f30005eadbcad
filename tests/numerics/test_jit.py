"""The LLVM engine: addresses, isolation of modules, threads, vector width, and exact floating point."""

from __future__ import annotations

import _thread
import ctypes
import gc
import os
import threading
import weakref
from functools import partial
from typing import Any

import pytest
from llvmlite import ir
from llvmlite.binding import ffi

from nki.numerics.llvm_jit import Engine, Passes, engine
from tests.support.shared_launches import at_once

F32 = ir.FloatType()
I32 = ir.IntType(32)


def constant_module(value: int, name: str = "answer") -> ir.Module:
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(I32, []), name)
    ir.IRBuilder(function.append_basic_block()).ret(I32(value))
    return module


def constant_ir(value: int, name: str) -> str:
    return str(constant_module(value, name))


def call(address: int) -> int:
    return ctypes.CFUNCTYPE(ctypes.c_int)(address)()


def multiply_add_module(fused: bool) -> ir.Module:
    """``f(a, b, c)``: a * b + c in float32, in two roundings or in one."""
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(F32, [F32] * 3), "f")
    builder = ir.IRBuilder(function.append_basic_block())
    a, b, c = function.args
    builder.ret(builder.fma(a, b, c) if fused else builder.fadd(builder.fmul(a, b), c))
    return module


def sum_module() -> ir.Module:
    """``f(p, n)``: the sum of ``n`` > 0 floats at ``p``, from left to right."""
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(F32, [F32.as_pointer(), I32]), "f")
    pointer, count = function.args
    entry, body, done = (function.append_basic_block(name) for name in ("entry", "body", "done"))
    builder = ir.IRBuilder(entry)
    builder.branch(body)
    builder.position_at_end(body)
    index, total = builder.phi(I32), builder.phi(F32)
    following = builder.add(index, I32(1))
    added = builder.fadd(total, builder.load(builder.gep(pointer, [index])))
    index.add_incoming(I32(0), entry)
    index.add_incoming(following, body)
    total.add_incoming(F32(0.0), entry)
    total.add_incoming(added, body)
    builder.cbranch(builder.icmp_signed("<", following, count), body, done)
    builder.position_at_end(done)
    builder.ret(added)
    return module


def test_compile_returns_the_addresses_of_external_definitions_only() -> None:
    module = constant_module(41)
    hidden = ir.Function(module, ir.FunctionType(I32, []), "hidden")
    hidden.linkage = "internal"
    ir.IRBuilder(hidden.append_basic_block()).ret(I32(1))
    ir.Function(module, ir.FunctionType(I32, []), "abs")  # a declaration
    caller = ir.Function(module, ir.FunctionType(I32, []), "caller")
    builder = ir.IRBuilder(caller.append_basic_block())
    builder.ret(builder.add(builder.call(module.globals["answer"], []), builder.call(hidden, [])))
    addresses = engine().compile(module)
    assert set(addresses) == {"answer", "caller"}
    assert call(addresses["answer"]) == 41
    assert call(addresses["caller"]) == 42


def test_modules_that_use_the_same_name_do_not_meet() -> None:
    first = engine().compile(constant_module(1))["answer"]
    second = engine().compile(constant_module(2))["answer"]
    assert (call(first), call(second)) == (1, 2)


def test_a_malformed_module_is_refused_with_the_message_of_llvm() -> None:
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(I32, []), "f")
    ir.IRBuilder(function.append_basic_block()).ret(F32(0.0))
    with pytest.raises(RuntimeError, match="function result type"):
        engine().compile(module)


def test_threads_compile_at_the_same_time() -> None:
    results: dict[int, int] = {}

    def work(value: int) -> None:
        results[value] = call(engine().compile(constant_module(value))["answer"])

    at_once(work, threads=8)
    assert results == {value: value for value in range(8)}


@pytest.mark.parametrize("refused", ["refused", "lost"])
@pytest.mark.parametrize("given", [0, 1])
def test_a_system_that_gives_too_few_threads_still_compiles(
    given: int, refused: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, asked = _thread.start_new_thread, 0

    def three_cpus(_process: int) -> set[int]:
        return {0, 1, 2}

    def limited(*call: Any) -> int:
        nonlocal asked
        asked += 1
        if asked <= given:
            return start(*call)
        if refused == "lost":  # it has no memory for its first Python frame
            return 0
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_thread, "start_new_thread", limited)
    monkeypatch.setattr(os, "sched_getaffinity", three_cpus, raising=False)
    names = [f"{refused}{given}{value}" for value in range(4)]
    modules = [(name, partial(constant_ir, value, name), Passes.full) for value, name in enumerate(names)]
    with Engine().ahead(modules):
        codes = engine().load_all(make() for _, make, _ in modules)
    assert [call(next(iter(code.addresses.values()))) for code in codes] == [0, 1, 2, 3]
    assert asked == (given + 2 if refused == "refused" else 6), "each of the two asks once in vain"


def test_there_is_one_engine_per_process() -> None:
    assert engine() is engine()
    assert Engine().vector_width == engine().vector_width
    assert engine().vector_width in (4, 8, 16)
    assert "llvm-" in engine().host


def test_a_vector_of_the_stated_width_is_one_register() -> None:
    width = engine().vector_width
    module = ir.Module()
    vector = ir.VectorType(F32, width)
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [vector.as_pointer()]), "f")
    builder = ir.IRBuilder(function.append_basic_block())
    x = builder.load(function.args[0], align=4)
    builder.store(builder.fadd(x, x), function.args[0], align=4)
    builder.ret_void()
    text = engine().listing(module, assembly=True)
    assert sum(line.split()[0] in ("vaddps", "addps", "fadd") for line in text.splitlines() if line.split()) == 1


@pytest.mark.parametrize("fused", [False, True])
def test_only_an_explicit_fma_fuses(fused: bool) -> None:
    # (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24; rounding the product drops the last term.
    a, c = 1.0 + 2.0**-12, -(1.0 + 2.0**-11)
    function = ctypes.CFUNCTYPE(*[ctypes.c_float] * 4)(engine().compile(multiply_add_module(fused))["f"])
    assert function(a, a, c) == (2.0**-24 if fused else 0.0)


def test_additions_keep_their_order() -> None:
    values = [2.0**24, *[1.0] * 63]  # each 1 is lost when it is added alone
    array = (ctypes.c_float * 64)(*values)
    address = engine().compile(sum_module())["f"]
    function = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_void_p, ctypes.c_int)(address)
    assert function(ctypes.addressof(array), 64) == 2.0**24


def test_optimised_ir_folds_constants() -> None:
    module = constant_module(7, "seven")
    added = ir.Function(module, ir.FunctionType(I32, []), "added")
    builder = ir.IRBuilder(added.append_basic_block())
    builder.ret(builder.add(ir.Constant(I32, 3), ir.Constant(I32, 4)))
    assert engine().listing(module, assembly=False).count("ret i32 7") == 2


def test_a_host_without_f16c_has_no_half(monkeypatch: pytest.MonkeyPatch) -> None:
    from llvmlite import binding

    features = dict(binding.get_host_cpu_features())
    monkeypatch.setattr(binding, "get_host_cpu_features", lambda: {**features, "f16c": False})
    monkeypatch.setattr(binding, "get_process_triple", lambda: "x86_64-unknown-linux-gnu")
    assert not Engine().has_half
    monkeypatch.setattr(binding, "get_host_cpu_features", lambda: {**features, "f16c": True})
    assert Engine().has_half


def test_ir_of_a_compiled_module_does_not_wait_for_the_garbage_collector() -> None:
    module = sum_module()
    function: Any = module.globals["f"]
    total = weakref.ref(function.blocks[1].instructions[1])  # depends on itself
    del function
    gc.disable()
    try:
        engine().compile(module)
        assert total() is None
    finally:
        gc.enable()


def test_a_handler_of_a_signal_within_llvmlite_compiles() -> None:
    """It holds llvmlite's lock, for which threads that compile would wait."""
    codes: list[Any] = []

    def handle() -> None:
        with ffi.lib._lock:
            codes.extend(engine().load_all([constant_ir(number, f"inside_{number}") for number in (41, 42)]))

    thread = threading.Thread(target=handle, daemon=True)
    thread.start()
    thread.join(60)
    assert [call(code.addresses[f"inside_{number}"]) for number, code in zip((41, 42), codes, strict=True)] == [41, 42]
