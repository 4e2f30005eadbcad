"""Constants: in the kernel, its text and its artifact, in both executors; and what follows when a file changes."""

from __future__ import annotations

import base64
import os
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
import nki.tensor as ntensor
from nki.backend.numpy import executor
from nki.base.errors import (
    ArgumentError,
    DTypeError,
    MemoryRegionError,
    NkiError,
    PartitionError,
    ShapeError,
    StructureError,
    TextError,
    UnknownDTypeError,
)
from nki.compilation.executable import Executable
from nki.ir.constant import constant
from nki.ir.program import Program
from nki.ir.text import artifact, parser, printer
from nki.passes.verify import Verify
from nki.target import find
from tests.support.kernel_parts import returned

BOTH = pytest.mark.parametrize("how", [lambda k: k, nki.simulate], ids=["native", "eager"])
How = Callable[[Any], Callable[..., Any]]
TABLE = np.random.default_rng(5).standard_normal((6, 40)).astype(np.float32)


@nki.jit
def plus(a, values):
    """``a`` plus a constant: an array, or the path of a file."""
    table = nl.shared_constant(values)
    left, right = nl.load(a), nl.load(table)
    nisa.tensor_tensor(left, left, right, nl.add)
    return returned(left)


@nki.jit
def own(a):
    """The same with an array of the kernel's file."""
    return plus(a, TABLE)


@nki.jit
def copied(a, kind):
    """A constant made in the kernel, as it is."""
    values = nl.shared_constant(np.arange(a.shape[0] * 4).reshape(a.shape[0], 4).astype(kind.dtype))
    return returned(values)


@BOTH
@pytest.mark.parametrize(
    "kind",
    [
        *(nl.float32, nl.float16, nl.bfloat16, nl.float8_e4m3fn, nl.float8_e5m2, nl.float8_e8m0fnu),
        *(nl.int32, nl.int16, nl.int8, nl.uint32, nl.uint16, nl.uint8),
    ],
    ids=str,
)
def test_every_type_arrives_bit_for_bit(how: How, kind: Any) -> None:
    got = how(copied)(np.zeros((3, 1), np.float32), kind)
    want = np.arange(12).reshape(3, 4).astype(kind.dtype)
    assert got.dtype == want.dtype and got.tobytes() == want.tobytes()


@BOTH
def test_an_array_of_the_file_is_compiled_in_and_followed(how: How, monkeypatch: pytest.MonkeyPatch) -> None:
    a = np.ones_like(TABLE)
    np.testing.assert_array_equal(how(own)(a), a + TABLE)
    monkeypatch.setitem(globals(), "TABLE", TABLE * 2)
    np.testing.assert_array_equal(how(own)(a), a + TABLE)


@BOTH
@pytest.mark.parametrize("layout", [np.asfortranarray, lambda x: x.astype(">f4"), lambda x: x[:, ::-1]])
def test_a_file_is_read_when_the_kernel_is_compiled(how: How, layout: Any, tmp_path: Path) -> None:
    a, path = np.ones_like(TABLE), tmp_path / "table.npy"
    np.save(path, layout(TABLE))
    want = a + layout(TABLE).astype(np.float32)
    np.testing.assert_array_equal(how(plus)(a, str(path)), want)
    np.save(path, -TABLE)
    os.utime(path, ns=(1, 1))  # two writes may fall into one tick of the file system's clock
    np.testing.assert_array_equal(how(plus)(a, str(path)), a - TABLE)


def test_a_kernel_outlives_the_file_that_it_read(tmp_path: Path) -> None:
    a, path = np.ones_like(TABLE), tmp_path / "table.npy"
    np.save(path, TABLE)
    plus(a, str(path))
    path.unlink()
    np.testing.assert_array_equal(plus(a, str(path)), a + TABLE)


