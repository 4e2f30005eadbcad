"""A kernel called as its users call it: by a program of a few lines, in which nothing of a test is loaded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nki.testing.launches import bits
from nki.workload import apart, load_kernel
from nki.workload.apart import Question

Array = NDArray[Any]

PROGRAM: Final = """\
import hashlib
import importlib
import importlib.util
import json
import sys
from pathlib import Path

import ml_dtypes
import numpy as np

import nki

here = Path(__file__).parent
job = json.loads((here / "job.json").read_text())
sys.path[0] = job["root"]
module = importlib.import_module(job["module"])
if getattr(module, "__file__", None) != job["file"]:
    spec = importlib.util.spec_from_file_location("kernels", job["file"])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
kernel = module
names = job["kernel"] or next(name for name, each in vars(module).items() if hasattr(each, "varied"))
for part in names.split("."):
    kernel = getattr(kernel, part)
if not hasattr(kernel, "func"):
    kernel = nki.jit(kernel)
if job["grid"]:
    kernel = kernel[tuple(job["grid"]) if len(job["grid"]) > 1 else job["grid"][0]]
count = 0


def value(data):
    global count
    tag, held = data[0], data[1]
    if tag == "tensor":
        count += 1
        return np.fromfile(here / f"{count}.bin", np.dtype(data[2])).reshape(held)
    if tag == "dict":
        return {value(name): value(each) for name, each in held}
    if tag in ("tuple", "list"):
        return {"tuple": tuple, "list": list}[tag](map(value, held))
    return held


def leaves(found):
    if isinstance(found, (tuple, list)):
        return [leaf for each in found for leaf in leaves(each)]
    return [found]


results = []
for positional, named in job["calls"]:
    found = leaves(kernel(*value(positional), **value(named)))
    results.append([hashlib.sha256(np.ascontiguousarray(each).tobytes()).hexdigest() for each in found])
(here / "results.json").write_text(json.dumps(results))
"""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a kernel with ``arrays``, and the digests of the results that it should have."""

    question: Question
    arrays: Sequence[Array]
    wanted: list[str]


def differ(file: str, name: str, grid: Sequence[int], calls: Sequence[Call]) -> str | None:
    """The fault of ``calls`` of kernel ``name`` in another process; "" if there is none.

    None if they cannot be written down: constants that are no plain data, dtypes that NumPy does not know by name.
    """
    path = Path(file)
    root = load_kernel.root_of(path)
    dtypes = [array.dtype for call in calls for array in call.arrays]
    try:
        described = [apart.described(call.question, [array.dtype.name for array in call.arrays]) for call in calls]
        if any(np.dtype(dtype.name) != dtype for dtype in dtypes):
            return None
        parts = [*path.relative_to(root).parent.parts, path.stem]
        job = {"root": str(root), "file": file, "module": ".".join(parts), "kernel": name}
        text = json.dumps({**job, "grid": list(grid), "calls": described})
    except TypeError:
        return None
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        (here / "job.json").write_text(text, encoding="utf-8")
        (here / "main.py").write_text(PROGRAM, encoding="utf-8")
        arrays = [array for call in calls for array in call.arrays]
        for number, content in enumerate(bits(arrays), 1):
            (here / f"{number}.bin").write_bytes(content)
        return _outcome(here, [call.wanted for call in calls])


def _outcome(here: Path, wanted: list[list[str]]) -> str:
    command = [sys.executable, str(here / "main.py")]
    environment = apart.environment(root=None)
    try:
        run = subprocess.run(command, capture_output=True, env=environment, check=False, timeout=apart.SECONDS)
    except subprocess.TimeoutExpired:
        return f"it did not end in {apart.SECONDS:g} s"
    try:
        found: Any = json.loads((here / "results.json").read_text(encoding="utf-8"))
    except OSError:
        last = run.stderr.decode(errors="replace").strip().splitlines()[-1:]
        return f"it died: {last[0] if last else f'exit code {os.waitstatus_to_exitcode(run.returncode)}'}"
    return "" if found == wanted else "the results have other bits"
