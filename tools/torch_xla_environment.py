"""Make a virtual environment with torch_xla 2.9 on the CPU: ``python -m tools.torch_xla_environment .venv-xla``.

torch_xla 2.9 needs PyTorch 2.9, and its package for Linux on x86 needs 3 GB of CUDA libraries. They are loaded with it,
and never called on a machine without such a device. So the environment gets libraries of the same names instead, in
which every function ends the process. The two that are small are installed as they are. This needs gcc and readelf.

Downloads: about 1 GB. Python must have a shared library (``libpython3.11.so``), which torch_xla links to.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parent.parent
BARE = (
    "torch==2.9.0",
    "torch_xla==2.9.0",
    "nvidia-cuda-runtime-cu12==12.8.90",
    "nvidia-cuda-cupti-cu12==12.8.90",
)
"""Packages that are installed without what they need."""
NEEDED = (
    *("absl-py", "filelock", "fsspec", "jinja2", "networkx", "pyyaml", "requests", "sympy", "typing_extensions"),
    *("hypothesis>=6.100", "pytest>=8.3"),
)
TEXT = {"check": True, "capture_output": True, "text": True}
OWNERS = {
    "libcuda.so.1": "cu",
    "libcudnn.so.9": "cudnn",
    "libcufile.so.0": "cuFile",
    "libcurand.so.10": "curand",
    "libcusparse.so.12": "cusparse",
    "libcusparseLt.so.0": "cusparseLt",
    "libnccl.so.2": "nccl",
    "libnvshmem_host.so.3": "nvshmem",
}
"""Of functions without a version: what their names begin with, by library."""


def main() -> None:
    environment = Path(sys.argv[1])
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    python = environment / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet", "--no-warn-conflicts"]
    subprocess.run([*pip, "--no-deps", *BARE], check=True)
    subprocess.run([*pip, *NEEDED, "-e", ROOT], check=True)
    found = subprocess.run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], **TEXT)
    replace_cuda(Path(found.stdout.strip()))


def replace_cuda(packages: Path) -> None:
    """Write a library for each one that PyTorch in ``packages`` needs and that is nowhere."""
    folder = packages / "torch" / "lib"
    users = sorted(folder.glob("*.so*"))
    installed = {path.name for path in (*users, *packages.glob("nvidia/*/lib/*.so*"))}
    installed |= set(subprocess.run(["ldconfig", "-p"], **TEXT).stdout.split())
    needed = {name for user in users for name in read(r"NEEDED.*\[(.*)\]", "-dW", user)}
    versioned: dict[str, set[str]] = defaultdict(set)
    plain: set[str] = set()
    for user in users:
        for symbol in read(r" UND (\S+)", "--dyn-syms", "-W", user):
            name, _, version = symbol.partition("@")
            (versioned[version.split()[0]] if version else plain).add(name)
    for library in sorted(needed - installed):
        versions = {v: names for v, names in versioned.items() if v == library or v[:7].lower() == library[3:10]}
        own = {name for name in plain if library in OWNERS and name.startswith(OWNERS[library])}
        write(folder / library, own, versions)
        print(f"{library}: {len(own) + sum(map(len, versions.values()))} functions")


def read(pattern: str, *arguments: str | Path) -> list[str]:
    return re.findall(pattern, subprocess.run(["readelf", *arguments], **TEXT).stdout)


def write(path: Path, plain: set[str], versions: dict[str, set[str]]) -> None:
    """A shared library at ``path`` with functions of these names, by version."""
    names = sorted(plain.union(*versions.values()))
    with tempfile.TemporaryDirectory() as folder:
        source, script = Path(folder, "source.c"), Path(folder, "versions")
        source.write_text("void abort(void);\n" + "".join(f"void {name}(void) {{ abort(); }}\n" for name in names))
        command = ["gcc", "-shared", "-fPIC", "-fno-builtin", "-w", f"-Wl,-soname,{path.name}", "-o", path, source]
        if versions:
            lines = (
                f"{v} {{ global: {' '.join(f'{name};' for name in sorted(own))} }};\n" for v, own in versions.items()
            )
            script.write_text("".join(lines))
            command.append(f"-Wl,--version-script={script}")
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
