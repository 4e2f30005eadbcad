"""Float arguments of kernels: those that stay arguments of the compiled program, and programs for values of these."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from nki.ir.floats.runtime_float import FloatSpec, Formula, RuntimeFloat, Uses, dependent, evaluate, names, show
from nki.ir.instruction import Inst
from nki.ir.loop import Loop, Statement
from nki.ir.program import Program


def as_arguments(arguments: Mapping[str, Any], uses: Uses, compiled_in: Iterable[str] = ()) -> dict[str, Any]:
    """``arguments`` with the floats among them as run-time floats, except those named in ``compiled_in``."""
    return {
        name: RuntimeFloat.of(value, name, uses) if type(value) is float and name not in compiled_in else value
        for name, value in arguments.items()
    }


def with_float_arguments(program: Program, arguments: Mapping[str, Any]) -> Program:
    """``program``, just recorded for ``arguments``, with those run-time floats in its signature that stay arguments.

    What instructions hold of the others becomes numbers.
    """
    floats = {name: value for name, value in arguments.items() if type(value) is RuntimeFloat}
    held = [formula for inst in program.instructions() for formula in _formulas(inst)]
    taken = dependent(held, next(iter(floats.values())).uses or ())
    specs = tuple(FloatSpec(name, value.current()) for name, value in floats.items() if name not in taken)
    program = replace(program, signature=replace(program.signature, floats=specs))
    return _replaced(program, taken, None) if not taken.isdisjoint(name for f in held for name in names(f)) else program


def for_values(program: Program, values: Mapping[str, float]) -> Program:
    """``program`` without float arguments, for these ``values`` of them. Raises what Python's floats raise."""
    if not program.signature.floats:
        return program
    named = {spec.name: values.get(spec.name, spec.value) for spec in program.signature.floats}
    program = replace(program, signature=replace(program.signature, floats=()))
    return _replaced(program, named.keys(), lambda formula: evaluate(formula, named))


def for_formulas(program: Program, formulas: Iterable[Formula], values: Iterable[float]) -> Program:
    """``program`` without float arguments, where each of ``formulas`` has its value.

    Others, which native code has no use for, have the values of the compilation.
    """
    by_text = {show(formula): value for formula, value in zip(formulas, values, strict=True)}
    taken = {spec.name for spec in program.signature.floats}
    program = replace(program, signature=replace(program.signature, floats=()))
    return _replaced(program, taken, lambda formula: by_text.get(show(formula)))


def _formulas(inst: Inst) -> Iterator[Formula]:
    for number in inst.immediates():
        if type(number) is RuntimeFloat:
            yield number.formula


def _replaced(program: Program, taken: Iterable[str], value_of: Callable[[Formula], float | None] | None) -> Program:
    """``program`` with numbers instead of the formulas that hold a name of ``taken``; their own where ``value_of`` has
    none.
    """
    chosen = set(taken)

    def inst(old: Inst) -> Inst:
        changes: dict[str, Any] = {}
        for name in old.immediate_names:
            value = old.__dict__[name]
            if type(value) is RuntimeFloat and not chosen.isdisjoint(names(value.formula)):
                number = None if value_of is None else value_of(value.formula)
                changes[name] = value.current() if number is None else number
        return old.replace(**changes) if changes else old

    def body(statements: Iterable[Statement]) -> tuple[Statement, ...]:
        return tuple(inst(s) if isinstance(s, Inst) else _with_body(s, body(s.body)) for s in statements)

    return program.with_cores(core.with_body(body(core.body)) for core in program.cores)


def _with_body(loop: Loop, body: tuple[Statement, ...]) -> Loop:
    return replace(loop, body=body)


__all__ = ["as_arguments", "for_formulas", "for_values", "with_float_arguments"]
