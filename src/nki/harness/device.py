"""``nki.runtime``: compiled kernels and tensors on the CPU of this machine.

Source of the names: Neuron documentation, "nrtpy model API" and "nrtpy tensor API" (SDK 2.32). Their classes are the
same under newer names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nki.base.errors import DeviceOnlyError, KernelArgumentError
from nki.base.warning import NkiPortabilityWarning, warn_here
from nki.compilation.executable import Executable
from nki.harness import native_timing
from nki.harness.artifacts import warn_of_trace
from nki.ir.types import TensorSpec


class SpikeTensor:
    """An array in the memory of this machine, where harnesses expect one in the memory of a core."""

    def __init__(self, array: NDArray[Any], name: str | None = None) -> None:
        self._array = array
        self.name = name or ""

    @classmethod
    def from_numpy(cls, array: NDArray[Any], name: str | None = None, core_id: int = 0) -> SpikeTensor:  # noqa: ARG003
        """A copy of ``array``. ``core_id`` is the core of a device, and means nothing here."""
        return cls(np.array(array, order="C"), name)

    @property
    def shape(self) -> tuple[int, ...]:
        return self._array.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._array.dtype

    @property
    def size(self) -> int:
        """Bytes."""
        return self._array.nbytes

    def array(self) -> NDArray[Any]:
        """The array itself, for writing."""
        return self._array

    def write_from_numpy(self, array: NDArray[Any]) -> None:
        """Replace the elements by the ones in ``array``, which has as many bytes."""
        if array.nbytes != self._array.nbytes:
            raise KernelArgumentError(
                f"tensor {self.name!r} has {self._array.nbytes} bytes, the array {array.nbytes}",
                fix="pass one of its size",
            )
        self._array[...] = np.ascontiguousarray(array).reshape(-1).view(self.dtype).reshape(self.shape)

    def numpy(self) -> NDArray[Any]:
        """A copy of the elements."""
        return self._array.copy()


class TensorInfo(NamedTuple):
    """Description of an input or an output: ``size`` in bytes."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    size: int
    name: str


def _info(spec: TensorSpec) -> TensorInfo:
    return TensorInfo(spec.shape, spec.dtype.dtype, int(np.prod(spec.shape)) * spec.dtype.dtype.itemsize, spec.name)


