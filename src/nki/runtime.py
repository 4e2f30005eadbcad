"""``nki.runtime``: compiled kernels on this machine where harnesses expect a device (``docs/harnesses.md``)."""

from nki.harness.device import SpikeModel, SpikeTensor, configure, get_spike_singleton, reset
from nki.harness.native_timing import ModelTimes as BenchmarkResult

__all__ = ["BenchmarkResult", "SpikeModel", "SpikeTensor", "configure", "get_spike_singleton", "reset"]
