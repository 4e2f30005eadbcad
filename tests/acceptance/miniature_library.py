"""A library in the layout of nki-library, with all that the acceptance run asks of it and no more."""

from __future__ import annotations

from pathlib import Path

FILES = {
    "test/pytest.ini": "[pytest]\nmarkers =\n    fast: quick\n",
    "test/conftest.py": """
import pytest
from test.utils.test_orchestrator import Orchestrator

def pytest_addoption(parser):
    parser.addoption("--platform-target", default="trn2")

@pytest.fixture
def manager():
    return Orchestrator()
""",
    "test/utils/host_management.py": "class HostManager:\n    pass\n",
    "test/utils/test_orchestrator.py": """
class Orchestrator:
    def execute(self, kernel_under_test):
        raise RuntimeError("there is no device")
""",
    "test/integration/nkilib/utils/comparators.py": """
import numpy as np

def maxAllClose(a, b, rtol, atol, verbose=0):
    return a.shape == b.shape and np.allclose(a, b, rtol, atol)
""",
    "src/nkilib_src/nkilib/kernels.py": '''
import nki
import nki.isa as nisa
import nki.language as nl

@nki.jit
def double(x):
    """Twice x."""
    assert x.shape[0] <= 128, "[NCC_INKI016] Kernel validation exception: too many rows"
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype)
    nisa.dma_copy(tile, x)
    nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
    nisa.dma_copy(out, tile)
    return out

@nki.jit
def hungry(x):
    """Twice x, by tiles that are all in use at once and do not fit."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tiles = []
    for _ in range(4):
        tile = nl.ndarray((128, 20000), dtype=nl.float32)
        nisa.memset(tile, 0.5)
        tiles.append(tile)
    total = nl.ndarray(x.shape, dtype=x.dtype)
    nisa.dma_copy(total, x)
    for tile in tiles + tiles:
        nisa.tensor_tensor(total, total, tile[:, 0:32], nl.multiply)
        nisa.tensor_scalar(total, total, nl.multiply, 2.0)
    nisa.tensor_scalar(total, total, nl.multiply, 2.0)
    nisa.dma_copy(out, total)
    return out

@nki.jit
def careless(x):
    """Twice the upper half of x; the lower half of the result was never written."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype)
    nisa.dma_copy(tile[0:64], x[0:64])
    nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
    nisa.dma_copy(out, tile)
    return out

@nki.jit
def upper(x):
    """Twice the upper half of x; the lower half of the result keeps what memory held."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((64, x.shape[1]), dtype=x.dtype)
    nisa.dma_copy(tile, x[0:64])
    nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
    nisa.dma_copy(out[0:64], tile)
    return out
''',
    "test/integration/nkilib/parts.py": """
from types import SimpleNamespace as Record
import numpy as np

X = np.arange(128 * 32, dtype=np.float32).reshape(128, 32)

def arguments(kernel, x, expected, ranks=1):
    platform = Record(get_compile_target=lambda: "trn2")
    validation = Record(golden_output=expected, relative_accuracy=1e-5, absolute_accuracy=1e-5)
    return Record(
        kernel_func=kernel, kernel_input={"x": x} if isinstance(x, np.ndarray) else x, validation_args=validation,
        compiler_input=Record(logical_nc_config=1, platform_target=platform),
        inference_args=Record(collective_ranks=ranks),
    )

class Reference:
    def __init__(self, **arrays):
        self.output_ndarray = {name: np.zeros_like(array) for name, array in arrays.items()}
        self.golden = arrays

class NoReference:
    output_ndarray = {"out": X}
    golden = None

class Blind:
    def __init__(self, logfile):
        pass
    def validate(self, inference_output):
        return True

class Seeing(Blind):
    def validate(self, inference_output):
        return bool(np.array_equal(inference_output.view(np.float32), 2 * X.reshape(-1)))

class Upper(Blind):
    def validate(self, inference_output):
        return bool(np.array_equal(inference_output.view(np.float32)[:2048], 2 * X.reshape(-1)[:2048]))

def by_validator(kind):
    return {"out": Record(validator=kind, output_ndarray=X, dtype=X.dtype)}

class ByRank:
    def __init__(self, make):
        self.for_rank = make
""",
    "test/integration/nkilib/core/double/test_double.py": """
import numpy as np
import pytest
from nkilib_src.nkilib.kernels import double
from test.integration.nkilib.parts import (
    X, Blind, ByRank, NoReference, Reference, Seeing, arguments, by_validator)

@pytest.mark.fast
@pytest.mark.parametrize("rows", [1, 64, 128])
def test_right(manager, rows):
    manager.execute(arguments(double, X[:rows], Reference(out=2 * X[:rows])))

def test_wrong(manager):
    manager.execute(arguments(double, X, Reference(out=2 * X + 1)))

def test_without_reference(manager):
    manager.execute(arguments(double, X, NoReference()))

def test_blind_validator(manager):
    manager.execute(arguments(double, X, by_validator(Blind)))

def test_seeing_validator(manager):
    manager.execute(arguments(double, X, by_validator(Seeing)))

def test_refused(manager):
    with pytest.raises(Exception, match="too many rows"):
        manager.execute(arguments(double, np.zeros((129, 4), np.float32), NoReference()))

def test_ranks(manager):
    inputs = ByRank(lambda rank: {"x.must_alias_input": X + rank})
    manager.execute(arguments(double, inputs, ByRank(lambda rank: {"out": 2 * X + 2 * rank}), ranks=2))
""",
    "test/integration/nkilib/core/faults/test_faults.py": """
import os
import signal
import numpy as np
import pytest
from nkilib_src.nkilib.kernels import careless, double, hungry, upper
from test.integration.nkilib.parts import X, NoReference, Reference, Upper, arguments, by_validator

def test_assertion(manager):
    manager.execute(arguments(double, np.zeros((129, 4), np.float32), NoReference()))

def test_of_the_library(manager):
    {}["absent"]

def test_skipped(manager):
    pytest.skip("no device")

@pytest.mark.xfail(reason="known")
def test_known(manager):
    manager.execute(arguments(double, X, Reference(out=X)))

def test_crash(manager):
    os.kill(os.getpid(), signal.SIGKILL)

def test_after_the_crash(manager):
    manager.execute(arguments(double, X, Reference(out=2 * X)))

def test_unwritten(manager):
    manager.execute(arguments(careless, X, by_validator(Upper)))

def test_zeros_that_nothing_writes(manager):
    manager.execute(arguments(upper, X, Reference(out=np.where(np.arange(128)[:, None] < 64, 2 * X, 0))))

def test_wrong_beside_unwritten(manager):
    manager.execute(arguments(upper, X, Reference(out=np.where(np.arange(128)[:, None] < 64, 3 * X, 0))))

def test_spills(manager):
    manager.execute(arguments(hungry, X, Reference(out=2 * X)))
""",
}
"""By path below the library's folder: the text of each file."""


def write(folder: Path) -> Path:
    """Write the library into ``folder``, which this returns."""
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        for package in path.relative_to(folder).parents:
            if package.parts[:1] == ("test",):
                (folder / package / "__init__.py").touch()
    return folder
