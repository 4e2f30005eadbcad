"""One function per hardware instruction. Made by `make docs` from the declarations."""

from collections.abc import Sequence as _Sequence
from typing import TypeAlias as _TypeAlias

from nki.base.errors import NkiError as NkiValidationError
from nki.ir.instruction_handle import NkiInstruction as NkiInstruction
from nki.ir.loop import VirtualRegister as VirtualRegister
from nki.ir.loop import VirtualRegister as _VirtualRegister
from nki.ir.scalars import NkiScalar as NkiScalar
from nki.ir.types import Access as _Access
from nki.ir.types import TensorHandle as _TensorHandle
from nki.isa.tables.enums import dge_mode as dge_mode
from nki.isa.tables.enums import dma_engine as dma_engine
from nki.isa.tables.enums import engine as engine
from nki.isa.tables.enums import matmul_perf_mode as matmul_perf_mode
from nki.isa.tables.enums import nc_version as nc_version
from nki.isa.tables.enums import oob_mode as oob_mode
from nki.isa.tables.enums import reduce_cmd as reduce_cmd
from nki.isa.tables.operators import Op as _Op

_Tile: _TypeAlias = _TensorHandle | _Access
_dge_mode = dge_mode
_dma_engine = dma_engine
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

def get_nc_sub_version() -> int:
    """The revision of that generation's silicon: 0, the first; only its limits are documented."""

def register_alloc(x: int | _VirtualRegister | _Tile | None = None) -> _VirtualRegister:
    """A new register: empty (None), holding the whole number ``x``, or a copy of a register or of one element.

    A register is 32 bits wide. Raises :class:`ArgumentError` for another ``x``.
    """

def scalar_load(src: _Tile) -> NkiScalar:
    """The element of ``src`` as a scalar: a whole number that exists when the kernel runs.

    ``src``: one element of int32 or int64, in SBUF or HBM. The scalar has its dtype, and so has what is computed from
    it. Raises :class:`DTypeError` for other dtypes, :class:`ShapeError` and :class:`MemoryRegionError`.
    """

