"""The options of ``nki.jit`` in NKI 0.7: ``compile_config`` and ``specialization_config``.

A :class:`CompileConfig` selects passes of the vendor's compiler. None of them changes the result of a kernel. Open NKI
has one of them, spills after an allocation that failed; the other fields have no effect here. Configurations are also
compared where kernels are nested.
Source: NKI API Reference 0.7, ``nki.compiler``.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any

from nki.base.errors import KernelArgumentError
from nki.base.warning import NkiPortabilityWarning, warn_here
from nki.compilation.launch_errors import NestedConfigError


class AddressRotation(Enum):
    """The way in which the vendor's allocator takes turns among addresses. The reference names no member."""


@dataclass(frozen=True, kw_only=True)
class CompileConfig:
    """Options of a compilation. None: the default of the vendor's compiler, where the reference does not name it."""

    address_rotation: AddressRotation | None = None
    non_ssa_legalization: bool | None = None
    dead_code_elim: bool | None = None
    barrier_check: bool | None = None
    """Here the simulator finds races of cores in any case (``docs/hazards.md``)."""
    prefetch_auto: bool = False
    nki_alloc_fallback: bool = True
    """A kernel that does not fit spills, with a warning (``docs/memory.md``); without it, that is an error."""


@dataclass(frozen=True, kw_only=True)
class SpecializationConfig:
    """Options of specialisation."""

    allow_nested_config_override: bool = False
    """A kernel inside another one that has another ``compile_config`` is a warning, and no error."""


Configs = tuple[CompileConfig | None, SpecializationConfig | None]
"""The configurations of a kernel, None where its decorator gives none."""

_outer: ContextVar[Configs] = ContextVar("outer", default=(None, None))
"""The configurations of the kernel that is being specialised."""


def checked(compile_config: Any, specialization_config: Any) -> Configs:
    """Both configurations. Raises :class:`KernelArgumentError` for objects of other classes."""
    for name, value, kind in (
        ("compile_config", compile_config, CompileConfig),
        ("specialization_config", specialization_config, SpecializationConfig),
    ):
        if value is not None and not isinstance(value, kind):
            raise KernelArgumentError(
                f"nki.jit({name}={value!r:.60}): this is no nki.compiler.{kind.__name__}",
                fix=f"pass nki.compiler.{kind.__name__}(…)",
            )
    return compile_config, specialization_config


def spills(configs: Configs | None) -> bool:
    """True if a kernel with ``configs`` lets the compiler spill tiles (``docs/memory.md``)."""
    return configs is None or configs[0] is None or configs[0].nki_alloc_fallback


@contextmanager
def configured(configs: Configs | None) -> Generator[None]:
    """A kernel with ``configs`` is being specialised inside."""
    token = _outer.set(configs or (None, None))
    try:
        yield
    finally:
        _outer.reset(token)


def check_nested(name: str, configs: Configs) -> None:
    """Raise :class:`NestedConfigError` if the kernel ``name`` may not be inlined into the one being specialised.

    A kernel without a configuration takes its caller's.
    """
    own, (outer, specialization) = configs[0], _outer.get()
    outer = outer or CompileConfig()
    if own is None or own == outer:
        return
    (one, other) = (
        ", ".join(
            f"{f.name}={getattr(config, f.name)}" for f in fields(own) if vars(own)[f.name] != vars(outer)[f.name]
        )
        for config in (own, outer)
    )
    message = f"kernel {name!r}, which becomes a part of its caller, has {one}; the caller has {other}"
    if specialization is None or not specialization.allow_nested_config_override:
        raise NestedConfigError(
            message,
            fix="give both the same compile_config, or the caller "
            "specialization_config=SpecializationConfig(allow_nested_config_override=True)",
        )
    warn_here(f"{message}, which holds for both", NkiPortabilityWarning)
