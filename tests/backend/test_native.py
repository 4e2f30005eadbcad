"""Native code that no kernel changes: made from its C files, with the words that Python has, for every machine."""

from __future__ import annotations

import os
import re
import shlex
from typing import Any

import pytest

from nki.backend.cpu.native import callbacks, frame, library
from nki.backend.cpu.runtime import resources
from nki.numerics.llvm_jit import engine
from nki.numerics.llvm_library import binding
from tools import native_runtime

SOURCE = "".join(file.read_text(encoding="utf-8") for file in sorted(native_runtime.FOLDER.glob("*.[ch]")))
ENUMERATORS = {
    name: int(value)
    for body in re.findall(r"enum \{(.*?)\}", SOURCE)
    for name, value in re.findall(r"(\w+) = (-?\d+)", body)
}
EACH = pytest.mark.parametrize("file", native_runtime.FILES)
TRIPLES = {"x86_64": "x86_64-unknown-linux-gnu", "arm64": "aarch64-unknown-linux-gnu"}


def words(name: str) -> list[str]:
    """The words of a structure, an array's several times."""
    body = re.search(rf"^struct {name} \{{.*?^\}};", SOURCE, re.MULTILINE | re.DOTALL)
    assert body is not None
    fields = re.findall(r"^    [^/;]*?(\w+)(?:\[(\d+)\])?;", body[0], re.MULTILINE)
    return [field for field, count in fields for _ in range(int(count or 1))]


def made(file: str) -> str:
    """The IR in the repository."""
    return native_runtime.result(file).read_text(encoding="utf-8")


@EACH
def test_it_is_made_from_the_c_files(file: str) -> None:
    """Else: ``python -m tools.native_runtime clang``."""
    assert native_runtime.digest() in made(file).split("\n\n")[0]


@EACH
def test_made_again_it_is_the_same(file: str) -> None:
    clang = shlex.split(os.environ.get(native_runtime.VARIABLE, ""))
    text = made(file)
    if not clang:
        pytest.skip(f"{native_runtime.VARIABLE} names no clang")
    if native_runtime.version(clang) not in text:
        pytest.skip(f"another release of clang than {text.splitlines()[0]}")
    assert native_runtime.generated(file, clang) == text


def test_frames_have_the_same_words_in_c_and_in_python() -> None:
    slots = words("frame")
    assert [getattr(frame, slot.upper()) for slot in slots] == list(range(frame.FIRST_IO))
    status = words("status")
    assert status[:4] == ["trap", "operand", "index", "peer"]
    assert frame.WORD * len(status) == frame.STATUS_BYTES - frame.CONTROL_BYTES
    control = words("control")
    assert control.index("gate") == frame.GATE
    assert frame.WORD * len(control) == frame.CONTROL_BYTES


def test_numbers_are_the_same_in_c_and_in_python() -> None:
    assert ENUMERATORS["SHUT"] == frame.SHUT
    assert ENUMERATORS["DEADLOCK"] == frame.DEADLOCK
    assert ENUMERATORS["LINE_BYTES"] == frame.LINE
    assert ENUMERATORS["MOST_BYTES"] == callbacks.MOST_BYTES
    assert ENUMERATORS["MOST_CHUNKS"] == resources.MOST_THREADS
    assert "#define ANYWHERE (-(INT64_C(1) << 62))" in SOURCE
    assert frame.ANYWHERE == -(1 << 62)


@pytest.mark.parametrize("machine", TRIPLES)
def test_it_becomes_code_on_every_machine(machine: str) -> None:
    try:
        target: Any = binding.Target.from_triple(TRIPLES[machine])
    except RuntimeError:
        binding.initialize_all_targets()
        binding.initialize_all_asmprinters()
        target = binding.Target.from_triple(TRIPLES[machine])
    assembly = ""
    for file in native_runtime.FILES:
        module: Any = binding.parse_assembly(library.text(file, machine), binding.create_context())
        module.verify()
        module.triple = TRIPLES[machine]
        assembly += target.create_target_machine(opt=3).emit_assembly(module)
    pauses = {"x86_64": "pause", "arm64": "yield"}
    assert re.search(rf"^\s+{pauses[machine]}\b", assembly, re.MULTILINE)
    for name in re.findall(r"^\w[^\n]*\bnki_(\w+)\(", SOURCE, re.MULTILINE):
        assert f"nki_{name}:" in assembly


@EACH
def test_it_holds_in_every_process(file: str) -> None:
    assert not re.search(r"inttoptr \(|0x[0-9A-Fa-f]{6}", made(file))


def test_a_function_that_the_platform_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert engine()
    find = binding.address_of_symbol
    monkeypatch.setattr(binding, "address_of_symbol", lambda name: None if name == "usleep" else find(name))
    with pytest.raises(RuntimeError, match=r"are not here: usleep; with NKI_SIMULATOR=1"):
        library.checked_text("runtime")


def test_another_machine_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "s390x")
    with pytest.raises(RuntimeError, match=r"x86_64.*this machine is s390x"):
        library.checked_text("runtime")
    assert not library.has_threads()
