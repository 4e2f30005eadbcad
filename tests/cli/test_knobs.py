"""The look-up of environment variables, with and without the interpreter's own dictionary."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from nki.base import knobs


class Public(dict[str, str]):
    """An environment that has only what is documented."""


@pytest.mark.parametrize("name", ["posix", "nt"])
def test_an_interpreter_without_the_dictionary_gives_the_same(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    environ = Public(NKI_VERSION="0.6")
    fast = knobs._choose_lookup()
    monkeypatch.setenv("NKI_VERSION", "0.6")
    monkeypatch.delenv("NKI_PRECISE_FP", raising=False)
    monkeypatch.setattr(knobs, "os", SimpleNamespace(environ=environ, name=name))
    slow = knobs._choose_lookup()
    assert fast(b"NKI_VERSION") == slow(b"NKI_VERSION") == b"0.6"
    assert fast(b"NKI_PRECISE_FP") is slow(b"NKI_PRECISE_FP") is None
    environ["NKI_PRECISE_FP"] = "0"
    monkeypatch.setenv("NKI_PRECISE_FP", "0")
    assert fast(b"NKI_PRECISE_FP") == slow(b"NKI_PRECISE_FP") == b"0"


def test_a_change_counts_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NKI_PRECISE_FP", "0")
    assert not knobs.precise_fp()
    monkeypatch.delenv("NKI_PRECISE_FP")
    assert knobs.precise_fp()
