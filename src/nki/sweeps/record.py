"""Records of a sweep: one row for each point."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypedDict

from nki.base.errors import NkiError
from nki.base.source import Span

Status = Literal["ok", "refused", "hazard", "wrong", "reference", "raised", "lost"]
MEANINGS: Final[dict[Status, str]] = {
    "ok": "compiles, runs without hazards, and has the result of the reference, if there is one",
    "refused": "the compiler refuses it",
    "hazard": "it reads what is not there yet, or no more",
    "wrong": "a result lies outside of the tolerance around the reference",
    "reference": "the reference raises, or returns other shapes",
    "raised": "Python raises an exception: the kernel's own, or a bug of Open NKI",
    "lost": "it killed its worker twice",
}


class Outcome(TypedDict):
    """The outcome at a point. Null stands for what was not reached, or not asked for."""

    status: Annotated[Status, "; ".join(f"`{name}`: {text}" for name, text in MEANINGS.items())]
    code: Annotated[str, "the code of the error, or the class of the exception; empty if there is none"]
    message: Annotated[str, "the message of the error; empty if there is none"]
    file: Annotated[str | None, "the file of the mistake"]
    line: Annotated[int | None, "its line, from 1"]
    instructions: Annotated[int | None, "instructions of the program"]
    depends_on_data: Annotated[bool, "true if numbers of iterations, and so the latency, depend on the data"]
    latency: Annotated[float | None, "the predicted latency on the device, launch included; s"]
    latency_min: Annotated[float | None, "the least latency of its interval; s"]
    latency_max: Annotated[float | None, "the greatest latency of its interval; s"]
    drawn: Annotated[list[float] | None, "`nki tune`: the latency at each draw of what is not known; s"]
    error: Annotated[float | None, "the greatest error of a result, as a part of the reference's greatest magnitude"]
    sha256: Annotated[str | None, "the digest of the results' bytes, shortened to 16 digits"]
    warnings: Annotated[int, "warnings of the compiler and of the run"]
    compile_seconds: Annotated[float | None, "from the specialised program to native code, on the worker; s"]
    run_seconds: Annotated[float | None, "one native launch on the worker, the least of several; s"]


class Row(Outcome):
    """A point, and the outcome there."""

    values: Annotated[dict[str, Any], "the names of the space, and their values here"]
    arguments: Annotated[list[str], "the kernel's arguments, as `--arg` takes them"]
    target: Annotated[str, "`trn1`, `trn2` or `trn3`"]
    release: Annotated[str | None, "the release of NKI that is strict; null: all releases"]
    cores: Annotated[int | None, "cores of the launch; null: as the kernel says"]
    seed: Annotated[int, "the seed of its random inputs"]
    kept: Annotated[bool, "true if an earlier sweep found it out"]


HOST_FIELDS: Final = ("compile_seconds", "run_seconds", "kept")
"""Fields that differ from run to run; all others follow from the point alone."""


def outcome(status: Status = "ok") -> Outcome:
    """An outcome with nothing else known yet."""
    return {
        "status": status, "code": "", "message": "", "file": None, "line": None, "instructions": None,
        "depends_on_data": False, "latency": None,
        "latency_min": None, "latency_max": None, "drawn": None, "error": None, "sha256": None, "warnings": 0,
        "compile_seconds": None, "run_seconds": None,
    }  # fmt: skip


def failed(before: Outcome, error: BaseException, status: Status | None = None) -> Outcome:
    """``before`` with an error that ended it."""
    result: Outcome = {**before, "status": status or _status(error)}
    if isinstance(error, NkiError):
        result["code"] = f"{error.code}/{error.rule}" if error.rule else error.code
        result["message"] = error.message + (f"; fix: {error.fix}" if error.fix else "")
        place: Span | None = error.span
        result["file"], result["line"] = (place.file, place.line) if place is not None else (None, None)
    else:
        result["code"], result["message"] = type(error).__name__, str(error)
        frame = error.__traceback__
        while frame is not None and frame.tb_next is not None:
            frame = frame.tb_next
        if frame is not None:
            result["file"], result["line"] = frame.tb_frame.f_code.co_filename, frame.tb_lineno
    return result


def _status(error: BaseException) -> Status:
    if not isinstance(error, NkiError):
        return "raised"
    return "hazard" if error.code.startswith("NKI-HZ") else "refused"
