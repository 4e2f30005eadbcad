"""One function per hardware instruction. Made by ``python -m nki.isa.stub`` from the declarations."""

from collections.abc import Sequence as _Sequence

from nki.ir.register import VirtualRegister as VirtualRegister
from nki.ir.register import VirtualRegister as _VirtualRegister
from nki.ir.types import Access as _Tile
from nki.isa.enums import dge_mode as dge_mode
from nki.isa.enums import engine as engine
from nki.isa.enums import matmul_perf_mode as matmul_perf_mode
from nki.isa.enums import nc_version as nc_version
from nki.isa.enums import oob_mode as oob_mode
from nki.isa.enums import reduce_cmd as reduce_cmd
from nki.isa.ops import Op as _Op

_dge_mode = dge_mode
_engine = engine
_matmul_perf_mode = matmul_perf_mode
_nc_version = nc_version
_oob_mode = oob_mode
_reduce_cmd = reduce_cmd

gpsimd_engine: _engine
scalar_engine: _engine
tensor_engine: _engine
unknown_engine: _engine
vector_engine: _engine

def get_nc_version() -> _nc_version:
    """The NeuronCore generation that the running kernel is compiled for."""

def register_alloc(x: int | _VirtualRegister | _Tile | None = None) -> _VirtualRegister:
    """A new register: empty (None), holding the whole number ``x``, or a copy of a register or of one element.

    A register is 32 bits wide. Raises :class:`ArgumentError` for another ``x``.
    """

def activation(
    dst: _Tile,
    op: _Op,
    data: _Tile,
    bias: float | _Tile | None = None,
    scale: float | _Tile = 1.0,
    reduce_op: _Op | None = None,
    reduce_res: _Tile | None = None,
    reduce_cmd: _reduce_cmd = _reduce_cmd.idle,
    name: str | None = None,
) -> None:
    """``dst = op(data * scale + bias)`` on the Scalar engine, in float32.

    ``scale`` is a number or a float32 tile ``(partitions, 1)``; ``bias`` likewise, of any float dtype (on gen2 only a
    tile). With ``reduce_cmd`` the results' sum over the free dimensions goes to the engine's reduction registers, one a
    partition: ``reset`` clears them, ``reduce`` adds to them, ``reset_reduce`` clears and adds; ``idle`` leaves them.
    ``reduce_res``, a ``(partitions, 1)`` tile, receives the registers. The sum runs over the float32 results before
    they are rounded to ``dst``.
    """

def activation_reduce(
    dst: _Tile,
    op: _Op,
    data: _Tile,
    reduce_op: _Op,
    reduce_res: _Tile | None,
    bias: float | _Tile | None = None,
    scale: float | _Tile = 1.0,
    name: str | None = None,
) -> None:
    """``dst = op(data * scale + bias)`` and ``reduce_res`` = its sum over the free dimensions.

    The same as ``nisa.activation`` with ``reduce_cmd=reset_reduce``; it leaves the sum in the reduction registers too.
    """

def bn_stats(
    dst: _Tile,
    data: _Tile,
    name: str | None = None,
) -> None:
    """Six numbers per partition: count, mean and count times variance of the even elements, then of the odd ones.

    ``data`` has at most 512 elements per partition, ``dst`` six. Float32: the mean is the sequential sum divided by the
    count, the third number the sequential sum of squared deviations from it. No odd element gives three zeros.
    """

def bn_aggr(
    dst: _Tile,
    data: _Tile,
    name: str | None = None,
) -> None:
    """Combine triples ``(count, mean, count * variance)`` into the mean and the variance of all their elements.

    ``data`` has a multiple of three elements per partition, ``dst`` two. Float32: sums over the triples are sequential;
    the variance is the population variance.
    """

