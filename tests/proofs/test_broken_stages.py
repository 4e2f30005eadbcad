"""Validation can fail: each test breaks what a stage or a rule has made, and the comparison of sound ones finds it.

Faults stand in what the stage itself has made or moved (faulty_programs.py), each in a kernel in which it matters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import islice, pairwise
from typing import Any, Final

import pytest

from nki.backend.cpu.fusion import group
from nki.backend.cpu.kernel_ir import lower
from nki.backend.cpu.kernel_ir.nodes import Assign, Fused, LoopStatement, MemRef, PairedSums, Reduce
from nki.base.errors import NkiError
from nki.compilation.executable import NATIVE_STAGES
from nki.compilation.pipeline import NATIVE_STOP
from nki.ir.program import Program
from nki.transforms.promote_float32 import PromoteFloat32
from tests.proofs import faulty_programs as faults
from tests.proofs import test_native_stages as native
from tests.proofs import test_stages
from tests.proofs.stage_kernels import PROFILED, SUBJECTS, field_of, with_profiled
from tests.proofs.test_stage_coverage import EXCUSED, USED
from tests.proofs.test_stages import NIGHTLY, REFERENCE, Accumulating
from tests.proofs.transformations import contents
from tests.support.symbolic_run import Field

MOST: Final = 12 if NIGHTLY else 2
"""Faults of one kind that are tried in one kernel."""
_MADE: Final = (faults.dropped, faults.elsewhere, faults.too_early)
FAULTS: Final[dict[str, tuple[tuple[str, tuple[faults.Fault, ...]], ...]]] = {
    "accumulate": (("half a sum", (*_MADE, faults.added_or_not)),),
    "order": (("edges", (faults.too_early,)),),
    "load_reuse": (("loads twice", (*_MADE, faults.miscounted)),),
    "operand_reuse": (("profiled operands", (faults.dropped,)),),
    "allocate": (
        ("softmax", (faults.overlapping,)),
        ("side by side", (faults.overlapping,)),
        ("ring of sums", (faults.overlapping,)),
        ("loads ahead", (faults.overlapping, faults.too_early)),
        ("shared banks", (faults.overlapping,)),
        ("in place", (*_MADE, faults.overlapping)),
        ("spills", (*_MADE, faults.overlapping)),
    ),
    "schedule": (("swiglu_backward", (faults.too_early,)), ("softmax", (faults.too_early,))),
    "sync": (("softmax", (faults.unawaited,)), ("two ranks", (faults.unawaited,))),
    "promote_float32": (("matmul_bfloat16", (*_MADE, faults.added_or_not)),),
    "lower_sendrecv": (("two cores", (faults.dropped, faults.elsewhere)),),
    "copy_elimination": (
        ("two ranks", (faults.dropped, faults.too_early)),
        ("swiglu_backward", _MADE),
        ("softmax", (faults.dropped, faults.too_early)),
    ),
    "fold_transposes": (("causal_attention", (*_MADE, faults.added_or_not)),),
    "share_loads": (("rms_norm", (faults.dropped, faults.too_early, faults.added_or_not)),),
    "layouts": (("causal_attention", _MADE), ("shared banks", _MADE), ("narrow product", (faults.dropped,))),
    "epilogue": (("matmul_bfloat16", _MADE),),
    "group_reductions": (("two sums", (faults.too_early,)),),
    "rematerialize": (("loads ahead", (faults.miscounted,)),),
    "fuse": (("two sums", (faults.dropped, faults.too_early)),),
    "dead_stores": (("two sums", (faults.dropped, faults.elsewhere, faults.unstored)),),
}
RULE_KERNELS: Final = {
    "split_choices": "causal_softmax",
    "store_directly": "rms_norm_backward",
    "fuse_rows": "rms_norm",
    "inline_sums": "rms_norm_backward",
    "pair_sums": "layernorm",
}
CASES: Final = [(stage, kernel) for stage, of in FAULTS.items() for kernel, _ in of if NIGHTLY or kernel != "two ranks"]
pytestmark = pytest.mark.filterwarnings("ignore::nki.NkiSpillWarning")


@cache
def _programs(kernel: str, profiled: bool) -> dict[str, Program]:
    return SUBJECTS[kernel].programs(with_profiled()) if profiled else SUBJECTS[kernel].programs()


def _around(stage: str, kernel: str) -> tuple[Program, Program, Callable[[Program, Field, Any], str]]:
    """The programs before and behind a stage, and what compares the second one with the outputs of the reference."""
    after = _programs(kernel, stage in PROFILED.names)
    for before, name in pairwise(after):
        if name == stage:
            return after[before], after[name], lambda *args: test_stages.complaint(stage, *args)
    program, target = after[NATIVE_STOP], SUBJECTS[kernel].target
    if stage == PromoteFloat32.name:
        return program, PromoteFloat32().run(program, target), native.complaint
    for each in NATIVE_STAGES:
        before, program = program, each.run(program, target)
        if each.name == stage:
            return before, program, native.complaint
    raise AssertionError(stage)


@pytest.mark.parametrize(("stage", "kernel"), CASES)
def test_a_broken_stage_is_found(stage: str, kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    native.on_processor("pairs", monkeypatch)
    monkeypatch.setattr(test_stages, "ORDERS", 40)
    before, after, complaint = _around(stage, kernel)
    field = field_of(kernel)
    expected = field.expected(_programs(kernel, False)["verify"], Accumulating)
    assert contents(before) != contents(after) and not complaint(after, field, expected)
    for fault in dict(FAULTS[stage])[kernel]:
        broken = list(islice(fault(before, after), MOST))
        assert broken, f"{fault.__name__}: nothing to break"
        unseen = [number for number, program in enumerate(broken) if not _is_found(complaint, program, field, expected)]
        assert not unseen, f"{fault.__name__}: of {len(broken)} programs these are as good as the sound one"


def _is_found(complaint: Callable[..., str], program: Program, field: Field, expected: Any) -> bool:
    try:
        return bool(complaint(program, field, expected))
    except NkiError:  # cores that wait for each other
        return True


def test_cores_that_do_not_meet_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    native.on_processor("floats", monkeypatch)
    before, after, complaint = _around("lower_sendrecv", "two cores")
    field = field_of("two cores")
    expected = field.expected(before)
    found = [bool(complaint(program, field, expected)) for program in faults.not_met(before, after)]
    # Behind the last exchange no mailbox is written again, and behind the user's barrier each core has its own half.
    assert found == [True] * 5 + [False] * 2


def test_each_stage_is_broken() -> None:
    assert {stage.name for stage in USED if type(stage).__name__ not in EXCUSED} == FAULTS.keys()
    assert {rule.__name__ for rule in lower.RULES} == RULE_KERNELS.keys()


# Rules of the kernel IR


def less(statement: LoopStatement) -> LoopStatement | None:
    """The statement is missing; of a loop the last part."""
    if isinstance(statement, Fused) and len(statement.sums) > 1:
        return replace(statement, sums=statement.sums[:-1])
    return None


def next_to_it(statement: LoopStatement) -> LoopStatement | None:
    """The statement stores its results an element further."""
    match statement:
        case Fused(_, sums) if sums:
            return replace(statement, sums=(*sums[:-1], next_to_it(sums[-1])))
        case PairedSums(_, odd):
            return replace(statement, odd=next_to_it(odd))
        case Assign(target) | Reduce(target):
            return replace(statement, target=_further(target))
    return statement


def _further(memref: MemRef) -> MemRef:
    return replace(memref, offset=memref.offset + memref.dtype.itemsize)


def to_maxima(statement: LoopStatement) -> LoopStatement | None:
    """Sums are maxima; what is no sum, the first argument of what it computes."""
    match statement:
        case Fused(_, sums) if sums:
            return replace(statement, sums=tuple(map(to_maxima, sums)))
        case PairedSums(even, odd):
            return replace(statement, even=to_maxima(even), odd=to_maxima(odd))
        case Reduce():
            return replace(statement, op="maximum")
        case Assign(_, value) if value.kind == "select":
            return replace(statement, value=value.args[2])
        case Assign(_, value) if value.args:
            return replace(statement, value=value.args[0])
    return statement


def _broken(rule: lower.Rule, fault: Callable[[Any], Any]) -> lower.Rule:
    """``rule`` with a fault in the statements that it has changed."""

    def changed(statements: list[LoopStatement], aliases: Any = ()) -> list[LoopStatement]:
        new = rule(statements, aliases)
        known = set(map(id, statements))
        return [other for each in new if (other := each if id(each) in known else fault(each)) is not None]

    return changed


@pytest.mark.parametrize("fault", [less, next_to_it, to_maxima])
@pytest.mark.parametrize("rule", lower.RULES, ids=lambda rule: rule.__name__)
def test_a_broken_rule_is_found(rule: Any, fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    native.on_processor("floats", monkeypatch)
    kernel = RULE_KERNELS[rule.__name__]
    after, field = _programs(kernel, False), field_of(kernel)
    expected = field.expected(after[REFERENCE])
    broken = _broken(rule, fault)
    monkeypatch.setattr(lower, "RULES", tuple(broken if each is rule else each for each in lower.RULES))
    if rule is group.inline_sums:
        monkeypatch.setattr(group, "inline_sums", broken)  # which loops of several instructions ask by themselves
    assert _is_wrong(after[NATIVE_STOP], field, expected)


def _is_wrong(program: Program, field: Field, expected: Any) -> bool:
    """True if the validation or the verifier of the kernel IR finds a fault, or a store behind scratch memory."""
    try:
        return bool(native.complaint(native.lowered(program), field, expected))
    except ValueError as error:
        return "size of buffer" in str(error)
    except AssertionError as error:
        return str(error).startswith("after ")
