"""The device and its queue, as programs for torch_xla ask for them: here the device is the CPU, and nothing waits.

A graph of torch_xla runs where ``mark_step`` or ``sync`` ends it. On tensors of the CPU each operation has run by then.
"""

from __future__ import annotations

from typing import Any

from nki.base.errors import DeviceOnlyError
from nki.base.locks import imported


def xla_device(n: int | None = None, devkind: str | None = None) -> Any:
    """``torch.device("cpu")``. Raises :class:`DeviceOnlyError` for a second device, or one that is no CPU."""
    if n not in (None, 0) or devkind not in (None, "CPU"):
        raise DeviceOnlyError(
            f"xla_device({n}, {devkind!r}): the only device here is the CPU",
            fix="call xla_device() without arguments",
        )
    return imported("torch").device("cpu")


def device(index: int | None = None) -> Any:
    """``torch_xla.device``: as :func:`xla_device`."""
    return xla_device(index)


def mark_step(*_: Any, **__: Any) -> None:
    """Nothing waits: operations on tensors of the CPU have run."""


def sync(*_: Any, **__: Any) -> None:
    """``torch_xla.sync``: as :func:`mark_step`."""


def wait_device_ops(*_: Any, **__: Any) -> None:
    """As :func:`mark_step`."""


def xla_device_hw(device: Any) -> str:  # noqa: ARG001  # there is one
    """The kind of a device: "CPU"."""
    return "CPU"


def get_ordinal() -> int:
    """The rank of this process: 0, for it is the only one."""
    return 0


def xrt_world_size() -> int:
    """The number of processes: 1."""
    return 1


def is_master_ordinal(local: bool = True) -> bool:  # noqa: ARG001  # of one process
    """True: this is the first process."""
    return True
