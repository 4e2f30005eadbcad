"""``python -m open_nki.shims FILE …`` and ``-m MODULE …``: run a program with the stand-ins provided."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from open_nki.shims import install

USAGE = "usage: python -m open_nki.shims [FILE …|-m MODULE …]\n\nWithout a program: list the packages."


def main(arguments: list[str]) -> None:
    """Provide the stand-ins, and run the program that ``arguments`` name; without one, list the packages."""
    match arguments:
        case []:
            for package, stands_in in install().items():
                print(f"{package}: {'stand-in of Open NKI' if stands_in else 'installed'}")
        case ["-m", module, *rest]:
            install()
            sys.path[0] = str(Path.cwd())
            sys.argv = [module, *rest]
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case [file, *_] if not file.startswith("-"):
            install()
            sys.path[0] = str(Path(file).resolve().parent)
            sys.argv = arguments
            runpy.run_path(file, run_name="__main__")
        case _:
            print(USAGE, file=sys.stdout if arguments[0] in ("-h", "--help") else sys.stderr)
            sys.exit(arguments[0] not in ("-h", "--help"))


if __name__ == "__main__":
    main(sys.argv[1:])
