"""What stages are validated on: the kernels of the corpus, kernels for stages that these do not need, and training."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import ml_dtypes
import numpy as np

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
from examples.llama import attention, kernels
from nki import target as targets
from nki.compilation import pipeline
from nki.compilation.float_arguments import as_arguments
from nki.ir.program import Program
from nki.ir.stage import Stage, Stages
from nki.jit import adapter_for
from nki.passes.load_reuse import ReuseLoads
from nki.passes.operand_reuse import FEW_TILES, ReuseOperands
from nki.target.model import Target
from tests.kernels import test_corpus  # noqa: F401  # enters the kernels into the corpus
from tests.kernels.case import CASES
from tests.passes import test_load_reuse, test_motion, test_operand_reuse, test_spilling
from tests.passes.small_memory import BANK, COLUMNS, ROW, P, hbm, loaded, scaled, small, stored, tile, total
from tests.passes.test_bank_sharing import sums_of
from tests.support.kernel_parts import returned
from tests.support.symbolic_run import FLOATS, NOTHING, SYMBOLS, Field

CHOSEN_BY_INTEGERS: Final = {
    "transposes", "mx_product", "mx_product_of_4_and_8_bits", "sum_of_pages_by_int32", "sum_of_pages_by_int64",
}  # fmt: skip
CHOSEN_BY_NUMBERS: Final = {
    "elements_in_place", "matmul_of_chosen_columns", "mx_quantised_here", "mx_words", "top_k",
}  # fmt: skip
PROFILED: Final = Stages((ReuseLoads(), ReuseOperands()))
"""The stages that profiles run behind ``order``."""


@dataclass(frozen=True)
class Subject:
    """A kernel with its arguments; ``unknown``: the inputs that are symbols. ``spills``: it holds more than fits."""

    kernel: Any
    arguments: Callable[[], Sequence[Any]]
    target: Target = field(default_factory=lambda: targets.find("trn2"))
    unknown: str = SYMBOLS
    spills: bool = False
    ranks: int = 1

    def arrays(self) -> list[np.ndarray[Any, Any]]:
        return [argument for argument in self.arguments() if isinstance(argument, np.ndarray)]

    def programs(self, stages: Sequence[Stage] = pipeline.STAGES) -> dict[str, Program]:
        """The program after each stage."""
        kernel, arguments = self.kernel, tuple(self.arguments())
        found: dict[str, Program] = {}
        pipeline.compile(
            kernel.func,
            as_arguments(kernel.specs(kernel.bind(arguments, {}), adapter_for(arguments, {})), {}),
            self.target,
            grid=kernel.grid,
            edges=kernel.schedule,
            observe=found.__setitem__,
            stages=stages,
            configs=kernel.configs,
        )
        return found


def unknown_of(name: str) -> str:
    """The inputs of a kernel of the corpus that are not known."""
    return NOTHING if name in CHOSEN_BY_NUMBERS else FLOATS if name in CHOSEN_BY_INTEGERS else SYMBOLS


def with_profiled() -> Stages:
    """The stages that a profile runs, with the ones that keep loads and operands in tiles."""
    return Stages(s for stage in pipeline.STAGES for s in ((stage, *PROFILED) if stage.name == "order" else (stage,)))


def normal(*shapes: tuple[int, ...], dtype: Any = np.float32) -> Callable[[], list[np.ndarray[Any, Any]]]:
    """Arguments of standard normal numbers."""
    return lambda: [np.random.default_rng(7).standard_normal(shape).astype(dtype) for shape in shapes]


# Kernels in which stages find something to do that no kernel of the corpus has


def later_first(x):
    """Copies that follow, by the user's edges, what stands behind them."""
    first, second, out = loaded(x), tile(), hbm(2, *x.shape)
    store = nisa.dma_copy(dst=out[0], src=first)
    scale = nisa.tensor_scalar(second, first, nl.multiply, 3.0)
    store.depends_on(scale)
    nisa.dma_copy(dst=out[1], src=second)
    return out


def ring(x):
    """Sums of two products in tiles that are used in turn, each overwritten when it is read."""
    left, out = nl.load(x), nl.ndarray((6, *x.shape), dtype=nl.float32, buffer=nl.shared_hbm)
    tiles = [nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.psum) for _ in range(3)]
    for i in range(6):
        nisa.nc_matmul(tiles[i % 3], left, left, accumulate=False)
        nisa.nc_matmul(tiles[i % 3], left, left, accumulate=True)
        nisa.dma_copy(dst=out[i], src=nl.copy(tiles[i % 3]))
    return out


