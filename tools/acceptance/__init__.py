"""The tests of the public NKI library, run unchanged through Open NKI: ``make acceptance NKILIB=path``.

The library is https://github.com/aws-neuron/nki-library (Apache-2.0); nothing of it is in this repository. Its tests
build inputs and references, and hand both with a kernel to an orchestrator that compiles and runs it on a device. Here
the orchestrator is ours (:mod:`tools.acceptance.orchestrator`): native code, and the simulator beside it where that
takes under a minute. ``docs/acceptance.md`` says how to run it, what is counted, and holds the table.
"""
