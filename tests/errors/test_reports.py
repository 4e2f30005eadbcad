"""What a user reads after a mistake: the whole text, at the user's line, natively and in the eager simulator alike.

NKI_TEST_REWRITE=1 writes the present reports into the cases, for their author to read.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.errors import NkiError
from nki.language.nki_dialects import NKI
from nki.target import ENVIRONMENT

pytestmark = pytest.mark.filterwarnings("ignore::nki.base.warning.NkiDeprecationWarning")

CASES = sorted((Path(__file__).parent / "cases").glob("*.txt"))
MARK = "-----\n"


def zeros(*shape: int, dtype: Any = np.float32) -> Any:
    return np.zeros(shape, dtype)


def loaded(text: str, file: Path) -> Any:
    """The module of a case: Python text that makes kernels and ends with ``call = lambda: …``."""
    file.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("kernel_with_a_mistake", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    vars(module).update(np=np, nki=nki, nl=nl, nisa=nisa, zeros=zeros)
    spec.loader.exec_module(module)
    return module


def report(text: str, file: Path) -> str:
    """The text of the NkiError that a case raises."""
    with pytest.raises(NkiError) as caught:
        loaded(text, file).call()
    shown = re.sub(r"\n  \(open-nki .*\)$", "", str(caught.value))
    return re.sub(r" at 0x[0-9a-f]+", " at 0x…", shown.replace(str(file), "kernel.py"))


# Python calls a tensor's method there by itself, and each version says otherwise which part of the line that was; the
# cases show 3.11's.
CARETS_OF_THE_INTERPRETER = {"loop_condition_of_two", "register_in_if", "tensor_as_condition", "tensor_iterated"}


# What only the native path can meet: frameworks that trace a kernel.
NATIVE = {"jax_no_derivative", "torch_batched", "torch_no_derivative"}
# What only the simulator can meet: it sees the data, by which a result depends on a part of its operands or does not.
EAGER = {
    "hazard_compared_with_what_is_not_there",
    "hazard_cores_write_one_place",
    "hazard_gather_beyond_the_tile",
    "hazard_sum_on_another_engines_numbers",
}
# The compiler refuses all addresses that collide, with NKI-BU005.
EAGER |= {"hazard_clobbered_tile", "hazard_tile_overwritten_by_its_reader"}
# Native code keeps its threads from launch to launch, so this launch may need no new one.
EAGER |= {"no_thread_for_a_core"}
# The first Python that can read the program of a case.
SINCE = {"generic_function": (3, 12)}


def refused_until_0_6(report: str) -> bool:
    """True for a report on Python that NKI 0.7 runs."""
    return any(f"[{kind.code}]" in report for kind in NKI.python.accepted)


@pytest.mark.parametrize(
    ("case", "simulator"),
    [
        pytest.param(case, mode, id=f"{case.stem}-{name}")
        for case in CASES
        for mode, name in (("0", "native"), ("1", "eager"))
        if case.stem not in (NATIVE if mode == "1" else EAGER)
    ],
)
def test_the_report_is_exactly(case: Path, simulator: str, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NKI_SIMULATOR", simulator)
    for name in (ENVIRONMENT, "NKI_PRECISE_FP", "NEURON_LOGICAL_NC_CONFIG"):
        monkeypatch.setenv(name, "")  # some cases set it
    text, mark, expected = case.read_text(encoding="utf-8").partition(MARK)
    assert mark
    monkeypatch.setenv("NKI_VERSION", "0.6" if refused_until_0_6(expected) else "")
    if sys.version_info < SINCE.get(case.stem, (3,)):
        with pytest.raises(SyntaxError):
            compile(text, str(case), "exec")
        return
    found = report(text, file)
    if os.environ.get("NKI_TEST_REWRITE") and simulator == ("1" if case.stem in EAGER else "0"):
        case.write_text(f"{text}{MARK}{found}\n", encoding="utf-8")
        return
    if case.stem in CARETS_OF_THE_INTERPRETER and sys.version_info >= (3, 12):
        found, expected = (re.sub(r"\n +\| +\^+", "", shown) for shown in (found, expected))
    assert found == expected.rstrip("\n"), (
        f"if it is right: NKI_TEST_REWRITE=1 pytest tests/errors/test_reports.py -k {case.stem}, then `make docs`"
    )


def test_the_cases_cover_what_users_get_wrong() -> None:
    assert len(CASES) >= 50
