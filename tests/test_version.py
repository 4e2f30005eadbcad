"""The version of a checkout names the commit that is checked out; a build keeps its version."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from nki.base import version
from nki.base.errors import UnknownTargetError

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "open-nki"\n', encoding="utf-8")
    (tmp_path / ".git" / "refs" / "heads").mkdir(parents=True)
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    return tmp_path


@pytest.fixture(params=["1.2.0", "1.2.1.dev3+g7777777", "0.1.0.dev0+untagged", "0.1.0.dev5+untagged.g7777777"])
def built(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(metadata, "version", lambda name: request.param)
    return request.param


def labelled(built: str) -> str:
    """The version of the checkout: its commit in place of the one that was built, and the rest as pip shows it."""
    return built.split("+")[0] + ("+untagged.g012345678" if "untagged" in built else "+g012345678")


def test_commit_in_a_file_of_its_own(checkout: Path, built: str) -> None:
    (checkout / ".git" / "refs" / "heads" / "main").write_text(f"{COMMIT}\n", encoding="utf-8")
    assert version.find(checkout) == labelled(built)


def test_commit_in_packed_refs(checkout: Path, built: str) -> None:
    lines = [
        "# pack-refs with: peeled fully-peeled sorted",
        f"{'9' * 40} refs/heads/not-main",
        f"{COMMIT} refs/heads/main",
    ]
    (checkout / ".git" / "packed-refs").write_text("\n".join(lines), encoding="utf-8")
    assert version.find(checkout) == labelled(built)


def test_detached_head(checkout: Path, built: str) -> None:
    (checkout / ".git" / "HEAD").write_text(f"{COMMIT}\n", encoding="utf-8")
    assert version.find(checkout) == labelled(built)


def test_linked_worktree(checkout: Path, built: str, tmp_path: Path) -> None:
    git = checkout / ".git"
    (git / "refs" / "heads" / "topic").write_text(f"{COMMIT}\n", encoding="utf-8")
    own = git / "worktrees" / "topic"
    own.mkdir(parents=True)
    (own / "HEAD").write_text("ref: refs/heads/topic\n", encoding="utf-8")
    (own / "commondir").write_text("../..\n", encoding="utf-8")
    tree = tmp_path / "topic"
    tree.mkdir()
    (tree / "pyproject.toml").write_text('name = "open-nki"', encoding="utf-8")
    (tree / ".git").write_text(f"gitdir: {own}\n", encoding="utf-8")
    assert version.find(tree) == labelled(built)


def test_no_commit_yet(checkout: Path, built: str) -> None:
    assert version.find(checkout) == built


def test_installed(tmp_path: Path, built: str) -> None:
    assert version.find(tmp_path) == built


def test_inside_another_projects_checkout(checkout: Path, built: str) -> None:
    (checkout / ".git" / "HEAD").write_text(f"{COMMIT}\n", encoding="utf-8")
    for text in (b'name = "something-else"', b"\xff\xfe"):
        (checkout / "pyproject.toml").write_bytes(text)
        assert version.find(checkout) == built


def test_never_installed(checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    assert version.find(tmp_path / "elsewhere") == "0.0.0+uninstalled"
    (checkout / ".git" / "HEAD").write_text(COMMIT, encoding="utf-8")
    assert version.find(checkout) == "0.0.0+g012345678"


def test_errors_carry_the_version() -> None:
    assert version.version() in str(UnknownTargetError("no"))
