"""Thread pools: who helps, what ends a launch that they help, and what they cost when there is nothing to do."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest

from nki.backend.cpu.native import library
from nki.backend.cpu.runtime import resources
from nki.backend.cpu.runtime.resources import RUNTIME
from nki.base.errors import OutOfBoundsError
from tests.backend.thread_teams import (
    Launch,
    X,
    assert_ends_well,
    chain,
    launch,
    lent,
    linked,
    pooled,
    rows_from,
    shared,
    shares,
    team_launch,
    times,
)
from tests.support.shared_launches import at_once
from tests.support.signals import interrupted

__all__ = ["lent", "pooled", "shared", "team_launch"]
pytestmark = pytest.mark.skipif(not library.has_threads(), reason="one thread on this platform")


def test_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NKI_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(resources, "torch_threads", lambda: 0)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert resources.number_of_threads() == min(cores or 1, resources.MOST_THREADS)
    monkeypatch.setattr(resources, "torch_threads", lambda: 3)
    assert resources.number_of_threads() == 3
    monkeypatch.setenv("OMP_NUM_THREADS", "5,2")
    assert resources.number_of_threads() == 3
    monkeypatch.setattr(resources, "torch_threads", lambda: 8)
    assert resources.number_of_threads() == 5
    monkeypatch.setenv("NKI_NUM_THREADS", "2")
    assert resources.number_of_threads() == 2
    for unusable in ("0", "many", "-1"):
        monkeypatch.setenv("NKI_NUM_THREADS", unusable)
        assert resources.number_of_threads() == 5
    monkeypatch.setenv("NKI_NUM_THREADS", "1000")
    assert resources.number_of_threads() == resources.MOST_THREADS


def test_pytorch_tells_its_threads() -> None:
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        assert resources.torch_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_small_kernels_ask_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NKI_NUM_THREADS", "2")
    monkeypatch.setattr(RUNTIME, "pool", lambda size: pytest.fail("a pool was asked for"))
    np.testing.assert_array_equal(launch(linked(chain, X, times(3)), X, times(3)), 8 * X)


def test_workers_work(team_launch: Launch) -> None:
    executable = linked(chain, X, times(1))
    np.testing.assert_array_equal(team_launch(executable, X, times(3)), 8 * X)
    assert shares(executable, team_launch)


def test_an_interrupt_ends_a_launch_and_frees_the_threads(team_launch: Launch) -> None:
    executable = linked(chain, X, times(1))
    team_launch(executable, X, times(0))
    for _ in range(3):
        interrupted(lambda: team_launch(executable, X, times(1 << 30)), 0.1)
        np.testing.assert_array_equal(team_launch(executable, X, times(2)), 4 * X)
    assert shares(executable, team_launch), "the threads help no more"


def test_a_wrong_index_is_the_same_error(team_launch: Launch) -> None:
    executable = linked(rows_from, X, times(0))
    np.testing.assert_array_equal(team_launch(executable, X, times(64)), 2 * X[64:])
    for _ in range(20):
        with pytest.raises(OutOfBoundsError, match="65"):
            team_launch(executable, X, times(65))
        np.testing.assert_array_equal(team_launch(executable, X, times(3)), 2 * X[3:67])


def test_several_python_threads_launch_at_once(team_launch: Launch) -> None:
    executable = linked(chain, X, times(1))
    wrong: list[int] = []

    def work(number: int) -> None:
        mine = X + number
        wrong.extend(
            n for n in range(100) if (team_launch(executable, mine, times(n % 9)) != mine * 2 ** (n % 9)).any()
        )

    at_once(work)
    assert not wrong


@pytest.mark.parametrize("threads", [1, 3])
def test_other_numbers_of_threads(threads: int, shared: pytest.MonkeyPatch) -> None:
    shared.setenv("NKI_NUM_THREADS", str(threads))
    with pytest.raises(OutOfBoundsError, match="65"):
        launch(linked(rows_from, X, times(0)), X, times(65))
    np.testing.assert_array_equal(launch(linked(chain, X, times(1)), X, times(5)), 32 * X)


def test_idle_workers_cost_nothing(shared: pytest.MonkeyPatch) -> None:
    shared.setenv("NKI_NUM_THREADS", "3")
    launch(linked(chain, X, times(1)), X, times(10))
    time.sleep(0.05)
    before = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - before < 0.05


SCRIPT = r"""
assert (launch(executable, X, times(3)) == 8 * X).all()
if sys.argv[1] == "fork":
    stop = threading.Event()
    def work():
        while not stop.is_set():
            assert (launch(executable, X, times(50)) == launch(executable, X, times(50))).all()
    threads = [threading.Thread(target=work) for _ in range(2)]
    for t in threads: t.start()
    for _ in range(20):
        child = os.fork()
        if child == 0:
            for count in range(5):
                if not (launch(executable, X, times(count)) == X * 2**count).all():
                    os._exit(3)
            sys.stdout.flush()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    stop.set()
    for t in threads: t.join()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.parametrize("what", ["fork", "end"])
def test_processes_that_fork_or_end(what: str, tmp_path: Path) -> None:
    for _ in range(1 if what == "fork" else 3):
        assert_ends_well(SCRIPT, what, tmp_path, NKI_NUM_THREADS="3")
