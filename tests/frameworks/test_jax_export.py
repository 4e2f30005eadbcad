"""Programs of jax.export hold their kernels: no cache, no source, the same bits; and JAX's own compilation cache."""

from __future__ import annotations

import base64
import json
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax.ffi import ffi_call

from nki.frameworks import embedded
from nki.frameworks.backend_config import CUSTOM_CALL_TARGET, BackendConfig

from .elsewhere import Elsewhere
from .kernels import add, sum_and_scaled

pytest.importorskip("flatbuffers", reason="jax.export serializes programs with flatbuffers")

A = jnp.arange(24, dtype=jnp.float32).reshape(4, 6) / 7
CHECKS = [export.DisabledSafetyCheck.custom_call(CUSTOM_CALL_TARGET)]

MODEL = """
import jax, jax.numpy as jnp, numpy as np
from jax import export
from shipped import add, sum_and_scaled

@jax.jit
def model(a, b):
    return add(a * 2, b) * a, sum_and_scaled(a, b, scale=0.3)[1]

a = jnp.arange(24.0).reshape(4, 6) / 7
b = a[::-1]
np.savez("expected.npz", *model(a, b))
checks = [export.DisabledSafetyCheck.custom_call("AwsNeuronCustomNativeKernel")]
with open("m.jax", "wb") as file:
    file.write(export.export(model, disabled_checks=checks)(a, b).serialize(vjp_order=0))
"""
LOAD = """
import jax, jax.numpy as jnp, numpy as np
from jax import export
a = jnp.arange(24.0).reshape(4, 6) / 7
with open("m.jax", "rb") as file:
    model = export.deserialize(bytearray(file.read())).call
"""
COMPARE = """
expected = np.load("expected.npz")
for f in (model, jax.jit(model)):
    got = f(a, a[::-1])
    assert len(got) == len(expected)
    assert all(np.array_equal(x, expected[f"arr_{i}"]) for i, x in enumerate(got))
"""


@pytest.fixture
def elsewhere(tmp_path):
    return Elsewhere(tmp_path)


def test_a_program_is_loaded_where_neither_source_nor_cache_is(elsewhere):
    elsewhere.write(MODEL)
    assert str(elsewhere.cache).encode() not in (elsewhere.files / "m.jax").read_bytes()
    elsewhere.read("import nki.frameworks.jax\n" + LOAD + COMPARE)
    elsewhere.read(LOAD + "import nki.frameworks.jax\n" + COMPARE)  # the import may come after the load


def test_without_the_import_the_target_is_missing_by_name(elsewhere):
    elsewhere.write(MODEL)
    assert CUSTOM_CALL_TARGET in elsewhere.fail(LOAD + COMPARE)


def test_jax_asks_for_the_check_to_be_disabled():
    with pytest.raises(ValueError, match="no compatibility guarantees"):
        export.export(jax.jit(add))(A, A)


def test_a_derivative_is_exported_with_its_function():
    @jax.custom_vjp
    def total(a, b):
        return add(a, b)

    total.defvjp(lambda a, b: (add(a, b), (a, b)), lambda saved, g: (add(g, g), g))
    exported = export.export(jax.jit(total), disabled_checks=CHECKS)(A, A + 1)
    loaded = export.deserialize(exported.serialize(vjp_order=1))
    gradient = jax.grad(lambda a: (loaded.call(a, A + 1) * A).sum())(A)
    assert (gradient == 2 * A).all()


@pytest.fixture(scope="module")
def attributes():
    """The config and the kernel that an exported program holds."""
    text = export.export(jax.jit(add), disabled_checks=CHECKS)(A, A + 1).mlir_module()
    (config,) = re.findall(r'backend_config = "(eyJ[^"]+)"', text)
    (kernel,) = re.findall(r'kernel = "([^"]+)"', text)
    return config, kernel


def test_the_config_names_no_file(attributes):
    config = BackendConfig.decode(attributes[0])
    assert embedded.read(f"{config.binary}:{attributes[1]}")
    assert (config.func_name, config.platform_target) == ("add", "trn3")


def test_a_jitted_program_keeps_its_one_short_attribute():
    text = jax.jit(add).lower(A, A).as_text()
    assert "kernel = " not in text and '"eyJ' in text


