"""The compiler of the machine that we run on: LLVM modules in, addresses of native functions out.

One process has one :class:`Engine` (:func:`engine`). It owns everything that depends on the host: which CPU and
features to generate code for, how wide vectors are, and which optimisations run.

Numerics: nothing here may change the result of a floating-point operation. No fast-math flag is added, and a multiply
and an add are never contracted: only an explicit ``llvm.fma`` fuses.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from llvmlite import binding, ir

from nki.base.locks import held_at_fork

_OPTIMISATION_LEVEL = 3
_llvm: Final = held_at_fork()
"""LLVM is entered by one thread at a time."""
_dropped: list[Any] = []
"""Native code that nothing uses any more, until a thread may enter LLVM to free it."""


class Code:
    """The loaded functions of one module, which stay in memory as long as this object."""

    __slots__ = ("_jit", "addresses")

    def __init__(self, jit: Any, addresses: dict[str, int]) -> None:
        self._jit = jit
        self.addresses = addresses

    # Defaults, because a module has no names any more when the interpreter ends.
    def __del__(self, lock: Any = _llvm, dropped: list[Any] = _dropped, ends: Any = sys.is_finalizing) -> None:
        if ends():  # llvmlite has let go of LLVM, and the memory goes with the process
            return
        dropped.append(self._jit)
        if lock.acquire(blocking=False):  # else another thread compiles, and will free it
            try:
                while dropped:
                    dropped.pop().close()
            finally:
                lock.release()


class Engine:
    """Compiles LLVM modules for the host; every method may be called from any thread."""

    def __init__(self) -> None:
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        self._lasting: list[Code] = []
        self._triple: str = binding.get_process_triple()
        self._target = binding.Target.from_triple(self._triple)
        self._cpu: str = binding.get_host_cpu_name()
        features = dict(binding.get_host_cpu_features())
        if "avx512f" in features:
            features["prefer-256-bit"] = False  # LLVM prefers 256 bits on CPUs whose clock suffers; we ask for 512
        self._features = ",".join(("+" if on else "-") + name for name, on in sorted(features.items()))
        self._has_half = not self._triple.startswith(("x86_64", "i386", "i686")) or bool(features.get("f16c"))
        self._machine = self._new_machine()
        self._data_layout = str(self._machine.target_data)
        self._vector_width = 16 if features.get("avx512f") else 8 if features.get("avx2") else 4

    @property
    def vector_width(self) -> int:
        """Number of float32 lanes in the widest vector that the host computes with: 16, 8 or 4."""
        return self._vector_width

    @property
    def has_half(self) -> bool:
        """True if the host converts float16, or has a library that does: x86 before F16C (2012) has neither."""
        return self._has_half

    @property
    def host(self) -> str:
        """Properties of the host that generated code depends on, as one line; a part of the key of native code."""
        return f"{self._triple} {self._cpu} {self._features} llvm-{'.'.join(map(str, binding.llvm_version_info))}"

    def load(self, module: ir.Module) -> Code:
        """Optimise and load ``module``: the functions that it defines with external linkage, as long as these are held.

        Modules do not see each other's symbols, so the same name may be compiled again. Raises ``RuntimeError`` with
        LLVM's message if the module is malformed.
        """
        with _llvm:
            while _dropped:
                _dropped.pop().close()
            return self._load(module)  # a function of its own: what it makes goes while the lock is held

    def _load(self, module: ir.Module) -> Code:
        parsed = self._optimised(module)
        names = [
            function.name
            for function in parsed.functions
            if not function.is_declaration and function.linkage == binding.Linkage.external
        ]
        # As an object file, because a JIT engine that compiles keeps its whole machine: 1 MiB for each module.
        object_file = binding.ObjectFileRef.from_data(self._machine.emit_object(parsed))
        jit = binding.create_mcjit_compiler(self._parsed(ir.Module()), self._new_machine())
        jit.add_object_file(object_file)
        jit.finalize_object()
        return Code(jit, {name: jit.get_function_address(name) for name in names})

    def compile(self, module: ir.Module) -> dict[str, int]:
        """:meth:`load` ``module`` for good: the addresses of its functions, which stay as long as this engine lives."""
        code = self.load(module)
        self._lasting.append(code)
        return code.addresses

    def optimised_ir(self, module: ir.Module) -> str:
        """The text of ``module`` after LLVM's optimisations."""
        with _llvm:
            return self._text(module)

    def _text(self, module: ir.Module) -> str:
        return str(self._optimised(module))

    def assembly(self, module: ir.Module) -> str:
        """The host's assembly for ``module``, as :meth:`compile` would load it."""
        with _llvm:
            return self._assembly(module)

    def _assembly(self, module: ir.Module) -> str:
        return self._machine.emit_assembly(self._optimised(module))

    def _new_machine(self) -> Any:
        """A new target machine: a JIT engine takes the one that it is given."""
        return self._target.create_target_machine(
            cpu=self._cpu, features=self._features, opt=_OPTIMISATION_LEVEL, jit=True
        )

    def _parsed(self, module: ir.Module) -> Any:
        """``module`` in a context of its own: the common one keeps every constant and type that it has seen."""
        parsed = binding.parse_assembly(str(module), binding.create_context())
        parsed.triple = self._triple
        parsed.data_layout = self._data_layout
        return parsed

    def _optimised(self, module: ir.Module) -> Any:
        parsed = self._parsed(module)
        parsed.verify()
        tuning = binding.create_pipeline_tuning_options(speed_level=_OPTIMISATION_LEVEL)
        # Our code says itself what is a vector. LLVM would only turn scalar tails into more loops, at twice the time to
        # compile, and sequential sums into gathers, which are slower than the scalar loads that they replace.
        tuning.loop_vectorization = False
        tuning.slp_vectorization = False
        tuning.loop_interleaving = False
        builder = binding.create_pass_builder(self._machine, tuning)
        builder.getModulePassManager().run(parsed, builder)
        return parsed


_engine: Engine | None = None


def engine() -> Engine:
    """The engine of this process; threads that need it first at the same time get the same one."""
    global _engine
    if _engine is None:
        with _llvm:
            if _engine is None:
                _engine = Engine()
    return _engine