def activate2(
    dst: _Tile,
    op: _Op,
    data: _Tile,
    imm0: float | _Tile,
    imm1: float | _Tile,
    op0: _Op,
    op1: _Op,
    relu_param: float | _Tile = 0.0,
    reverse0: bool = False,
    reverse1: bool = False,
    reduce_op: _Op | None = None,
    reduce_res: _Tile | None = None,
    reduce_cmd: _reduce_cmd = _reduce_cmd.idle,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = op((data <op0> imm0) <op1> imm1)`` on the Scalar engine, in float32.

    The operators are multiply and add, multiply and subtract, one of multiply, add and subtract followed by
    ``nl.bypass``, or ``nl.bypass`` twice; bypass ignores its immediate. ``reverse0`` and ``reverse1`` put the
    immediates on the left. Immediates and ``relu_param``, the slope of ``nl.prelu``, are numbers or tiles
    ``(partitions, 1)``. With ``reduce_cmd`` the float32 results, before they are rounded to ``dst``, are folded with
    ``reduce_op`` (add, maximum, minimum, abs_max, abs_min) into the engine's reduction registers, which
    ``nisa.activation`` shares: ``reset`` sets them to what the fold begins with (0, -inf, +inf, 0, +inf), ``reduce``
    folds on, ``reset_reduce`` does both, ``idle`` leaves them. ``reduce_res``, a ``(partitions, 1)`` tile, receives the
    registers afterwards. ``dst``, in SBUF, and ``data`` may be indirect views. Since NeuronCore-v4.
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
) -> NkiInstruction:
    """``dst = op(data * scale + bias)`` on the Scalar engine, in float32.

    ``scale`` is a number or a float32 tile ``(partitions, 1)``; ``bias`` likewise, of any float dtype (on gen2 only a
    tile). With ``reduce_cmd`` the results' sum over the free dimensions goes to the engine's reduction registers, one a
    partition: ``reset`` clears them, ``reduce`` adds to them, ``reset_reduce`` clears and adds; ``idle`` leaves them.
    ``reduce_res``, a ``(partitions, 1)`` tile, receives the registers afterwards: it may lie in ``dst``. The sum runs
    over the float32 results before they are rounded to ``dst``, on from what the registers hold. On gen4 ``dst``, in
    SBUF, and ``data`` may be indirect views.
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
) -> NkiInstruction:
    """``dst = op(data * scale + bias)`` and ``reduce_res`` = its sum over the free dimensions.

    The same as ``nisa.activation`` with ``reduce_cmd=reset_reduce``; it leaves the sum in the reduction registers too.
    """

def bn_stats(
    dst: _Tile,
    data: _Tile,
    name: str | None = None,
) -> NkiInstruction:
    """Six numbers per partition: count, mean and count times variance of the even elements, then of the odd ones.

    ``data`` has at most 512 elements per partition, ``dst`` six. Float32: the mean is the sequential sum divided by the
    count, the third number the sequential sum of squared deviations from it. No odd element gives three zeros.
    """

def bn_aggr(
    dst: _Tile,
    data: _Tile,
    name: str | None = None,
) -> NkiInstruction:
    """Combine triples ``(count, mean, count * variance)`` into the mean and the variance of all their elements.

    ``data`` has a multiple of three elements per partition, ``dst`` two. Float32: sums over the triples are sequential;
    the variance is the population variance.
    """

def core_barrier(
    data: _Tile,
    cores: _Sequence[int] | int,
    engine: _engine = _engine.gpsimd,
    name: str | None = None,
) -> NkiInstruction:
    """Wait until every one of ``cores`` has reached its barrier for ``data``.

    ``data`` is what the cores share: a tensor in ``nl.shared_hbm`` (real kernels also name a tile on chip; then the
    barrier orders that tile's instructions on this core). All that a core has done to ``data`` before its barrier is
    done when the others go on. ``cores`` is ``(0, 1)``; ``(0,)`` on one core does not wait. Only ``engine`` waits.
    Since NeuronCore-v3.
    """

def dma_compute(
    dst: _Tile,
    srcs: _Sequence[_Tile],
    reduce_op: _Op,
    scales: _Sequence[float] | None = None,
    unique_indices: bool = True,
    oob_mode: _oob_mode = _oob_mode.error,
    name: str | None = None,
) -> NkiInstruction:
    """``dst`` = the sum of the 2 to 16 tensors in ``srcs``, element by element, in HBM or SBUF.

    All have the same number of elements; shapes may differ. Each source is converted to float32; additions go from the
    first to the last and the result is converted once. ``reduce_op`` is ``nl.add``, ``scales`` are all 1.0.

    With an index for each row it adds to what is there, row after row: ``dst`` is one of two sources, and either it has
    the indices and the other source is a tile in SBUF (scatter), or it is the tile and the other has them (gather).
    ``unique_indices=False`` is refused then. In a scatter, an index that occurs twice is an error, which is found when
    the kernel is compiled if the indices are constant, else in the simulator; native code adds both rows. A row with an
    index outside its tensor is an error, or is left out with ``oob_mode=nisa.oob_mode.skip``.
    """

def dma_copy(
    dst: _Tile,
    src: _Tile,
    priority: int | None = None,
    oob_mode: _oob_mode = _oob_mode.error,
    dge_mode: _dge_mode = _dge_mode.unknown,
    engine: _engine = _engine.unknown,
    name: str | None = None,
) -> NkiInstruction:
    """Copy ``src`` to ``dst`` with the DMA engines, between HBM and SBUF or within either.

    Both have the same number of elements; shapes may differ, elements keep their row-major order. Where dtypes differ,
    each element passes through float32. ``priority`` (0, most urgent, to 3) is a hint of gen4; ``dge_mode`` and
    ``engine`` choose how descriptors are made.

    ``dst`` and ``src`` may have a run-time index, for all of it or (HBM tensors) one for each row; then both have as
    many rows, which are copied one after the other. A row with an index outside its tensor is an error, or is left
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
) -> NkiInstruction:
    """Write ``src``, in HBM or SBUF, to the SBUF tile ``dst`` with its first and last dimensions exchanged.

    ``axes``, which may be left out, are ``(1, 0)``, ``(2, 1, 0)`` or ``(3, 1, 2, 0)`` after the number of dimensions of
    ``src``: dimension ``i`` of ``dst`` is dimension ``axes[i]`` of ``src``. ``dst`` has the rank of ``src``.
    Bits are moved unchanged; both have one dtype.

    ``src`` may have a run-time index for all of it, or (in HBM) one for each row: row ``r`` of what is transposed is
    then the row of the tensor that index ``r`` names. Indices go down the first column of their tile, then down the
    next. With ``oob_mode=nisa.oob_mode.skip``, an index outside the tensor leaves what it would have written alone.

    The descriptor generation guide still has the limits that hardware descriptors had before NKI 0.6
    (``src.shape[0] == 16`` for every rank); here the reference's limits hold. It also lists ``nisa.dge_mode.none`` for
    transposes without indices, which the reference does not, and which real kernels use.
    """

