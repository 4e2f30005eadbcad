"""What NKI changed from 0.2 to 0.6: the older form runs with a warning, or is refused with the newer one.

Source of the items: the NKI migration guides from 0.2 to 0.6, the NKI release notes, and what the API reference marks
as deprecated.
"""

from __future__ import annotations

import inspect
import re
import warnings

import numpy as np
import pytest

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
from nki.base.errors import NkiError
from nki.base.warning import NkiWarning
from tests.support.kernel_parts import returned

X = np.arange(32 * 32, dtype=np.float32).reshape(32, 32)


def affine_range(x):
    tile = nl.load(x)
    for _ in nl.affine_range(2):
        pass
    return returned(tile)


def sequential_range(x):
    tile = nl.load(x)
    for _ in nl.sequential_range(1, 2):
        pass
    return returned(tile)


def static_range(x):
    tile = nl.load(x)
    for _ in nl.static_range(0, 4, 2):
        pass
    return returned(tile)


def dynamic_range(x):
    tile = nl.load(x)
    for _ in nl.dynamic_range(2):
        nisa.tensor_copy(tile, tile)
    return returned(tile)


def total_available_sbuf_size(x):
    assert nl.tile_size.total_available_sbuf_size > 0
    return returned(nl.load(x))


def psum_fmax(x):
    assert nl.tile_size.psum_fmax == nl.tile_size.psum_bank_fmax
    return returned(nl.load(x))


def engine_constant(x):
    tile = nl.load(x)
    nisa.tensor_copy(tile, tile, engine=nisa.vector_engine)
    return returned(tile)


def dynamic_while(x):
    tile = nl.load(x)
    more = nisa.register_alloc(0)
    while more:
        nisa.tensor_copy(tile, tile)
    return returned(tile)


def output_in_hbm(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.hbm)
    nisa.dma_copy(out, nl.load(x))
    return out


def keyword_only(x, *, flag=True):
    return returned(nl.load(x))


def identity(x):
    flag = True
    if flag is True:
        pass
    return returned(nl.load(x))


def copy_from_psum(x):
    tile = nl.ndarray(x.shape, x.dtype, buffer=nl.psum)
    nisa.tensor_copy(tile, nl.load(x))
    return returned(tile)


def copy_that_converts(x):
    tile = nl.ndarray(x.shape, nl.bfloat16)
    nisa.dma_copy(tile, x, dge_mode=nisa.dge_mode.hwdge)
    return returned(nl.load(x))


def copy_dynamic_source(x):
    tile = nl.load(x)
    nisa.tensor_copy_dynamic_src(tile, tile)
    return returned(tile)


def copy_dynamic_destination(x):
    tile = nl.load(x)
    nisa.tensor_copy_dynamic_dst(tile, tile)
    return returned(tile)


def transpose_to_lower_rank(x):
    tile = nl.ndarray((32, 32), x.dtype)
    nisa.dma_transpose(tile, x.reshape((32, 1, 1, 32)), axes=(3, 1, 2, 0))
    return returned(tile)


def reduce_over_the_last(x):
    tile = nl.load(x).reshape((32, 4, 8))
    result = nl.ndarray((32, 4), x.dtype)
    nisa.tensor_reduce(result, nl.add, tile, axis=1)
    return returned(nl.load(x))


def reshape_to_fewer(x):
    tile = nl.load(x).reshape((32, 16))
    return returned(tile)


def packed_fill(x):
    tile = nl.ndarray(x.shape, nl.float8_e5m2_x4)
    nisa.memset(tile, 1)
    return returned(nl.load(x))


def copy_that_adds(x):
    tile = nl.zeros(x.shape, x.dtype)
    nisa.dma_copy(tile, x, dst_rmw_op=nl.add)
    return returned(tile)


def select_with_offset_third(x):
    tile = nl.load(x)
    nisa.affine_select(tile, [[1, 32]], -5, 0, tile, 0.0, nl.equal)
    wanted = nl.zeros(x.shape, x.dtype)
    nisa.tensor_copy(wanted[:, 5:6], nl.load(x)[:, 5:6])
    nisa.tensor_tensor(tile, tile, wanted, nl.equal)
    nisa.tensor_tensor(tile, tile, nl.load(x), nl.multiply)
    return returned(tile)


def move_of_imm(x):
    register = nisa.register_alloc(0)
    nisa.register_move(register, imm=3)
    return returned(rows_above(x, register))


def move_of_imm_in_a_dictionary(x):
    register = nisa.register_alloc(0)
    arguments = {"dst": register, "imm": 3}
    nisa.register_move(**arguments)
    return returned(rows_above(x, register))


