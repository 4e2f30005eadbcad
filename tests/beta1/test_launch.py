"""Launches: modes, grids, sub-kernels, trailing outputs, mutable arguments, frameworks."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import neuronxcc.nki.typing as nt
from neuronxcc import nki
from neuronxcc.nki import baremetal, benchmark, simulate_kernel
from nki.base.errors import NkiError
from nki.base.warning import NkiPortabilityWarning, NkiWarning
from nki.ir.estimate import Dma
from nki.profiling.kernel_profile import profile as predict


@nki.jit
def double(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x) * 2)
    return out


@pytest.mark.parametrize("mode", ["auto", "jax", "torchxla", "baremetal", "simulation", "trace"])
def test_each_mode_of_jit_runs(mode: str, data: Any) -> None:
    x = data(4, 8)
    assert (nki.jit(double, mode=mode)(x) == 2 * x).all()


def test_an_unknown_mode_is_an_error() -> None:
    with pytest.raises(NkiError, match="no mode 'fast'"):
        nki.jit(double, mode="fast")


def test_harnesses_run_the_kernel(data: Any) -> None:
    x = data(4, 8)
    measured = benchmark(warmup=1, iters=2)(double)
    assert (measured(x) == 2 * x).all()
    with pytest.warns(NkiPortabilityWarning, match="says nothing of Trainium"):
        assert measured.benchmark_result.nc_latency.get_latency_percentile(50) > 0
    assert (baremetal(double)(x) == 2 * x).all()
    assert (simulate_kernel(baremetal(double), x) == 2 * x).all()


@nki.jit
def which(x):
    out = nl.ndarray((nl.num_programs(0), nl.num_programs(1), 1, 1), dtype=np.int32, buffer=nl.shared_hbm)
    assert nl.program_ndim() == 2
    tile = nl.full((1, 1), nl.program_id(0) * 10 + nl.program_id(1), dtype=np.int32)
    nl.store(out[nl.program_id(0), nl.program_id(1)], tile)
    return out


@nki.jit
def numbered(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows = nl.ds(nl.program_id(0) * 4, 4)
    nl.store(out[rows], nl.load(x[rows]) + nl.program_id(0))
    return out


@pytest.mark.parametrize(
    "launched",
    [
        lambda x: numbered[2](x),
        lambda x: numbered[[x.shape[0] // 4]](x),
        lambda x: numbered[(nl.nc(2),)](x),
        lambda x: numbered[nl.spmd_dim(2)](x),
        lambda x: numbered[2, 1](x),
    ],
)
def test_grids_in_a_graph_of_pytorch(launched: Any) -> None:
    torch = pytest.importorskip("torch")
    x = torch.arange(48.0).reshape(8, 6)
    want = x + torch.tensor([0.0, 1.0]).repeat_interleave(4)[:, None]
    compiled = torch.compile(launched, backend="eager", fullgraph=True)
    assert torch.equal(compiled(x), want)
    assert torch.equal(compiled(x), want)
    assert torch.equal(launched(x), want)


@pytest.mark.parametrize("grid", [((1, 2, 3),), ("4", 2), (2.0,), None, (True,)])
def test_a_grid_of_other_things_is_an_error(grid: Any) -> None:
    with pytest.raises(NkiError, match="an axis is no positive number"):
        numbered[grid]


def test_a_kernel_on_a_grid_keeps_its_mode_and_is_kept() -> None:
    simulated = nki.jit(numbered, mode="simulation")
    assert simulated[2].mode == "simulation"
    assert simulated[2] is simulated[(2,)]
    assert simulated[2] is not simulated[nl.nc(2)]


@pytest.mark.parametrize("grid", [(3, 2), (nl.spmd_dim(3, nl.nc(1)), 2), (nl.nc(1) * 3, 2)])
def test_every_program_of_a_grid_runs(both: Any, grid: Any) -> None:
    want = [[[[0]], [[1]]], [[[10]], [[11]]], [[[20]], [[21]]]]
    assert both(which[grid], np.zeros((1, 1), np.float32)).tolist() == want


@nki.jit
def whose(x):
    """Each program adds its number to its row."""
    out = nl.ndarray((nl.num_programs(0), nl.num_programs(1), *x.shape), dtype=x.dtype, buffer=nl.shared_hbm)
    i, j = nl.program_id(0), nl.program_id(1)
    nl.store(out[i, j], nl.load(x) + (10 * i + j))
    return out


@pytest.mark.parametrize(
    ("axis", "first"),
    [
        (nl.spmd_dim(nl.nc(2), 2), [0, 1]),
        (nl.nc(2) * 2, [0, 1]),
        (nl.spmd_dim(2, nl.nc(2)), [0, 2]),
        (2 * nl.nc(2), [0, 2]),
        (nl.spmd_dim(2, nl.nc(2), 1), [0, 2]),
    ],
)
def test_cores_share_the_programs_of_a_grid(both: Any, data: Any, axis: Any, first: list[int]) -> None:
    x = data(4, 8)
    want = np.stack([[x + np.float32(10 * i + j) for j in range(3)] for i in range(4)])
    assert np.allclose(both(whose[axis, 3], x), want)
    transposed = np.stack([[x + np.float32(10 * i + j) for j in range(4)] for i in range(3)])
    assert np.allclose(both(whose[3, axis], x), transposed)
    program = whose[axis, 3].compile(x).kernel
    assert len(program.cores) == 2
    stores = [[i for i in core.instructions() if i.mnemonic == "dma_copy"] for core in program.cores]
    offsets = [sorted({a.offset // (3 * 4 * 8) for i in c for a in i.writes() if a.buffer.is_hbm}) for c in stores]
    assert offsets == [first, sorted({*range(4)} - {*first})]


def test_two_cores_need_half_the_time() -> None:
    x = np.zeros((128, 2048), np.float32)
    one = predict(whose[4, 2], target="trn2")(x)
    two = predict(whose[nl.nc(2) * 2, 2], target="trn2")(x)
    assert len(two.cores) == 2
    assert 0.4 < two.device_time / one.device_time < 0.8
    assert len(predict(whose[nl.nc(2) * 2, 2], target="trn1")(x).cores) == 1


def descriptors(kernel: Any, x: Any) -> set[str]:
    """The generators of the transfers of ``kernel`` on trn2."""
    predicted = predict(kernel, target="trn2")(x)
    return {e.dge for core in predicted.cores for e in core.estimates if isinstance(e, Dma)}


@pytest.mark.parametrize("flag", ["--disable-internal-io-dge", "-O1 --disable-dge"])
def test_options_of_the_compiler_turn_generated_descriptors_off(data: Any, monkeypatch: Any, flag: str) -> None:
    x = data(128, 64)
    assert descriptors(nki.jit(double), x) == descriptors(nki.jit(double, additional_compile_opt="-O1"), x) == {"sync"}
    static = nki.jit(additional_compile_opt=flag)(double)
    assert descriptors(static, x) == descriptors(nki.jit(static), x) == {""}
    assert (static(x) == 2 * x).all()
    assert descriptors(baremetal(additional_compile_opt=flag)(double).kernel, x) == {""}
    many = nki.jit(whose, additional_compile_opt=flag)
    assert descriptors(many[3, 2], x) == {""}
    assert np.array_equal(many[3, 2](x), whose[3, 2](x))
    monkeypatch.setenv("NEURON_CC_FLAGS", flag)
    assert descriptors(nki.jit(double.func), x) == {""}


@pytest.mark.parametrize("grid", [lambda: (nl.nc(2), nl.nc(2)), lambda: (nl.nc(2) * nl.nc(2), 3)])
def test_cores_are_on_one_axis(grid: Any) -> None:
    with pytest.raises(NkiError, match=r"nl\.nc"):
        whose[grid()]


def test_without_a_grid_there_are_no_axes(both: Any, data: Any) -> None:
    @nki.jit
    def kernel(x):
        assert nl.program_ndim() == 0
        assert nl.program_id(0) == 0
        return double(x)

    x = data(2, 2)
    assert (both(kernel, x) == 2 * x).all()


@nki.jit(kernel_return=False)
def into_arguments(x, first, second=None):
    tile = nl.load(x)
    nl.store(first, tile + 1)
    nl.store(second, tile - 1)


def test_trailing_outputs_are_written(data: Any) -> None:
    x = data(4, 8)
    for run in (into_arguments, lambda *a, **k: simulate_kernel(into_arguments, *a, **k)):
        first, second = np.zeros_like(x), np.zeros_like(x)
        run(x, first, second=second)
        assert (first == x + 1).all()
        assert (second == x - 1).all()


@nki.jit
def increment(x: nt.mutable_tensor):
    nl.store(x[0:1], nl.load(x[0:1]) + 1)
    return x


def test_a_mutable_argument_changes(data: Any) -> None:
    x = data(3, 4)
    want = x.copy()
    want[0] += 1
    assert (increment(x) == want).all()
    assert (x == want).all()


def test_a_mutable_argument_has_to_be_returned(data: Any) -> None:
    @nki.jit
    def kernel(x: nt.mutable_tensor):
        nl.store(x, nl.load(x))
        return double(x)

    with pytest.raises(NkiError, match="mutable_parameter_not_returned"):
        kernel(data(2, 2))


@nki.trace
def shifted(tile, by, out):
    out[...] = nl.add(tile, by)


def plain_helper(tile):
    return nl.negative(tile)


def test_sub_kernels_helpers_and_imports_in_bodies(both: Any, data: Any) -> None:
    @nki.jit
    def kernel(x):
        import neuronxcc.nki.isa as inner_isa
        from neuronxcc.nki.language import par_dim

        def local(tile):
            return inner_isa.tensor_copy(tile)

        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray((par_dim(4), 8), dtype=x.dtype, buffer=nl.sbuf)
        shifted(nl.load(x), 2.0, tile)
        nl.store(out, local(plain_helper(tile)))
        return out

    x = data(4, 8)
    assert (both(kernel, x) == -(x + 2)).all()


def test_several_outputs_come_as_a_tuple(both: Any, data: Any) -> None:
    @nki.jit
    def kernel(x):
        one = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        two = nl.ndarray(x.shape, dtype=nl.bfloat16, buffer=nl.shared_hbm)
        tile = nl.load(x)
        nl.store(one, tile)
        nl.store(two, tile)
        return one, two

    x = data(4, 8)
    one, two = both(kernel, x)
    assert (one == x).all()
    assert (two == x.astype(nl.bfloat16)).all()


def test_dtypes_are_constants_of_a_call(both: Any, data: Any) -> None:
    @nki.jit
    def kernel(x, dtype):
        out = nl.ndarray(x.shape, dtype=dtype, buffer=nl.shared_hbm)
        assert np.dtype(dtype).itemsize == 2
        nl.store(out, nl.load(x, dtype=dtype))
        return out

    x = data(4, 8)
    assert both(kernel, x, np.dtype(np.float16)).dtype == np.float16
    assert both(kernel, x, nl.bfloat16).dtype == nl.bfloat16


def test_arrays_of_frameworks(data: Any) -> None:
    torch = pytest.importorskip("torch")
    jax = pytest.importorskip("jax")
    x = data(4, 8)
    assert torch.equal(double(torch.from_numpy(x)), torch.from_numpy(2 * x))
    assert (np.asarray(jax.jit(double)(x)) == 2 * x).all()


def test_the_names_of_the_package() -> None:
    import neuronxcc.nki.compiler as ncc
    from neuronxcc.nki.isa.constants import engine
    from neuronxcc.nki.language import arange, mgrid, par_dim
    from neuronxcc.nki.language.constants import sizeinbytes

    assert nl.float32 is np.float32
    assert nl.bfloat16 == np.dtype("bfloat16")
    assert sizeinbytes(nl.bfloat16) == 2
    assert par_dim(128) * 2 == 256
    assert nl.tile_size.pmax == 128
    assert ncc.sbuf.auto_alloc() is nl.sbuf
    assert engine.tensor is not engine.vector
    assert arange(4)[:, None].shape == mgrid[0:4, 0:1].p.shape


def test_logging_has_the_level_that_published_kernels_use() -> None:
    """Courses write ``logging.disable(logging.OFF)`` behind the import of Beta 1."""
    assert vars(logging)["OFF"] > logging.CRITICAL


def test_arguments_of_a_benchmark_may_be_shapes() -> None:
    @nki.benchmark(warmup=0, iters=1)
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.exp(nl.load(x)))
        return out

    result = np.asarray(kernel(nt.tensor[[8, 16], nl.bfloat16]))
    assert result.shape == (8, 16)
    assert result.dtype == nl.bfloat16
    assert (result == 1).all()


def test_a_return_that_ends_the_body_of_a_loop_comes_behind_it(both: Any, data: Any) -> None:
    @nki.jit  # noqa: RET503  # as published kernels are
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        for i in nl.affine_range(3):
            nl.store(out[i], nl.load(x[i]))
            return out

    x = data(3, 8, 4)
    assert (both(kernel, x) == x).all()


def test_an_output_that_is_never_stored_to(data: Any) -> None:
    @nki.jit
    def kernel(x):
        result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.exp(nl.load(x))
        return result

    message = r"never stores to it(.|\n)*buffer=nl.shared_hbm(.|\n)*nl.store.result, tile"
    with pytest.warns(NkiWarning, match="is not used"), pytest.raises(NkiError, match=message):
        kernel(data(8, 8))


def test_annotations_of_variables_are_checked(both: Any, data: Any) -> None:
    @nki.jit
    def kernel(x, n):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile: nt.tensor[n, 8] = nl.load(x)
        other: Missing[int] = nl.exp(tile)  # noqa: F821  # Python does not evaluate it
        nl.store(out, other)
        return out

    x = data(8, 8)
    np.testing.assert_allclose(both(kernel, x, 8), np.exp(x), rtol=1e-5)
    with pytest.raises(NkiError, match=r"annotation_shape_mismatch: 'tile' has the shape .8, 8., not .7, 8."):
        kernel(x, 7)


def test_a_tensor_is_no_number_of_python(data: Any) -> None:
    @nki.jit
    def kernel(x):
        for _ in range(nl.load(x[0:1, 0:1])):
            pass
        return x

    with pytest.raises(NkiError, match=r"dynamic_control_flow: the tensor 'load' .1, 1. is used as a number of Python"):
        kernel(data(8, 8))


def _queues(kernel: Any, target: str, *args: Any) -> list[tuple[str, str]]:
    program = predict(kernel, target=target)(*args).program
    return [(inst.mnemonic, inst.queue) for inst in program.instructions()]


@nki.jit
def scaled_by_a_row(x, row):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    factor = nl.load(row).broadcast_to(x.shape)
    nl.store(out, nl.multiply(nl.load(x), factor))
    return out


@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_a_row_is_repeated_by_the_tensor_engine(target: str) -> None:
    """The architecture guide says so; Scalar evicts, as Vector runs no copies in the mamba tutorial's profile."""
    queues = _queues(scaled_by_a_row, target, np.zeros((128, 1024), np.float32), np.zeros((1, 1024), np.float32))
    assert [queue for name, queue in queues if name == "nc_matmul"] == ["tensor"] * 2
    assert [queue for name, queue in queues if name == "activation"] == ["scalar"] * 2
    assert sum(name == "dma_copy" for name, _ in queues) == 3, "two loads and a store"


