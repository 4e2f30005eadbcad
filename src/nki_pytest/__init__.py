"""The pytest plugin of Open NKI: fixture ``verify``, options ``--nki-verify-json``, ``--nki-seeds``, ``--nki-shims``.

pytest imports this file in every run, so it imports nothing of ``nki`` before a test or an option asks for it.
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
    group.addoption(
        "--nki-shims", action="store_true", help="stand in for torch_neuronx and its like: docs/harnesses.md"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Provide the stand-ins, before a conftest.py imports a package that they stand in for."""
    if early_config.known_args_namespace.nki_shims:
        importlib.import_module("open_nki.shims").install()


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Which packages are stand-ins."""
    if not config.getoption("--nki-shims"):
        return []
    packages = importlib.import_module("open_nki.shims").status()
    return [f"nki-shims: {', '.join(name for name, stands_in in packages.items() if stands_in)}"] + [
        f"nki-shims: {name} is installed" for name, stands_in in packages.items() if not stands_in
    ]


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
