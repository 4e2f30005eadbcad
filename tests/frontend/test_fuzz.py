"""Whatever stands in a kernel, it compiles or is refused at the user's line: valid kernels, changed at random.

500 changes by default; NKI_TEST_EXAMPLES=500 tries 10,000, and NKI_TEST_SEED=… other ones.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

import nki.language as nl
from nki.base.errors import KernelArgumentError, NkiError
from nki.compilation import pipeline
from nki.frontend.frontend_errors import KernelErrors
from nki.ir.types import TensorSpec
from nki.target import find
from tests.support.instruction_bench import SEED, source
from tests.support.time_limit import EndlessError, limited

from . import valid
from .mutation import functions, mutated

PARTS = 10
MUTANTS = 20 * int(os.environ.get("NKI_TEST_EXAMPLES", "25"))
TREE = ast.parse(Path(valid.__file__).read_text(encoding="utf-8"))
KERNELS = list(functions(TREE, [kernel.func.__name__ for kernel in valid.KERNELS]))
HELPERS = list(functions(TREE, ["finished", "doubled"]))


def mutant(number: int) -> tuple[str, str] | None:
    """The text of a changed module and the name of its kernel; None where Python itself would refuse the text."""
    draw = source("mutant", number)
    body = list(TREE.body)
    at, kernel = draw.choice(KERNELS)
    where, what = draw.choice(HELPERS) if draw.random() < 0.1 else (at, kernel)
    body[where] = mutated(what, draw)
    try:
        text = ast.unparse(ast.fix_missing_locations(ast.Module(body, [])))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, "mutant", "exec")
    except (SyntaxError, ValueError):  # what cannot even be written down
        return None
    return text, kernel.name


def outcome(text: str, name: str, file: Path) -> str:
    """What becomes of the kernel ``name`` of ``text``: "compiled", "endless", an error's code, or a complaint."""
    file.write_text(text, encoding="utf-8")
    module_name = f"mutant_{file.stem}"
    spec = importlib.util.spec_from_file_location(module_name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
        function = getattr(module, name).func
        arguments = {n: TensorSpec(n, (8, 16), nl.float32) for n in inspect.signature(function).parameters}
        with limited(2):
            pipeline.compile(function, arguments, find("trn2"))
    except NkiError as error:
        return "; ".join(complaints(error, file)) or error.code
    except EndlessError:
        return "endless"
    except Exception as error:  # whatever it is, it should have been an NkiError
        return f"raises {type(error).__name__}: {error}"
    finally:
        del sys.modules[module_name]
    return "compiled"


def complaints(error: NkiError, file: Path) -> Iterator[str]:
    """What is wrong with a report on the kernel in ``file``."""
    if isinstance(error, KernelErrors):
        if len(error.errors) < 2:
            yield f"reports {len(error.errors)} errors together"
        for one in error.errors:
            yield from complaints(one, file)
        return
    lines = file.read_text(encoding="utf-8").splitlines()
    if not error.message or "\n  (open-nki" not in str(error):
        yield f"says nothing: {error}"
    if error.span is None:
        if not isinstance(error, KernelArgumentError):
            yield f"has no place: {error}"
    elif error.span.file != str(file) or not 1 <= error.span.line <= len(lines):
        yield f"points at {error.span}: {error}"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(PARTS))
def test_mutants_compile_or_are_refused_at_a_line_of_theirs(
    part: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found: dict[str, int] = {}
    for number in range(part, MUTANTS, PARTS):
        made = mutant(number)
        if made is None:
            continue
        text, name = made
        told = outcome(text, name, tmp_path / f"m{number}.py")
        capsys.readouterr()
        assert " " not in told, f"mutant {number} of seed {SEED}, kernel {name}: {told}\n\n{text}"
        found[told] = found.get(told, 0) + 1
    # A quarter compiles. Fewer than a tenth: the compiler refuses what it should not, or the mutants are noise.
    assert found.get("compiled", 0) > sum(found.values()) / 10
    assert len(found) >= 6
    assert found.get("endless", 0) <= sum(found.values()) / 20