def test_a_kernel_that_read_a_file_is_not_kept_for_other_processes(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("OPEN_NKI_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("OPEN_NKI_CACHE_DISABLE", raising=False)
    path, a = tmp_path / "table.npy", np.ones_like(TABLE)
    np.save(path, TABLE)
    nki.jit(plus.func)(a, str(path))
    assert not list((tmp_path / "cache").rglob("*.klir"))
    np.save(path, -TABLE)
    np.testing.assert_array_equal(nki.jit(plus.func)(a, str(path)), a - TABLE)


@nki.jit
def identities(a):
    """Two tiles that are one constant, one that is another, and one given by the caller, part of a wider tile."""
    n = a.shape[0]
    one, two = nl.shared_identity_matrix(n, dtype=nl.bfloat16), nl.shared_identity_matrix(n, dtype=nl.bfloat16)
    plain = nl.shared_identity_matrix(n)
    wide = nl.ndarray((n, 2 * n), nl.float32, buffer=nl.sbuf)
    nisa.memset(wide, 5.0)
    given = nl.shared_identity_matrix(n, dtype=nl.float8_e4m3, dst=wide[:, n : 2 * n])
    results = []
    for tile in (one, two, plain, wide, given):
        out = nl.ndarray(tile.shape, tile.dtype, buffer=nl.shared_hbm)
        nl.store(out, tile)
        results.append(out)
    return tuple(results)


@BOTH
@pytest.mark.parametrize("n", [1, 5, 128])
def test_identity_matrices(how: How, n: int) -> None:
    one, two, plain, wide, given = how(identities)(np.zeros((n, 1), np.float32))
    eye = np.eye(n)
    for got, kind in ((one, ml_dtypes.bfloat16), (two, ml_dtypes.bfloat16), (plain, np.uint8), (given, np.float32)):
        np.testing.assert_array_equal(got, eye.astype(kind), strict=True)
    np.testing.assert_array_equal(wide, np.concatenate([np.full((n, n), 5), eye], axis=1).astype(np.float32))


def test_equal_constants_are_one_tensor_and_one_piece_of_memory() -> None:
    made = identities.compile(np.zeros((128, 1), np.float32)).kernel
    # What no constant can hold, float8_e4m3, is converted from a constant of uint8.
    assert [(t.name, t.dtype.name) for t in made.core.constants()] == [
        ("identity_128", "bfloat16"),
        ("identity_128.1", "uint8"),
    ]
    other = own.compile(np.ones_like(TABLE)).kernel.core.constants()[0]
    again = own.compile(np.ones((6, 40), np.float32)).kernel.core.constants()[0]
    assert other is not again and other.data is again.data is constant(TABLE.tobytes())
    read = artifact.loads(artifact.dumps(made)).core.constants()
    assert [t.data for t in read] == [t.data for t in made.core.constants()]


@nki.jit
def rounds(a, values):
    """A constant that is first named in the body of a run-time loop."""
    total = nl.load(a)

    def body(i):
        table = nl.load(nl.shared_constant(values))
        nisa.tensor_tensor(total, total, table, nl.add)

    nl.fori_loop(0, 3, body)
    again = nl.load(nl.shared_constant(values))
    nisa.tensor_tensor(total, total, again, nl.add)
    return returned(total)


@BOTH
def test_a_constant_belongs_to_the_kernel_wherever_it_is_named(how: How, tmp_path: Path) -> None:
    np.save(path := tmp_path / "ones.npy", np.ones((4, 8), np.float32))
    np.testing.assert_array_equal(how(rounds)(np.zeros((4, 8), np.float32), str(path)), np.full((4, 8), 4.0))


@nki.jit
def transposed(a, kind=None):
    tile = nl.load_transpose2d(a, dtype=kind)
    return returned(tile)


@BOTH
@pytest.mark.parametrize("kind", [None, nl.bfloat16, nl.float32, nl.int8])
def test_a_matrix_is_loaded_transposed(how: How, kind: Any) -> None:
    a = np.random.default_rng(1).standard_normal((300, 128)).astype(np.float32)
    want = a.T if kind is None else np.rint(a.T).astype(np.int8) if kind is nl.int8 else a.T.astype(kind.dtype)
    np.testing.assert_array_equal(how(transposed)(a, kind), want, strict=True)


# The text form and the artifact


def accept(read: Program) -> Program:
    return Verify().run(read, find(read.target))


def native(made: Program, a: Any) -> Any:
    out = np.empty_like(a)
    Executable(made).launch([a.ctypes.data, out.ctypes.data])
    return out


def kernel() -> Program:
    return own.compile(np.ones_like(TABLE)).kernel


def test_text_and_artifact_hold_the_data() -> None:
    made = kernel()
    shown = printer.show(made)
    again = parser.parse(shown)
    assert again == made and printer.show(again) == shown
    assert artifact.loads(artifact.dumps(made)) == made
    a = np.ones_like(TABLE)
    np.testing.assert_array_equal(native(accept(again), a), a + TABLE)
    np.testing.assert_array_equal(executor.run(again, [a])[0], a + TABLE)
    changed = made.core.constants()[0]
    changed.data = constant((TABLE + 1).tobytes())
    assert again != made


def test_an_artifact_is_about_as_large_as_what_is_in_it(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (128, 2000), np.uint8)
    np.save(path := tmp_path / "noise.npy", noise)
    a = np.zeros((128, 2000), np.uint8)
    made = plus.compile(a, str(path)).kernel
    assert len(artifact.dumps(made)) < 1.02 * noise.nbytes + 2000
    assert len(artifact.dumps(identities.compile(np.zeros((128, 1), np.float32)).kernel)) < 4000


def test_a_loaded_artifact_runs(tmp_path: Path) -> None:
    (path := tmp_path / "own.klir").write_bytes(artifact.dumps(kernel()))
    a = np.ones_like(TABLE)
    out = np.empty_like(a)
    Executable.load(path).launch([a.ctypes.data, out.ctypes.data])
    np.testing.assert_array_equal(out, a + TABLE)


def packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data)).decode()


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("float32[6,40] sha256", "float32[6,41] sha256", "damaged, or not as many"),
        ("float32[6,40] sha256", "float32[6,39] sha256", "damaged, or not as many"),
        ("float32[6,40] sha256", "float32[99999999,99999999] sha256", "constants have more than"),
        (packed(TABLE.tobytes()), packed((TABLE + 1).tobytes()), "damaged"),
        (packed(TABLE.tobytes()), packed(TABLE.tobytes())[:-8], "damaged|cannot be unpacked"),
        (packed(TABLE.tobytes()), "AAAA", "cannot be unpacked"),
        (packed(TABLE.tobytes()), "AAA", "cannot be unpacked"),
        (packed(TABLE.tobytes()), "", "cannot be unpacked|damaged"),
        ("sha256=", "sha1=", "not a tensor declaration"),
    ],
)
def test_damaged_data_is_refused(old: str, new: str, why: str) -> None:
    shown = printer.show(kernel())
    packing = packed(TABLE.tobytes())
    shown = shown.replace(shown.partition("data=")[2].partition("\n")[0], packing)
    assert parser.parse(shown) == kernel() and shown.count(old) == 1
    with pytest.raises(TextError, match=why):
        parser.parse(shown.replace(old, new))