def dma_compute(
    dst: _Tile,
    srcs: _Sequence[_Tile],
    reduce_op: _Op,
    scales: _Sequence[float] | None = None,
    unique_indices: bool = True,
    oob_mode: _oob_mode = _oob_mode.error,
    name: str | None = None,
) -> None:
    """``dst`` = the sum of the 2 to 16 tensors in ``srcs``, element by element, in HBM or SBUF.

    All have the same number of elements; shapes may differ. Each source is converted to float32; additions go from the
    first to the last and the result is converted once. ``reduce_op`` is ``nl.add``, ``scales`` are all 1.0.

    With an index for each row it adds to what is there, row after row: ``dst`` is one of two sources, and either it has
    the indices and the other source is a tile in SBUF (scatter), or it is the tile and the other has them (gather).
    ``unique_indices=False`` is refused then; here, two equal indices add twice. A row whose index leads outside its
    tensor is an error, or is left out with ``oob_mode=nisa.oob_mode.skip``.
    """

def dma_copy(
    dst: _Tile,
    src: _Tile,
    priority: int | None = None,
    oob_mode: _oob_mode = _oob_mode.error,
    dge_mode: _dge_mode = _dge_mode.unknown,
    engine: _engine = _engine.unknown,
    name: str | None = None,
) -> None:
    """Copy ``src`` to ``dst`` with the DMA engines, between HBM and SBUF or within either.

    Both have the same number of elements; shapes may differ, elements keep their row-major order. Where dtypes differ,
    each element passes through float32. ``priority`` (0, most urgent, to 3) is a hint of gen4; ``dge_mode`` and
    ``engine`` choose how descriptors are made.

    ``dst`` and ``src`` may have a run-time index, for all of it or (HBM tensors) one for each row; then both have as
    many rows, which are copied one after the other. A row whose index leads outside its tensor is an error, or is left
    out with ``oob_mode=nisa.oob_mode.skip``.
    """

def dma_transpose(
    dst: _Tile,
    src: _Tile,
    axes: _Sequence[int] | None = None,
    priority: int | None = None,
    dge_mode: _dge_mode = _dge_mode.unknown,
    oob_mode: _oob_mode = _oob_mode.error,
    name: str | None = None,
) -> None:
    """Write ``src``, in HBM or SBUF, to the SBUF tile ``dst`` with its first and last dimensions exchanged.

    ``axes``, which may be left out, are ``(1, 0)``, ``(2, 1, 0)`` or ``(3, 1, 2, 0)`` after the number of dimensions of
    ``src``: dimension ``i`` of ``dst`` is dimension ``axes[i]`` of ``src``. The rank of ``dst`` is that of ``src``.
    Bits are moved unchanged; both have one dtype.

    ``src`` may have a run-time index for all of it, or (in HBM) one for each row: row ``r`` of what is transposed is
    then the row of the tensor that index ``r`` names. Indices go down the first column of their tile, then down the
    next. With ``oob_mode=nisa.oob_mode.skip``, an index outside the tensor leaves what it would have written alone.

    The descriptor generation guide still has the limits that hardware descriptors had before NKI 0.6
    (``src.shape[0] == 16`` for every rank); here those of the reference hold. It also lists ``nisa.dge_mode.none`` for
    transposes without indices, which the reference does not, and which real kernels use.
    """

def iota(
    dst: _Tile,
    pattern: _Sequence[_Sequence[int]],
    offset: int = 0,
    channel_multiplier: int = 0,
    name: str | None = None,
) -> None:
    """``dst[p, i…] = offset + p * channel_multiplier + sum(i_k * step_k)`` in wrapping 32-bit integers.

    ``pattern`` is up to four ``[step, count]`` pairs, the fastest last; the counts multiply to the elements per
    partition of ``dst``, which is in SBUF. Integer tiles receive the value saturated, others rounded once.
    """

