"""Advice on operands that lie in the wrong memory, or begin where no engine can start."""

from __future__ import annotations

from typing import Final

from nki.language.advice.call import Call
from nki.language.tensor import NkiTensor

_QUADRANT: Final = 32
_HALF: Final = 64
_OUTPUTS: Final = frozenset({"dst", "dst_idx", "dst_scale", "idx_dst", "reduce_res", "val_dst"})
_KEEPS_DST: Final = frozenset({"tensor_copy_predicated", "nc_stream_shuffle", "nonzero_with_count", "topk"})
"""Instructions that leave some elements of their destination as they are."""


def in_another_memory(call: Call, operand: str) -> str | None:
    """An operand that must be in SBUF (a product: in PSUM) is copied there, a result allocated there."""
    tensor = call.tensors().get(operand)
    if operand == "dst" and {"stationary", "moving"} <= call.arguments.keys():
        in_sbuf = tensor is not None and tensor.buffer.value == "sbuf"
        return call.allocated_otherwise("dst", "buffer", f"{call.nl}.psum") if in_sbuf else None
    if operand not in call.arguments or (tensor is not None and tensor.buffer.value != "psum"):
        return None
    if operand in _OUTPUTS:
        return call.allocated_otherwise(operand, "buffer", f"{call.nl}.sbuf")
    return copied_to_sbuf(call, operand)


def copied_to_sbuf(call: Call, operand: str) -> str | None:
    """An operand in PSUM, copied to SBUF first."""
    if operand not in call.arguments:
        return None
    copied = f"{call.nl}.copy({call.text(operand)})"
    return f"copy it to SBUF first: write `{call.with_arguments(**{operand: copied})}`"


def one_of_two(call: Call, operand: str) -> str | None:
    """Two inputs in PSUM: the second one, which :data:`nki.isa.rules.operands.not_both_psum` names, is copied."""
    second = {"data1": "data2", "data0": "data1", "data": "operand1", "on_true": "predicate", "src": "predicate"}
    return copied_to_sbuf(call, second.get(operand, ""))


def dma_of_psum(call: Call) -> str | None:
    """A DMA that would read PSUM, or write it from HBM."""
    source, to = call.value("src"), call.value("dst")
    if isinstance(to, NkiTensor) and to.buffer.value == "psum" and isinstance(source, NkiTensor):
        inner = f"{call.nl}.load({call.text('src')})" if source.buffer.is_hbm else call.text("src")
        return f"load into SBUF, and copy on chip: write `{call.nisa}.tensor_copy(dst={call.text('dst')}, src={inner})`"
    return copied_to_sbuf(call, "src") if isinstance(source, NkiTensor) and source.buffer.value == "psum" else None


def transposed_into_psum(call: Call) -> str | None:
    """A transpose of more than 32 x 32 from SBUF to SBUF: its result is allocated in PSUM."""
    tensors = call.tensors()
    if any(name not in tensors or tensors[name].buffer.value != "sbuf" for name in ("dst", "data")):
        return None
    return call.allocated_otherwise("dst", "buffer", f"{call.nl}.psum")


def on_hbm(call: Call) -> str | None:
    """Operands in HBM: loaded first, or for a result stored afterwards."""
    tensors, nl = call.tensors(), call.nl
    dst = tensors.get("dst")
    loaded = {name: f"{nl}.load({call.text(name)})" for name, t in tensors.items() if t.buffer.is_hbm and t is not dst}
    if dst is None:
        return None
    if not dst.buffer.is_hbm:
        return f"load it into SBUF first: write `{call.with_arguments(**loaded)}`" if loaded else None
    name = call.unused_name("tile", "result")
    to = call.text("dst")
    product = {"stationary", "moving"} <= call.arguments.keys()
    dtype, buffer = (f"{nl}.float32", "psum") if product else (f"{to}.dtype", "sbuf")
    source = f"{nl}.copy({name})" if product else name
    lines = [
        f"{name} = {nl}.ndarray({to}.shape, {dtype}, buffer={nl}.{buffer})",
        call.with_arguments(dst=name, **loaded),
        f"{call.nisa}.dma_copy(dst={to}, src={source})",
    ]
    return "compute into a tile and copy that: write `" + _block(lines)


def start_partition(call: Call) -> str | None:
    """Operands that begin where no engine can start: DMA moves them to partition 0, and a result from there."""
    tensors = call.tensors()
    if call.arguments.keys() == {"dst", "src"} and all(t.buffer.value == "sbuf" for t in tensors.values()):
        code = f"{call.nisa}.dma_copy(dst={call.text('dst')}, src={call.text('src')})"
        return f"DMA begins at any partition: write `{code}`"
    astray = {name: t for name, t in tensors.items() if t.buffer.value == "sbuf" and not _may_start(t)}
    if not astray or hasattr(call.site.statement, "body") or (astray.keys() & _OUTPUTS) - {"dst"}:
        return None
    before: list[str] = []
    behind: list[str] = []
    moved: dict[str, str] = {}
    of_text: dict[str, str] = {}
    for name in astray:
        text = call.text(name)
        if text not in of_text:
            wanted = ("moved",) if not of_text else (f"moved_{len(of_text)}",)
            of_text[text] = call.unused_name(*wanted)
            before.append(f"{of_text[text]} = {call.nl}.ndarray({text}.shape, {text}.dtype, buffer={call.nl}.sbuf)")
            if name != "dst" or call.name in _KEEPS_DST or any(call.text(n) == text for n in astray if n != "dst"):
                before.append(f"{call.nisa}.dma_copy(dst={of_text[text]}, src={text})")
        if name == "dst":
            behind = [f"{call.nisa}.dma_copy(dst={text}, src={of_text[text]})"]
        moved[name] = of_text[text]
    words = "move it to partition 0 first" if not behind else "work at partition 0 and let DMA move the tiles"
    return f"{words}: write `" + _block([*before, call.with_arguments(**moved), *behind])


def _may_start(tensor: NkiTensor) -> bool:
    """True if an engine can start at the first partition of ``tensor``."""
    start, count = tensor.access.start_partition, tensor.access.partitions
    if start % _QUADRANT or (count > _QUADRANT and start % _HALF):
        return False
    return count <= _HALF or start == 0


def _block(lines: list[str]) -> str:
    """``lines`` as the indented code of a fix, and its closing mark."""
    return "\n" + "\n".join(f"        {line}" for line in lines) + "`"
