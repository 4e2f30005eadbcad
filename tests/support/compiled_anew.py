"""Native code that is made anew, or without one of its stages and rules."""

from __future__ import annotations

from weakref import WeakValueDictionary

import pytest

from nki.backend.cpu.fusion import group, parts
from nki.backend.cpu.kernel_ir import lower
from nki.backend.cpu.runtime import routines
from nki.compilation import executable


def anew(patch: pytest.MonkeyPatch) -> None:
    """Let routines and legal fusion groups of this process be unknown until ``patch`` is undone."""
    patch.setattr(routines, "_routines", WeakValueDictionary())
    patch.setattr(group, "EMPTY_GROUP", group.GroupState())
    patch.setattr(parts, "_facts", [parts.Facts()])


def leave_out(patch: pytest.MonkeyPatch, name: str) -> None:
    """Let native code be made without the stage or rule of this name until ``patch`` is undone."""
    stages = tuple(stage for stage in executable.NATIVE_STAGES if stage.name != name)
    rules = tuple(rule for rule in lower.RULES if rule.__name__ != name)
    if len(rules) < len(lower.RULES):
        anew(patch)
        patch.setattr(lower, "RULES", rules)
    else:
        assert len(stages) < len(executable.NATIVE_STAGES), name
        patch.setattr(executable, "NATIVE_STAGES", stages)
