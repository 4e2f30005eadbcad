"""``nki check``: everything at once, nothing run, and the exit code says what it was."""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from nki.base.version import version

pytestmark = pytest.mark.usefixtures("nki_0_6")  # the files hold the errors of this release

CLEAN = """
import nki
import nki.isa as nisa
import nki.language as nl

def part(t):
    nisa.memset(dst=t, value=1.0)

@nki.jit
def good(x):
    t = nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.sbuf)
    part(t)
    return t

def host(path):
    with open(path) as file:
        return file.read()
"""
FAULTY = """
import functools
import nki
import nki.isa as nisa
import beyond
from beyond import second

print("imported")
settings = {"a": 1}

@nki.jit
def first(x):
    del x
    return beyond.first(x), second(x)

def later(x):
    yield x

def outer():
    y = 3
    @nki.jit
    def nested(x):
        with y:
            pass
    return nested

class Tools:
    def method(self):
        raise ValueError

by_call = nki.jit(later)

@functools.partial(nki.jit, platform_target=None)
def warned(x):
    return settings["a"]
"""
BEYOND = """
import nki.isa as nisa

def first(x):
    nisa.tensor_kopy(x)
    return third(x)

def second(x):
    return third(x)

def third(x):
    async def f(): pass

def unreached(x):
    nisa.memset(x, 0.0)
    del x
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "clean.py").write_text(CLEAN)
    (tmp_path / "faulty.py").write_text(FAULTY)
    (tmp_path / "beyond.py").write_text(BEYOND)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def findings(ran: Any) -> list[tuple[str, int, str]]:
    return [(Path(f["file"]).name, f["line"], f["code"]) for f in json.loads(ran.out)["findings"]]


def test_nothing_found(nki, files: Path) -> None:
    ran = nki("check", "clean.py")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        f"not compiled: good ({files / 'clean.py'}:10): nothing in the file shows the shape of x",
        "  nki check clean.py:good --arg x=128x512:float32",
        'or annotate the parameters (x: "128x512:float32"), or call the kernel under if __name__ == "__main__"',
        "",
        f"nothing found in 1 file, 1 kernel (0 compiled), 2 functions (open-nki {version()})",
    ]


def test_all_functions_of_a_file(nki, files: Path) -> None:
    ran = nki("check", "--all", "clean.py", "--json")
    assert ran.code == 1 and findings(ran) == [("clean.py", 16, "NKI-FE012")]


WANTED = [
    ("faulty.py", 13, "NKI-FE016"),
    ("faulty.py", 17, "NKI-FE010"),
    ("faulty.py", 23, "NKI-FE012"),
    ("faulty.py", 35, "NkiWarning"),
    ("beyond.py", 5, "NKI-FE031"),
    ("beyond.py", 12, "NKI-FE011"),
]


def test_kernels_and_what_they_reach(nki, files: Path) -> None:
    """Decorated, nested, made by a call; each function once; files in order."""
    ran = nki("check", "faulty.py", "--json")
    assert ran.code == 1 and ran.err == "imported\n"
    assert findings(ran) == WANTED
    result = json.loads(ran.out)
    assert (result["files"], result["kernels"], result["functions"]) == (1, 4, 7)
    assert result["findings"][0] == {
        "code": "NKI-FE016",
        "severity": "error",
        "message": "NKI has no `del`",
        "file": str(files / "faulty.py"),
        "line": 13,
        "column": 5,
        "end_column": 10,
        "fix": "use `pop` for entries of lists and dictionaries; variables may stay",
        "rule": "",
        "function": "first",
    }
    assert result["findings"][2]["function"] == "outer.<locals>.nested"
    assert result["findings"][3]["severity"] == "warning"


def test_given_files_come_in_their_order_and_are_reported_once(nki, files: Path) -> None:
    ran = nki("check", "beyond.py", "faulty.py", "--json")
    assert findings(ran) == [*WANTED[4:], ("beyond.py", 16, "NKI-FE016"), *WANTED[:4]]
    assert findings(nki("check", "faulty.py", "faulty.py", "--json")) == WANTED


def test_everything(nki, files: Path) -> None:
    ran = nki("check", "faulty.py", "--all", "--json")
    assert findings(ran) == [*WANTED[:3], ("faulty.py", 29, "NKI-FE014"), *WANTED[3:]]


def test_the_report_for_people(nki, files: Path) -> None:
    lines = nki("check", "faulty.py").out.splitlines()
    assert lines[:5] == [
        "[NKI-FE016] NKI has no `del`",
        f"  --> {files / 'faulty.py'}:13",
        "   13 |     del x",
        "      |     ^^^^^",
        "  fix: use `pop` for entries of lists and dictionaries; variables may stay",
    ]
    assert lines[-1] == f"5 errors and 1 warning in 1 file, 4 kernels (0 compiled), 7 functions (open-nki {version()})"


def test_warnings_alone(nki, files: Path) -> None:
    (files / "warned.py").write_text("import nki\nrows = [1]\n@nki.jit\ndef kernel(x):\n    return rows[0]\n")
    ran = nki("check", "warned.py")
    assert ran.code == 0 and ran.out.startswith("[NkiWarning] `kernel` reads `rows`, a value of type list")
    assert "\n1 warning in 1 file, 1 kernel (0 compiled), 1 function (open-nki " in ran.out
    assert nki("check", "warned.py", "--strict").code == 1
    assert nki("check", "clean.py", "--strict").code == 0


@pytest.mark.parametrize(
    ("text", "line", "shown"),
    [
        ("import nki\ndef f():\n    raise ValueError('no')\nf()\n", 3, "ValueError: no"),
        ("\ndef f(:\n    pass\n", 2, "SyntaxError: invalid syntax"),
        ("import sys\nsys.exit(3)\n", 2, "SystemExit: 3"),
        ("\n\nimport there_is_no_such_module\n", 3, "No module named 'there_is_no_such_module'"),
        ("import json\njson.loads('{')\n", 2, "JSONDecodeError"),
        ("x = 1\nassert x == 2\n", 2, "AssertionError"),
    ],
)
def test_a_file_that_cannot_be_imported(nki, files: Path, text: str, line: int, shown: str) -> None:
    (files / "broken.py").write_text(text)
    ran = nki("check", "broken.py", "faulty.py", "--json")
    assert ran.code == 1
    assert findings(ran) == [("broken.py", line, "NKI-KN008"), *WANTED]
    assert shown in json.loads(ran.out)["findings"][0]["message"]


def test_a_package_that_cannot_be_imported_around_a_file(nki, tmp_path: Path) -> None:
    inner = tmp_path / "lacking" / "inner"
    inner.mkdir(parents=True)
    (tmp_path / "lacking" / "__init__.py").write_text("\nfrom .absent import anything\n")
    (inner / "__init__.py").write_text("")
    (inner / "file.py").write_text("import nki\n")
    ran = nki("check", str(inner / "file.py"), "--json")
    assert ran.code == 1
    assert findings(ran) == [("__init__.py", 2, "NKI-KN008")]
    ran = nki("dump", f"{inner / 'file.py'}:kernel")
    assert ran.code == 1
    assert "NKI-KN008" in ran.err


@pytest.mark.parametrize(
    ("line", "code", "advice"),
    [
        ("from torch_neuronx_absent import nki_op", "NKI-KN008", "run the command in the folder that holds it"),
        ("import jax_neuronx.experimental", "NKI-HN002", "take only names that docs/harnesses.md lists"),
    ],
)
def test_packages_of_the_vendor_that_are_not_installed(nki, tmp_path: Path, line: str, code: str, advice: str) -> None:
    (tmp_path / "file.py").write_text(line + "\n")
    ran = nki("check", str(tmp_path / "file.py"), "--json")
    assert findings(ran) == [("file.py", 1, code)]
    assert advice in json.loads(ran.out)["findings"][0]["fix"]


VENDOR_TORCH = """
import nki
import nki.isa as nisa
import nki.language as nl
from libtorch_neuronx_lite.nki.nki_hop import wrap_nki
from torch_neuronx import nki_op

