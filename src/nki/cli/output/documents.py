"""The documents of the commands; for ``nki profile`` see :mod:`nki.profiling.record`."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from nki.cli.output.findings import Finding
from nki.cli.output.printed import Stamp
from nki.optimising.record import OptimiseRecord
from nki.proofs.record import ProofRecord
from nki.rounding.record import AccuracyRecord, PartingRecord
from nki.sweeps.record import Row, Status
from nki.testing.record import VerificationRecord


class TensorRecord(TypedDict):
    """An input or an output."""

    name: Annotated[str, "its name in the kernel"]
    shape: Annotated[list[int], "elements along each axis"]
    dtype: Annotated[str, "the NKI dtype"]
    sha256: Annotated[str, "the digest of the bytes in row-major order, shortened to 16 digits"]
    sum: Annotated[float | str, "the sum of the elements in float64; as text if it is not finite"]


class HostLine(TypedDict):
    """A source line in native runs on this host."""

    file: Annotated[str, "the path; empty for what the compiler inserted"]
    line: Annotated[int, "from 1; 0 without a line"]
    nanoseconds: Annotated[float, "of one run; ns"]
    calls: Annotated[float, "calls of native rows in one run"]


HostLines = TypedDict(
    "HostLines", {"with": NotRequired[Annotated[list[int], "the lines that share its loop and time"]]}
)


class WhereLine(HostLine, HostLines):
    """A source line in native runs on this host."""


class HostRoutine(TypedDict):
    """A native routine on this host."""

    routine: Annotated[str, "its first instruction"]
    nanoseconds: Annotated[float, "of one run; ns"]
    calls: Annotated[float, "calls in one run"]


class Where(TypedDict):
    """The time of native runs on this host; times of cores and threads are added up."""

    nanoseconds: Annotated[float, "of one run; ns"]
    python_calls: Annotated[float, "calls into Python in one run"]
    lines: Annotated[list[WhereLine], "by source line, the longest first"]
    routines: Annotated[list[HostRoutine], "by native routine, the longest first"]


class Run(Stamp):
    """The document of `nki run`."""

    kernel: Annotated[str, "its name"]
    target: Annotated[str, "`trn1`, `trn2` or `trn3`"]
    executor: Annotated[Literal["native", "simulator"], "what ran it"]
    instructions: Annotated[int, "instructions of the program"]
    routines: Annotated[int | None, "native routines; null in the simulator, as all that follows from compiling"]
    inputs: Annotated[list[TensorRecord], "the inputs, in order"]
    outputs: Annotated[list[TensorRecord], "the results, in order"]
    specialise_seconds: Annotated[float | None, "from Python to the scheduled program; s"]
    native_seconds: Annotated[float | None, "from there to native code; s"]
    run_seconds: Annotated[float, "one launch on this host, the median; s"]
    runs: Annotated[int, "launches"]
    checked: Annotated[bool, "true if the reference executor gave the same bits (`--check`)"]
    warnings: Annotated[list[Finding], "the warnings, also of the check"]
    where: NotRequired[Annotated[Where, "the time on this host, with `--where`"]]


class Prove(Stamp, ProofRecord):
    """The document of `nki prove`."""

    warnings: Annotated[list[Finding], "the warnings"]


class Optimise(Stamp, OptimiseRecord):
    """The document of `nki optimise`."""

    warnings: Annotated[list[Finding], "the warnings"]


class AccuracyDocument(Stamp, AccuracyRecord):
    """The document of `nki accuracy`. A number that is infinite is the text `inf`."""

    warnings: Annotated[list[Finding], "the warnings"]


class PartingDocument(Stamp, PartingRecord):
    """The document of `nki accuracy --bisect`: two kernels on the same data."""

    warnings: Annotated[list[Finding], "the warnings"]


class Verify(Stamp, VerificationRecord):
    """The document of `nki verify`."""

    warnings: Annotated[list[Finding], "the warnings"]


class NotCompiled(TypedDict):
    """A kernel that was not compiled."""

    kernel: Annotated[str, "its name"]
    file: Annotated[str, "its file"]
    line: Annotated[int, "the line of its definition, from 1"]
    reason: Annotated[str, "what is not known"]
    arguments: Annotated[str, "options that would do, or empty"]


class Check(Stamp):
    """The document of `nki check`."""

    files: Annotated[int, "files that were checked"]
    kernels: Annotated[int, "kernels in them"]
    functions: Annotated[int, "functions that were checked"]
    compiled: Annotated[int, "kernels that were compiled"]
    not_compiled: Annotated[list[NotCompiled], "kernels that were not"]
    findings: Annotated[list[Finding], "errors and warnings, from top to bottom of each file"]
    beta1: NotRequired[Annotated[list[str], "the files of NKI Beta 1"]]


class Wait(TypedDict):
    """A semaphore that an instruction waits for."""

    queue: Annotated[str, "the queue that counts it up"]
    count: Annotated[int, "instructions of that queue that are complete"]


class Instruction(TypedDict):
    """An instruction of the program."""

    core: Annotated[int, "from 0"]
    number: Annotated[int, "its place in the program of its core, from 0"]
    mnemonic: Annotated[str, "its name in `nki.isa`"]
    name: Annotated[str, "the name that the kernel gives it, or empty"]
    queue: Annotated[str, "engine or DMA ring; empty before the stage that chooses it"]
    waits: Annotated[list[Wait], "what it waits for"]
    writes: Annotated[list[str], "tensors that it writes"]
    reads: Annotated[list[str], "tensors that it reads"]
    file: Annotated[str | None, "the path"]
    line: Annotated[int | None, "from 1"]


class Tile(TypedDict):
    """A tensor on chip, with its address."""

    name: Annotated[str, "its name in the kernel"]
    shape: Annotated[list[int], "elements along each axis"]
    dtype: Annotated[str, "the NKI dtype"]
    partition: Annotated[int, "its first partition"]
    offset: Annotated[int, "its first byte in each partition"]
    bytes: Annotated[int, "bytes per partition"]
    first: Annotated[int, "number of the first instruction that uses it"]
    last: Annotated[int, "number of the last one"]


class TileMap(TypedDict):
    """The tensors of one memory of one core."""

    core: Annotated[int, "from 0"]
    memory: Annotated[str, "`sbuf` or `psum`"]
    partitions: Annotated[list[int] | None, "first and last partition of this map; null: all"]
    usable: Annotated[int, "what a kernel can use; bytes per partition"]
    top: Annotated[int, "the highest byte in use, plus 1"]
    peak: Annotated[int, "most bytes in use at one moment; bytes per partition"]
    moment: Annotated[int, "number of the instruction at that moment"]
    tensors: Annotated[list[Tile], "in the order of their first use"]


Form = Literal["program", "queues", "loops", "llvm", "assembly", "artifact", "memory"]


class Dump(Stamp):
    """The document of `nki dump`."""

    kernel: Annotated[str, "its name"]
    target: Annotated[str, "`trn1`, `trn2` or `trn3`"]
    form: Annotated[Form, "what the options ask for"]
    stage: Annotated[str, "the last stage of the compiler that ran"]
    size: Annotated[int, "instructions on all cores"]
    instructions: Annotated[list[Instruction], "the program"]
    text: NotRequired[Annotated[str, "what the command prints without `--json`"]]
    file: NotRequired[Annotated[str, "the file that was written"]]
    bytes: NotRequired[Annotated[int, "its size"]]
    memory: NotRequired[Annotated[list[TileMap], "the tensors in SBUF and PSUM, with `--memory`"]]
    warnings: Annotated[list[Finding], "the warnings of the compiler"]


class Explain(Stamp):
    """The document of `nki explain`."""

    topic: Annotated[str, "what was asked for; empty for the list"]
    kind: Annotated[
        Literal["list", "error", "vendor error", "rule", "instruction", "operator", "function", "name", "term"],
        "what it is",
    ]
    text: Annotated[str, "the explanation"]
    topics: NotRequired[Annotated[dict[str, list[str]], "of the list: all topics by kind"]]


class Compared(TypedDict):
    """Both versions of a kernel, run on the same data."""

    kernel: Annotated[str, "its name"]
    text: Annotated[str, "the outcome"]
    same: Annotated[bool, "true for equal bits, and for differences of rounding"]
    proof: Annotated[ProofRecord | None, "if both are one function for all inputs of these shapes; null: not asked"]


class MigratedFile(TypedDict):
    """A file and its new form."""

    file: Annotated[str, "the path"]
    changed: Annotated[bool, "true if there was something to rewrite"]
    done: Annotated[bool, "true if nothing is left, and no comparison or proof found a difference"]
    source: Annotated[str, "the new source"]
    diff: Annotated[str, "the difference, as `--diff` prints it"]
    written: Annotated[bool, "true if the file was replaced (`--write`)"]
    comparisons: Annotated[list[Compared], "the runs of both versions"]
    to_do: Annotated[list[str], "what no rule carries over"]
    notes: Annotated[list[str], "what a reader should know"]
    not_compared: Annotated[list[str], "kernels that no run has compared"]


class Migrate(Stamp):
    """The document of `nki migrate`."""

    files: Annotated[list[MigratedFile], "the files, in the order of the command"]


class CacheEntry(Stamp):
    """A compiled kernel on disk. The document of `nki cache` is a list of them."""

    kernel: Annotated[str, "its name"]
    file: Annotated[str, "its source file"]
    line: Annotated[int, "its line, from 1"]
    arguments: Annotated[list[str], "what it was compiled for"]
    target: Annotated[str, "`trn1`, `trn2` or `trn3`"]
    instructions: Annotated[int, "instructions of the program"]
    bytes: Annotated[int, "size on disk"]
    age: Annotated[int, "since its last use; s"]
    path: Annotated[str, "the artifact, which `nki run` and `nki dump` accept"]


class Cleared(Stamp):
    """The document of `nki cache --clear`."""

    removed: Annotated[int, "files"]


class ModelKernel(TypedDict):
    """A kernel of a model file."""

    name: Annotated[str, "its name"]
    inputs: Annotated[list[str], "a text for each input"]
    outputs: Annotated[list[str], "a text for each output"]
    target: Annotated[str, "`trn1`, `trn2` or `trn3`"]
    bytes: Annotated[int, "size of its artifact"]
    digest: Annotated[str, "SHA-256 of its artifact"]


class Info(Stamp):
    """The document of `nki info`: the manifest of the file, and its size."""

    format: Annotated[str, "the kind of the file"]
    form: Annotated[int, "the version of that kind"]
    framework: Annotated[str, "`torch` or `jax`"]
    versions: Annotated[dict[str, str], "of the packages that wrote it"]
    inputs: Annotated[list[str], "a text for each input of the model"]
    outputs: Annotated[list[str], "a text for each output"]
    kernels: Annotated[list[ModelKernel], "the kernels that it holds"]
    program: Annotated[dict[str, Any], "name, size and digest of the framework's program"]
    bytes: Annotated[int, "size of the file"]


class KernelCall(TypedDict):
    """A call of a kernel in an HLO module."""

    op_type: Annotated[str, "the type of the operation in the graph"]
    op_name: Annotated[str, "its name there"]
    source_file: Annotated[str, "the file that it comes from"]
    kernel: Annotated[str, "the name of the kernel"]
    target: Annotated[str, "`trn1`, `trn2` or `trn3`"]
    inputs: Annotated[list[str], "the names of the inputs"]
    outputs: Annotated[list[str], "the names of the outputs"]


class KernelCalls(Stamp):
    """The document of `nki info` about an HLO module: the calls of kernels in it."""

    calls: Annotated[list[KernelCall], "the calls in order"]
    bytes: Annotated[int, "size of the file"]


class Failing(TypedDict):
    """Points that fail in one way."""

    status: Annotated[Status, "the kind, as in the rows"]
    code: Annotated[str, "the code of the error, or the class of the exception"]
    message: Annotated[str, "the message of the first one"]
    file: Annotated[str | None, "the file of the mistake"]
    line: Annotated[int | None, "its line, from 1"]
    points: Annotated[int, "the number of points"]
    first: Annotated[list[str], "the arguments of the first one, as `--arg` takes them"]


class Sweep(Stamp):
    """The document of `nki sweep`."""

    kernel: Annotated[str, "its name"]
    judged: Annotated[bool, "true if a reference judged the results"]
    points: Annotated[int, "legal points of the space"]
    failed: Annotated[int, "points that fail; the exit code is 1 if there are any"]
    failures: Annotated[list[Failing], "the failures by kind, code and line, the most frequent first"]
    rows: Annotated[list[Row], "every point, in the order of the space"]


class Tie(TypedDict):
    """A configuration that the winner does not beat in nine of ten draws of what the model does not know."""

    configuration: Annotated[dict[str, Any], "the chosen names, and their values"]
    seconds: Annotated[float, "its time; s"]
    least: Annotated[float, "the least time of its interval; s"]
    most: Annotated[float, "the greatest time of its interval; s"]


class Tuned(TypedDict):
    """The configuration that was chosen for a workload."""

    workload: Annotated[dict[str, Any], "the other names, and their values; empty if one configuration serves all"]
    target: Annotated[str, "`trn1`, `trn2` or `trn3`"]
    configuration: Annotated[dict[str, Any], "the chosen names, and their values"]
    seconds: Annotated[float, "its time, or the weighted sum of its times; s"]
    least: Annotated[float, "the least time of its interval; s"]
    most: Annotated[float, "the greatest time of its interval; s"]
    slowest: Annotated[float, "the time of the slowest legal configuration; s"]
    exhaustive: Annotated[bool, "true if all legal configurations were tried"]
    tried: Annotated[int, "configurations that were tried"]
    refused: Annotated[int, "tried configurations that fail"]
    draws: Annotated[int, "runs of the winner on fresh data"]
    passed_over: Annotated[list[Row], "faster configurations that failed on fresh data"]
    ties: Annotated[list[Tie], "configurations that may be as fast, the fastest first"]


class Tune(Stamp):
    """The document of `nki tune`."""

    kernel: Annotated[str, "its name"]
    by: Annotated[Literal["predicted", "native"], "the time that is minimised: predicted, or of native code here"]
    combinations: Annotated[int, "configurations of the space, legal or not"]
    judged: Annotated[bool, "true if a reference judged the winners"]
    choices: Annotated[list[Tuned], "the choice for each workload"]
