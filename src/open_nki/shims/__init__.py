"""Files of kernels that are written for a machine with Neuron devices, on any machine (docs/harnesses.md).

``open_nki.shims.install()`` provides stand-ins for the packages that such files import: ``torch_neuronx``,
``libtorch_neuronx_lite``, ``jax_neuronx`` and the device of ``torch_xla``. A package that is installed stays itself.
``python -m open_nki.shims FILE`` and ``pytest --nki-shims`` do the same for a program and for tests.
"""

from __future__ import annotations

import warnings

from nki.base.locks import imported
from nki.base.warning import NkiPortabilityWarning
from nki.compilation.bridges import STAND_INS


def install() -> dict[str, bool]:
    """Provide the stand-ins from now on in this process, and return :func:`status`.

    The import of a stand-in for ``torch_neuronx`` or ``libtorch_neuronx_lite`` also makes PyTorch's device "neuron" the
    CPU (:mod:`nki.harness.neuron_device`). Gives an :class:`NkiPortabilityWarning` for each package of Neuron that is
    installed: its own modules are used.
    """
    STAND_INS.first.update(dict.fromkeys(("torch_neuronx", "libtorch_neuronx_lite"), _register_device))
    STAND_INS.provide()
    packages = status()
    for package, stands_in in packages.items():
        if not stands_in and package != "torch_xla":  # kernels of Open NKI run on its tensors
            message = f"{package} is installed, and programs get it and no stand-in of Open NKI"
            warnings.warn(message, NkiPortabilityWarning, stacklevel=2)
    return packages


def _register_device() -> None:
    imported("nki.harness.neuron_device").register()


def status() -> dict[str, bool]:
    """The packages by name, and whether a stand-in provides it: True, or False for one that is installed.

    Raises RuntimeError before :func:`install`.
    """
    return STAND_INS.packages()


__all__ = ["install", "status"]
