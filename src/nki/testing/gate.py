"""``nki.testing.verify``: a kernel computes what its reference says, whoever asks and whatever the numbers are."""

from __future__ import annotations

import contextlib
import inspect
import os
import random
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from nki import target as targets
from nki.base import element_types as dtypes
from nki.base import knobs
from nki.base.element_types import DType
from nki.base.errors import NkiError
from nki.base.gate_errors import VerificationInputError
from nki.base.usage import UsageError, nearest
from nki.base.warning import collecting
from nki.compilation import pipeline
from nki.frontend.frontend_errors import NotAFunctionError
from nki.ir.program import Program
from nki.ir.text import artifact
from nki.jit import Kernel, adapter_for, jit
from nki.sweeps import comparison
from nki.sweeps.expressions import ExpressionError, substituted
from nki.testing import draws, ordinary_calls
from nki.testing.draws import MADE, SPECIAL, Input, Make, Rule, Sizes
from nki.testing.judge import Judge, reading
from nki.testing.launches import Launches, bits
from nki.testing.ordinary_calls import Call
from nki.testing.replaced import replaced
from nki.testing.tolerances import Limits, Precision
from nki.testing.verification import Findings, Verification
from nki.workload import apart, load_kernel
from nki.workload import arguments as texts
from nki.workload.apart import Answer, LostChildError, Question, Shaped
from nki.workload.arguments import TensorArgument
from nki.workload.reference import detached

