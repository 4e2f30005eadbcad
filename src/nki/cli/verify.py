"""``nki verify``: says if a kernel computes what a reference says, and is honest about it."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Generator, Sequence
from typing import Any

from nki import target as targets
from nki.base.usage import UsageError
from nki.base.warning import collecting
from nki.cli.output.documents import Verify
from nki.cli.output.findings import warnings
from nki.cli.output.printed import print_document, stamp
from nki.cli.output.streams import aside
from nki.testing import verify
from nki.workload import arguments as argument
from nki.workload.arguments import TensorArgument


def command(options: argparse.Namespace) -> int:
    """Carry out ``nki verify``: 0 if the kernel passes, else 1."""
    args, kwargs = _arguments(options.arg)
    sizes = dict(map(_sizes, options.sizes))
    given: dict[str, Any] = {"seeds": options.seeds, "seed": options.seed, "changes": options.changes}
    given |= {"precision": options.precision, "tolerance": options.tolerance}
    if options.special is not None:
        given["special"] = [kind for kind in options.special.split(",") if kind]
    # What a reference prints must not end up inside the JSON.
    with aside() if options.json else contextlib.nullcontext(), collecting() as warned, _target(options.target):
        found = verify(options.kernel, options.reference, *args, sizes=sizes, **given, **kwargs)
    if options.json:
        document: Verify = {**stamp(), **found.record(), "warnings": warnings(warned)}
        print_document(document)
    else:
        print(found)
    return 0 if found.passed else 1


def _arguments(texts: Sequence[str]) -> tuple[list[Any], dict[str, Any]]:
    """Positional and named arguments; tensors stay texts, which ``verify`` reads for each size."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for text in texts:
        name, separator, rest = text.partition("=")
        if not (separator and name.isidentifier()):
            name, rest = "", text
        value = rest if "{" in rest else _value(rest)
        if name:
            kwargs[name] = value
        else:
            args.append(value)
    return args, kwargs


def _value(text: str) -> Any:
    """A constant, or the text of a tensor."""
    value = argument.parse(text)[1]
    return text if isinstance(value, TensorArgument | str) else value


def _sizes(text: str) -> tuple[str, int | list[int] | range]:
    """``NAME=128``, ``NAME=1,7,128`` or ``NAME=1:300``, without the last one, as Python's slices."""
    name, _, rest = text.partition("=")
    try:
        if ":" in rest:
            first, last = map(int, rest.split(":"))
            return name, range(first, last)
        values = [int(each) for each in rest.split(",")]
    except ValueError:
        raise UsageError(f"--sizes {text}", "write NAME=128, NAME=1,7,128 or NAME=1:300") from None
    return name, values[0] if len(values) == 1 else values


@contextlib.contextmanager
def _target(name: str | None) -> Generator[None]:
    """Context manager: children compile for target ``name``, unless their kernel says another one."""
    before = os.environ.get(targets.ENVIRONMENT)
    if name is not None:
        os.environ[targets.ENVIRONMENT] = targets.find(name).name
    try:
        yield
    finally:
        if name is not None:
            os.environ.pop(targets.ENVIRONMENT)
            os.environ.update({} if before is None else {targets.ENVIRONMENT: before})
