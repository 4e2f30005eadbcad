"""Models in one file: nki.export, nki.load and nki info; and damaged or foreign files."""

from __future__ import annotations

import hashlib
import io
import json
import logging
import os
import pickle
import zipfile

import numpy as np
import pytest
import torch

import nki
from nki import cli
from nki.cli.output import schema
from nki.compilation import model_file
from nki.compilation.launch_errors import ModelFileError
from nki.frameworks import embedded, torch_program
from nki.frameworks.export import Model
from tests.support.json_validator import mistakes

from .elsewhere import Elsewhere
from .kernels import add, sum_and_scaled
from .test_jax_export import COMPARE as JAX_COMPARE
from .test_jax_export import MODEL as JAX_MODEL
from .test_torch_export import COMPARE as TORCH_COMPARE
from .test_torch_export import MODEL as TORCH_MODEL

A = torch.arange(24, dtype=torch.float32).reshape(4, 6) / 7


@pytest.fixture
def elsewhere(tmp_path):
    return Elsewhere(tmp_path)


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((4, 6), 1.1), requires_grad=False)

    def forward(self, a, b):
        return add(a * self.weight, b) * 2


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The bytes of a model."""
    path = tmp_path_factory.mktemp("model") / "m.nkix"
    nki.export(Layer(), (A, A + 1), path)
    return path.read_bytes()


def test_a_model_of_torch_is_loaded_where_neither_source_nor_cache_is(elsewhere):
    elsewhere.write("import nki\n" + TORCH_MODEL + "nki.export(Model(), (a, b), 'm.nkix')")
    assert str(elsewhere.cache).encode() not in (elsewhere.files / "m.nkix").read_bytes()
    elsewhere.read("import nki\nmodel = nki.load('m.nkix')\nimport torch" + TORCH_COMPARE)


def test_a_model_of_jax_is_loaded_where_neither_source_nor_cache_is(elsewhere):
    pytest.importorskip("flatbuffers", reason="jax.export serializes programs with flatbuffers")
    elsewhere.write("import nki\n" + JAX_MODEL + "nki.export(model, (a, b), 'm.nkix')")
    elsewhere.read(
        "import nki\n"
        "model = nki.load('m.nkix')\n"
        "import jax, jax.numpy as jnp, numpy as np\n"
        "a = jnp.arange(24.0).reshape(4, 6) / 7" + JAX_COMPARE
    )


def test_the_command_lists_a_model_without_its_framework(elsewhere, data):
    (elsewhere.files / "m.nkix").write_bytes(data)
    shown = elsewhere.read(
        "import sys\nfrom nki.cli import main\n"
        "assert main(['info', 'm.nkix']) == 0\n"
        "assert not {'torch', 'jax'} & set(sys.modules)\n"
    ).stdout
    digest = json.loads(zipfile.ZipFile(io.BytesIO(data)).read("manifest.json"))["kernels"][0]["digest"]
    assert f"m.nkix: a model of torch, {len(data)} bytes, digest correct" in shown
    assert f"torch {torch.__version__}" in shown and "input a float32[4, 6]" in shown
    assert "kernel add(a float32[4, 6], b float32[4, 6]) -> out float32[4, 6] on trn3" in shown
    assert f"SHA-256 {digest}" in shown


def test_the_command_prints_json_also_for_an_error(tmp_path, data, capsys):
    path = tmp_path / "m.nkix"
    path.write_bytes(data)
    assert cli.main(["info", "--json", str(path)]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["framework"], shown["bytes"], shown["kernels"][0]["name"]) == ("torch", len(data), "add")
    root = schema.json_schema()
    assert not list(mistakes(shown, root["$defs"]["info"], root))
    path.write_bytes(data[:-1])
    assert cli.main(["info", "--json", str(path)]) == 1
    assert json.loads(capsys.readouterr().out)["code"] == "NKI-FW020"


def test_equal_models_give_equal_files(tmp_path, data):
    nki.export(Layer(), (A, A + 1), tmp_path / "n.nkix")
    assert (tmp_path / "n.nkix").read_bytes() == data


@pytest.mark.parametrize("model", [add, lambda a, b: add(a, b), torch.export.export(Layer(), (A, A))])
def test_functions_kernels_and_programs(tmp_path, model):
    example = (A, A + 1)
    nki.export(model, example, tmp_path / "m.nkix")
    loaded = nki.load(tmp_path / "m.nkix")
    assert isinstance(loaded, Model) and loaded.kernels == ["add"] and loaded.framework == "torch"
    assert "kernels add" in repr(loaded)
    expected = model.module()(*example) if isinstance(model, torch.export.ExportedProgram) else model(*example)
    assert torch.equal(loaded(*example), expected)


class Dynamic(torch.nn.Module):
    def forward(self, a, rows):
        return add(a, a), torch.cat([rows, rows[1:]]).sum(1)


def test_dynamic_shapes_beside_a_kernel(tmp_path):
    rows = torch.rand(8, 5)
    dynamic = ({}, {0: torch.export.Dim("n", min=4)})
    nki.export(Dynamic(), (A, rows), tmp_path / "m.nkix", dynamic_shapes=dynamic)
    other = torch.rand(11, 5)
    for got, expected in zip(nki.load(tmp_path / "m.nkix")(A, other), Dynamic()(A, other), strict=True):
        assert torch.equal(got, expected)


def test_keyword_arguments_of_torch(tmp_path):
    nki.export(Layer(), (A,), tmp_path / "m.nkix", kwargs={"b": A + 1})
    assert torch.equal(nki.load(tmp_path / "m.nkix")(A, b=A + 1), Layer()(A, A + 1))


def test_a_model_of_no_framework_is_refused(tmp_path):
    with pytest.raises(ModelFileError, match="neither the model"):
        nki.export(add, (np.zeros((4, 6), np.float32),), tmp_path / "m.nkix")
    with pytest.raises(ModelFileError, match="cannot write"):
        nki.export(add, (A, A), "/proc/nowhere/m.nkix")
    assert list(tmp_path.iterdir()) == []


# Damaged and foreign files


def sealed(members, compression=zipfile.ZIP_STORED):
    """A file with these members and the right digest at its end."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in members:
            archive.writestr(name, content)
        archive.comment = b"0" * 64
    body = buffer.getvalue()[:-64]
    return body + hashlib.sha256(body).hexdigest().encode()