def affine_select(
    dst: _Tile,
    pattern: _Sequence[_Sequence[int]],
    channel_multiplier: int,
    on_true_tile: _Tile,
    on_false_value: float,
    cmp_op: _Op = ...,
    offset: int = 0,
    name: str | None = None,
) -> None:
    """``dst = on_true_tile`` where ``cmp_op(position, 0)`` holds, ``on_false_value`` elsewhere.

    ``position`` is what ``nisa.iota`` computes from ``pattern``, ``offset`` and ``channel_multiplier``. Tiles are in
    SBUF; the false value is a float32 number.
    """

def nc_matmul(
    dst: _Tile,
    stationary: _Tile,
    moving: _Tile,
    is_stationary_onezero: bool = False,
    is_moving_onezero: bool = False,
    is_transpose: bool = False,
    accumulate: bool | None = None,
    tile_position: _Sequence[int] | None = (),
    tile_size: _Sequence[int] | None = (),
    perf_mode: _matmul_perf_mode = _matmul_perf_mode.none,
    name: str | None = None,
) -> None:
    """``dst = stationary.T @ moving``, contracted over partitions, into PSUM.

    ``stationary`` is (K, M) and ``moving`` (K, N) in SBUF with K and M at most 128; ``dst`` is (M, N), float32 (gen4:
    also bfloat16). N is at most 512 (gen4: what PSUM holds). Products accumulate in float32. ``accumulate`` True adds
    to what ``dst`` holds, False overwrites it, None lets the compiler decide: the first write to a place
    overwrites, later ones add. ``is_transpose`` moves the bits of ``stationary`` instead of multiplying; ``moving`` is
    then an identity.
    ``perf_mode=double_row`` (fp8, gen3 and later) contracts over partitions and a first free dimension of 2.
    ``tile_position`` and ``tile_size`` choose a part of the array; the ``onezero`` hints change only the time.
    """

def nc_matmul_mx(
    dst: _Tile,
    stationary: _Tile,
    moving: _Tile,
    stationary_scale: _Tile,
    moving_scale: _Tile,
    tile_position: _Sequence[int] | None = None,
    tile_size: _Sequence[int] | None = None,
    accumulate: bool | None = None,
    name: str | None = None,
) -> None:
    """``dst = stationary.T @ moving`` of MXFP8 and MXFP4 tiles, with their scales, into PSUM; gen4.

    ``stationary`` is (K, M) and ``moving`` (K, N) packed elements (float8_e4m3fn_x4, float8_e5m2_x4 or
    float4_e2m1fn_x4, also mixed) in SBUF, K = 32, 64, 96 or 128, M even and at most 128; the sum goes over partitions
    and the four numbers of each element. ``dst`` is (M, N), float32 with N up to 4096 or bfloat16 up to 8192.

    A number is multiplied by its scale, a power of two (float8_e8m0fnu, or uint8 with its code: 2 ** (code - 127), 255
    is NaN). Scale [q * 32 + g, n] belongs to partitions q * 32 + 8 * g to 8 * g + 7, element n, for g = 0 to 3: each
    quadrant of 32 partitions has four partitions of scales, at its beginning or shifted by 4, 8 or 12, and the others
    are ignored. ``accumulate`` is as in ``nisa.nc_matmul``; ``tile_position`` (row, 0) and ``tile_size`` (32, 64 or
    128, 128) choose rows of the array and change only the time.

    Chosen where the reference is silent: products accumulate in float32, in order of ``4 K`` rows that the first
    numbers of all partitions begin; a number whose scale takes it beyond float32 is infinite.
    """

def nc_transpose(
    dst: _Tile,
    data: _Tile,
    engine: _engine = _engine.unknown,
    name: str | None = None,
) -> None:
    """``dst = data.T``: partitions become elements and elements partitions; free dimensions count as one.

    The Tensor engine takes up to 128 x 128 from SBUF and writes PSUM; the Vector engine up to 32 x 32 between SBUF and
    PSUM. Without ``engine``, the Tensor engine is used when the memories fit it. Bits are moved unchanged; ``dst`` has
    the dtype of ``data``. (On gen2 the Tensor engine multiplies by an identity, so that NaN and infinity spoil other
    elements of the tile on hardware.)
    """

