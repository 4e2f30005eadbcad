"""``nki.profile_step``: the kernels of a step and what it does between them, from PyTorch and JAX, in one report."""

from __future__ import annotations

import json
import math
import re
from html import unescape
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch import distributed

import nki
import nki.isa as nisa
import nki.language as nl
from examples.llama import attention
from examples.llama import jax as llama_in_jax
from examples.llama import kernels as llama_kernels
from examples.llama import pytorch as llama
from examples.llama.model import Sizes, first_weights, rotation, step_tables
from examples.minilm import kernels as minilm
from examples.minilm.model import Block
from examples.minilm.pytorch import Layer
from nki.base.profile_errors import StepTraceError, TripCountError
from nki.cli.output import schema
from nki.compilation.traced_step import Launch, Operation, TensorType, needs
from nki.frameworks.torch import ADAPTER
from nki.profiling.steps import prices, step_page, step_run, step_text
from nki.profiling.steps.repeats import grouped
from nki.profiling.steps.step_trace import trace
from tests.support.command_line import Ran
from tests.support.decoded_trace import DecodedTrace
from tests.support.json_validator import mistakes

SIZES = Sizes(layers=2, hidden=96, tokens=32, contexts=2)
X = nki.ShapeDtype((128, 64), "float32")


@nki.jit
def doubled(x):
    t = nl.load(x)
    nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=2.0)
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(y, t)
    return y


@nki.jit
def added(x, y):
    t = nl.load(x)
    nisa.tensor_tensor(dst=t, data1=t, data2=nl.load(y), op=nl.add)
    z = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(z, t)
    return z


@nki.jit
def counted(x, count):
    t = nl.load(x)
    register = nisa.register_alloc()
    nisa.register_load(register, nl.load(count))

    def body(_):
        nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=2.0)

    nl.fori_loop(0, register, body)
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(y, t)
    return y


def in_torch(step, *args, **options):
    return nki.profile_step(step, target="trn2", framework="torch", **options)(*args)


def in_jax(step, *args):
    return nki.profile_step(step, target="trn2", framework="jax")(*args)


# The examples


def decode(position: int = 3):
    """A step of generation, and all its tensors."""
    weights = {name: torch.tensor(array) for name, array in first_weights(SIZES).items()}
    tables = [torch.from_numpy(t) for t in (*rotation(SIZES.tokens), *step_tables(SIZES.tokens))]
    caches = [
        (torch.zeros(SIZES.features, SIZES.tokens), torch.zeros(SIZES.tokens, SIZES.features))
        for _ in range(SIZES.layers)
    ]

    def step(token):
        def attend(qkv, n):
            return llama.WITH_KERNELS.step(qkv, tables, caches[n], position)

        return llama.forward(weights, token, llama.WITH_KERNELS, attend)

    return torch.inference_mode()(step), [*weights.values(), *tables, *(t for cache in caches for t in cache)]


@pytest.fixture(scope="module")
def decoded():
    return nki.profile_step(decode()[0], target="trn2")(torch.tensor([5]))


def test_a_decode_step_of_llama(decoded):
    assert {each.title: each.launches for each in decoded.kernels} == {"rms_norm": 5, "attention_step": 2, "swiglu": 2}
    assert list(map(str, decoded.order)) == ["2 x (rms_norm, attention_step, rms_norm, swiglu)", "rms_norm"]
    assert decoded.critical_path == decoded.launches
    assert [each.needs for each in decoded.launches[1:]] == [(each.number,) for each in decoded.launches[:-1]]
    counts = {}
    for each in decoded.unpriced:
        counts[each.name] = counts.get(each.name, 0) + each.count
    assert counts == {"aten.index": 1, "aten.linear": 9, "aten.copy_": 4, "aten.add": 4}
    products = next(each for each in decoded.unpriced if each.operands[1:] == ("384x128:float32",))
    assert products.shapes == "1x128:float32, 384x128:float32 -> 1x384:float32" and products.count == 2
    assert products.bytes == 4 * (128 + 384 * 128 + 384)


