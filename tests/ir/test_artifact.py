"""The ``.klir`` file: read without its source and without this process, and refused when anything about it is wrong."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import pickle
import re
import subprocess
import sys
import textwrap
import tracemalloc
import warnings
import zlib
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki.base.errors import ArtifactError, NkiError, WindowError
from nki.base.warning import warn_at
from nki.cli import dump
from nki.compilation.executable import Executable
from nki.ir.text import artifact
from tests.support.program_text import KERNEL, TEXT, accept
from tests.support.shared_launches import outputs_of

DATA = artifact.dumps(KERNEL)
FIELDS: dict[str, Any] = msgpack.unpackb(DATA)
SOURCE = Path(__file__).parent.parent.parent / "src"


def packed(**changes: Any) -> bytes:
    """The artifact with some fields changed; None leaves a field out."""
    return msgpack.packb({k: v for k, v in {**FIELDS, **changes}.items() if v is not None})


def sealed(text: bytes, **changes: Any) -> bytes:
    """An artifact that holds ``text``, with the right digest."""
    return packed(kernel=zlib.compress(text), digest=hashlib.sha256(text).hexdigest(), **changes)


def test_it_holds_the_kernel() -> None:
    assert artifact.loads(DATA) == KERNEL
    assert artifact.loads(sealed(TEXT.encode())) == KERNEL
    assert artifact.dumps(artifact.loads(DATA)) == DATA


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"\x00" * 100,
        b"PK\x03\x04" + b"\0" * 60,
        b"\x7fELF" + b"\0" * 60,
        TEXT.encode(),
        pickle.dumps({"format": artifact.FORMAT}),
        pickle.dumps(TEXT),
        msgpack.packb(None),
        msgpack.packb([FIELDS]),
        msgpack.packb({"format": "somebody else's"}),
        msgpack.packb({1: 2}),
        b"\x91" * 10000,
        b"\xdf\xff\xff\xff\xff",
        b"\xdd\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        DATA + b"\0",
        DATA * 2,
        packed(format=None),
        packed(version=None),
        packed(version=0),
        packed(version=2),
        packed(version="1"),
        packed(version=[1]),
        packed(kernel=None),
        packed(kernel=TEXT),
        packed(kernel=TEXT.encode()),
        packed(kernel=b""),
        packed(kernel=FIELDS["kernel"][:-1]),
        packed(kernel=FIELDS["kernel"] + b"\0"),
        packed(digest=None),
        packed(digest="0" * 64),
        packed(digest=hashlib.sha256(TEXT.encode()).digest()),
        sealed(b""),
        sealed(b"\xff\xfe"),
        sealed(TEXT.encode()[:-2]),
        sealed(TEXT.encode().replace(b"dma_copy", b"dma_cp")),
        sealed(TEXT.encode("utf-16")),
    ],
    ids=range(38),
)
def test_damaged_foreign_or_newer(data: bytes) -> None:
    with pytest.raises(ArtifactError) as caught:
        artifact.loads(data, "the file")
    assert caught.value.message.startswith("the file ")


def test_another_version_is_named() -> None:
    with pytest.raises(ArtifactError, match=r"has format version 4 \(by open-nki 9\.9\)"):
        artifact.loads(packed(version=4, compiler="9.9"))


@pytest.mark.parametrize("length", [*range(0, len(DATA), 13), len(DATA) - 1])
def test_truncated(length: int) -> None:
    with pytest.raises(ArtifactError):
        artifact.loads(DATA[:length])


@given(st.integers(0, len(DATA) - 1), st.integers(0, 7))
def test_one_bit_flipped(byte: int, bit: int) -> None:
    flipped = bytearray(DATA)
    flipped[byte] ^= 1 << bit
    try:
        kernel = artifact.loads(bytes(flipped))
    except ArtifactError:
        return
    # What no reader looks at may change: who wrote it. Everything else is protected.
    assert kernel == KERNEL
    assert {k: v for k, v in msgpack.unpackb(bytes(flipped)).items() if FIELDS.get(k) != v}.keys() <= {"compiler"} or (
        "compiler" not in msgpack.unpackb(bytes(flipped))
    )


@given(st.binary(max_size=64))
def test_any_bytes(data: bytes) -> None:
    with pytest.raises(ArtifactError):
        artifact.loads(data)


def test_a_bomb_does_not_go_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifact, "LARGEST", 1 << 20)
    bomb = zlib.compress(b" " * (100 << 20), 9)
    tracemalloc.start()
    with pytest.raises(ArtifactError):
        artifact.loads(packed(kernel=bomb))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 << 20


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing.klir", tmp_path / "\0"):
        with pytest.raises(ArtifactError, match="cannot read"):
            Executable.load(path)


@pytest.mark.parametrize("old", ["[0 | 48x32, 1x48] src=total", "float32[64,32]", "target=trn3", "reduce_op=add"])
def test_an_artifact_with_a_right_digest_is_not_trusted(old: str, tmp_path: Path) -> None:
    new = {"[0": "[64 | 48x32, 1x48] src=total", "fl": "float32[64,31]", "ta": "target=vax", "re": "reduce_op=exp"}[
        old[:2]
    ]
    file = tmp_path / "crafted.klir"
    file.write_bytes(sealed(TEXT.replace(old, new, 1).encode()))
    with pytest.raises(NkiError):
        Executable.load(file)


PROGRAM = """
import numpy as np, nki, nki.language as nl

