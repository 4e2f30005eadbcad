"""Bridges to frameworks: modules that are imported when a tensor of their framework is met first, and stand-ins for
packages that kernels and harnesses import, where these are not installed.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, cast

from nki.base.element_types import DType
from nki.base.locks import imported
from nki.compilation.launch_errors import VendorModuleError, VendorNameError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from nki.compilation.traced_step import Event

P = ParamSpec("P")
R = TypeVar("R")


class TensorMap(Protocol):
    """Mapping of a framework's tensors to kernel arguments; see ``nki.frameworks.kernel_adapter.TensorMap``."""

    def is_framework_tensor(self, t: Any) -> bool: ...
    def map_framework_tensor(self, t: Any) -> tuple[tuple[int, ...], Any]: ...
    def translate_to_neuron_dtype(self, _dtype: Any) -> DType: ...


class Adapter(TensorMap, Protocol):
    """Interface of a framework's bridge; see ``nki.frameworks.kernel_adapter.Adapter``."""

    def call(self, kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...
    def check_changes(self, program: Any) -> None: ...
    def simulate(self, kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...
    def carried(self) -> Callable[[], AbstractContextManager[Any]]: ...
    def extent(self, t: Any) -> tuple[int, int]: ...
    def to_numpy(self, t: Any) -> NDArray[Any]: ...
    def update(self, t: Any, array: NDArray[Any], name: str) -> Any: ...
    def from_numpy(self, array: NDArray[Any]) -> Any: ...
    def trace(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Event]: ...


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Bridge:
    """A module with an ``ADAPTER``, imported when a tensor of its framework is met first.

    ``roots`` are the root modules of the framework's tensor types, or modules of some of them; none: the bridge for
    everything else. Of several frameworks in one call, the bridge with the highest ``rank`` takes it.
    """

    module: str
    roots: tuple[str, ...]
    rank: int


_by_root: dict[str, Bridge] = {}


def register_bridges(bridges: Iterable[Bridge]) -> None:
    """Make bridges known; ``nki`` does so for the bridges of ``nki.frameworks``."""
    for bridge in bridges:
        _by_root.update(dict.fromkeys(bridge.roots or ("",), bridge))


def module_for(kinds: Iterable[type[Any]]) -> str:
    """The module of the bridge for arguments of these types; NumPy's if no framework has one of them."""
    modules = [base.__module__ for kind in kinds for base in kind.__mro__]
    roots = (*modules, *(module.partition(".")[0] for module in modules))
    candidates = [_by_root[root] for root in roots if root in _by_root]
    return max(candidates, key=lambda bridge: bridge.rank, default=_by_root[""]).module


def module_named(root: str) -> str:
    """The module of the bridge for tensors of the package ``root``; raises KeyError if there is none."""
    return _by_root[root].module


class StandIns:
    """Modules under the names of packages that are not installed: a finder of ``sys.meta_path``, and their loader.

    Programs look for some of these packages to find a device (``importlib.util.find_spec``). So nothing provides them
    unless a user asks for it, and the finder is the last one: a package that is installed comes before. It has the
    methods of ``importlib.abc``, and not its classes: their import costs more than this module.
    """

    def __init__(self) -> None:
        self._table, self.fix = "", ""
        self.modules: Mapping[str, Mapping[str, Sequence[str]]] = {}
        self.first: dict[str, Callable[[], None]] = {}
        """By module, what runs when it is imported; a name can be added at any time."""

    def register(self, table: str) -> None:
        """Make modules known: ``table`` is the module that lists them, which is imported when one is asked for.

        It has ``MODULES``: by module, by the module of Open NKI that names come from, the names; and ``FIX``, the way
        out for a name or a module that none of them has.
        """
        self._table = table

    def provide(self) -> None:
        """Provide the modules from now on in this process."""
        table = imported(self._table)  # now: nothing may be imported while Python looks for a module
        self.modules, self.fix = table.MODULES, table.FIX
        if self not in sys.meta_path:
            sys.meta_path.append(self)

    def packages(self) -> dict[str, bool]:
        """The packages by name, and whether Open NKI stands in for it: it does not where the package is installed.

        Raises RuntimeError unless the modules are provided.
        """
        if self not in sys.meta_path:
            raise RuntimeError("the modules are not provided")
        return {name: self._stands_in(name) for name in self.modules if "." not in name}

    def _stands_in(self, package: str) -> bool:
        """True if ``package`` is a stand-in, or would be one."""
        if package in sys.modules:
            return self._is_own(sys.modules[package])
        spec = importlib.util.find_spec(package)
        return spec is not None and cast("Any", spec.loader) is self

    @contextlib.contextmanager
    def provided(self) -> Generator[None]:
        """Provide the modules while the context lasts, and forget them after it if they were not provided before."""
        before = self in sys.meta_path
        self.provide()
        try:
            yield
        finally:
            if not before:
                sys.meta_path.remove(self)
                for name in [name for name, module in sys.modules.items() if self._is_own(module)]:
                    del sys.modules[name]

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:  # noqa: ARG002
        """The module's spec; None for a part of a package that is installed, and for what has no stand-in.

        ``from package import name`` looks for a module of this name if the package has none, so that a name without a
        stand-in is the error here, too.
        """
        package = fullname.rpartition(".")[0]
        if package and not self._is_own(sys.modules.get(package)):
            return None
        if fullname in self.modules:
            return ModuleSpec(fullname, cast("Any", self), is_package=True)
        if package:
            raise VendorModuleError(f"{fullname}: Open NKI has no stand-in for it", fix=self.fix)
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:  # noqa: ARG002
        """None: Python makes the module."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Fill the module."""
        own = module.__name__
        for source, names in self.modules[own].items():
            found = imported(source)
            vars(module).update({name: getattr(found, name) for name in names})

        def missing(name: str) -> Any:
            if f"{own}.{name}" in self.modules:
                return imported(f"{own}.{name}")
            raise VendorNameError(f"{own}.{name}: Open NKI has no stand-in for it", fix=self.fix)

        setattr(module, "__getattr__", missing)  # noqa: B010
        if own in self.first:
            self.first[own]()

    def _is_own(self, module: ModuleType | None) -> bool:
        return getattr(getattr(module, "__spec__", None), "loader", None) is self


STAND_INS = StandIns()


def untraced(function: Callable[P, R]) -> Callable[P, R]:
    """``function``, which the compiler of PyTorch runs as it is where it traces a call; it takes the result as given.

    The mark is as ``torch.compiler.assume_constant_result`` sets it, but set without an import of PyTorch.
    """
    setattr(function, "_dynamo_marked_constant", True)  # noqa: B010
    return function


__all__ = ["STAND_INS", "Bridge", "TensorMap", "module_for", "module_named", "register_bridges", "untraced"]
