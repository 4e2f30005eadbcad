"""Work spread over an executor: processes of this machine, or any of ``concurrent.futures``.

A worker that dies takes with it what others had in flight, and nothing says which job did it. So all of that runs
again, one job at a time: the one that kills its worker again is the one.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    wait,
)
from dataclasses import dataclass
from typing import Any, Final, Self

from nki.base.sweep_errors import ExecutorError, LostWorkerError
from nki.sweeps.jobs import Job, prepare_worker
from nki.sweeps.record import Outcome, failed, outcome

_IN_FLIGHT: Final = 2
"""Jobs that wait at each worker, so that none stands idle."""
_UNKNOWN: Final = 32
"""Jobs in flight in an executor that does not tell the number of its workers."""

_THREADS: Final = ("NKI_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

Call = tuple[Callable[..., list[Outcome]], Any]
"""A function that workers import, and its argument."""
Result = tuple[Job, list[Outcome]]


def processors() -> int:
    """Processors that this process may use."""
    count = getattr(os, "process_cpu_count", None) or (lambda: len(os.sched_getaffinity(0)))
    return int(count() or 1)


@contextlib.contextmanager
def _one_thread() -> Generator[None]:
    """Context manager: processes that start now run kernels and libraries on one thread, if the user names no number.

    Else two workers on two processors have four threads, which wait for each other.
    """
    fresh = [name for name in _THREADS if name not in os.environ]
    os.environ.update(dict.fromkeys(fresh, "1"))
    try:
        yield
    finally:
        for name in fresh:
            os.environ.pop(name, None)


class Workers:
    """Context manager: an ``executor`` of the user, who ends it; or ``processes`` of its own, renewed when one dies."""

    def __init__(self, executor: Executor | None = None, processes: int | None = None, alone: bool = False) -> None:
        self.alone = alone
        """The only process may use every processor: its native times are to count."""
        self.count = 1 if alone else processes or processors()
        self._is_own = executor is None
        self._executor = executor

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_own and self._executor is not None:
            self._executor.shutdown(cancel_futures=True)
            self._executor = None

    @property
    def have_source(self) -> bool:
        """True if the workers are processes of this machine that were started here, and so can read the user's file."""
        return self._is_own

    @property
    def in_flight(self) -> int:
        """The number of jobs to submit ahead."""
        if self._is_own:
            return _IN_FLIGHT * self.count + 1
        count = getattr(self._executor, "_max_workers", None)
        return _IN_FLIGHT * count + 1 if isinstance(count, int) else _UNKNOWN

    def submit(self, call: Call) -> Future[list[Outcome]]:
        """Submit a call. Raises :class:`ExecutorError` if the user's executor takes none."""
        if self._executor is None:
            self._executor = ProcessPoolExecutor(
                self.count, mp_context=multiprocessing.get_context("spawn"),
                initializer=prepare_worker, initargs=(self.alone,),
            )  # fmt: skip
        try:
            with contextlib.nullcontext() if self.alone or not self._is_own else _one_thread():
                return self._executor.submit(*call)
        except BrokenExecutor as error:
            self.renew(error)
            return self.submit(call)
        except RuntimeError as error:  # as of one that was shut down
            raise self._died(error) from error

    def renew(self, error: BaseException) -> None:
        """Begin anew after a dead worker. Raises :class:`ExecutorError` if the executor is the user's."""
        if not self._is_own:
            raise self._died(error) from error
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
            self._executor = None

    def _died(self, error: BaseException) -> ExecutorError:
        kind = type(self._executor).__name__
        return ExecutorError(
            f"the executor ({kind}) ended before the sweep: {type(error).__name__}{f': {error}' if str(error) else ''}",
            fix="finished points are kept: start it again, and the sweep goes on from there",
        )


@dataclass(slots=True)
class _Flight:
    """A job on its way; ``alone`` if it runs by itself, after a worker that had it has died."""

    job: Job
    alone: bool


def spread(workers: Workers, jobs: Iterable[Job], call: Callable[[Job], Call | list[Outcome]]) -> Generator[Result]:
    """The outcomes of ``jobs`` as they come; ``call`` makes what a worker does, or has the outcomes at once."""
    waiting = iter(jobs)
    suspects: deque[Job] = deque()
    flights: dict[Future[list[Outcome]], _Flight] = {}
    try:
        while True:
            yield from _submitted(workers, waiting, suspects, flights, call)
            if not flights:
                return
            done, _ = wait(flights, return_when=FIRST_COMPLETED)
            for future in done:
                flight = flights.pop(future, None)
                if flight is None:
                    continue  # lost with another one
                try:
                    yield flight.job, future.result()
                except (BrokenExecutor, CancelledError, ImportError) as error:
                    workers.renew(error)
                    lost = [flight, *flights.values()]
                    flights.clear()
                    yield from _after_loss(lost, suspects, error)
                except Exception as error:  # of the executor: functions of workers raise nothing
                    yield from _after_loss([flight], suspects, error)
    finally:
        for future in flights:
            future.cancel()


def _submitted(
    workers: Workers,
    waiting: Iterator[Job],
    suspects: deque[Job],
    flights: dict[Future[list[Outcome]], _Flight],
    call: Callable[[Job], Call | list[Outcome]],
) -> Generator[Result]:
    """Submit what may be in flight; the outcomes that are there at once."""
    while len(flights) < workers.in_flight:
        if suspects:
            if flights:
                return
            job, alone = suspects.popleft(), True
        else:
            job, alone = next(waiting, None), False
            if job is None:
                return
        made = call(job)
        if isinstance(made, list):
            yield job, made
            continue
        flights[workers.submit(made)] = _Flight(job, alone)
        if alone:
            return


def _after_loss(lost: Iterable[_Flight], suspects: deque[Job], error: BaseException) -> Generator[Result]:
    """Put what was lost among the suspects; a suspect with one draw that was alone is found out."""
    for flight in lost:
        if not flight.alone:
            suspects.append(flight.job)
        elif len(flight.job.draws) > 1:
            suspects.extendleft(reversed(flight.job.split()))
        else:
            found = LostWorkerError(
                f"this point killed its worker twice: {type(error).__name__}{f': {error}' if str(error) else ''}",
                fix="run it alone: `nki run` with its arguments; a lack of memory kills, too",
            )
            yield flight.job, [failed(outcome(), found, "lost")]