def call(config, **others):
    function = jax.jit(lambda a, b: ffi_call(CUSTOM_CALL_TARGET, A)(a, b, backend_config=config, **others))
    return np.asarray(function(A, A + 1))


def changed(config, **fields):
    content = json.loads(base64.b64decode(config))
    content["klir_binary"].update(fields.pop("klir_binary", {}))
    return base64.b64encode(json.dumps(content | fields).encode()).decode()


def test_damaged_programs_are_errors_that_say_what_is_wrong(attributes):
    config, kernel = attributes
    assert (call(config, kernel=kernel) == np.asarray(A + (A + 1))).all()
    binary = BackendConfig.decode(config).binary
    other = binary[:-1] + "01"[binary.endswith("0")]
    elsewhere = changed(config, klir_binary={"binary": other})
    for arguments, message in [
        ((elsewhere, kernel), "do not have the digest"),
        ((elsewhere, kernel[:-8]), "do not have the digest"),
        ((elsewhere, kernel[:-8] + "\u20ac"), "not base64"),
        ((elsewhere, ""), "has no bytes"),
        ((changed(config, klir_binary={"binary": "nki-kernel:7:add:00"}), kernel), "form 7"),
        ((changed(config, platform_target="trn1"), kernel), "for trn1; its artifact is for trn3"),
        ((changed(config, kernel_version=9), kernel), "kernel_version 9"),
        (("", kernel), "NKI-FW009"),
    ]:
        with pytest.raises(Exception, match=message):
            call(arguments[0], kernel=arguments[1])
    with pytest.raises(Exception, match="has no bytes"):
        call(elsewhere)
    with pytest.raises(Exception, match="NKI-FW009"):
        call(np.int32(7), kernel=kernel)  # not a string


def test_operands_of_an_exported_kernel_are_checked(attributes):
    config, kernel = attributes
    with pytest.raises(Exception, match="NKI-FW010"):
        ffi_call(CUSTOM_CALL_TARGET, A)(A[:2], A[:2], backend_config=config, kernel=kernel)


CACHED = """
import jax, jax.numpy as jnp, numpy as np, os
from shipped import add
jax.config.update("jax_compilation_cache_dir", "compiled")
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
events = []
jax.monitoring.register_event_listener(lambda event, **_: events.append(event))
a = jnp.arange(24.0).reshape(4, 6) / 7
out = jax.jit(lambda a, b: add(a, b) * a)(a, a[::-1])
print(events.count("/jax/compilation_cache/cache_hits"), np.asarray(out).tobytes().hex())
"""


def test_the_compilation_cache_of_jax_serves_another_process(elsewhere):
    first = elsewhere.write(CACHED).stdout.split()
    again = elsewhere.write(CACHED).stdout.split()
    assert first[1] == again[1]
    assert int(first[0]) == 0 and int(again[0]) > 0


SPLIT = """
import os, sys
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
import jax, numpy as np, shipped
from jax.sharding import NamedSharding, PartitionSpec as P
jax.config.update("jax_compilation_cache_dir", "compiled")
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
jax.config.update("jax_remove_custom_partitioning_ptr_from_cache_key", True)
events = []
jax.monitoring.register_event_listener(lambda event, **_: events.append(event))
mesh = jax.make_mesh((2,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
a = jax.device_put(np.full((8, 4, 6), 3, np.float32), NamedSharding(mesh, P("d")))
out = jax.jit(jax.vmap(getattr(shipped, os.environ["KERNEL"])))(a, a)
print(events.count("/jax/compilation_cache/cache_hits"), np.unique(out))
"""


def test_split_programs_in_the_compilation_cache_are_those_of_their_kernels(elsewhere):
    runs = [elsewhere.write(SPLIT, KERNEL=kernel).stdout for kernel in ("add", "multiply", "add")]
    assert runs == ["0 [6.]\n", "0 [9.]\n", "1 [6.]\n"]


def test_several_kernels_in_one_program():
    def both(a, b):
        return sum_and_scaled(add(a, b), b)

    loaded = export.deserialize(export.export(jax.jit(both), disabled_checks=CHECKS)(A, A + 1).serialize())
    for got, expected in zip(loaded.call(A, A + 1), both(A, A + 1), strict=True):
        assert (got == expected).all()
