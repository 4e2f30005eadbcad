"""Forms of older releases of NKI as those of a newer one. Each is a rule of its own; none needs a run of the kernel.

Source of the forms: docs/language.md, "Older NKI", and the declarations of deprecated parameters in ``nki.isa``.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, Final, cast

import libcst as cst

import nki.isa as nisa
from nki.frontend.release import Release
from nki.language.releases import RELEASES
from nki.language.releases.v0_2 import OF_BETA_1
from nki.migrate.calls import keyword, last_comma, parameters
from nki.migrate.report import Report, marked
from nki.migrate.syntax.code import code_of, expression, one_line, statement
from nki.migrate.syntax.names import Names, names_in

_PAR_DIM: Final = "nki.language.par_dim"
_DYNAMIC_RANGE: Final = "nki.language.dynamic_range"
_REWRITTEN: Final = (_PAR_DIM, _DYNAMIC_RANGE)
"""Removed names that are rewritten, and not marked."""
_RANGES: Final = {f"nki.language.{name}" for name in ("affine_range", "sequential_range", "static_range")}
_ENGINES: Final = ("tensor", "vector", "scalar", "gpsimd", "dma", "unknown")
_DROPPED: Final = {
    "nki.isa.dma_copy": ("unique_indices",),
    "nki.isa.nc_matmul": ("psumAccumulateFlag",),
    "nki.jit": ("mode", "platform_target", "debug_kernel", "show_compiler_tb", "experimental_flags"),
    "nki.collectives.collective_permute_implicit_current_processing_rank_id": ("num_channels",),
}
_RENAMED: Final = {
    "nki.isa.nc_matmul": {"is_moving_zero": "is_moving_onezero"},
    "nki.isa.register_move": {"imm": "src"},
    "nki.language.device_print": {"prefix": "print_prefix", "x": "tensor"},
}
_ATTRIBUTES: Final = {
    "nki.language.tile_size.total_available_sbuf_size": "sbuf_fmax_bytes",
    "nki.language.tile_size.psum_fmax": "psum_bank_fmax",
}
_CREATE: Final = {"ndarray": 1, "zeros": 1, "ones": 1, "rand": 1, "full": 2}
"""Functions that allocate, with the position of their dtype; the buffer follows."""
_INTEGERS: Final = ("int8", "int16", "int32", "uint8", "uint16", "uint32")
_DGE: Final = {"0": "unknown", "1": "swdge", "2": "hwdge", "3": "none"}
_BUFFERS: Final = ("sbuf", "psum", "hbm", "private_hbm", "shared_hbm")


class Releases(cst.CSTTransformer):
    """Rewrites the forms of older releases in one file."""

    def __init__(self, names: Names, report: Report, release: Release) -> None:
        super().__init__()
        self.names = names
        self.report = report
        removed = {full: fix for full, (_, fix) in RELEASES.until(release).removed().items()}
        self.gone = removed if names.beta1 else {**OF_BETA_1.names, **removed}
        """Names and parameters that the release does not have, each with what to write."""
        self.registers: set[str] = set()
        self.functions: list[cst.FunctionDef] = []
        self.returned: list[set[str]] = []
        self.integers: set[str] = set()
        """Names of tensors of integers."""
        self.pending: list[str] = []
        """Faults of the statement that is being left."""
        self.made: set[str] = set()
        """Names of functions that loops became."""
        self.nl = names.alias("nki.language") or "nl"
        self.nisa = names.alias("nki.isa") or "nisa"

    # -- names ---------------------------------------------------------------------------------------------------

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        full = self.names.full(original_node)
        if full in _ATTRIBUTES:
            return updated_node.with_changes(attr=cst.Name(_ATTRIBUTES[full]))
        if full in self.gone and full not in _REWRITTEN:
            self.pending.append(f"`{one_line(updated_node)}` is gone: {self.gone[full]}")
        owner, _, name = full.rpartition(".")
        engine = name.removesuffix("_engine")
        if owner == "nki.isa" and name.endswith("_engine") and engine in _ENGINES and name != "dma_engine":
            return expression(f"{self.nisa}.engine.{engine}")
        return updated_node

    def leave_SimpleStatementLine(
        self,
        original_node: cst.SimpleStatementLine,  # noqa: ARG002
        updated_node: cst.SimpleStatementLine,
    ) -> Any:
        """A name that no release since Beta 1 has stays, below a comment."""
        messages, self.pending = self.pending, []
        node: Any = updated_node
        for message in dict.fromkeys(messages):
            node = self._left(node, message)
        return node

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self.functions.append(node)
        returned: set[str] = set()
        for line in _lines(node.body):
            if isinstance(line, cst.Return) and line.value is not None:
                returned |= names_in(line.value)
        self.returned.append(returned)

    def leave_FunctionDef(
        self,
        original_node: cst.FunctionDef,  # noqa: ARG002
        updated_node: cst.FunctionDef,
    ) -> cst.FunctionDef:
        self.functions.pop()
        self.returned.pop()
        if not self.functions:
            self.made.clear()
        return updated_node

    def visit_Assign(self, node: cst.Assign) -> None:
        target = node.targets[0].target
        if isinstance(target, cst.Name) and isinstance(node.value, cst.Call):
            if self.names.full(node.value.func) in ("nki.isa.register_alloc", "nki.isa.scalar_load"):
                self.registers.add(target.value)
            else:
                self.registers.discard(target.value)
            dtypes = {self.names.full(arg.value).rpartition(".")[2] for arg in node.value.args}
            strings = {str(arg.value.raw_value) for arg in node.value.args if isinstance(arg.value, cst.SimpleString)}
            if (dtypes | strings) & set(_INTEGERS):
                self.integers.add(target.value)
            else:
                self.integers.discard(target.value)

    def leave_Assign(self, original_node: cst.Assign, updated_node: cst.Assign) -> cst.Assign:  # noqa: ARG002
        """Results in ``nl.hbm`` lie in ``nl.shared_hbm`` today."""
        target, value = updated_node.targets[0].target, updated_node.value
        if not (isinstance(target, cst.Name) and self.returned and target.value in self.returned[-1]):
            return updated_node
        if not isinstance(value, cst.Call):
            return updated_node
        places = _CREATE.get(self.names.full(value.func).rpartition(".")[2], -2) + 1
        args = [
            arg.with_changes(value=expression(f"{self.nl}.shared_hbm"))
            if self.names.full(arg.value) == "nki.language.hbm"
            and (arg.keyword.value == "buffer" if arg.keyword is not None else place == places) else arg
            for place, arg in enumerate(value.args)
        ]  # fmt: skip
        return updated_node.with_changes(value=value.with_changes(args=args))

    # -- calls ---------------------------------------------------------------------------------------------------

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        full = self.names.full(original_node.func)
        if not full.startswith("nki."):
            return updated_node
        if full in _RANGES:
            return updated_node.with_changes(func=cst.Name("range"))
        if full == _PAR_DIM and len(updated_node.args) == 1 and not self.names.beta1:
            return updated_node.args[0].value
        args = self._arguments(full, updated_node.args)
        call = updated_node.with_changes(args=args)
        match full:
            case "nki.isa.sendrecv":
                return self._sendrecv(call)
            case "nki.isa.dma_compute":
                return self._dma_compute(call)
            case "nki.isa.affine_select":
                return self._affine_select(call)
            case "nki.isa.dma_copy":
                return self._dma_copy(call)
            case "nki.isa.memset":
                return self._memset(call)
            case "nki.jit" if not args and len(updated_node.args) > 0 and _is_options(updated_node):
                return updated_node.func
            case _:
                return call

    def _arguments(self, full: str, args: Sequence[cst.Arg]) -> list[cst.Arg]:
        """The arguments under their names of today; text and integers for enumerations become members."""
        renamed, dropped = _RENAMED.get(full, {}), _DROPPED.get(full, ())
        kept: list[cst.Arg] = []
        for arg in args:
            name = arg.keyword.value if arg.keyword is not None else ""
            if fix := self.gone.get(f"{full}.{name}"):
                self.pending.append(f"`{name}=` of `{full}` is gone: {fix}")
            if name in dropped or self._is_leftover(full, name, arg, args):
                continue
            if arg.keyword is not None and name in renamed:
                arg = arg.with_changes(keyword=arg.keyword.with_changes(value=renamed[name]))
            value = arg.value
            if isinstance(value, cst.SimpleString) and full.startswith(("nki.language.", "nki.isa.")):
                text = str(value.raw_value)
                place = list(args).index(arg) - _CREATE.get(full.rpartition(".")[2], 99) if not name else -1
                if (text in _BUFFERS and (name == "buffer" or place == 1)) or name == "dtype" or place == 0:
                    arg = arg.with_changes(value=expression(f"{self.nl}.{text}"))
            if name == "dge_mode" and isinstance(value, cst.Integer) and value.value in _DGE:
                arg = arg.with_changes(value=expression(f"{self.nisa}.dge_mode.{_DGE[value.value]}"))
            kept.append(arg)
        return last_comma(kept)

    def _is_leftover(self, full: str, name: str, arg: cst.Arg, args: Sequence[cst.Arg]) -> bool:
        """True for ``dtype=`` and ``mask=None`` beside the destination of an instruction, which ignored them."""
        function = getattr(nisa, full.removeprefix("nki.isa."), None) if full.startswith("nki.isa.") else None
        if function is None or name not in ("dtype", "mask") or self.names.beta1:
            return False
        parameters = list(inspect.signature(function).parameters)
        given = any(each.keyword is not None and each.keyword.value == "dst" for each in args)
        if parameters[:1] != ["dst"] or name in parameters or (name == "mask" and one_line(arg.value) != "None"):
            return False
        required = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty]
        return given or len(args) > len(required)

    def _memset(self, call: cst.Call) -> cst.Call:
        """``2.0`` into a tile of integers is ``2``."""
        names = [one_line(arg.value) for arg in call.args if arg.keyword is None or arg.keyword.value == "dst"]
        if not names or names[0].partition("[")[0] not in self.integers:
            return call
        args = [
            arg.with_changes(value=cst.Integer(str(int(float(arg.value.value)))))
            if isinstance(arg.value, cst.Float) and float(arg.value.value).is_integer() else arg
            for arg in call.args
        ]  # fmt: skip
        return call.with_changes(args=args)

    def _sendrecv(self, call: cst.Call) -> cst.Call:
        args: list[cst.Arg] = []
        for arg in call.args:
            if arg.keyword is not None and arg.keyword.value == "use_gpsimd_dma":
                if one_line(arg.value) == "False":
                    continue
                engine, test = f"{self.nisa}.dma_engine", one_line(arg.value)
                text = f"{engine}.gpsimd_dma" + ("" if test == "True" else f" if {test} else {engine}.dma")
                new = keyword("dma_engine", expression(text))
                arg = new.with_changes(comma=arg.comma)
            args.append(arg)
        return call.with_changes(args=last_comma(args))

    def _dma_compute(self, call: cst.Call) -> cst.Call:
        """``scales`` stood before ``reduce_op`` until 0.2."""
        positional = [arg for arg in call.args if arg.keyword is None]
        named = {arg.keyword.value for arg in call.args if arg.keyword is not None}
        if len(positional) >= 3 and self._is_operator(positional[2].value):
            return call
        if len(positional) == 3 and "reduce_op" in named:
            args = [keyword("scales", arg.value).with_changes(comma=arg.comma) if arg is positional[2] else arg
                    for arg in call.args]  # fmt: skip
            return call.with_changes(args=args)
        if len(positional) >= 4 and self._is_operator(positional[3].value):
            args = list(call.args)
            args[2], args[3] = args[2].with_changes(value=args[3].value), args[3].with_changes(value=args[2].value)
            return call.with_changes(args=args)
        return call

    def _is_operator(self, node: cst.BaseExpression) -> bool:
        full = self.names.full(node)
        return full.startswith("nki.language.")

    def _affine_select(self, call: cst.Call) -> cst.Call:
        """``offset`` stood behind ``pattern`` until 0.2."""
        old = ("dst", "pattern", "offset", "channel_multiplier", "on_true_tile", "on_false_value", "cmp_op")
        positional = [arg for arg in call.args if arg.keyword is None]
        named = {arg.keyword.value for arg in call.args if arg.keyword is not None}
        whole = [isinstance(arg.value, cst.Integer | cst.UnaryOperation | cst.BinaryOperation) for arg in positional]
        both = len(positional) >= 4 and whole[2] and whole[3]
        is_old = (
            both
            or len(positional) == 7
            or (len(positional) >= 4 and {"on_true_tile"} <= named and "offset" not in named)
        )
        if not is_old:
            return call
        args = [
            keyword(old[position], arg.value).with_changes(comma=arg.comma)
            if arg.keyword is None and position > 1
            else arg
            for position, arg in enumerate(call.args)
        ]
        return call.with_changes(args=args)

    def _dma_copy(self, call: cst.Call) -> cst.BaseExpression:
        """``dst_rmw_op`` was an addition to the destination until 0.2."""
        named = {arg.keyword.value: arg.value for arg in call.args if arg.keyword is not None}
        if "dst_rmw_op" not in named:
            return call
        positional = [arg.value for arg in call.args if arg.keyword is None]
        dst = named.get("dst") or (positional[0] if positional else None)
        src = named.get("src") or (positional[1] if len(positional) > 1 else positional[0] if positional else None)
        if dst is None or src is None:
            return call
        to, op = one_line(dst), one_line(named["dst_rmw_op"])
        if op == "None":
            return call.with_changes(
                args=last_comma([a for a in call.args if a.keyword is None or a.keyword.value != "dst_rmw_op"])
            )
        op = f"{self.nl}.add" if self.names.full(named["dst_rmw_op"]).startswith("numpy.") else op
        return expression(f"{self.nisa}.dma_compute({to}, [{one_line(src)}, {to}], {op})")

    # -- loops on the device -------------------------------------------------------------------------------------

    def leave_For(self, original_node: cst.For, updated_node: cst.For) -> Any:
        iterated = original_node.iter
        if not isinstance(iterated, cst.Call) or self.names.full(iterated.func) != _DYNAMIC_RANGE:
            return updated_node
        if not isinstance(updated_node.target, cst.Name) or updated_node.orelse is not None:
            return self._left(updated_node, "`nl.dynamic_range` in this form: use nl.fori_loop")
        later = self._assigned_for_later(original_node)
        if later:
            return self._left(
                updated_node, f"`{later}` is set in the loop and read behind it: nl.fori_loop has a function"
            )
        args = [one_line(arg.value) for arg in cast("cst.Call", updated_node.iter).args]
        bounds = ["0", *args] if len(args) == 1 else args
        name = self._fresh("body")
        lines: Any = cst.ensure_type(statement(f"def {name}({updated_node.target.value}):\n    pass"), cst.FunctionDef)
        function = lines.with_changes(body=updated_node.body, leading_lines=updated_node.leading_lines)
        step = f", step={bounds[2]}" if len(bounds) > 2 else ""
        call = statement(f"{self.nl}.fori_loop({bounds[0]}, {bounds[1]}, {name}{step})")
        return cst.FlattenSentinel([function, call])

    def leave_While(self, original_node: cst.While, updated_node: cst.While) -> Any:
        test = original_node.test
        if not isinstance(test, cst.Name) or test.value not in self.registers:
            return updated_node
        later = self._assigned_for_later(original_node)
        if later:
            return self._left(
                updated_node, f"`{later}` is set in the loop and read behind it: nl.while_loop has a function"
            )
        name = self._fresh("body")
        function: Any = cst.ensure_type(statement(f"def {name}({test.value}):\n    pass"), cst.FunctionDef)
        inner = list(cast("cst.IndentedBlock", updated_node.body).body)
        block = cst.IndentedBlock([*inner, cast(Any, statement(f"return {test.value}"))])
        function = function.with_changes(body=block, leading_lines=updated_node.leading_lines)
        call = statement(f"{self.nl}.while_loop({test.value}, {name})")
        return cst.FlattenSentinel([function, call])

    def _left(self, node: Any, message: str) -> Any:
        self.report.todo(message)
        return marked(node, message)

    def _assigned_for_later(self, loop: cst.For | cst.While) -> str:
        """A variable that the loop sets and that code outside of it mentions; "" if there is none."""
        inside: set[str] = set()
        for line in _lines(loop.body):
            if isinstance(line, cst.Assign | cst.AugAssign | cst.AnnAssign):
                targets = [t.target for t in line.targets] if isinstance(line, cst.Assign) else [line.target]
                inside |= {target.value for target in targets if isinstance(target, cst.Name)}
        if any(isinstance(line, cst.Break | cst.Continue | cst.Return) for line in _lines(loop.body)):
            return "break"
        if not inside or not self.functions:
            return ""
        function = self.functions[-1]
        counter = _Mentions(inside, loop)
        function.visit(counter)
        return next(iter(sorted(counter.outside)), "")

    def _fresh(self, name: str) -> str:
        taken = (names_in(self.functions[0]) if self.functions else set[str]()) | self.made
        found = next(n for n in (name, *(f"{name}_{k}" for k in range(2, 99))) if n not in taken)
        self.made.add(found)
        return found


class _Mentions(cst.CSTVisitor):
    """Finds those of some names that code outside of a loop mentions."""

    def __init__(self, wanted: set[str], loop: cst.CSTNode) -> None:
        super().__init__()
        self.wanted = wanted
        self.loop = loop
        self.outside: set[str] = set()

    def on_visit(self, node: cst.CSTNode) -> bool:
        if node is self.loop:
            return False
        return super().on_visit(node)

    def visit_Name(self, node: cst.Name) -> None:
        if node.value in self.wanted:
            self.outside.add(node.value)


def _lines(block: cst.CSTNode) -> list[cst.CSTNode]:
    """The small statements inside a block, not those of functions in it."""
    found: list[cst.CSTNode] = []

    class _Small(cst.CSTVisitor):
        def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:  # noqa: ARG002
            return False

        def on_visit(self, node: cst.CSTNode) -> bool:
            if isinstance(node, cst.BaseSmallStatement):
                found.append(node)
            return super().on_visit(node)

    block.visit(_Small())
    return found


def _is_options(call: cst.Call) -> bool:
    return all(arg.keyword is not None for arg in call.args)


def renewed(module: cst.Module, report: Report, release: Release = RELEASES[-1], *, beta1: bool = False) -> cst.Module:
    """The file with the forms of ``release``; ``beta1``: it was of Beta 1, and what is left of that has been marked."""
    names = Names()
    module.visit(names)
    names.beta1 = beta1
    return module.visit(Releases(names, report, release))


__all__ = ["code_of", "parameters", "renewed"]
