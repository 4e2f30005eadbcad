"""Programs of ``torch.export`` as bytes, and what is checked before PyTorch's loader sees bytes from elsewhere.

``torch.export.load`` unpickles what PyTorch's restricted loader refuses, loads native code that the archive holds, and
evaluates the text of names and of symbolic shapes. So a program from a file may have tensors that the restricted
loader reads, and names and shapes that are no more than that; anything else is refused before PyTorch loads it.
PyTorch's loader itself verifies that nodes call operators only.
"""

# PyTorch declares types only in part.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportPrivateUsage=false

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from typing import Any, Final, cast

import torch
from torch.export.pt2_archive._package import PT2ArchiveReader

from nki.compilation.launch_errors import ModelFileError
from nki.frameworks import embedded
from nki.frameworks.torch import ADAPTER
from nki.frameworks.torch_operators import launch_op, update_op
from nki.frameworks.torch_tensors import torch_dtype

_OPERATORS: Final = (launch_op, update_op)
_MODEL: Final = "models/model.json"
_PLAIN: Final = ("archive_format", "archive_version", "byteorder", "version", ".data/")
_TENSORS: Final = ("data/weights/", "data/constants/")
_SAMPLES: Final = "data/sample_inputs/"
_OBJECTS: Final = ("custom_obj", "opaque_obj")
_NAME: Final = re.compile(r"[^\W\d][\w.]*|", re.ASCII)
# The form that SymPy prints: classes, symbols by name, numbers, options. No attribute, other function or other text.
_FORMULA: Final = re.compile(
    r"(?:(?:[A-Z][A-Za-z]*|'[A-Za-z]\w*'|[a-z]\w*(?==)|[suz][a-z]*\d+|\d+)(?![\w.'])|[-+*/%(),<>=~&| ])*", re.ASCII
)
_FIX: Final = "export the model again with nki.export"


def exported(model: Any, args: tuple[Any, ...], options: dict[str, Any]) -> torch.export.ExportedProgram:
    """The program of ``model``: a module, a function of tensors, or a program that is exported already."""
    if isinstance(model, torch.export.ExportedProgram):
        return model
    module = model if isinstance(model, torch.nn.Module) else _Function(model)
    return torch.export.export(module, args, **options)


class _Function(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


def to_bytes(program: torch.export.ExportedProgram) -> bytes:
    """The archive of ``torch.export.save``."""
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    return buffer.getvalue()


def from_bytes(data: bytes, origin: str) -> torch.export.ExportedProgram:
    """The program in an archive, after the checks above. Raises :class:`ModelFileError`."""
    try:
        _check_archive(data)
        return torch.export.load(io.BytesIO(data))
    except ModelFileError as error:
        raise ModelFileError(f"{origin}: {error.message}", fix=error.fix) from None
    except MemoryError:
        raise
    except Exception as error:  # damage can raise anything: PyTorch documents no common base of its errors
        raise ModelFileError(
            f"{origin}: PyTorch {torch.__version__} cannot load the program: {type(error).__name__}: {error!s:.300}",
            fix="load it with the version of PyTorch that `nki info` names, or export the model again",
        ) from error


def kernels(program: torch.export.ExportedProgram) -> list[str]:
    """The kernels that the program calls, each once, in the order of their first call."""
    found: dict[str, None] = {}
    for node in _nodes(program):
        # Of a program in functional form, the operator that changes tensors is the argument of another one.
        operators = [node.target, *(argument for argument in node.args if isinstance(argument, torch._ops.OpOverload))]
        if any(operator in _OPERATORS for operator in operators):
            found[str(node.kwargs["kernel"] if "kernel" in node.kwargs else node.args[-1])] = None
    return list(found)


def check_calls(program: torch.export.ExportedProgram) -> None:
    """Raise :class:`ModelFileError` for a call with other results than the kernel that it names.

    The operators themselves compare the tensors that they get.
    """
    for node in _nodes(program):
        results = node.meta.get("val") if node.target is launch_op else None
        if isinstance(results, (list, tuple)):
            kernel = embedded.load(str(node.kwargs["kernel"] if "kernel" in node.kwargs else node.args[-1]))
            own = [(tuple(spec.shape), torch_dtype(spec.dtype)) for spec in kernel.outputs]
            wanted = [(tuple(t.shape), t.dtype) for t in results]
            if own != wanted:
                raise ModelFileError(
                    f"the program calls kernel {kernel.name!r} for results {wanted}, and it returns {own}", fix=_FIX
                )


def signature(program: torch.export.ExportedProgram) -> tuple[list[str], list[str]]:
    """Inputs and outputs of the program, as text for ``nki info``."""
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}

    def described(name: Any) -> str:
        value = values.get(name)
        if not isinstance(value, torch.Tensor):
            return f"{name}"
        return f"{str(value.dtype).removeprefix('torch.')}[{', '.join(map(str, value.shape))}]"

    graph = program.graph_signature
    return (
        [f"{name} {described(name)}" for name in graph.user_inputs],
        [described(name) for name in graph.user_outputs],
    )


