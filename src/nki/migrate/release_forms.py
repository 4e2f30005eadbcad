"""Forms of older releases of NKI as forms of a newer one. Each is a rule of its own; none needs a run of the kernel.

Source of the forms: docs/language.md, "Older NKI", and the declarations of deprecated parameters in ``nki.isa``.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

import nki.isa as nisa
from nki.compilation.jit_options import WITHOUT_EFFECT
from nki.frontend.release import Release
from nki.ir.deprecation import DeprecatedParameter
from nki.ir.instruction import REGISTRY
from nki.language.beta1_rewriting.calls import (
    RENAMED,
    Argument,
    NewCall,
    as_dma_compute,
    call_of,
    code_in_place,
    function_of,
)
from nki.language.beta1_rewriting.report import Report, marked
from nki.language.releases import RELEASES
from nki.language.releases.v0_2 import OF_BETA_1
from nki.source_text.lines import Line, aligned, as_it_is, comment_behind, head, is_same, rendered
from nki.source_text.names import Names
from nki.source_text.rewriting import BlockRewriter, ExpressionRewriter
from nki.source_text.source import Source, code_of, names_in, one_line, own_nodes

_PAR_DIM: Final = "nki.language.par_dim"
_DYNAMIC_RANGE: Final = "nki.language.dynamic_range"
_REWRITTEN: Final = (_PAR_DIM, _DYNAMIC_RANGE)
"""Removed names that are rewritten, and not marked."""
_DEPRECATED: Final = {full: fix for release in RELEASES for full, fix in release.deprecated.items()}
_RANGES: Final = {full for full, fix in _DEPRECATED.items() if fix.startswith("write `range(")}
_RENAMED: Final = {
    full: name[1] for full, fix in _DEPRECATED.items() if (name := re.fullmatch(r"write `([\w.]+)`", fix))
}
"""Names that are called otherwise today: a word alone in the same module, or with the module."""
_OPTIONS: Final = (*WITHOUT_EFFECT, "platform_target")
"""Options of ``nki.jit`` that files no longer need."""
_CREATE: Final = {"ndarray": 1, "zeros": 1, "ones": 1, "rand": 1, "full": 2}
"""Functions that allocate, with the position of their dtype; the buffer follows."""
_INTEGERS: Final = ("int8", "int16", "int32", "uint8", "uint16", "uint32")
_DGE: Final = {0: "unknown", 1: "swdge", 2: "hwdge", 3: "none"}
_BUFFERS: Final = ("sbuf", "psum", "hbm", "private_hbm", "shared_hbm")


class Releases(BlockRewriter, ExpressionRewriter):
    """Rewrites the forms of older releases in one file."""

    def __init__(self, names: Names, report: Report, release: Release) -> None:
        self.names = names
        self.report = report
        removed = {full: fix for full, (_, fix) in RELEASES.until(release).removed().items()}
        self.gone = removed if names.beta1 else {**OF_BETA_1.names, **removed}
        """Names and parameters that the release does not have, each with what to write."""
        self.registers: set[str] = set()
        self.functions: list[ast.FunctionDef] = []
        self.result: ast.expr | None = None
        """The value of the present statement, if the function returns its target."""
        self.integers: set[str] = set()
        """Names of tensors of integers."""
        self.pending: list[str] = []
        """Faults of the present statement."""
        self.made: set[str] = set()
        """Names of functions that loops became."""
        self.nl = names.alias("nki.language") or "nl"
        self.nisa = names.alias("nki.isa") or "nisa"

    # -- statements ----------------------------------------------------------------------------------------------

    def statement(self, group: Sequence[ast.stmt]) -> list[Line]:
        """The lines for a statement; what no release since Beta 1 has stays, below a comment."""
        match group[0]:
            case ast.FunctionDef() as one:
                self.functions.append(one)
                lines = self.compound(one)
                self.functions.pop()
                if not self.functions:
                    self.made.clear()
            case ast.For(iter=ast.Call(func=function)) as one if self.names.full(function) == _DYNAMIC_RANGE:
                lines = self._for(one)
            case ast.While(test=ast.Name(id=name)) as one if name in self.registers:
                lines = self._while(one, name)
            case one if hasattr(one, "body"):
                lines = self.compound(one)
            case _:
                lines = [self._line(group)]
        messages, self.pending = self.pending, []
        for message in dict.fromkeys(messages):
            self.report.todo(message)
            lines[0] = marked(lines[0], message)
        return lines

    def compound(self, one: Any) -> list[Line]:
        """A statement with blocks in it, and decorators."""
        if isinstance(one, ast.Match | ast.AsyncFunctionDef):
            return [as_it_is(one)]
        changes = self.changes(one)
        nodes = getattr(one, "decorator_list", ())
        decorators = [self.code(each) for each in nodes]
        lines = self.rewritten(one, changes)
        if lines[0].kept and decorators == [code_of(each) for each in nodes]:
            return lines
        if lines[0].kept:  # all but the decorators
            line, row = head(one, one.body, changes)
            line.body = self.block(one.body, row)
            lines = [line]
        return [*(Line(f"@{each}", fixed=True) for each in decorators), *lines]

    def _line(self, group: Sequence[ast.stmt]) -> Line:
        """The statements of one line."""
        texts = [self._simple(small) for small in group]
        if texts == [code_of(small) for small in group]:
            return as_it_is(*group)
        text = "; ".join(aligned(text, small.col_offset) for text, small in zip(texts, group, strict=True))
        return Line(text, fixed=True, comment=comment_behind(group[-1]))

    def _simple(self, small: ast.stmt) -> str:
        match small:
            case ast.Assign(targets=[ast.Name(id=name), *_], value=ast.Call() as value):
                self._note(name, value)
                self.result = value if self.functions and name in self._returned() else None
            case ast.Import() | ast.ImportFrom() | ast.Global() | ast.Nonlocal():
                return code_of(small)
            case _:
                pass
        text = self.inside(small)
        self.result = None
        return text

    def _returned(self) -> set[str]:
        """The names that the present function returns."""
        nodes = own_nodes(*self.functions[-1].body)
        return names_in(*(node.value for node in nodes if isinstance(node, ast.Return)))

    def _note(self, name: str, value: ast.Call) -> None:
        """Take in what an assigned name holds."""
        register = self.names.full(value.func) in ("nki.isa.register_alloc", "nki.isa.scalar_load")
        (self.registers.add if register else self.registers.discard)(name)
        args = [*value.args, *(k.value for k in value.keywords)]
        dtypes = {self.names.full(arg).rpartition(".")[2] for arg in args}
        dtypes |= {arg.value for arg in args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)}
        (self.integers.add if dtypes & set(_INTEGERS) else self.integers.discard)(name)

    # -- names ---------------------------------------------------------------------------------------------------

    def _attribute(self, node: ast.Attribute) -> str:
        full = self.names.full(node)
        if full in _RENAMED:
            module, _, name = _RENAMED[full].rpartition(".")
            owner = module.replace("nisa", self.nisa, 1) if module else code_of(node.value)
            return f"{owner}.{name}"
        if full in self.gone and full not in _REWRITTEN:
            self.pending.append(f"`{one_line(node)}` is gone: {self.gone[full]}")
        return self.inside(node)

    # -- calls ---------------------------------------------------------------------------------------------------

    def _call(self, node: ast.Call) -> str:
        call, full = call_of(node, self.code(node.func), self.code), self.names.full(node.func)
        if full in _RANGES:
            call = replace(call, func="range")
        elif full == _PAR_DIM and len(call.args) == 1 and not self.names.beta1:
            return call.args[0].text
        elif full == "nki.jit":
            call = self._arguments(full, call)
            if not call.args and node.keywords and not node.args:
                return call.func
        elif full.startswith("nki."):
            call = self._arguments(full, call)
            rule = self._forms.get(full)
            if rule is not None:
                call = rule(self, node, call)
            if node is self.result:
                call = self._shared(full, call)
        return code_in_place(node, call)

    def _shared(self, full: str, call: NewCall) -> NewCall:
        """Results in ``nl.hbm`` lie in ``nl.shared_hbm`` today."""
        place = _CREATE.get(full.rpartition(".")[2], -2) + 1
        return call.with_args(
            replace(arg, text=f"{self.nl}.shared_hbm")
            if arg.node is not None and self.names.full(arg.node) == "nki.language.hbm"
            and (arg.name == "buffer" if arg.name else position == place) else arg
            for position, arg in enumerate(call.args)
        )  # fmt: skip

    def _arguments(self, full: str, call: NewCall) -> NewCall:
        """The arguments under their names of today; text and integers for enumerations become members."""
        older = _older_names(full)
        kept: list[Argument] = []
        for position, arg in enumerate(call.args):
            if fix := self.gone.get(f"{full}.{arg.name}"):
                self.pending.append(f"`{arg.name}=` of `{full}` is gone: {fix}")
            if older.get(arg.name) == "" or self._is_leftover(full, arg, call):
                continue
            value = arg.node.value if isinstance(arg.node, ast.Constant) else None
            if isinstance(value, str) and full.startswith(("nki.language.", "nki.isa.")):
                place = position - _CREATE.get(full.rpartition(".")[2], 99) if not arg.name else -1
                if (value in _BUFFERS and (arg.name == "buffer" or place == 1)) or arg.name == "dtype" or place == 0:
                    arg = replace(arg, text=f"{self.nl}.{value}")
            if arg.name == "dge_mode" and value in _DGE:
                arg = replace(arg, text=f"{self.nisa}.dge_mode.{_DGE[value]}")
            kept.append(replace(arg, name=older.get(arg.name, arg.name)))
        return call.with_args(kept)

    def _is_leftover(self, full: str, arg: Argument, call: NewCall) -> bool:
        """True for ``dtype=`` and ``mask=None`` beside the destination of an instruction, which ignored them."""
        function = getattr(nisa, full.removeprefix("nki.isa."), None) if full.startswith("nki.isa.") else None
        if function is None or arg.name not in ("dtype", "mask") or self.names.beta1:
            return False
        parameters = inspect.signature(function).parameters
        if next(iter(parameters), "") != "dst" or arg.name in parameters or (arg.name == "mask" and arg.text != "None"):
            return False
        required = [p for p in parameters.values() if p.default is p.empty]
        return any(each.name == "dst" for each in call.args) or len(call.args) > len(required)

    def _memset(self, _: ast.Call, call: NewCall) -> NewCall:
        """``2.0`` into a tile of integers is ``2``."""
        to = call.by_name(("dst",)).get("dst", "")
        if to.partition("[")[0] not in self.integers:
            return call
        return call.with_args(
            replace(arg, text=str(int(arg.node.value)))
            if isinstance(arg.node, ast.Constant) and isinstance(arg.node.value, float) and arg.node.value.is_integer()
            else arg for arg in call.args
        )  # fmt: skip

    def _sendrecv(self, _: ast.Call, call: NewCall) -> NewCall:
        args: list[Argument] = []
        for arg in call.args:
            if arg.name == "use_gpsimd_dma":
                if arg.text == "False":
                    continue
                engine = f"{self.nisa}.dma_engine"
                choice = "" if arg.text == "True" else f" if {arg.text} else {engine}.dma"
                arg = replace(arg, name="dma_engine", text=f"{engine}.gpsimd_dma{choice}")
            args.append(arg)
        return call.with_args(args)

    def _dma_compute(self, _: ast.Call, call: NewCall) -> NewCall:
        """``scales`` stood before ``reduce_op`` until 0.2."""
        args = list(call.args)
        positional = [arg for arg in args if not arg.name]
        operators = [
            arg.node is not None and self.names.full(arg.node).startswith("nki.language.") for arg in positional
        ]
        if operators[2:3] == [True]:
            return call
        if len(positional) == 3 and any(arg.name == "reduce_op" for arg in args):
            args[2] = replace(args[2], name="scales")
        elif operators[3:4] == [True]:
            args[2], args[3] = args[3], args[2]
        return call.with_args(args)

    def _affine_select(self, _: ast.Call, call: NewCall) -> NewCall:
        """``offset`` stood behind ``pattern`` until 0.2."""
        older = REGISTRY["affine_select"].deprecated.order
        positional = [arg.node for arg in call.args if not arg.name]
        named = {arg.name for arg in call.args}
        whole = [
            isinstance(node, ast.UnaryOp | ast.BinOp)
            or (isinstance(node, ast.Constant) and isinstance(node.value, int))
            for node in positional
        ]
        many = len(positional) >= 4
        old = "on_true_tile" in named and "offset" not in named
        if older is None or (not (many and ((whole[2] and whole[3]) or old)) and len(positional) != 7):
            return call
        return call.with_args(
            replace(arg, name=older.order[place]) if not arg.name and place > 1 else arg
            for place, arg in enumerate(call.args)
        )

    def _dma_copy(self, _: ast.Call, call: NewCall) -> NewCall:
        return as_dma_compute(self.names, call, self.nl, self.nisa)

    rules: ClassVar = {ast.Call: _call, ast.Attribute: _attribute}
    _forms: ClassVar = {
        "nki.isa.sendrecv": _sendrecv, "nki.isa.dma_compute": _dma_compute, "nki.isa.affine_select": _affine_select,
        "nki.isa.dma_copy": _dma_copy, "nki.isa.memset": _memset,
    }  # fmt: skip
    """Instructions with arguments in another form."""

    # -- loops on the device -------------------------------------------------------------------------------------

    def _for(self, one: ast.For) -> list[Line]:
        if not isinstance(one.target, ast.Name) or one.orelse or not isinstance(one.iter, ast.Call):
            return self._stays(one, "`nl.dynamic_range` in this form: use nl.fori_loop")
        if later := self._assigned_for_later(one):
            return self._stays(one, f"`{later}` is set in the loop and read behind it: nl.fori_loop has a function")
        args = [self.code(arg) for arg in one.iter.args]
        bounds = ["0", *args] if len(args) == 1 else args
        name = self._fresh("body")
        step = f", step={bounds[2]}" if len(bounds) > 2 else ""
        call = Line(f"{self.nl}.fori_loop({bounds[0]}, {bounds[1]}, {name}{step})")
        return [self._function(one, name, one.target.id, []), call]

    def _while(self, one: ast.While, test: str) -> list[Line]:
        if later := self._assigned_for_later(one):
            return self._stays(one, f"`{later}` is set in the loop and read behind it: nl.while_loop has a function")
        name = self._fresh("body")
        call = Line(f"{self.nl}.while_loop({test}, {name})")
        return [self._function(one, name, test, [Line(f"return {test}")]), call]

    def _function(self, loop: ast.For | ast.While, name: str, parameter: str, more: list[Line]) -> Line:
        """The body of a loop as a function."""
        line, row = head(loop, loop.body, [])
        return Line(f"def {name}({parameter}):", [*self.block(loop.body, row), *more], pad=line.pad)

    def _stays(self, one: ast.For | ast.While, message: str) -> list[Line]:
        lines = self.compound(one)
        self.pending.append(message)
        return lines

    def _assigned_for_later(self, loop: ast.For | ast.While) -> str:
        """A variable that the loop sets and that code outside of it mentions; "" if there is none."""
        inside: set[str] = set()
        for node in own_nodes(*loop.body):
            if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                inside |= {target.id for target in targets if isinstance(target, ast.Name)}
            elif isinstance(node, ast.Break | ast.Continue | ast.Return):
                return "break"
        if not self.functions:
            return ""
        return next(iter(sorted(inside & _names_outside(self.functions[-1], loop))), "")

    def _fresh(self, name: str) -> str:
        taken = (names_in(self.functions[0]) if self.functions else set[str]()) | self.made
        found = next(n for n in (name, *(f"{name}_{k}" for k in range(2, 99))) if n not in taken)
        self.made.add(found)
        return found


def _older_names(full: str) -> dict[str, str]:
    """Older parameters of a function, each with its name of today, "" if the function needs it no longer."""
    if full == "nki.jit":
        return dict.fromkeys(_OPTIONS, "")
    package, _, name = full.rpartition(".")
    forms: dict[str, DeprecatedParameter] = getattr(function_of(package, name), "deprecated_parameters", {})
    plain = {parameter: form.replaces for parameter, form in forms.items() if form.is_plain}
    return plain | (RENAMED.get(name, {}) if package == "nki.language" else {})


def _names_outside(node: ast.AST, loop: ast.AST) -> set[str]:
    """The names inside of a node, without those in ``loop``."""
    if node is loop:
        return set()
    found = {node.id} if isinstance(node, ast.Name) else set[str]()
    return found.union(*(_names_outside(child, loop) for child in ast.iter_child_nodes(node)))


def renewed(text: str, report: Report, release: Release = RELEASES[-1], *, beta1: bool = False) -> str:
    """The file with the forms of ``release``; ``beta1``: it was of Beta 1, and what is left of that has been marked."""
    source = Source(text)
    names = Names.of(source.tree)
    names.beta1 = beta1
    body = source.tree.body
    lines = Releases(names, report, release).block(body, 0)
    if is_same(body, lines):
        return text
    return "\n".join([*rendered(lines), *source.lines[body[-1].end_lineno :]])


__all__ = ["renewed"]