@nki.jit
def double(a):
    tile = nl.load(a)
    nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out

wrapped = wrap_nki(double)[1]
"""


def test_stand_ins_for_the_packages_of_the_vendor(nki, tmp_path: Path) -> None:
    file = tmp_path / "of_vllm.py"
    file.write_text(VENDOR_TORCH)
    assert nki("check", str(file)).code == 0
    for command in ("run", "profile", "dump", "migrate"):
        ran = nki(command, f"{file}:double", "--arg", "4x8:float32")
        assert ran.code == 0, (command, ran.out, ran.err)
    assert importlib.util.find_spec("torch_neuronx") is None


@pytest.mark.parametrize(
    "line", ["from torch_neuronx import trace", "import torch_neuronx\n\ntorch_neuronx.xla_impl.x"]
)
def test_names_without_a_stand_in(nki, tmp_path: Path, line: str) -> None:
    (tmp_path / "file.py").write_text(line + "\n")
    ran = nki("check", str(tmp_path / "file.py"), "--json")
    assert findings(ran) == [("file.py", line.count("\n") + 1, "NKI-HN003" if "\n" in line else "NKI-HN002")]


def test_an_error_of_ours_at_import_is_that_error(nki, files: Path) -> None:
    (files / "decorated.py").write_text("import nki\n\n@nki.jit\nclass Kernel:\n    pass\n")
    ran = nki("check", "decorated.py", "--json")
    assert findings(ran) == [("decorated.py", 3, "NKI-FE003")]


def test_files_of_other_folders_have_modules_of_their_own(nki, files: Path) -> None:
    for name, line in (("one", "del x"), ("two", "async def f(): pass")):
        (files / name).mkdir()
        (files / name / "kernel.py").write_text("import nki\nimport near\nnki.jit(near.part)\nk = nki.jit(near.part)\n")
        (files / name / "kernel.py").write_text(
            "import nki\nimport near\n\n@nki.jit\ndef kernel(x):\n    return near.part(x)\n"
        )
        (files / name / "near.py").write_text(f"def part(x):\n    {line}\n")
    ran = nki("check", "one/kernel.py", "two/kernel.py", "--json")
    assert findings(ran) == [("near.py", 2, "NKI-FE016"), ("near.py", 2, "NKI-FE011")]
    assert "near" not in sys.modules


def test_files_of_a_package(nki, files: Path) -> None:
    (files / "package" / "inner").mkdir(parents=True)
    (files / "package" / "__init__.py").write_text("from .inner import part\n")
    (files / "package" / "inner" / "__init__.py").write_text("from ..near import part\n")
    (files / "package" / "near.py").write_text("import nki.isa as nisa\ndef part(x):\n    nisa.memset(x, 0.0); del x\n")
    given = ["package/__init__.py", "package/inner/__init__.py", "package/near.py"]
    assert findings(nki("check", *given, "--json")) == [("near.py", 3, "NKI-FE016")]


def test_packages_of_one_name_in_other_folders(nki, files: Path) -> None:
    """Three projects have a package of one name, as many have ``kernels``: each file gets the modules of its own."""
    for project, line in (("one", "del x"), ("two", "async def f(): pass"), ("three", "yield x")):
        package = files / project / "own_kernels" / project
        package.mkdir(parents=True)
        (files / project / "own_kernels" / "__init__.py").write_text("")
        (package / "__init__.py").write_text("")
        (files / project / "own_kernels" / "near.py").write_text(f"def part(x):\n    {line}\n")
        kernel = "import nki\nfrom own_kernels import near\n\n@nki.jit\ndef kernel(x):\n    return near.part(x)\n"
        (package / "kernel.py").write_text(kernel)
    given = [f"{project}/own_kernels/{project}/kernel.py" for project in ("one", "two", "three", "one")]
    ran = nki("check", *given, "--json")
    assert findings(ran) == [("near.py", 2, "NKI-FE016"), ("near.py", 2, "NKI-FE011"), ("near.py", 2, "NKI-FE010")]


def test_an_error_of_the_source_is_reported_once(nki, files: Path) -> None:
    text = "import nki\nimport nki.language as nl\n\n\n@nki.jit\ndef kernel(x):\n    i = nl.arange(128)\n    return x\n"
    (files / "once.py").write_text(text)
    assert findings(nki("check", "once.py", "--json")) == [("once.py", 7, "NKI-FE032")]


def test_a_package_that_imports_the_file_itself(nki, files: Path) -> None:
    (files / "around" / "loss").mkdir(parents=True)
    (files / "around" / "__init__.py").write_text("from .loss.loss import part, ran\n\nassert ran == [1]\n")
    (files / "around" / "loss" / "__init__.py").write_text("from .loss import part\n")
    text = "import nki.isa as nisa\nran = [1]\ndef part(x):\n    nisa.memset(x, 0.0); del x\n"
    (files / "around" / "loss" / "loss.py").write_text(text)
    assert findings(nki("check", "around/loss/loss.py", "--json")) == [("loss.py", 4, "NKI-FE016")]


@pytest.mark.parametrize("arguments", [["missing.py"], ["empty"], ["notes.txt"], [], ["clean.py", "--everything"]])
def test_bad_usage(nki, files: Path, arguments: list[str]) -> None:
    (files / "notes.txt").write_text("")
    (files / "empty").mkdir()
    assert nki("check", *arguments).code == 2


def test_kernels_are_not_run(nki, files: Path) -> None:
    (files / "running.py").write_text("import nki\n@nki.jit\ndef kernel(x):\n    print('run')\n    assert False\n")
    ran = nki("check", "running.py")
    assert (ran.code, ran.err) == (0, "")


def test_a_large_file_takes_less_than_a_second(nki, files: Path) -> None:
    part = CLEAN.partition("def part")[2]
    text = "".join(f"\ndef part{part}".replace("part(", f"part{n}(").replace("good", f"good{n}") for n in range(200))
    (files / "large.py").write_text(CLEAN + text)
    assert len(text.splitlines()) > 2500
    started = time.process_time()
    ran = nki("check", "large.py")
    assert "\nnothing found in 1 file, 201 kernels (0 compiled), 402 functions (" in ran.out
    assert time.process_time() - started < 3.0, "many times what it takes on an idle machine"


def test_a_kernel_that_cannot_be_captured_is_a_finding(nki, files: Path) -> None:
    text = "import nki\n@nki.jit\nasync def slow(x):\n    pass\n@nki.jit\ndef kernel(x):\n    del x\n"
    (files / "asynchronous.py").write_text(text)
    assert findings(nki("check", "asynchronous.py", "--json")) == [
        ("asynchronous.py", 3, "NKI-FE011"),
        ("asynchronous.py", 7, "NKI-FE016"),
    ]
