"""Ranks that are processes: their bits are the ones of ranks in one process, and no mistake leaves a rank waiting."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import nki
from tests.collectives import rank_programs
from tests.collectives.rank_kernels import Groups, argument, sum_of_all
from tests.support.fresh_process import ROOT, finished
from tests.support.rank_processes import run


def summed(count: int) -> bytes:
    """The sum of the arguments of ``count`` ranks."""
    with nki.ranks(count):
        return rank_programs.bits(sum_of_all([argument(r) for r in range(count)], (tuple(range(count)),))[:1])[0]


def test_every_collective_has_the_bits_of_ranks_in_one_process(tmp_path: Path) -> None:
    of_groups: list[Groups] = [((0, 1),), ((1,), (0,)), ((2, 0, 1),), ((0, 1, 2, 3),), ((2, 0), (3, 1))]
    ended = [each.get() for each in run(rank_programs.everything, 4, tmp_path, of_groups, tmp_path)]
    for number, groups in enumerate(of_groups):
        expected = rank_programs.in_one_process(groups)
        assert [each[number] for each in ended] == [*((bits, bits) for bits in expected), *[None] * (4 - len(expected))]


@pytest.mark.parametrize("victim", [0, 2])
def test_a_rank_that_is_killed(victim: int, tmp_path: Path) -> None:
    ended = run(rank_programs.killed, 3, tmp_path, victim)
    assert ended[victim].error is None and ended[victim].value is None
    for rank in {0, 1, 2} - {victim}:
        assert ended[rank].error == "LostRankError", ended[rank].text
        assert f"the process of rank {victim} has ended" in ended[rank].text
        assert f"rank {rank} waits at all_reduce([0, 1, 2]), line " in ended[rank].text
        assert "ncc.all_reduce([src], [total]" in ended[rank].text


def test_a_rank_that_raises(tmp_path: Path) -> None:
    ended = run(rank_programs.raising, 3, tmp_path)
    assert ended[2].error == "ValueError"
    for rank in (0, 1):
        assert ended[rank].error == "LostRankError"
        assert "the process of rank 2 has ended" in ended[rank].text


def test_a_rank_that_never_comes(tmp_path: Path) -> None:
    ended = run(rank_programs.late, 3, tmp_path, tmp_path)
    for rank in (0, 1):
        error, second, seconds = ended[rank].get()
        assert "[NKI-CC004]" in error and "rank 2 has not come within 1 s" in error
        assert "rank 1 has not" not in error and "rank 0 has not" not in error
        assert "it has lost the others before" in second and seconds < 1
    assert ended[2].error == "LostRankError"


def test_a_rank_tells_for_whom_it_has_waited(tmp_path: Path) -> None:
    ended = run(rank_programs.chain, 4, tmp_path)
    assert "rank 2 has not come within 1 s" in ended[1].text
    assert "rank 1 has not come" in ended[0].text or "rank 2 has not come" in ended[0].text


def test_ranks_that_do_not_belong_together(tmp_path: Path) -> None:
    said = {
        "op": ("op add", "op minimum"),
        "shape": ("(12, 5) float32", "(12, 4) float32"),
        "dtype": ("(12, 5) float32", "(12, 5) float16"),
    }
    for rank, each in enumerate(run(rank_programs.mistakes, 3, tmp_path, list(said))):
        for (name, text, after), parts in zip(each.get(), said.values(), strict=True):
            assert name == "RankMismatchError", text
            assert "rank 2" in text and ("rank 0" in text or rank == 1)
            assert all(part in text for part in parts) and text.count(", line ") == 2, text
            assert after == [summed(3)]


@pytest.mark.parametrize(
    ("kind", "said"),
    [("order", ["group [0, 1]", "group [1, 0]", "rank 0", "rank 1"]), ("release", ["runs Open NKI", "9.9"])],
)
def test_ranks_that_cannot_go_on_together(kind: str, said: list[str], tmp_path: Path) -> None:
    for each in run(rank_programs.other_kernels, 2, tmp_path, kind):
        name, text = each.get()
        assert name == "RankMismatchError" and all(part in text for part in said), text


def test_groups_of_other_sizes(tmp_path: Path) -> None:
    ended = run(rank_programs.other_groups, 4, tmp_path, timeout=3.0)
    for each in ended[:2]:
        assert each.error == "RankMismatchError"
        assert "group [0, 1]" in each.text and "group [0, 1, 2, 3]" in each.text
    for each in ended[2:]:
        assert each.error == "LostRankError" and "group [0, 1]" in each.text  # as rank 0 has told


def test_more_ranks_than_processes(tmp_path: Path) -> None:
    for each in run(rank_programs.too_many, 2, tmp_path):
        assert each.error == "ArgumentError"
        assert "name rank 2; 2 ranks run" in each.text
    (alone,) = run(rank_programs.too_many, 1, tmp_path)
    assert alone.error == "SeveralRanksError"


def test_ranks_of_one_process_beside_processes(tmp_path: Path) -> None:
    for each in run(rank_programs.beside, 2, tmp_path):
        each.get()


def test_a_process_group_after_another_one(tmp_path: Path) -> None:
    ended = [each.get() for each in run(rank_programs.again, 3, tmp_path, str(tmp_path / "second"))]
    with nki.ranks(2):
        swapped = rank_programs.bits(sum_of_all([argument(1), argument(0)], ((0, 1),))[:1])[0]
    assert ended == [[summed(3), swapped], [summed(3), swapped], [summed(3)]]


def test_torchrun_starts_a_lost_rank_again(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=1"]
    command += ["-m", "tests.collectives.rank_programs", str(tmp_path)]
    # With the store of torchrun itself, ranks may find addresses of the first attempt (PyTorch's issue 135712).
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert sorted(file.name for file in tmp_path.iterdir()) == ["attempt1rank0", "attempt1rank1"]
    assert {file.read_bytes() for file in tmp_path.iterdir()} == {summed(2)}


def test_a_timeout_that_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NKI_RANK_TIMEOUT", "soon")
    for each in run(rank_programs.killed, 2, tmp_path, 1):
        assert each.error == "RankArgumentError" and "NKI_RANK_TIMEOUT=soon is no number" in each.text


def test_kernels_without_collectives_need_no_bridge() -> None:
    finished(
        "import sys, torch.distributed as dist, numpy as np, tempfile\n"
        "from tests.frameworks.kernels import add\n"
        "store = f'file://{tempfile.mkdtemp()}/store'\n"
        "dist.init_process_group('gloo', init_method=store, rank=0, world_size=1)\n"
        "a = np.ones((4, 4), np.float32)\n"
        "assert (add(a, a) == 2).all() and 'nki.frameworks.torch_ranks' not in sys.modules\n"
    )
