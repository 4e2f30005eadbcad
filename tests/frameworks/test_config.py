"""Reading and writing of the backend_config of custom calls."""

from __future__ import annotations

import base64
import json

import pytest

from nki.base.framework_errors import BackendConfigError
from nki.frameworks.backend_config import BackendConfig


def encoded(**fields):
    return base64.b64encode(json.dumps(fields).encode()).decode()


OURS = BackendConfig(
    "add",
    "/tmp/add.klir",
    ("a", "b"),
    ("c",),
    grid=(2,),
    has_collectives=True,
    platform_target="trn2",
    aliases=((0, 0),),
)


def test_what_is_written_can_be_read():
    assert BackendConfig.decode(OURS.encode()) == OURS
    assert BackendConfig.decode(OURS.encode().encode()) == OURS


def test_fields_have_the_documented_names_and_types():
    fields = json.loads(base64.b64decode(BackendConfig("add", "/tmp/add.klir", ("a", "b"), ("c",)).encode()))
    assert fields == {
        "func_name": "add",
        "platform_target": "",
        "kernel_format": "open-nki",
        "kernel_version": 1,
        "klir_binary": {
            "binary": "/tmp/add.klir",
            "input_names": ["a", "b"],
            "output_names": ["c"],
            "version_identifier": "",
            "aliases": [],
        },
        "grid": [],
        "has_collectives": False,
    }
    fields = json.loads(base64.b64decode(OURS.encode()))
    assert fields["grid"] == 2 and fields["platform_target"] == "trn2"
    assert fields["klir_binary"]["input_names"] == ["a.must_alias_input", "b"]
    assert fields["klir_binary"]["aliases"] == [[0, 0]]


# The one in the tutorial "NKI Kernel as a Framework Custom Operator", written by NKI 0.2.
TUTORIAL = (
    "eyJrZXJuZWxfdmVyc2lvbiI6IDEsICJrbGlyX2JpbmFyeSI6IHsiYmluYXJ5IjogIi90bXAvbmtpX3RlbnNvcl9hZGRncmV6aGF4eS5rbGlyIiwg"
    "ImlucHV0X25hbWVzIjogWyJhX2lucHV0IiwgImJfaW5wdXQiLCAidG1wLjQiXSwgIm91dHB1dF9uYW1lcyI6IFsiY19vdXRwdXQuMzUiXX0sICJm"
    "dW5jX25hbWUiOiAibmtpX3RlbnNvcl9hZGQiLCAiZ3JpZCI6IFtdLCAiaGFzX2NvbGxlY3RpdmVzIjogZmFsc2V9"
)


def test_a_config_of_nki_0_2_is_read_and_its_program_refused():
    config = BackendConfig.decode(TUTORIAL)
    assert config.func_name == "nki_tensor_add"
    assert config.input_names == ("a_input", "b_input", "tmp.4")
    assert config.output_names == ("c_output.35",)
    assert config.grid == () and not config.has_collectives and config.kernel_format == "klir"
    with pytest.raises(BackendConfigError, match=r"another toolchain"):
        config.check_runnable()


@pytest.mark.parametrize(("cores", "grid"), [(1, ()), (2, (2,))])
def test_a_config_of_nki_0_4_is_read(cores, grid):
    binary = {
        "binary": "/tmp/k.json",
        "input_names": ["x.must_alias_input"],
        "output_names": ["x"],
        "version_identifier": "",
        "aliases": [[0, 0]],
    }
    config = BackendConfig.decode(
        encoded(
            func_name="k",
            platform_target="trn2",
            kernel_format="bir",
            kernel_version=1,
            klir_binary=binary,
            grid=cores,
            has_collectives=True,
            mac_count=7,
        )
    )
    assert (config.grid, config.aliases, config.has_collectives) == (grid, ((0, 0),), True)
    assert config.input_names == config.output_names == ("x",)
    assert (config.kernel_format, config.platform_target) == ("bir", "trn2")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"),
        ("not base64!", "not JSON"),
        (base64.b64encode(b"\xff\x00program").decode(), "not JSON"),
        (base64.b64encode(b"[1]").decode(), "JSON list"),
        (encoded(func_literal="...", kernel_attrs=["tiled"], grid=[1], func_name="f"), "'f'.*Beta 1"),
        (encoded(func_name="f"), "kernel_version None"),
        (encoded(kernel_version=2), "kernel_version 2"),
        (encoded(kernel_version=1, func_name="f"), "klir_binary"),
        (encoded(kernel_version=1, func_name="f", klir_binary=7), "wrong type"),
        (encoded(kernel_version=1, func_name="f", klir_binary={"binary": "x", "input_names": 3}), "wrong type"),
        (
            encoded(
                kernel_version=1,
                func_name="f",
                klir_binary={"binary": "x", "input_names": [], "output_names": []},
                grid=["a"],
            ),
            "wrong type",
        ),
    ],
)
def test_what_is_no_config_is_refused_by_name(text, message):
    with pytest.raises(BackendConfigError, match=message):
        BackendConfig.decode(text)
