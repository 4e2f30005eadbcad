"""Several instructions instead of one with operands in HBM, or at partitions where no engine can start."""

from __future__ import annotations

from typing import Final

from nki.language.advice.call import Call
from nki.language.advice.fixit import block
from nki.language.nki_tensor import NkiTensor

_QUADRANT: Final = 32
_HALF: Final = 64
OUTPUTS: Final = frozenset({"dst", "dst_idx", "dst_scale", "idx_dst", "reduce_res", "val_dst"})
_KEEPS_DST: Final = frozenset({"tensor_copy_predicated", "nc_stream_shuffle", "nonzero_with_count", "topk"})
"""Instructions that leave some elements of their destination as they are."""


def through_tiles(call: Call, loaded: dict[str, str]) -> str:
    """The call with its result in a new tile, and the copy of that to HBM; ``loaded``: loads in place of inputs."""
    name, to, nl = call.unused_name("tile", "result"), call.text("dst"), call.nl
    product = call.passes("stationary", "moving")
    dtype, buffer = (f"{nl}.float32", "psum") if product else (f"{to}.dtype", "sbuf")
    source = f"{nl}.copy({name})" if product else name
    return block(
        [
            f"{name} = {nl}.ndarray({to}.shape, {dtype}, buffer={nl}.{buffer})",
            call.with_arguments(dst=name, **loaded),
            f"{call.nisa}.dma_copy(dst={to}, src={source})",
        ]
    )


def at_partition_zero(call: Call, *, stored: bool) -> str | None:
    """The call on tiles at partition 0, to which DMA moves operands that begin where no engine can start.

    ``stored``: the result is among them, and DMA moves it back.
    """
    tensors = call.tensors()
    astray = {name: t for name, t in tensors.items() if t.buffer.value == "sbuf" and not _may_start(t)}
    if (
        not astray
        or ("dst" in astray) != stored
        or hasattr(call.site.statement, "body")
        or (astray.keys() & OUTPUTS) - {"dst"}
    ):
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
    return block([*before, call.with_arguments(**moved), *behind])


def _may_start(tensor: NkiTensor) -> bool:
    """True if an engine can start at the first partition of ``tensor``."""
    start, count = tensor.access.start_partition, tensor.access.partitions
    if start % _QUADRANT or (count > _QUADRANT and start % _HALF):
        return False
    return count <= _HALF or start == 0


__all__ = ["OUTPUTS", "at_partition_zero", "through_tiles"]
