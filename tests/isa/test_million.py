"""The runner of a million instructions counts truly, finds a planted fault, repeats it, and goes on where it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nki.ir.text.printer import show_inst
from tests.support import instruction_bench

from . import million
from .oracle import memset

MEMSET = next(n for n, (mnemonic, _) in enumerate(million.KINDS) if mnemonic == "memset")


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(million, "BATCH", 4)


def test_every_instruction_with_an_oracle_takes_its_turn() -> None:
    assert {mnemonic for mnemonic, _ in million.KINDS} == set(instruction_bench.WRITING)
    assert set(million.DEAR) <= {mnemonic for mnemonic, _ in million.KINDS}


@pytest.mark.parametrize("parts", [1, 3])
def test_parts_are_the_whole_without_overlap(parts: int) -> None:
    numbers = [n for part in range(parts) for n in million.batches(5000, part, parts)]
    assert sorted(numbers) == list(range(len(numbers)))
    assert 5000 <= sum(map(million.size, numbers)) < 5000 + million.BATCH


def test_instructions_depend_on_the_seed_and_the_batch_alone() -> None:
    def shown(number: int) -> list[str]:
        return [show_inst(inst) for inst in million.drawn(number)]

    first, again, later = shown(MEMSET), shown(MEMSET), shown(MEMSET + len(million.KINDS))
    assert first == again
    assert first != later
    assert len(set(first)) == len(first) == million.BATCH


@pytest.mark.parametrize("round_", [0, million.TYPED - 1])
def test_a_planted_fault_is_found_and_repeated_alone(monkeypatch: pytest.MonkeyPatch, round_: int) -> None:
    number = MEMSET + round_ * len(million.KINDS)
    assert million.run(number).reports == ()
    right = memset.oracle
    last = million.drawn(number)[-1].value  # type: ignore[attr-defined]

    def wrong(dst: np.ndarray[Any, Any], *, value: float, **more: Any) -> np.ndarray[Any, Any]:
        return right(dst, value=1.0 if value == last else value, **more)

    monkeypatch.setattr(memset, "oracle", wrong)
    (report,) = million.run(number).reports
    assert f"--only {number}:3: reference and oracle: " in report
    alone, kernel = million.run(number, 3).reports
    assert alone.partition(": ")[0] == report.partition(": ")[0]
    assert kernel.startswith("kernel ")
    assert million.run(number, 0).reports == ()


def test_contents_do_not_depend_on_the_neighbours() -> None:
    number = next(n for n, (mnemonic, _) in enumerate(million.KINDS) if mnemonic == "tensor_tensor")
    bench = instruction_bench.program(million.drawn(number), million.KINDS[number][1], by_bytes=True)
    for n, one in enumerate(million.benches(bench)):
        alone = instruction_bench.program([million.drawn(number)[n]], million.KINDS[number][1])
        pairs = zip(million.contents(one, number, n), million.contents(alone, number, n), strict=True)
        assert all(x.tobytes() == y.tobytes() for x, y in pairs)


def test_processes_run_whole_batches_of_the_same_seed() -> None:
    number = next(n for n, (mnemonic, _) in enumerate(million.KINDS) if mnemonic == "register_move")
    (result,) = million.results([number], 1)
    # The process has the size of a real batch, not this module's.
    assert (result.seed, result.number, result.count, result.reports) == (million.SEED, number, 200, ())
    assert result.seconds > 0


def test_a_run_counts_and_goes_on_where_it_was(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[int] = []

    def fake(number: int) -> million.Result:
        ran.append(number)
        return million.Result(million.SEED, number, million.size(number), 0.1, ("batch 2 is wrong",) * (number == 2))

    monkeypatch.setattr(million, "results", lambda numbers, jobs: map(fake, numbers))
    path = tmp_path / "journal"
    arguments = ["--jobs", "1", "--journal", str(path), "--count"]
    assert million.main([*arguments, "8"]) == 0
    assert ran == million.batches(8)
    path.write_text(
        path.read_text() + json.dumps({"seed": "another", "number": 2, "count": 4, "seconds": 1, "reports": []}) + "\n"
    )
    assert million.main([*arguments, "20"]) == 1
    assert ran == million.batches(20)  # each once
    told = capsys.readouterr().out
    assert "batch 2 is wrong" in told
    assert f"{sum(map(million.size, ran))} instructions, 1 batches with disagreements" in told
    assert million.main([*arguments, "20"]) == 1  # it stays wrong until it is run again
    assert ran == million.batches(20)
