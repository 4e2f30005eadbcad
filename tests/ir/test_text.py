"""The text form: it says the whole kernel, and whatever else is written gives a TextError that names the line."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import random
import time
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki.base.errors import NkiError, TextError
from nki.ir.program import Program
from nki.ir.text import parser, printer
from tests.support.program_text import KERNEL, TEXT, accept, edited

LINES = TEXT.splitlines()


def test_text_and_kernel_are_one() -> None:
    read = parser.parse(TEXT)
    assert read == KERNEL
    assert printer.show(read) == TEXT
    assert printer.show(KERNEL) == TEXT


def test_positions_in_the_source_survive() -> None:
    got = [i.where.span for i in parser.parse(TEXT).core.body]
    want = [i.where.span for i in KERNEL.core.body]
    assert [(s.file, s.line) for s in got if s] == [(s.file, s.line) for s in want if s]
    assert len(got) == len(want) and None not in got


def test_comments_and_empty_lines_change_nothing() -> None:
    airy = "# before\n\n" + "\n\n  # between\n".join(LINES) + "\n\n# after\n"
    assert parser.parse(airy) == KERNEL


@pytest.mark.parametrize(
    ("old", "new", "line", "why"),
    [
        ('kernel "everything"', "kernel everything", 1, "expected kernel"),
        ("target=trn3", "target=", 1, "expected kernel"),
        ("grid=()", "grid=(a)", 1, "expected kernel"),
        ("grid=()", "grid=(1", 1, "expected kernel"),
        ("input a : hbm", "input a : vram", 2, "not a tensor declaration"),
        ("float32[64,32]", "float64[64,32]", 2, "not a tensor declaration"),
        ("float32[64,32]", "float32[64,-32]", 2, "not a tensor declaration"),
        ("float32[64,32]", "float32[64,3.5]", 2, "not a tensor declaration"),
        ("float32[64,32]", f"float32[{'9' * 5000}]", 2, "too many digits"),
        ("at=(0, 4096)", "at=(0)", 7, "not a tensor declaration"),
        ("input b :", "input a :", 3, "tensor a is declared twice"),
        ("dma_copy dst=left", "dma_copied dst=left", 13, "unknown instruction"),
        ("dma_copy dst=left", "123 dst=left", 13, "unknown instruction"),
        ("dma_copy dst=left", "dma_copy dest=left", 13, "unknown argument of dma_copy"),
        ("dma_copy dst=left", "dma_copy dst left", 13, "unknown argument of dma_copy"),
        ("dma_copy dst=left[0 | 32x64, 1x32] src=", "dma_copy src=", 13, "missing 1 required"),
        ("src=a[0 | 32x64, 1x32]", "src=a[0 | 32x64, 1x32] src=a[0 | 32x64, 1x32]", 13, "src is given twice"),
        ("src=a[", "src=z[", 13, "unknown tensor z"),
        ("src=a[0 |", "src=a[0 :", 13, "unknown word a"),
        ("src=a[0 |", "src=a[x |", 13, "unknown word a"),
        ("src=a[0 | 32x64, 1x32]", "src=a[0 | 32x64, 1]", 13, "an operand reads"),
        ("src=a[0 | 32x64, 1x32]", "src=a[0 | 32x64x2, 1x32]", 13, "an operand reads"),
        ("src=a[0 | 32x64, 1x32]", "src=a[0 | 32x-64, 1x32]", 13, "an operand reads"),
        ("src=a[0 | 32x64, 1x32]", f"src=a[0 | {'9' * 30}x64, 1x32]", 13, "too many digits"),
        ("src=a[0 | 32x64, 1x32]", f"src=a[0 | {2**63}x64, 1x32]", 13, "more than 64 bits"),
        ("src=a[0 | 32x64, 1x32]", "src=a[0 | 32x64, 1x32 as float31]", 13, "unknown dtype float31"),
        ("offset=-5", f"offset={-(2**63) - 1}", 20, "more than 64 bits"),
        ("src=a[0 | 32x64, 1x32]", "src=", 13, "cannot read the value"),
        ("tile_position=(0, 0)", "tile_position=(0, 0", 15, "expected , or )"),
        ("tile_position=(0, 0)", "tile_position=" + "(" * 50000, 15, "cannot read the value"),
        ("scale=0.1", "scale=0.1.2", 17, "cannot read the value"),
        ("scale=0.1", "scale=1e999999", 17, ""),
        ("op=exp", "op=expo", 17, "unknown word expo"),
        ("reduce_cmd=reset_reduce", "reduce_cmd=add", 17, "unknown word add"),
        ('name="with', 'name="\\x', 16, "cannot read a quoted string"),
        ("return (out, other)", "return (out, another)", 24, "unknown tensor another"),
        ("return (out, other)", "return (out other)", 24, "expected return"),
        ("return (out, other)", "return out, other", 24, "expected return"),
        ("return (out, other)\n}", "return (out, other)\n", 26, "the kernel is not closed"),
        ("return (out, other)\n}", "return (out, other)\n}}", 25, "expected } after return"),
        ("return (out, other)\n}", "return (out, other)\n}\nmore", 26, "or the end of the text"),
        ("return (out, other)\n}", "}", 24, "unknown instruction"),
    ],
)
def test_every_mistake_names_its_line(old: str, new: str, line: int, why: str) -> None:
    if not why:  # readable: a number that rounds to infinity is one
        assert isinstance(edited(old, new), Program)
        return
    with pytest.raises(TextError, match=rf"line {line}: ") as caught:
        edited(old, new)
    assert why in caught.value.message


@pytest.mark.parametrize("length", range(0, len(TEXT), 41))
def test_truncated_text(length: int) -> None:
    with pytest.raises(TextError, match=r"line \d+: "):
        parser.parse(TEXT[:length])


@pytest.mark.parametrize("line", range(len(LINES)))
def test_a_line_less(line: int) -> None:
    """Without any one line the text cannot be read, or what it says is refused or is a smaller kernel."""
    shorter = "\n".join(LINES[:line] + LINES[line + 1 :])
    with contextlib.suppress(NkiError):
        accept(parser.parse(shorter))
        assert LINES[line].split()[0] in ("memset", "iota", "affine_select", "tensor_scalar", "activation", "nc_matmul",
                                          "dma_copy", "tensor_copy")  # fmt: skip


PIECES = sorted({piece for line in LINES for piece in line.replace("=", " = ").replace(",", " , ").split()})
INSERTS = st.one_of(
    st.sampled_from(PIECES),
    st.sampled_from(
        ["-1", "0", "1e400", "nan", "(", ")", "[", "]", '"', "\\", "|", "x", " as int8", "\0", "٣", "\n", "#"]
    ),
    st.text(max_size=3),
    st.integers(-(2**70), 2**70).map(str),
)


def mutated(source: random.Random, insert: str) -> str:
    """TEXT after a few random cuts, exchanges and insertions."""
    result = TEXT
    for _ in range(source.randint(1, 3)):
        at, end = sorted((source.randrange(len(result)), source.randrange(len(result))))
        end = min(end, at + source.choice((0, 1, 2, 8)))
        result = result[:at] + source.choice((insert, "", result[at:end][::-1])) + result[end:]
    return result


@given(st.randoms(use_true_random=False), INSERTS)
def test_mutated_text_gives_a_kernel_or_an_error_of_ours(source: random.Random, insert: str) -> None:
    with contextlib.suppress(NkiError):
        accept(parser.parse(mutated(source, insert)))


@given(st.text(max_size=200))
def test_any_text_gives_an_error_of_ours(anything: str) -> None:
    with pytest.raises(TextError):
        parser.parse(anything)


@pytest.mark.parametrize("written", ["1" * 100_000 + "x", "1." + "1" * 100_000 + "x", "1e" + "1" * 100_000 + "x"])
def test_a_long_number_that_is_none_is_refused_at_once(written: str) -> None:
    started = time.perf_counter()
    with pytest.raises(TextError, match="cannot read the value"):
        edited("scale=0.1", f"scale={written}")
    assert time.perf_counter() - started < 2


def test_all_constants_together_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parser, "MOST_DATA", 1 << 20)
    data = bytes(600_000)
    packed = base64.b64encode(zlib.compress(data, 9)).decode()
    line = f"shared_hbm uint8[{len(data)}] sha256={hashlib.sha256(data).hexdigest()} data={packed}"
    one = f"constant k0 : {line}\n  input a :"
    edited("input a :", one)
    with pytest.raises(TextError, match="line 3: the constants have more than 1048576 bytes"):
        edited("input a :", f"constant k1 : {line}\n  {one}")
