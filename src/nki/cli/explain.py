"""``nki explain``: describes an error code, a rule, an instruction or an operator from its declaration."""

from __future__ import annotations

import argparse

from nki.describe.explain import about, topics


def command(options: argparse.Namespace) -> int:
    """Carry out ``nki explain``."""
    topic: str = options.topic
    print(about(topic) if topic else topics())
    return 0