def rows_above(x, three):
    """``x`` if the register holds 3, or something else."""
    tile = nl.load(x)
    nisa.dma_copy(tile[3:4, :], nl.zeros((1, 32), x.dtype))
    nisa.dma_copy(tile[3:4, :], x.ap([[32, 1], [1, 32]], scalar_offset=three, indirect_dim=0))
    return tile


def exchange_by_gpsimd(x):
    tile, other = nl.load(x), nl.ndarray(x.shape, x.dtype)
    nisa.sendrecv(tile, other, 0, 0, 0, use_gpsimd_dma=True)
    return returned(other)


def exchange_by_dma(x):
    tile, other = nl.load(x), nl.ndarray(x.shape, x.dtype)
    nisa.sendrecv(src=tile, dst=other, send_to_rank=0, recv_from_rank=0, pipe_id=0, use_gpsimd_dma=False)
    return returned(other)


def matmul_of_ones(x):
    tile = nl.ndarray(x.shape, nl.float32, buffer=nl.psum)
    nisa.nc_matmul(tile, nl.shared_identity_matrix(32, nl.float32), nl.load(x), is_moving_zero=False)
    return returned(nl.copy(tile))


def matmul_with_flags(x):
    tile = nl.ndarray(x.shape, nl.float32, buffer=nl.psum)
    nisa.nc_matmul(tile, nl.shared_identity_matrix(32, nl.float32), nl.load(x), psumAccumulateFlag=3)
    return returned(nl.copy(tile))


def rsqrt_in_psum(x):
    tile = nl.ndarray(x.shape, x.dtype, buffer=nl.psum)
    nisa.tensor_copy(tile, nl.load(x))
    return returned(nl.rsqrt(tile))


def range_select_fill(x):
    tile = nl.load(x)
    low, high = nl.full((32, 1), 1.0, nl.float32), nl.full((32, 1), 5.0, nl.float32)
    nisa.range_select(tile, tile, nl.greater_equal, nl.less, low, high, on_false_value=0.0)
    return returned(tile)


def channels(x):
    group = ncc.ReplicaGroup([[0]])
    ncc.collective_permute_implicit_current_processing_rank_id(0, group, channel_id=0, num_channels=1)
    return returned(nl.load(x))


