"""``nki check`` compiles kernels for the arguments that their file shows, and says which it could not compile."""

from __future__ import annotations

import json
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nki.cli import kernel_check

KERNELS = """
import numpy as np
import nki
import nki.isa as nisa
import nki.language as nl

@nki.jit
def wide(x):
    t = nl.ndarray((x.shape[0], 4), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x[:, 0:4])
    out = nl.ndarray(t.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=t)
    return out

def undecorated(x):
    return nl.load(x)
"""
TOO_MANY = ("wide", "NKI-SH002")
"""The kernel called with more rows than partitions."""


@pytest.fixture
def check(nki: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Checks a file of the kernels above and of the given host code; the result as JSON."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NEURON_PLATFORM_TARGET_OVERRIDE", raising=False)

    def check(host: str, *options: str, kernels: str = KERNELS) -> Any:
        (tmp_path / "file.py").write_text(kernels + textwrap.dedent(host))
        return json.loads(nki("check", "file.py", *options, "--json").out)

    return check


def found(result: Any) -> list[tuple[str, str]]:
    return [(each["function"], each["code"]) for each in result["findings"]]


CALLS = {
    "main": """
        if __name__ == "__main__":
            wide(np.ones((256, 8), np.float32))
        """,
    "test": """
        ROWS = 256
        def test_wide():
            x = np.random.default_rng(0).standard_normal((ROWS, 8)).astype(np.float32)
            np.testing.assert_allclose(wide(x), x[:, :4])
        """,
    "parametrised test": """
        import pytest
        @pytest.mark.parametrize("rows, columns", [(64, 8), (256, 8)])
        def test_wide(rows, columns):
            assert wide(np.zeros((rows, columns), dtype=np.float32)) is not None
        """,
    "lambda": """
        make = lambda *shape, dtype=np.float32: np.random.rand(*shape).astype(dtype)
        def main():
            wide(x=make(256, 8))
        """,
    "loop": """
        def main():
            for rows in (32, 256):
                wide[1](np.full((rows, 8), 1.0, np.float32))
        """,
    "wrapper": """
        def run(kernel, *shape):
            return nki.simulate(kernel)(np.ones(shape, np.float32))
        def main():
            run(wide, 256, 8)
        """,
    "table": """
        CASES = [(wide, (np.ones((256, 8), np.float32),))]
        """,
    "conversion": """
        def main(a=np.zeros((8, 256), np.float32)):
            b = a.T
            wide((b * 2 + b[:, :1]).reshape(-1, 8))
        """,
    "several": """
        def main():
            shape = (256, 8)
            first, second = [np.ones(shape, np.float32) for _ in range(2)]
            if first.sum() > 3:
                wide(second)
        """,
    "torch": """
        import torch
        def main():
            wide(torch.randn(256, 8).to("cpu").bfloat16())
        """,
    "jax": """
        import jax, jax.numpy as jnp
        def main():
            key, _ = jax.random.split(jax.random.PRNGKey(0))
            wide(jax.random.normal(key, (256, 8)) + jnp.ones(8))
        """,
    "NumPy of another framework": """
        import jax.numpy as jnp
        A = jnp.ones((256, 8))
        def main():
            wide(np.asarray(A))
        """,
}


@pytest.mark.parametrize("host", CALLS.values(), ids=list(CALLS))
def test_calls_show_the_arguments(check: Callable[..., Any], host: str) -> None:
    result = check(host)
    assert found(result) == [TOO_MANY]
    assert (result["compiled"], result["not_compiled"]) == (1, [])


RIGHT = {
    "a legal call": "wide(np.ones((128, 8), np.float32))",
    "an error that is expected": """
        import pytest
        with pytest.raises(nki.NkiError):
            wide(np.ones((256, 8), np.float32))
        """,
    "a handled error": """
        try:
            wide(np.ones((256, 8), np.float32))
        except nki.NkiError:
            pass
        """,
    "a branch that is not taken": """
        if len("a") > 1:
            wide(np.ones((256, 8), np.float32))
        """,
    "an unknown shape": "wide(np.loadtxt('file'))",
    "a list that changes": """
        shape = [256]
        shape.append(8)
        shape[0] = 64
        wide(np.ones(shape, np.float32))
        """,
    "a number from elements": "wide(np.ones((int(np.ones(3).sum()) * 100, 8), np.float32))",
    "a name of two values": """
        rows = 256
        if np.random.rand() > 0.5:
            rows = 128
        wide(np.ones((rows, 8), np.float32))
        """,
    "a huge array": "wide(np.zeros((128, 1 << 40), np.float32)[:, :8])",
}


@pytest.mark.parametrize("host", RIGHT.values(), ids=list(RIGHT))
def test_nothing_is_found_where_nothing_is_certain(check: Callable[..., Any], host: str) -> None:
    assert found(check("def main():\n" + textwrap.indent(textwrap.dedent(host), "    "))) == []


