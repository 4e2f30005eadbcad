"""Kernels that are interpreted until native code is there: the same bits, the same errors, in threads and processes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.backend.numpy import executor as reference
from nki.base.errors import NkiError
from nki.compilation import work_behind
from nki.compilation.executable import Executable
from nki.compilation.first_call import InterpretedFirst
from nki.harness.benchmark import benchmark
from nki.numerics.llvm_jit import Engine
from tests.kernels.case import CASES
from tests.kernels.test_corpus import bits
from tests.support.kernel_parts import returned

DATA = np.random.default_rng(3).standard_normal((64, 40)).astype(np.float32)
SLICES = 16


@pytest.fixture
def runs(monkeypatch):
    """First calls are interpreted; the kernels that the reference executor has run."""
    monkeypatch.setenv("OPEN_NKI_FIRST_CALL", "interpreted")
    return counted(monkeypatch)


def counted(monkeypatch):
    names = []
    run = reference.run

    def noting(kernel, inputs, *others):
        names.append(kernel.name)
        return run(kernel, inputs, *others)

    monkeypatch.setattr(reference, "run", noting)
    return names


def held(monkeypatch):
    """Let nothing be compiled behind a call."""
    monkeypatch.setattr(work_behind, "begin", lambda job: None)


def scaled():
    @nki.jit
    def scaled(x, factor=2.0):
        tile = nl.load(x)
        nisa.tensor_scalar(tile, tile, nl.multiply, factor, op1=nl.add, operand1=1.0)
        nisa.activation(tile, nl.exp, tile, scale=0.125)
        return returned(tile)

    return scaled


def only_executable(kernel):
    (executable,) = kernel._executables.values()
    return executable


@pytest.mark.parametrize("name", CASES)
def test_the_bits_do_not_tell_who_ran(name, runs, monkeypatch):
    held(monkeypatch)
    case = CASES[name]
    kernel, arguments = case.kernel.varied(), case.arguments()
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", case.targets[-1])
    first = bits(kernel(*arguments))
    executable = only_executable(kernel)
    if all(inst.effects.collective is None for inst in executable.kernel.instructions()):
        assert isinstance(executable, InterpretedFirst)
        assert len(runs) == 1, "the first call was native"
    executable.native()
    assert type(executable) is Executable
    assert bits(kernel(*arguments)) == first
    assert len(runs) <= 1, "the second call was not native"


def test_native_code_follows_by_itself(runs):
    kernel = scaled()
    first = kernel(DATA)
    executable = only_executable(kernel)
    while executable._job is not None and not executable._job.is_done:
        assert not executable._job.has_failed
        threading.Event().wait(0.01)
    count = len(runs)
    assert bits(kernel(DATA)) == bits(first)
    assert len(runs) == count
    assert executable._job is None


def test_floats_of_each_call_count(runs, monkeypatch):
    held(monkeypatch)
    kernel = scaled()
    values = [kernel(DATA, factor) for factor in (2.0, 0.5, -3.0)]
    assert len(runs) == 3
    only_executable(kernel).native()
    for factor, value in zip((2.0, 0.5, -3.0), values, strict=True):
        assert bits(kernel(DATA, factor)) == bits(value)
    assert len(runs) == 3
    assert len(kernel._executables) == 1


def test_inputs_change_in_place(runs, monkeypatch):
    held(monkeypatch)

    @nki.jit
    def doubled(x):
        tile = nl.load(x)
        nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
        nl.store(x, tile)
        return x

    array = DATA.copy()
    assert np.shares_memory(doubled(array), array)
    assert len(runs) == 1
    only_executable(doubled).native()
    doubled(array)
    assert len(runs) == 1
    assert np.array_equal(array, DATA * 4)


def test_two_cores(runs, monkeypatch):
    held(monkeypatch)

    @nki.jit
    def by_core(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        half = x.shape[0] // 2
        rows = slice(nl.program_id(0) * half, nl.program_id(0) * half + half)
        tile = nl.load(x[rows])
        nisa.activation(tile, nl.exp, tile)
        nl.store(out[rows], tile)
        return out

    first = bits(by_core[2](DATA))
    assert len(runs) == 1
    only_executable(by_core[2]).native()
    assert bits(by_core[2](DATA)) == first
    assert len(runs) == 1


@nki.jit
def row_of(x, number):
    index = nisa.register_alloc(nl.load(number))
    out = nl.ndarray((1, x.shape[1]), dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, x.ap([[x.shape[1], 1], [1, x.shape[1]]], scalar_offset=index, indirect_dim=0))
    return out


def test_an_index_out_of_bounds_is_the_same_error(runs, monkeypatch):
    held(monkeypatch)
    kernel = row_of.varied()
    inside, outside = np.array([[63]], np.int32), np.array([[64]], np.int32)
    assert bits(kernel(DATA, inside)) == bits(DATA[63:])
    with pytest.raises(NkiError) as interpreted:
        kernel(DATA, outside)
    assert len(runs) == 2
    only_executable(kernel).native()
    with pytest.raises(NkiError) as native:
        kernel(DATA, outside)
    assert len(runs) == 2
    assert (type(native.value), str(native.value)) == (type(interpreted.value), str(interpreted.value))


def test_printed_once_a_call(runs, monkeypatch, capfd):
    held(monkeypatch)

    @nki.jit
    def printing(x):
        tile = nl.load(x)
        nl.device_print("tile", tile)
        return returned(tile)

    shown = []
    for _ in range(2):
        printing(DATA[:2, :3])
        shown.append(capfd.readouterr().out)
        only_executable(printing).native()
    assert len(runs) == 1
    assert shown[0].count("tile") == 1
    numbers = [re.findall(r"iteration (\d+)", text) for text in shown]
    assert [int(number) for (number,) in numbers] == [int(numbers[0][0]), int(numbers[0][0]) + 1]
    assert re.sub("iteration .", "", shown[0]) == re.sub("iteration .", "", shown[1])


def test_the_error_of_a_compilation_is_raised_by_the_next_call(runs, monkeypatch):
    kernel = scaled()

    def load_all(self, modules, done=None):
        raise RuntimeError("LLVM is ill")

    with monkeypatch.context() as patch:
        patch.setattr("nki.backend.cpu.runtime.routines._routines", {})
        patch.setattr(Engine, "load_all", load_all)
        first = kernel(DATA)
        job = only_executable(kernel)._job
        while not job.has_failed:
            threading.Event().wait(0.01)
        for _ in range(2):
            with pytest.raises(RuntimeError, match="LLVM is ill"):
                kernel(DATA)
    assert bits(kernel(DATA)) == bits(first)
    assert len(runs) == 1
    assert only_executable(kernel)._job is None


@pytest.mark.parametrize("count", [2, 12])
def test_threads_that_call_first_at_one_time(count, runs):
    kernel = scaled()
    begin = threading.Barrier(count)

    def work(number):
        begin.wait()
        return [bits(kernel(DATA + number)) for _ in range(20)]

    with ThreadPoolExecutor(count) as pool:
        results = list(pool.map(work, range(count)))
    only_executable(kernel).native()
    for number, result in enumerate(results):
        assert set(map(tuple, result)) == {tuple(bits(kernel(DATA + number)))}
    assert runs, "no call was interpreted"


def test_who_needs_native_code_gets_it(runs, monkeypatch):
    held(monkeypatch)
    kernel = scaled()
    kernel(DATA)
    executable = only_executable(kernel)
    assert executable._job is not None
    assert executable.linked.cores
    assert executable._job is None
    assert kernel.compile(DATA).linked.cores


def test_measurements_run_native_code(runs):
    benchmark(scaled(), warmup=1, iters=2)(DATA)
    assert not runs
    measured = nki.benchmark(warmup=1, iters=2)(scaled())
    measured(DATA)
    assert len(runs) == 1, "a call, and no measurement"


def test_checked_kernels_are_native_and_simulated(runs):
    kernel = nki.jit(scaled().func, check=True)
    kernel(DATA)
    assert not isinstance(only_executable(kernel), InterpretedFirst)


@pytest.mark.parametrize("variable", ["OPEN_NKI_HAZARDS=0", "NKI_PRECISE_FP=0", "OPEN_NKI_FIRST_CALL=native"])
def test_variables_that_ask_for_native_code(variable, runs, monkeypatch):
    monkeypatch.setenv(*variable.split("="))
    scaled()(DATA)
    assert not runs


@nki.jit
def many(x):
    tile = nl.load(x)
    for width in range(1, SLICES):
        nisa.activation(tile[:, :width], nl.tanh, tile[:, :width], scale=1.0 / width)
        nisa.tensor_scalar(tile[:, width:], tile[:, width:], nl.subtract, 1.0 + width)
    return returned(tile)


@nki.jit
def counted_rounds(x, rounds):
    tile = nl.load(x)
    end = nisa.register_alloc(nl.load(rounds))

    def body(_):
        nisa.tensor_scalar(tile, tile, nl.multiply, 1.5)

    nl.fori_loop(0, end, body)
    return returned(tile)


def test_what_takes_less_time(monkeypatch):
    """The estimates decide: routines in memory need no LLVM, much data and unknown rounds take the executor long."""
    monkeypatch.delenv("OPEN_NKI_FIRST_CALL")
    held(monkeypatch)
    runs = counted(monkeypatch)
    monkeypatch.setattr("nki.backend.cpu.runtime.routines._routines", {})
    many.varied()(DATA)
    assert len(runs) == 1
    kernel = many.varied()
    kernel.compile(DATA)
    many.varied()(DATA)
    assert len(runs) == 1, "all its routines are there"
    many.varied()(np.ones((128, 20_000), np.float32))
    assert len(runs) == 1, "much data"
    counted_rounds.varied()(DATA, np.array([[3]], np.int32))
    assert len(runs) == 1, "rounds that only the run knows"


def test_tensors_of_pytorch(runs, monkeypatch):
    torch = pytest.importorskip("torch")
    held(monkeypatch)
    kernel, tensor = scaled(), torch.from_numpy(DATA)
    first = kernel(tensor)
    assert len(runs) == 1
    assert torch.equal(first, kernel(tensor))
    assert len(runs) == 2
    only_executable(kernel).native()
    assert torch.equal(first, kernel(tensor))
    assert len(runs) == 2
    assert bits(first.numpy()) == bits(scaled()(DATA))


def test_graphs_and_arrays_of_jax_have_native_code(runs):
    numpy = pytest.importorskip("jax.numpy")
    kernel = scaled()
    result = np.asarray(kernel(numpy.asarray(DATA)))
    assert not runs
    assert bits(scaled()(DATA)) == bits(result)


PROGRAM = """
    import os, sys
    import numpy as np
    from tests.compilation.test_first_call import DATA, many
    first = many(DATA)
