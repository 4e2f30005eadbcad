"""``nki.export`` and ``nki.load``: a whole model in one file, with the compiled kernels that it calls.

The file holds the framework's own exported program, which holds the kernels (:mod:`nki.frameworks.embedded`); its form
is the one of :mod:`nki.compilation.model_file`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from nki.base.errors import ArtifactError
from nki.base.locks import imported
from nki.base.version import version
from nki.compilation import model_file
from nki.compilation.launch_errors import ModelFileError
from nki.frameworks import embedded
from nki.ir.text import artifact

if TYPE_CHECKING:
    from nki.compilation.executable import Executable

_FRAMEWORKS: Final = {"torch": "torch", "jax": "jax", "jaxlib": "jax"}
"""The framework by the root module of a type of its own."""
_PACKAGES: Final = {"torch": ("torch",), "jax": ("jax", "jaxlib")}
"""Packages: the file names their versions."""


class Model:
    """A model from a file; call it like the function or module that was exported."""

    def __init__(self, file: model_file.ModelFile, program: Any, executables: Sequence[Executable]) -> None:
        self.path = file.path
        self.framework = file.framework
        """``torch`` or ``jax``."""
        self.manifest = file.manifest
        """The fields that ``nki info --json`` prints."""
        self.program = program
        """The ``torch.export.ExportedProgram`` or ``jax.export.Exported``."""
        self.function: Any = program.module() if self.framework == "torch" else program.call
        """The ``torch.nn.Module``, or the function of JAX arrays, which may be jitted and differentiated."""
        self._executables = executables
        """Native code of its kernels, which stays in memory as long as the model does."""

    @property
    def kernels(self) -> list[str]:
        """The names of the kernels that the model calls."""
        return [kernel["name"] for kernel in self.manifest["kernels"]]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<nki model {self.path}: {self.framework}, kernels {', '.join(self.kernels) or 'none'}>"


def export(model: Any, args: Iterable[Any], path: str | os.PathLike[str], **options: Any) -> None:
    """Write ``model``, traced for the example arguments ``args``, with its compiled kernels to the file ``path``.

    ``model`` is a ``torch.nn.Module``, a function of PyTorch tensors or of JAX arrays, or a program that
    ``torch.export.export`` or ``jax.export.export`` made. ``options`` go to that function, such as ``dynamic_shapes``
    or ``platforms``; ``kwargs`` holds example keyword arguments. The file needs neither the source of the kernels nor a
    cache. Raises :class:`ModelFileError` if no argument says which framework is meant.
    """
    values = tuple(args)
    framework = _framework([model, values, options.get("kwargs", {})])
    codec = imported(f"{__package__}.{framework}_program")
    program = codec.exported(model, values, options)
    inputs, outputs = codec.signature(program)
    description = {
        "versions": {"open-nki": version(), **_versions(framework)},
        "inputs": inputs,
        "outputs": outputs,
        "kernels": [_described(text) for text in codec.kernels(program)],
    }
    model_file.write(Path(path), model_file.dumps(framework, codec.to_bytes(program), description))


def load(path: str | os.PathLike[str]) -> Model:
    """The model in a file that :func:`export` wrote, ready to be called.

    Every kernel in it is verified and compiled now. No code from the file runs but what the framework's own loader
    runs: see docs/pytorch.md and docs/jax.md. Raises :class:`ModelFileError` for a damaged, foreign or newer file, and
    for one with a program that this version of the framework cannot load.
    """
    file = model_file.read(Path(path))
    try:
        codec = imported(f"{__package__}.{file.framework}_program")
    except ImportError as error:
        raise ModelFileError(
            f"{path} holds a program of {file.framework}, which cannot be imported: {error}",
            fix=f"pip install 'open-nki[{file.framework}]'",
        ) from error
    program = codec.from_bytes(file.program, str(path))
    texts = cast("list[str]", codec.kernels(program))
    executables = [_compiled(text, path) for text in texts]
    if [hashlib.sha256(embedded.read(text)).hexdigest() for text in texts] != [
        kernel["digest"] for kernel in file.kernels
    ]:
        raise ModelFileError(
            f"{path}: the program does not call the kernels that its manifest lists", fix="export the model again"
        )
    if file.framework == "torch":  # XLA's calls compare results when they run
        codec.check_calls(program)
    return Model(file, program, executables)


def _compiled(text: str, path: Any) -> Executable:
    """An embedded kernel with the right digest."""
    try:
        embedded.read(text)
        return embedded.load(text)
    except ArtifactError as error:
        raise ModelFileError(f"{path}: {error.message}", fix=error.fix) from error


def _described(text: str) -> dict[str, Any]:
    """The row of a kernel in the manifest."""
    data = embedded.read(text)
    program = artifact.loads(data)
    return {
        "name": program.name,
        "target": program.target,
        "inputs": [f"{t.name} {t.dtype}[{', '.join(map(str, t.shape))}]" for t in program.inputs],
        "outputs": [f"{t.name} {t.dtype}[{', '.join(map(str, t.shape))}]" for t in program.outputs],
        "digest": hashlib.sha256(data).hexdigest(),
        "bytes": len(data),
    }


def _framework(values: Any) -> str:
    """The framework of the first tensor among ``values``: in the model, then in its arguments."""
    for value in _leaves(values):
        for base in type(value).__mro__:
            root = base.__module__.partition(".")[0]
            if root in _FRAMEWORKS:
                return _FRAMEWORKS[root]
    raise ModelFileError(
        "neither the model nor its example arguments belong to PyTorch or JAX",
        fix="pass a torch.nn.Module, or arguments that are torch tensors or jax arrays",
    )


def _leaves(value: Any) -> Iterator[Any]:
    if type(value) in (list, tuple):
        for item in cast("list[Any]", value):
            yield from _leaves(item)
    elif type(value) is dict:
        yield from _leaves(list(cast("dict[Any, Any]", value).values()))
    else:
        yield value


def _versions(framework: str) -> dict[str, str]:
    return {package: str(imported(package).__version__) for package in _PACKAGES[framework]}
