"""Every mistake that this project can report: one class each, with a stable code.

A message names the tensor, the limit and the value; ``fix`` says what to do; ``span`` points at the user's line and
``stack`` holds the NKI calls that led there, outermost first. A class defines its code once; two classes with one code
are refused at import.
"""

from __future__ import annotations

from typing import ClassVar

from nki.base.source import Span, caret
from nki.base.version import version


class NkiError(Exception):
    """Base of all errors that this package raises for a user's mistake."""

    code: ClassVar[str] = "NKI-E000"
    registry: ClassVar[dict[str, type[NkiError]]] = {}

    def __init_subclass__(cls) -> None:
        if "code" not in cls.__dict__ or cls.code in NkiError.registry:
            raise TypeError(f"{cls.__name__} needs an error code of its own")
        NkiError.registry[cls.code] = cls

    def __init__(
        self, message: str, *, fix: str = "", span: Span | None = None, stack: tuple[Span, ...] = (), rule: str = ""
    ) -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix
        self.span = span
        self.stack = stack
        self.rule = rule
        self.is_late = False
        """The mistake is neither in the running line nor in a caller of it."""

    def at(self, span: Span | None, stack: tuple[Span, ...] = ()) -> NkiError:
        """The same error, placed at ``span`` unless it already has a place; returns itself."""
        if self.span is None:
            self.span, self.stack = span, stack
        return self

    def __str__(self) -> str:
        code = f"{self.code}/{self.rule}" if self.rule else self.code
        lines = [f"[{code}] {self.message}"]
        if self.span is not None:
            lines.append(f"  --> {self.span}")
            if drawn := caret(self.span):
                lines.append(drawn)
        lines.extend(f"  called from {place}" for place in reversed(self.stack))
        if self.fix:
            lines.append(f"  fix: {self.fix}")
        lines.append(f"  (open-nki {version()})")
        return "\n".join(lines)


# Types and values


class UnknownDTypeError(NkiError):
    """A dtype that NKI does not have."""

    code = "NKI-DT001"


class DTypeError(NkiError):
    """An instruction or call got a dtype that it does not take."""

    code = "NKI-DT002"


class WidenedViewError(NkiError):
    """A kernel looks at the bits of a tensor that ``NKI_PRECISE_FP=0`` stores as float32."""

    code = "NKI-DT003"


class ShapeError(NkiError):
    """Shapes or element counts that do not fit together, or exceed an instruction's limit."""

    code = "NKI-SH001"


class PartitionError(NkiError):
    """More partitions than the machine has, or a partition start that an instruction does not allow."""

    code = "NKI-SH002"


class MemoryRegionError(NkiError):
    """An operand in a memory that the instruction cannot read or write."""

    code = "NKI-BU001"


class PsumError(NkiError):
    """A PSUM rule: banks, accumulation, or what may write there."""

    code = "NKI-BU002"


class CapacityError(NkiError):
    """A tensor larger than the memory that should hold it."""

    code = "NKI-BU003"


class MemoryFullError(NkiError):
    """Tensors that are in use at one moment and together need more than the memory has."""

    code = "NKI-BU004"


class AddressOverlapError(NkiError):
    """Two tensors that the user placed on the same bytes while both are in use."""

    code = "NKI-BU005"


class EngineError(NkiError):
    """An engine that cannot run the instruction."""

    code = "NKI-EN001"


class OperatorError(NkiError):
    """An operator that the instruction does not take."""

    code = "NKI-OP001"


class ArgumentError(NkiError):
    """An argument of a wrong kind or value."""

    code = "NKI-AR001"


class GenerationError(NkiError):
    """A feature that the target does not have."""

    code = "NKI-TG002"


class OutsideKernelError(NkiError):
    """An NKI instruction or allocation called outside a kernel."""

    code = "NKI-KN001"


class TextError(NkiError):
    """Text that is not a kernel in text form."""

    code = "NKI-IR001"


class ArtifactError(NkiError):
    """A file that is not a usable kernel artifact."""

    code = "NKI-IR002"


class WindowError(NkiError):
    """An operand, read from text or from an artifact, that reaches where it must not."""

    code = "NKI-IR003"


class StructureError(NkiError):
    """A kernel, read from text or from an artifact, with parts that do not fit together."""

    code = "NKI-IR004"


class PlaceError(NkiError):
    """A place of a tensor, read from text or from an artifact, that it cannot have."""

    code = "NKI-IR005"


# Targets


class UnknownTargetError(NkiError):
    """A hardware generation that this project does not know."""

    code = "NKI-TG001"


# Kernels as a whole


class InputWrittenError(NkiError):
    """A kernel writes to an input that it does not return, and its caller has arrays that cannot change."""

    code = "NKI-KN002"


class OutputUnwrittenError(NkiError):
    """A kernel returns a tensor that it never writes."""

    code = "NKI-KN003"


class ReturnError(NkiError):
    """A kernel returns something that its caller cannot receive."""

    code = "NKI-KN004"


class KernelArgumentError(NkiError):
    """A kernel was called with arguments that do not fit its signature, or that cannot be compiled in."""

    code = "NKI-KN005"


class GridError(NkiError):
    """A launch grid that the target cannot run."""

    code = "NKI-KN006"


