"""The process that tests/support/forked_process.py forks: ``python -m tests.support.forking_parent MODULE…``.

It imports the modules, and nothing else of this project. Each line of its standard input is a program with what the
process of it has, as JSON; it writes the exit codes to its standard output.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import warnings
from collections.abc import Mapping
from types import ModuleType
from typing import Any


def _ordered() -> dict[str, Any]:
    """Fork for each order of standard input, and return it in the child; the parent ends with its input."""
    for line in sys.stdin:
        child = os.fork()
        if not child:
            return json.loads(line)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    sys.exit()


def _become(order: Mapping[str, Any]) -> ModuleType:
    """Give this process what it was ordered to have; its main module."""
    for number, (name, flags) in enumerate(
        [(os.devnull, os.O_RDONLY), *((name, os.O_WRONLY | os.O_APPEND) for name in order["files"])]
    ):
        file = os.open(name, flags)
        os.dup2(file, number)
        os.close(file)
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    paths = order["environment"].get("PYTHONPATH", "")
    sys.path[:0] = ["", *filter(None, paths.split(os.pathsep))]
    sys.argv = ["-c", *order["arguments"]]
    sys.dont_write_bytecode = bool(order["environment"].get("PYTHONDONTWRITEBYTECODE"))
    if order["is_strict"]:
        warnings.simplefilter("error")
    sys.modules["__main__"] = main = ModuleType("__main__")
    return main


if __name__ == "__main__":
    for each in sys.argv[1:]:
        importlib.import_module(each)
    gc.collect()
    gc.freeze()  # so that a collection in a child does not copy the pages of all objects
    wanted = _ordered()
    exec(compile(wanted["program"], "<string>", "exec"), vars(_become(wanted)))