@nki.jit
def copied_by_scalar(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nisa.tensor_copy(nl.load(x), engine=nisa.scalar_engine))
    return out


@pytest.mark.parametrize(("target", "name"), [("trn1", "activation"), ("trn2", "tensor_copy")])
def test_a_copy_on_scalar(target: str, name: str) -> None:
    assert (name, "scalar") in _queues(copied_by_scalar, target, np.zeros((128, 64), np.float32))


def test_a_description_of_a_tensor_is_an_argument() -> None:
    """Harnesses measure kernels with ``nt.tensor[shape, dtype]`` instead of arrays."""
    described = nt.tensor[[128, 64], nl.bfloat16]
    assert predict(copied_by_scalar, target="trn2")(described).hbm_bytes == 2 * 128 * 64 * 2
    measured = nki.benchmark(warmup=1, iters=2)(copied_by_scalar)
    assert measured(described).shape == (128, 64)
    assert measured.benchmark_result.nc_latency is not None


@nki.jit
def mixed(x, cache, more):
    out = nl.ndarray(x.shape, dtype=np.float32, buffer=nl.shared_hbm)
    total = nl.load(x) + nl.load(cache[0]) * nl.load(cache[1])
    for part, factor in more["parts"]:
        total = total + nl.load(part) * factor
    nl.store(out, total)
    return out


