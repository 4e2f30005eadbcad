"""Operators of kernels that are called with wrong things, and model files with exchanged kernels: one NkiError."""

from __future__ import annotations

import io
import re
import zipfile

import pytest
import torch

import nki
import nki.torch
from nki.base.errors import NkiError
from nki.compilation import model_file
from nki.frameworks import embedded
from nki.frameworks.kernel_adapter import remember
from tests.frameworks.bridges import Module
from tests.frameworks.kernels import add, moved, scale_in_place, sum_and_scaled

A = torch.ones(4, 6)
LAUNCH, UPDATE = torch.ops.open_nki.launch, torch.ops.open_nki.update


@pytest.fixture(scope="module")
def names():
    text = embedded.embed(add.compile(A, A))
    return {"add": remember(add.compile(A, A)), "scale": remember(scale_in_place.compile(A, 3.0)), "embedded": text}


WRONG = {
    "no name": (lambda n: LAUNCH([A, A], ""), "NKI-IR002"),
    "no file": (lambda n: LAUNCH([A, A], "/nowhere.klir"), "NKI-IR002"),
    "a folder": (lambda n: LAUNCH([A, A], "/"), "NKI-IR002"),
    "a reference alone": (lambda n: LAUNCH([A, A], "nki-kernel:"), "NKI-IR002"),
    "a later form": (lambda n: LAUNCH([A, A], n["embedded"].replace(":1:", ":2:", 1)), "NKI-IR002"),
    "another process": (lambda n: LAUNCH([A, A], "nki-simulated:0:1"), "NKI-IR002"),
    "an operator of another process": (lambda n: torch.ops.open_nki.transformed([A], "0:1"), "NKI-IR002"),
    "no tensors": (lambda n: LAUNCH([], n["add"]), "NKI-FW010"),
    "few": (lambda n: LAUNCH([A], n["add"]), "NKI-FW010.*2 tensors here; the graph passes 1"),
    "many": (lambda n: LAUNCH([A, A, A], n["add"]), "NKI-FW010.*2 tensors here; the graph passes 3"),
    "another shape": (lambda n: LAUNCH([A[:2], A[:2]], n["add"]), "NKI-FW010"),
    "another dtype": (lambda n: LAUNCH([A.double(), A], n["add"]), "NKI-FW010"),
    "sparse": (lambda n: LAUNCH([A.to_sparse(), A], n["add"]), "NKI-FW004"),
    "nothing to change": (lambda n: UPDATE([], [], [A.clone()], n["scale"]), "NKI-FW010.*changes 1 of its tensors"),
    "too much to change": (lambda n: UPDATE([A.clone(), A.clone()], [], [], n["scale"]), "NKI-FW010"),
    "a result too many": (lambda n: UPDATE([A.clone()], [A.clone()], [], n["scale"]), "NKI-FW010"),
    "a result too few": (lambda n: UPDATE([], [], [A, A], n["add"]), "NKI-FW010"),
    "no gradient of nothing": (lambda n: torch.ops.open_nki.no_gradient("/nowhere.klir", 1), "NKI-IR002"),
    "with a gradient": (lambda n: LAUNCH([A.clone().requires_grad_()], n["add"]), "NKI-FW010"),
    "in a batch": (lambda n: torch.vmap(lambda x: LAUNCH([x], n["add"])[0])(A[None]), "NKI-FW010"),
}


@pytest.mark.parametrize(("call", "message"), WRONG.values(), ids=WRONG)
def test_wrong_calls(call, message, names):
    with pytest.raises(NkiError, match=message):
        call(names)


EXCHANGED = {
    "other results": lambda a: sum_and_scaled(a, a)[0] + moved(a),
    "other arguments": lambda a: add(a, a) + moved(a),
    "one result more": lambda a: add(a, a) + sum_and_scaled(a, a)[0],
    "other shapes": lambda a: moved(a)[:2] + moved(a[:2]),
    "one that changes": lambda a: scale_in_place(a.clone(), 3.0) + moved(a),
}


@pytest.mark.parametrize("function", EXCHANGED.values(), ids=EXCHANGED)
def test_a_model_file_whose_kernels_are_exchanged(function, tmp_path):
    nki.export(Module(function), (A,), tmp_path / "m.nkix")
    file = model_file.read(tmp_path / "m.nkix")
    changed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(file.program)) as old, zipfile.ZipFile(changed, "w", zipfile.ZIP_STORED) as new:
        for member in old.infolist():
            content = old.read(member)
            if member.filename.endswith("model.json"):
                one, two = dict.fromkeys(re.findall(rb'nki-kernel:[^"]+', content))
                content = content.replace(one, b"@").replace(two, one).replace(b"@", two)
            new.writestr(member, content)
    rest = {name: file.manifest[name] for name in ("versions", "inputs", "outputs")}
    described = {**rest, "kernels": file.manifest["kernels"][::-1]}
    model_file.write(tmp_path / "m.nkix", model_file.dumps("torch", changed.getvalue(), described))
    with pytest.raises(NkiError, match=r"NKI-FW0(10|20)"):
        nki.load(tmp_path / "m.nkix")(A)