def parts(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return json.loads(archive.read("manifest.json")), archive.read("program.pt2")


def again(data, program=None, /, **changes):
    """A whole, digested file with another program or manifest."""
    manifest, old = parts(data)
    program = old if program is None else program
    manifest["program"] = {"sha256": hashlib.sha256(program).hexdigest(), "bytes": len(program)}
    return sealed([("manifest.json", json.dumps(manifest | changes)), ("program.pt2", program)])


def load(tmp_path, data):
    path = tmp_path / "m.nkix"
    path.write_bytes(data)
    return nki.load(path)


def test_what_these_tests_write_is_otherwise_read(tmp_path, data):
    assert torch.equal(load(tmp_path, again(data))(A, A), Layer()(A, A))


def test_every_truncation_and_every_flipped_byte_is_found(tmp_path, data):
    path = tmp_path / "m.nkix"
    for size in (*range(0, len(data), 997), len(data) - 1):
        with pytest.raises(ModelFileError, match=r"digest|not a model"):
            model_file.loads(data[:size], path)
    for position in range(0, len(data), 61):
        flipped = bytearray(data)
        flipped[position] ^= 1 << position % 8
        with pytest.raises(ModelFileError, match=r"digest|not a model"):
            model_file.loads(bytes(flipped), path)
    with pytest.raises(ModelFileError, match="digest"):
        model_file.loads(data + b"\0", path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda d: again(d, version=2, versions={"open-nki": "9.1"}),
            r"version 2 \(by open-nki 9.1\).*reads version 1",
        ),
        (lambda d: again(d, format="other"), "not a model of open-nki"),
        (lambda d: again(d, framework="tensorflow"), "'tensorflow'; known are torch, jax"),
        (lambda d: again(d, framework="jax"), "program.pt2.*not manifest.json and one program"),
        (lambda d: again(d, kernels=[]), "does not call the kernels that its manifest lists"),
        (lambda d: again(d, kernels=[{"name": "\x1b[2J"}]), "describes a kernel as"),
        (lambda d: again(d, kernels={}), "no 'kernels'"),
        (lambda d: again(d, program={"sha256": "0" * 64}), "does not have the digest"),
        (lambda d: again(d, b"PK\x03\x04" + b"\0" * 80), "PyTorch.* cannot load the program"),
        (lambda d: sealed([("manifest.json", "[" * 100000)]), "no readable manifest.json"),
        (lambda _: sealed([("manifest.json", b"\xff")]), "no readable manifest.json"),
        (lambda _: sealed([("program.pt2", b"")]), "no readable manifest.json"),
        (
            lambda d: sealed([("manifest.json", "{}"), ("../../etc/passwd", "x")]),
            "'../../etc/passwd', which is no part",
        ),
        (lambda d: sealed([("/manifest.json", "{}")]), "'/manifest.json', which is no part"),
        (lambda d: sealed([("manifest.json", "{}")], zipfile.ZIP_DEFLATED), "twice or compressed"),
        (lambda d: b"PK\x03\x04" + hashlib.sha256(b"PK\x03\x04").hexdigest().encode(), "no ZIP archive"),
    ],
)
def test_hostile_files_are_errors_that_say_what_is_wrong(tmp_path, data, change, message):
    with pytest.raises(ModelFileError, match=message):
        load(tmp_path, change(data))


