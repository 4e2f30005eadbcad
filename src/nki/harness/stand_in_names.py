"""The packages that Open NKI stands in for where they are not installed: their modules, and the names of each."""

from __future__ import annotations

from typing import Final

_TORCH: Final = "nki.harness.vendor_torch"
_NEURON: Final = "nki.harness.vendor_platform"
_JAX: Final = "nki.harness.vendor_jax"
_XLA: Final = "nki.harness.xla_device"

MODULES: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "torch_neuronx": {_TORCH: ("nki_jit", "nki_op", "synchronize", "wrap_nki")},
    "torch_neuronx.nki": {_TORCH: ("jit",)},
    "torch_neuronx.nki_hop": {_TORCH: ("nki_op", "wrap_nki")},
    "torch_neuronx.nki_kernel": {_TORCH: ("IS_NKI_V2_AVAILABLE",)},
    "torch_neuronx.utils": {_NEURON: ("get_logical_neuron_cores", "get_platform_target")},
    "torch_neuronx.xla_impl": {},
    "torch_neuronx.xla_impl.ops": {_TORCH: ("RmsNorm", "nki_jit", "xla_hlo_call")},
    "libtorch_neuronx_lite": {},
    "libtorch_neuronx_lite._compiler": {_TORCH: ("nki_op", "synchronize")},
    "libtorch_neuronx_lite.nki": {},
    "libtorch_neuronx_lite.nki.nki_hop": {_TORCH: ("nki_op", "wrap_nki")},
    "jax_neuronx": {_JAX: ("nki_call",)},
    "torch_xla": {_XLA: ("device", "sync")},
    "torch_xla.core": {},
    "torch_xla.core.xla_model": {
        _XLA: ("get_ordinal", "is_master_ordinal", "mark_step", "wait_device_ops", "xla_device", "xla_device_hw",
               "xrt_world_size"),
    },
}  # fmt: skip
"""By module, by the module of Open NKI that has them, its names. A package has its modules as attributes as well."""

FIX: Final = (
    "take only names that docs/harnesses.md lists from it, and keep what runs on a Neuron device out of the kernel's "
    "file, or import it in the function that needs it"
)
