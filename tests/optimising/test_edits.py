"""Each kind of edit on a text: what it finds, and the text that it makes."""

from __future__ import annotations

import textwrap

import pytest

from nki.optimising.edit import Edit, together
from nki.optimising.edits.combining import combined
from nki.optimising.edits.engines import by_other_descriptors, on_other_engine
from nki.optimising.edits.loops import hoisted, new_tiles, unrolled
from nki.optimising.edits.operands import in_bfloat16
from nki.optimising.edits.products import sums_in_psum
from nki.optimising.edits.sizes import larger_tiles, smaller_tiles
from nki.optimising.edits.transfers import repeated_by_dma, transposed_by_dma
from nki.optimising.edits.wide_transfers import merged
from nki.optimising.kernel_text import KernelText
from nki.optimising.tidy import tidied, unread

HEAD = """import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x, w):
"""
EVERY_LINE = frozenset(range(100))


def text_of(body: str) -> KernelText:
    return KernelText(HEAD + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ") + "\n", "kernel")


def bodies(text: KernelText, edits: list[Edit]) -> list[str]:
    """What each edit makes of the body of the kernel."""
    known = unread(text)
    made = [tidied(text, edit, known).text for edit in edits]
    return [textwrap.dedent(each.removeprefix(HEAD)).strip("\n") for each in made]


def body(code: str) -> str:
    return textwrap.dedent(code).strip("\n")


def test_a_tile_moves_into_the_loop_that_fills_it():
    text = text_of("""
        tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)  # for all
        for i in range(4):
            # the next block
            nisa.dma_copy(dst=tile, src=x[i])
    """)
    assert bodies(text, new_tiles(text)) == [
        body("""
        for i in range(4):
            # the next block
            tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)  # for all
            nisa.dma_copy(dst=tile, src=x[i])
        """)
    ]


def test_a_tile_that_is_read_behind_the_loop_stays_there_too():
    text = text_of("""
        tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
        for i in range(4):
            nisa.dma_copy(dst=tile, src=x[i])
        return tile
    """)
    (found,) = bodies(text, new_tiles(text))
    assert found.count("nl.ndarray") == 2
    assert found.startswith("tile =")


def test_results_in_hbm_stay_in_front_of_loops():
    text = text_of("""
        out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
        for i in range(4):
            nisa.dma_copy(dst=out[i], src=x[i])
    """)
    assert new_tiles(text) == []


def test_what_needs_nothing_of_a_loop_moves_in_front_of_it():
    text = text_of("""
        for i in range(4):
            for j in range(2):
                factors = nl.load(w)
                tile = nl.load(x[i, j])
                nl.store(x[i, j], nl.multiply(tile, factors))
    """)
    inner, outer, *_ = bodies(text, hoisted(text))
    assert {inner, outer} == {
        body("""
        for i in range(4):
            factors = nl.load(w)
            for j in range(2):
                tile = nl.load(x[i, j])
                nl.store(x[i, j], nl.multiply(tile, factors))
        """),
        body("""
        factors = nl.load(w)
        for i in range(4):
            for j in range(2):
                tile = nl.load(x[i, j])
                nl.store(x[i, j], nl.multiply(tile, factors))
        """),
    }


def test_what_the_inner_loop_alone_needs_is_kept_in_a_list():
    text = text_of("""
        for m in range(4):
            for k in range(2, w.shape[0]):
                tile = nl.ndarray((128, 512), dtype=w.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=tile, src=w[k])
                nl.store(x[m], tile)
    """)
    assert bodies(text, hoisted(text)) == [
        body("""
        all_tile = []
        for k in range(2, w.shape[0]):
            tile = nl.ndarray((128, 512), dtype=w.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=w[k])
            all_tile.append(tile)
        for m in range(4):
            for k in range(2, w.shape[0]):
                tile = all_tile[k - 2]
                nl.store(x[m], tile)
        """)
    ]


def test_tiles_of_two_loops_are_kept_in_one_list():
    text = text_of("""
        for m in range(4):
            for n in range(0, 1024, 512):
                for k in range(8):
                    tile = nl.load(w[k, n])
                    nl.store(x[m], tile)
    """)
    made = bodies(text, hoisted(text))
    assert any("tile = all_tile[n // 512 * 8 + k]" in each or "all_tile[(n // 512) * 8 + k]" in each for each in made)


@pytest.mark.parametrize(
    "inside",
    [
        "nisa.tensor_tensor(dst=total, data1=total, data2=one, op=nl.add)",  # adds in each round
        "nisa.dma_copy(dst=total, src=x[i])",
        "total = nl.load(x[i])",
    ],
)
def test_what_changes_in_a_loop_stays_there(inside):
    text = text_of(f"""
        for i in range(4):
            {inside}
            use(total, i)
    """)
    assert not any("in front" in edit.title and "total" in edit.title for edit in hoisted(text)) or "add" in inside


def test_sums_of_products_stay_in_psum():
    text = text_of("""
        acc = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=acc, value=0.0)
        for k in range(4):
            part = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(dst=part, stationary=x[k], moving=w[k])
            nisa.tensor_tensor(dst=acc, data1=part, data2=acc, op=nl.add)
        return acc
    """)
    assert bodies(text, sums_in_psum(text)) == [
        body("""
        acc = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
        part = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
        for k in range(4):
            nisa.nc_matmul(dst=part, stationary=x[k], moving=w[k])
        nisa.tensor_copy(dst=acc, src=part)
        return acc
        """)
    ]


def test_loads_of_all_rounds_become_one():
    text = text_of("""
        for j in range(1, 9):
            tile = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=x[0:128, j * 64 : (j + 1) * 64])
            nl.store(x[j], tile)
    """)
    assert bodies(text, merged(text)) == [
        body("""
        all_tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=all_tile, src=x[0:128, 64:576])
        for j in range(1, 9):
            tile = all_tile[:, j * 64 - 64:j * 64]
            nl.store(x[j], tile)
        """)
    ]


def test_loads_in_an_inner_loop_become_one_for_each_of_its_rounds():
    text = text_of("""
        for m in range(M // 128):
            for k in range(4):
                tile = nl.load(x[k * 128 : (k + 1) * 128, m * 128 : (m + 1) * 128])
                nl.store(out[m], tile)
    """)
    assert bodies(text, merged(text)) == [
        body("""
        all_tile = []
        for k in range(4):
            wide_tile = nl.load(x[k * 128 : (k + 1) * 128, 0:(M // 128) * 128])
            all_tile.append(wide_tile)
        for m in range(M // 128):
            for k in range(4):
                tile = all_tile[k][:, m * 128:m * 128 + 128]
                nl.store(out[m], tile)
        """)
    ]


def test_a_name_that_the_rest_of_the_loop_binds_again_is_kept_under_another():
    text = text_of("""
        for m in range(4):
            w = nl.load(x)
            nl.store(out[m], w)
            w = nl.load(y[m])
            nl.store(out[m], w)
    """)
    assert bodies(text, hoisted(text)) == [
        body("""
        w = nl.load(x)
        kept_w = w
        for m in range(4):
            w = kept_w
            nl.store(out[m], w)
            w = nl.load(y[m])
            nl.store(out[m], w)
        """)
    ]


def test_stores_of_all_rounds_become_one():
    text = text_of("""
        for first in range(0, w.shape[1], 64):
            tile = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
            fill(tile)
            nisa.dma_copy(dst=x[rows, first : first + 64], src=tile)
    """)
    assert bodies(text, merged(text)) == [
        body("""
        all_tile = nl.ndarray((128, w.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        for first in range(0, w.shape[1], 64):
            tile = all_tile[:, first:first + 64]
            fill(tile)
        nisa.dma_copy(dst=x[rows, 0:w.shape[1]], src=all_tile)
        """)
    ]


def test_a_transpose_moves_into_the_load_and_takes_its_tiles_with_it():
    text = text_of("""
        tile = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[0:128])
        across = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.psum)
        nisa.nc_transpose(dst=across, data=tile)
        turned = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=turned, src=across)
        return turned
    """)
    assert bodies(text, transposed_by_dma(text)) == [
        body("""
        turned = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_transpose(dst=turned, src=x[0:128])
        return turned
        """)
    ]


def test_a_row_is_repeated_by_its_load():
    text = text_of("factors = nl.broadcast_to(nl.load(w[0:1]), (128, 512))\nreturn factors")
    assert bodies(text, repeated_by_dma(text)) == [
        body("""
        factors = nl.ndarray((128, 512), dtype=w.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=factors, src=w[0:1].broadcast(0, 128))
        return factors
        """)
    ]


PAIRS = {
    "two operators": (
        """
        nisa.tensor_scalar(dst=t, data=x, op0=nl.multiply, operand0=2.0)
        nisa.tensor_scalar(dst=y, data=t, op0=nl.subtract, operand0=1.0, reverse0=True)
        """,
        "nisa.tensor_scalar(dst=y, data=x, op0=nl.multiply, operand0=2.0, "
        "op1=nl.subtract, operand1=1.0, reverse1=True)",
    ),
    "scale and bias": (
        """
        nisa.tensor_scalar(dst=t, data=x, op0=nl.multiply, operand0=a, op1=nl.add, operand1=b)
        nisa.activation(dst=y, op=nl.exp, data=t)
        """,
        "nisa.activation(dst=y, op=nl.exp, data=x, scale=a, bias=b)",
    ),
    "sum": (
        """
        nisa.activation(dst=y, op=nl.exp, data=x, bias=b)
        nisa.tensor_reduce(dst=s, op=nl.add, data=y, axis=1)
        """,
        "nisa.activation(dst=y, op=nl.exp, data=x, bias=b, reduce_op=nl.add, reduce_res=s, "
        "reduce_cmd=nisa.reduce_cmd.reset_reduce)",
    ),
    "scaled tile": (
        """
        nisa.tensor_scalar(dst=t, data=x, op0=nl.multiply, operand0=2.0)
        nisa.tensor_tensor(dst=y, data1=w, data2=t, op=nl.subtract)
        """,
        "nisa.scalar_tensor_tensor(dst=y, data=x, op0=nl.multiply, operand0=2.0, op1=nl.subtract, operand1=w, "
        "reverse1=True)",
    ),
    "copy": (
        """
        nisa.activation(t, nl.exp, x)
        nisa.tensor_copy(dst=y, src=t)
        """,
        "nisa.activation(dst=y, op=nl.exp, data=x)",
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_two_instructions_become_one(name):
    code, expected = PAIRS[name]
    text = text_of(code)
    assert bodies(text, combined(text))[0] == expected


def test_instructions_of_different_operators_stay():
    text = text_of("""
        nisa.tensor_scalar(dst=t, data=x, op0=nl.maximum, operand0=0.0)
        nisa.activation(dst=y, op=nl.exp, data=t)
        nisa.tensor_reduce(dst=s, op=nl.maximum, data=y, axis=1)
    """)
    assert combined(text) == []


def test_operands_of_products_get_another_dtype():
    text = text_of("""
        tile = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.sbuf)
        kept = []
        kept.append(tile)
        for k in range(4):
            weights = nl.load(w[k])
            nisa.nc_matmul(dst=total, stationary=kept[k], moving=weights)
    """)
    together_, *_ = bodies(text, in_bfloat16(text, EVERY_LINE))
    assert "tile = nl.ndarray((128, 128), dtype=nl.bfloat16, buffer=nl.sbuf)" in together_
    assert "weights = nl.load(w[k], dtype=nl.bfloat16)" in together_


def test_engines_and_descriptors_are_chosen_line_by_line_and_in_turn():
    text = text_of("""
        for i in range(4):
            nisa.tensor_copy(dst=a, src=b, engine=nisa.engine.vector)
            nisa.dma_copy(dst=a, src=x[i])
    """)
    whole, half = bodies(text, on_other_engine(text, "scalar", EVERY_LINE))
    assert "nisa.tensor_copy(dst=a, src=b, engine=nisa.engine.scalar)" in whole
    assert "engine=nisa.engine.scalar if i % 2 else nisa.engine.vector)" in half
    modes = "\n".join(bodies(text, by_other_descriptors(text, ["swdge", "none"], EVERY_LINE)))
    assert "dge_mode=nisa.dge_mode.swdge)" in modes
    assert "dge_mode=nisa.dge_mode.none if i % 2 else nisa.dge_mode.unknown)" in modes
    assert on_other_engine(text, "scalar", frozenset()) == []


def test_loops_on_the_device_are_unrolled():
    text = text_of("""
        def body(i):
            use(x[i])

        nl.fori_loop(0, n, body)
        for j in nl.dynamic_range(8):
            use(w[j])
    """)
    whole, four, ranged = bodies(text, unrolled(text))
    assert "for i in range(0, n):\n    body(i)" in whole
    assert "def four_of_body(i):\n    for part in range(4):\n        body(i * 4 + part)" in four
    assert "nl.fori_loop(0, (n) // 4, four_of_body)" in four
    assert "for j in range(8):" in ranged


def test_numbers_become_larger_and_smaller():
    text = KernelText("SIZE = 64\n" + text_of("tile = nl.ndarray((128, SIZE))\nrow = x[0:128]").text, "kernel")
    assert [edit.title for edit in larger_tiles(text)] == [
        "SIZE = 128",
        "SIZE = 256",
        "SIZE = 512",
        "128 (but for partitions) becomes 256",
        "128 (but for partitions) becomes 512",
        "128 (but for partitions) becomes 1024",
    ]
    assert [edit.title for edit in smaller_tiles(text)][:2] == ["SIZE = 32", "SIZE = 16"]
    assert larger_tiles(text)[0].applied(text.text).startswith("SIZE = 128\n")


def test_edits_of_the_same_text_do_not_go_together():
    one, two = Edit("a", 1, ((0, 4, "x"),)), Edit("b", 2, ((2, 6, "y"),))
    three = Edit("c", 3, ((8, 9, "z"),))
    assert together([one, two], "both") is None
    assert together([one, two, three], "all").applied("0123456789") == "x4567z9"


def test_code_outside_of_the_kernel_stays():
    loop = "(x):\n    for i in range(4):\n        a = nl.load(w)\n        nl.store(x[i], a)\n"
    text = KernelText(f"{text_of('helper(x)').text}\n\ndef helper{loop}\n\ndef other{loop}", "kernel")
    assert [edit.line for edit in hoisted(text)] == [13]
