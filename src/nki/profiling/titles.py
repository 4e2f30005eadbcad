"""Titles of profiles that stand side by side: what tells them apart, and no more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from nki.profiling.predicted_run import PredictedRun


def titles(profiles: Sequence[PredictedRun]) -> list[str]:
    """A title for each profile, all of them different: kernel and target, and if these are the same also the file, the
    cores or the arguments, whichever differs; of a what-if its changes; a number as the last resort.
    """
    files = _short_files([each.origin.file for each in profiles])
    parts: list[Callable[[int], str]] = [
        lambda n: f"{files[n]}:" if files[n] else "",
        lambda n: f"[{len(profiles[n].cores)}]" if _differ([len(each.cores) for each in profiles]) else "",
        lambda n: _arguments(profiles, n),
        lambda n: " ".join(f"{name}={value}" for name, value in profiles[n].origin.changes),
    ]
    chosen: list[Callable[[int], str]] = []
    numbers = range(len(profiles))

    def title(n: int) -> str:
        file, cores, arguments, changes = (part(n) if part in chosen else "" for part in parts)
        return changes or f"{file}{profiles[n].name}{cores}{arguments} on {profiles[n].target}"

    for part in parts:
        if len({title(n) for n in numbers}) == len(profiles):
            break
        if _differ([part(n) for n in numbers]):
            chosen.append(part)
    return numbered([title(n) for n in numbers])


def numbered(names: Sequence[str]) -> list[str]:
    """``names``, each that comes again with a number."""
    result: list[str] = []
    for name in names:
        title, number = name, 2
        while title in result:
            title, number = f"{name} ({number})", number + 1
        result.append(title)
    return result


def _differ(values: Sequence[object]) -> bool:
    return len(set(values)) > 1


def _arguments(profiles: Sequence[PredictedRun], n: int) -> str:
    """The arguments of one profile that others have not, in brackets."""
    others = [set(each.origin.arguments) for each in profiles]
    own = [(name, value) for name, value in profiles[n].origin.arguments if not all((name, value) in o for o in others)]
    return f"({', '.join(f'{name}={value}' for name, value in own)})" if own else ""


def _short_files(files: Sequence[str]) -> list[str]:
    """Each file by its name, with as many folders as it takes to tell different files apart."""
    paths = [Path(file).resolve().parts if file else () for file in files]
    distinct = set(paths)
    for count in range(1, max(map(len, paths), default=0) + 1):
        if len({path[-count:] for path in distinct}) == len(distinct):
            return ["/".join(path[-count:]) for path in paths]
    return ["/".join(path) for path in paths]
