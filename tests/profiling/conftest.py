"""Profiles that several files of these tests read, made once."""

from __future__ import annotations

import pytest

from tests.profiling import kernels


@pytest.fixture(scope="session")
def product():
    return kernels.profiled_product()


@pytest.fixture(scope="session")
def loop():
    return kernels.profiled_sum()


@pytest.fixture(scope="session")
def halves():
    return kernels.profiled_halves()
