"""What the plan of a kernel knows about its instructions."""

from nki import language as nl
from nki.backend.cpu.plan import aliases
from nki.base import dtype as dtypes
from nki.ir.inst import REGISTRY
from nki.ir.types import Access, Buffer, Tensor


def test_only_what_is_written_aliases_even_if_one_window_stands_in_two_fields() -> None:
    tile = Access.whole(Tensor("tile", (128, 64), dtypes.float32, Buffer.sbuf))
    again = Access.whole(tile.tensor)
    for dst, data in ((tile, tile), (tile, again)):
        inst = REGISTRY["tensor_scalar"](dst=dst, data=data, op0=nl.add, operand0=1.0)  # type: ignore[call-arg]
        assert aliases(inst) == ((0, 1, True),)
