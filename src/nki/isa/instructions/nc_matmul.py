"""``nisa.nc_matmul``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki.base.element_types import float32
from nki.base.errors import ArgumentError, DTypeError, GenerationError, PsumError, ShapeError
from nki.cost import engines as cost
from nki.ir.algebra import Algebra
from nki.ir.deprecation import DeprecatedForms
from nki.ir.effects import Accumulation, Contents, Effects
from nki.ir.estimate import Estimate
from nki.ir.instruction import Inst, instruction
from nki.ir.sample import Draw
from nki.ir.types import Access, Buffer, In, Out, Tile
from nki.isa.deprecated import dropped, renamed
from nki.isa.instructions.nc_transpose import undocumented_fp8
from nki.isa.rules.indirection import indirection, on_tensor_engine, tensor_floats, transposes_plainly
from nki.isa.rules.operand_rules import buffer, rule, tiles
from nki.isa.tables import enums
from nki.target.model import Target

_PERF = enums.matmul_perf_mode
_SOURCE = "NKI reference, nki.isa.nc_matmul"
_WIDE = ("float32", "tfloat32")
_FP8 = ("float8_e4m3", "float8_e4m3fn", "float8_e5m2")


def _double(i: Any) -> bool:
    return i.perf_mode is _PERF.double_row


def _free(tile: Access, double: bool) -> int:
    """Columns of a matmul operand: in double-row mode the first free dimension counts as contraction."""
    return math.prod(tile.shape[2:]) if double else tile.free_elements


def _layout(i: Any) -> bool:
    """Double-row operands have a first free dimension of 2."""
    return not _double(i) or all(t.ndim >= 3 and t.shape[1] == 2 for t in (i.stationary, i.moving))


def _moving_limit(i: Any, t: Target) -> int:
    return t.matmul_moving_free_max.get(i.dst.dtype, t.gemm_moving_fmax)


def _tiling_ok(i: Any, t: Target) -> bool:
    """Nothing is chosen, or rows and columns of the array (architecture guides: columns in the fashion of rows)."""
    if not i.tile_size and not i.tile_position:
        return True
    if not i.tile_size or not i.tile_position or len(i.tile_size) != 2 or len(i.tile_position) != 2:
        return False
    pairs = zip(i.tile_size, i.tile_position, strict=True)
    return all(s in t.matmul_row_tiles and p % s == 0 and 0 <= p <= t.partitions - s for s, p in pairs)


def _in_one_bank(dst: Access, t: Target) -> bool:
    """True if every partition's bytes lie in one PSUM bank, given that tensors in PSUM start at one."""
    size = dst.dtype.itemsize
    first = dst.offset % dst.partition_step
    last = first + sum((n - 1) * step for n, step in zip(dst.shape[1:], dst.strides[1:], strict=True))
    return first * size // t.psum_bank_bytes == last * size // t.psum_bank_bytes


def row(tile: Access, index: int) -> Access:
    """``tile[:, index]``: one step along the first free dimension."""
    shape, strides = tile.shape, tile.strides
    offset = tile.offset + index * strides[1]
    return Access(tile.tensor, offset, (shape[0], *shape[2:]), (strides[0], *strides[2:]), tile.dtype)


def _rows(m: Algebra[Any], tile: Access) -> Any:
    """Both rows of every partition as partitions of their own, the second ones behind the first."""
    return m.stack([m.cast(m.load(row(tile, r)), float32) for r in (0, 1)], 2 * tile.partitions)


def _no_identity(numbers: NDArray[Any]) -> str:
    """The first element in which a square matrix is no identity."""
    places = np.argwhere(numbers != np.eye(len(numbers)))
    if not len(places):
        return ""
    row, column = (int(n) for n in places[0])
    return f"element [{row}, {column}] is {numbers[row, column]}, and {len(places)} of {numbers.size} elements differ"


def _neither_one_nor_zero(numbers: NDArray[Any]) -> str:
    """The first element that is neither 1 nor 0."""
    places = np.argwhere((numbers != 0) & (numbers != 1))
    if not len(places):
        return ""
    row, column = (int(n) for n in places[0])
    return f"element [{row}, {column}] is {numbers[row, column]}"


