"""The text form of a kernel: one line an instruction, made to be read, diffed, edited and fed back.

    kernel "add" target=trn2 grid=() version="1.0" {
      input a : hbm float32[256,512]
      float rate = 0.01
      constant e : shared_hbm float32[2,2] sha256=18d… data=eJx…
      tensor c : shared_hbm float32[256,512]
      tensor a_tile : sbuf float32[128,512] at=(0, 2048) place=(0, 2048)
      dma_copy dst=a_tile[0 | 512x128, 1x512] src=a[0 | 512x128, 1x512] engine=unknown  # "add.py":14
      tensor_scalar dst=a_tile[…] data=a_tile[…] op0=multiply operand0=@(1.0-rate)  # "add.py":15
      for i = 0 to n step 2 {  # "add.py":15
        tensor b_tile : sbuf float32[128,512]
        dma_copy dst=b_tile[0 | 512x128, 1x512] src=b[0 | 512x128, 1x512 at 512*i[0 | 1x1, 1x1]]
      }
      while more {
      }
      return c
    }

On a grid of two the program of the other core follows, as ``core 1 { … }``, which returns nothing and names what it
has in common with core 0 in lines like ``shared c``. ``return c[256,4,128]`` returns ``c`` in another shape.

An operand is ``tensor[offset | step x count, …]``, counted in elements; ``as dtype`` follows where the window reads the
bytes as another type, then ``at step*operand`` where a run-time index moves it, or ``rows step*operand`` where each row
has an index of its own. ``float`` declares a number that each launch passes, with the value for which the kernel was
compiled; ``@`` stands before a formula of such numbers. The data of a constant are its bytes, compressed (zlib) and in
base64, behind the digest of the uncompressed ones. ``at`` is the address that the user gave, ``place`` the one that the
tensor has after stage ``allocate``, both as (first partition, byte in the partition). A tensor with a name that is no
plain word has it in quotes. Bounds of loops are numbers or registers. The declarations of a loop are local to the loop.
Behind an instruction's arguments stand, if it has them, ``label name``, which edges call it, ``after name, …``, ``on
queue`` and ``wait queue>=count, …``. ``parse(show(kernel)) == kernel``.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator
from typing import Any, cast

from nki.base.float_text import exact_text
from nki.base.source import Where
from nki.ir.constant import Constant
from nki.ir.floats.runtime_float import RuntimeFloat
from nki.ir.floats.runtime_float import show as formula_text
from nki.ir.instruction import Inst
from nki.ir.loop import Loop, Statement, While, declared
from nki.ir.program import Placement, Program
from nki.ir.text import schedule_attributes
from nki.ir.types import Access, Tensor, TensorSpec


def show(kernel: Program) -> str:
    """``kernel`` as text."""
    grid = _value(kernel.grid)
    options = f" release={kernel.release}" if kernel.release else ""
    options += " undefined=carried" if kernel.propagates_undefined else ""
    lines = [
        f"kernel {json.dumps(kernel.name)} target={kernel.target} grid={grid} version={json.dumps(kernel.version)}"
        f"{options} {{"
    ]
    first, *others = kernel.cores
    inner = set(declared(first.body))
    lines.extend("  " + _tensor(t, first.placement) for t in first.tensors if t not in inner)
    lines.extend(f"  float {schedule_attributes.word(f.name)} = {exact_text(f.value)}" for f in kernel.signature.floats)
    lines.extend(_statements(first.body, "  ", first.placement))
    returned = kernel.signature.returned
    names = ", ".join(
        _name(t) + ("" if (spec.shape, spec.dtype) == (t.shape, t.dtype) else _form(spec, t))
        for t, spec in zip(returned, kernel.signature.output_specs(), strict=False)
    )
    hidden = ", ".join(map(_name, kernel.outputs[len(returned) :]))
    changes = f" changes {hidden}" if hidden else ""
    lines += [f"  return {f'({names})' if kernel.signature.sequence else names}{changes}", "}"]
    for other in others:
        lines.append(f"core {other.rank} {{")
        common, inner = set(first.tensors), set(declared(other.body))
        lines.extend(
            f"  {f'shared {_name(t)}' if t in common else _tensor(t, other.placement)}"
            for t in other.tensors
            if t not in inner
        )
        lines.extend(_statements(other.body, "  ", other.placement))
        lines.append("}")
    return "\n".join(lines) + "\n"


def _statements(body: tuple[Statement, ...], indent: str, places: Placement) -> Iterator[str]:
    for statement in body:
        if isinstance(statement, Inst):
            yield indent + show_inst(statement)
            continue
        yield f"{indent}{_head(statement)} {{{_source(statement.where)}"
        yield from (f"{indent}  {_tensor(t, places)}" for t in statement.tensors)
        yield from _statements(statement.body, indent + "  ", places)
        yield indent + "}"


def _head(loop: Loop) -> str:
    register = _name(loop.register.tensor)
    if isinstance(loop, While):
        return f"while {register}"
    start, stop = (_name(b.tensor) if isinstance(b, Access) else str(b) for b in (loop.start, loop.stop))
    return f"for {register} = {start} to {stop} step {loop.step}"


def show_inst(inst: Inst) -> str:
    """One instruction as a line of text; arguments that have their default value are left out."""
    parts = [inst.mnemonic]
    for f in inst.fields:
        value = getattr(inst, f.name)
        if value is f.default or (type(value) is type(f.default) and value == f.default):
            continue
        parts.append(f"{f.name}={_value(value)}")
    return " ".join([*parts, *schedule_attributes.shown(inst)]) + _source(inst.where)


def _source(where: Where) -> str:
    span = where.span
    return f"  # {json.dumps(span.file)}:{span.line}" if span is not None else ""


def _tensor(t: Tensor, places: Placement) -> str:
    shape = ",".join(map(str, t.shape))
    address = f" at={_value(t.address)}" if t.address is not None else ""
    place = f" place={_value(places[t])}" if t in places else ""
    data = "" if t.data is None else f" sha256={t.data.digest} data={_packed(t.data)}"
    return f"{t.role or 'tensor'} {_name(t)} : {t.buffer.value} {t.dtype.name}[{shape}]{address}{place}{data}"


def _packed(constant: Constant) -> str:
    return base64.b64encode(zlib.compress(constant.data, 6)).decode()


def _form(spec: TensorSpec, t: Tensor) -> str:
    """The shape in which ``t`` is returned, and the dtype if it is another one."""
    kind = "" if spec.dtype is t.dtype else f" as {spec.dtype.name}"
    return f"[{','.join(map(str, spec.shape))}{kind}]"


def _name(t: Tensor) -> str:
    return schedule_attributes.word(t.name)


def _value(value: Any) -> str:
    if isinstance(value, Access):
        window = ", ".join(f"{s}x{n}" for s, n in value.pattern())
        kind = "" if value.dtype is value.tensor.dtype else f" as {value.dtype.name}"
        dynamic = value.dynamic
        index = "" if dynamic is None else f" {dynamic.kind.value} {dynamic.step}*{_value(dynamic.source)}"
        return f"{_name(value.tensor)}[{value.offset} | {window}{kind}{index}]"
    if isinstance(value, tuple):
        items = cast(tuple[Any, ...], value)
        return "(" + ", ".join(map(_value, items)) + ("," if len(items) == 1 else "") + ")"
    if isinstance(value, str):
        return json.dumps(value)
    if type(value) is RuntimeFloat:
        return f"@{formula_text(value.formula)}"
    if isinstance(value, float):
        return exact_text(value)
    if value is None or isinstance(value, bool | int):
        return repr(value)
    return str(value.name)  # an operator or an enum member
