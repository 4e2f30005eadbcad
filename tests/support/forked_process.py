"""A program in a process of its own that begins with NKI imported, forked from a process that does nothing else.

It has its own environment, folder, arguments and search path, and ends as any Python process does, but it need not
import NKI, which takes 0.4 s, or PyTorch, which takes 2 s. A test that is about imports, about options of the
interpreter or about what differs from process to process, as hashes of texts do, takes
:mod:`tests.support.fresh_process`.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tests.support import forking_parent, repetition

ROOT = Path(__file__).parents[2]


def ran(
    program: str,
    *arguments: str,
    modules: Sequence[str] = ("nki",),
    folder: Path = ROOT,
    environment: Mapping[str, str] | None = None,
    is_strict: bool = False,
) -> subprocess.CompletedProcess[str]:
    """The Python of ``program`` in ``folder``, in a process that begins with ``modules`` imported.

    ``environment``: by default as in this process. The entries of its ``PYTHONPATH`` come first in the search path.
    ``is_strict``: each warning is an error.
    """
    variables = dict(os.environ if environment is None else environment)
    if repetition.FOLDER in os.environ or not hasattr(os, "fork"):  # `make threads` watches processes that start anew
        words = [sys.executable, *(("-W", "error") if is_strict else ()), "-c", program, *arguments]
        return subprocess.run(words, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        order: dict[str, Any] = {"program": program, "arguments": arguments, "folder": str(folder)}
        order |= {"environment": variables, "is_strict": is_strict}
        order |= {"files": [f"/proc/{os.getpid()}/fd/{file.fileno()}" for file in (out, errors)]}
        code = _Parent.of(*modules).run(order)
        shown = [file.seek(0) or file.read() for file in (out, errors)]
    return subprocess.CompletedProcess([sys.executable, "-c", program, *arguments], code, *shown)


class _Parent:
    """The process that has imported ``modules``, and forks: :mod:`tests.support.forking_parent`."""

    def __init__(self, modules: Sequence[str]) -> None:
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("NKI_", "OPEN_NKI", "NEURON_"))}
        self._process = subprocess.Popen(
            [sys.executable, "-m", forking_parent.__name__, *modules],
            cwd=ROOT,
            env=environment | {"PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        atexit.register(self._process.communicate)

    @staticmethod
    @cache
    def of(*modules: str) -> _Parent:
        return _Parent(modules)

    def run(self, order: Mapping[str, Any]) -> int:
        """The exit code of a program."""
        assert self._process.stdin is not None and self._process.stdout is not None
        print(json.dumps(order), file=self._process.stdin, flush=True)
        return int(self._process.stdout.readline())