@pytest.mark.parametrize(
    "annotation", ['"256x8:float32"', "nt.tensor[256, 8]", '"nt.tensor[256, 8]"', 'Float32[object, "256 8"]']
)
def test_annotations_show_the_arguments(check: Callable[..., Any], annotation: str) -> None:
    kernels = KERNELS.replace("wide(x)", f"wide(x: {annotation})").replace(
        "import nki\n", "import nki, nki.typing as nt\n"
    )
    kernels = kernels.replace("\n@nki.jit", "\nclass Float32:\n    __class_getitem__ = lambda *_: None\n\n@nki.jit")
    assert found(check("", kernels=kernels)) == [TOO_MANY]


def test_arguments_may_be_given(check: Callable[..., Any], nki: Any) -> None:
    assert found(check("", "--arg", "256x8:float32")) == [TOO_MANY]
    ran = nki("check", "file.py:wide", "--arg", "x=64x8:float32", "--target", "trn2")
    assert ran.code == 0 and "1 kernel (1 compiled)" in ran.out


def test_what_was_not_compiled_is_named_with_the_options_that_do_it(check: Callable[..., Any], nki: Any) -> None:
    (skipped,) = check("")["not_compiled"]
    assert (skipped["kernel"], skipped["line"]) == ("wide", 8)
    assert skipped["reason"] == "nothing in the file shows the shape of x"
    assert skipped["arguments"] == "--arg x=128x512:float32"
    (skipped,) = check("def main():\n    wide(np.loadtxt('file'))\n")["not_compiled"]
    assert skipped["reason"] == "the arguments of its call in line 18 are not known before the file runs"
    assert "\n  nki check file.py:wide --arg x=128x512:float32\n" in nki("check", "file.py").out


def test_kernels_that_a_function_makes_are_compiled(check: Callable[..., Any]) -> None:
    host = """
        def maker(rows):
            @nki.jit
            def inner(x, factor=2.0):
                t = nl.ndarray((rows, 8), dtype=x.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=t, src=x)
                return t
            return inner

        def main():
            maker(512)(np.ones((64, 8), np.float32))
        """
    assert ("maker.<locals>.inner", "NKI-SH002") in found(check(host))
    (skipped,) = [each for each in check(host.partition("def main")[0])["not_compiled"] if each["kernel"] == "inner"]
    assert skipped["reason"] == "it exists only when the function around it runs"


def test_errors_of_arguments_stand_at_the_call(check: Callable[..., Any]) -> None:
    result = check("def main():\n    wide(np.arange(64.0).reshape(8, 8))\n    wide(np.zeros((0, 8)))\n")
    assert [(each["line"], each["code"]) for each in result["findings"]] == [(18, "NKI-DT001"), (19, "NKI-FW002")]


def test_errors_name_the_call_that_shows_the_arguments(check: Callable[..., Any], nki: Any) -> None:
    check("def main():\n    wide(np.ones((256, 8), np.float32))\n")
    lines = nki("check", "file.py").out.splitlines()
    assert lines[1].endswith("file.py:9") and lines[4].endswith("file.py:18") and "called from" in lines[4]


def test_a_kernel_without_its_decorator(check: Callable[..., Any]) -> None:
    result = check("def main():\n    undecorated(np.ones((4, 4), np.float32))\n")
    (finding,) = result["findings"]
    assert (finding["code"], finding["line"]) == ("NKI-KN001", 18)
    assert finding["fix"] == "write @nki.jit in the line above `def undecorated`"
    assert found(check("def main():\n    nki.simulate(undecorated)\n")) == []
    (finding,) = check("def main():\n    return undecorated, (np.ones((4, 4), np.float32),)\n")["findings"]
    assert finding["severity"] == "warning" and "is not decorated" in finding["message"]


def test_errors_that_no_shape_changes(check: Callable[..., Any]) -> None:
    kernels = """
import nki
import nki.language as nl

@nki.jit
def kernel(x, y):
    t = nl.load(x)
    return {}
"""
    (finding,) = check("", kernels=kernels.format("t + t"))["findings"]
    assert finding["code"] == "NKI-TN003" and "(with x, y assumed as 128x512:float32)" in finding["message"]
    assert found(check("", kernels=kernels.format("t"))) == [("kernel", "NKI-KN004")]
    # y may be a number, and what it then means depends on it.
    assert found(check("", kernels=kernels.format("y * 2 if t is None else t @ nl.load(y[y.a])"))) == []


DIMENSIONS = """
import nki
import nki.isa as nisa
import nki.language as nl

@nki.jit
def kernel({parameters}):
    {lines}
"""