def quantize_mx(
    dst: _Tile,
    src: _Tile,
    dst_scale: _Tile,
    name: str | None = None,
) -> None:
    """MXFP8: divide groups of ``src`` by a power of two each, and pack the quotients, rounded to fp8, into ``dst``.

    ``src`` is (32, 64, 96 or 128, 4 N), float16 or bfloat16; ``dst`` has as many partitions and N packed elements of
    float8_e4m3fn_x4 or float8_e5m2_x4, each made of four neighbours of ``src``. A group is 8 partitions of one packed
    element. Its scale is ``2 ** (floor(log2(largest magnitude)) - (E - 1))``, with E = 8 for float8_e4m3fn and 15 for
    float8_e5m2: twice that of the OCP specification's sample conversion, so that rounding never leaves the format. It
    is at least 2 ** -127, also for a group of zeros. ``dst_scale`` (float8_e8m0fnu, or uint8 for its codes) gets the
    scales of 32 partitions on four partitions of their quadrant; see ``nisa.nc_matmul_mx``. All in SBUF; gen4.

    The reference leaves open what infinities and NaNs do: here they count as the exponent 128, and are rounded to what
    the format has for them.
    """

def reciprocal(
    dst: _Tile,
    data: _Tile,
    name: str | None = None,
) -> None:
    """``dst = 1 / data``, element by element, in float32 on the Vector engine (correctly rounded)."""

def register_move(
    dst: _Tile,
    src: int | _Tile,
) -> None:
    """``dst = src``: a whole number of 32 bits, or what another register holds."""

def register_load(
    dst: _Tile,
    src: _Tile,
) -> None:
    """``dst = src``: one element of a tensor in SBUF or HBM.

    Integers narrower than the register keep their value. Of a float32 the register holds the bits, which as a loop
    bound or an index would be read as an integer.
    """

def register_store(
    dst: _Tile,
    src: _Tile,
) -> None:
    """``dst = src``: the register's low bits, as many as an element of ``dst`` in SBUF or HBM has."""

def tensor_copy(
    dst: _Tile,
    src: _Tile,
    engine: _engine = _engine.unknown,
    name: str | None = None,
) -> None:
    """Copy the tile ``src`` to ``dst`` within SBUF and PSUM.

    Same partitions and elements per partition, shapes may differ. Equal dtypes are copied bit for bit; otherwise each
    element passes through float32. GpSimd cannot reach PSUM; the Scalar engine of gen2 has no such instruction.
    """

def memset(
    dst: _Tile,
    value: float,
    engine: _engine = _engine.unknown,
    name: str | None = None,
) -> None:
    """Fill every element of ``dst`` with the compile-time constant ``value``, rounded once to its dtype.

    Packed tiles (``float8_e5m2_x4``, …) are filled with 0 only, float8_e8m0fnu with powers of two.
    """

def tensor_copy_predicated(
    dst: _Tile,
    src: float | _Tile,
    predicate: _Tile,
    reverse_pred: bool = False,
    name: str | None = None,
) -> None:
    """Copy ``src`` (a tile like ``dst``, or a number) to ``dst`` where ``predicate`` is not zero; leave the rest.

    ``reverse_pred`` copies where it is zero. ``src`` has the dtype of ``dst``; ``predicate`` is uint8, uint16 or
    uint32. ``src`` and ``predicate`` are not both in PSUM.
    """

def tensor_reduce(
    dst: _Tile,
    op: _Op,
    data: _Tile,
    axis: int | _Sequence[int],
    negate: bool = False,
    keepdims: bool = False,
    name: str | None = None,
) -> None:
    """Fold the last dimensions of ``data`` with ``op``, partition by partition.

    ``axis`` is one or more trailing dimensions, never dimension 0; ``dst`` holds the remaining elements (``keepdims``
    leaves ones in the shape, which changes nothing in memory). Arithmetic operators fold float32 strictly from left to
    right, starting with the first element; ``negate`` flips the sign of the result. Bit operators take integers of one
    width.
    """