"""


def run(tmp_path, text):
    """The output of a process with an empty cache that ends well and says nothing else."""
    environment = os.environ | {"OPEN_NKI_CACHE": str(tmp_path), "OPEN_NKI_FIRST_CALL": "interpreted"}
    environment.pop("OPEN_NKI_CACHE_DISABLE", None)
    code = textwrap.dedent(PROGRAM) + textwrap.dedent(text)
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("pause", [0.0, 0.05, 0.3])
def test_a_process_may_end_while_it_compiles(pause, tmp_path):
    assert run(tmp_path, f"import time; time.sleep({pause}); print('done')") == "done\n"


def test_what_was_compiled_is_there_in_the_next_process(tmp_path):
    text = """
        job = next(iter(many._executables.values()))._job
        while not job.is_done:
            pass
    """
    run(tmp_path, text)
    assert run(tmp_path, "print(next(iter(many._executables.values())).missing)") == "0\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_process_has_the_kernel(tmp_path):
    text = """
        import warnings
        warnings.simplefilter("ignore")  # Python's, about threads
        children = []
        for _ in range(3):
            child = os.fork()
            if child == 0:
                same = many(DATA).tobytes() == first.tobytes() == many(DATA).tobytes()
                os._exit(0 if same else 1)
            children.append(child)
        print([os.waitpid(child, 0)[1] for child in children], many(DATA).tobytes() == first.tobytes())
    """
    assert run(tmp_path, text) == "[0, 0, 0] True\n"


@pytest.mark.skipif(os.name != "posix", reason="no signals")
def test_an_interrupt_ends_a_program_while_it_compiles(tmp_path):
    text = f"""
        try:
            os.kill(os.getpid(), {int(signal.SIGINT)})
            while True:
                many(DATA)
        except KeyboardInterrupt:
            print(many(DATA).tobytes() == first.tobytes())
    """
    assert run(tmp_path, text) == "True\n"
