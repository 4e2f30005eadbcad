"""``nki.sweep``: a kernel at all points of a space."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Any

from nki.base.errors import NkiError
from nki.compilation.launch_errors import strip_frames
from nki.jit import Kernel
from nki.sweeps import jobs as work
from nki.sweeps import plan as planning
from nki.sweeps import space as spaces
from nki.sweeps.comparison import Function
from nki.sweeps.evaluation import Steps
from nki.sweeps.plan import Plan, Subject
from nki.sweeps.record import Outcome
from nki.sweeps.results import Results
from nki.sweeps.space import Space
from nki.sweeps.table import Table, row
from nki.sweeps.workers import Call, Workers, spread

Given = Space | str | Path | Mapping[str, Any]
Progress = Callable[[int, int], None]


def sweep(
    kernel: str | Kernel | Callable[..., Any],
    space: Given,
    *,
    reference: str | Function | None = None,
    executor: Executor | None = None,
    processes: int | None = None,
    results: str | Path | None = None,
    progress: Progress | None = None,
) -> Table:
    """``nki.sweep(kernel, "space.toml")``: check, compile, run, judge and time ``kernel`` at each point of ``space``.

    ``kernel``: a kernel, or the text FILE.py:NAME. ``space``: a TOML file, or a dictionary of the same form
    (``docs/sweep.md``). ``reference``: a function of NumPy, PyTorch or JAX with the kernel's parameters, or its name;
    without it the space's, else none. ``executor``: any of ``concurrent.futures``, such as ``client.get_executor()`` of
    Dask; by default ``processes`` processes on this machine (None: as many as there are processors). ``results``: the
    folder in which outcomes are kept, by default one in the cache folder; points that it has are not run again.
    ``progress(done, all)`` is called as points are done.

    Points fail in the table, not by an exception; :meth:`~nki.sweeps.table.Table.check` raises. Raises
    :class:`SpaceError`, :class:`NoPointError`, :class:`BadReferenceError` for a reference that is not there, and
    :class:`ExecutorError` if the user's executor ends.
    """
    try:
        read = spaces.of(space)
        with planning.opened(kernel, reference or read.reference) as subject, Workers(executor, processes) as workers:
            fitting = subject.fitting(read)
            plan = planning.planned(subject, fitting, fitting.points(), steps := Steps(tolerance=fitting.tolerance))
            store = Results(results)
            found, kept = carried_out(subject, plan, steps, workers, store, progress)
            store.trim()
            rows = [row(point, out, is_kept) for point, out, is_kept in zip(plan.points, found, kept, strict=True)]
            unkept = sum(each.key is None and each.known is None for each in plan.points)
            return Table(subject.kernel_name, tuple(rows), subject.function is not None, unkept)
    except NkiError as error:
        __tracebackhide__ = True
        raise strip_frames(error)  # noqa: B904  # its cause is settled


def carried_out(
    subject: Subject, plan: Plan, steps: Steps, workers: Workers, store: Results, progress: Progress | None = None
) -> tuple[list[Outcome], list[bool]]:
    """The outcome of each point of ``plan``, and if it was kept before. Each is kept as soon as it is known."""
    found: list[Outcome | None] = [each.known or store.find(each.key) for each in plan.points]
    kept = [out is not None and each.known is None for out, each in zip(found, plan.points, strict=True)]
    done, total = sum(out is not None for out in found), len(found)
    if progress is not None:
        progress(done, total)
    places: dict[tuple[Any, ...], list[int]] = {}

    def noted() -> Generator[work.Job]:
        for job, part in planning.jobs(subject, plan, [out is None for out in found], steps):
            for n, index in enumerate(part):
                places.setdefault(_place(job, n), []).append(index)
            yield job

    for job, outcomes in spread(workers, noted(), partial(_call, subject, workers)):
        for n, out in enumerate(outcomes):
            indices = places[_place(job, n)]  # several if the space names a value twice
            for index in indices:
                done += found[index] is None
                found[index] = out
            if steps.runs or not out["depends_on_data"]:
                store.keep(plan.points[indices[0]].key, out)
        if progress is not None:
            progress(done, total)
    return [out for out in found if out is not None], kept


def _place(job: work.Job, number: int) -> tuple[Any, ...]:
    return job.target, job.release, job.cores, job.draws[number]


def _call(subject: Subject, workers: Workers, job: work.Job) -> Call | list[Outcome]:
    """The work of a worker for ``job``: all of it if it has the source, else what follows a specialised program."""
    if job.file and workers.have_source:
        return work.run, job
    made = work.packed(job, subject.kernel, subject.function)
    return made if isinstance(made, list) else (work.run_packed, made)
