"""Programs as text and as artifacts, changed at random, and what has to become of each: a program or an error of ours.

``python -m tests.support.mutated_programs COUNT SEED`` tries many of them. A crash names the program in the file
``mutated-SEED.txt`` of the present folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import random
import re
import sys
import time
import traceback
import warnings
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl
from nki import target as targets
from nki.base.element_types import BY_NAME
from nki.base.errors import NkiError
from nki.compilation import pipeline
from nki.compilation.executable import Executable, lower
from nki.ir.instruction import REGISTRY
from nki.ir.loop import For, instructions, loops
from nki.ir.program import Program
from nki.ir.sample import Draw
from nki.ir.text import artifact
from nki.ir.text.parser import parse
from nki.ir.text.printer import show
from nki.ir.types import Access, is_element_indexed, is_row_indexed
from tests.support import instruction_bench
from tests.support.program_text import TEXT

SECONDS = 2.0
"""Limit of one program, native runs aside."""
_SMALL = 1 << 22
"""Elements that a native run may move, and bytes that its tensors may have."""
_ZONE = 1 << 12
"""Bytes before and behind each array of a native run, which must stay as they are."""
_NUMBERS = ("-1", "0", "1", "2", "3", "31", "33", "127", "128", "129", "255", "4095", "65535", "65537", "2147483647",
            "2147483648", "4294967296", "1099511627776", "9223372036854775807", "9223372036854775808",
            "99999999999999999999")  # fmt: skip
_PIECES = ("nan", "inf", "1e400", "(", ")", "[", "]", '"', "\\", "|", "x", " as int8", " as uint8", "\0", "٣", "\n",
           "#", "}", "{", "True", "None", " at 4*", " rows 1*", " elements 2*", ", ", "=")  # fmt: skip
_TOKEN = re.compile(r"\d+|[A-Za-z_]\w*")


def _loops(a: Any) -> Any:
    out = nl.ndarray((8, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    count = nisa.register_alloc(3)

    def body(i: Any) -> None:
        tile = nl.ndarray((8, 32), dtype=nl.float32)
        nisa.dma_copy(tile, a)
        nisa.tensor_scalar(tile, tile, nl.add, 1.0)
        nisa.dma_copy(out, tile)

    nl.fori_loop(0, 4, body)
    nl.fori_loop(0, count, body)
    return out


def _two_cores(a: Any) -> Any:
    out = nl.ndarray((2, 8, 32), dtype=nl.float32, buffer=nl.shared_hbm, name="out")
    core = nl.program_id(0)
    tile, other = nl.load(a), nl.ndarray((8, 32), dtype=nl.float32)
    nisa.tensor_scalar(tile, tile, nl.add, float(core))
    nisa.sendrecv(tile, other, 1 - core, 1 - core, 0)
    nisa.dma_copy(out[core], other)
    nisa.core_barrier(out, (0, 1))
    return out


def seeds() -> list[str]:
    """Texts of legal programs: every instruction, loops, two cores, schedules."""
    a = np.zeros((8, 32), np.float32)
    kernels = [nki.jit(_loops).compile(a).kernel, nki.jit(_two_cores)[2].compile(a).kernel]
    texts = [TEXT, *map(show, kernels)]
    draw = Draw(random.Random("mutated programs"), targets.GEN4)
    for cls in REGISTRY.values():
        trial = [instruction_bench.sample(cls, draw)] if instruction_bench.exists(cls, targets.GEN4) else []
        texts += [show(instruction_bench.program([inst], targets.GEN4).kernel) for inst in trial]
    for text in (TEXT, texts[1]):
        program = parse(text)
        texts.append(show(pipeline.compile(None, {}, targets.find(program.target), start=program)))
    # The version of the package would make the mutants others after each commit.
    texts = [re.sub(r' version="[^"]*"', ' version="1.0"', text) for text in texts]
    return [re.sub(r'  # ".*$', "", text, flags=re.MULTILINE) for text in texts]


def source_of(seed: str, number: int) -> random.Random:
    """The choices for one mutant."""
    return random.Random(f"{seed}/{number}")


def mutated(text: str, source: random.Random) -> str:
    """``text`` after one to three changes."""
    for _ in range(source.choice((1, 1, 1, 2, 3))):
        text = source.choice((_number, _number, _near, _near, _name, _name, _dtype, _line, _token, _piece))(
            text, source
        )
    return text


def _number(text: str, source: random.Random) -> str:
    return _replaced(text, source, re.compile(r"\d+"), _NUMBERS)


def _near(text: str, source: random.Random) -> str:
    """A number a little larger or smaller, or another number of the text."""
    match = source.choice(list(re.finditer(r"\d+", text)))
    number = int(match[0])
    choices = [number + 1, max(0, number - 1), 2 * number, number // 2, source.choice(re.findall(r"\d+", text))]
    return text[: match.start()] + str(source.choice(choices)) + text[match.end() :]


def _name(text: str, source: random.Random) -> str:
    """Another tensor of the text."""
    pattern = re.compile(r"[^\W\d][\w.]*(?=\[[-\d]+ \|)")
    return _replaced(text, source, pattern, pattern.findall(text) or ["t"])


def _dtype(text: str, source: random.Random) -> str:
    return _replaced(text, source, re.compile(rf"\b({'|'.join(BY_NAME)})\b"), list(BY_NAME))


def _token(text: str, source: random.Random) -> str:
    return _replaced(text, source, _TOKEN, [match[0] for match in _TOKEN.finditer(text)])


def _replaced(text: str, source: random.Random, pattern: re.Pattern[str], choices: Any) -> str:
    match = source.choice(list(pattern.finditer(text)) or [None])
    return text if match is None else text[: match.start()] + source.choice(choices) + text[match.end() :]


def _line(text: str, source: random.Random) -> str:
    lines = text.splitlines()
    at, other = source.randrange(len(lines)), source.randrange(len(lines))
    if source.random() < 0.3:
        del lines[at]
    elif source.random() < 0.5:
        lines.insert(at, lines[other])
    else:
        lines[at], lines[other] = lines[other], lines[at]
    return "\n".join(lines) + "\n"


def _piece(text: str, source: random.Random) -> str:
    at = source.randrange(len(text))
    return text[:at] + source.choice(_PIECES) + text[at + source.choice((0, 1, 2, 8)) :]


def sealed(text: str) -> bytes:
    """An artifact that holds ``text``, with the right digest."""
    data = text.encode(errors="replace")
    fields = msgpack.unpackb(artifact.dumps(parse(TEXT)))
    return msgpack.packb(fields | {"kernel": zlib.compress(data), "digest": hashlib.sha256(data).hexdigest()})


def damaged(data: bytes, source: random.Random) -> bytes:
    """An artifact with a few wrong bytes."""
    changed = bytearray(data)
    for _ in range(source.randint(1, 4)):
        changed[source.randrange(len(changed))] = source.randrange(256)
    return bytes(changed[: source.choice((len(changed), len(changed), source.randrange(len(changed))))])


def attempt(text: str, source: random.Random, run: bool) -> str:
    """Read, compile and perhaps run one mutant; the outcome in a word. Raises what is no error of ours."""
    try:
        if source.random() < 0.3:
            data = sealed(text)
            program = artifact.loads(damaged(data, source) if source.random() < 0.3 else data)
        else:
            program = parse(text, source.choice(("", "mutated.nki")))
        target = targets.find(program.target)
        stop = source.choice((pipeline.NATIVE_STOP, pipeline.NATIVE_STOP, None))
        program = pipeline.compile(None, {}, target, start=program, stop=stop)
        lowered = lower(program)
    except NkiError as error:
        return type(error).__name__
    for inst in lowered.instructions():
        for access in (*inst.accesses(), *inst.indexed_by()):
            assert is_inside(access), f"{inst!r} leaves '{access.name}'"
    if run and _is_small(lowered):
        _run(program, source)
        return "ran"
    return "accepted"


def is_inside(access: Access) -> bool:
    """True if every element of ``access`` lies in its tensor, run-time indices aside."""
    first = last = access.offset
    dims = list(zip(access.strides, access.shape, strict=True))
    if is_row_indexed(access):
        dims = dims[1:]
    for step, count in dims:
        first += min(0, step * (count - 1))
        last += max(0, step * (count - 1))
    size = access.dtype.itemsize
    return is_element_indexed(access) or (first >= 0 and (last + 1) * size <= access.tensor.nbytes)


def _is_small(program: Program) -> bool:
    if len(program.cores) > 1 or sum(t.nbytes for core in program.cores for t in core.tensors) > _SMALL:
        return False
    trips = 1
    for loop in loops(program.core.body):
        if not isinstance(loop, For) or not (isinstance(loop.start, int) and isinstance(loop.stop, int)):
            return False
        trips *= max(1, loop.stop - loop.start)
    work = sum(access.size for inst in instructions(program.core.body) for access in inst.accesses())
    return trips * work < _SMALL


def _run(program: Program, source: random.Random) -> None:
    """Run natively on random bytes between zones that nothing may write."""
    rng = np.random.default_rng(source.getrandbits(64))
    arrays: list[np.ndarray[Any, Any]] = []
    pointers: list[int] = []
    changed = program.signature.changed_inputs()
    for number, tensor in enumerate((*program.inputs, *program.outputs)):
        if number - len(program.inputs) in changed:
            pointers.append(pointers[changed[number - len(program.inputs)]])
            continue
        array = np.full(tensor.nbytes + 2 * _ZONE, 0xA5, np.uint8)
        values = source.choice((2, 256))  # indices that mostly lead somewhere, or any bytes
        array[_ZONE:-_ZONE] = rng.integers(0, values, tensor.nbytes)
        arrays.append(array)
        pointers.append(array.ctypes.data + _ZONE)
    with contextlib.suppress(NkiError):  # an index out of bounds
        Executable(program).launch(pointers)
    for array in arrays:
        assert (array[:_ZONE] == 0xA5).all() and (array[-_ZONE:] == 0xA5).all(), "a run left its arrays"


def trials(count: int, seed: str, texts: list[str], runs: float) -> Iterator[tuple[str, str, float]]:
    """Text, outcome and seconds of each mutant; the outcome of a failure begins with ``FAILED``."""
    for number in range(count):
        source = source_of(seed, number)
        text = mutated(source.choice(texts), source)
        run = source.random() < runs
        started = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                outcome = attempt(text, source, run)
            except Exception:
                outcome = f"FAILED {seed}/{number}: {traceback.format_exc(limit=-4)}"
        seconds = time.perf_counter() - started
        if seconds > SECONDS and outcome != "ran":
            outcome = f"FAILED {seed}/{number}: {outcome} after {seconds:.1f} s"
        yield text, outcome, seconds


def main(count: int, seed: str) -> int:
    """Try ``count`` mutants, and print how they ended."""
    warnings.simplefilter("ignore")
    outcomes: Counter[str] = Counter()
    slowest, log, texts = 0.0, Path(f"mutated-{seed}.txt"), seeds()
    for text, outcome, seconds in trials(count, seed, texts, 0.05):
        failed = outcome.startswith("FAILED")
        outcomes["FAILED" if failed else outcome] += 1
        slowest = max(slowest, 0.0 if outcome == "ran" else seconds)
        if failed:
            print(outcome, text if len(text) < 3000 else "", sep="\n", flush=True)
        if sum(outcomes.values()) % 1000 == 0:
            log.write_text(f"{dict(outcomes)} slowest {slowest:.2f} s\n")
    print(dict(outcomes), f"slowest {slowest:.2f} s")
    return outcomes["FAILED"]


if __name__ == "__main__":
    sys.exit(bool(main(int(sys.argv[1]), sys.argv[2])))
