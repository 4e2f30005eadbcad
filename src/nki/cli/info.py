"""``nki info``: lists what a model file holds, and the kernels that an HLO module calls, without a framework."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from nki.base.wording import plural
from nki.cli.output.printed import print_document, stamp
from nki.compilation import hlo_calls, model_file
from nki.compilation.model_file import ModelFile


def command(options: argparse.Namespace) -> int:
    """Carry out ``nki info``; a model's digests are checked, its program is not loaded."""
    path = Path(options.file)
    data = model_file.contents(path)
    if hlo_calls.is_hlo(data):
        calls = hlo_calls.kernel_calls(data, str(path))
        described: dict[str, Any] = {"calls": calls, "bytes": len(data)}
        text = _text_of_calls(path, calls)
    else:
        file = model_file.loads(data, path)
        described = {**file.manifest, "form": file.manifest["version"], "bytes": file.size}
        text = _text(file)
    if options.json:
        print_document({**described, **stamp()})
    else:
        print(text)
    return 0


def _text_of_calls(path: Path, calls: list[dict[str, Any]]) -> str:
    lines = [f"{path}: an HLO module with {plural(len(calls), 'call')} of kernels"]
    for call in calls:
        inputs, outputs = ", ".join(call["inputs"]), ", ".join(call["outputs"])
        lines.append(f"kernel {call['kernel']}({inputs}) -> {outputs}" + f" on {call['target']}" * bool(call["target"]))
        lines.extend(f"  {name} {call[name]}" for name in ("op_type", "op_name", "source_file") if call[name])
    return "\n".join(lines)


def _text(file: ModelFile) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in file.manifest["versions"].items())
    lines = [
        f"{file.path}: a model of {file.framework}, {plural(file.size, 'byte')}, digest correct",
        f"written by {versions}",
    ]
    lines.extend(f"input {text}" for text in file.manifest["inputs"])
    lines.extend(f"output {text}" for text in file.manifest["outputs"])
    for k in file.kernels:
        lines.append(f"kernel {k['name']}({', '.join(k['inputs'])}) -> {', '.join(k['outputs'])} on {k['target']}")
        lines.append(f"  {plural(k['bytes'], 'byte')}, SHA-256 {k['digest']}")
    return "\n".join(lines)
