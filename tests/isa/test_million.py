"""The runner of a million instances counts truly, finds a planted fault, repeats it, and goes on where it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nki.compilation.executable import Executable
from nki.ir.text.printer import show_inst
from tests.support import instruction_bench
from tests.support.instruction_bench import Bench

from . import million
from .oracle import memset, reciprocal

Array = np.ndarray[Any, Any]


def first(mnemonic: str) -> int:
    """The first batch of an instruction."""
    return next(n for n, (name, _) in enumerate(million.KINDS) if name == mnemonic)


def alone(number: int) -> list[Bench]:
    """The instructions of a batch one by one."""
    bench = instruction_bench.program(million.drawn(number), million.KINDS[number][1], by_bytes=True)
    return list(million.benches(bench))


MEMSET = first("memset")


def values(number: int) -> list[float]:
    """The constants of a batch of ``memset``."""
    return [inst.value for inst in million.drawn(number)]  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(million, "BATCH", 4)


def test_every_instruction_with_an_oracle_takes_its_turn() -> None:
    assert {mnemonic for mnemonic, _ in million.KINDS} == set(instruction_bench.WRITING)
    assert set(million.DEAR) <= {mnemonic for mnemonic, _ in million.KINDS}


def test_one_round_of_each_kind_copies_tiles_as_their_dtypes() -> None:
    kinds = len(million.KINDS)
    for kind in range(kinds):
        assert sum(million.is_typed(turn * kinds + kind) for turn in range(million.TYPED)) == 1
    assert {million.is_typed(kind) for kind in range(kinds)} == {False, True}


def test_instructions_depend_on_the_seed_and_the_batch_alone() -> None:
    def shown(number: int) -> list[str]:
        return [show_inst(inst) for inst in million.drawn(number)]

    once, again, later = shown(MEMSET), shown(MEMSET), shown(MEMSET + len(million.KINDS))
    assert once == again
    assert once != later
    assert len(set(once)) == len(once) == million.BATCH


@pytest.mark.parametrize("typed", [False, True])
def test_a_planted_fault_is_found_and_repeated_alone(monkeypatch: pytest.MonkeyPatch, typed: bool) -> None:
    turns = range(MEMSET, 10 * million.TYPED * len(million.KINDS), len(million.KINDS))
    number = next(n for n in turns if million.is_typed(n) == typed and len(set(values(n))) == million.BATCH)
    assert million.run(number).reports == ()
    right = memset.oracle
    last = values(number)[-1]

    def wrong(dst: Array, *, value: float, **more: Any) -> Array:
        result = right(dst, value=value, **more)
        return np.where(result == 0, 1, 0).astype(result.dtype) if value == last else result

    monkeypatch.setattr(memset, "oracle", wrong)
    (report,) = million.run(number).reports
    assert f"--only {number}:3:0: reference and oracle: " in report
    again, kernel = million.run(number, 3).reports
    assert again.partition(": ")[0] == report.partition(": ")[0]
    assert kernel.startswith("kernel ")
    assert million.run(number, 0).reports == ()


def test_a_fault_with_some_contents_is_found_and_repeated_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    number = first("reciprocal")
    right, bench = reciprocal.oracle, alone(number)[2]
    data = bench.trials[0].data  # type: ignore[attr-defined]
    culprits = [bench.at(arrays, data).tobytes() for arrays in million.contents(bench, number, 2)][5:8]

    def wrong(dst: Array, *, data: Array, **more: Any) -> Array:
        result = right(dst, data=data, **more)
        return np.where(result == 7, 8, 7).astype(result.dtype) if data.tobytes() in culprits else result

    monkeypatch.setattr(reciprocal, "oracle", wrong)
    (report,) = million.run(number).reports
    assert f"--only {number}:2:5: reference and oracle: " in report
    assert report.endswith("; and with 2 of its other contents")
    again, _ = million.run(number, 2, 5).reports
    assert again == report.removesuffix("; and with 2 of its other contents")
    assert million.run(number, 2, 4).reports == ()


def test_native_code_is_compared_with_each_of_the_contents(monkeypatch: pytest.MonkeyPatch) -> None:
    number, right, launches = first("tensor_copy"), instruction_bench.launch, []

    def wrong(executable: Executable, inputs: list[Array]) -> list[Array]:
        outputs = right(executable, inputs)
        launches.append(inputs)
        if len(launches) == million.CONTENTS:
            outputs[0].view(np.uint8).flat[0] ^= 1
        return outputs

    monkeypatch.setattr(instruction_bench, "launch", wrong)
    (report,) = million.run(number).reports
    assert len(launches) == million.CONTENTS
    assert f"--only {number}:0:{million.CONTENTS - 1}: native and reference: " in report


@pytest.mark.parametrize(("mnemonic", "each"), [("tensor_tensor", million.CONTENTS), ("psum_zero", 1), ("memset", 1)])
def test_an_instance_is_an_instruction_with_other_bytes_to_read(mnemonic: str, each: int) -> None:
    number = first(mnemonic)
    result = million.run(number)
    assert (result.count, result.instances) == (4, 4 * each)
    for n, one in enumerate(alone(number)):
        read = [million.read_by(one, arrays) for arrays in million.contents(one, number, n)]
        assert len(set(read)) == len(read) == each


def test_an_instruction_without_further_contents_is_not_counted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    number, right = first("tensor_tensor"), million.read_by
    poor = show_inst(million.drawn(number)[1])

    def parity(one: Bench, arrays: list[Array]) -> bytes:
        read = right(one, arrays)
        return bytes([sum(read) % 2]) if show_inst(one.trials[0]) == poor else read

    monkeypatch.setattr(million, "read_by", parity)
    assert million.run(number).instances == 3 * million.CONTENTS + 2


def test_contents_hold_the_hard_values() -> None:
    """In float32 inputs of one kind: payloads of NaN, both infinities and zeros, subnormals, the largest numbers."""
    number = first("tensor_tensor")
    words: list[Array] = []
    for turn in range(20):
        batch = number + turn * len(million.KINDS)
        bench = instruction_bench.program(million.drawn(batch), million.KINDS[number][1], by_bytes=True)
        for n, one in enumerate(million.benches(bench)):
            for access in (a for a in one.trials[0].reads() if a.dtype.name == "float32"):
                words += [one.at(a, access).view(np.uint32).ravel() for a in million.contents(one, batch, n)]
    every = np.unique(np.concatenate(words))
    assert {0, 0x80000000, 0x7F800000, 0xFF800000} <= set(every.tolist())
    size = every & 0x7FFFFFFF
    assert len(every[size > 0x7F800000]) > 2
    assert ((size > 0) & (size < 0x00800000)).any()
    assert ((size >= 0x7F000000) & (size < 0x7F800000)).any()


def test_contents_do_not_depend_on_the_neighbours() -> None:
    number = first("tensor_tensor")
    for n, one in enumerate(alone(number)):
        single = instruction_bench.program([million.drawn(number)[n]], million.KINDS[number][1])
        for here, there in zip(million.contents(one, number, n), million.contents(single, number, n), strict=True):
            assert all(x.tobytes() == y.tobytes() for x, y in zip(here, there, strict=True))


def test_processes_run_whole_batches_of_the_same_seed() -> None:
    number = first("register_load")
    (result,) = million.results([number], 1)
    # The process has the size of a real batch, not this module's.
    assert (result.seed, result.number, result.count, result.reports) == (million.SEED, number, 50, ())
    assert result.instances == 50 * million.CONTENTS
    assert result.seconds > 0


def test_a_run_counts_and_goes_on_where_it_was(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[int] = []

    def fake(number: int) -> million.Result:
        ran.append(number)
        return million.Result(million.SEED, number, 4, 40, 0.5, ("batch 2 is wrong",) * (number == 2))

    monkeypatch.setattr(million, "results", lambda numbers, jobs: map(fake, numbers))
    path = tmp_path / "journal"
    arguments = ["--jobs", "1", "--journal", str(path), "--count"]
    assert million.main([*arguments, "80"]) == 0
    assert ran == [0, 1]
    other = {"seed": "another", "number": 2, "count": 4, "instances": 40, "seconds": 1, "reports": []}
    path.write_text(path.read_text() + json.dumps(other) + "\n")
    assert million.main([*arguments, "161"]) == 1
    assert ran == [0, 1, 2, 3, 4]  # each once
    told = capsys.readouterr().out
    assert "batch 2 is wrong" in told
    kinds = f"5 of {len(million.KINDS)} kinds with 4 to 4 and 40 to 40 of each"
    assert f"20 instructions, 200 instances, {kinds}, 2 s of processors, 1 batches with disagreements" in told
    assert million.main([*arguments, "161"]) == 1  # it stays wrong until it is run again
    assert ran == [0, 1, 2, 3, 4]


def test_parts_share_the_batches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ran: list[int] = []

    def fake(number: int) -> million.Result:
        ran.append(number)
        return million.Result(million.SEED, number, 4, 40, 0.5, ())

    monkeypatch.setattr(million, "results", lambda numbers, jobs: map(fake, numbers))
    for part in range(3):  # even into one journal
        assert million.main(["--count", "240", "--part", f"{part}/3", "--journal", str(tmp_path / "journal")]) == 0
    assert ran == [0, 3, 1, 4, 2, 5]
