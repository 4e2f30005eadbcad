"""The options of ``nki verify``."""

from __future__ import annotations

from typing import Any, Final

_VERIFY: Final = (
    "Run a kernel on many inputs, compare it with a function of NumPy, PyTorch or JAX, and look for ways in which it "
    "could look right without being right. The kernel's Python runs in other processes. Exit with 0 if it passes, "
    "else with 1."
)


def add(commands: Any) -> None:
    """Add the command to ``commands``."""
    verifying = commands.add_parser("verify", help="test a kernel against a reference, strictly", description=_VERIFY)
    verifying.set_defaults(module="nki.cli.verify")
    verifying.add_argument("kernel", metavar="KERNEL", help="FILE.py:NAME")
    verifying.add_argument(
        "reference", metavar="REFERENCE", help="FILE.py:NAME in another file, or package.module.NAME"
    )
    verifying.add_argument(
        "--arg", action="append", default=[], metavar="ARG",
        help="an argument of the kernel, in order; sizes of a tensor may be expressions in braces: {M}x512:float32",
    )  # fmt: skip
    verifying.add_argument(
        "--sizes", action="append", default=[], metavar="NAME=SIZES", help="sizes to try: 128, or 1,7,128, or 1:300"
    )
    verifying.add_argument("--seeds", type=int, default=2, metavar="N", help="rounds of random numbers (default 2)")
    verifying.add_argument("--seed", type=int, metavar="N", help="repeat a test with the seed that it printed")
    verifying.add_argument("--special", metavar="KINDS", help="special values, of nan,inf,zero,subnormal,largest,equal")
    verifying.add_argument("--precision", metavar="DTYPE", help="the coarsest dtype of outputs and intermediate tiles")
    verifying.add_argument("--tolerance", type=float, metavar="X", help="a part of the largest result of each output")
    verifying.add_argument(
        "--changes", action="append", default=[], metavar="NAME", help="an input that the kernel may change"
    )
    verifying.add_argument("--target", metavar="NAME", help="for kernels that name no target themselves")
    verifying.add_argument("--json", action="store_true", help="print one JSON object, also for an error")
