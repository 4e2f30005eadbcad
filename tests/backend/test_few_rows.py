"""Products of few rows and of one column: all widths of vectors and ranges of columns give the bits of the product."""

from __future__ import annotations

import numpy as np
import pytest
from llvmlite import ir

from nki.backend.cpu.codegen.routine import emit_routine
from nki.backend.cpu.kernel_ir.accesses import aliases
from nki.base import dtype as dt
from nki.ir.types import Access, Buffer, Tensor
from nki.isa.instructions.nc_matmul import NcMatmul
from nki.numerics.jit import engine
from nki.numerics.matmul_entry import matmul
from tests.backend.test_partitions import EVERY, Call

DEPTH = 70


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("dtype", [dt.float32, dt.bfloat16], ids=str)
@pytest.mark.parametrize(("rows", "columns"), [(1, 300), (5, 511), (16, 100), (100, 1), (128, 1)])
def test_lanes_and_ranges(rows: int, columns: int, dtype: dt.DType, lanes: int) -> None:
    shapes = (("dst", (rows, columns)), ("left", (DEPTH, rows)), ("right", (DEPTH, columns)))
    out, left, right = (
        Access.whole(Tensor(name, shape, dt.float32 if name == "dst" else dtype, buffer))
        for (name, shape), buffer in zip(shapes, (Buffer.psum, Buffer.sbuf, Buffer.sbuf), strict=True)
    )
    inst = NcMatmul(out, left, right, accumulate=False)
    module = ir.Module("few_rows")
    emitted = emit_routine(module, "r", inst, aliases(inst), lanes)
    assert emitted.partitions == max(rows, columns)
    call = Call(inst, emitted, engine().compile(module)["r"])
    contents = call.fill(np.random.default_rng(3))
    expected = np.empty((rows, columns), np.float32)
    operands = [np.asarray(contents[access.tensor]).astype(np.float32) for access in (left, right)]
    with np.errstate(invalid="ignore"):
        matmul(*operands, expected, False, by_groups=dtype is dt.bfloat16)
    for ranges in ([(0, EVERY)], [(0, 17), (17, 65), (65, EVERY)], [(64, EVERY), (0, 64)]):
        assert call.run(contents, ranges)[0] == expected.tobytes()