def list_argument(x, steps=[1, 1]):  # noqa: B006
    return returned(nl.load(x)[:, 0 : 32 // steps[0]])


WARNED = [
    (affine_range, "0.6", r"`nl\.affine_range` is deprecated.*`range"),
    (sequential_range, "0.6", r"`nl\.sequential_range` is deprecated.*`range"),
    (static_range, "0.6", r"`nl\.static_range` is deprecated.*`range"),
    (dynamic_range, "0.6", r"use nl\.fori_loop"),
    (dynamic_while, "0.6", r"nl\.while_loop"),
    (total_available_sbuf_size, "0.4", "sbuf_fmax_bytes"),
    (psum_fmax, "0.4", "psum_bank_fmax"),
    (engine_constant, "0.6", r"`nisa\.engine\.vector`"),
    (lambda x, tile: nisa.memset(nl.ndarray(x.shape, nl.int32), 2.0), "0.3", "write 2"),
    (lambda x, tile: nisa.dma_copy(tile, x, dge_mode=3), "0.3", r"nisa\.dge_mode\.none"),
    (lambda x, tile: nl.ndarray(x.shape, x.dtype, buffer="sbuf"), "0.3", r"`nl\.sbuf`"),
    (output_in_hbm, "0.3", r"nl\.shared_hbm"),
    (keyword_only, "0.3", "keyword-only"),
    (identity, "0.3", "`==`"),
    (list_argument, "0.3", "`steps` is a list.*tuples"),
    (lambda x, tile: nisa.dma_copy(tile, x, unique_indices=True), "0.3", r"nisa\.dma_compute"),
    (lambda x, tile: nisa.dma_copy(dst=tile, src=x, dst_rmw_op=None), "0.3", r"nisa\.dma_compute"),
    (copy_that_adds, "0.3", r"nisa\.dma_compute"),
    (
        lambda x, tile: nisa.dma_compute(tile, [x, nl.zeros(x.shape, x.dtype)], [1.0, 1.0], nl.add),
        "0.3",
        r"nl\.add, scales",
    ),
    (select_with_offset_third, "0.3", "`offset="),
    (move_of_imm, "0.3", "`src`"),
    (move_of_imm_in_a_dictionary, "0.3", "`src`"),
    (exchange_by_gpsimd, "0.3", r"dma_engine\.gpsimd_dma"),
    (exchange_by_dma, "0.3", r"dma_engine\.dma"),
    (matmul_of_ones, "0.3", "is_moving_onezero"),
    (matmul_with_flags, "0.3", "accumulate"),
    (channels, "0.3", "channel_ids"),
]
"""Kernels, or steps of one, the version that changed them, and what the warning says."""

REFUSED = [
    (copy_from_psum, "0.3", r"nl\.copy"),
    (copy_that_converts, "0.3", r"dge_mode\.swdge"),
    (copy_dynamic_source, "0.4", r"nisa\.tensor_copy"),
    (copy_dynamic_destination, "0.4", r"nisa\.tensor_copy"),
    (transpose_to_lower_rank, "0.4", "dst"),
    (reduce_over_the_last, "0.3", "axis|dst"),
    (reshape_to_fewer, "0.5", "elements"),
    (packed_fill, "0.3", "0"),
    (range_select_fill, "0.3", "smallest float32"),
]
"""Kernels that run no more, since which version, and what the error says to write."""

ACCEPTED = [
    (rsqrt_in_psum, "0.5"),  # GpSimd does not reach PSUM; nl.rsqrt takes another engine then
]
"""Kernels that NKI no longer takes, since which version, and that mean the same as before."""


def outcome(kernel, run):
    """The result of a kernel, or of one that takes a row's step on a tile with the input; and its warnings.

    What is said of a name is said of the function that a kernel is, once in a process: such rows are kernels.
    """

    def stepping(x):
        tile = nl.load(x)
        kernel(x, tile)
        return returned(tile)

    called = stepping if kernel.__name__ == "<lambda>" else kernel
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            return run(called)(X), caught
        except NkiError as error:
            return error, caught


@pytest.mark.parametrize("run", [nki.jit, nki.simulate], ids=["native", "eager"])
@pytest.mark.parametrize(("kernel", "since", "message"), WARNED, ids=lambda v: getattr(v, "__name__", ""))
def test_the_old_form_runs_and_says_what_to_write(kernel, since, message, run):
    found, caught = outcome(kernel, run)
    assert isinstance(found, np.ndarray), str(found)
    assert np.array_equal(found, X)
    texts = list({str(w.message) for w in caught if issubclass(w.category, NkiWarning)})
    assert len(texts) == 1 and re.search(message, texts[0]), texts


@pytest.mark.parametrize("run", [nki.jit, nki.simulate], ids=["native", "eager"])
@pytest.mark.parametrize(("kernel", "since", "message"), REFUSED, ids=lambda v: getattr(v, "__name__", ""))
def test_the_old_form_is_refused_with_the_new_one(kernel, since, message, run):
    found, _ = outcome(kernel, run)
    assert isinstance(found, NkiError)
    assert re.search(message, str(found)), str(found)


@pytest.mark.parametrize("run", [nki.jit, nki.simulate], ids=["native", "eager"])
@pytest.mark.parametrize(("kernel", "since"), ACCEPTED, ids=lambda v: getattr(v, "__name__", ""))
def test_the_old_form_means_the_same(kernel, since, run):
    found, _ = outcome(kernel, run)
    assert isinstance(found, np.ndarray), str(found)


def test_defaults_are_those_of_the_newest():
    defaults = {
        nisa.iota: {"offset": 0},
        nisa.affine_select: {"offset": 0},
        nisa.dma_compute: {"scales": None, "unique_indices": True},
        nl.num_programs: {"axes": 0},
        nl.program_id: {"axis": 0},
        nl.ndarray: {"buffer": nl.sbuf},
        nl.zeros: {"buffer": nl.sbuf},
        nl.sequential_range: {"stop": None, "step": 1},
    }
    for function, wanted in defaults.items():
        parameters = inspect.signature(function).parameters
        assert {name: parameters[name].default for name in wanted} == wanted, function


def prepares(x):
    ncc.all_to_all_v_prepare([x], [x], ncc.ReplicaGroup([[0]]), x)
    return returned(nl.load(x))


def triggers(x):
    ncc.all_gather_v_trigger(None)
    return returned(nl.load(x))


def groups_by_an_operator(x):
    ncc.ReplicaGroup.from_partition_op(2, ncc.rg_partition_op.div, 2)
    return returned(nl.load(x))


@pytest.mark.parametrize("kernel", [prepares, triggers, groups_by_an_operator])
def test_collectives_of_two_steps_came_with_0_7(kernel):
    x = np.zeros((32, 32), np.float32)
    with pytest.raises(NkiError, match=r"came with NKI 0\.7; NKI 0\.6 does not have it"):
        nki.jit(kernel, nki_version="0.6")(x)
    if kernel is groups_by_an_operator:
        assert nki.jit(kernel, nki_version="0.7")(x).shape == x.shape
    else:
        with pytest.raises(NkiError, match=r"NKI-(SH|CC)"):
            nki.jit(kernel, nki_version="0.7")(x)
