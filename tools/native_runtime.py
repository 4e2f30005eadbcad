"""Make LLVM IR out of the runtime's C files: ``python -m tools.native_runtime CLANG …``, after any change of them.

``CLANG …`` is the command of a clang for C, such as ``clang`` or ``python -m ziglang cc`` (``pip install ziglang``);
without it, the variable ``NKI_CLANG`` names the command. What depends on a machine, on a compiler's release or on the
folder is removed, so that older releases of LLVM read the text, on every machine with pointers of 64 bits.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent.parent / "src" / "nki" / "backend" / "cpu" / "native"
FILES: Final = ("runtime", "gather", "row_operations")
VARIABLE: Final = "NKI_CLANG"
_OPTIONS: Final = (
    *("-target", "x86_64-linux-musl", "-ffreestanding", "-S", "-emit-llvm", "-Os", "-g0", "-fwrapv"),
    *("-fno-vectorize", "-fno-slp-vectorize"),  # the C text says itself what is a vector
    *("-fno-strict-aliasing", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"),
    "-Wno-unused-command-line-argument",  # ziglang's own
)
_DROPPED_LINES: Final = re.compile(
    r"; ModuleID|; Function Attrs|source_filename|target |attributes #|!|.*@llvm\.lifetime\."
)
_ATTRIBUTES: Final = re.compile(
    r" (?:noundef|nonnull|readonly|readnone|writeonly|nocapture|noalias|returned|zeroext|signext|immarg|dso_local"
    r"|local_unnamed_addr|unnamed_addr|dereferenceable\(\d+\)|captures\([^)]*\)|range\([^)]*\)|(?<=ptr )align \d+"
    r"|nuw|nusw|nsw|nneg|disjoint|samesign|#\d+)(?=[ ,)])"
)
"""Promises about functions, arguments and results; some have other names in other releases."""


def digest() -> str:
    """The SHA-256 of all C files, with their names."""
    contents = hashlib.sha256()
    for file in sorted((*FOLDER.glob("*.c"), *FOLDER.glob("*.h"))):
        contents.update(f"{file.name}\n".encode() + file.read_bytes())
    return contents.hexdigest()


def version(clang: list[str]) -> str:
    """The release of a clang."""
    done = subprocess.run([*clang, "--version"], check=True, capture_output=True, text=True)
    return done.stdout.splitlines()[0].strip()


def result(file: str) -> Path:
    """The IR of a C file."""
    return FOLDER / f"{file}.ll"


def generated(file: str, clang: list[str]) -> str:
    """The text of the IR of a C file."""
    with tempfile.TemporaryDirectory() as folder:
        raw = Path(folder, "raw.ll")
        subprocess.run([*clang, *_OPTIONS, FOLDER / f"{file}.c", "-o", raw], check=True)
        lines = raw.read_text(encoding="utf-8").splitlines()
    kept = [_plain(line) for line in lines if not _DROPPED_LINES.match(line)]
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip()
    return f"; Made by tools/native_runtime.py with {version(clang)}. SHA-256 of the C files:\n; {digest()}\n\n{text}\n"


def _plain(line: str) -> str:
    line = re.sub(r", !\w[\w.]* !\d+", "", line)  # metadata
    line = re.sub(r"\s*; preds = .*", "", line)
    return _ATTRIBUTES.sub("", f"{line} ").rstrip()


def main() -> None:
    clang = sys.argv[1:] or shlex.split(os.environ.get(VARIABLE, ""))
    if not clang:
        sys.exit(f"name a clang: python -m tools.native_runtime clang, or {VARIABLE}=clang")
    for file in FILES:
        result(file).write_text(generated(file, clang), encoding="utf-8")
        print(result(file))


if __name__ == "__main__":
    main()
