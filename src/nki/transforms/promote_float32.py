"""``NKI_PRECISE_FP=0``: what a kernel makes in low precision is stored as float32, so that nothing is rounded.

Not a stage of the pipeline: the kernel that is checked, kept and shown stays as it was written, and what executes it
widens it first. Inputs and constants keep their dtype, which float32 holds exactly; results become float32. Integers,
scales (float8_e8m0fnu) and packed types are no low precision of anything, and stay.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from nki.base.element_types import bfloat16, float8_e4m3, float8_e4m3fn, float8_e5m2, float16, float32, tfloat32
from nki.base.errors import NkiError, WidenedViewError
from nki.ir.instruction import Inst
from nki.ir.loop import Statement
from nki.ir.program import CoreProgram, Program
from nki.ir.stage import Stage
from nki.ir.types import Access, Tensor, row_major
from nki.target.model import Target

LOW: Final = (bfloat16, float16, tfloat32, float8_e4m3, float8_e4m3fn, float8_e5m2)


class Widening:
    """The float32 tensors that replace tensors of low precision: all of them, or those named in ``only``."""

    def __init__(self, only: Collection[str] | None = None) -> None:
        self._only = only
        self._wide: dict[Tensor, Tensor] = {}

    def tensor(self, tensor: Tensor) -> Tensor:
        """The replacement of ``tensor``: itself, unless the kernel makes it in low precision."""
        if tensor.dtype not in LOW or tensor.role == "input" or tensor.data is not None:
            return tensor
        if self._only is not None and tensor.name not in self._only:
            return tensor
        if tensor not in self._wide:
            self._wide[tensor] = replace(tensor, dtype=float32)
        return self._wide[tensor]

    def access(self, access: Access) -> Access:
        """The same elements of what stands for its tensor. Raises :class:`WidenedViewError` for other types' views."""
        wide = self.tensor(access.tensor)
        if wide is access.tensor:
            return access
        if access.dtype is not access.tensor.dtype:
            raise WidenedViewError(
                f"'{access.name}' is {access.tensor.dtype} and looked at as {access.dtype}; NKI_PRECISE_FP=0 stores it "
                "as float32, which has other bits",
                fix="run this kernel without NKI_PRECISE_FP=0",
            )
        return Access(wide, access.offset, access.shape, access.strides, float32, access.dynamic)

    def inst(self, inst: Inst) -> Inst:
        """``inst`` on what stands for its operands."""
        try:
            widened = {i: wide for i, a in enumerate(inst.accesses()) if (wide := self.access(a)) is not a}
        except NkiError as error:
            raise error.at(inst.where.span, inst.where.stack) from None
        return inst.with_operands(widened) if widened else inst

    def kernel(self, kernel: Program) -> Program:
        """``kernel``, on all cores, with what stands for its tensors, and so without their places."""
        signature = kernel.signature
        forms = tuple(
            (shape, self.access(Access(tensor, 0, shape, row_major(shape), dtype)).dtype)
            for tensor, (shape, dtype) in zip(kernel.outputs, signature.forms, strict=False)
        )
        signature = replace(signature, outputs=tuple(map(self.tensor, kernel.outputs)), forms=forms)
        cores = (
            CoreProgram(core.rank, self.body(core.body), tuple(map(self.tensor, core.tensors))) for core in kernel.cores
        )
        return replace(kernel, signature=signature, cores=tuple(cores))

    def body(self, body: Iterable[Statement]) -> tuple[Statement, ...]:
        """``body`` on what stands for its operands."""
        return tuple(
            self.inst(s)
            if isinstance(s, Inst)
            else replace(s, body=self.body(s.body), tensors=tuple(map(self.tensor, s.tensors)))
            for s in body
        )


@dataclass(frozen=True)
class PromoteFloat32(Stage):
    """Store as float32 what the kernel makes in low precision: all of it, or the tensors named in ``only``."""

    name: ClassVar[str] = "promote_float32"
    only: frozenset[str] | None = None

    def run(self, program: Program, target: Target) -> Program:  # noqa: ARG002  # as all stages
        """``program`` with float32 tensors instead of tensors of low precision."""
        return Widening(self.only).kernel(program)

    def check(self, before: Program, after: Program, target: Target) -> None:  # noqa: ARG002  # as all stages
        """No tensor that is to be wide has a low precision, but for inputs and constants."""
        tensors = (tensor for core in after.cores for tensor in core.tensors)
        wanted = [t for t in tensors if self.only is None or t.name in self.only]
        left = [t.name for t in wanted if t.dtype in LOW and t.role != "input" and t.data is None]
        assert not left, f"{left} keep a low precision"
