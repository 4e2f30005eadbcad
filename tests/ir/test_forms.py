"""Forms: what instructions, accesses and tensors of one kind share is what each would find out by itself."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import nki.isa as nisa
import nki.language as nl
from nki import target as targets
from nki.base.element_types import DType, bfloat16, float32
from nki.base.errors import NkiError, WindowError
from nki.base.source import here
from nki.frontend.builder import Builder
from nki.ir import types
from nki.ir.access_bounds import WindowChecker
from nki.ir.instruction import REGISTRY, Inst
from nki.ir.recorder import recording
from nki.ir.sample import Draw
from nki.ir.types import Access, Buffer, Tensor, tensor_form
from nki.language.indexing import index
from nki.language.nki_tensor import NkiTensor
from tests.isa.rule_cases import LEGAL
from tests.isa.spec import Spec
from tests.support import instruction_bench


def again(access: Access) -> Access:
    """An equal access that knows nothing of others."""
    return Access(access.tensor, access.offset, access.shape, access.strides, access.dtype, access.dynamic)


def written_out(access: Access) -> tuple[object, ...]:
    """The signature, from its definition."""
    tensor, size = access.tensor, access.dtype.itemsize
    step = tensor.bytes_per_partition // size
    start = access.offset // step if tensor.buffer.on_chip else 0
    return (access.dtype.name, access.shape, access.strides, tensor.buffer.word, start, step)


@st.composite
def slices(draw: st.DrawFn, size: int) -> slice:
    start = draw(st.integers(0, size - 1))
    stop = draw(st.integers(start + 1, size))
    return draw(st.sampled_from([slice(None), slice(start, stop), slice(start - size, stop), slice(start, None)]))


@st.composite
def views(draw: st.DrawFn) -> NkiTensor:
    """A part of a part of a tensor, now and then in elements of another size; the tables of forms are not full."""
    for table in (types._TENSOR_FORMS, types._ACCESS_FORMS):
        table.clear()
    buffer = draw(st.sampled_from([Buffer.sbuf, Buffer.psum, Buffer.hbm, Buffer.shared_hbm]))
    shape = tuple(draw(st.lists(st.integers(1, 4).map(lambda n: 2 * n), min_size=2, max_size=3)))
    view = NkiTensor.of(Tensor("t", shape, draw(st.sampled_from([float32, bfloat16])), buffer))
    for _ in range(draw(st.integers(0, 2))):
        taken = draw(st.integers(1, view.ndim))
        view = view[tuple(draw(slices(size)) for size in view.shape[:taken])]
        if draw(st.booleans()) and view.is_contiguous() and not view.offset % 2 and not view.shape[-1] % 2:
            view = view.view(nl.uint32 if view.dtype is bfloat16 else nl.int32)
    return view


@given(views())
def test_a_view_has_the_form_and_the_bounds_of_an_equal_access(view: NkiTensor) -> None:
    access, fresh = view.access, again(view.access)
    assert access.signature == fresh.signature == written_out(access)
    assert access.form is fresh.form
    numbers = range(access.tensor.nbytes)
    first = access.offset * access.dtype.itemsize
    last = first + sum((count - 1) * step for step, count in access.pattern()) * access.dtype.itemsize
    assert first in numbers and last + access.dtype.itemsize - 1 in numbers
    assert not fresh.inside
    WindowChecker()._check(fresh)  # pyright: ignore[reportPrivateUsage]  # raises, if ``inside`` was not true
    assert access.is_whole() in (False, access.shape == access.tensor.shape and access.size == access.tensor.elements)


def test_windows_of_one_shape_that_start_in_other_partitions_have_other_forms() -> None:
    tile = Access.whole(Tensor("t", (128, 8), float32, Buffer.sbuf))
    at = [tile.with_window(8 * start, (32, 8), (8, 1)) for start in (0, 32, 64, 0, 64)]
    assert [part.signature[4] for part in at] == [0, 32, 64, 0, 64]
    assert len({part.form for part in at}) == 3


def test_what_is_not_known_to_stay_inside_has_no_windows_that_are() -> None:
    tensor = Tensor("t", (128, 8), float32, Buffer.sbuf)
    outside = Access(tensor, 4, (128, 8), (8, 1), float32)
    window = index(outside, (slice(1, 128), slice(0, 8)))
    assert not window.inside
    inst = REGISTRY["tensor_copy"](window, Access.whole(tensor))
    with pytest.raises(WindowError, match="leaves"):
        WindowChecker().check(inst)
    assert not window.inside and not outside.with_window(4, (1, 1), (8, 1), None).inside


def test_only_accesses_from_the_beginning_to_the_end_are_whole() -> None:
    tile = NkiTensor.of(Tensor("t", (128, 8), float32, Buffer.sbuf))
    assert tile.access.is_whole() and tile[:, :].access.is_whole() and tile[:, 0:8].access.is_whole()
    assert not tile[:, 0:7].access.is_whole() and not tile[0:64].access.is_whole()
    column = NkiTensor.of(Tensor("t", (8, 8), float32, Buffer.sbuf)).ap([[8, 8], [0, 8]])
    assert not column.access.is_whole()


@pytest.mark.parametrize("buffer", [Buffer.sbuf, Buffer.psum, Buffer.register, Buffer.hbm])
@pytest.mark.parametrize("dtype", [float32, bfloat16])
@pytest.mark.parametrize("shape", [(1, 1), (4, 6), (2, 3, 5)])
def test_a_tensor_has_the_sizes_of_its_form(shape: tuple[int, ...], dtype: DType, buffer: Buffer) -> None:
    tensors = [
        Tensor("t", shape, dtype, buffer),
        Tensor("u", shape, dtype, buffer, form=tensor_form(shape, dtype, buffer)),
    ]
    for tensor in tensors:
        free = 1
        for size in shape[1:]:
            free *= size
        assert (tensor.free_size, tensor.elements) == (free, shape[0] * free)
        assert (tensor.bytes_per_partition, tensor.nbytes) == (free * dtype.itemsize, shape[0] * free * dtype.itemsize)
        assert Access.whole(tensor).inside is (buffer is not Buffer.register)
    assert tensors[0].form is tensors[1].form


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_equal_forms_are_equal_signatures(name: str) -> None:
    draw = Draw(random.Random(name), targets.GENERATIONS[-1])
    known: dict[object, tuple[object, ...]] = {}
    for _ in range(40):
        inst = instruction_bench.sample(REGISTRY[name], draw)
        assert known.setdefault(inst.form, inst.signature()) == inst.signature() == inst.key()
        assert known.setdefault(inst.form_parts(), inst.signature()) == inst.signature()


def recorded(mnemonic: str) -> Inst:
    """A legal instruction that the public function has recorded."""
    last: NkiError | None = None
    for target in targets.GENERATIONS:
        with recording(Builder("kernel", target)) as builder:
            given = {
                name: value.make(name) if isinstance(value, Spec) else value for name, value in LEGAL[mnemonic].items()
            }
            try:
                getattr(nisa, mnemonic)(**given)
                return next(inst for inst in builder.body if isinstance(inst, Inst) and inst.mnemonic == mnemonic)
            except NkiError as error:
                last = error
    assert last is not None
    raise last


SIMPLE = [
    name
    for name, cls in REGISTRY.items()
    if cls.public and cls.effects.implicit is None and not any(isinstance(v, list) for v in LEGAL[name].values())
]


@pytest.mark.parametrize("mnemonic", SIMPLE)
def test_a_recorded_instruction_has_the_form_that_it_would_find_itself(mnemonic: str) -> None:
    for inst in (recorded(mnemonic), recorded(mnemonic)):  # the form is new, then known
        copy = type(inst)(**{f.name: getattr(inst, f.name) for f in inst.fields})
        assert inst.form is copy.form
        assert {f.name for f in inst.fields} <= inst.__dict__.keys()


def test_positions_of_one_call_are_one_object() -> None:
    def place() -> object:
        return here()

    one, two = [place() for _ in range(2)]
    assert one is two
    assert one is not place() and place() is not place()
