"""Programs of torch.export and packages of AOTInductor hold their kernels: no cache, no source, the same bits."""

from __future__ import annotations

import base64
import hashlib
import io
import shutil
import zipfile
import zlib

import msgpack
import pytest
import torch

import nki
from nki.base.errors import ArtifactError
from nki.base.framework_errors import EagerTraceError
from nki.compilation.executable_cache import NamedExecutables
from nki.frameworks import embedded
from nki.frameworks.kernel_adapter import find

from .elsewhere import Elsewhere
from .kernels import add, sum_and_scaled

A = torch.arange(24, dtype=torch.float32).reshape(4, 6) / 7

MODEL = """
import torch
from shipped import add, sum_and_scaled

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((4, 6), 1.1), requires_grad=False)

    def forward(self, a, b):
        return add(a * self.weight, b) * self.weight, sum_and_scaled(a, b, scale=0.3)[1]

a = torch.arange(24.0).reshape(4, 6) / 7
b = a.flip(0)
torch.save(Model()(a, b), "expected.pt")
"""
COMPARE = """
a = torch.arange(24.0).reshape(4, 6) / 7
got, expected = model(a, a.flip(0)), torch.load("expected.pt")
assert len(got) == len(expected) and all(torch.equal(x, y) for x, y in zip(got, expected))
"""


@pytest.fixture
def elsewhere(tmp_path):
    return Elsewhere(tmp_path, "torch")


@pytest.mark.parametrize("strict", [False, True])
def test_a_program_is_loaded_where_neither_source_nor_cache_is(elsewhere, strict):
    elsewhere.write(MODEL + f"torch.export.save(torch.export.export(Model(), (a, b), strict={strict}), 'm.pt2')")
    archive = (elsewhere.files / "m.pt2").read_bytes()
    assert str(elsewhere.cache).encode() not in archive
    elsewhere.read("import torch, nki.frameworks.torch\nmodel = torch.export.load('m.pt2').module()" + COMPARE)


@pytest.mark.skipif(shutil.which("g++") is None, reason="AOTInductor needs a C++ compiler")
def test_a_package_is_loaded_where_neither_source_nor_cache_is(elsewhere):
    elsewhere.write(
        MODEL + "program = torch.export.export(Model(), (a, b))\n"
        "torch._inductor.aoti_compile_and_package(program, package_path='m.pt2')",
        TORCHINDUCTOR_CACHE_DIR=str(elsewhere.cache),
    )
    elsewhere.read("import torch, nki.frameworks.torch\nmodel = torch._inductor.aoti_load_package('m.pt2')" + COMPARE)


def test_without_the_import_the_operator_is_missing_by_name(elsewhere):
    elsewhere.write(MODEL + "torch.export.save(torch.export.export(Model(), (a, b)), 'm.pt2')")
    assert "open_nki" in elsewhere.fail("import torch\ntorch.export.load('m.pt2')")


class Module(torch.nn.Module):
    def forward(self, a, b):
        return add(a, b) * 2


def kernels(program):
    return [node.args[1] for node in program.graph.nodes if "launch" in str(node.target)]


@pytest.fixture(scope="module")
def text():
    (found,) = kernels(torch.export.export(Module(), (A, A + 1)))
    return found


def test_equal_programs_hold_equal_bytes(text):
    files = []
    for _ in range(2):
        program = torch.export.export(Module(), (A, A + 1))
        assert kernels(program) == [text]
        files.append(io.BytesIO())
        torch.export.save(program, files[-1])
    assert files[0].getvalue() == files[1].getvalue()


def test_the_graphs_of_torch_compile_keep_their_short_names():
    names = []

    def backend(graph, inputs):
        names.extend(node.args[1] for node in graph.graph.nodes if "launch" in str(node.target))
        return graph.forward

    torch.compiler.reset()
    torch.compile(add, fullgraph=True, backend=backend)(A, A + 1)
    assert len(names) == 1 and names[0].endswith(".klir")


def test_the_bytes_are_those_of_an_artifact(text):
    reference, encoded = embedded.divided(text)
    data = base64.b64decode(encoded)
    assert reference == f"nki-kernel:1:add:{hashlib.sha256(data).hexdigest()}"
    assert embedded.read(text) == data and msgpack.unpackb(data)["format"] == "open-nki klir"