@pytest.mark.parametrize("container", [tuple, list])
def test_tensors_in_containers_are_arguments(both: Any, data: Any, container: Any) -> None:
    x, a, b, c, d = (data(8, 6) for _ in range(5))
    got = both(mixed, x, container((a, b)), {"parts": [(c, 3.0), (d, 0.5)]})
    np.testing.assert_allclose(got, x + a * b + c * 3 + d * 0.5, rtol=1e-5, atol=1e-6)


def test_tensors_of_frameworks_in_containers(data: Any) -> None:
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    x, a, b, c = (data(8, 6) for _ in range(4))
    want = mixed(x, (a, b), {"parts": [(c, 2.0)]})
    for convert in (torch.from_numpy, jax.numpy.asarray):
        got = mixed(convert(x), (convert(a), convert(b)), {"parts": [(convert(c), 2.0)]})
        assert type(got) is type(convert(x))
        assert (np.asarray(got) == want).all()
    traced = jax.jit(lambda x, a, b, c: mixed(x, [a, b], {"parts": [(c, 2.0)]}))
    assert (np.asarray(traced(x, a, b, c)) == want).all()


def test_a_kernel_changes_a_tensor_in_a_container(data: Any) -> None:
    @nki.jit
    def kernel(x, outputs):
        nl.store(outputs[0], nl.load(x) * 2)

    for run in (kernel, lambda *args: simulate_kernel(kernel, *args)):
        x, result = data(8, 6), np.zeros((8, 6), np.float32)
        run(x, (result,))
        assert (result == 2 * x).all()


