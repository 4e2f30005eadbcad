"""The names of ``nki.language``: every operator has one, and is the table's own object."""

from __future__ import annotations

from nki import language as nl
from nki.isa.ops import OPS
from nki.language import operators


def test_every_operator_of_the_tables_has_its_name() -> None:
    assert operators.__all__ == sorted(OPS)
    assert all(getattr(nl, name) is op for name, op in OPS.items())


def test_every_public_name_exists() -> None:
    assert not [name for name in nl.__all__ if not hasattr(nl, name)]
