"""Bridges between kernels and array frameworks, one module each; a module is imported when its framework is first used.

A bridge module has an ``ADAPTER`` (see :class:`nki.frameworks.kernel_adapter.Adapter`) and a subclass of
:class:`nki.frameworks.kernel_adapter.FrameworkKernel`.
"""

from __future__ import annotations

import os
import sys
import warnings
from typing import Final

from nki.base import knobs
from nki.base.locks import imported
from nki.base.warning import NkiWarning, stamped
from nki.compilation.bridges import Bridge
from nki.rendezvous import ranks
from nki.rendezvous.protocol import Participant

BRIDGES: Final = (
    Bridge(f"{__name__}.numpy", (), 0),
    Bridge(f"{__name__}.torch", ("torch",), 1),
    Bridge(f"{__name__}.jax", ("jax", "jaxlib"), 2),
    Bridge(f"{__name__}.torch_fx", ("torch.fx.proxy",), 3),
)

HLO_FOLDER: Final = "neuron_framework_debug"
"""The folder for HLO with ``NEURON_FRAMEWORK_DEBUG=1``, in the working folder."""


def keep_hlo() -> None:
    """With ``NEURON_FRAMEWORK_DEBUG=1``, add to XLA's flags that it keeps the HLO of each program as a file.

    XLA reads its flags when a framework loads it, so this must come first: ``import nki`` calls it. Warns if it is too
    late.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if knobs.framework_debug() and "--xla_dump_to" not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} --xla_dump_to={HLO_FOLDER} --xla_dump_hlo_as_proto".strip()
        if not sys.modules.keys().isdisjoint(("torch_xla", "jaxlib")):
            message = "NEURON_FRAMEWORK_DEBUG=1 was set when XLA was loaded already, so no HLO is kept: set it before"
            warnings.warn(stamped(message), NkiWarning, stacklevel=2)


def _rank_of_process() -> Participant | None:
    """The rank of this process in PyTorch's process group, if the program has one."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not (distributed.is_available() and distributed.is_initialized()):
        return None
    return imported("nki.frameworks.torch_ranks").participant()


ranks.processes = _rank_of_process