def sealed(fields, name="add"):
    """An embedded kernel with the right digest, whatever the fields of its artifact are."""
    data = msgpack.packb(fields)
    return f"nki-kernel:1:{name}:{hashlib.sha256(data).hexdigest()}:{base64.b64encode(data).decode()}"


def changed(text, **fields):
    return sealed(msgpack.unpackb(embedded.read(text)) | fields)


@pytest.fixture
def _fresh_process(monkeypatch):
    """As in a process that has loaded no kernel yet: a digest that was right once is not computed again."""
    monkeypatch.setattr(embedded, "_named", NamedExecutables(lambda *_: True))


@pytest.mark.usefixtures("_fresh_process")
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda t: t[:-8], "digest"),
        (lambda t: t[:-9], "base64"),
        (lambda t: t.replace(t[-20:], "A" * 20), "digest"),
        (lambda t: t[:-1] + "\n", "base64"),
        (lambda t: t.rpartition(":")[0], "has no bytes"),
        (lambda t: t.replace("nki-kernel:1:", "nki-kernel:2:"), r"form 2; this version of open-nki reads form 1"),
        (lambda t: t.replace("nki-kernel:1:add:", "nki-kernel:1:../add:"), "damaged reference"),
        (lambda _: "nki-kernel:", "damaged reference"),
        (lambda t: changed(t, version=99, compiler="9.9"), r"version 99 \(by open-nki 9.9\)"),
        (lambda t: changed(t, format="other"), "not an Open NKI artifact"),
        (lambda t: changed(t, digest="0" * 64), "digest does not match"),
        (lambda t: changed(t, kernel=b"\x00" * 40), "damaged"),
        (lambda _: sealed([1, 2]), "not an Open NKI artifact"),
    ],
)
def test_damaged_kernels_are_errors_that_say_what_is_wrong(text, damage, message):
    damaged = damage(text)
    assert damaged != text
    with pytest.raises(ArtifactError, match=message):
        find(damaged)
    with pytest.raises(ArtifactError, match=message):
        torch.ops.open_nki.launch([A, A], damaged)


def test_a_target_that_this_version_does_not_know_is_named(text):
    kernel = zlib.decompress(msgpack.unpackb(embedded.read(text))["kernel"])
    other = kernel.replace(b"trn3", b"trn9")
    assert other != kernel
    fields = {"kernel": zlib.compress(other), "digest": hashlib.sha256(other).hexdigest()}
    with pytest.raises(Exception, match="trn9"):
        find(changed(text, **fields))


def test_a_program_whose_kernel_was_exchanged_is_refused(elsewhere, text):
    """The bytes of another kernel under the digest of the first, in a program that is a whole archive again."""
    (other,) = kernels(torch.export.export(Two(), (A, A + 1)))
    forged = f"{embedded.divided(text)[0]}:{embedded.divided(other)[1]}"
    file = io.BytesIO()
    program = torch.export.export(Module(), (A, A + 1))
    torch.export.save(program, file)
    with zipfile.ZipFile(file) as archive, zipfile.ZipFile(elsewhere.files / "m.pt2", "w", zipfile.ZIP_STORED) as copy:
        for entry in archive.infolist():
            copy.writestr(entry, archive.read(entry).replace(text.encode(), forged.encode()))
    error = elsewhere.fail(
        "import torch, nki.frameworks.torch\na = torch.zeros(4, 6)\ntorch.export.load('m.pt2').module()(a, a + 1)"
    )
    assert "NKI-IR002" in error and "digest" in error


class Two(torch.nn.Module):
    def forward(self, a, b):
        return sum_and_scaled(a, b)


def test_results_of_a_debugging_mode_are_not_exported(monkeypatch):
    monkeypatch.setenv("NKI_PRECISE_FP", "0")
    with pytest.raises(Exception, match="NKI_PRECISE_FP=0"):
        torch.export.export(Module(), (A[:3], A[:3]))


def test_the_simulator_needs_values(monkeypatch):
    monkeypatch.setenv("NKI_SIMULATOR", "1")
    with pytest.raises(EagerTraceError, match=r"torch\.export"):
        torch.export.export(Module(), (A, A + 1))


def test_a_kernel_that_checks_itself_is_exported_as_the_plain_kernel():
    checked = nki.jit(add.func, check=True)

    class Checked(torch.nn.Module):
        def forward(self, a, b):
            return checked(a, b)

    (name,) = kernels(torch.export.export(Checked(), (A[:2], A[:2])))
    assert type(find(name)).__name__ == "Executable"
