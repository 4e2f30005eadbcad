"""Entry points that public harnesses import: what they compile, run and measure is done by this machine.

The modules under their public names (``nki.simulator``, ``nki.runtime``, ``nki.framework.*``, ``nki.compiler.*``) show
names of this package and hold no code. None of the entry points has a public document; ``docs/harnesses.md`` lists each
with its meaning here.
"""

from typing import Final

VENDOR_TORCH: Final = {
    "torch_neuronx": ("nki_jit", "nki_op", "wrap_nki"),
    "torch_neuronx.nki_hop": ("nki_op", "wrap_nki"),
    "torch_neuronx.xla_impl": (),
    "torch_neuronx.xla_impl.ops": ("nki_jit",),
    "libtorch_neuronx_lite": (),
    "libtorch_neuronx_lite._compiler": ("nki_op",),
    "libtorch_neuronx_lite.nki": (),
    "libtorch_neuronx_lite.nki.nki_hop": ("nki_op", "wrap_nki"),
}
"""Modules of the vendor's packages for PyTorch, and the names of each that :mod:`nki.harness.vendor_torch` has."""
VENDOR_TORCH_FIX: Final = (
    "take only wrap_nki, nki_op and nki_jit from it, and keep what runs on a Neuron device out of the kernel's file"
)