@pytest.mark.parametrize(
    ("pattern", "new"),
    [("constant table", "tensor table"), ("table : shared_hbm", "table : sbuf"), (r"(table : .*) sha256=.*", r"\1")],
)
def test_a_constant_is_what_it_says(pattern: str, new: str) -> None:
    changed, count = re.subn(pattern, new, printer.show(kernel()))
    assert count == 1
    with pytest.raises(StructureError, match="'table' is no constant in HBM"):
        accept(parser.parse(changed))


# Mistakes


def refusal(body: Callable[[Any], Any], a: Any = None) -> NkiError:
    with pytest.raises(NkiError) as caught:
        nki.simulate(body)(np.zeros((4, 8), np.float32) if a is None else a)
    return caught.value


def test_what_is_no_data_is_refused(tmp_path: Path) -> None:
    np.save(small := tmp_path / "small.npy", np.zeros((4, 4), ml_dtypes.bfloat16))
    np.savez(many := tmp_path / "many.npz", np.zeros(3))
    (torn := tmp_path / "torn.npy").write_bytes(b"\x93NUMPY")
    np.save(objects := tmp_path / "objects.npy", np.array([{}], object), allow_pickle=True)
    cases: list[tuple[Any, type[NkiError], str]] = [
        (str(tmp_path / "none.npy"), ArgumentError, "cannot read"),
        (str(torn), ArgumentError, "cannot read"),
        (objects, ArgumentError, "cannot read"),
        (many, ArgumentError, "holds several arrays"),
        (small, DTypeError, "elements of 2 bytes without saying"),
        ((1.0, 2.0), ArgumentError, "is a tuple, neither a NumPy array nor the path"),
        (np.eye(4), UnknownDTypeError, "float64"),
        (np.ones((4, 4), bool), DTypeError, "bool, which no constant can hold"),
        (np.ones((4, 4), ml_dtypes.float8_e4m3), DTypeError, "float8_e4m3, which"),
        (np.float32(3), ArgumentError, "neither"),
        (np.array(3, np.float32), ShapeError, "shape ()"),
    ]
    for value, kind, says in cases:
        error = refusal(made_of(value))
        assert type(error) is kind and says in error.message, (value, error)


