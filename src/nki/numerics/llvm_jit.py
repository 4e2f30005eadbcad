"""The compiler of the machine that we run on: LLVM modules in, addresses of native functions out.

One process has one :class:`Engine` (:func:`engine`). It owns everything that depends on the host: which CPU and
features to generate code for, how wide vectors are, and which optimisations run.

Numerics: nothing here may change the result of a floating-point operation. No fast-math flag is added, and a multiply
and an add are never contracted: only an explicit ``llvm.fma`` fuses.
"""

from __future__ import annotations

import ctypes
import hashlib
import platform
import re
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final, NamedTuple

from llvmlite import ir

from nki.base.version import build
from nki.numerics import llvm_library, object_cache
from nki.numerics.llvm import has_avx512, i64, taken
from nki.numerics.llvm_library import Workers, binding, emit_object, is_inside, run_passes

_OPTIMISATION_LEVEL = 3
_BRIEF_PASSES: Final = ("simplify_cfg", "sroa", "new_gvn", "instruction_combine", "loop_rotate", "simplify_cfg")
_UNROLLING_PASSES: Final = (*_BRIEF_PASSES, "loop_unroll", "instruction_combine", "simplify_cfg")


class Passes(Enum):
    """The optimisations of a module."""

    none = auto()
    """It becomes code as it stands."""
    brief = auto()
    """Memory becomes registers, and what is computed twice is computed once.

    For code that unrolls its loops itself: with the others a matmul of float32 takes 0.43 s to compile instead of 0.17,
    and runs no faster.
    """
    unrolling = auto()
    """:attr:`brief`, and short loops are unrolled.

    For routines: their vectors, and what their loops share, are explicit. With all passes LLVM takes 1.6 times as long
    for them, and they run no faster.
    """
    full = auto()
    """All that LLVM has, without its vectorisers."""


_LISTS: Final = {Passes.brief: _BRIEF_PASSES, Passes.unrolling: _UNROLLING_PASSES}


Module = tuple[str, Callable[[], str], Passes]
"""A module that is the same for each build of this package and host: its name, what makes its IR, and its passes."""


def _ignore(_: int) -> None:
    """Note nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class Code:
    """The loaded functions of one module, which stay in memory as long as this object."""

    token: llvm_library.Token
    addresses: dict[str, int]
    key: str
    """The key of the object code; see :meth:`Engine.key_of`."""
    is_portable: bool
    """True if the object code holds in another process, too."""


class _Object(NamedTuple):
    """Object code, the functions that it defines, and those that it calls."""

    code: bytes
    defined: tuple[str, ...]
    needed: tuple[str, ...]


class _Unit:
    """One module on its way to object code."""

    __slots__ = ("error", "is_portable", "key", "object", "passes", "text", "workers")

    def __init__(self, text: str, key: str, passes: Passes = Passes.full) -> None:
        self.text = text
        self.key = key
        self.passes = passes
        self.is_portable = _ADDRESS.search(text) is None
        """True if no address of this process is in it."""
        self.object = object_cache.load(key, _Object) if self.is_portable else None
        self.workers: Workers[_Unit] | None = None
        """The threads that compile it, once they have it; none if its object code is in the user's cache."""
        self.error: BaseException | None = None


_ADDRESS: Final = re.compile(r"inttoptr \(?i64 \d{5,}")