def test_a_name_twice_is_refused(tmp_path, data):
    manifest, program = parts(data)
    with pytest.warns(UserWarning, match="Duplicate name"):
        twice = sealed([("manifest.json", "{}"), ("program.pt2", program), ("manifest.json", json.dumps(manifest))])
    with pytest.raises(ModelFileError, match="twice or compressed"):
        load(tmp_path, twice)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ModelFileError, match="cannot read"):
        nki.load(tmp_path / "none.nkix")
    with pytest.raises(ModelFileError, match="cannot read"):
        nki.load("a\0b")
    assert cli.main(["info", str(tmp_path)]) == 1


# Programs of PyTorch that would run code


class Payload:
    """Unpickled, it makes a folder."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def rewritten(program, change, extra=()):
    """An archive of torch.export.save with changed members."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(program)) as source, zipfile.ZipFile(buffer, "w") as copy:
        for entry in source.infolist():
            copy.writestr(entry, change(entry.filename, source.read(entry)))
        for name, content in extra:
            copy.writestr(name, content)
    return buffer.getvalue()


def test_a_pickle_that_runs_code_is_not_unpickled(tmp_path, data, monkeypatch):
    trap = tmp_path / "trap"
    buffer = io.BytesIO()
    torch.save((Payload(trap),), buffer)
    _, program = parts(data)
    hostile = rewritten(program, lambda name, old: buffer.getvalue() if "sample_inputs" in name else old)
    with pytest.raises(ModelFileError, match="only by running code"):
        load(tmp_path, again(data, hostile))
    assert not trap.exists()
    monkeypatch.setattr(logging, "raiseExceptions", False)  # PyTorch's own warning cannot be formatted
    monkeypatch.setattr(logging.getLogger("torch._export.serde.serialize"), "disabled", True)
    torch.export.load(io.BytesIO(hostile))  # what PyTorch's own loader does with it
    assert trap.exists()


def test_a_pickled_weight_that_runs_code_is_not_unpickled(tmp_path, data):
    trap = tmp_path / "trap"

    def change(name, old):
        if name.endswith("model_weights_config.json"):
            table = json.loads(old)
            for row in table["config"].values():
                row["use_pickle"] = True
            return json.dumps(table).encode()
        return pickle.dumps(Payload(trap)) if name.endswith("weight_0") else old

    _, program = parts(data)
    with pytest.raises(ModelFileError, match="only by running code"):
        load(tmp_path, again(data, rewritten(program, change)))
    assert not trap.exists()


@pytest.mark.parametrize(
    "name",
    ["archive/data/aotinductor/model/a.so", "archive/data/constants/custom_obj_0", "archive/models/other.json"],
)
def test_native_code_and_pickled_objects_are_not_loaded(tmp_path, data, name):
    _, program = parts(data)
    hostile = rewritten(program, lambda _, old: old, [(name, b"x")])
    with pytest.raises(ModelFileError, match=r"no part of a model|pickled object"):
        load(tmp_path, again(data, hostile))


def edited(program, old, new):
    def change(name, content):
        if not name.endswith("models/model.json"):
            return content
        assert old.encode() in content
        return content.replace(old.encode(), new.encode())

    return rewritten(program, change)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("torch.ops.aten.mul.Tensor", "torch.hub.load", "not an allowed operator"),
        ("torch.ops.aten.mul.Tensor", "torch.os.system", "not an allowed operator"),
        ('"name": "a"', '"name": "a=print(1)"', "has the name"),
        ('{"as_int": 6}', '{"as_expr": {"expr_str": "exit()", "hint": null}}', "has the expr_str"),
    ],
)
def test_a_program_that_calls_more_than_operators_is_refused(tmp_path, data, old, new, message):
    _, program = parts(data)
    with pytest.raises(ModelFileError, match=message):
        load(tmp_path, again(data, edited(program, old, new)))


@pytest.mark.parametrize(
    "formula",
    ["open('x')", "Symbol('s0').free_symbols", "__import__('os')", "Symbol('a b')", "(lambda: 0)()", "S[0]", "f'{x}'"],
)
def test_formulas_of_shapes_are_formulas(formula):
    assert torch_program._FORMULA.fullmatch(formula) is None
    assert torch_program._FORMULA.fullmatch("Mul(Integer(2), Symbol('s20', positive=True, integer=True))")


def test_a_program_whose_kernel_was_exchanged_is_refused(tmp_path, data):
    _, program = parts(data)
    (text,) = torch_program.kernels(torch_program.from_bytes(program, "m"))
    two = torch.export.export(torch_program._Function(sum_and_scaled), (A, A + 1))
    (other,) = torch_program.kernels(two)
    forged = f"{embedded.divided(text)[0]}:{embedded.divided(other)[1]}"
    for replacement, message in ((forged, "do not have the digest"), (other, "does not call the kernels")):
        with pytest.raises(ModelFileError, match=message):
            load(tmp_path, again(data, edited(program, text, replacement)))
