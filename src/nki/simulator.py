"""``nki.simulator``: the simulator as public harnesses import it (``docs/harnesses.md``)."""

from nki.harness.simulation import simulate_kernel, simulate_py

__all__ = ["simulate_kernel", "simulate_py"]
