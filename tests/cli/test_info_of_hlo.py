"""``nki info`` of HLO modules: the calls of kernels, with op_type and op_name."""

from __future__ import annotations

import json

import jax
import jax.numpy as jnp
import pytest

from nki.cli import main
from nki.frameworks.torch_xla import OPERATION, module
from tests.frameworks.kernels import add, sum_and_scaled

A = jnp.ones((4, 6))


@pytest.fixture
def graph(tmp_path):
    def write(data):
        path = tmp_path / "graph"
        path.write_bytes(data)
        return str(path)

    return write


@jax.jit
def model(a, b):
    return add(a, b) * sum_and_scaled(a, b)[0]


def test_a_module_of_torch_xla(graph, capsys):
    for on_cpu in (True, False):
        data = module(add.compile(A, A), (), on_cpu=on_cpu)
        for wrapped in (data, b"\n" + _varint(len(data)) + data):  # HloModuleProto, HloProto
            assert main(["info", graph(wrapped)]) == 0
            shown = capsys.readouterr().out
            assert shown.splitlines()[0].endswith("graph: an HLO module with 1 call of kernels")
            assert shown.splitlines()[1:] == [
                "kernel add(a, b) -> out on trn3",
                f"  op_type {OPERATION}",
                f"  op_name {OPERATION}",
            ]


def _varint(value):
    return bytes([value & 127 | 128, *_varint(value >> 7)]) if value > 127 else bytes([value])


def test_a_module_of_jax(graph, capsys):
    (compiled,) = model.lower(A, A).compile().runtime_executable().hlo_modules()
    for_neuron = model.trace(A, A).lower(lowering_platforms=("neuron",)).as_text("hlo", debug_info=True)
    for data in (compiled.to_string().encode(), compiled.as_serialized_hlo_module_proto(), for_neuron.encode()):
        assert main(["info", graph(data), "--json"]) == 0
        calls = json.loads(capsys.readouterr().out)["calls"]
        assert sorted((c["kernel"], c["inputs"], c["outputs"]) for c in calls) == [
            ("add", ["a", "b"], ["out"]),
            ("sum_and_scaled", ["a", "b"], ["out", "out.1"]),
        ]
        assert all(c["op_name"].endswith("nki_call") and c["target"] == "trn3" for c in calls)


def test_files_that_are_none(graph, capsys):
    data = module(add.compile(A, A), (), on_cpu=True)
    for wrong in (data[:-9], data.replace(b"eyJ", b"eyX"), b"HloModule x, custom", b"nothing", b""):
        code = main(["info", graph(wrong)])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        assert (code == 1 and "NKI-FW020" in err) or "0 calls of kernels" in out
