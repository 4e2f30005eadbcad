"""Native code that is made anew: nothing is used that was compiled, or found legal, before."""

from __future__ import annotations

from collections import defaultdict
from weakref import WeakValueDictionary

import pytest

from nki.backend.cpu.fusion import group, parts
from nki.backend.cpu.runtime import routines


def anew(patch: pytest.MonkeyPatch) -> None:
    """Let routines and legal fusion groups of this process be unknown until ``patch`` is undone."""
    patch.setattr(routines, "_routines", WeakValueDictionary())
    patch.setattr(group, "EMPTY_GROUP", group.GroupState())
    patch.setattr(parts, "_answers", defaultdict(dict))