def test_the_sum_of_the_kernels_is_that_of_their_own_reports(decoded):
    calls = {
        "rms_norm": (llama_kernels.rms_norm, (1, 128), (128,)),
        "swiglu": (llama_kernels.swiglu, (1, 192)),
        "attention_step": (attention.attention_step, (1, 384), *[(1, 16)] * 2, *[(1, 32)] * 2, (128, 32), (32, 128)),
    }
    own = {
        name: nki.profile(kernel, target="trn2")(*[nki.ShapeDtype(shape, "float32") for shape in shapes])
        for name, (kernel, *shapes) in calls.items()
    }
    launched = [own[each.kernel.title] for each in decoded.launches]
    assert decoded.latency == math.fsum(each.latency for each in launched)
    assert decoded.device_time == math.fsum(each.device_time for each in launched)
    for each in decoded.kernels:
        assert str(each.profile) == str(own[each.title])
        assert each.profile.origin.file == own[each.title].origin.file


def test_no_tensor_changes():
    step, tensors = decode()
    before = [tensor.clone() for tensor in tensors]
    nki.profile_step(step, target="trn2")(torch.tensor([5]))
    assert all(map(torch.equal, tensors, before))


@pytest.fixture(scope="module")
def layer():
    """The transformer block of examples/minilm with weights that nothing looks at."""
    wide = {"w_qkv": 1152, "b_qkv": 1152, "w_in": 1536, "b_in": 1536}
    arrays = {}
    for name in Block.__annotations__:
        columns = wide.get(name, 384)
        rows = (1536 if name == "w_out" else 384,) if name.startswith("w_") else ()
        arrays[name] = np.zeros((*rows, columns), np.float32)
    return Layer(Block(**arrays))


def test_the_transformer_block_of_minilm(layer):
    inputs = (64, 384), (1, 4, 128), (1, 4, 128)
    shapes = [nki.ShapeDtype(shape, "float32") for shape in inputs]
    step = nki.profile_step(layer, target="trn2")(*shapes)
    assert step.name == "Layer" and not step.unpriced
    weights = [[layer.get_buffer(name) for name in names] for names in (Layer.ATTENTION, Layer.FEED_FORWARD)]
    attention = nki.profile(minilm.attention_block, target="trn2")(*map(torch.empty, inputs), *weights[0])
    feed = nki.profile(minilm.feed_forward_block, target="trn2")(torch.empty(64, 384), *weights[1])
    assert step.latency == math.fsum([attention.latency, feed.latency])
    assert step.share(step.kernels[0]) == attention.latency / step.latency
    assert step.launches[1].begin == attention.latency and step.launches[1].needs == (0,)
    text = str(step)
    assert text.startswith("step Layer on trn2: ") and "attention_block, feed_forward_block" in text


def test_a_training_step_in_jax_and_pytorch():
    weights, batch = first_weights(SIZES), np.zeros((SIZES.contexts, SIZES.tokens + 1), np.int32)

    def by_jax(weights, batch):
        return jax.value_and_grad(llama_in_jax.loss)(weights, batch, llama_in_jax.WITH_KERNELS)

    def by_torch(batch):
        tensors = {name: torch.tensor(array, requires_grad=True) for name, array in weights.items()}
        logits = llama.whole_contexts(tensors, batch[:, :-1], llama.WITH_KERNELS)
        loss = torch.nn.functional.cross_entropy(logits, batch[:, 1:].reshape(-1))
        return torch.autograd.grad(loss, list(tensors.values()))

    steps = in_jax(by_jax, weights, batch), in_torch(by_torch, batch.astype(np.int64))
    order = ["2 x (rms_norm, attention, rms_norm, swiglu)", "rms_norm"]
    backward = "2 x (rms_norm_backward, swiglu_backward, rms_norm_backward, attention_backward)"
    for step in steps:
        assert list(map(str, step.order)) == [*order, backward, "rms_norm_backward"]
        assert len(step.critical_path) == 18
    assert steps[0].latency == steps[1].latency
    assert in_jax(jax.jit(by_jax), weights, batch).latency == steps[0].latency


# Dependences


def test_independent_kernels_are_beside_the_critical_path():
    def step(x, y):
        return added(doubled(doubled(x)), doubled(y))

    for found in (in_torch(step, X, X), in_jax(step, X, X)):
        assert [each.needs for each in found.launches] == [(), (0,), (), (1, 2)]
        assert [each.number for each in found.critical_path] == [0, 1, 3]
        one, both = (each.profile.latency for each in found.kernels)
        assert found.critical_time == math.fsum([one, one, both])
        assert found.latency == math.fsum([one, one, one, both])
        assert [each.begin for each in found.launches] == pytest.approx([0, one, 2 * one, 3 * one], rel=1e-12)