def half_a_sum(x):
    """The first product writes some columns, the second one all of them; the user says of neither if it adds."""
    left = nl.load(x)
    sums = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(sums[:, 0:8], left, left[:, 0:8])
    nisa.nc_matmul(sums, left, left)
    return returned(nl.copy(sums))


def twice(x):
    """Rows that are loaded again while the first tile is still there."""
    out = hbm(4, *x.shape[1:])
    for i in range(4):
        nisa.dma_copy(dst=out[i], src=scaled(loaded(x[i % 2]), float(i + 2)))
    return out


def two_sums(x, y):
    """The second sum does not need the first one."""
    a, b, mean, out = tile(), tile(), tile(1), tile()
    top, bottom = loaded(x), loaded(y)
    nisa.tensor_tensor(a, top, bottom, nl.multiply)
    first = total(a)
    nisa.tensor_scalar(mean, first, nl.multiply, 1 / COLUMNS)
    nisa.tensor_tensor(b, a, top, nl.add)
    second = total(b)
    nisa.tensor_scalar(out, b, nl.multiply, mean, op1=nl.add, operand1=second)
    return stored(out)


def narrow_product(x, y):
    """gelu(x.T @ y + 1) of bfloat16."""
    sums = nl.ndarray((x.shape[1], y.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(sums, nl.load(x), nl.load(y))
    result = nl.ndarray(sums.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(result, nl.gelu, sums)
    return stored(result)


def beside(x):
    """Tiles of 32 partitions that are in use together."""
    tiles = []
    for i in range(x.shape[0]):
        one = nl.ndarray(x.shape[1:], dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=one, src=x[i])
        tiles.append(one)
    total, out = nl.ndarray(x.shape[1:], dtype=nl.float32, buffer=nl.sbuf), hbm(*x.shape)
    nisa.tensor_copy(total, tiles[-1])
    for i, one in enumerate(tiles):
        nisa.tensor_tensor(total, total, one, nl.add)
        nisa.dma_copy(dst=out[i], src=total)
    return out


def exchanged(x):
    """Two cores swap tiles twice, of two dtypes, and meet before they store into each other's half."""
    rank, out = nl.program_id(0), hbm(2, *x.shape[1:])
    other, own, theirs = 1 - rank, loaded(x[rank]), tile()
    nisa.sendrecv(own, theirs, other, other, 0)
    nisa.tensor_tensor(own, own, theirs, nl.multiply)
    nisa.sendrecv(own, theirs, other, other, 0)
    narrow, back = tile(dtype=nl.bfloat16), tile(dtype=nl.bfloat16)
    nisa.tensor_tensor(narrow, own, theirs, nl.subtract)
    nisa.sendrecv(narrow, back, other, other, 0)
    nisa.core_barrier(out, (0, 1))
    nisa.tensor_tensor(own, theirs, back, nl.add)
    nisa.dma_copy(dst=out[rank], src=own)
    return out


def collected(x, y):
    """What two ranks make of each other's rows: sums, pieces, another order. Core 0 of two does the rest."""
    group, rows, columns = ncc.ReplicaGroup(((0, 1),)), *x.shape
    results = [hbm(*shape) for shape in ((rows, columns), (2 * rows, columns), (rows // 2, columns), (rows, columns))]
    total, gathered, scattered, swapped = results
    first, second = hbm(rows, columns, name="first"), hbm(rows, columns, name="second")
    is_first = nl.program_id(0) == 0
    if is_first:
        nisa.dma_copy(dst=first, src=scaled(loaded(x)))
        nisa.dma_copy(dst=second, src=loaded(y))
    ncc.all_reduce([first], [total], group, nl.add)
    ncc.all_gather([total], [gathered], group, 0)
    ncc.reduce_scatter([first], [scattered], group, 0, nl.maximum)
    ncc.all_to_all([second], [swapped], group, 0)
    outs = [hbm(*each.shape) for each in results]
    for out, each in zip(outs, results, strict=True):
        if is_first:
            nisa.dma_copy(dst=out, src=each)
    return tuple(outs)


def rounds(x):
    """A loop on the device: its rounds add to what the round before has left."""
    total, out = loaded(x), hbm(*x.shape)

    def one(_):
        nisa.tensor_scalar(total, total, nl.multiply, 0.5)
        nisa.tensor_scalar(total, total, nl.add, 1.0)

    nl.fori_loop(0, 3, one)
    nisa.dma_copy(dst=out, src=total)
    return out


def floats(x, rate, limit):
    """A float for instructions, and one that Python asks about."""
    tile = scaled(loaded(x), rate)
    if limit > 1:
        nisa.tensor_scalar(tile, tile, nl.minimum, limit, op1=nl.add, operand1=rate * 2)
    return stored(tile)


def _floats() -> list[Any]:
    return [*normal(_ROWS)(), 0.75, 2.5]


_TIGHT: Final = small((FEW_TILES - 1) * ROW)
_ROWS: Final = (P, COLUMNS)
TRIGGERS: Final[dict[str, Subject]] = {
    "edges": Subject(nki.jit(later_first), normal(_ROWS)),
    "ring of sums": Subject(nki.jit(ring), normal((32, 32)), small(psum=BANK)),
    "half a sum": Subject(nki.jit(half_a_sum), normal((32, 32))),
    "loads ahead": Subject(nki.jit(test_motion.ahead), normal((6, *_ROWS)), small(3 * ROW)),
    "shared banks": Subject(nki.jit(sums_of(384, 384, 128, 128, rows=(32,))), normal((32, 512)), small(psum=2 * BANK)),
    "in place": Subject(nki.jit(test_operand_reuse.gated), normal(_ROWS), small(2 * ROW), spills=True),
    "spills": Subject(nki.jit(test_spilling.changed_kernel), normal((5, *_ROWS)), small(3 * ROW), spills=True),
    "loads again": Subject(nki.jit(test_spilling.loaded_kernel), normal((6, *_ROWS)), small(3 * ROW), spills=True),
    "side by side": Subject(nki.jit(beside), normal((6, 32, COLUMNS)), small(3 * ROW)),
    "loads twice": Subject(nki.jit(twice), normal((2, *_ROWS))),
    "profiled loads": Subject(test_load_reuse.product, normal((2 * P, P), (2 * P, 1024))),
    "profiled operands": Subject(nki.jit(test_operand_reuse.normalised), normal(_ROWS), _TIGHT),
    "two cores": Subject(nki.jit(exchanged)[2], normal((2, *_ROWS))),
    "two sums": Subject(nki.jit(two_sums), normal(_ROWS, _ROWS)),
    "narrow product": Subject(nki.jit(narrow_product), normal((64, 128), (64, 512), dtype=ml_dtypes.bfloat16)),
    "floats": Subject(nki.jit(floats), _floats),
    "two ranks": Subject(nki.jit(collected), normal(_ROWS, _ROWS), ranks=2),
    "two ranks of two cores": Subject(nki.jit(collected)[2], normal(_ROWS, _ROWS), ranks=2),
    "loop": Subject(nki.jit(rounds), normal(_ROWS)),
}
TRAINING: Final[dict[str, Subject]] = {
    "rms_norm": Subject(kernels.rms_norm, normal((160, 64), (64,))),
    "rms_norm_backward": Subject(kernels.rms_norm_backward, normal((160, 64), (64,), (160, 64))),
    "swiglu": Subject(kernels.swiglu, normal((160, 64))),
    "swiglu_backward": Subject(kernels.swiglu_backward, normal((160, 64), (160, 32))),
    "attention": Subject(attention.attention, normal((64, 192), (32, 16), (32, 16))),
    "attention_backward": Subject(attention.attention_backward, normal((64, 192), (32, 16), (32, 16), (64, 64))),
}
CORPUS: Final[dict[str, Subject]] = {
    name: Subject(case.kernel, case.arguments, targets.find(case.targets[-1]), unknown_of(name))
    for name, case in CASES.items()
}
SUBJECTS: Final[dict[str, Subject]] = {**CORPUS, **TRIGGERS, **TRAINING}


def field_of(name: str) -> Field:
    """A random field for the inputs of a kernel."""
    subject = SUBJECTS[name]
    return Field(zlib.crc32(name.encode()) % 1_000, subject.arrays(), subject.unknown, subject.ranks)
