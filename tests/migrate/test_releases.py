"""Forms of NKI 0.2 to 0.6 in the form of 0.7: the text, and the same bits of both."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nki.language.beta1_rewriting.report import Report
from nki.migrate.migration import migrated
from nki.migrate.release_forms import renewed
from nki.migrate.runs.run_comparison import Call

pytestmark = pytest.mark.filterwarnings("ignore::nki.base.warning.NkiWarning")

HEAD = "import nki\nimport nki.isa as nisa\nimport nki.language as nl\n\n\n"
LINES = [
    ("for i in nl.affine_range(4):\n    pass", "for i in range(4):\n    pass"),
    ("for i in nl.sequential_range(1, 4):\n    pass", "for i in range(1, 4):\n    pass"),
    ("nisa.tensor_copy(a, b, engine=nisa.vector_engine)", "nisa.tensor_copy(a, b, engine=nisa.engine.vector)"),
    ("t = nl.ndarray((8, 8), 'float32', buffer='psum')", "t = nl.ndarray((8, 8), nl.float32, buffer=nl.psum)"),
    ("t = nl.zeros((8, 8), dtype='bfloat16')", "t = nl.zeros((8, 8), dtype=nl.bfloat16)"),
    ("nisa.dma_copy(a, b, dge_mode=2)", "nisa.dma_copy(a, b, dge_mode=nisa.dge_mode.hwdge)"),
    ("nisa.dma_copy(a, b, unique_indices=True)", "nisa.dma_copy(a, b)"),
    ("nisa.dma_copy(a, b, dst_rmw_op=nl.add)", "nisa.dma_compute(a, [b, a], nl.add)"),
    ("nisa.dma_compute(a, [b, c], [1.0, 2.0], nl.add)", "nisa.dma_compute(a, [b, c], nl.add, [1.0, 2.0])"),
    ("nisa.dma_compute(a, [b, c], nl.add)", "nisa.dma_compute(a, [b, c], nl.add)"),
    ("nisa.sendrecv(a, b, 1, 1, 0, use_gpsimd_dma=True)",
     "nisa.sendrecv(a, b, 1, 1, 0, dma_engine=nisa.dma_engine.gpsimd_dma)"),
    ("nisa.sendrecv(a, b, 1, 1, 0, use_gpsimd_dma=False)", "nisa.sendrecv(a, b, 1, 1, 0)"),
    ("nisa.sendrecv(a, b, 1, 1, 0, use_gpsimd_dma=fast)",
     "nisa.sendrecv(a, b, 1, 1, 0, dma_engine=nisa.dma_engine.gpsimd_dma if fast else nisa.dma_engine.dma)"),
    ("nisa.nc_matmul(a, b, c, is_moving_zero=True, psumAccumulateFlag=3)",
     "nisa.nc_matmul(a, b, c, is_moving_onezero=True)"),
    ("nisa.register_move(r, imm=3)", "nisa.register_move(r, src=3)"),
    ("n = nl.tile_size.psum_fmax + nl.tile_size.total_available_sbuf_size",
     "n = nl.tile_size.psum_bank_fmax + nl.tile_size.sbuf_fmax_bytes"),
    ("nisa.affine_select(a, [[1, 8]], 0, -1, t, 0.0, nl.less)",
     "nisa.affine_select(a, [[1, 8]], offset=0, channel_multiplier=-1, on_true_tile=t, on_false_value=0.0, "
     "cmp_op=nl.less)"),
    ("nisa.affine_select(a, [[1, 8]], -1, t, 0.0)", "nisa.affine_select(a, [[1, 8]], -1, t, 0.0)"),
    ("nisa.tensor_copy(dst=a, src=b, dtype=b.dtype, mask=None)", "nisa.tensor_copy(dst=a, src=b)"),
    ("nisa.tensor_copy(a, b, dtype=b.dtype)", "nisa.tensor_copy(a, b)"),
    ("t = nl.ndarray((nl.par_dim(128), 8), nl.float32)", "t = nl.ndarray((128, 8), nl.float32)"),
    ("t = nl.full((8, 8), 1, 'int32', 'sbuf')\nnisa.memset(t[:, 0:4], 2.0)",
     "t = nl.full((8, 8), 1, nl.int32, nl.sbuf)\nnisa.memset(t[:, 0:4], 2)"),
    ("t = nl.ndarray((8, 8), nl.float32)\nnisa.memset(t, 2.0)",
     "t = nl.ndarray((8, 8), nl.float32)\nnisa.memset(t, 2.0)"),
    ("def f():\n    t = nl.ndarray((8, 8), nl.float32, nl.hbm)\n    return t",
     "def f():\n    t = nl.ndarray((8, 8), nl.float32, nl.shared_hbm)\n    return t"),
    ("k = nki.jit(f, mode='torchxla', platform_target='trn1')", "k = nki.jit(f)"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after"), LINES)
def test_a_form_of_an_older_release(before: str, after: str) -> None:
    report = Report()
    assert renewed(HEAD + before + "\n", report) == HEAD + after + "\n"
    assert report.left == []


LOOPS = """
@nki.jit(mode="auto")
def kernel(x, n):
    t = nl.load(x)
    count = nisa.register_alloc(nl.load(n))
    # as often as n says
    for i in nl.dynamic_range(count):
        nisa.tensor_scalar(t, t, nl.add, 1.0)
    go = nisa.register_alloc(1)
    while go:
        nisa.tensor_scalar(t, t, nl.multiply, 2.0)
        nisa.register_move(go, imm=0)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.hbm)
    nl.store(out, t)
    return out
"""


def test_loops_on_the_device_become_functions(tmp_path: Path) -> None:
    arguments = (np.ones((8, 16), np.float32), np.full((1, 1), 3, np.int32))
    result = migrated(tmp_path / "kernel.py", HEAD + LOOPS, [Call("kernel", arguments)])
    assert result.done
    assert [one.text for one in result.outcomes] == ["same bits"]
    assert "    # as often as n says\n    def body(i):\n" in result.new
    assert "nl.fori_loop(0, count, body)" in result.new
    assert "nl.while_loop(go, body_2)" in result.new
    assert "buffer=nl.shared_hbm" in result.new


def test_a_file_for_0_6_keeps_its_loops(tmp_path: Path) -> None:
    assert migrated(tmp_path / "kernel.py", HEAD + LOOPS, [], to="0.6").new == HEAD + LOOPS


def test_a_name_without_counterpart_is_marked() -> None:
    report = Report()
    new = renewed(HEAD + "c = nisa.tensor_copy_dynamic_src(a)\n", report)
    assert "# TODO(nki-migrate): `nisa.tensor_copy_dynamic_src` is gone: use `nisa.tensor_copy`" in new
    assert len(report.left) == 1


def test_a_loop_whose_variables_are_read_later_stays() -> None:
    source = HEAD + "def f(x, n):\n    for i in nl.dynamic_range(n):\n        y = x\n    return y\n"
    report = Report()
    new = renewed(source, report)
    assert "# TODO(nki-migrate): `y` is set in the loop" in new
    assert len(report.left) == 1