def _contents(i: Any) -> tuple[Contents, ...]:
    """A transposition takes an identity; the hints promise ones and zeros, which matters for float32 alone."""
    found: list[Contents] = []
    if i.is_transpose:
        text = f"is_transpose needs an identity as moving; {_named(i.moving)} is none"
        fix = "pass the data as stationary, and nl.shared_identity_matrix(n) of their dtype, or such a tile, as moving"
        found.append(Contents(i.moving, _no_identity, text, fix, "MM14"))
    for operand, hint in (("stationary", i.is_stationary_onezero), ("moving", i.is_moving_onezero)):
        tile = getattr(i, operand)
        if hint and tile.dtype is float32:
            text = f"is_{operand}_onezero=True, but {operand} {_named(tile)} holds other numbers than 1 and 0"
            found.append(Contents(tile, _neither_one_nor_zero, text, "leave the hint out"))
    return tuple(found)


def _named(tile: Access) -> str:
    return f"'{tile.name}' {tile.shape} {tile.dtype}"


@instruction(
    engines=(enums.engine.tensor,),
    effects=Effects(
        accumulation=Accumulation("accumulate", moves=lambda i: i.is_transpose),
        contents=_contents,
        stationary="stationary",
        moving="moving",
        element_indexed=("dst", "stationary", "moving"),
    ),
    deprecated=DeprecatedForms(
        (  # Neuron 2.27 had both ("NKI 0.2.0 known issues"), 2.28 has neither ("Breaking changes"): both are NKI 0.2
            renamed("is_moving_zero", "is_moving_onezero", "0.3"),
            dropped("psumAccumulateFlag", "0.3", "leave it out: it had no effect, and `accumulate` has one"),
        ),
        open_question=lambda i: undocumented_fp8(i.stationary) if i.is_transpose else None,
    ),
)
class NcMatmul(Inst):
    """``dst = stationary.T @ moving``, contracted over partitions, into PSUM.

    ``stationary`` is (K, M) and ``moving`` (K, N) in SBUF with K and M at most 128; ``dst`` is (M, N), float32 (gen4:
    also bfloat16). N is at most 512 (gen4: what PSUM holds). Products accumulate in float32. ``accumulate`` True adds
    to what ``dst`` holds, False overwrites it, None lets the compiler decide: the first write to a place
    overwrites, later ones add. ``is_transpose`` moves the bits of ``stationary`` instead of multiplying; ``moving`` is
    then an identity.
    ``perf_mode=double_row`` (fp8, gen3 and later) contracts over partitions and a first free dimension of 2.
    ``tile_position`` and ``tile_size`` choose a part of the array; the ``onezero`` hints change only the time.
    On gen4 the three tiles, of at most 16 bits an element, may be indirect views; ``moving`` not with ``is_transpose``.
    """

    dst: Out[Tile]
    stationary: In[Tile]
    moving: In[Tile]
    is_stationary_onezero: bool = False
    is_moving_onezero: bool = False
    is_transpose: bool = False
    accumulate: bool | None = None
    tile_position: tuple[int, ...] | None = ()
    tile_size: tuple[int, ...] | None = ()
    perf_mode: enums.matmul_perf_mode = _PERF.none
    name: str | None = None

    rules = (
        *tiles("dst", "stationary", "moving"),
        buffer("stationary", Buffer.sbuf),
        buffer("moving", Buffer.sbuf),
        buffer("dst", Buffer.psum),
        rule(
            "MM09",
            "perf_mode=double_row needs gen3 or later; the target is {t.name}",
            lambda i, t: not _double(i),
            _SOURCE,
            error=GenerationError,
            until=2,
            fix="leave perf_mode out, or target trn2 or trn3",
        ),
        rule(
            "MM10",
            "perf_mode=double_row takes fp8 tiles with a first free dimension of 2, not stationary {o[stationary]} and "
            "moving {o[moving]}",
            lambda i, t: (
                not _double(i) or (_layout(i) and i.stationary.dtype.name in _FP8 and i.moving.dtype.name in _FP8)
            ),
            _SOURCE,
            error=DTypeError,
            fix="lay the tiles out as (K, 2, columns) in float8_e4m3 or float8_e5m2",
        ),
        rule(
            "MM01",
            "stationary {o[stationary]} and moving {o[moving]} differ in partitions, the dimension summed over",
            lambda i, t: i.stationary.partitions == i.moving.partitions,
            _SOURCE,
            fix="lay the contracted dimension of both operands on the partitions",
        ),
        rule(
            "MM02",
            "stationary '{i.stationary.name}' {i.stationary.shape} has more than {t.matmul_stationary_free_max} "
            "columns",
            lambda i, t: _free(i.stationary, _double(i)) <= t.matmul_stationary_free_max,
            _SOURCE,
            fix="tile its free dimension by nl.tile_size.gemm_stationary_fmax",
        ),
        rule(
            "MM03",
            "moving '{i.moving.name}' {i.moving.shape} is too wide for {t.name}",
            lambda i, t: _free(i.moving, _double(i)) <= _moving_limit(i, t),
            _SOURCE,
            fix="tile its free dimension by nl.tile_size.gemm_moving_fmax ({t.gemm_moving_fmax})",
        ),
        rule(
            "MM04",
            "dst {o[dst]} does not hold stationary {o[stationary]} transposed times moving {o[moving]}",
            lambda i, t: (
                i.dst.partitions == _free(i.stationary, _double(i))
                and i.dst.free_elements == _free(i.moving, _double(i))
            ),
            _SOURCE,
            fix="dst has as many partitions as stationary has columns, and as many columns as moving",
        ),
        rule(
            "MM05",
            "stationary {o[stationary]} with moving {o[moving]}: float32 and tfloat32 go only together",
            lambda i, t: (i.stationary.dtype.name in _WIDE) == (i.moving.dtype.name in _WIDE),
            _SOURCE,
            error=DTypeError,
            fix="copy one tile to the dtype of the other",
        ),
        rule(
            "MM06",
            "the Tensor engine of {t.name} does not multiply stationary {o[stationary]} with moving {o[moving]}",
            lambda i, t: (
                {i.stationary.dtype, i.moving.dtype} <= t.matmul_dtypes
                and {i.stationary.dtype.name, i.moving.dtype.name} != {"float8_e4m3", "float8_e4m3fn"}
            ),
            _SOURCE,
            error=DTypeError,
            fix="use float32, bfloat16, float16 or an fp8 format of this target",
        ),
        rule(
            "MM07",
            "dst '{i.dst.name}' is {i.dst.dtype}; {t.name} writes matmul results as float32 (trn3: or bfloat16), and a "
            "transpose as its input's dtype",
            lambda i, t: (
                i.dst.dtype in t.matmul_moving_free_max or (i.is_transpose and i.dst.dtype is i.stationary.dtype)
            ),
            _SOURCE,
            error=PsumError,
            fix="allocate dst as float32 and convert with nisa.tensor_copy",
        ),
        rule(
            "MM08",
            "dst '{i.dst.name}' {i.dst.shape} from element {i.dst.offset} on crosses the end of a PSUM bank of "
            "{t.psum_bank_bytes} bytes; a matmul writes within one",
            lambda i, t: _in_one_bank(i.dst, t),
            _SOURCE,
            error=PsumError,
            until=3,
            by_value=True,
            fix="write windows of at most 512 float32 columns that start and end in the same bank",
        ),
        rule(
            "MM11",
            "tile_position={i.tile_position} with tile_size={i.tile_size} is not a part of the 128 x 128 array on "
            "{t.name}",
            _tiling_ok,
            _SOURCE,
            error=ArgumentError,
            fix="give both, sizes of 64 or 128 (from trn2 on also 32), positions that are multiples of them",
        ),
        rule(
            "MM12",
            "stationary {o[stationary]} does not fit tile_size={i.tile_size}",
            lambda i, t: (
                not i.tile_size
                or (i.stationary.partitions <= i.tile_size[0] and _free(i.stationary, _double(i)) <= i.tile_size[1])
            ),
            _SOURCE,
            error=ShapeError,
            fix="use a larger tile_size, or a smaller stationary tile",
        ),
        rule(
            "MM13",
            "perf_mode=double_row cannot be combined with column tiling {i.tile_size}",
            lambda i, t: not _double(i) or not i.tile_size or i.tile_size[1] == t.matmul_stationary_free_max,
            _SOURCE,
            error=ArgumentError,
            fix="use a column size of 128",
        ),
        rule(
            "MM14",
            "is_transpose needs a (K, K) identity as moving; it is {o[moving]}, stationary is {o[stationary]}",
            lambda i, t: not i.is_transpose or i.moving.free_elements == i.moving.partitions,
            _SOURCE,
            fix="pass a square identity with as many rows as stationary has partitions",
        ),
        rule(
            "MM15",
            "is_transpose overwrites dst '{i.dst.name}'; accumulate=True cannot be combined with it",
            lambda i, t: not (i.is_transpose and i.accumulate is True),
            _SOURCE,
            error=PsumError,
            fix="leave accumulate out",
        ),
        rule(
            "MM16",
            "is_transpose cannot be combined with perf_mode=double_row",
            lambda i, t: not (i.is_transpose and _double(i)),
            "Trainium2 Architecture Guide for NKI, Double FP8 Matmul Performance",
            error=ArgumentError,
            fix="leave perf_mode out",
        ),
        *indirection("dst", "stationary", "moving", others=False),
        on_tensor_engine(),
        transposes_plainly(),
        *(tensor_floats(name) for name in ("dst", "stationary", "moving")),
    )

    def reads(self) -> list[Access]:
        return [*super().reads(), *([self.dst] if self.accumulate else [])]

    def semantics(self, m: Algebra[Any]) -> None:
        if self.is_transpose:
            m.store(self.dst, m.cast(m.transpose(m.load(self.stationary)), self.dst.dtype))
            return
        if self.perf_mode is _PERF.double_row:
            value = m.matmul(_rows(m, self.stationary), _rows(m, self.moving))
        else:
            value = m.matmul(m.load(self.stationary), m.load(self.moving))
        if self.accumulate:
            value = m.alu("add", m.load(self.dst), value)
        m.store(self.dst, m.cast(value, self.dst.dtype))

    def cost(self, target: Target) -> Estimate:
        """``max(p M / 4, 64 p, p N + i issue)`` Tensor cycles: M and N columns of ``stationary`` and ``moving``;
        p = i = 1, for float32 p passes in i instructions. An operand of ones and zeros takes half of them ("could lead
        to 2x better performance", the reference says of both hints), as does a transpose on trn2 and later. Products
        in other parts of the array run beside it.
        """
        double = self.perf_mode is _PERF.double_row
        columns, factor, instructions = _free(self.moving, double), 1, 1
        if self.moving.dtype is float32:
            moves = self.is_transpose and target.matmul_transpose_mode
            halved = moves or self.is_stationary_onezero or self.is_moving_onezero
            factor, instructions = cost.float32_product(target, halved=halved)
        shape = (self.moving.partitions, _free(self.stationary, double), columns)
        origin = target.origin("matmul_issue_cycles")
        return cost.matmul(
            target,
            shape,
            columns,
            factor,
            *origin,
            operands=(self.dst, self.stationary, self.moving),
            instructions=instructions,
            pack=2 if double else 1,
            moves=self.is_transpose,
            position=self.tile_position,
            size=self.tile_size,
        )

    @classmethod
    def sample(cls, draw: Draw) -> NcMatmul:
        k, m, n = (
            draw.partitions(),
            draw.choice((1, 3, 16, 17, 32, 64, 127, 128)),
            draw.choice((1, 5, 16, 63, 200, 512)),
        )
        allowed = sorted(draw.target.matmul_dtypes, key=lambda d: d.name)
        first = draw.choice(allowed)
        second = draw.choice([d for d in allowed if (d.name in _WIDE) == (first.name in _WIDE)])
        if {first.name, second.name} == {"float8_e4m3", "float8_e4m3fn"}:
            second = first
        double = draw.target.generation >= 3 and first.name in _FP8 and second.name in _FP8 and draw.flag()
        shape = (2,) if double else ()
        return cls(
            draw.block(m, (n,), float32, Buffer.psum),
            draw.block(k, (*shape, m), first),
            draw.block(k, (*shape, n), second),
            accumulate=draw.flag(),
            perf_mode=_PERF.double_row if double else _PERF.none,
        )
