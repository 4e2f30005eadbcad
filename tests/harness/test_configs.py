"""``compile_config`` and ``specialization_config`` of ``nki.jit``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nki
import nki.language as nl
from nki.base.errors import KernelArgumentError
from nki.compilation.launch_errors import NestedConfigError
from nki.compiler import AddressRotation, CompileConfig, SpecializationConfig
from tests.harness import kernels

LEGAL = CompileConfig(non_ssa_legalization=True)
OVERRIDE = SpecializationConfig(allow_nested_config_override=True)


def nested(inner: Any, **configs: Any) -> Any:
    def outer(a, b):
        result = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(result, nl.load(inner(a, b)))
        return result

    return nki.jit(outer, **configs)


def test_a_configuration_changes_no_result(arrays: Any, make: Any) -> None:
    @nki.jit(compile_config=CompileConfig(dead_code_elim=True, barrier_check=True), specialization_config=OVERRIDE)
    def kernel(a, b):
        return kernels.add(a, b)

    a, b = map(make, arrays)
    assert np.array_equal(np.asarray(kernel(a, b)), arrays[0] + arrays[1])
    assert issubclass(AddressRotation, object) and CompileConfig().nki_alloc_fallback


@pytest.mark.parametrize("option", ["compile_config", "specialization_config"])
def test_other_objects_are_refused(option: str) -> None:
    with pytest.raises(KernelArgumentError, match=rf"nki.jit\({option}={{}}\)"):
        nki.jit(kernels.add, **{option: {}})


@pytest.mark.parametrize("outer", [{}, {"compile_config": CompileConfig(dead_code_elim=True)}])
@pytest.mark.parametrize("executor", ["native", "simulate"])
def test_nested_kernels_that_disagree(arrays: Any, outer: dict[str, Any], executor: str) -> None:
    inner = nki.jit(kernels.add, compile_config=LEGAL)
    run = (lambda kernel: kernel) if executor == "native" else nki.simulate
    with pytest.raises(NestedConfigError, match="'add', which becomes a part of its caller"):
        run(nested(inner, **outer))(*arrays)
    with pytest.warns(nki.NkiPortabilityWarning, match="which holds for both"):
        result = run(nested(inner, **outer, specialization_config=OVERRIDE))(*arrays)
    assert np.array_equal(result, arrays[0] + arrays[1])


@pytest.mark.parametrize(
    ("inner", "outer"),
    [({}, {"compile_config": LEGAL}), ({"compile_config": LEGAL},) * 2, ({"compile_config": CompileConfig()}, {})],
)
def test_nested_kernels_that_agree(arrays: Any, inner: dict[str, Any], outer: dict[str, Any]) -> None:
    kernel = nested(nki.jit(kernels.add, **inner), **outer)
    assert np.array_equal(kernel(*arrays), arrays[0] + arrays[1])
