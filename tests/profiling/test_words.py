"""Words and calls in the report: each word is explained where it stands, each call has its cost."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl
from examples.rms_normalise import rms_normalise
from nki.base.terms import TERMS, Cause, limit, resource_name
from nki.profiling.html import render
from tests.profiling.kernels import profiled_product

GLOSSARY = Path(__file__).parent.parent.parent / "docs" / "glossary.md"


def helper(x, by):
    tile = nl.load(x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=by)
    return tile


@nki.jit
def calls_twice(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.add(helper(x, 2.0), helper(x, 3.0)))
    return out


def test_the_page_has_the_cost_of_calls() -> None:
    page = render(nki.profile(calls_twice, target="trn2")(nki.ShapeDtype((128, 512), np.float32)))
    table = page[page.index("<h2>Calls</h2>") :].partition("</section>")[0]
    line = calls_twice.func.__code__.co_firstlineno + 3
    for code in ("helper(x, 2.0)", "helper(x, 3.0)"):
        assert table.count(f"test_words.py:{line}  {code}") == 3, table  # as a whole, and at both lines of the helper


def test_pages_without_calls_have_no_such_table() -> None:
    assert "<h2>Calls</h2>" not in render(profiled_product())


def test_words_are_explained_where_they_stand() -> None:
    profile = nki.profile(rms_normalise, target="trn2")(nki.ShapeDtype((128, 512), np.float32))
    page = render(profile)
    for name in ("MFU", "MBU", "Busy", "Stalled", "Critical path", "Range", "Lower bound", "HBM traffic"):
        assert re.search(rf'<(dt|th|span)[^>]* title="[^"]{{20,}}"[^>]*>{name}<', page), name
    causes = {cause for use in profile.engines for cause in use.stalls if not cause.startswith("waits for")}
    assert causes and all(TERMS[cause] in unescape(page) for cause in causes)


def test_no_word_of_the_model_alone() -> None:
    assert {cause.word for cause in Cause if cause is not Cause.dependence} <= set(TERMS)
    for resource in ("descriptors (sync)", "dependences", "dma"):
        assert "(" not in limit(resource) + resource_name(resource)


def test_the_glossary_has_every_word() -> None:
    rows = dict(re.findall(r"^\| ([^|]+) \| (.+) \|$", GLOSSARY.read_text(encoding="utf-8"), re.MULTILINE))
    wrong = [f"| {word} | {meaning} |" for word, meaning in TERMS.items() if rows.get(word) != meaning]
    assert not wrong, "\n".join(["docs/glossary.md, Profiles, has not these rows of nki/base/terms.py:", *wrong])
