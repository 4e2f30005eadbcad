"""What users of NKI Beta 1 are told in kernels of today: exact code, which compiles and gives the right values."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import nki
from nki.base.errors import NkiError
from nki.base.warning import NkiDeprecationWarning

HEADER = (
    "import nki\nimport nki.isa as nisa\nimport nki.language as nl\nimport numpy as np\n\n\n@nki.jit\ndef kernel(x):\n"
)
FOOTER = "    out = nl.ndarray(c.shape, c.dtype, buffer=nl.shared_hbm)\n    nl.store(out, c)\n    return out\n"
X = np.arange(200 * 64, dtype=np.float32).reshape(200, 64) / 1000
INDICES = "    i_p = nl.arange(128)[:, None]\n    i_f = nl.arange(64)[None, :]\n"
TILE = "    a = nl.load(x[0:128])\n"

# Name, body of the kernel in which one line is wrong, the code that the fix names, the result after the fix.
CASES: list[tuple[str, str, list[str], Any]] = [
    ("arange", INDICES + "    c = nl.load(x[64 + i_p, i_f])\n", ["c = nl.load(x[64:192, 0:64])"], X[64:192]),
    ("mask", INDICES + "    c = nl.load(x[128 + i_p, i_f], mask=128 + i_p < x.shape[0])\n",
     ["c = nl.load(x[128:min(x.shape[0], 256), 0:64])"], X[128:]),
    ("mgrid", "    p, f = nl.mgrid[0:128, 0:32]\n    c = nl.load(x[p, f])\n", ["c = nl.load(x[0:128, 0:32])"],
     X[:128, :32]),
    ("bare par_dim",
     "    c = nl.ndarray((par_dim(128), 64), x.dtype, buffer=nl.sbuf)\n    nisa.dma_copy(c, x[0:128])\n",
     ["c = nl.ndarray((128, 64), x.dtype, buffer=nl.sbuf)"], X[:128]),
    ("result", TILE + "    c = nisa.activation(op=nl.square, data=a, dtype=nl.bfloat16)\n",
     ["c = nl.ndarray(a.shape, dtype=nl.bfloat16, buffer=nl.sbuf)", "nisa.activation(dst=c, op=nl.square, data=a)"],
     None),
    ("operator first", TILE + "    c = nisa.activation(np.square, a)\n",
     ["c = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)", "nisa.activation(dst=c, op=nl.square, data=a)"],
     X[:128] ** 2),
    ("order of tensor_scalar", TILE + "    c = nisa.tensor_scalar(a, nl.add, 1.0, False)\n",
     ["c = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)",
      "nisa.tensor_scalar(dst=c, data=a, op0=nl.add, operand0=1.0, reverse0=False)"], X[:128] + 1),
    ("order of memset",
     "    c = nisa.memset((128, 64), 0.5, nl.float32)\n",
     ["c = nl.full((128, 64), 0.5, dtype=nl.float32, buffer=nl.sbuf)"],
     np.full((128, 64), 0.5, np.float32)),
    ("number", TILE + "    c = nl.copy(a)\n    c[...] = 4.0\n", ["nisa.memset(dst=c, value=4.0)"],
     np.full((128, 64), 4, np.float32)),
    ("matmul operator", TILE + "    b = nl.load(x[0:64])\n    c = a @ b\n",
     ["c = nl.matmul(nl.copy(nl.transpose(a)), b, transpose_x=True)"], None),
    ("np.max as operator",
     TILE + "    c = nl.ndarray((128, 1), a.dtype)\n    nisa.tensor_reduce(c, np.max, a, axis=1)\n",
     ["nisa.tensor_reduce(c, nl.maximum, a, axis=1)"], X[:128].max(axis=1, keepdims=True)),
    ("np.amin as operator",
     TILE + "    c = nl.ndarray(a.shape, a.dtype)\n    nisa.tensor_scalar(c, a, op0=np.amin, operand0=1.0)\n",
     ["nisa.tensor_scalar(c, a, op0=nl.minimum, operand0=1.0)"], np.minimum(X[:128], 1)),
    ("np.sum as operator",
     TILE + "    c = nl.ndarray((128, 1), a.dtype)\n    nisa.tensor_reduce(c, np.sum, a, axis=1)\n",
     ["nisa.tensor_reduce(c, nl.add, a, axis=1)"], None),
    ("comparison", TILE + "    c = a > 0.0\n", ["c = nl.greater(a, 0.0)"], None),
    ("load into a tile", INDICES + TILE + "    c = nl.copy(a)\n    c[i_p, i_f] = nl.load(x[72 + i_p, i_f])\n",
     ["nisa.dma_copy(dst=c[0:128, 0:64], src=x[72:200, 0:64])"], X[72:]),
    ("result into a slice", INDICES + TILE + "    c = nl.copy(a)\n    c[i_p, i_f] = nisa.reciprocal(a[i_p, i_f])\n",
     ["nisa.reciprocal(dst=c[0:128, 0:64], data=a[0:128, 0:64])"], None),
]  # fmt: skip


def imported(text: str, file: Path) -> ModuleType:
    """The module with this text."""
    file.write_text(text)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module


def loaded(body: str, folder: Path) -> ModuleType:
    return imported(HEADER + body + FOOTER, folder / f"kernel_{abs(hash(body))}.py")


@pytest.mark.filterwarnings("ignore::nki.base.warning.NkiWarning")
@pytest.mark.parametrize(("name", "body", "code", "expected"), CASES, ids=[case[0] for case in CASES])
def test_the_code_of_the_fix_takes_the_place_of_the_mistake(
    name: str, body: str, code: list[str], expected: Any, tmp_path: Path
) -> None:
    with pytest.raises(NkiError) as caught:
        loaded(body, tmp_path).kernel(X)
    suggested = re.findall(r"`([^`]+)`", str(caught.value).replace("fix:", "\nfix:"))
    for line in code:
        assert line in suggested, str(caught.value)
    lines = body.rstrip("\n").split("\n")
    wrong = 0 if "par_dim" in name else len(lines) - 1
    fixed = [*lines[:wrong], *(f"    {line}" for line in code), *lines[wrong + 1 :]]
    unused = [line for line in fixed if not re.match(r"    \w+(, \w+)? = nl\.(arange|mgrid)", line)]
    result = loaded("\n".join(unused) + "\n", tmp_path).kernel(X)
    if expected is not None:
        np.testing.assert_array_equal(result, expected)


def test_a_swapped_shuffle_is_suspected(tmp_path: Path) -> None:
    body = TILE + "    c = nl.zeros(a.shape, a.dtype)\n    nisa.nc_stream_shuffle(a, c, [0] * 32)\n"
    with pytest.warns(
        NkiDeprecationWarning, match=r"Swap them\? Then write `nisa.nc_stream_shuffle\(c, a, \[0\] \* 32\)`"
    ):
        loaded(body, tmp_path).kernel(X)


def test_the_other_order_of_a_shuffle_is_not(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    body = TILE + "    c = nl.zeros(a.shape, a.dtype)\n    nisa.nc_stream_shuffle(c, a, [0] * 32)\n"
    loaded(body, tmp_path).kernel(X)
    assert not [each for each in recwarn if "Swap" in str(each.message)]


@pytest.mark.parametrize("name", ["spmd_dim", "nc", "arange", "gemm_grid"])
def test_names_of_host_code(name: str) -> None:
    with pytest.raises(AttributeError, match=f"no attribute '{name}', which is of NKI Beta 1: "):
        getattr(nki.language, name)


def test_a_grid_of_programs(tmp_path: Path) -> None:
    with pytest.raises(NkiError, match="grid of programs"):
        loaded(TILE + "    c = a\n", tmp_path).kernel[16, 8](X)


STATEMENTS = [
    "c = x[i_p, i_f] if {} == 3 else x[i_p, 0:8]", "c = nl.load(x[i_p, i_f], mask={})", "c = x[i_p, {}]",
    "c = {} + x[i_p, i_f]", "x[i_p, i_f] = {}",
]  # fmt: skip
FUNCTIONS = [f"nisa.{name}" for name in dir(nki.isa) if not name.startswith("_")] + [
    "nisa.gone",
    "nl.gone",
    "nl.tile_size",
]


@pytest.mark.filterwarnings("ignore::nki.base.warning.NkiWarning")
@pytest.mark.parametrize("statement", STATEMENTS)
def test_whatever_a_statement_calls_beside_an_index_tile_the_answer_is_an_error_of_ours(
    statement: str, tmp_path: Path
) -> None:
    for function in FUNCTIONS:
        for call in (f"{function}()", f"{function}(mask=None)", function):
            with pytest.raises(NkiError, match="no longer has `arange`"):
                loaded(INDICES + f"    {statement.format(call)}\n", tmp_path).kernel(X)


@pytest.mark.parametrize("index", ["g[7]", "g[-3]", "g.z", "g.x + g[5]"])
def test_an_axis_that_a_grid_of_indices_does_not_have(index: str, tmp_path: Path) -> None:
    with pytest.raises(NkiError, match="no longer has `mgrid`"):
        loaded(f"    g = nl.mgrid[0:128, 0:4]\n    i = {index}\n    c = nl.load(x[g[0], i])\n", tmp_path).kernel(X)


@pytest.mark.parametrize("call", [
    "nl.all_reduce(a, op=np.add, program_axes=[0])", "nl.atomic_rmw(x, a, op=np.add)", "nl.spmd_dim(np.add, a)",
    "nl.gemm_grid(np.max)",
])  # fmt: skip
def test_no_advice_names_what_is_gone(call: str, tmp_path: Path) -> None:
    name = call.partition("(")[0]
    with pytest.raises(NkiError, match=f"no longer has `{name[3:]}`") as caught:
        loaded(TILE + f"    c = {call}\n", tmp_path).kernel(X)
    assert f"{name}(" not in caught.value.fix, caught.value.fix


@pytest.mark.parametrize(
    ("index", "way_out"),
    [
        ("np.array([0, 2])", "x.vector_select(0, rows)"),
        ("np.arange(4)", "x.ap(…, vector_offset=rows, indirect_dim=0)"),
        ("np.array([0, 2])", "slice start:stop:step"),
        ("[0, 2]", "the slice 0:3:2"),
        ("[0, 1, 3]", "nisa.nc_n_gather"),
        (":, None", "t.expand_dim(1)"),
        ("None", "t.expand_dim(0)"),
        (":, None, :", "t.expand_dim(1)"),
    ],
)
def test_an_index_that_is_no_longer_one_names_the_ways_out(index: str, way_out: str, tmp_path: Path) -> None:
    with pytest.raises(NkiError) as caught:
        loaded(TILE + f"    c = a[{index}]\n", tmp_path).kernel(X)
    assert way_out in caught.value.fix, caught.value.fix


def test_modes_of_kernels_simulate_or_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    function = loaded(TILE + "    print(a)\n    c = a\n", tmp_path).kernel.func
    with pytest.warns(NkiDeprecationWarning, match=r"write nki.simulate\(kernel\)"):
        kernel = nki.jit(function, mode="simulation")
    for launched in (kernel, kernel[1]):
        assert np.array_equal(launched(X), X[:128])
        assert "[0.000" in capsys.readouterr().out  # the simulator has values
    for mode in ("benchmark", "profile"):
        with pytest.raises(NkiError, match=rf"measures nothing\n.*write nki.{mode}\(kernel\)"):
            nki.jit(function, mode=mode)
    with pytest.raises(NkiError, match="no mode 'bogus'"):
        nki.jit(function, mode="bogus")
