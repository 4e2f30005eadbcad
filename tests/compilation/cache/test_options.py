"""All that changes a program is in the key of the kernel, in memory and on disk; a new option has to say so here."""

from __future__ import annotations

import ast
import inspect
import os
from dataclasses import fields
from enum import Enum
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki import compiler
from nki.base import knobs
from nki.compilation import jit_options, pipeline, vendor_options
from nki.compilation.cache.fingerprint import fingerprint
from nki.frameworks.numpy import ADAPTER
from nki.jit import Kernel
from tests.support.kernel_parts import applied, returned

X = np.ones((128, 64), np.float32)
pytestmark = pytest.mark.filterwarnings(
    "ignore::nki.base.warning.NkiDeprecationWarning", "ignore::nki.base.warning.NkiSpillWarning"
)

JIT_OPTIONS: dict[str, tuple[Any, Any]] = {
    "compile_config": (None, compiler.CompileConfig()),
    "specialization_config": (None, compiler.SpecializationConfig()),
    "nki_version": ("0.6", "0.7"),
    "platform_target": ("trn2", "trn3"),
}
"""Two values of each option of ``nki.jit`` that changes the program of some kernel."""
NO_JIT_OPTIONS = {
    "check": "the first launch runs the same program twice",
    **dict.fromkeys(("mode", "debug_kernel", "show_compiler_tb", "experimental_flags"), "no effect"),
}
VARIABLES: dict[str, tuple[str, str]] = {
    "target": ("trn2", "trn3"),
    "version": ("0.6", "0.7"),
    "frontend": ("parser", "tracer"),
    "logical_cores": ("1", "2"),
    "hazards": ("0", "1"),
    "precise_fp": ("0", "1"),
}
"""Two values of each variable that changes the program of some kernel, by its function in ``knobs``."""
AFTER_THE_ENTRY = {"precise_fp": "rewrites what an entry holds"}
NO_VARIABLES = {
    "simulator": "another executor, which keeps nothing",
    "compiler_flags": "chooses the dialect of a function of Beta 1 as it is decorated; the dialect is in the key",
    "first_call": "who runs a program first, with the same bits",
    "reorder": "decides stages behind those of native code",
    "check": "the first launch runs the same program twice",
    "check_stages": "checks",
    **dict.fromkeys(("debug", "framework_debug", "draws_progress", "debug_output_folder"), "what is shown"),
    **dict.fromkeys(("threads", "openmp_threads"), "the threads of a launch"),
    "facts": "numbers of profiles; programs are compiled with the target's own",
    "rank_timeout": "how long ranks in processes wait for each other",
    **dict.fromkeys(("cache_folder", "cache_disabled", "cache_native"), "the place of the cache"),
}


def scaled(x):
    return returned(applied(nl.load(x), nl.multiply, 2.0))


def on_disk(kernel: Kernel) -> str:
    named = kernel.fingerprint(kernel.specs(kernel.bind((X,), {}), ADAPTER))
    assert named is not None
    return named.digest


def differ(first: Kernel, second: Kernel) -> bool:
    return on_disk(first) != on_disk(second)


@pytest.mark.parametrize("option", sorted(jit_options._ACCEPTED))
def test_options_of_jit(option: str) -> None:
    if option not in NO_JIT_OPTIONS:
        first, second = ({} if value is None else {option: value} for value in JIT_OPTIONS[option])
        assert differ(nki.jit(scaled, **first), nki.jit(scaled, **second))


@pytest.mark.parametrize("cls", [compiler.CompileConfig, compiler.SpecializationConfig])
def test_fields_of_configurations(cls: Any) -> None:
    option = {compiler.CompileConfig: "compile_config", compiler.SpecializationConfig: "specialization_config"}[cls]
    kinds = get_type_hints(cls)
    for field in fields(cls):
        kind = kinds[field.name]
        if kind is bool or kind == bool | None:
            values: list[Any] = [True, False]
        else:
            assert kind == vendor_options.AddressRotation | None, f"a new kind of field: {field.name}"
            values = [None, Enum("AddressRotation", ["ONE"]).ONE]
        first, second = (nki.jit(scaled, **{option: cls(**{field.name: value})}) for value in values)
        assert differ(first, second), field.name