def test_unpriced_operations_carry_dependences():
    def step(x):
        return doubled(torch.relu(doubled(x)).view(64, 128).t().contiguous())

    found = in_torch(step, X)
    assert [each.needs for each in found.launches] == [(), (0,)]
    assert [each.name for each in found.unpriced] == ["aten.relu", "aten.clone"]  # views move nothing


def test_changes_in_place_carry_dependences():
    def step(cache, x):
        cache[:64] = doubled(x)[:64]
        return doubled(cache[64:]), doubled(x)

    found = in_torch(step, X, X)
    assert [each.needs for each in found.launches] == [(), (0,), ()]  # whole blocks of memory count


def test_what_an_event_needs():
    def event(reads, writes):
        return Operation("copy", (), (), frozenset(reads), frozenset(writes))

    events = [event([], [1]), event([1], [2]), event([1], [3]), event([2], [1]), event([1], [1]), event([], [4])]
    assert needs(events) == [[], [0], [0], [0, 1, 2], [3], []]


# What a step does beside kernels


def test_loops_and_batches_of_jax():
    def scanned(x):
        return jax.lax.scan(lambda carry, _: (doubled(carry) * 2.0, None), x, None, length=5)[0]

    found = in_jax(scanned, X)
    assert [each.needs for each in found.launches] == [(), (0,), (1,), (2,), (3,)]
    assert [(each.name, each.count) for each in found.unpriced] == [("mul", 5)]
    batch = in_jax(jax.vmap(doubled), nki.ShapeDtype((3, 128, 64), "float32"))
    assert len(batch.launches) == 3 and len(batch.critical_path) == 1
    assert batch.latency == math.fsum([batch.kernels[0].profile.latency] * 3)


def test_shapes_of_a_framework_say_who_traces():
    own = nki.profile(doubled, target="trn2")(X).latency

    def step(x):
        return doubled(x)

    shapes = jax.ShapeDtypeStruct((128, 64), "float32"), torch.empty(128, 64, device="meta")
    for shape in shapes:
        assert nki.profile_step(step, target="trn2")(shape).latency == own
    assert nki.profile_step(jax.jit(step), target="trn2")(X).latency == own


def test_what_only_the_data_says_is_told():
    def looped(x):
        return jax.lax.while_loop(lambda v: v.sum() < 9.0, doubled, x)

    def branched(x):
        return jax.lax.cond(x.sum() < 9.0, lambda v: v, doubled, x)

    for step, word in ((looped, "while loop"), (branched, "2 branches")):
        found = in_jax(step, X)
        assert len(found.launches) == 1 and word in found.notes[0] and word in str(found)


def test_collectives_of_pytorch():
    distributed.init_process_group("gloo", rank=0, world_size=1, store=distributed.HashStore())
    try:

        def step(x):
            y = doubled(x)
            distributed.all_reduce(y)
            z = torch.ops._c10d_functional.all_reduce(y, "sum", distributed.group.WORLD.group_name)
            return doubled(torch.ops._c10d_functional.wait_tensor(z))

        found = in_torch(step, torch.ones(128, 64))
    finally:
        distributed.destroy_process_group()
    shown = [(each.name, each.bytes, each.is_collective) for each in found.unpriced]
    names = "c10d.allreduce_", "_c10d_functional.all_reduce"
    assert shown == [(name, 128 * 64 * 4, True) for name in names]
    assert found.launches[1].needs == (0,) and "c10d.allreduce_ (collective)" in str(found)


