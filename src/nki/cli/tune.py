"""``nki tune``: the fastest configuration of a kernel, for each workload of a space."""

from __future__ import annotations

import argparse
import contextlib

from nki.base.usage import UsageError
from nki.cli.output.documents import Tie, Tune, Tuned
from nki.cli.output.printed import print_document, stamp
from nki.cli.output.streams import aside
from nki.cli.sweep import Told, cluster, narrowed
from nki.sweeps.tuning import Choice, Tuning, tune


def command(options: argparse.Namespace) -> int:
    """Carry out ``nki tune``."""
    if options.trials is not None and options.trials < 1:
        raise UsageError(f"--trials {options.trials}: a search tries at least one configuration")
    space = narrowed(options)
    # What kernels print while they are specialised must not end up inside the JSON.
    with (
        aside() if options.json else contextlib.nullcontext(),
        Told("configurations") as told,
        cluster(options.dask) as executor,
    ):
        found = tune(
            options.kernel,
            space,
            by=options.by,
            reference=options.reference,
            executor=executor,
            processes=options.processes,
            results=options.out,
            trials=options.trials,
            seed=options.seed,
            progress=told,
        )
    if options.json:
        print_document(_document(found))
    else:
        print(found)
    return 0


def _document(found: Tuning) -> Tune:
    return {
        **stamp(),
        "kernel": found.kernel,
        "by": found.by,
        "combinations": found.combinations,
        "judged": found.has_reference,
        "choices": [_tuned(each) for each in found.choices],
    }


def _tuned(choice: Choice) -> Tuned:
    ties: list[Tie] = [
        {
            "configuration": dict(each.configuration),
            "seconds": each.seconds,
            "least": each.interval[0],
            "most": each.interval[1],
        }
        for each in choice.ties
    ]
    return {
        "workload": dict(choice.workload),
        "target": choice.target,
        "configuration": dict(choice.configuration),
        "seconds": choice.seconds,
        "least": choice.interval[0],
        "most": choice.interval[1],
        "slowest": choice.worst,
        "exhaustive": choice.is_exhaustive,
        "tried": choice.tried,
        "refused": choice.refused,
        "draws": choice.judged,
        "passed_over": list(choice.passed_over),
        "ties": ties,
    }
