"""The pytest plugin of Open NKI: fixture ``verify``, options ``--nki-verify-json`` and ``--nki-seeds``.

pytest imports this file in every run, so it imports nothing of ``nki`` before a test asks for the fixture.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

_FOUND = pytest.StashKey[list[dict[str, Any]]]()
"""The outcomes of this process, each as a document with the test's name."""
_WORKER = "nki_verifications"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of this plugin."""
    group = parser.getgroup("nki", "kernels of NKI")
    group.addoption("--nki-verify-json", metavar="PATH", help="write what the fixture `verify` found to PATH, as JSON")
    group.addoption("--nki-seeds", metavar="N", type=int, help="rounds of random numbers of the fixture `verify`")


def pytest_configure(config: pytest.Config) -> None:
    """Nothing is found yet."""
    config.stash[_FOUND] = []


@pytest.fixture
def verify(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """``nki.testing.verify``. It raises ``VerificationError`` unless the kernel passes, and else returns its result."""
    testing = importlib.import_module("nki.testing")
    config, test = request.config, request.node.nodeid

    def run(kernel: Any, reference: Any, *args: Any, **kwargs: Any) -> Any:
        if (seeds := config.getoption("--nki-seeds")) is not None:
            kwargs.setdefault("seeds", seeds)
        found = testing.verify(kernel, reference, *args, **kwargs)
        config.stash[_FOUND].append({"test": test, **found.json()})
        return found.check()

    return run


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A process of pytest-xdist ended: take over what it found."""
    node.config.stash[_FOUND].extend(getattr(node, "workeroutput", {}).get(_WORKER, ()))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the file, or hand it to the process of pytest-xdist that does."""
    config = session.config
    sent: dict[str, Any] | None = getattr(config, "workeroutput", None)
    if sent is not None:
        sent[_WORKER] = config.stash[_FOUND]
    elif (path := config.getoption("--nki-verify-json")) is not None:
        document = {"schema": "open-nki/1", "verifications": config.stash[_FOUND]}
        Path(path).write_text(json.dumps(document, indent=1, allow_nan=False) + "\n", encoding="utf-8")