@pytest.mark.parametrize(
    ("parameters", "lines", "shapes", "words"),
    [
        ("x", "b, h, d = x.shape", ["2x128x512"], "x (b, h, d)"),
        ("x", "n, c, h, w = x.shape", ["2x2x128x512"], "x (n, c, h, w)"),
        ("x", "n, = x.shape", ["512"], "x (n)"),
        ("x", "n, *rest = x.shape", ["128x512"], "x"),
        ("x, y", "assert x.ndim == 3 and len(y.shape) == 4", ["2x128x512", "2x2x128x512"], "x, y"),
        ("x, y", "n = x.shape[2] + y.shape[-3]", ["2x128x512", "2x128x512"], "x, y"),
        ("x, y", "t = nl.load(x[0, 0:128, :]) + y[1, 2, 0:3, 4]", ["2x128x512", "2x2x128x512"], "x, y"),
        ("x, y", "for i in range(4): nl.load(x[i]), nl.load(y[i % 2, 0:4])", ["2x128x512", "2x128x512"], "x, y"),
        ("x, y", "for i in range(4): nl.load(x[i:i + 1]), nl.load(y[nl.ds(i, 4)])", ["128x512", "128x512"], "x, y"),
        ("x", "return x[..., 0], x[None]", ["128x512"], "x"),
    ],
)
def test_options_have_as_many_dimensions_as_the_kernel_uses(
    check: Callable[..., Any], parameters: str, lines: str, shapes: list[str], words: str
) -> None:
    kernels = DIMENSIONS.format(parameters=parameters, lines=lines)
    (skipped,) = check("", kernels=kernels)["not_compiled"]
    assert skipped["reason"] == f"nothing in the file shows the shape of {words}"
    given = zip(parameters.split(", "), shapes, strict=True)
    assert skipped["arguments"] == " ".join(f"--arg {name}={shape}:float32" for name, shape in given)


def test_errors_that_no_shape_of_three_dimensions_changes(check: Callable[..., Any]) -> None:
    kernels = """
import nki
import nki.language as nl

@nki.jit
def kernel(x, w):
    b, p, f = x.shape
    scale = nl.load(w)
    for i in range(b):
        t = nl.load(x[i])
        u = t + scale
    return u
"""
    (finding,) = check("", kernels=kernels)["findings"]
    assert finding["code"] == "NKI-TN003"
    assert "(with x assumed as 2x128x512:float32, w assumed as 128x512:float32)" in finding["message"]


def test_a_kernel_without_end_is_given_up(check: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_check, "SECONDS", 0.5)
    kernels = KERNELS.replace("    return out", "    while x.shape[0]:\n        pass\n    return out")
    started = time.monotonic()
    (finding,) = check("def main():\n    wide(np.ones((4, 8), np.float32))\n", kernels=kernels)["findings"]
    assert finding["severity"] == "warning" and "may have no end" in finding["message"]
    assert time.monotonic() - started < 30


@pytest.mark.usefixtures("nki_0_6")
def test_only_the_named_kernel_is_checked(nki: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    other = "\n@nki.jit\ndef other(x):\n    del x\n\ndef main():\n    wide(np.ones((256, 8), np.float32))\n"
    (tmp_path / "two.py").write_text(KERNELS + other)
    for options in (["two.py:wide"], ["--run", "two.py:wide", "--arg", "256x8:float32"]):
        assert found(json.loads(nki("check", *options, "--json").out)) == [TOO_MANY]
    assert found(json.loads(nki("check", "two.py", "--json").out)) == [TOO_MANY, ("other", "NKI-FE016")]
    assert nki("check", "two.py:none").code == 2


def test_a_folder_stands_for_the_files_that_define_kernels(
    nki: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a/wide.py", "a/b/deep.py", ".hidden/wide.py", "venv/wide.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(KERNELS)
    (tmp_path / "venv" / "pyvenv.cfg").write_text("")
    (tmp_path / "a" / "host.py").write_text("import nki\nraise RuntimeError('only the word nki.jit')")
    (tmp_path / "a" / "broken.py").write_text("import nki\n@nki.jit\ndef kernel(x:\n")
    result = json.loads(nki("check", ".", "--json").out)
    assert result["files"] == 3 and [each["kernel"] for each in result["not_compiled"]] == ["wide", "wide"]
    assert [(Path(each["file"]).name, each["code"]) for each in result["findings"]] == [("broken.py", "NKI-KN008")]
    assert "wide" not in sys.modules


def test_warnings_of_an_import_are_findings_at_their_line(check: Callable[..., Any]) -> None:
    kernels = KERNELS.replace("@nki.jit", "@nki.jit(platform_target='trn2')")
    (finding,) = check("", kernels=kernels)["findings"]
    assert (finding["code"], finding["line"]) == ("NkiDeprecationWarning", 7)


@pytest.mark.usefixtures("nki_0_6")
def test_host_code_is_not_judged(check: Callable[..., Any]) -> None:
    host = "def read(path):\n    with open(path) as file:\n        return file.read()\n"
    device = "import nki.isa as nisa\ndef part(x):\n    nisa.memset(x, 0.0)\n    del x\n"
    assert found(check(host, kernels="")) == []
    assert found(check(host, kernels=device)) == [("part", "NKI-FE016")]
