"""Stand-ins for modules that the library's test harness imports for devices, clouds and plots, and never needs here.

A package that is installed stays itself. Kernel files need none of these: ``open_nki.shims`` serves them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import functools
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from tools.acceptance import number_types, pairwise


class Unused:
    """Something of another package that is imported, derived from or annotated with, and does nothing."""

    def __init__(self, *_args: Any, **_named: Any) -> None: ...

    def __call__(self, *_args: Any, **_named: Any) -> Unused:
        return Unused()

    def __getattr__(self, name: str) -> Unused:
        if name.startswith("__"):
            raise AttributeError(name)
        return Unused()

    @classmethod
    def empty(cls, *_args: Any, **_named: Any) -> Unused:
        return cls()


class UnusedError(Exception):
    """An error of another package that nothing here raises."""


_CLASSES: Final = {
    "fabric2": ("Connection", "Config", "Result"),
    "boto3": ("Session",),
    "botocore.credentials": ("EnvProvider",),
    "aws_embedded_metrics.logger.metrics_context": ("MetricsContext",),
    "aws_embedded_metrics.serializers.log_serializer": ("LogSerializer",),
}
_FUNCTIONS: Final = {
    "boto3": ("client", "session"),
    "pytest_html.extras": ("url",),
    "plotext": ("clf", "hist", "build", "title", "plotsize", "theme", "show", "ylim", "vline"),
}
_ERRORS: Final = {
    "paramiko": ("SSHException",),
    "botocore.exceptions": ("ClientError", "BotoCoreError", "NoCredentialsError"),
}


def install(tree: Path) -> None:
    """Make the library at ``tree`` and its package ``test`` importable."""
    sys.path[:0] = [str(tree / "src"), str(tree)]
    for name in [name for name in sys.modules if name == "test" or name.startswith("test.")]:
        del sys.modules[name]  # Python has a package of that name, too
    wanted = {name.partition(".")[0] for name in (*_CLASSES, *_FUNCTIONS, *_ERRORS)}
    missing = {name for name in wanted if not _is_installed(name)}
    for table, make in ((_CLASSES, _class), (_FUNCTIONS, _function), (_ERRORS, _error)):
        for name, members in table.items():
            if name.partition(".")[0] in missing:
                vars(module(name)).update({member: make(member) for member in members})
    if not _is_installed("attr"):
        vars(module("attr")).update(dataclass=dataclasses.dataclass)
    if not _is_installed("filelock"):
        vars(module("filelock")).update(FileLock=contextlib.nullcontext)
    if not _is_installed("allpairspy"):
        vars(module("allpairspy")).update(AllPairs=pairwise.all_pairs)
    for name in ("neuron_dtypes", "neuronxcc.starfish.support.dtype"):
        if not _is_installed(name):
            number_types.fill(module(name))
    _unpublished(tree)
    _name_packed_types()


def _name_packed_types() -> None:
    """Let the library's quantisation know packed types: it goes by ``str(dtype)``, and NumPy says more than a name."""
    with contextlib.suppress(ImportError):
        from nkilib_src.nkilib.core.utils import mx_torch_common

        original = mx_torch_common.quantize_to_mx

        @functools.wraps(original)
        def quantize_to_mx(data: Any, dtype: Any) -> Any:
            return original(data, number_types.packed_name(dtype) or dtype)

        mx_torch_common.quantize_to_mx = quantize_to_mx


def _unpublished(tree: Path) -> None:
    """Two modules of the harness itself, which its repository does not hold."""
    if not (tree / "test/utils/perf_analysis_private.py").exists():
        vars(module("test.utils.perf_analysis_private")).update(analyze_trace=Unused())
    if not (tree / "test/utils/scripts").exists():
        status = enum.Enum("LockStatus", {name: name.lower() for name in _LOCK_STATES})
        vars(module("test.utils.scripts.remote_lock_scripts")).update(LockStatus=status, LockResult=Unused)


_LOCK_STATES: Final = ("SUCCESS", "NO_CORES", "DRAINED", "TIMEOUT", "ERROR")


def module(name: str) -> ModuleType:
    """The module called ``name``: an importable one, else an empty one in an empty package, made now."""
    if name in sys.modules:
        return sys.modules[name]
    with contextlib.suppress(ImportError):
        return importlib.import_module(name)
    made = ModuleType(name)
    made.__spec__ = importlib.machinery.ModuleSpec(name, None)
    made.__path__ = []
    sys.modules[name] = made
    package, _, last = name.rpartition(".")
    if package:
        setattr(module(package), last, made)
    return made


def _is_installed(name: str) -> bool:
    try:
        return name in sys.modules or importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _class(name: str) -> type[Unused]:
    return type(name, (Unused,), {})


def _error(name: str) -> type[UnusedError]:
    return type(name, (UnusedError,), {})


def _function(_name: str) -> Callable[..., Unused]:
    return Unused()
