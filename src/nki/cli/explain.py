"""``nki explain``: describes an error code, a rule, an instruction or an operator from its declaration."""

from __future__ import annotations

import argparse

from nki.cli.output.documents import Explain
from nki.cli.output.printed import print_document, stamp
from nki.describe.explanations import explanation as about


def command(options: argparse.Namespace) -> int:
    """Carry out ``nki explain``."""
    topic: str = options.topic
    explained = about(topic)
    if options.json:
        document: Explain = {**stamp(), "topic": topic, "kind": explained.kind, "text": explained.text}
        if explained.topics:
            document["topics"] = explained.topics
        print_document(document)
    else:
        print(explained.text)
    return 0
