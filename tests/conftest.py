"""What all tests share: derandomised property tests, so that a run is as repeatable as the kernels are."""

from __future__ import annotations

import gc
import linecache
import os
import signal
import sys

import hypothesis
import numpy as np
import pytest

from nki.numerics.matmul import host

# NKI_TEST_EXAMPLES=1000 searches longer, still with the same seed.
hypothesis.settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,
    database=None,
    print_blob=False,
    max_examples=int(os.environ.get("NKI_TEST_EXAMPLES", "50")),
)
hypothesis.settings.load_profile("repeatable")

# Every test compiles what it says it does; tests/compilation has the ones about kernels that are kept on disk.
os.environ["OPEN_NKI_CACHE_DISABLE"] = "1"

# A call runs native code, the first one too; tests/compilation/test_first_call.py has the ones that are interpreted.
os.environ["OPEN_NKI_FIRST_CALL"] = "native"

# Every stage of the compiler is held to its whole specification.
os.environ["OPEN_NKI_CHECK_STAGES"] = "1"

# Products of bfloat16 take a matrix unit wherever the processor has the instruction, whether or not that pays:
# which code the tests run follows from the processor, not from a timing.
PAYS = host.pays.__wrapped__
"""The timing."""
host.pays = lambda _: True

# Since 3.13 Python keeps the program of `python -c`, which is how pytest-xdist starts its workers, as the source of
# "<string>"; what the tests make with exec would seem to have that source.
linecache.cache.pop("<string>", None)

# A shell starts background jobs with SIGINT ignored, and every process that a test starts would inherit that; a handler
# is not inherited, so each of them has its own.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The tests choose the number of cores of every launch themselves.
os.environ.pop("NEURON_LOGICAL_NC_CONFIG", None)


# Once all tests are collected there are 960,000 objects that stay. Each full collection would take 0.5 s for them:
# there is one, and then the collector does not look at them any more.
gc.disable()


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Random numbers of a test are the same, whichever tests ran before it in this process."""
    for value in vars(getattr(item, "module", None) or item).values():
        if isinstance(value, np.random.Generator):
            first = value.bit_generator
            first.state = type(first)(first.seed_seq).state
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


@pytest.fixture
def nki_0_6(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels are read under the rules of NKI 0.6, which parses them and refuses much of Python."""
    monkeypatch.setenv("NKI_VERSION", "0.6")


@pytest.fixture
def nki_0_7(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels are read under the rules of NKI 0.7, which traces them."""
    monkeypatch.setenv("NKI_VERSION", "0.7")
