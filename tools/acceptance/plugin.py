"""The pytest plugin: chooses tests of the library, runs them through our orchestrator, writes the journal.

Its environment: ``NKILIB_ACCEPTANCE_TREE`` (the checkout; without it the plugin does nothing), and for a run
``_SELECT`` (a file with one test id a line, in the order in which they are to run), ``_JOURNAL``, ``_STATE`` (a file
that says which test is in which phase, for the driver), ``_NAME`` (JSON: what each record says of the commits),
``_LIMIT`` (seconds for each phase),
``_SIMULATE`` (seconds in the simulator) and ``_ROOM``; ``_COLLECT`` is a file for the ids of all tests.
"""

from __future__ import annotations

import gc
import json
import os
import random
import sys
import time
import warnings
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from tools.acceptance import causes, journal, orchestrator, phases, resident, stand_ins
from tools.acceptance.orchestrator import Current
from tools.acceptance.phases import Phases

TREE: Final = Path(os.environ.get("NKILIB_ACCEPTANCE_TREE", ""))


def _given(name: str) -> str:
    return os.environ.get(f"NKILIB_ACCEPTANCE_{name}", "")


class _XdistHooks:
    """The library's conftest.py has this hook of pytest-xdist, and does not say that it may be absent."""

    def pytest_configure_node(self, node: Any) -> None:
        """Only declared."""


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    if not pluginmanager.hasplugin("xdist"):
        pluginmanager.add_hookspecs(_XdistHooks)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, Any]:
    """Files draw parameters while they are imported: each from the same seed, whatever was collected before."""
    random.seed(collector.nodeid)
    np.random.seed(0)  # noqa: NPY002  # the generator that the library draws from
    return (yield)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if path := _given("SELECT"):
        wanted = Path(path).read_text(encoding="utf-8").splitlines()
        found = {item.nodeid: item for item in items}
        items[:] = [found[name] for name in wanted if name in found]
        for name in wanted:
            if name not in found:
                _write({"id": name, "outcome": "failed", "cause": causes.LOST})


def pytest_collection_finish(session: pytest.Session) -> None:
    if path := _given("COLLECT"):
        tests = [(item.nodeid, item.get_closest_marker("fast") is not None) for item in session.items]
        Path(path).write_text(json.dumps(tests), encoding="utf-8")
        return
    from test.utils import host_management, test_orchestrator  # the library's

    test_orchestrator.Orchestrator.execute = orchestrator.execute
    host_management.HostManager.initialize_host_stats = lambda _manager: None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    warnings.simplefilter("ignore")
    Current.record = {"id": item.nodeid, "outcome": "passed"}
    Current.clock = Phases(float(_given("LIMIT") or "inf"), lambda phase: _say(item.nodeid, phase))
    resident.begin()
    resident.Highest.octets = 0
    Current.clock.enter(phases.INPUTS)
    try:
        return (yield)
    finally:
        Current.clock.end()
        Current.record["seconds"] = {name: round(took, 3) for name, took in Current.clock.seconds.items()}
        Current.record["peak"] = max(resident.Highest.octets, resident.peak())
        _write(Current.record)
        _say("", "")
        for name in ("last_type", "last_value", "last_traceback", "last_exc"):
            vars(sys).pop(name, None)  # they hold the arrays of the test
        gc.collect()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    call: pytest.CallInfo[None],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    record = Current.record
    if report.outcome == "passed" or record["outcome"] != "passed":
        return report
    record["outcome"] = "expected failure" if hasattr(report, "wasxfail") else report.outcome
    if call.excinfo is not None:
        error = call.excinfo.value
        record["text"] = str(error)[:1500]
        record["where"] = causes.places(call.excinfo.tb)
        if report.outcome == "skipped":
            cause = causes.of_error(error, TREE, _last_phase)
            is_expected = hasattr(report, "wasxfail")
            record["cause"] = f"{causes.EXPECTED}: {cause}" if is_expected else f"{causes.SKIPPED}: {str(error)[:80]}"
        else:
            record["cause"] = causes.of_error(error, TREE, _last_phase)
            if record["cause"] == causes.ALONE:
                record["outcome"] = causes.ALONE
    return report


_last_phase = ""


def _say(test: str, phase: str) -> None:
    global _last_phase
    _last_phase = phase or _last_phase
    if path := _given("STATE"):
        Path(path).write_text(json.dumps([test, phase, time.time()]), encoding="utf-8")


def _write(record: dict[str, Any]) -> None:
    if path := _given("JOURNAL"):
        journal.append(Path(path), record | json.loads(_given("NAME") or "{}") | {"at": round(time.time())})


if _given("TREE"):  # before any conftest.py
    stand_ins.install(TREE)
