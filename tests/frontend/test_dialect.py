"""A second language is a package and one value: names, syntax, tensors and results of its own, on the same frontend."""

import types
from collections.abc import Callable

import numpy as np
import pytest

import nki
from nki import target
from nki.base.element_types import float32
from nki.base.errors import NkiError
from nki.base.source import is_toolchain
from nki.frontend.capture import capture
from nki.frontend.dialect import default_dialect
from nki.frontend.frontend_errors import RemovedApiError, SyntaxNotInNkiError, TryError
from nki.frontend.specialise import specialise
from nki.frontend.syntax_rules import check
from nki.ir.types import TensorSpec
from tests.frontend import toy

Load = Callable[[str], types.ModuleType]
KERNEL = """
from tests.frontend import toy

def twice(sheet):
    return toy.add(sheet, sheet)

def kernel(paper):
    answer = toy.answer(paper)
    work = toy.sheet(paper)
    toy.copy(paper, work)
    try:
        assert paper.rows == 4
    finally:
        work = twice(work)
    toy.copy(work, answer)
    return answer
"""


def test_a_kernel_of_another_language_is_recorded_at_its_own_lines(load: Load) -> None:
    module = load(KERNEL)
    captured = check(capture(module.kernel, toy.TOY))
    chip = target.find("trn2")
    program = specialise(captured, {"paper": TensorSpec("paper", (4, 6), float32)}, chip)
    copied, added, _ = program.instructions()
    spans = [copied.where.span, added.where.span]
    assert [(span.line, span.function) for span in spans if span is not None] == [(10, "kernel"), (5, "twice")]


def test_its_jit_makes_kernels_to_call(load: Load) -> None:
    paper = np.arange(24, dtype=np.float32).reshape(4, 6)
    kernel = toy.jit(load(KERNEL).kernel)
    assert np.array_equal(kernel(paper), 2 * paper)
    assert np.array_equal(nki.simulate(kernel)(paper), 2 * paper)


@pytest.mark.usefixtures("nki_0_6")
def test_the_present_language_refuses_what_the_other_accepts(load: Load) -> None:
    module = load(KERNEL)
    assert capture(module.kernel).dialect is default_dialect() is not toy.TOY
    with pytest.raises(TryError):
        check(capture(module.kernel))


@pytest.mark.parametrize(
    ("line", "error", "text"),
    [
        ("if paper: pass", SyntaxNotInNkiError, "toys have no `if`"),
        ("toy.subtract(paper, paper)", RemovedApiError, "add the negative"),
    ],
)
def test_syntax_rules_and_removed_names_are_its_own(load: Load, line: str, error: type[NkiError], text: str) -> None:
    module = load(f"from tests.frontend import toy\ndef kernel(paper):\n    {line}\n")
    with pytest.raises(error, match=text) as raised:
        check(capture(module.kernel, toy.TOY))
    assert raised.value.span is not None and raised.value.span.line == 3


def test_its_package_is_the_toolchains(load: Load) -> None:
    assert is_toolchain(toy) and is_toolchain(toy.add) and is_toolchain(toy.add.__code__)
    assert not is_toolchain(load(KERNEL).kernel) and not is_toolchain(test_its_package_is_the_toolchains.__code__)