def exponential(
    dst: _Tile,
    src: _Tile,
    max_value: float | _Tile = 0.0,
    reduce_res: _Tile | None = None,
    reduce_cmd: _reduce_cmd = _reduce_cmd.idle,
    reduce_init: float | _Tile = 0.0,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = exp(src - max_value)`` in float32, four elements a cycle, and the sum of these results.

    ``max_value`` is a number or a float32 tile ``(partitions, 1)``. The sum over the free dimensions goes through the
    Vector engine's reduction registers: ``reset_reduce`` begins with 0, ``reduce`` with what they hold, ``load_reduce``
    with ``reduce_init``, a number or a float32 tile ``(partitions, 1)``. It takes the float32 results before they are
    rounded to ``dst``, one after the other. After ``idle`` the contents of the registers are unknown: NaN here.
    ``reduce_res``, a float tile ``(partitions, 1)``, receives the registers afterwards. Tiles have up to four
    dimensions; ``dst`` and ``src`` may be indirect views. Since NeuronCore-v4.
    """

def nc_n_gather(
    dst: _Tile,
    data: _Tile,
    indices: _Tile,
    name: str | None = None,
) -> NkiInstruction:
    """``dst[p, i] = data[p, indices[p, i]]``, free dimensions counted as one.

    All tiles are in SBUF; ``indices`` is uint32 and has as many elements per partition as ``dst``, which has the dtype
    of ``data``. Bits are moved unchanged. An index outside the partition gives an undefined element: here it is
    the initial contents of the memory.
    """

def local_gather(
    dst: _Tile,
    src_buffer: _Tile,
    index: _Tile,
    num_elem_per_idx: int = 1,
    num_valid_indices: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Each group of 16 partitions has one list of indices, by which all of them gather from ``src_buffer``.

    The list is the group's part of ``index`` (uint16), down its 16 partitions first; ``num_valid_indices`` cuts it off.
    For each number in it, a partition of ``dst`` receives ``num_elem_per_idx`` (1, 2, 4, 8, 16 or 32) elements of its
    own partition of ``src_buffer`` from that element on, free dimensions counted as one. All tiles are in SBUF and have
    a multiple of 16 partitions; at most 4096 indices a group are used. Bits are moved unchanged. Elements outside
    the partition are undefined: here they are the initial contents of the memory.
    """

def iota(
    dst: _Tile,
    pattern: _Sequence[_Sequence[int]],
    offset: int | _Tile = 0,
    channel_multiplier: int = 0,
    name: str | None = None,
) -> NkiInstruction:
    """``dst[p, i…] = offset + p * channel_multiplier + sum(i_k * step_k)`` in wrapping 32-bit integers.

    ``pattern`` is up to four ``[step, count]`` pairs, the fastest last; the counts multiply to the elements per
    partition of ``dst``, which is in SBUF. ``offset`` is a number or a register. Integer tiles receive
    the value saturated, others rounded once.
    """

def affine_select(
    dst: _Tile,
    pattern: _Sequence[_Sequence[int]],
    channel_multiplier: int,
    on_true_tile: _Tile,
    on_false_value: float,
    cmp_op: _Op = ...,
    offset: int | _Tile = 0,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = on_true_tile`` where ``cmp_op(position, 0)`` holds, ``on_false_value`` elsewhere.

    ``position`` is what ``nisa.iota`` computes from ``pattern``, ``offset`` and ``channel_multiplier``. Tiles are in
    SBUF; the false value is a float32 number.
    """

def max8(
    dst: _Tile,
    src: _Tile,
    name: str | None = None,
) -> NkiInstruction:
    """The eight largest elements of each partition of ``src`` in descending order, compared as float32.

    ``src`` has 8 to 16384 elements per partition in up to two free dimensions, ``dst`` eight in one. An element that
    occurs several times appears as often. NaN counts as larger than any number, -0 as smaller than 0.
    """

def nc_find_index8(
    dst: _Tile,
    data: _Tile,
    vals: _Tile,
    name: str | None = None,
) -> NkiInstruction:
    """The position of each of the eight ``vals`` in its partition of ``data``, counted from 0; all ones if absent.

    Compared as float32 numbers: NaN is nowhere, the two zeros are equal. The first of several equal ``vals`` gets the
    first place of that value, the next one the next. ``data`` has 8 to 16384 elements per partition, ``vals`` and
    ``dst`` eight; free dimensions, at most two, count in row-major order. ``dst`` is uint16 or uint32.
    """

def nc_match_replace8(
    dst: _Tile,
    data: _Tile,
    vals: _Tile,
    imm: float,
    dst_idx: _Tile | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """``dst`` = ``data`` with a place of each of the eight ``vals`` of its partition replaced by ``imm``.

    Compared as float32 numbers in ``data`` as it was: NaN is nowhere, the two zeros are equal. The ``vals`` take their
    turns from the last to the first: the last of several equal ones gets the first place of that value, the one before
    it the next. ``dst_idx``, if there is one, receives the places, counted from 0 in row-major order, all ones for
    values that are nowhere; it is uint16 or uint32. ``data`` and ``dst`` have up to 16384 elements per partition,
    ``vals`` and ``dst_idx`` eight.
    """

def nc_transpose(
    dst: _Tile,
    data: _Tile,
    engine: _engine = _engine.unknown,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = data.T``: partitions become elements and elements partitions; free dimensions count as one.

    The Tensor engine takes up to 128 x 128 from SBUF and writes PSUM; the Vector engine up to 32 x 32 between SBUF and
    PSUM. Without ``engine``, the Tensor engine is used when the memories fit it. Bits are moved unchanged; ``dst`` has
    the dtype of ``data``. (On gen2 the Tensor engine multiplies by an identity, so that NaN and infinity spoil other
    elements of the tile on hardware; there ``dst`` of bfloat16 or float16 data may also be float32.)
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
) -> NkiInstruction:
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
) -> NkiInstruction:
    """``dst = stationary.T @ moving`` of MXFP8 and MXFP4 tiles, with their scales, into PSUM; gen4.

    ``stationary`` is (K, M) and ``moving`` (K, N) packed elements (float8_e4m3fn_x4, float8_e5m2_x4 or
    float4_e2m1fn_x4, also mixed) in SBUF, K = 32, 64, 96 or 128, M even and at most 128; the sum goes over partitions
    and the four numbers of each element. ``dst`` is (M, N), float32 with N up to 4096 or bfloat16 up to 8192.

    A number is multiplied by its scale, a power of two (float8_e8m0fnu, or uint8 with its code: 2 ** (code - 127), 255
    is NaN). Scale [q * 32 + g, n] belongs to partitions q * 32 + 8 * g to 8 * g + 7, element n, for g = 0 to 3: each
    quadrant of 32 partitions has four partitions of scales, at its beginning or shifted by 4, 8 or 12, and the others
    are ignored. ``accumulate`` is as in ``nisa.nc_matmul``; ``tile_position`` (row, 0) and ``tile_size`` (32, 64 or
    128, 128) choose rows of the array and change only the time. Tiles may be indirect views: ``stationary`` and
    ``moving`` together with their scales, by the same offsets.

    Chosen where the reference is silent: products accumulate in float32, in order of ``4 K`` rows that the first
    numbers of all partitions begin; a number that its scale takes beyond float32 is infinite.
    """

def nc_stream_shuffle(
    dst: _Tile,
    src: _Tile,
    shuffle_mask: _Sequence[int],
    name: str | None = None,
) -> NkiInstruction:
    """Partition p of ``dst`` receives partition ``shuffle_mask[p % 32]`` of the same quadrant of ``src``.

    ``shuffle_mask`` has 32 numbers from 0 to 31; 255 leaves a partition of ``dst`` as it is. Quadrants are counted from
    the first partition of each tile, and use the same mask. Same dtype and elements per partition; bits are moved
    unchanged, and ``dst`` may be ``src``. A mask that asks for partitions which ``src`` does not have is refused, where
    hardware would read what lies behind it.
    """

def nonzero_with_count(
    dst: _Tile,
    src: _Tile,
    index_offset: int = 0,
    padding_val: int = -1,
    name: str | None = None,
) -> NkiInstruction:
    """The positions of the elements that are not 0, in partitions 0, 16, 32, … of ``src``; gen3 and later.

    The same partitions of ``dst``, which has one element more, receive the positions in order, each plus
    ``index_offset`` (wrapping), then ``padding_val``, and as the last element how many there are. The other partitions
    of ``dst`` are left alone. Tiles are in SBUF, ``src`` float32 or int32, ``dst`` int32. NaN is not 0, -0 is.
    """

def quantize_mx(
    dst: _Tile,
    src: _Tile,
    dst_scale: _Tile,
    name: str | None = None,
) -> NkiInstruction:
    """MXFP8: divide groups of ``src`` by a power of two each, and pack the quotients, rounded to fp8, into ``dst``.

    ``src`` is (32, 64, 96 or 128, 4 N), float16 or bfloat16; ``dst`` has as many partitions and N packed elements of
    float8_e4m3fn_x4 or float8_e5m2_x4, each made of four neighbours of ``src``. A group is 8 partitions of one packed
    element. Its scale is ``2 ** (floor(log2(largest magnitude)) - (E - 1))``, with E = 8 for float8_e4m3fn and 15 for
    float8_e5m2: twice the scale of the OCP specification's sample conversion, so that rounding never leaves the format.
    Up to NKI 0.4 it is that conversion's scale, and quotients beyond the format are its largest number (release notes
    of NKI 0.5, "Improvements"). It is at least 2 ** -127, also for a group of zeros. ``dst_scale`` (float8_e8m0fnu, or
    uint8 for its codes) gets the scales of 32 partitions on four partitions of their quadrant; see
    ``nisa.nc_matmul_mx``. All in SBUF; gen4.

    The reference leaves open what infinities and NaNs do: here they count as the exponent 128, and are rounded to what
    the format has for them.
    """

def reciprocal(
    dst: _Tile,
    data: _Tile,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = 1 / data``, element by element, in float32 on the Vector engine (correctly rounded)."""

def register_move(
    dst: _Tile,
    src: int | _Tile,
) -> NkiInstruction:
    """``dst = src``: a whole number of 32 bits, or the contents of another register."""

def register_load(
    dst: _Tile,
    src: _Tile,
) -> NkiInstruction:
    """``dst = src``: one element of a tensor in SBUF or HBM.

    Integers narrower than the register keep their value. Of a float32 the register holds the bits, which as a loop
    bound or an index would be read as an integer.
    """

def register_store(
    dst: _Tile,
    src: _Tile,
) -> NkiInstruction:
    """``dst = src``: the register's low bits, as many as an element of ``dst`` in SBUF or HBM has."""

def rng(
    dst: _Tile,
    engine: _engine = _engine.vector,
    name: str | None = None,
) -> NkiInstruction:
    """Fill ``dst``, an integer tile, with random bits: the low ones of a 32-bit number for each element.

    ``engine`` is ``vector`` (default) or, on gen3 and later and in SBUF, ``gpsimd``; each has generators of its own.
    """

def rand2(
    dst: _Tile,
    min: float | _Tile,
    max: float | _Tile,
    name: str | None = None,
) -> NkiInstruction:
    """Fill ``dst`` with random numbers spread evenly from ``min`` to ``max``; gen4.

    ``min`` and ``max`` are numbers or float32 tiles ``(partitions, 1)``. A float32 number is ``min + u * (max - min)``,
    each step rounded, and at most ``max``; u is a multiple of 2**-24 from 0 to 1, below 1. It is rounded once to the
    dtype of ``dst``, which may be an integer.
    """

def dropout(
    dst: _Tile,
    data: _Tile,
    prob: float | _Tile,
    name: str | None = None,
) -> NkiInstruction:
    """``data`` with elements replaced by 0, each with the probability ``prob``: 1.0 drops all, 0.0 keeps all.

    ``prob`` is a number or a tile ``(partitions, 1)``: float32 where ``data`` is an integer, else of any float dtype.
    ``dst`` has the dtype of ``data``; what is kept keeps its bits and is not scaled. An element is dropped if a random
    multiple of 2**-24 from 0 to 1, below 1, is below ``prob`` (or ``prob`` is NaN).
    """

def set_rng_seed(
    src_seeds: _Tile,
    name: str | None = None,
) -> NkiInstruction:
    """Set all generators of the Vector engine from one 32-bit number in a ``(1, 1)`` tile.

    The bits of ``src_seeds`` count, whatever its dtype. Word w of lane p becomes mix((24 p + w + 1) * 0x9E3779B9 +
    mix(seed)) in wrapping arithmetic, where mix is the end of MurmurHash3. Every kernel starts as with the seed 0.
    """

def rand_set_state(
    src_seeds: _Tile,
    engine: _engine = _engine.gpsimd,
    name: str | None = None,
) -> NkiInstruction:
    """Set an engine's generators, in the lanes of ``src_seeds``, to the words in its partitions; gen3 and later.

    ``src_seeds`` is a uint32 tile in SBUF: ``(partitions, 6)`` for GpSimd (default), ``(partitions, 24)`` for the
    Vector engine (gen4): its four generators follow one another. A generator's words are x, y, z, w, v and d of
    XORWOW.
    """

def rand_get_state(
    dst: _Tile,
    engine: _engine = _engine.gpsimd,
    name: str | None = None,
) -> NkiInstruction:
    """Copy the words of an engine's generators, in the lanes of ``dst``, to its partitions; gen3 and later.

    ``dst`` is a uint32 tile as ``nisa.rand_set_state`` takes it; for the Vector engine (gen4) it may be in PSUM.
    """

def scalar_store(
    dst: _Tile,
    value: _Tile,
) -> NkiInstruction:
    """``dst = value``: a scalar to one element of a tensor in SBUF or HBM, of the scalar's dtype.

    ``value`` is a scalar; a number is written with ``nisa.memset``, a register with ``nisa.register_store``.
    """

def select_reduce(
    dst: _Tile,
    predicate: _Tile,
    on_true: _Tile,
    on_false: float | _Tile,
    reduce_res: _Tile | None = None,
    reduce_cmd: _reduce_cmd = _reduce_cmd.idle,
    reduce_op: _Op = ...,
    reverse_pred: bool = False,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = on_true`` where ``predicate`` is not zero, ``on_false`` elsewhere, and the maximum of these elements.

    ``reverse_pred`` swaps the two cases. ``on_false`` is a number or a tile ``(partitions, 1)``. The tiles agree on
    partitions and on elements per partition, not on how those are arranged; ``on_true`` and ``predicate`` are not both
    in PSUM. ``predicate`` is an integer of at most 16 bits or a bool. The maximum is taken of the float32 values before
    they are rounded to ``dst``, and goes through the Vector engine's reduction registers: ``reset_reduce`` begins with
    -inf, ``reduce`` with what they hold. After ``idle`` their contents are unknown: NaN here. ``reduce_res``, a float
    tile ``(partitions, 1)``, receives the registers afterwards.
    """

def range_select(
    dst: _Tile,
    on_true_tile: _Tile,
    comp_op0: _Op,
    comp_op1: _Op,
    bound0: float | _Tile,
    bound1: float | _Tile,
    reduce_cmd: _reduce_cmd = _reduce_cmd.reset_reduce,
    reduce_res: _Tile | None = None,
    reduce_op: _Op = ...,
    range_start: int = 0,
    on_false_value: float = ...,
    name: str | None = None,
) -> NkiInstruction:
    """``dst[p, i] = on_true_tile[p, i]`` where both comparisons of ``range_start + i`` hold, else the smallest float32.

    They are ``comp_op0`` with ``bound0[p]`` and ``comp_op1`` with ``bound1[p]``, in float32; a bound is a float32 tile
    ``(partitions, 1)`` or, as kernels in use have it, a number. ``on_false_value`` can be no other number than the
    smallest float32, however it is written. The maximum of the float32 results, before they are rounded to ``dst``,
    goes through the Vector engine's reduction registers: ``reset_reduce`` begins with -inf, ``reduce`` with what they
    hold, ``reset`` leaves -inf and ``idle`` what was there. ``reduce_res``, a ``(partitions, 1)`` tile, receives the
    registers afterwards; if ``dst`` is narrower than float32, where the smallest float32 becomes -inf there, keep it in
    float32. Since NeuronCore-v3.
    """

def sendrecv(
    src: _Tile,
    dst: _Tile,
    send_to_rank: int,
    recv_from_rank: int,
    pipe_id: int,
    dma_engine: _dma_engine = _dma_engine.dma,
    name: str | None = None,
) -> NkiInstruction:
    """Send ``src`` to core ``send_to_rank`` while receiving ``dst`` from core ``recv_from_rank``.

    Both are SBUF tiles of one shape and dtype; of the cores that exchange, each calls it. An exchange is done when both
    sides are; exchanges of one ``pipe_id`` happen in the order of the program, and ``pipe_id`` tells which of several
    belong together. ``dma_engine.gpsimd_dma`` is faster and moves at most 1024 bytes per partition of a 32-bit dtype
    (512 of a 16-bit one, 256 of an 8-bit one). A core that names itself on both sides copies. Since NeuronCore-v3.
    """

def sequence_bounds(
    dst: _Tile,
    segment_ids: _Tile,
    name: str | None = None,
) -> NkiInstruction:
    """For each element of ``segment_ids``, the first position of its run of equal neighbours and the one behind it.

    ``segment_ids`` has one partition of n elements, ``dst`` the shape ``(1, 2, n)``: the beginnings, then the ends. An
    element that is 0 pads, and gets n and -1. Tiles are in SBUF, float32 or int32; positions are rounded once to a
    float32 ``dst``.
    """

def tensor_copy(
    dst: _Tile,
    src: _Tile,
    engine: _engine = _engine.unknown,
    name: str | None = None,
) -> NkiInstruction:
    """Copy the tile ``src`` to ``dst`` within SBUF and PSUM.

    Same partitions and elements per partition, shapes may differ. Equal dtypes are copied bit for bit; otherwise each
    element passes through float32. GpSimd cannot reach PSUM; the Scalar engine of gen2 has no such instruction. On gen4
    both tiles may be indirect views, except on GpSimd.
    """

def memset(
    dst: _Tile,
    value: float,
    engine: _engine = _engine.unknown,
    name: str | None = None,
) -> NkiInstruction:
    """Fill every element of ``dst`` with the compile-time constant ``value``, rounded once to its dtype.

    Packed tiles (``float8_e5m2_x4``, …) are filled with 0 only, float8_e8m0fnu, which has no 0, with powers of two.
    """

def tensor_copy_predicated(
    dst: _Tile,
    src: float | _Tile,
    predicate: _Tile,
    reverse_pred: bool = False,
    name: str | None = None,
) -> NkiInstruction:
    """Copy ``src`` (a tile like ``dst``, or a number) to ``dst`` where ``predicate`` is not zero; leave the rest.

    ``reverse_pred`` copies where it is zero. ``src`` has the dtype of ``dst``; ``predicate`` is uint8, uint16 or
    uint32. ``src`` and ``predicate`` are not both in PSUM. On gen4 ``dst`` and ``predicate`` may be indirect views:
    only what the predicate chooses is scattered.
    """

def tensor_reduce(
    dst: _Tile,
    op: _Op,
    data: _Tile,
    axis: int | _Sequence[int],
    negate: bool = False,
    keepdims: bool = False,
    name: str | None = None,
) -> NkiInstruction:
    """Fold the last dimensions of ``data`` with ``op``, partition by partition.

    ``axis`` is one or more trailing dimensions, never dimension 0; ``dst`` holds the remaining elements (``keepdims``
    leaves ones in the shape, which changes nothing in memory). Arithmetic operators fold float32 strictly from left to
    right, starting with the first element; ``negate`` flips the sign of the result. Bit operators take integers of one
    width. On gen4 both tiles may be indirect views.
    """

def tensor_partition_reduce(
    dst: _Tile,
    op: _Op,
    data: _Tile,
    name: str | None = None,
) -> NkiInstruction:
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
) -> NkiInstruction:
    """``dst = (data <op0> operand0) <op1> operand1``, operands repeated along the free dimensions.

    An operand is a number or a float32 tile ``(partitions, 1)``. ``reverse0``/``reverse1`` swap the sides of an
    operator. Both operators are arithmetic (each rounds to float32, the result is converted once) or both work on bits
    (integer tiles and numbers of one width, Vector engine only; bits are stored as they are). With an ``op0`` of one
    operand, ``operand0`` is None or 0 (with ``nl.bypass`` it may be anything). GpSimd runs only ``nl.rsqrt`` and
    ``nl.power``, alone or with add or multiply, and is preferred for them; the Scalar engine of gen3 multiply, add, and
    multiply followed by add, gen4's all arithmetic (Trainium3 guide: "natively", as Vector). On gen4 ``dst`` and
    ``data`` may be indirect views, except in arithmetic on 32-bit integers.
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
) -> NkiInstruction:
    """``dst = (data <op0> operand0) <op1> operand1`` with ``operand0`` a number or ``(partitions, 1)`` tile and
    ``operand1`` a tile like ``data``.

    Arithmetic operators only, in float32. ``data`` and ``operand1`` are not both in PSUM.
    """

def tensor_scalar_reduce(
    dst: _Tile,
    data: _Tile,
    op0: _Op,
    operand0: float | _Tile | None,
    reduce_op: _Op,
    reduce_res: _Tile | None = None,
    reverse0: bool = False,
    reduce_cmd: _reduce_cmd = _reduce_cmd.reset_reduce,
    reduce_init: float | _Tile | None = None,
    reduce_res_negate: bool = False,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = data <op0> operand0``, and the fold of these results with ``reduce_op`` over the free dimensions.

    ``op0`` is an arithmetic operator; ``operand0`` is a number or a float32 tile ``(partitions, 1)``, None or 0 for
    operators of one operand. The fold (add, multiply, maximum or minimum) goes through the Vector engine's reduction
    registers: ``reset_reduce`` begins anew (with 0, 1, -inf or +inf), ``reduce`` goes on from what they hold,
    ``load_reduce`` from ``reduce_init``, a number or a float32 tile ``(partitions, 1)``. It takes the float32 results
    before they are rounded to ``dst``, one after the other. ``reduce_res``, a ``(partitions, 1)`` tile, receives the
    registers afterwards, with ``reduce_res_negate`` with the other sign; without it they only keep the result. On gen4
    ``dst`` and ``data`` may be indirect views.
    """

def tensor_scalar_cumulative(
    dst: _Tile,
    src: _Tile,
    op0: _Op,
    op1: _Op,
    imm0: float | _Tile,
    imm1: float | _Tile | None = None,
    reduce_cmd: _reduce_cmd = _reduce_cmd.reset_reduce,
    name: str | None = None,
) -> NkiInstruction:
    """Running results: ``reg = (src[i] <op0> imm0) <op1> reg; dst[i] = reg``, partition by partition, in float32.

    ``op0`` is an arithmetic operator, ``op1`` add, subtract, multiply, maximum or minimum. ``reg`` is the Vector
    engine's reduction register: ``reset_reduce`` begins with 0, 1, -inf or +inf, whichever fits ``op1``; ``reduce``
    with what the register holds; ``load_reduce`` with ``imm1``, which the other commands ignore. Both immediates are
    numbers or float32 tiles ``(partitions, 1)``. The register is not rounded to ``dst``. 32-bit integers and tfloat32
    are not supported. On gen4 ``dst`` and ``src`` may be indirect views.
    """

def tensor_tensor(
    dst: _Tile,
    data1: _Tile,
    data2: _Tile,
    op: _Op,
    engine: _engine = _engine.unknown,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = data1 <op> data2``, element by element.

    All tiles have the same partitions and elements per partition; the inputs are not both in PSUM. Arithmetic operators
    compute in float32, with one exception: sums, products, extremes and comparisons of tiles that are all int32 or
    uint32 run on GpSimd in exact integers and keep 32 bits, unless ``engine`` says Vector or a tile is in
    PSUM. Bit operators take integers of one width and store bits. ``nl.power`` runs on GpSimd, so all its tiles are in
    SBUF. On gen4 ``dst`` and ``data1`` may be indirect views.
    """

def tensor_tensor_scan(
    dst: _Tile,
    data0: _Tile,
    data1: _Tile,
    initial: float | _Tile,
    op0: _Op,
    op1: _Op,
    reverse0: bool = False,
    reverse1: bool = False,
    name: str | None = None,
) -> NkiInstruction:
    """``state = (data0[i] <op0> state) <op1> data1[i]; dst[i] = state``, partition by partition, from ``initial``.

    ``initial`` is a number or a tile ``(partitions, 1)``; both operators are arithmetic ones of two operands.
    ``reverse0`` puts the state on the left of ``op0``, ``reverse1`` puts ``data1`` on the left of ``op1``. The state is
    float32; only what is written to ``dst`` is rounded. ``data0`` and ``data1`` are not both in PSUM.
    """

def topk(
    val_dst: _Tile,
    idx_dst: _Tile,
    src: _Tile,
    n: int,
    name: str | None = None,
) -> NkiInstruction:
    """The K largest of ``n`` numbers, and their positions, for each group of 16 partitions.

    A group's numbers lie in its 16 partitions of ``src`` column by column: number s is in partition s % 16, element
    s // 16. Of its first ``n`` the K largest go to ``val_dst`` in ascending order, and their numbers s to ``idx_dst``,
    both laid out in the same way; the rest of ``val_dst`` and ``idx_dst`` is left alone. K is the elements per
    partition of ``val_dst``, so that a sixteenth of it is used. Tiles are in SBUF: ``src`` and ``val_dst`` bfloat16,
    ``idx_dst`` uint32. Of equal numbers the one that stands earlier counts as the larger; -0 is below +0 and NaN above
    all. (The reference leaves ties open; that results are spread over the group shows in the kernels of the vendor's
    library, which rely on neither order.)
    """

__all__ = [
    "NkiInstruction",
    "NkiScalar",
    "NkiValidationError",
    "VirtualRegister",
    "activate2",
    "activation",
    "activation_reduce",
    "affine_select",
    "bn_aggr",
    "bn_stats",
    "core_barrier",
    "dge_mode",
    "dma_compute",
    "dma_copy",
    "dma_engine",
    "dma_transpose",
    "dropout",
    "engine",
    "exponential",
    "get_nc_sub_version",
    "get_nc_version",
    "gpsimd_engine",
    "iota",
    "local_gather",
    "matmul_perf_mode",
    "max8",
    "memset",
    "nc_find_index8",
    "nc_match_replace8",
    "nc_matmul",
    "nc_matmul_mx",
    "nc_n_gather",
    "nc_stream_shuffle",
    "nc_transpose",
    "nc_version",
    "nonzero_with_count",
    "oob_mode",
    "quantize_mx",
    "rand2",
    "rand_get_state",
    "rand_set_state",
    "range_select",
    "reciprocal",
    "reduce_cmd",
    "register_alloc",
    "register_load",
    "register_move",
    "register_store",
    "rng",
    "scalar_engine",
    "scalar_load",
    "scalar_store",
    "scalar_tensor_tensor",
    "select_reduce",
    "sendrecv",
    "sequence_bounds",
    "set_rng_seed",
    "tensor_copy",
    "tensor_copy_predicated",
    "tensor_engine",
    "tensor_partition_reduce",
    "tensor_reduce",
    "tensor_scalar",
    "tensor_scalar_cumulative",
    "tensor_scalar_reduce",
    "tensor_tensor",
    "tensor_tensor_scan",
    "topk",
    "unknown_engine",
    "vector_engine",
]
