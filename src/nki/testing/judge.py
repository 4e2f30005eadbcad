"""Checks of one program at one shape: results, memory, repetitions, dependences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nki.base import knobs
from nki.base.errors import NkiError
from nki.base.gate_errors import VerificationInputError
from nki.testing import tolerances
from nki.testing.draws import GIVEN, MADE, ORDINARY, Input, Rule, flushed, with_infinities
from nki.testing.launches import POISONS, Launches, bits
from nki.testing.tolerances import Expectation, Limits, Precision, Reference
from nki.testing.verification import Findings
from nki.workload.apart import in_one_line

Array = NDArray[Any]
AMPLIFIED: Final = (1.0, 2.0**6, 2.0**12)
"""Factors of an input until it matters to the reference beyond the tolerance."""
_ZEROS, _MEAN, _STALE = "zeros", "a constant", "the results of another draw"


@dataclass(slots=True)
class Judge:
    """``draw`` makes the arrays of a rule."""

    launches: Launches
    reference: Reference
    inputs: Sequence[Input]
    draw: Callable[[Rule], list[Array]]
    limits: Limits
    changes: Sequence[str]
    findings: Findings
    generator: np.random.Generator
    precision: Precision | None = None
    _survivors: list[dict[str, tuple[bool, bool]]] = field(default_factory=list[dict[str, tuple[bool, bool]]])
    """For each output the false results by name: whether every draw let it pass, and whether it was right in all."""
    _outputs: list[tuple[list[Array], list[Array], list[Expectation]]] = field(
        default_factory=list[tuple[list[Array], list[Array], list[Expectation]]]
    )

    def judge(self, rules: Sequence[Rule], simulated: int) -> None:
        """Make a draw for each rule and look at all of them; the first ``simulated`` ones run in the simulator too."""
        for number, rule in enumerate(rules):
            arrays = self.draw(rule)
            if self.precision is None and not self._fits(arrays):
                return
            found = self._ran(arrays, simulated=number < simulated)
            if found is None:
                return
            self._compare(rule, arrays, found)
        if self._outputs:
            self._repeat()
            self._depend()
            self._differ()

    def _fits(self, arrays: list[Array]) -> bool:
        """Shapes and dtypes of the outputs, and with them the precision."""
        right, outputs = self.reference(arrays, np.float64), self.launches.outputs
        self.precision = tolerances.precision(
            [(each.argument.shape, each.argument.dtype) for each in self.inputs],
            [each.shape for each in outputs],
            self.limits,
        )
        again = self.reference(arrays, np.float64)
        repeats = all(tolerances.is_same(*pair) for pair in zip(right, again, strict=True))
        self.findings.add("the reference says the same again", repeats, "twice on the same inputs")
        wanted, got = [each.shape for each in right], [tuple(each.shape) for each in outputs]
        self.findings.add(
            "shapes of outputs", wanted == got, f"{got}" + ("" if wanted == got else f", wanted {wanted}")
        )
        coarse = [
            f"{each.name} is {each.dtype}" for each in outputs
            if each.dtype.is_float and tolerances.unit(each.dtype) > tolerances.unit(self.precision.coarsest)
        ]  # fmt: skip
        shown = ", ".join(coarse) + f": coarser than {self.precision.coarsest}; precision='…' allows it"
        self.findings.add(
            "dtypes of outputs", not coarse, shown if coarse else ", ".join(str(e.dtype) for e in outputs)
        )
        return wanted == got

    def _ran(self, arrays: list[Array], *, simulated: bool) -> list[Array] | None:
        """The results; None if there are none. Inputs that change, unwritten memory, hazards, simulated bits."""
        before = bits(arrays)
        try:
            found = self.launches.native(arrays)
            again = self.launches.native(arrays, POISONS[1])
            hazards = bits(self.launches.simulated(arrays)) if simulated else None
        except NkiError as error:
            self.findings.add("hazards", False, in_one_line(error))
            return None
        if hazards is not None:
            watched = knobs.hazards() or None
            shown = "none in the watched simulator" if watched else "OPEN_NKI_HAZARDS=0"
            self.findings.add("hazards", watched, shown)
            self.findings.add("same bits in the simulator", hazards == bits(found), "native code and the simulator")
        self.findings.add("outputs written", bits(found) == bits(again), "memory filled in two ways before the launch")
        own = [
            name for name, (output, number) in self.launches.changed().items()
            if name not in self.changes and bits([found[output]]) != [before[number]]
        ]  # fmt: skip
        own += ["memory of an input"] * (bits(arrays) != before)
        shown = f"changed: {', '.join(own)}; changes=… allows it" if own else "bit for bit"
        self.findings.add("inputs unchanged", not own, shown)
        return found

    def _expected(self, rule: Rule, arrays: list[Array]) -> list[Expectation]:
        assert self.precision is not None
        pairs = list(zip(arrays, self.inputs, strict=True))
        subnormal, largest, nan = (rule.special == kind for kind in ("subnormal", "largest", "nan"))
        return tolerances.expectations(
            self.reference,
            arrays,
            [each.dtype for each in self.launches.outputs],
            replace(self.precision, alike=rule.special == "equal"),
            self.generator,
            also=[flushed(array, each.argument.dtype) for array, each in pairs] if subnormal else None,
            reach=[np.abs(array) if each.is_float else array for array, each in pairs] if largest else None,
            orders=[[with_infinities(array, each, sign) for array, each in pairs] for sign in (1, -1)] if nan else (),
        )

    def _compare(self, rule: Rule, arrays: list[Array], found: list[Array]) -> None:
        expected = self._expected(rule, arrays)
        self._add_results(f"results, {rule.name}", found, expected)
        if rule in (GIVEN, MADE, *ORDINARY):
            self._try_decoys(arrays, expected)
            self._outputs.append((arrays, found, expected))

    def _add_results(self, name: str, found: list[Array], expected: list[Expectation]) -> None:
        worst, shown, compared, size = 0.0, "", 0, 0
        for spec, result, each in zip(self.launches.outputs, found, expected, strict=True):
            units = each.errors(result, spec.dtype)
            compared, size = compared + int(each.defined.sum()), size + units.size
            if float(units.max(initial=0.0)) > worst:
                at = np.unravel_index(int(units.argmax()), units.shape)
                worst = float(units[at])
                place = f"{spec.name}[{', '.join(str(int(i)) for i in at)}]"
                shown = (
                    f"{place} is {float(result.astype(np.float64)[at]):.9g}, the reference says {each.right[at]:.9g}, "
                    f"tolerance {each.allowed[at]:.3g}; {int((units > 1).sum())} of {units.size} elements are wrong"
                )
        measured = f"worst {worst:.2g} of the tolerance, {compared} of {size} elements compared"
        passed = worst <= 1 if compared else None
        self.findings.add(name, passed, measured if worst <= 1 else shown, is_result=True)

    def _try_decoys(self, arrays: list[Array], expected: list[Expectation]) -> None:
        """Would this draw let false results pass? What passes in every draw, without being right, is no test."""
        last = self._outputs[-1][2] if self._outputs else None
        for number, each in enumerate(expected):
            decoys = {_ZEROS: np.zeros(each.right.shape), _MEAN: np.full(each.right.shape, _mean(each))}
            if last is not None:
                decoys[_STALE] = last[number].right
            for own, array in zip(self.inputs, arrays, strict=True):
                if array.shape == each.right.shape and own.argument.dtype.computes:
                    decoys[f"a copy of {own.argument.dtype} input {own.argument.shape}"] = array
            if len(self._survivors) <= number:
                self._survivors.append({})
            alive, dtype = self._survivors[number], self.launches.outputs[number].dtype
            for name, decoy in decoys.items():
                wide = decoy.astype(np.float64)
                passes = bool((each.errors(wide, dtype) <= 1).all())
                exact = bool(((wide == each.right) | ~each.defined).all())
                before = alive.get(name, (True, True))
                alive[name] = (before[0] and passes, before[1] and exact)

    def _repeat(self) -> None:
        """The first draw again after others, on one thread and on two."""
        arrays, found, _ = self._outputs[0]
        wanted = bits(found)
        self.findings.add("same bits in a second run", bits(self.launches.native(arrays)) == wanted, "after other runs")
        same = all(bits(self.launches.native(arrays, threads=count)) == wanted for count in (1, 2))
        self.findings.add("same bits on 1 and 2 threads", same, "NKI_NUM_THREADS")

    def _depend(self) -> None:
        """Each input in turn is another one: where that matters to the reference, results follow."""
        for number, own in enumerate(self.inputs):
            name = f"depends on input {number}"
            if not own.varies:
                self.findings.add(name, None, "it is the same in every draw")
            elif not any(self._follows(name, number, factor, base) for factor, base in self._changes_of(own)):
                self.findings.add(name, None, "it does not matter to the reference beyond the tolerance")

    def _changes_of(self, own: Input) -> list[tuple[float, int]]:
        """Factors of another ``own``, and the draws in which it takes the place of the one there."""
        factors = AMPLIFIED if own.is_float and self.draw_is_free(own) else AMPLIFIED[:1]
        return [(factor, base) for factor in factors for base in sorted({0, len(self._outputs) - 1})]

    def _follows(self, name: str, number: int, factor: float, base: int) -> bool:
        """False if another input ``number`` in the draw ``base`` does not matter; else its check is made."""
        arrays, found, expected = self._outputs[base]
        own, rule, other = self.inputs[number], Rule("another", scale=factor), [*arrays]
        other[number] = own.drawn(rule, self.generator) if self.draw_is_free(own) else self.draw(MADE)[number]
        changed = self._expected(rule, other)
        if not any(_differ(*pair) for pair in zip(expected, changed, strict=True)):
            return False
        results = self.launches.native(other)
        self.findings.add(name, bits(results) != bits(found), f"another one, x {factor:g}, changes the results")
        self._add_results("results, one input changed", results, changed)
        return True

    def draw_is_free(self, own: Input) -> bool:
        """False if the user's ``make`` draws ``own``."""
        return own.argument.fill != MADE.name

    def _differ(self) -> None:
        """Outputs that are the same in all draws, or copies of an input, where the reference's are not."""
        for number, spec in enumerate(self.launches.outputs):
            results = [found[number] for _, found, _ in self._outputs]
            rights = [expected[number].right for _, _, expected in self._outputs]
            constant = len({each.tobytes() for each in results}) == 1 < len({each.tobytes() for each in rights})
            self.findings.add("outputs not constant", not constant, f"{spec.name}, {len(results)} draws")
            copies = [
                str(place)
                for place, own in enumerate(self.inputs)
                if own.argument.shape == spec.shape
                and all(bits([arrays[place]]) == bits([found[number]]) for arrays, found, _ in self._outputs)
                and not all(np.array_equal(arrays[place].astype(np.float64), expected[number].right, equal_nan=True)
                            for arrays, _, expected in self._outputs)
            ]  # fmt: skip
            shown = f"{spec.name} is input {', '.join(copies)}" if copies else spec.name
            self.findings.add("outputs no copy of an input", not copies, shown)
            old = [each.view(np.uint8).reshape(-1, spec.dtype.itemsize) for each in results]
            never = np.all([each == np.frombuffer(spec.dtype.poison, np.uint8) for each in old], axis=(0, 2))
            wrong = np.zeros(spec.shape, np.bool_)
            for _, found, expected in self._outputs:
                wrong |= expected[number].defined & (found[number].astype(np.float64) != expected[number].right)
            unwritten = int((never & wrong.reshape(-1)).sum())
            shown = f"{spec.name}: {unwritten} of {never.size} elements hold what fresh memory has, in every draw"
            self.findings.add("outputs written", not unwritten, shown)
            weak = [name for name, (passes, exact) in self._survivors[number].items() if passes and not exact]
            self.findings.add(
                "the test can fail", not weak,
                f"{spec.name}: {weak[0]} would pass in every draw" if weak
                else f"{spec.name}: zeros, constants, old results and inputs would not pass",
            )  # fmt: skip


def _mean(expected: Expectation) -> float:
    usable = expected.defined & np.isfinite(expected.right)
    return float(expected.right[usable].mean()) if usable.any() else 0.0


def _differ(one: Expectation, other: Expectation) -> bool:
    with np.errstate(all="ignore"):
        beyond = np.abs(one.right - other.right) > one.allowed + other.allowed
    return bool((beyond & one.defined & other.defined).any())


def reading(call: Callable[[], list[Array]], what: str) -> list[Array]:
    """The arrays of a user's function. Raises :class:`VerificationInputError` if it raises."""
    try:
        return call()
    except NkiError:
        raise
    except Exception as error:
        raise VerificationInputError(
            f"{what} raises {type(error).__name__}: {error}", fix="call it yourself"
        ) from error
