"""The compiler of the machine that we run on: LLVM modules in, addresses of native functions out.

One process has one :class:`Engine` (:func:`engine`). It owns everything that depends on the host: which CPU and
features to generate code for, how wide vectors are, and which optimisations run.

Numerics: nothing here may change the result of a floating-point operation. No fast-math flag is added, and a multiply
and an add are never contracted: only an explicit ``llvm.fma`` fuses.
"""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

from llvmlite import binding, ir

_OPTIMISATION_LEVEL = 3


class Engine:
    """Compiles LLVM modules for the host; every method may be called from any thread."""

    def __init__(self) -> None:
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        self._lock = threading.RLock()
        self._loaded: list[Any] = []
        self._triple: str = binding.get_process_triple()
        self._target = binding.Target.from_triple(self._triple)
        self._cpu: str = binding.get_host_cpu_name()
        features = dict(binding.get_host_cpu_features())
        if "avx512f" in features:
            features["prefer-256-bit"] = False  # LLVM prefers 256 bits on CPUs whose clock suffers; we ask for 512
        self._features = ",".join(("+" if on else "-") + name for name, on in sorted(features.items()))
        self._vector_width = 16 if features.get("avx512f") else 8 if features.get("avx2") else 4

    @property
    def vector_width(self) -> int:
        """Number of float32 lanes in the widest vector that the host computes with: 16, 8 or 4."""
        return self._vector_width

    @property
    def host(self) -> str:
        """Properties of the host that generated code depends on, as one line; a part of the key of native code."""
        return f"{self._triple} {self._cpu} {self._features} llvm-{'.'.join(map(str, binding.llvm_version_info))}"

    def compile(self, module: ir.Module) -> dict[str, int]:
        """Optimise and load ``module``; the addresses of the functions that it defines with external linkage.

        The code stays loaded as long as this engine lives. Modules do not see each other's symbols, so the same
        name may be compiled again. Raises ``RuntimeError`` with LLVM's message if the module is malformed.
        """
        with self._lock:
            parsed, machine = self._optimised(module)
            jit = binding.create_mcjit_compiler(parsed, machine)
            jit.finalize_object()
            self._loaded.append(jit)
            return {
                function.name: jit.get_function_address(function.name)
                for function in parsed.functions
                if not function.is_declaration and function.linkage == binding.Linkage.external
            }

    def optimised_ir(self, module: ir.Module) -> str:
        """The text of ``module`` after LLVM's optimisations."""
        with self._lock:
            return str(self._optimised(module)[0])

    def assembly(self, module: ir.Module) -> str:
        """The host's assembly for ``module``, as :meth:`compile` would load it."""
        with self._lock:
            parsed, machine = self._optimised(module)
            return machine.emit_assembly(parsed)

    def _machine(self) -> Any:
        """A new target machine: a JIT engine takes the one that it is given."""
        return self._target.create_target_machine(
            cpu=self._cpu, features=self._features, opt=_OPTIMISATION_LEVEL, jit=True
        )

    def _optimised(self, module: ir.Module) -> tuple[Any, Any]:
        parsed = binding.parse_assembly(str(module))
        machine = self._machine()
        parsed.triple = self._triple
        parsed.data_layout = str(machine.target_data)
        parsed.verify()
        tuning = binding.create_pipeline_tuning_options(speed_level=_OPTIMISATION_LEVEL)
        # Our code says itself what is a vector. LLVM would only turn scalar tails into more loops, at twice the time to
        # compile, and sequential sums into gathers, which are slower than the scalar loads that they replace.
        tuning.loop_vectorization = False
        tuning.slp_vectorization = False
        tuning.loop_interleaving = False
        builder = binding.create_pass_builder(machine, tuning)
        builder.getModulePassManager().run(parsed, builder)
        return parsed, machine


@cache
def engine() -> Engine:
    """The engine of this process."""
    return Engine()
