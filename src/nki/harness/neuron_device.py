"""PyTorch's device "neuron" and its compiler's backend "neuron", which the vendor's package registers: here the CPU.

PyTorch keeps one name for a device that a package adds, and lets Python stand for its operators. Each operator that
would make a tensor there makes it on the CPU instead, so no tensor ever is on the device: ``x.to("neuron").device`` is
``cpu``, and kernels and operators run as for any tensor of the CPU. It holds for the process and cannot be undone.
"""

from __future__ import annotations

from typing import Any, Final

from nki.base.locks import imported

NAME: Final = "neuron"
_registered: Final[list[Any]] = []
"""The library of the fallback, which PyTorch forgets together with its object."""


class NeuronModule:
    """``torch.neuron``: one device, without a queue of its own."""

    @staticmethod
    def is_available() -> bool:
        """True: tensors can be made with the name of the device, on the CPU."""
        return True

    @staticmethod
    def device_count() -> int:
        """1."""
        return 1

    @staticmethod
    def current_device() -> int:
        """0."""
        return 0

    @staticmethod
    def set_device(device: Any) -> None:
        """There is one device, whatever its name or number."""

    @staticmethod
    def synchronize(device: Any = None) -> None:
        """Nothing waits: operations on tensors of the CPU have run."""

    @staticmethod
    def manual_seed_all(seed: int) -> None:
        """Nothing: the generator of the CPU, which ``torch.manual_seed`` sets, makes the numbers."""

    @staticmethod
    def is_initialized() -> bool:
        """Yes."""
        return True

    @staticmethod
    def _lazy_init() -> None: ...

    @staticmethod
    def _is_in_bad_fork() -> bool:
        return False


def register() -> None:
    """Register both, once; nothing if another package has taken PyTorch's place for a device."""
    torch: Any = imported("torch")
    if _registered or torch._C._get_privateuse1_backend_name() != "privateuseone":
        return
    imported("torch.utils.backend_registration")._setup_privateuseone_for_python_backend(NAME, NeuronModule())
    library = torch.library.Library("_", "IMPL")
    library.fallback(_on_cpu, "PrivateUse1")
    _registered.append(library)
    dynamo: Any = imported("torch._dynamo")
    dynamo.register_backend(imported("torch._dynamo.backends.debugging").aot_eager, name=NAME)


def _on_cpu(operator: Any, *args: Any, **kwargs: Any) -> Any:
    """The operator with the CPU in place of the device."""
    torch: Any = imported("torch")

    def here(value: Any) -> Any:
        return torch.device("cpu") if isinstance(value, torch.device) and value.type == NAME else value

    args, kwargs = imported("torch.utils._pytree").tree_map(here, (args, kwargs))
    return operator(*args, **kwargs)
