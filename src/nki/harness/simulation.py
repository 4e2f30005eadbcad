"""Kernels in the simulator, as harnesses call it."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from nki.base.errors import FileImportError
from nki.base.text_loader import spec_of
from nki.jit import Kernel, jit, simulate


def simulate_kernel(
    func: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    lnc: int | None = None,
) -> Any:
    """Run ``func(*args, **kwargs)`` in the simulator, on ``lnc`` cores; the results in the caller's framework.

    ``func`` is a kernel or an undecorated function. It is :func:`nki.simulate` in another form.
    """
    kernel = as_kernel(func)
    return simulate(kernel if lnc is None else kernel.on_cores(lnc))(*args, **dict(kwargs or {}))


def simulate_py(path: str | Path, func_name: str, args: Sequence[Any] = (), **kwargs: Any) -> Any:
    """Import the file ``path`` and run its function ``func_name`` on ``args`` in the simulator."""
    file = Path(path)
    spec = spec_of(file.stem, file)
    if spec is None or spec.loader is None or not file.is_file():
        raise FileImportError(f"there is no Python file {file}", fix="pass the path of a .py file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not hasattr(module, func_name):
        raise FileImportError(f"{file} defines no {func_name!r}", fix="pass the name of one of its functions")
    return simulate_kernel(getattr(module, func_name), args, kwargs)


class CpuSimulator:
    """``nki.cpu_simulate(kernel)[lnc](…)``: the kernel in the simulator, on ``lnc`` cores."""

    def __init__(self, kernel: Callable[..., Any], lnc: int | None = None) -> None:
        self.kernel, self.lnc = as_kernel(kernel), lnc

    def __getitem__(self, lnc: int) -> CpuSimulator:
        return CpuSimulator(self.kernel, lnc)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return simulate_kernel(self.kernel, args, kwargs, self.lnc)


def as_kernel(func: Any) -> Kernel:
    """The kernel of a function, decorated or not."""
    return func if isinstance(func, Kernel) else cast("Kernel", jit(func))
