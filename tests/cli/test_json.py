"""What ``--json`` prints: each command's document follows the one schema, and says what its text says."""

from __future__ import annotations

import json
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from nki.base.version import version
from nki.cli.output import schema
from tests.support.command_line import SHAPE
from tests.support.json_validator import mistakes

SCHEMA = schema.json_schema()
EXAMPLES = Path(__file__).parent.parent.parent / "examples"
FACTS = {
    "format": "open-nki facts", "form": 1, "kernel": "affine", "target": "trn2", "capture": "capture", "date": "",
    "facts": {"dma_trigger_ns": {"value": 600, "unit": "ns", "least": 598, "most": 602}},
}  # fmt: skip
AFFINE = ("--arg", SHAPE, "--arg", "2.0")
DOUBLED = "tests.testing.references.doubled"
OLD = """
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


@nki.jit
def doubled(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.add(nl.load(x), nl.load(x)))
    return out
"""
WARNED = """
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def warned(x):
    t = nl.load(x)
    nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=len(WIDTHS))
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, t)
    return out


WIDTHS = [1, 2]
widths = WIDTHS


@nki.jit
def listed(x):
    t = nl.load(x)
    for _ in widths:
        nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, t)
    return out
"""


def document(ran: Any, name: str) -> Any:
    """What a command printed, which follows the schema ``name``."""
    shown = json.loads(ran.out)
    assert not list(mistakes(shown, SCHEMA["$defs"][name], SCHEMA)), ran.out
    return shown


