"""The modules of the vendor's packages for PyTorch that Open NKI stands in for, and the names of each."""

from __future__ import annotations

from typing import Final

NAMES: Final = {
    "torch_neuronx": ("nki_jit", "nki_op", "wrap_nki"),
    "torch_neuronx.nki_hop": ("nki_op", "wrap_nki"),
    "torch_neuronx.xla_impl": (),
    "torch_neuronx.xla_impl.ops": ("nki_jit",),
    "libtorch_neuronx_lite": (),
    "libtorch_neuronx_lite._compiler": ("nki_op",),
    "libtorch_neuronx_lite.nki": (),
    "libtorch_neuronx_lite.nki.nki_hop": ("nki_op", "wrap_nki"),
}
"""By module, the names that :mod:`nki.harness.vendor_torch` has."""
SOURCE: Final = "nki.harness.vendor_torch"
FIX: Final = (
    "take only wrap_nki, nki_op and nki_jit from it, and keep what runs on a Neuron device out of the kernel's file"
)
