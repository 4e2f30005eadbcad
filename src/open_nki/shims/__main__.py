"""``python -m open_nki.shims FILE …`` and ``-m MODULE …``: run a program with the stand-ins provided."""

from __future__ import annotations

import argparse
import runpy
import sys
from pathlib import Path

from open_nki.shims import install


def main() -> None:
    """Provide the stand-ins, and run the program that the command line names; without one, list the packages."""
    parser = argparse.ArgumentParser(
        prog="python -m open_nki.shims", description="Run a program with Open NKI's stand-ins for packages of Neuron."
    )
    parser.add_argument("-m", dest="module", help="run this module")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="FILE and its arguments, or those of the module")
    options = parser.parse_args()
    packages, arguments = install(), options.arguments
    if options.module:
        sys.path.insert(0, "")
        sys.argv = [options.module, *arguments]
        runpy.run_module(options.module, run_name="__main__", alter_sys=True)
    elif arguments:
        sys.path.insert(0, str(Path(arguments[0]).resolve().parent))
        sys.argv = arguments
        runpy.run_path(arguments[0], run_name="__main__")
    else:
        for package, stands_in in packages.items():
            print(f"{package}: {'stand-in of Open NKI' if stands_in else 'installed'}")


main()
