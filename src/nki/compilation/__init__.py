"""From a Python function to a verified kernel, to native code, or to a run in the simulator."""
