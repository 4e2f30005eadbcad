"""``nki info``: lists what a model file holds, without its framework."""

from __future__ import annotations

import argparse
from pathlib import Path

from nki.cli.output.printed import print_document, stamp
from nki.cli.wording import plural
from nki.compiler import model_file
from nki.compiler.model_file import ModelFile


def command(options: argparse.Namespace) -> int:
    """Carry out ``nki info``; the file's digests are checked, its program is not loaded."""
    file = model_file.read(Path(options.file))
    if options.json:
        own = {**file.manifest, "form": file.manifest["version"], "bytes": file.size}
        print_document({**own, **stamp()})
    else:
        print(_text(file))
    return 0


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