COMMANDS: dict[str, tuple[str, ...]] = {
    "run": ("run", "{file}:affine", *AFFINE),
    "run --simulate": ("run", "{file}:affine", *AFFINE, "--simulate"),
    "run --check --where": ("run", "{file}:affine", *AFFINE, "--check", "--where"),
    "profile": ("profile", "{file}:affine", *AFFINE),
    "profile of targets": ("profile", "{file}:affine", *AFFINE, "--target", "trn1", "--target", "trn2"),
    "profile --what-if": ("profile", "{file}:affine", *AFFINE, "--what-if", "semaphore=0"),
    "profile --compare": ("profile", "{file}:both", *("--arg", SHAPE) * 2, "--compare", "{file}:both"),
    "profile --against": (
        "profile", "{examples}/rms_normalise.py", "--arg", "128x512:float32", "--target", "trn2",
        "--against", "{examples}/captures/rms_normalise.json",
    ),
    "profile --facts": ("profile", "{file}:affine", *AFFINE, "--target", "trn2", "--facts", "{facts}"),
    "prove": ("prove", "{file}:affine", "{file}:affine", *AFFINE),
    "accuracy": ("accuracy", "{file}:affine", *AFFINE),
    "accuracy --bisect": ("accuracy", "{file}:affine", *AFFINE, "--bisect", "{file}:affine"),
    "optimise": ("optimise", "{file}:affine", *AFFINE),
    "verify": ("verify", "{file}:affine", DOUBLED, *AFFINE, "--arg", "shift=0.0", "--seeds", "1"),
    "check": ("check", "{file}"),
    "check --arg": ("check", "{file}:affine", *AFFINE),
    "dump": ("dump", "{file}:affine", *AFFINE),
    "dump --after": ("dump", "{file}:affine", *AFFINE, "--after", "specialise"),
    "dump --lines": ("dump", "{file}:affine", *AFFINE, "--lines"),
    "dump --queues": ("dump", "{file}:affine", *AFFINE, "--queues"),
    "dump --loops": ("dump", "{file}:affine", *AFFINE, "--loops"),
    "dump --llvm": ("dump", "{file}:affine", *AFFINE, "--llvm"),
    "dump --asm": ("dump", "{file}:affine", *AFFINE, "--asm"),
    "dump --memory": ("dump", "{file}:affine", *AFFINE, "--memory"),
    "dump --memory FILE": ("dump", "{file}:affine", *AFFINE, "--memory", "map.svg"),
    "dump --artifact": ("dump", "{file}:affine", *AFFINE, "--artifact", "affine.klir"),
    "explain": ("explain",),
    **{f"explain {topic}": ("explain", topic) for topic in (
        "NKI-SH002", "TL02", "NKI-SH001/TL02", "tensor_tensor", "nl.exp", "nl.load", "t.reshape", "trn2", "MFU",
        "NCC_EVRF066", "own pipeline",
    )},
    "cache": ("cache",),
    "cache --clear": ("cache", "--clear"),
}  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_documents_follow_the_schema(command, file, nki):
    Path("facts.json").write_text(json.dumps(FACTS))
    places = {"{file}": file, "{examples}": str(EXAMPLES), "{facts}": "facts.json"}
    words = [reduce(lambda text, name: text.replace(name, places[name]), places, word) for word in COMMANDS[command]]
    ran = nki(*words, "--json")
    assert ran.code == 0, ran.out
    name = command if command in ("cache --clear", "accuracy --bisect") else words[0]
    shown = document(ran, name)
    for each in shown.values() if name == "profile" else shown if name == "cache" else [shown]:
        assert each["schema"] == "open-nki/1" and each["version"] == version()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("run", "{file}:afine"), 2),
        (("run", "{file}:wrong", "--arg", SHAPE), 1),
        (("profile", "{file}:wrong", "--arg", SHAPE), 1),
        (("profile", "{file}:affine", "--nonsense"), 2),
        (("check", "nothing.py"), 2),
        (("dump", "{file}:wrong", "--arg", SHAPE), 1),
        (("dump", "{file}:affine", "--after", "nothing"), 2),
        (("explain", "nothing at all"), 2),
        (("migrate", "nothing.py"), 2),
        (("cache", "--clear", "nothing"), 2),
        (("info", "nothing.nkix"), 1),
        (("nothing",), 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_errors_follow_the_schema(words, code, file, nki):
    ran = nki(*(word.replace("{file}", file) for word in words), "--json")
    assert ran.code == code and ran.err == ""
    error = document(ran, "failure")
    assert error["severity"] == "error" and error["message"] and error["version"] == version()
    assert (error["code"] == "usage") is (code == 2)
    assert (error["line"] is None) is (error["column"] is None)


def test_an_error_of_a_run_has_columns_and_calls(file, nki):
    text = Path(file).read_text(encoding="utf-8").replace("t[:, 0:2], op=nl.add)", "t[:, 0:2], op=nl.add)  # here")
    Path(file).write_text(text + "\n\ndef outer(x):\n    return wrong(x)\n", encoding="utf-8")
    error = document(nki("run", f"{file}:outer", "--arg", SHAPE, "--json"), "failure")
    line = text.splitlines()[error["line"] - 1]
    assert line[error["column"] - 1 : error["end_column"] - 1] == line.strip().removesuffix("  # here")
    assert error["function"] == "wrong" and [call["line"] for call in error["calls"]] == [len(text.splitlines()) + 4]


def test_several_errors_have_places(file, nki, monkeypatch):
    monkeypatch.setenv("NKI_VERSION", "0.6")
    error = document(nki("run", f"{file}:unsupported", "--arg", SHAPE, "--json"), "failure")
    assert len(error["errors"]) > 1 and all(each["column"] and each["severity"] == "error" for each in error["errors"])


@pytest.mark.parametrize("command", ["run", "profile", "dump"])
def test_warnings_have_their_texts(command, tmp_path, monkeypatch, nki):
    monkeypatch.chdir(tmp_path)
    Path("warned.py").write_text(WARNED, encoding="utf-8")
    with pytest.warns(UserWarning, match="widths"):
        ran = nki(command, "warned.py:listed", "--arg", SHAPE, "--json")
    shown = document(ran, command)
    (warning,) = (next(iter(shown.values())) if command == "profile" else shown)["warnings"]
    assert (warning["code"], warning["severity"]) == ("NkiWarning", "warning") and "widths" in warning["message"]
    assert Path(warning["file"]).name == "warned.py" and "in widths" in WARNED.splitlines()[warning["line"] - 1]


def test_a_warning_before_an_error_is_told(tmp_path, monkeypatch, nki):
    monkeypatch.chdir(tmp_path)
    text = WARNED.replace("    nl.store(out, t)\n    return out\n", "    return out[:, 0:4000]\n")
    Path("warned_first.py").write_text(text, encoding="utf-8")
    with pytest.warns(UserWarning, match="widths"):
        error = document(nki("run", "warned_first.py:listed", "--arg", SHAPE, "--json"), "failure")
    assert "widths" in error["warnings"][0]["message"] and error["severity"] == "error"


def test_a_dump_has_its_text_and_its_instructions(file, nki):
    for option in ((), ("--queues",), ("--memory",), ("--loops",)):
        words = ("dump", f"{file}:affine", *AFFINE, *option)
        shown = document(nki(*words, "--json"), "dump")
        assert shown["text"] == nki(*words).out
        assert len(shown["instructions"]) == shown["size"]
    shown = document(nki("dump", f"{file}:affine", *AFFINE, "--json"), "dump")
    assert [each["queue"].partition(".")[0] for each in shown["instructions"]] == ["dma", "vector", "dma"]
    assert [bool(each["waits"]) for each in shown["instructions"]] == [False, True, True]
    tiles = document(nki("dump", f"{file}:affine", *AFFINE, "--memory", "--json"), "dump")["memory"]
    assert [each["memory"] for each in tiles] == ["sbuf"] and tiles[0]["tensors"][0]["shape"] == [128, 32]


def test_an_explanation_is_the_text(nki):
    for topic in ("NKI-SH002", "tensor_tensor", "nl.exp"):
        shown = document(nki("explain", topic, "--json"), "explain")
        assert shown["text"] + "\n" == nki("explain", topic).out and shown["topic"] == topic
    listed = document(nki("explain", "--json"), "explain")
    assert "NKI-SH002" in listed["topics"]["error"] and "tensor_tensor" in listed["topics"]["instruction"]


def test_a_migration_has_the_new_file(tmp_path, monkeypatch, nki):
    monkeypatch.chdir(tmp_path)
    Path("old.py").write_text(OLD, encoding="utf-8")
    words = ("migrate", "old.py", "--arg", "128x64:float32")
    ran = nki(*words, "--json")
    (shown,) = document(ran, "migrate")["files"]
    plain = nki(*words)
    assert shown["source"] == plain.out and plain.code == ran.code == (0 if shown["done"] else 1)
    assert shown["diff"] == nki(*words, "--diff").out
    assert shown["changed"] and not shown["written"] and Path("old.py").read_text(encoding="utf-8") == OLD
    assert [each["kernel"] for each in shown["comparisons"]] == ["doubled"]
    assert document(nki(*words, "--write", "--json"), "migrate")["files"][0]["written"]
    assert Path("old.py").read_text(encoding="utf-8") == shown["source"]


def test_an_exception_of_ours_is_shown_with_the_version(file, nki, monkeypatch):
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("nki.cli.run._report", broken)
    with pytest.raises(ZeroDivisionError) as raised:
        nki("run", f"{file}:affine", *AFFINE)
    assert raised.value.__notes__ == [f"(open-nki {version()})"]


def test_mistakes_of_a_document_are_found():
    good = {"schema": "open-nki/1", "version": "1", "removed": 3}
    assert not list(mistakes(good, SCHEMA["$defs"]["cache --clear"], SCHEMA))
    for bad in ({**good, "removed": "3"}, {**good, "removed": True}, {**good, "more": 1}, {"removed": 3}, []):
        assert list(mistakes(bad, SCHEMA["$defs"]["cache --clear"], SCHEMA))
    assert list(mistakes({"severity": "note"}, SCHEMA["$defs"]["Finding"], SCHEMA))