class StageError(NkiError):
    """A compiler stage that does not exist."""

    code = "NKI-KN007"


class FileImportError(NkiError):
    """A file of kernels cannot be imported: its own code, outside of functions, raises an exception."""

    code = "NKI-KN008"


class ConstantWrittenError(NkiError):
    """A kernel writes to a constant."""

    code = "NKI-KN009"


class SharedTensorError(NkiError):
    """Cores that share a tensor disagree on what it is."""

    code = "NKI-KN010"


class CoreError(NkiError):
    """An instruction that meets other cores, where there are none, or with cores that the launch does not have."""

    code = "NKI-KN011"


class DeadlockError(NkiError):
    """Cores wait for each other, and none of them can go on."""

    code = "NKI-KN012"


class IndexRangeError(NkiError):
    """An index or slice outside its tensor, or of a kind that tensors do not take."""

    code = "NKI-TN001"


class ViewError(NkiError):
    """A view that the tensor's layout does not allow."""

    code = "NKI-TN002"


class TensorOperatorError(NkiError):
    """A Python operator applied to a tensor."""

    code = "NKI-TN003"


class WriteOverlapError(NkiError):
    """An instruction writes through a view that names an element more than once."""

    code = "NKI-TN004"


class TileTypeError(NkiError, TypeError):
    """A shape of tiles that is no tuple of integers, or a grid of what is no tensor."""

    code = "NKI-TN005"


class TileShapeError(NkiError, ValueError):
    """Shapes of tiles or blocks that cannot be, or do not fit their tensor."""

    code = "NKI-TN006"


# Run-time values


def keep_report(error: Exception) -> None:
    """Raise ``error`` again if it is a report already, as where Python takes a register for a number."""
    if isinstance(error, NkiError):
        raise error


class RegisterUseError(NkiError, TypeError):
    """Python computes with a register, or branches on it: its value exists only while the kernel runs.

    A ``TypeError`` as well, which NKI 0.7 raises here.
    """

    code = "NKI-RG001"


class FrozenRegisterError(NkiError):
    """A write to the register that counts a loop's iterations."""

    code = "NKI-RG002"


class DynamicLoopError(NkiError):
    """A loop that runs on the device is left early, or is given bounds, a step or a body that it cannot have."""

    code = "NKI-RG003"


class DynamicIndexError(NkiError):
    """A run-time index where the hardware takes none: a second one, on partitions, in a memory without them."""

    code = "NKI-RG004"


class OutOfBoundsError(NkiError):
    """A run-time index led outside its tensor."""

    code = "NKI-RG005"


class LoopScopeError(NkiError):
    """A tensor made inside the body of a run-time loop is used after the loop."""

    code = "NKI-RG006"


# Hazards: programs that trust bytes which are not there


class UnwrittenReadError(NkiError):
    """Memory or a register is read that nothing has written."""

    code = "NKI-HZ001"


class StaleReadError(NkiError):
    """A placed tile is read before it was written: it lies on what another tile left."""

    code = "NKI-HZ002"


class ClobberedReadError(NkiError):
    """A placed tile is read after another tile was written over it."""

    code = "NKI-HZ003"


class AccumulationError(NkiError):
    """A matmul adds to a place in PSUM where no matmul has begun a sum."""

    code = "NKI-HZ004"


class CoreRaceError(NkiError):
    """Two cores touch the same bytes of shared memory, one of them to write, and no barrier says who is first."""

    code = "NKI-HZ005"


# Several ranks


class SeveralRanksError(NkiError):
    """A collective among several ranks in a launch of one."""

    code = "NKI-CC001"


class RankMismatchError(NkiError):
    """Ranks of one group come to a collective with other arguments, shapes or dtypes."""

    code = "NKI-CC002"


class RankArgumentError(NkiError):
    """The arguments of a launch of several ranks are not one for each rank."""

    code = "NKI-CC003"


class LostRankError(NkiError):
    """A rank in another process did not come to a collective in time, or its process has ended."""

    code = "NKI-CC004"


class CollectiveOrderError(NkiError):
    """The cores of a rank call other collectives, or a prepared collective is not triggered exactly once."""

    code = "NKI-CC005"


# Order


class ScheduleNameError(NkiError):
    """An edge between instructions names one that does not exist, or a name that several have."""

    code = "NKI-SC001"


class ScheduleScopeError(NkiError):
    """An edge between instructions leads into a run-time loop or out of it."""

    code = "NKI-SC002"


class ScheduleCycleError(NkiError):
    """Edges between instructions and the dependences of their data make a circle: nothing in it could begin."""

    code = "NKI-SC003"


class QueueError(NkiError):
    """A scheduled kernel has an instruction on a queue that cannot run it, or on none."""

    code = "NKI-SC004"


class MissingWaitError(NkiError):
    """A scheduled kernel lets an instruction begin before another one, which it depends on, is complete."""

    code = "NKI-SC005"


class QueueDeadlockError(NkiError):
    """The queues of a scheduled kernel wait for each other, or for what never comes."""

    code = "NKI-SC006"


# Entry points of public harnesses


class DeviceOnlyError(NkiError):
    """A service of Trainium or of its graph compiler, asked of a machine that has neither."""

    code = "NKI-HN001"
