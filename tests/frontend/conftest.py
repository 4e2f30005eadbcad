"""A small stand-in for ``nki.language`` and ``nki.isa``, and kernels given as text."""

import importlib.util
import itertools
import sys
import textwrap
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

LANGUAGE = """
import enum
class buffers(enum.Enum):
    sbuf = 1
sbuf = buffers.sbuf
float32 = "float32"
def exp(x, dtype=None): return ("exp", x)
def par_dim(size): return size
def ndarray(shape, dtype, buffer=sbuf, name="", address=None): return [shape, dtype]
def affine_range(start, stop=None, step=1): return range(start) if stop is None else range(start, stop, step)
class no_reorder:
    def __enter__(self): pass
    def __exit__(self, *exc): pass
def fail(): raise ValueError("from inside")
"""

ISA = """
LOG = []
def tensor_copy(dst, src, engine=None, name=None): LOG.append((dst, src))
def nc_matmul(dst, stationary, moving, is_moving_onezero=False): LOG.append((dst, stationary, moving))
def iota(dst, pattern, offset=0): LOG.append((dst, pattern))
def nc_stream_shuffle(dst, src, shuffle_mask): LOG.append((dst, src))
def tensor_tensor(dst, data1, data2, op, engine=None, name=None): LOG.append((dst, data1, data2, op))
"""


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> dict[str, types.ModuleType]:
    """``nl`` and ``nisa``, importable by their full names as long as the test runs."""
    modules: dict[str, types.ModuleType] = {}
    for alias, name, text in (("nl", "nki.language", LANGUAGE), ("nisa", "nki.isa", ISA)):
        modules[alias] = types.ModuleType(name)
        exec(text, vars(modules[alias]))
        monkeypatch.setitem(sys.modules, name, modules[alias])
    return modules


@pytest.fixture
def load(tmp_path: Path, api: dict[str, types.ModuleType]) -> Iterator[Callable[[str], types.ModuleType]]:
    """Import Python text as a module from a file of its own; ``nl`` and ``nisa`` are there."""
    names: list[str] = []
    counter = itertools.count()

    def load_text(text: str) -> types.ModuleType:
        name = f"kernels_{len(str(tmp_path))}_{next(counter)}"
        file = tmp_path / f"{name}.py"
        file.write_text(textwrap.dedent(text), encoding="utf-8")
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        vars(module).update(api)
        sys.modules[name] = module
        names.append(name)
        spec.loader.exec_module(module)
        return module

    yield load_text
    for name in names:
        del sys.modules[name]
