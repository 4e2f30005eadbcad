"""Random programs of several ranks give the bits of the oracles, or the error that they should; none waits for ever.

All are simulated, and a quarter is compiled too. 80 of them by default; NKI_TEST_EXAMPLES=500 tries 10,000, and
NKI_TEST_SEED=… other ones.
"""

from __future__ import annotations

import faulthandler
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nki
from nki.base.errors import NkiError
from tests.support.instruction_bench import SEED, source
from tests.support.time_limit import EndlessError, limited
from tests.support.written_module import written

from .branching import branched
from .program_text import arguments_of, given, text_of
from .programs import MismatchError, Program, WaitsForeverError, expected
from .random_programs import drawn

PARTS = 10
COUNT = 20 * int(os.environ.get("NKI_TEST_EXAMPLES", "4"))
SECONDS = 60
"""For one program, far more than any needs; a wait in native code ends the process a little later."""
REFUSED = ("NKI-KN012", "NKI-CC002")
"""The codes of ranks that wait for each other, and of calls that do not belong together."""

pytestmark = pytest.mark.filterwarnings("ignore")


def numbered(number: int) -> Program:
    """Every second program has branches."""
    return (branched if number % 2 else drawn)(source("collectives", number))


def compiled(kernel: Any, program: Program) -> list[Any]:
    with nki.ranks(program.ranks):
        launched = nki.jit(kernel)[2] if program.cores == 2 else nki.jit(kernel)
        return launched(*arguments_of(program))


def simulated(kernel: Any, program: Program) -> list[Any]:
    launched = nki.jit(kernel)[2] if program.cores == 2 else kernel
    return nki.simulate(launched, ranks=program.ranks)(*arguments_of(program))


def run(program: Program, file: Path, mode: Callable[[Any, Program], list[Any]]) -> list[Any] | str:
    """The results of every rank, or the code of the error; a sentence for what is neither."""
    module = written(text_of(program), file)
    faulthandler.dump_traceback_later(2 * SECONDS, exit=True)
    try:
        with limited(SECONDS):
            return mode(module.kernel, program)
    except NkiError as error:
        return error.code if error.code in REFUSED else f"refuses the program: {error}"
    except EndlessError:
        return f"runs longer than {SECONDS} s"
    except Exception as error:  # whatever it is, it should have been an NkiError
        return f"raises {type(error).__name__}: {error}"
    finally:
        faulthandler.cancel_dump_traceback_later()
        del sys.modules[module.__name__]


def complaint(program: Program, file: Path, mode: Callable[[Any, Program], list[Any]]) -> str:
    """What is wrong with a run of the program; empty if nothing is."""
    got = run(program, file, mode)
    try:
        memories = expected(program)
    except (MismatchError, WaitsForeverError) as error:
        return "" if got in REFUSED else f"{got if isinstance(got, str) else 'runs to its end'}, against {error!r}"
    if isinstance(got, str):
        return f"{got}, and the program is right"
    contents = {key: [memory[key] for memory in memories] for key in program.contents}
    for rank, results in enumerate(got):
        for tensor, result in zip(program.tensors, results, strict=True):
            want = given(program, tensor, rank, contents)
            if not np.array_equal(np.asarray(result).view(np.uint8), np.ascontiguousarray(want).view(np.uint8)):
                return f"tensor {tensor.name} of rank {rank} is\n{result}\nand should be\n{want}"
    return ""


@pytest.mark.parametrize("part", range(PARTS))
def test_random_programs(part: int, tmp_path: Path) -> None:
    for number in range(part, COUNT, PARTS):
        program = numbered(number)
        for mode in (simulated, compiled) if number % 8 < 2 else (simulated,):
            told = complaint(program, tmp_path / f"program{number}_{mode.__name__}.py", mode)
            what = f"program {number} of seed {SEED}, {mode.__name__}, made by: {program.made or 'nothing'}"
            assert not told, f"{what}\n{told}\n\n{text_of(program)}"