def made_of(VALUE: Any) -> Callable[[Any], Any]:
    def body(a):
        return nl.shared_constant(VALUE)

    return body


def test_identity_matrices_fit_the_machine() -> None:
    def large(a):
        return nl.shared_identity_matrix(129)

    def half(a):
        return nl.shared_identity_matrix(2.5)

    def wrong(a):
        return nl.shared_identity_matrix(4, dst=nl.ndarray((4, 5), nl.uint8, buffer=nl.sbuf))

    assert type(refusal(large)) is PartitionError
    assert type(refusal(half)) is ArgumentError
    assert type(refusal(wrong)) is ShapeError


def test_only_matrices_in_hbm_are_loaded_transposed() -> None:
    def three(a):
        return nl.load_transpose2d(a)

    def tile(a):
        return nl.load_transpose2d(nl.load(a))

    assert type(refusal(three, np.zeros((2, 3, 4), np.float32))) is ShapeError
    assert type(refusal(tile)) is MemoryRegionError
    assert type(refusal(three, np.zeros((2, 129), np.float32))) is PartitionError


@nki.jit
def made_here(a):
    """Constants of ``nki.tensor``, converted or as they are, and of one that arithmetic makes of another."""
    unit = nl.shared_constant(ntensor.identity(a.shape[0], nl.int8), dtype=nl.float16)
    line = nl.shared_constant(ntensor.arange(3, 3 + 2 * a.shape[0], 2, dtype=nl.int32).reshape(a.shape[0], 1))
    ones = nl.shared_constant(ntensor.zeros((a.shape[0], 4), dtype=nl.bfloat16) + 1, dtype=nl.int16)
    return tuple(returned(made) for made in (unit, line, ones))


@BOTH
def test_constants_of_nki_tensor(how: How) -> None:
    unit, line, ones = how(made_here)(np.zeros((6, 4), np.float32))
    assert unit.dtype == np.float16
    assert (unit == np.identity(6)).all()
    assert line.dtype == np.int32
    assert line.ravel().tolist() == [3, 5, 7, 9, 11, 13]
    assert ones.dtype == np.int16
    assert ones.tolist() == [[1] * 4] * 6


def test_nki_tensor_is_an_attribute() -> None:
    assert nki.tensor is ntensor
    assert ntensor.zeros(3, nl.float32).shape == (3,)
    assert ntensor.identity(2, nl.bfloat16).dtype == nl.bfloat16.dtype


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ntensor.identity(2.5, nl.int8), r"nki\.tensor\.identity: n=2\.5 is no integer"),
        (lambda: ntensor.zeros((2, "3"), nl.int8), r"nki\.tensor\.zeros: shape='3' is no integer"),
        (lambda: ntensor.arange(0, 4, 0, dtype=nl.int8), r"nki\.tensor\.arange: step=0"),
        (lambda: ntensor.identity(4, "int9"), "int9"),
    ],
)
def test_arguments_that_nki_tensor_refuses(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(NkiError, match=message):
        call()


def test_a_dtype_that_no_constant_can_hold() -> None:
    @nki.jit
    def kernel(a):
        return returned(nl.shared_constant(ntensor.zeros((4, 4), nl.int8), dtype=nl.bool_))

    with pytest.raises(DTypeError, match="is bool, which no constant can hold"):
        kernel(np.zeros((4, 4), np.float32))