def test_collectives_of_jax():
    mesh = jax.make_mesh((1,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec()
    step = jax.shard_map(lambda x: jax.lax.psum(doubled(x), "i"), mesh=mesh, in_specs=spec, out_specs=spec)
    (psum,) = [each for each in in_jax(step, jnp.ones((128, 64))).unpriced if each.is_collective]
    assert "psum" in psum.name and psum.bytes == 128 * 64 * 4


def test_an_operation_with_a_price_takes_time(monkeypatch):
    def step(x):
        return doubled(torch.relu(doubled(x)))

    without = in_torch(step, X)
    monkeypatch.setattr(step_run, "price", lambda operation, _: 1e-3 if operation.name == "aten.relu" else None)
    found = in_torch(step, X)
    assert found.latency == pytest.approx(without.latency + 1e-3, rel=1e-12) and not found.unpriced
    assert found.launches[1].begin == pytest.approx(without.launches[1].begin + 1e-3, rel=1e-12)
    operation = Operation("psum", (TensorType((1,), "float32", 4),), (), frozenset(), frozenset(), True)
    assert prices.price(operation, found.target) is None and operation.nbytes == 4


# Interval, what-if, trips, errors


def test_the_interval_and_what_if(decoded):
    fast, slow = decoded.interval
    launch = decoded.target.bound(0).launch_ns * 1e-9
    parts = [each.kernel.profile.interval for each in decoded.launches]
    assert fast == math.fsum([launch, *(low - launch for low, _ in parts)]) < decoded.latency < slow
    assert slow == math.fsum(high for _, high in parts)
    free = decoded.what_if(launch=0)
    assert free.launch_time == 0 and free.device_time == decoded.device_time == free.latency
    assert free.order == decoded.order and free.unpriced == decoded.unpriced


def test_iterations_that_only_data_says_are_stated():
    def step(x, count):
        return counted(x, count)

    count = nki.ShapeDtype((1, 1), "int32")
    with pytest.raises(TripCountError, match=r"trips=\{'counted': 64\}"):
        in_torch(step, X, count)
    own = nki.profile(counted, target="trn2", trips=64)(X, count)
    assert in_torch(step, X, count, trips={"counted": 64}).latency == own.latency


@pytest.mark.parametrize(
    ("step", "options", "words"),
    [
        (lambda x: x + 1, {"framework": "torch"}, "launches no kernel"),
        (lambda x: doubled(x) if x.sum() > 0 else x, {"framework": "torch"}, "reads the contents of a tensor"),
        (lambda x: doubled(x) if x.sum() > 0 else x, {"framework": "jax"}, "reads the contents of an array"),
        (doubled, {}, "no tensors of PyTorch or JAX"),
        (doubled, {"framework": "numpy"}, "'torch', 'jax'"),
    ],
)
def test_steps_that_cannot_be_traced(step, options, words):
    with pytest.raises(StepTraceError, match=words):
        nki.profile_step(step, target="trn2", **options)(X)


def test_a_kernel_from_a_file(monkeypatch):
    """As in a model of ``nki.load``: the program is there, and not the function that it was compiled from."""

    def step(x):
        return doubled(x)

    (event,) = ADAPTER.trace(step, (torch.ones(128, 64),), {})
    own = nki.profile(doubled)(X)
    monkeypatch.setattr(event.executable, "made_of", None)
    assert nki.profile_step(step)(torch.ones(128, 64)).latency == own.latency
    with pytest.raises(StepTraceError, match="comes from a file"):
        nki.profile_step(step, target="trn1")(torch.ones(128, 64))


def test_repeats_are_written_once():
    assert [str(each) for each in grouped("abcbcbcd")] == ["a", "3 x (b, c)", "d"]
    assert [str(each) for each in grouped("aaab")] == ["3 x a", "b"]
    assert grouped("") == []
    for names in ("abab" * 3 + "c" + "ab" * 2, "xyzzyxyzzy"):
        assert "".join("".join(each.names) * each.count for each in grouped(names)) == names


# Reports


def test_the_page_links_to_the_reports_of_its_kernels(decoded, tmp_path):
    page, *others = decoded.to_html(tmp_path / "decode.html")
    assert [each.name for each in others] == [f"decode-{each.title}.html" for each in decoded.kernels]
    text = page.read_text(encoding="utf-8")
    links = re.findall(r'href="([^"]+\.html)"', text)
    assert set(links) == {each.name for each in others} and len(links) == len(decoded.launches) + 2 * 3
    for each, file in zip(decoded.kernels, others, strict=True):
        assert file.read_text(encoding="utf-8") == step_page.html.render(each.profile)
    assert "<script" not in text and "default-src 'none'" in unescape(text)
    for each in decoded.unpriced:
        assert each.shapes in unescape(text)


def test_names_of_pages_differ():
    def step(x, y):
        return doubled(x), doubled(y)

    found = in_torch(step, X, nki.ShapeDtype((128, 128), "float32"))
    titles = [each.title for each in found.kernels]
    assert titles == ["doubled(x=128x64:float32)", "doubled(x=128x128:float32)"]
    assert len(step_page.pages(found, "step")) == 3
    for each in found.kernels:
        each.title = "a b"
    assert list(step_page.pages(found, "s")) == ["", "s-a_b.html", "s-a_b~2.html"]


def test_the_trace(decoded):
    shown = DecodedTrace(trace(decoded))
    assert shown.errors == []
    assert next(iter(shown.processes.values())) == "step step on trn2 (open-nki model)"
    assert len(shown.processes) == 1 + len(decoded.kernels)
    kernels = shown.on("Kernels")
    assert [each.name for each in kernels] == [each.kernel.title for each in decoded.launches]
    for each, launch in zip(kernels, decoded.launches, strict=True):
        profile = launch.kernel.profile
        assert each.begin == round((launch.begin + profile.launch_time) * 1e9) and each.arguments["critical"] == 1
        assert each.end == round(launch.end * 1e9)
    assert len(shown.on("Operations")) == sum(each.count for each in decoded.unpriced)
    first = {launch.kernel.title: launch for launch in reversed(decoded.launches)}
    engines = shown.on("Tensor")
    assert min(each.begin for each in engines) >= min(each.begin for each in first.values()) * 1e9


def test_the_text_fits_its_width(decoded):
    for width in (60, 80, 100, 160):
        assert max(map(len, step_text.report(decoded, width).splitlines())) <= width
    longer = in_torch(lambda x, y: (doubled(x), doubled(y)), X, nki.ShapeDtype((128, 128), "float32"))
    assert max(map(len, step_text.report(longer, 60).splitlines())) <= 60
    short = step_text.report(decoded, lines=2)
    assert "5 others with 13 calls" in short and "launches" in decoded._repr_html_()


STEPS = """
import nki
import torch
from examples.rms_normalise import rms_normalise


def twice(x, n=2):
    for _ in range(n):
        x = rms_normalise(x) + 1.0
    return x


class Doubling(torch.nn.Module):
    def forward(self, x):
        return rms_normalise(x)


module = Doubling()
"""
SHAPE = ("--arg", "128x512:float32", "--target", "trn2")


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    (tmp_path / "steps.py").write_text(STEPS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return lambda name, *arguments: Ran(capsys, "profile", f"steps.py:{name}", "--step", "torch", *arguments)


def test_the_command(command):
    ran = command("twice", *SHAPE, "--arg", "n=3", "--html", "t.html", "--trace", "t.pftrace")
    assert ran.code == 0 and ran.err == ""
    assert ran.out.startswith("step twice on trn2: ") and "3 x rms_normalise" in ran.out
    assert sorted(map(str, Path().glob("t*"))) == ["t-rms_normalise.html", "t.html", "t.pftrace"]
    assert command("module", *SHAPE).out.startswith("step Doubling on trn2: ")


def test_json_of_the_command_follows_the_schema(command):
    whole = schema.json_schema()
    ran = command("twice", *SHAPE, "--target", "trn1", "--json")
    shown = json.loads(ran.out)
    assert list(shown) == ["twice on trn2", "twice on trn1"]
    assert not list(mistakes(shown, whole["$defs"]["profile --step"], whole)), ran.out
    step = shown["twice on trn2"]
    (kernel,) = step["kernels"]
    assert kernel["report"]["latency"] == kernel["latency"] and step["latency"] == 2 * kernel["latency"]
    assert [each["needs"] for each in step["launches"]] == [[], [0]]
    ran = command("twice", *SHAPE, "--what-if", "launch=0", "--json")
    assert json.loads(ran.out)["launch=0"]["launch_time"] == 0


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("twce", SHAPE, "did you mean twice?"),
        ("twice", (), "missing a required argument: 'x'"),
        ("twice", (*SHAPE, "--parquet", "folder"), "--parquet and --step do not go together"),
        ("STEPS", SHAPE, "no function"),
    ],
)
def test_wrong_commands(command, name, arguments, words):
    ran = command(name, *arguments)
    assert ran.code == 2 and words in ran.err


def test_events_know_their_kernels():
    (event,) = ADAPTER.trace(lambda x: doubled(x), (torch.ones(128, 64),), {})
    assert isinstance(event, Launch)
    kernel, specs = event.executable.made_of
    assert kernel.func is doubled.func and specs["x"].shape == (128, 64)