Array = NDArray[Any]
SHAPES: Final = 6
"""Sets of sizes that are taken from ranges."""
SIMULATED: Final = 2
"""Draws of each shape that run in the simulator too, which watches for hazards."""
_REPEATS, _MANY = 3, 100
"""Programs that one process makes of a kernel, one after the other, and of its first shape."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """Arguments of one shape: inputs in place of tensors."""

    positional: tuple[Any, ...]
    named: dict[str, Any]

    def question(self, repeats: int = 1, arrays: Sequence[Array] = ()) -> Question:
        """A question to a child about them."""
        given = _shaped(self.positional), dict(zip(self.named, _shaped(self.named.values()), strict=True))
        return Question(*given, repeats, tuple(("", each) for each in bits(arrays)))


def _shaped(values: Any) -> tuple[Any, ...]:
    return tuple(Shaped(v.argument.shape, v.argument.dtype) if isinstance(v, Input) else v for v in values)


@dataclass(frozen=True, slots=True)
class Source:
    """The origin of a kernel: the object, or the name of a file that only children import."""

    kernel: Kernel | None
    file: str
    name: str

    @property
    def shown(self) -> str:
        return self.name or (self.kernel.func.__name__ if self.kernel is not None else self.file)

    def ask(self, questions: Sequence[Question], *, hidden: bool = True) -> list[Answer]:
        """Answers of a child that has nothing else to do."""
        if self.kernel is not None:
            return apart.forked(self.kernel, questions, hidden=hidden)
        return apart.fresh(self.file, self.name, questions, ahead=not hidden)

    @property
    def grid(self) -> tuple[int, ...]:
        return self.kernel.grid if self.kernel is not None else ()


def verify(
    kernel: Kernel | Callable[..., Any] | str,
    reference: Callable[..., Any] | str,
    *args: Any,
    sizes: Sizes | None = None,
    make: Make | None = None,
    seeds: int = 2,
    seed: int | None = None,
    special: Sequence[str] = SPECIAL,
    precision: Any = None,
    tolerance: float | None = None,
    changes: Sequence[str] = (),
    fresh: bool = True,
    **kwargs: Any,
) -> Verification:
    """Verify ``kernel`` against ``reference`` (``docs/verify.md``). Returns what was found and raises nothing for it.

    ``kernel``: a kernel, or its name "FILE.py:NAME", which this process then never imports. ``reference``: a function
    of NumPy, PyTorch or JAX, or its name "FILE.py:NAME"; it gets the tensors, by position, and of the constants the
    ones that it has as parameters.

    ``args``, ``kwargs``: of the kernel. A tensor is an array of any framework, as an example, or a text such as
    "128x512:float32" (docs/cli.md, Arguments); braces in it hold expressions over ``sizes``, as "{M}x512:float32".
    ``sizes``: for each name a number, a list, or a range: its ends, the sizes around 128 and 512 in it, and two
    random ones are taken, six at most. ``make(generator)``: returns all arguments
    of a draw, where random numbers are no legal inputs; then there are neither ``args`` nor ``kwargs``.

    ``seeds``: rounds of random numbers. ``seed``: of all of them; by default the system's entropy. ``special``: kinds
    of special values to try, of "nan", "inf", "zero", "subnormal", "largest", "equal". ``precision``: the coarsest
    dtype in which outputs and intermediate tiles may be; by default the coarsest float dtype among the inputs, and for
    intermediate tiles not coarser than bfloat16. ``tolerance``: a part of the largest magnitude of each output, in
    place of what is derived. ``changes``: names of the inputs that the kernel may change. ``fresh=False``: not compiled
    in a new process, too.

    Raises :class:`VerificationInputError` for arguments that cannot be used, :class:`BadReferenceError` for a reference
    that raises.
    """
    _check_options(seeds, special, changes, tolerance)
    if apart.serving:
        raise VerificationInputError(
            "verify was called while the file of a kernel is imported", fix="call it in a function of a test"
        )
    if not knobs.precise_fp():
        raise VerificationInputError("NKI_PRECISE_FP=0 verifies another program", fix="unset it")
    source = _source(kernel)
    function = _reference(reference, source)
    chosen = int.from_bytes(os.urandom(6)) if seed is None else seed
    rng = random.Random(chosen)
    limits = Limits(None if precision is None else _dtype(precision), tolerance)
    gate = _Gate(source, function, limits, tuple(changes), seeds, tuple(special), make, rng, Findings())
    if make is not None:
        if args or kwargs or sizes:
            raise VerificationInputError("make=… makes all arguments", fix="leave out args, kwargs and sizes")
        given = reading(lambda: list(make(np.random.default_rng(rng.getrandbits(63)))), "make")
        shapes = [Arguments(tuple(_examples(given)), {})]
    else:
        sets = draws.shapes(sizes or {}, SHAPES, rng)
        shapes = [
            Arguments(tuple(_read(a, s) for a in args), {n: _read(v, s) for n, v in kwargs.items()}) for s in sets
        ]
    return gate.run(shapes, chosen, fresh)


def _check_options(seeds: int, special: Sequence[str], changes: Sequence[str], tolerance: float | None) -> None:
    if seeds < 1:
        raise VerificationInputError(f"seeds={seeds}", fix="pass 1 or more")
    for kind in special:
        if kind not in SPECIAL:
            raise VerificationInputError(f"special: there is no {kind!r}", fix=nearest(kind, SPECIAL, "special values"))
    if tolerance is not None and not 0 <= tolerance < 1:
        raise VerificationInputError(f"tolerance={tolerance}", fix="pass a part of the largest result, such as 1e-3")
    if isinstance(changes, str):
        raise VerificationInputError(f"changes={changes!r}", fix=f"pass names: changes=[{changes!r}]")


def _dtype(given: Any) -> DType:
    found = dtypes.of(given)
    if not found.is_float or not found.computes:
        raise VerificationInputError(f"precision={found}", fix='pass a float dtype, such as "bfloat16"')
    return found


def _source(kernel: Any) -> Source:
    if isinstance(kernel, str):
        try:
            file, name = load_kernel.split(kernel)
        except UsageError as error:
            raise VerificationInputError(error.message, fix=error.fix) from None
        if not file.endswith(".py") or not Path(file).is_file():
            raise VerificationInputError(f"there is no Python file {file}", fix="pass FILE.py:NAME")
        return Source(None, str(Path(file).resolve()), name)
    if isinstance(kernel, Kernel) and not _is_own(type(kernel)):
        raise VerificationInputError(
            f"{type(kernel).__name__} is a class of kernels of its own", fix="pass what @nki.jit makes"
        )
    try:
        made: Kernel = kernel if isinstance(kernel, Kernel) else jit(kernel)
    except NotAFunctionError as error:
        raise VerificationInputError(error.message, fix="pass the kernel, or the function without @nki.jit") from None
    func = inspect.unwrap(made.func)
    file = inspect.getsourcefile(func) or ""
    is_found = Path(file).is_file() and "<locals>" not in func.__qualname__ and func.__module__ != "__main__"
    return Source(made, str(Path(file).resolve()) if is_found else "", func.__qualname__ if is_found else "")


def _is_own(kind: type[Any]) -> bool:
    """Test if this package defines ``kind``: other classes could do anything here."""
    module = sys.modules.get(kind.__module__)
    return kind.__module__.partition(".")[0] == "nki" and getattr(module, kind.__name__, None) is kind


def _reference(reference: Any, source: Source) -> Callable[..., Any]:
    if not isinstance(reference, str):
        if not callable(reference):
            raise VerificationInputError(
                f"the reference is {reference!r}", fix="pass a function of NumPy, PyTorch or JAX"
            )
        return cast("Callable[..., Any]", reference)
    found = comparison.named(reference, source.file)
    assert found is not None or not reference
    if found is None or (source.kernel is None and found.file == source.file):
        raise VerificationInputError(
            f"the reference {reference!r} is in the file of the kernel, and both have one author",
            fix="write it in a file of its own",
        )
    return found.found()


def _examples(given: Sequence[Any]) -> list[Any]:
    """Arguments of ``make``, tensors as inputs that only ``make`` draws."""
    adapter = adapter_for(tuple(given), {})
    return [
        Input(_argument(adapter.to_numpy(detached(a)), MADE.name)) if adapter.is_framework_tensor(a) else a
        for a in given
    ]


def _argument(array: Array, fill: str) -> TensorArgument:
    dense = np.array(array, order="C")
    return TensorArgument(dense.shape, dtypes.of(dense.dtype), lambda _: dense, given=True, fill=fill)


def _read(value: Any, sizes: dict[str, int]) -> Any:
    """An argument: an :class:`Input` for a tensor or the text of one, else a constant."""
    if isinstance(value, str):
        try:
            name, found = texts.parse(substituted(value, sizes))
        except UsageError as error:
            raise VerificationInputError(re.sub(r"^--arg ", "", error.message), fix=error.fix) from None
        except (ExpressionError, KeyError) as error:
            raise VerificationInputError(f"argument {value!r}: {error}", fix="pass the name in sizes={…}") from None
        if name:
            raise VerificationInputError(f"argument {value!r} names a parameter", fix=f"write {name}={value!r}")
        return Input(found) if isinstance(found, TensorArgument) else found
    adapter = adapter_for((value,), {})
    if adapter.is_framework_tensor(value):
        array = np.array(adapter.to_numpy(detached(value)), order="C")
        return Input(_argument(array, ""), array)
    return value


@dataclass(frozen=True, slots=True)
class _Gate:
    """One verification: its subject and its options."""

    source: Source
    reference: Callable[..., Any]
    limits: Limits
    changes: tuple[str, ...]
    seeds: int
    special: tuple[str, ...]
    make: Make | None
    rng: random.Random
    findings: Findings
    calls: list[Call] = field(default_factory=list[Call])

    def run(self, shapes: list[Arguments], seed: int, fresh: bool) -> Verification:
        """All shapes, one after the other. The programs are there before the first number is drawn."""
        answers = self._programs(shapes, fresh)
        precision: Precision | None = None
        for arguments, answer in zip(shapes, answers, strict=True):
            judged = self._shape(arguments, answer) if "programs" in answer else None
            precision = judged or precision
        if fresh and self.calls and not self.findings.failed:
            self._call()
        return Verification(
            self.source.shown,
            next((str(each["target"]) for each in answers if "programs" in each), "no target"),
            seed,
            self.findings.checks(),
            tuple(_described(each) for each in shapes),
            precision.derivation() if precision else "none: nothing was compared",
            tuple(each["programs"][0] for each in answers if "programs" in each),
        )

    def _programs(self, shapes: list[Arguments], fresh: bool) -> list[Answer]:
        """The programs of all shapes, from children: the same again, in another process, under a test and in none."""
        if self.source.kernel is not None and self.source.file:
            names = replaced(self.source.file)
            shown = f"the kernel's file has {', '.join(names[:4])}" if names else "of NumPy, PyTorch, JAX, this package"
            self.findings.add("no functions replaced", not names, shown)
        questions = [each.question(_REPEATS if number else _MANY) for number, each in enumerate(shapes)]
        once = [each.question() for each in shapes]
        try:
            answers = self.source.ask(questions)
            others = {"in a process that tests": self.source.ask(once, hidden=False)}
            if fresh and self.source.kernel is not None and self.source.file:
                with contextlib.suppress(TypeError):  # constants that no other process could get
                    others["in a new process"] = apart.fresh(
                        self.source.file, self.source.name, once, grid=self.source.grid, ahead=True
                    )
        except LostChildError as error:
            self.findings.add("compiles", False, str(error))
            return [{} for _ in shapes]
        for number, (answer, arguments) in enumerate(zip(answers, shapes, strict=True)):
            good = "programs" in answer
            self.findings.add(
                "compiles", good, _described(arguments) if good else f"{_described(arguments)}: {answer['message']}"
            )
            if not good:
                continue
            again = len(set(_digests(answer))) == 1
            self.findings.add("same program again", again, f"{answer.get('made')} times in one process")
            for where, found in others.items():
                same = _digests(found[number])[:1] == _digests(answer)[:1]
                said = f"; it says {found[number]['message']}" if "message" in found[number] else ""
                self.findings.add(f"same program {where}", same, "the text of the program" + said)
        return answers

    def _shape(self, arguments: Arguments, answer: Answer) -> Precision | None:
        by_name = self._by_name(arguments, answer["names"])
        inputs = {name: value for name, value in by_name.items() if isinstance(value, Input)}
        try:
            target = targets.find(answer["target"])
            with collecting(aside=True):
                program: Program = artifact.loads(answer["programs"][0])
                launches = Launches(pipeline.compile(None, {}, target, start=program, stop=pipeline.NATIVE_STOP))
        except NkiError as error:
            self.findings.add("compiles", False, apart.in_one_line(error))
            return None

        def reference(arrays: Sequence[Array], working: Any) -> list[Array]:
            copies = [each.copy() for each in arrays]
            return comparison.expected(self.reference, by_name, copies, list(inputs), working)

        generator = np.random.default_rng(self.rng.getrandbits(63))
        order = list(inputs.values())

        def draw(rule: Rule) -> list[Array]:
            return draws.drawn(order, rule, generator) if self.make is None else self._made(generator, arguments)

        judge = Judge(launches, reference, order, draw, self.limits, self.changes, self.findings, generator)
        rules = draws.rules(self.seeds, self.special, order, self.make is not None)
        self.rng.shuffle(rules)
        with collecting(aside=True):
            judge.judge(rules, SIMULATED)
            arrays = draw(rules[0])
            self._simulate(arguments, launches, arrays)
            places = {id(each): number for number, each in enumerate(order)}
            given = [each for each in (*arguments.positional, *arguments.named.values()) if isinstance(each, Input)]
            wanted = [apart.digest(each) for each in launches.native([each.copy() for each in arrays])]
            own = [arrays[places[id(each)]] for each in given]
            self.calls.append(Call(arguments.question(), own, wanted))
        return judge.precision

    def _call(self) -> None:
        """The kernel in a program of a few lines, as its users call it, has the bits of what was verified."""
        if self.source.file:
            wrong = ordinary_calls.differ(self.source.file, self.source.name, self.source.grid, self.calls)
            passed = None if wrong is None else not wrong
            shown = "its arguments cannot be written down" if wrong is None else wrong or "a program of a few lines"
            self.findings.add("same bits as a call", passed, shown)

    def _by_name(self, arguments: Arguments, names: list[str]) -> dict[str, Any]:
        """The arguments by parameter, in the kernel's order; defaults too if the kernel is at hand."""
        kernel = self.source.kernel
        if kernel is not None:
            return kernel.bind(arguments.positional, arguments.named)
        given = dict(zip(names, arguments.positional, strict=False)) | arguments.named
        return {name: given[name] for name in names if name in given}

    def _made(self, generator: np.random.Generator, arguments: Arguments) -> list[Array]:
        """The arrays of one draw by the user's function, of the shapes that the kernel was compiled for."""
        assert self.make is not None
        make = self.make
        found = [each for each in _examples(reading(lambda: list(make(generator)), "make")) if isinstance(each, Input)]
        wanted = [each for each in arguments.positional if isinstance(each, Input)]
        if [(e.argument.shape, e.argument.dtype) for e in found] != [
            (e.argument.shape, e.argument.dtype) for e in wanted
        ]:
            raise VerificationInputError("make returns other shapes or dtypes", fix="vary numbers only")
        return [each.argument.make(generator) for each in found]

    def _simulate(self, arguments: Arguments, launches: Launches, arrays: list[Array]) -> None:
        """The kernel's Python in the simulator, with numbers in its memory, gives the bits of the native program."""
        try:
            [answer] = self.source.ask([arguments.question(arrays=arrays)])
        except LostChildError as error:
            answer = {"message": str(error)}
        wanted = [apart.digest(each) for each in launches.native(arrays)]
        same = answer.get("digests") == wanted
        self.findings.add(
            "same bits as nki.simulate", same, str(answer.get("message", "the kernel's Python, run with data"))
        )


def _described(arguments: Arguments) -> str:
    named = {"": arguments.positional} | {f"{name}=": (value,) for name, value in arguments.named.items()}
    tensors = [
        f"{name}{'x'.join(map(str, value.argument.shape))}:{value.argument.dtype}"
        for name, values in named.items()
        for value in values
        if isinstance(value, Input)
    ]
    return " ".join(tensors)


def _digests(answer: Answer) -> list[str]:
    """The digests of the programs in an answer. Raises :class:`ArtifactError` if they are no programs."""
    return [artifact.digest(each) for each in answer.get("programs", ())]