def test_parameters_of_a_kernel_and_of_the_compiler() -> None:
    """What a kernel has beside its function, and what the compiler takes, each with its part of the key."""
    assert set(inspect.signature(Kernel).parameters) == {"func", "grid", "target", "schedule", "check", "configs"}
    taken = set(inspect.signature(pipeline.compile).parameters)
    assert taken - {"start", "stop", "stages", "observe"} == {"fn", "arguments", "target", "grid", "edges", "configs"}
    assert set(inspect.signature(fingerprint).parameters) == {"fn", "arguments", "target", "grid", "edges", "configs"}
    kernel = nki.jit(scaled)
    others = [
        kernel[2],
        kernel.with_schedule([("one", "other")]),
        nki.jit(scaled, platform_target="trn2"),
        nki.jit(scaled, compile_config=compiler.CompileConfig()),
        nki.jit(scaled, nki_version="0.5"),
    ]
    assert len({on_disk(each) for each in (kernel, *others)}) == 6


def variable(knob: str) -> str:
    """The environment variable that the function ``knob`` reads."""
    tree = ast.parse(inspect.getsource(getattr(knobs, knob)))
    names = {
        node.value.decode() if isinstance(node.value, bytes) else node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    }
    (name,) = [name for name in names if name.isupper() and "_" in name]
    return name


KNOBS = [
    name
    for name, each in vars(knobs).items()
    if inspect.isfunction(each)
    and each.__module__ == knobs.__name__
    and not name.startswith("_")
    and name != "of_compilation"
]


@pytest.mark.parametrize("knob", KNOBS)
def test_variables(knob: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if knob in NO_VARIABLES:
        return
    disk: list[str] = []
    compilations = 0
    first = VARIABLES[knob][0]
    kernel = nki.jit(scaled)
    for value in (*VARIABLES[knob], first):
        monkeypatch.setenv(variable(knob), value)
        disk.append(on_disk(kernel))
        before = kernel.kept((X,), [(X.shape, X.dtype)])
        executable = kernel.specialise((X,), {}, ADAPTER)[0]
        compilations += executable is not before
    assert compilations in (2, 3), "in memory: the third call may find what the first one left"
    assert (disk[0] != disk[1]) is (knob not in AFTER_THE_ENTRY)


def test_a_kernel_that_is_inlined_brings_its_configuration() -> None:
    def outer(inner: Any) -> Any:
        @nki.jit
        def kernel(x):
            return inner(x)

        return kernel

    plain, configured = nki.jit(scaled), nki.jit(scaled, compile_config=compiler.CompileConfig(barrier_check=True))
    assert differ(outer(plain), outer(configured))


def scaled_by_all(b):
    """Twelve sums, each multiplied by a number that depends on all of them: none can end before the last begins."""
    out = nl.ndarray((12, 128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    right = nl.ndarray((128, 512), dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=right, src=b)
    sums = [nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum) for _ in range(12)]
    total = nl.zeros((128, 512), nl.float32)
    for i in range(12):
        nisa.nc_matmul(dst=sums[i], stationary=right[:, 0:128], moving=right)
        nisa.tensor_tensor(total, total, sums[i], nl.add)
    for i in range(12):
        done = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(done, sums[i], total, nl.multiply)
        nisa.dma_copy(dst=out[i], src=done)
    return out


def test_a_kernel_that_may_spill_is_another_one(own_cache: Path) -> None:
    b = np.ones((128, 512), np.float32)
    for _ in range(2):
        nki.jit(scaled_by_all)(b)
        with pytest.raises(nki.NkiError, match="12 banks"):
            nki.jit(scaled_by_all, compile_config=compiler.CompileConfig(nki_alloc_fallback=False))(b)
    assert os.listdir(own_cache / "kernels")