def tensor_partition_reduce(
    dst: _Tile,
    op: _Op,
    data: _Tile,
    name: str | None = None,
) -> None:
    """Fold ``data`` over its partitions into the one partition of ``dst``, on GpSimd.

    ``op`` is add, average, maximum, bitwise_or or bitwise_and, computed in float32 (bit operators: on integers of one
    width), lowest partition first; the average is the sum divided by the number of partitions. Both tiles are in SBUF.
    """

def tensor_scalar(
    dst: _Tile,
    data: _Tile,
    op0: _Op,
    operand0: float | _Tile | None,
    reverse0: bool = False,
    op1: _Op | None = None,
    operand1: float | _Tile | None = None,
    reverse1: bool = False,
    engine: _engine = _engine.unknown,
    name: str | None = None,
) -> None:
    """``dst = (data <op0> operand0) <op1> operand1``, operands repeated along the free dimensions.

    An operand is a number or a float32 tile ``(partitions, 1)``. ``reverse0``/``reverse1`` swap the sides of an
    operator. Both operators are arithmetic (each rounds to float32, the result is converted once) or both work on bits
    (integer tiles and numbers of one width, Vector engine only; bits are stored as they are). GpSimd runs only
    ``nl.rsqrt``; the Scalar engine (gen3 and later) multiply, add, and multiply followed by add.
    """

def scalar_tensor_tensor(
    dst: _Tile,
    data: _Tile,
    op0: _Op,
    operand0: float | _Tile,
    op1: _Op,
    operand1: _Tile,
    reverse0: bool = False,
    reverse1: bool = False,
    name: str | None = None,
) -> None:
    """``dst = (data <op0> operand0) <op1> operand1`` with ``operand0`` a number or ``(partitions, 1)`` tile and
    ``operand1`` a tile like ``data``.

    Arithmetic operators only, in float32. ``data`` and ``operand1`` are not both in PSUM.
    """

def tensor_tensor(
    dst: _Tile,
    data1: _Tile,
    data2: _Tile,
    op: _Op,
    engine: _engine = _engine.unknown,
    name: str | None = None,
) -> None:
    """``dst = data1 <op> data2``, element by element.

    All tiles have the same partitions and elements per partition; the inputs are not both in PSUM. Arithmetic operators
    compute in float32, with one exception: sums, products, extremes and comparisons of tiles that are all int32 or
    uint32 run on GpSimd in exact integers, of which 32 bits are kept, unless ``engine`` says Vector or a tile is in
    PSUM. Bit operators take integers of one width and store bits. ``nl.power`` runs on GpSimd, so all its tiles are in
    SBUF.
    """

__all__ = [
    "VirtualRegister",
    "activation",
    "activation_reduce",
    "affine_select",
    "bn_aggr",
    "bn_stats",
    "dge_mode",
    "dma_compute",
    "dma_copy",
    "dma_transpose",
    "engine",
    "get_nc_version",
    "gpsimd_engine",
    "iota",
    "matmul_perf_mode",
    "memset",
    "nc_matmul",
    "nc_matmul_mx",
    "nc_transpose",
    "nc_version",
    "oob_mode",
    "quantize_mx",
    "reciprocal",
    "reduce_cmd",
    "register_alloc",
    "register_load",
    "register_move",
    "register_store",
    "scalar_engine",
    "scalar_tensor_tensor",
    "tensor_copy",
    "tensor_copy_predicated",
    "tensor_engine",
    "tensor_partition_reduce",
    "tensor_reduce",
    "tensor_scalar",
    "tensor_tensor",
    "unknown_engine",
    "vector_engine",
]