def _nodes(program: torch.export.ExportedProgram) -> Iterator[torch.fx.Node]:
    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            yield from module.graph.nodes


def _check_archive(data: bytes) -> None:
    """Refuse an archive with anything but one program and its tensors. Its records are those that PyTorch reads."""
    with cast("Any", PT2ArchiveReader(io.BytesIO(data))) as archive:
        names = cast("list[str]", archive.get_file_names())
        for name in names:
            if name.startswith(_TENSORS):
                if name.rpartition("/")[2].startswith(_OBJECTS):
                    raise ModelFileError(f"the program holds a pickled object, {name!r:.80}", fix=_FIX)
                if name.endswith(".json"):
                    _check_tensors(archive, name, json.loads(archive.read_bytes(name)))
            elif name.startswith(_SAMPLES):
                _check_pickle(archive.read_bytes(name), name)
            elif name != _MODEL and not name.startswith(_PLAIN):
                raise ModelFileError(f"the program holds {name!r:.80}, which is no part of a model", fix=_FIX)
        if _MODEL not in names:
            raise ModelFileError("the archive holds no program", fix=_FIX)
        _check_texts(json.loads(archive.read_bytes(_MODEL)))


def _check_tensors(archive: Any, name: str, table: Any) -> None:
    """Read every tensor that is stored as a pickle with PyTorch's restricted loader."""
    folder = name.rpartition("/")[0]
    for row in table["config"].values():
        path = str(row["path_name"])
        if path.startswith(_OBJECTS):
            raise ModelFileError(f"the program holds a pickled object, {path!r:.80}", fix=_FIX)
        if row["use_pickle"]:
            _check_pickle(archive.read_bytes(f"{folder}/{path}"), path)


def _check_pickle(data: bytes, name: str) -> None:
    if not data:
        return
    try:
        torch.load(io.BytesIO(data), weights_only=True)
    except MemoryError:
        raise
    except Exception as error:  # whatever stops the restricted loader, the one that runs code must not see it
        raise ModelFileError(
            f"the program holds {name!r:.80}, which PyTorch loads only by running code: {error!s:.200}",
            fix="export the model with arguments that are tensors, numbers, and lists, tuples or dicts of them",
        ) from None


def _check_texts(content: Any) -> None:
    """Refuse names that are no names and formulas that are more: PyTorch makes Python code of both."""
    waiting: list[Any] = [content]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            for key, item in cast("dict[str, Any]", value).items():
                pattern = {"name": _NAME, "expr_str": _FORMULA}.get(key)
                if pattern is not None and isinstance(item, str) and pattern.fullmatch(item) is None:
                    raise ModelFileError(f"the program has the {key} {item!r:.80}, which is none", fix=_FIX)
                waiting.append(item)
        elif isinstance(value, list):
            waiting.extend(cast("list[Any]", value))


__all__ = ["ADAPTER", "exported", "from_bytes", "kernels", "signature", "to_bytes"]
