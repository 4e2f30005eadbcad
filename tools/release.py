"""Build what a release publishes, and use it as its user would: ``python -m tools.release [FOLDER]``.

Writes the sdist into FOLDER (``dist``), and the wheel made from it. Then it installs the wheel into a bare environment,
outside of the checkout, and runs the README's first kernel and the command there. Needs a package index. Exits with 1
and the reasons if anything is not as it should be.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
_PACKAGES: Final = ("nki/", "neuronxcc/", "nki_pytest/", "open_nki/")
_COMPILED: Final = (".so", ".o", ".a", ".pyd", ".dll", ".dylib", ".pyc")
_NEEDED: Final = (
    "nki/py.typed",
    "nki/isa/__init__.pyi",
    "nki/backend/cpu/native/runtime.ll",
    "neuronxcc/nki/__init__.py",
    "nki_pytest/__init__.py",
    "open_nki/shims/__init__.py",
)
_RELEASED: Final = re.compile(r"\d+\.\d+\.\d+")


def first_program(readme: str) -> str:
    """The README's only Python program. Raises ``ValueError`` if there are none or several."""
    programs = re.findall(r"^```python\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    if len(programs) != 1:
        raise ValueError(f"README.md has {len(programs)} programs; the release runs the only one")
    return str(programs[0])


def faults(names: Iterable[str]) -> list[str]:
    """Reasons why a wheel with files of these names must not be published: compiled code, strangers, missing files."""
    names = list(names)
    metadata = tuple({f"{name.split('/')[0]}/" for name in names if name.split("/")[0].endswith(".dist-info")})
    result = [f"{name} is compiled code" for name in names if name.endswith(_COMPILED)]
    result += [f"{name} lies outside of the packages" for name in names if not name.startswith(_PACKAGES + metadata)]
    result += [f"{name} is missing" for name in _NEEDED if name not in names]
    if not any(name.endswith("/licenses/LICENSE") for name in names):
        result.append("the license is missing")
    return result


def undescribed(version: str, changelog: str) -> list[str]:
    """The complaint about a released version without a section of its own in the changelog."""
    if _RELEASED.fullmatch(version) and f"## [{version}]" not in changelog:
        return [f"CHANGELOG.md has no section [{version}]"]
    return []


def built(folder: Path) -> Path:
    """The wheel, made from the sdist beside it; files of earlier builds in ``folder`` go."""
    for old in [*folder.glob("open_nki-*.whl"), *folder.glob("open_nki-*.tar.gz")]:
        old.unlink()
    subprocess.run([sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)], check=True)
    [wheel] = folder.glob("open_nki-*-py3-none-any.whl")
    return wheel


def used(wheel: Path, program: str) -> str:
    """The version that the installed command prints, after the program and a check of it ran in a bare environment."""
    with tempfile.TemporaryDirectory(prefix="nki-release-") as name:
        home = Path(name)
        venv.create(home / "env", with_pip=True)
        scripts = home / "env" / "bin"
        foreign = ("PYTHON", "VIRTUAL_ENV", "NKI_", "OPEN_NKI_", "NEURON_")
        environment = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
        environment |= {"PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}", "OPEN_NKI_CACHE": str(home / "cache")}

        def run(*command: str) -> str:
            print("$", *command, flush=True)
            done = subprocess.run(command, cwd=home, env=environment, check=True, stdout=subprocess.PIPE, text=True)
            return done.stdout

        python, nki = str(scripts / "python"), str(scripts / "nki")
        run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel.resolve()))
        (home / "first.py").write_text(program, encoding="utf-8")
        print(run(python, "-W", "error", "first.py"), end="")
        print(run(nki, "check", "first.py"), end="")
        return run(nki, "--version").split()[-1]


def main(arguments: list[str]) -> int:
    """Build, inspect and try the release; 0 if it may be published."""
    folder = Path(arguments[0]) if arguments else ROOT / "dist"
    if shutil.which("git") and (changed := _changed()):
        print(f"note: the checkout has changes that are not committed: {', '.join(changed[:3])}", file=sys.stderr)
    wheel = built(folder)
    version = wheel.name.split("-")[1]
    with zipfile.ZipFile(wheel) as archive:
        wrong = faults(archive.namelist())
    wrong += undescribed(version, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    printed = used(wheel, first_program((ROOT / "README.md").read_text(encoding="utf-8")))
    if printed != version:
        wrong.append(f"the command says {printed}, the wheel {version}")
    for reason in wrong:
        print(f"not to be published: {reason}", file=sys.stderr)
    if not wrong:
        kind = "a release" if _RELEASED.fullmatch(version) else "no release: this commit has no tag of its own"
        print(f"{wheel} works in a bare environment; {version} is {kind}")
    return 1 if wrong else 0


def _changed() -> list[str]:
    status = subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True, check=False)
    return [line[3:] for line in status.stdout.splitlines()]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