@pytest.mark.parametrize("grid", [None, (1,), nl.nc(2)])
def test_all_reduce_over_the_programs(both: Any, data: Any, grid: Any) -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray((8, 6), dtype=np.float32, buffer=nl.shared_hbm)
        program = nl.program_id(0)
        total = nl.all_reduce(nl.load(x[program]), op=np.add, program_axes=[program])
        if program == 0:
            nl.store(out, total)
        return out

    launched, count = (kernel, 1) if grid is None else (kernel[grid], int(grid if isinstance(grid, int) else 1))
    x = data(count, 8, 6)
    assert (both(launched, x) == x.sum(0, dtype=np.float32)).all()


def test_all_reduce_needs_programs_at_a_time(data: Any) -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=np.float32, buffer=nl.shared_hbm)
        nl.store(out, nl.all_reduce(nl.load(x), op=np.add, program_axes=(0, 1)))
        return out

    with pytest.raises(NkiError, match=r"run one after the other.*\n(.*\n)*.*kernel\[nl.nc\(2\)\]"):
        kernel[2, 2](data(8, 6))


def test_one_program_of_a_grid_stores_the_output(both: Any, data: Any) -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=np.float32, buffer=nl.shared_hbm)
        if nl.program_id(0) == 1 and nl.program_id(1) == 0:
            nl.store(out, nl.load(x))
        return out

    x = data(8, 6)
    assert (both(kernel[2, 2], x) == x).all()


@pytest.mark.parametrize("grid", [(2, 2), nl.nc(2)])
def test_no_program_stores_the_output(data: Any, grid: Any) -> None:
    @nki.jit
    def kernel(x):
        return nl.ndarray(x.shape, dtype=np.float32, buffer=nl.shared_hbm, name="never")

    with pytest.raises(NkiError, match=r"'never'.* never "):
        kernel[grid](data(8, 6))
