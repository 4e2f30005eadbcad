"""Modules inside the vendor's compiler: a target's name is one here too, the others say what to use instead."""

from __future__ import annotations

import importlib

import pytest

from nki.base.errors import UnknownTargetError
from nki.compilation.launch_errors import VendorModuleError
from nki.compiler.target import resolve_target, target_to_nc_version
from tests.support.fresh_process import finished

ABSENT = (
    "nki._internal", "nki.compiler._internal", "nki.compiler._internal.dialects", "nki.compiler.kernel_builder",
    "nki.compiler.kernel_builder.isa", "neuronxcc.nki.kernels", "neuronxcc.nki.kernels.attention",
    "neuronxcc.nki._private_kernels.mlp", "neuronxcc.nki._pre_prod_kernels", "neuronxcc.nki._private.private_api",
)  # fmt: skip


@pytest.mark.parametrize(
    ("environment", "name", "generation"),
    [("trn2", "trn2", 3), ("inf2", "trn1", 2), ("gen4", "trn3", 4), ("", "trn3", 4)],
)
def test_targets_have_names(environment: str, name: str, generation: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", environment)
    assert (resolve_target(), target_to_nc_version(resolve_target())) == (name, generation)
    assert resolve_target("TRN2") == "trn2"


def test_an_unknown_target() -> None:
    for function in (resolve_target, target_to_nc_version):
        with pytest.raises(UnknownTargetError, match="trn9"):
            function("trn9")


@pytest.mark.parametrize("module", ABSENT)
def test_what_has_no_counterpart_says_so(module: str) -> None:
    for _ in range(2):
        with pytest.raises(VendorModuleError, match="Open NKI has none") as caught:
            importlib.import_module(module)
        assert isinstance(caught.value, ImportError)
        assert caught.value.fix


def test_programs_that_can_do_without_go_on() -> None:
    program = "try:\n    import nki.compiler.kernel_builder\nexcept ImportError:\n    print('without')\nimport nki"
    assert finished(program).stdout == "without\n"
