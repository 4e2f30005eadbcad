"""``@nki.autotune``: a kernel that picks one of some configurations at its first call with each shape."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from nki.base.errors import ArgumentError
from nki.base.locks import Lock
from nki.base.sweep_errors import NoPointError, SpaceError
from nki.base.usage import nearest
from nki.compilation.pipeline import SPECIALISE
from nki.ir.recorder import is_recording
from nki.jit import Adapter, Kernel, adapter_for
from nki.sweeps.evaluation import Draw, Steps, evaluate
from nki.sweeps.plan import outcome_name
from nki.sweeps.record import Outcome
from nki.sweeps.results import Results
from nki.workload.job import Work

_STEPS = Steps(runs=0)


class Autotuned:
    """``kernel`` with ``configs``: values of some of its parameters, which a call leaves out."""

    def __init__(self, kernel: Kernel, configs: Iterable[Mapping[str, Any]]) -> None:
        functools.update_wrapper(self, kernel.func)
        self.kernel = kernel
        self.configs = tuple(dict(each) for each in configs)
        self._chosen: dict[Any, dict[str, Any]] = {}
        self._lock = Lock()
        if not self.configs:
            raise SpaceError("nki.autotune got no configuration", fix='pass configs=[{"tile": 128}, {"tile": 256}]')
        parameters = list(kernel.names)
        for name in (name for each in self.configs for name in each):
            if name not in parameters:
                raise SpaceError(
                    f"nki.autotune: kernel {kernel.func.__name__} has no parameter {name!r}",
                    fix=nearest(name, parameters, "parameters"),
                )

    def __repr__(self) -> str:
        return f"<nki kernel {self.kernel.func.__qualname__}, one of {len(self.configs)} configurations>"

    def __getitem__(self, grid: Any) -> Autotuned:
        """The same on a grid, which has choices of its own."""
        return Autotuned(self.kernel[grid], self.configs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.kernel(*args, **kwargs, **self.choose(*args, **kwargs))

    def choose(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The configuration for these arguments: the one with the least predicted latency, found at the first call.

        Of equals the first one is taken. Raises :class:`NoPointError` if the kernel compiles for none.
        """
        if is_recording():
            raise ArgumentError(
                f"kernel {self.kernel.func.__name__} of nki.autotune is called inside another kernel",
                fix=f"call {self.kernel.func.__name__}.kernel, and pass a configuration",
            )
        adapter = adapter_for(args, kwargs)
        key = self.kernel.key(self.kernel.bind(args, {**kwargs, **self.configs[0]}), adapter)[0]
        if (found := self._chosen.get(key)) is None:
            with self._lock:
                found = self._chosen[key] = self._fastest(args, kwargs, adapter)
        return found

    def _fastest(self, args: tuple[Any, ...], kwargs: dict[str, Any], adapter: Adapter) -> dict[str, Any]:
        store = Results()
        outcomes = [self._outcome(store, args, {**kwargs, **each}, adapter) for each in self.configs]
        times = [float("inf") if out["latency"] is None else out["latency"] for out in outcomes]
        best = min(range(len(times)), key=times.__getitem__)
        if outcomes[best]["latency"] is None:
            first = outcomes[0]
            raise NoPointError(
                f"kernel {self.kernel.func.__name__} compiles for none of {len(times)} configurations; for the first: "
                f"[{first['code']}] {first['message']}",
                fix="add a configuration for this shape",
            )
        return self.configs[best]

    def _outcome(self, store: Results, args: tuple[Any, ...], kwargs: dict[str, Any], adapter: Adapter) -> Outcome:
        """The predicted time with one configuration: kept before, by this or by ``nki tune``, or found out now."""
        arguments = self.kernel.bind(args, kwargs)
        work = Work(self.kernel, self.kernel.chosen_target(), self.kernel.specs(arguments, adapter))
        name = outcome_name(work, None, _STEPS)
        found = store.find(name)
        if found is None:
            _, tensors = self.kernel.key(arguments, adapter)
            draw = Draw(lambda: [adapter.to_numpy(tensor) for tensor in tensors], lambda _: None)
            [found] = evaluate(partial(work.compile, SPECIALISE), [draw], _STEPS)
            if not found["depends_on_data"]:
                store.keep(name, found)
        return found


def autotune(configs: Iterable[Mapping[str, Any]]) -> Callable[[Callable[..., Any]], Autotuned]:
    """``@nki.autotune(configs=[{"rows": 64}, {"rows": 128}])`` above ``@nki.jit``: pick at the first call.

    Each configuration has values for the same parameters of the kernel; calls leave these out. At the first call with
    each shape, dtype, constant and target, the latency of every configuration is predicted, and the fastest one that
    compiles is taken, then and later; predictions are kept on disk, and shared with ``nki tune``. Nothing else is run.
    Raises :class:`SpaceError` for a name that is no parameter.
    """

    def decorate(kernel: Callable[..., Any]) -> Autotuned:
        return Autotuned(kernel if isinstance(kernel, Kernel) else Kernel(kernel), configs)

    return decorate