@nki.jit
def kernel(a):
    t = nl.load(a)
    nki.isa.tensor_scalar(t, t, nl.multiply, 3.0)
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, t)
    return out

print(kernel.compile(np.zeros((4, 8), np.float32)).artifact())
"""
READER = """
import sys, numpy as np
from nki.compilation.executable import Executable
made = Executable.load(sys.argv[1])
a, out = np.arange(32, dtype=np.float32).reshape(4, 8), np.zeros((4, 8), np.float32)
made.launch([a.ctypes.data, out.ctypes.data])
assert np.array_equal(out, 3 * a) and made.inputs[0].shape == (4, 8) and made.name == "kernel"
"""


def run(*arguments: object) -> str:
    done = subprocess.run([sys.executable, *map(str, arguments)], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_it_runs_in_another_process_without_its_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPEN_NKI_CACHE", str(tmp_path / "cache"))
    source = tmp_path / "writer.py"
    source.write_text(textwrap.dedent(PROGRAM))
    file = run(source)
    assert Path(file).is_relative_to(tmp_path / "cache")
    source.unlink()
    run("-c", READER, file)


def test_nothing_here_can_load_code_from_a_file() -> None:
    """No module of the package imports a serialiser that runs code when it reads."""
    banned = {"pickle", "cloudpickle", "dill", "shelve", "marshal", "joblib"}
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            module = node.module if isinstance(node, ast.ImportFrom) else None
            assert not banned & {n.partition(".")[0] for n in [*names, module or ""]}, file
            if isinstance(node, ast.keyword):
                allows = node.arg == "allow_pickle" and not (
                    isinstance(node.value, ast.Constant) and node.value.value is False
                )
                assert not allows, file


def test_executable_and_reference_agree_on_a_loaded_kernel(tmp_path: Path) -> None:
    from nki.backend.numpy import executor

    file = tmp_path / "kernel.klir"
    file.write_bytes(DATA)
    made = Executable.load(file)
    random = np.random.default_rng(5)
    arrays = [random.standard_normal(s.shape).astype(np.float32) for s in made.inputs]
    for got, want in zip(outputs_of(made, *arrays), executor.run(made.kernel, arrays), strict=True):
        assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize("kind", ["file", "fifo"])
def test_a_file_that_only_an_artifact_names_is_never_opened(kind: str, tmp_path: Path) -> None:
    private = tmp_path / "private"
    if kind == "fifo":
        os.mkfifo(private)  # to open it waits for a writer
    else:
        private.write_text("first\nthe secret\n")
    wrong = TEXT.replace("[0 | 48x32, 1x48] src=total", "[64 | 48x32, 1x48] src=total", 1)
    text = re.sub(r'# "[^"]*":\d+', f"# {json.dumps(str(private))}:2", wrong)
    kernel = artifact.loads(sealed(text.encode()))
    with pytest.raises(WindowError) as caught:
        accept(kernel)
    assert caught.value.span is not None and (caught.value.span.file, caught.value.span.line) == (str(private), 2)
    assert f"--> {private}:2" in str(caught.value) and "secret" not in str(caught.value)
    listing = dump.annotated(kernel)
    assert f"# {private}:2\n" in listing and "secret" not in listing
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        warn_at(caught.value.span, "a warning of a stored kernel")
    (warning,) = given
    assert "secret" not in warnings.formatwarning(
        warning.message, warning.category, warning.filename, warning.lineno, warning.line
    )


def test_lines_of_a_captured_file_are_shown() -> None:
    kernel = artifact.loads(
        sealed(TEXT.replace("[0 | 48x32, 1x48] src=total", "[64 | 48x32, 1x48] src=total").encode())
    )
    with pytest.raises(WindowError, match=r"nisa\.tensor_copy\(placed, total"):
        accept(kernel)