class Engine:
    """Compiles LLVM modules for the host; every method may be called from any thread."""

    def __init__(self) -> None:
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        with binding.ffi.OutputString() as message:  # else LLVM sees the process's functions after the first code only
            binding.ffi.lib.LLVMPY_LoadLibraryPermanently(None, message)
        self._fixed: dict[str, Code] = {}
        """Code that stays as long as this engine, by the name of its module."""
        self._ahead: dict[str, _Unit] = {}
        """Modules that are compiled before :meth:`fixed` needs them, by name."""
        self._symbols: dict[int, str] = {}
        """Names of fixed functions, by address: other modules call them by these (:meth:`declared`)."""
        self._triple: str = binding.get_process_triple()
        self._target = binding.Target.from_triple(self._triple)
        self._cpu: str = binding.get_host_cpu_name()
        features = dict(binding.get_host_cpu_features())
        if "avx512f" in features:
            features["prefer-256-bit"] = False  # LLVM prefers 256 bits where the clock suffers; we ask for 512
        if not features.get("amx-bf16") or not _may_use_tiles():
            features |= {name: False for name in features if name.startswith("amx-")}
        self._features = ",".join(("+" if on else "-") + name for name, on in sorted(features.items()))
        self._data_layout = str(self._new_machine().target_data)
        self.vector_width: Final = 16 if has_avx512() else 8 if features.get("avx2") else 4
        """Number of float32 lanes in the widest vector that the host computes with."""
        self.has_half: Final = not self._triple.startswith(("x86_64", "i386", "i686")) or bool(features.get("f16c"))
        """True if the host converts float16, or has a library that does: x86 before F16C (2012) has neither."""
        self.has_bfloat16: Final = bool(features.get("avx512bf16"))
        """True if the host has AVX512-BF16, which rounds to bfloat16 numbers, and adds two products of them."""
        self.has_tiles: Final = bool(features.get("amx-bf16") and features.get("avx512f"))
        """True if the host has AMX for bfloat16, which multiplies matrices, and this process may use it."""

    @property
    def host(self) -> str:
        """Properties of the host that generated code depends on, as one line; a part of the key of native code."""
        return f"{self._triple} {self._cpu} {self._features} llvm-{'.'.join(map(str, binding.llvm_version_info))}"

    def load_all(self, modules: Iterable[str], done: Callable[[int], None] = _ignore) -> list[Code]:
        """Optimise and load modules, as LLVM IR: functions with external linkage, as long as the results are held.

        Each is compiled in a thread as soon as the iterator gives it, so that the next one is made meanwhile; ``done``
        is told how many are ready. Object code of the same IR comes from the user's cache. Modules do not see each
        other's symbols, so the same name may be compiled again. Raises ``RuntimeError`` with LLVM's message if a module
        is malformed.
        """
        with llvm_library.lock:
            return self._load_all((_Unit(text, self.key_of(text), Passes.unrolling) for text in modules), done)

    def _load_all(self, modules: Iterable[_Unit], done: Callable[[int], None] = _ignore) -> list[Code]:
        units: list[_Unit] = []
        workers = Workers(self._compile_unit)
        try:
            for unit in modules:
                units.append(unit)
                self._begin(unit, workers)
        finally:
            workers.finish()
        codes: list[Code] = []
        for unit in units:
            if unit.workers is not None:
                unit.workers.finish()
            if unit.error is not None:
                raise unit.error
            assert unit.object is not None
            if unit.workers is not None and unit.is_portable:
                object_cache.store(unit.key, unit.object)
            codes.append(self._linked(unit.key, unit.object, unit.is_portable))
            done(len(codes))
        return codes

    def _begin(self, unit: _Unit, workers: Workers[_Unit]) -> None:
        """Let ``workers`` compile ``unit``, unless its object code is stored, or others do."""
        if unit.object is None and unit.workers is None:
            unit.workers = workers
            workers.give(unit)

    def _compile_unit(self, unit: _Unit) -> None:
        """Compile the IR of ``unit``, in any thread."""
        try:
            unit.object = self._compiled(unit)
        except Exception as error:  # raised by the thread that waits
            unit.error = error.with_traceback(None)  # its frames hold objects of llvmlite, and this unit
        except BaseException as error:  # of a signal, in the thread that waits
            unit.error = error
            raise

    def _compiled(self, unit: _Unit) -> _Object:
        machine = self._new_machine()
        parsed = self._module(unit.text, machine, unit.passes)
        functions = [f for f in parsed.functions if f.linkage == binding.Linkage.external]
        defined = [f.name for f in functions if not f.is_declaration]
        needed = [f.name for f in functions if f.is_declaration and not f.name.startswith("llvm.")]
        return _Object(emit_object(machine, parsed), tuple(defined), tuple(needed))

    def stored(self, key: str) -> Code | None:
        """The code under ``key`` in the user's cache, loaded; None if it is not there, or needs what is not there."""
        with llvm_library.lock:
            stored = object_cache.load(key, _Object)
            if stored is None or not all(self._resolve(name) for name in stored.needed):
                return None
            return self._linked(key, stored)

    def _linked(self, key: str, stored: _Object, is_portable: bool = True) -> Code:
        """Load object code; all that it needs is known."""
        token, addresses = llvm_library.load(stored.code, stored.defined, self._new_machine(), self._parsed)
        return Code(token, addresses, key, is_portable)

    def _resolve(self, symbol: str) -> bool:
        """Let object code find a function by its symbol; False if there is none."""
        function, dot, name = symbol.rpartition(".")
        if not dot:
            return binding.address_of_symbol(symbol) is not None
        code = self._known(name)
        return code is not None and function in code.addresses

    def compile(self, module: ir.Module) -> dict[str, int]:
        """:meth:`load_all` ``module`` for good: the addresses of its functions, which stay as long as this engine.

        The module is empty afterwards.
        """
        text = taken(module)
        return self.fixed(self.key_of(text), lambda: text)

    def fixed(self, name: str, make: Callable[[], str], passes: Passes = Passes.full) -> dict[str, int]:
        """:meth:`compile` the IR that ``make`` makes, which is the same for each build of this package and host.

        If its object code is in the user's cache under ``name``, no IR is made.
        """
        with llvm_library.lock:
            code = self._known(name)
            if code is None:
                ahead = None if is_inside() else self._ahead.get(name)
                (code,) = self._load_all([ahead or self._made(name, make, passes)])
                self._keep(name, code)
            return code.addresses

    @contextmanager
    def ahead(self, modules: Sequence[Module]) -> Generator[None]:
        """Compile modules in threads beside the work inside, which may get them from :meth:`fixed`; then wait for them.

        No process forks meanwhile, so that no child finds LLVM at work.
        """
        workers = Workers(self._compile_unit)
        with llvm_library.lock:
            try:
                for name, make, passes in modules:
                    if self._known(name) is None:
                        self._ahead[name] = self._made(name, make, passes)
                        self._begin(self._ahead[name], workers)
                yield
            finally:
                workers.finish()
                for name, _, _ in modules:
                    self._ahead.pop(name, None)

    def _known(self, name: str) -> Code | None:
        """The fixed module ``name``, if this engine or the user's cache has it."""
        code = self._fixed.get(name)
        if code is None and (code := self.stored(self._fixed_key(name))) is not None:
            self._keep(name, code)
        return code

    def _made(self, name: str, make: Callable[[], str], passes: Passes) -> _Unit:
        return _Unit(make(), self._fixed_key(name), passes)

    def _fixed_key(self, name: str) -> str:
        """The key of the object code of the fixed module ``name``, of this build of the package."""
        return self.key_of(f"{build()} {name}")

    def _keep(self, name: str, code: Code) -> None:
        self._fixed[name] = code
        for function, address in code.addresses.items():
            self._symbols[address] = f"{function}.{name}"
            binding.add_symbol(f"{function}.{name}", address)

    def declared(self, module: ir.Module, address: int, kind: ir.FunctionType) -> Any:
        """The function at ``address`` in ``module``, by a name that holds in every process.

        Its address where no function of :meth:`fixed` is there, or the module knows it by another type.
        """
        name = self._symbols.get(address)
        known: Any = None if name is None else module.globals.get(name) or ir.Function(module, kind, name)
        if known is None or known.function_type != kind:
            return i64(address).inttoptr(kind.as_pointer())
        return known

    def key_of(self, text: str) -> str:
        """The key of object code: a digest of its IR or name, LLVM's version, and the host's CPU and features."""
        return hashlib.sha256(f"{self.host}\n{text}".encode()).hexdigest()[:40]

    def listing(self, module: ir.Module, assembly: bool) -> str:
        """The text of ``module`` after LLVM's optimisations, or the host's assembly as :meth:`load_all` loads it."""
        with llvm_library.lock:
            return self._listing(str(module), assembly)

    def _listing(self, text: str, assembly: bool) -> str:
        machine = self._new_machine()  # which ends, as the module does, with the lock held
        parsed = self._module(text, machine, Passes.unrolling)
        return machine.emit_assembly(parsed) if assembly else str(parsed)

    def _new_machine(self) -> Any:
        """A new target machine: a JIT engine takes the one that it is given."""
        return self._target.create_target_machine(
            cpu=self._cpu, features=self._features, opt=_OPTIMISATION_LEVEL, jit=True
        )

    def _parsed(self, text: str, context: Any) -> Any:
        """IR in a context of its own: the common one keeps every constant and type that it has seen."""
        parsed = binding.parse_assembly(text, context)
        # The context deletes its module: an exception may leave both to the collector, which would begin with either.
        parsed._owned = True  # pyright: ignore[reportPrivateUsage]
        parsed.triple = self._triple
        parsed.data_layout = self._data_layout
        return parsed

    def _module(self, text: str, machine: Any, passes: Passes) -> Any:
        """The module of ``text``, verified, and optimised for ``machine``."""
        parsed = self._parsed(text, binding.create_context())
        parsed.verify()
        if passes is Passes.none:
            return parsed
        tuning = binding.create_pipeline_tuning_options(speed_level=_OPTIMISATION_LEVEL)
        # Our code says itself what is a vector. LLVM would only turn scalar tails into more loops, at twice the time to
        # compile, and sequential sums into gathers, which are slower than the scalar loads that they replace.
        tuning.loop_vectorization = False
        tuning.slp_vectorization = False
        tuning.loop_interleaving = False
        builder = binding.create_pass_builder(machine, tuning)
        if passes is Passes.full:
            manager = builder.getModulePassManager()
        else:
            manager = binding.create_new_module_pass_manager()
            for name in _LISTS[passes]:
                getattr(manager, f"add_{name}_pass")()
        run_passes(manager, parsed, builder)
        return parsed


def _may_use_tiles() -> bool:
    """Ask the operating system for AMX's tile registers, which Linux gives to processes that ask; False if it refuses.

    Source: Linux kernel documentation, "Using XSTATE features in user space applications".
    """
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return False
    arch_prctl, request, tile_data = 158, 0x1023, 18
    return ctypes.CDLL(None).syscall(arch_prctl, request, tile_data) == 0


_engine: Engine | None = None


def engine() -> Engine:
    """The engine of this process; threads that need it first at the same time get the same one."""
    global _engine
    if _engine is None:
        with llvm_library.lock:
            if _engine is None:
                _engine = Engine()
    return _engine
