"""The edits that carry out advice: for each kind of advice the functions that find them in the text of a kernel."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

from nki.optimising.edit import Edit, unique
from nki.optimising.edits.combining import combined
from nki.optimising.edits.engines import by_other_descriptors, on_other_engine
from nki.optimising.edits.loops import hoisted, new_tiles, unrolled
from nki.optimising.edits.operands import in_bfloat16
from nki.optimising.edits.products import sums_in_psum
from nki.optimising.edits.sizes import larger_tiles, smaller_tiles
from nki.optimising.edits.transfers import repeated_by_dma, transposed_by_dma
from nki.optimising.edits.wide_transfers import merged
from nki.optimising.kernel_text import KernelText
from nki.profiling.advice import SERIAL_LOOP, Advice

Find = Callable[[KernelText, frozenset[int]], list[Edit]]
"""The edits in a text; the lines are the ones that the advice names."""


def _whole(find: Callable[[KernelText], list[Edit]]) -> Find:
    return lambda text, _: find(text)


KINDS: Final[dict[str, tuple[Find, ...]]] = {
    "One tile for all rounds": (_whole(new_tiles),),
    "Loads wait for their memory": (_whole(new_tiles), _whole(smaller_tiles)),
    "Engines work one after the other": (_whole(new_tiles), _whole(smaller_tiles)),
    "Inputs loaded again": (_whole(hoisted),),
    "The same results computed again": (_whole(hoisted),),
    "Short rows in DMA transfers": (_whole(merged), _whole(larger_tiles)),
    "Tiles of few partitions": (_whole(merged), _whole(larger_tiles), _whole(repeated_by_dma)),
    "Instructions on few elements": (_whole(larger_tiles),),
    "One generator of DMA descriptors": (_whole(merged), _whole(larger_tiles)),
    "Rows that go through HBM to be repeated": (_whole(repeated_by_dma),),
    "Transposes on the Tensor engine": (_whole(transposed_by_dma),),
    "Products of float32": (in_bfloat16,),
    "Sums of products on Vector": (_whole(sums_in_psum),),
    "Two instructions that one could do": (_whole(combined),),
    SERIAL_LOOP: (_whole(unrolled),),
}
"""By the title of the advice."""
ALWAYS: Final = (combined,)
"""Edits that make instructions fewer, whatever the profile says."""
_ENGINE: Final = re.compile(r"(?:Vector|Scalar|GpSimd) computes what (Vector|Scalar|GpSimd) could")

_MODES: Final = re.compile(r"dge_mode\.(\w+)")


def of_advice(text: KernelText, advice: Iterable[Advice], file: str) -> list[Edit]:
    """The edits of ``text`` that carry out ``advice``, which names lines of ``file``; none where it needs a person."""
    found: list[Edit] = []
    for each in advice:
        for find in KINDS.get(each.title, ()):
            found += find(text, _lines(each, file))
    for always in ALWAYS:
        found += always(text)
    return unique(found)


def choices(text: KernelText, advice: Iterable[Advice], file: str) -> list[Edit]:
    """Edits that choose engines and origins of descriptors: the code stays, and other edits may make them needless."""
    found: list[Edit] = []
    for each in advice:
        lines = _lines(each, file)
        if (match := _ENGINE.fullmatch(each.title)) is not None:
            found += on_other_engine(text, match[1].lower(), lines)
        elif each.title == "Sums leave PSUM through the busiest engine":
            found += [edit for goal in ("scalar", "vector") for edit in on_other_engine(text, goal, lines)]
        elif each.title == "One generator of DMA descriptors":
            found += by_other_descriptors(text, _MODES.findall(each.remedy), lines)
    return unique(found)


def _lines(advice: Advice, file: str) -> frozenset[int]:
    return frozenset(span.line for span in advice.lines if span.file == file)


__all__ = ["ALWAYS", "KINDS", "choices", "of_advice"]
