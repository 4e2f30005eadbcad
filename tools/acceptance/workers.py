"""Processes of pytest that run the chosen tests: as many as memory allows, watched, and begun again after a crash."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from tools.acceptance import causes, journal, library, resident
from tools.acceptance.library import Test

CHUNK: Final = 16
"""Tests of one file that one process runs: it imports PyTorch and collects the file once, some seconds."""
GRACE: Final = 60.0
"""Seconds that a phase may be over its limit, in native code that hears no signal, before its process is ended."""
_WATCH: Final = 0.5


class Limits(NamedTuple):
    """What a run may take: seconds for a phase and in the simulator, bytes and processes in all."""

    phase: float
    simulator: float
    memory: int
    jobs: int


class Plan:
    """All that workers know of a run. ``name`` has the commits; ``through`` begins the command of each process."""

    def __init__(
        self, tree: Path, out: Path, name: dict[str, str], limits: Limits, through: Sequence[str] = ()
    ) -> None:
        self.tree, self.out, self.name, self.limits, self.through = tree, out, name, limits, through
        self.journal = out / "journal.jsonl"


class Worker:
    """One process, with the tests of one file on one platform."""

    def __init__(self, plan: Plan, number: int, tests: Sequence[Test], memory: int) -> None:
        self.plan, self.tests, self.memory = plan, list(tests), memory
        self.platform = tests[0].platform
        self.state = plan.out / f"worker-{number}.state"
        self.state.write_text(json.dumps(["", "", time.time()]), encoding="utf-8")
        select = plan.out / f"worker-{number}.tests"
        select.write_text("".join(f"{test.id}\n" for test in tests), encoding="utf-8")
        name = plan.name | {"platform": self.platform}
        variables = library.environment(plan.tree, plan.out, self.platform) | {
            "NKILIB_ACCEPTANCE_SELECT": str(select),
            "NKILIB_ACCEPTANCE_JOURNAL": str(plan.journal),
            "NKILIB_ACCEPTANCE_STATE": str(self.state),
            "NKILIB_ACCEPTANCE_NAME": json.dumps(name),
            "NKILIB_ACCEPTANCE_LIMIT": str(plan.limits.phase),
            "NKILIB_ACCEPTANCE_SIMULATE": str(plan.limits.simulator),
            "NKILIB_ACCEPTANCE_ROOM": str(memory),
            "NKI_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // plan.limits.jobs)),
            "OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // plan.limits.jobs)),
        }
        command = [*plan.through, *library.command(plan.tree, self.platform, str(plan.tree / "test" / tests[0].file))]
        self.log = plan.out / f"worker-{number}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command, cwd=library.scratch(plan.out), env=variables, stdout=log, stderr=log, start_new_session=True
            )

    def running(self) -> tuple[str, str, float]:
        """The test in this process, its phase, and the seconds of that so far."""
        with contextlib.suppress(ValueError, OSError):  # it is being written
            test, phase, since = json.loads(self.state.read_text(encoding="utf-8"))
            return test, phase, time.time() - since
        return "", "", 0.0

    def excess(self) -> str:
        """The cause for which the process must end; empty if there is none."""
        test, phase, seconds = self.running()
        if test and seconds > self.plan.limits.phase + GRACE:
            return f"{causes.LIMIT}: {phase}"
        if resident.of_process(self.process.pid) > self.memory:
            return causes.MEMORY
        return ""

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def run(plan: Plan, tests: Sequence[Test], told: Callable[[], None]) -> None:
    """Run ``tests`` in the order of their chunks; ``told`` is called often, to show progress.

    Tests that need more than their share of the memory run at the end, one process at a time.
    """
    limits = plan.limits
    alone = _run(plan, chunks(tests), limits.jobs, limits.memory // limits.jobs, told)
    _run(plan, [[test] for test in alone], 1, limits.memory, told)


def chunks(tests: Sequence[Test]) -> list[list[Test]]:
    """Tests of one file, platform and size, at most :data:`CHUNK` together; in the order of their first tests."""
    result: list[list[Test]] = []
    alike = defaultdict[tuple[str, str, int], list[Test]](list)
    for test in tests:
        chunk = alike[key := (test.file, test.platform, test.size_class)]
        if not chunk:
            result.append(chunk)
        chunk.append(test)
        if len(chunk) == CHUNK:
            del alike[key]
    return result


def _run(plan: Plan, queue: list[list[Test]], jobs: int, memory: int, told: Callable[[], None]) -> list[Test]:
    """Run the chunks of ``queue``; the tests to run alone."""
    alone: list[Test] = []
    working: dict[int, Worker] = {}
    try:
        while queue or working:
            for number in range(jobs):
                if queue and number not in working:
                    working[number] = Worker(plan, number, queue.pop(0), memory)
            time.sleep(_WATCH)
            for number, worker in list(working.items()):
                cause = worker.excess() if worker.process.poll() is None else ""
                if cause:
                    worker.end()
                if worker.process.poll() is not None:
                    del working[number]
                    left = _settled(plan, worker, cause, alone, is_alone=jobs == 1)
                    if left:
                        queue.insert(0, left)
            told()
    finally:
        for worker in working.values():
            worker.end()
    return alone


def _settled(plan: Plan, worker: Worker, cause: str, alone: list[Test], is_alone: bool) -> list[Test]:
    """The tests of an ended worker that are still to run. The one that it was in is recorded, with its cause."""
    done = journal.finished(plan.journal, plan.name["library"], plan.name["ours"])
    test, phase, seconds = worker.running()
    left: list[Test] = []
    for one in worker.tests:
        record = done.get((one.platform, one.id))
        if record is None and one.id == test:
            if cause == causes.MEMORY and not is_alone:
                alone.append(one)
                continue
            code = worker.process.returncode
            extra = {"text": f"exit {code} in phase {phase}", "seconds": {phase: round(seconds, 1)}}
            _record(plan, one, cause or f"{causes.CRASH}: {_signal(code)}", extra)
        elif record is None:
            left.append(one)
        elif record["outcome"] == causes.ALONE and not is_alone:
            alone.append(one)
        elif record["outcome"] == causes.ALONE:
            _record(plan, one, causes.MEMORY, {"text": record.get("text", "")})
    if len(left) == len(worker.tests):  # it did not come so far as to begin one
        words = worker.log.read_text(encoding="utf-8", errors="replace")[-1500:]
        for one in left:
            _record(plan, one, f"{causes.LIBRARY}: pytest stops", {"text": words})
        return []
    return left


def _record(plan: Plan, test: Test, cause: str, extra: dict[str, Any]) -> None:
    name = plan.name | {"platform": test.platform, "at": round(time.time())}
    journal.append(plan.journal, {"id": test.id, "outcome": "failed", "cause": cause} | extra | name)


def _signal(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit {code}"