class SpikeModel:
    """A compiled kernel, run by native code on this machine."""

    def __init__(self, executable: Executable, path: Path) -> None:
        self.executable = executable
        self.neff_path = path
        self.name = path.stem
        self.input_tensors_info = {spec.name: _info(spec) for spec in executable.inputs}
        self.output_tensors_info = {spec.name: _info(spec) for spec in executable.outputs}

    @classmethod
    def load_from_neff(
        cls,
        neff_path: str | Path,
        name: str | None = None,
        core_id: int = 0,  # noqa: ARG003  # there is one place to load it to
        cc_enabled: bool = False,
        rank_id: int = 0,
        world_size: int = 1,
    ) -> SpikeModel:
        """Load an artifact that Open NKI has written where a NEFF is expected. A NEFF is an :class:`ArtifactError`."""
        if cc_enabled or rank_id or world_size != 1:
            raise DeviceOnlyError(
                f"load_from_neff(cc_enabled={cc_enabled}, rank_id={rank_id}, world_size={world_size}): several ranks "
                "exchange data over links of Trainium",
                fix="load it for one rank",
            )
        model = cls(Executable.load(neff_path), Path(neff_path))
        model.name = name or model.name
        return model

    def __call__(
        self,
        inputs: Mapping[str, SpikeTensor],
        outputs: Mapping[str, SpikeTensor] | None = None,
        save_trace: bool = False,
        ntff_name: str | None = None,
    ) -> dict[str, SpikeTensor] | None:
        """Run once. Results are written into ``outputs``, or into new tensors, which are returned."""
        if save_trace:
            warn_of_trace(ntff_name or self.neff_path.with_suffix(".ntff"))
        results = self._outputs(inputs) if outputs is None else dict(outputs)
        given = self._checked(inputs, results)
        native_timing.run(self.executable, given, {name: tensor.array() for name, tensor in results.items()})
        return results if outputs is None else None

    def benchmark(
        self,
        inputs: Mapping[str, SpikeTensor],
        outputs: Mapping[str, SpikeTensor] | None = None,
        warmup_iter: int = 5,
        benchmark_iter: int = 5,
        mode: str = "device",
    ) -> native_timing.ModelTimes:
        """Times of native runs on this machine's CPU, not Trainium's, in either ``mode``."""
        if mode not in ("device", "host"):
            raise KernelArgumentError(f"benchmark(mode={mode!r}): there is no such mode", fix="use 'device' or 'host'")
        given = self._checked(inputs, outputs or {})
        arrays = [given[spec.name] for spec in self.executable.inputs]
        return native_timing.ModelTimes(
            native_timing.measure(self.executable, arrays, warmup_iter, benchmark_iter), warmup_iter
        )

    def _outputs(self, inputs: Mapping[str, SpikeTensor]) -> dict[str, SpikeTensor]:
        """New tensors for the results; of an input that the kernel changes, the input's tensor."""
        names = [spec.name for spec in self.executable.inputs]
        changes = {o: names[i] for o, i in self.executable.changes.items()}
        return {
            spec.name: inputs[changes[o]]
            if changes.get(o) in inputs
            else SpikeTensor(np.zeros(spec.shape, spec.dtype.dtype), spec.name)
            for o, spec in enumerate(self.executable.outputs)
        }

    def _checked(
        self, inputs: Mapping[str, SpikeTensor], outputs: Mapping[str, SpikeTensor]
    ) -> dict[str, NDArray[Any]]:
        """The arrays of ``inputs``. Raises :class:`KernelArgumentError` for names and tensors that do not fit."""
        for what, tensors, infos in (
            ("input", inputs, self.input_tensors_info),
            ("output", outputs, self.output_tensors_info),
        ):
            if unknown := sorted(set(tensors) - set(infos)):
                raise KernelArgumentError(
                    f"{self.name} has no {what} {unknown[0]!r}", fix=f"its {what}s are {', '.join(infos)}"
                )
            for name, tensor in tensors.items():
                _check(f"{what} {name!r} of {self.name}", tensor, infos[name])
        if missing := [name for name in self.input_tensors_info if name not in inputs]:
            raise KernelArgumentError(f"{self.name} needs the input {missing[0]!r}", fix="pass a tensor for each input")
        return {name: tensor.array() for name, tensor in inputs.items()}


def _check(what: str, tensor: Any, info: TensorInfo) -> None:
    if not isinstance(tensor, SpikeTensor):
        raise KernelArgumentError(f"{what} is {tensor!r:.60}", fix="pass SpikeTensor.from_numpy(array, name)")
    # Elements that NumPy has no type for may come as integers of their size.
    words = info.dtype.type.__module__ != "numpy" and tensor.dtype.kind in "iu"
    same = tensor.dtype == info.dtype or (words and tensor.dtype.itemsize == info.dtype.itemsize)
    if not same or tensor.shape != info.shape:
        raise KernelArgumentError(
            f"{what} was compiled as {info.dtype} {info.shape}; the tensor is {tensor.dtype} {tensor.shape}",
            fix="pass a tensor of that shape and dtype",
        )


class Device:
    """The runtime that :func:`get_spike_singleton` gives: there is nothing to start, stop or free."""

    def free_tensor(self, tensor: SpikeTensor) -> None:
        """Nothing: Python frees the array of ``tensor``."""


_DEVICE: Final = Device()


def get_spike_singleton() -> Device:
    """The one object that stands for the runtime."""
    return _DEVICE


def configure(visible_cores: Iterable[int] | None = None) -> None:
    """Nothing but a warning: cores of a device cannot be chosen here."""
    chosen = None if visible_cores is None else list(visible_cores)
    warn_here(f"configure(visible_cores={chosen}) has no effect: kernels run on the CPU", NkiPortabilityWarning)


def reset() -> None:
    """Nothing: there is no device to reset."""
