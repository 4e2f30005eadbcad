"""Tuning: the winner, the search, ties, and what is checked of a winner."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

import nki
from examples.tuning.product import product
from nki.base.errors import ArgumentError
from nki.base.sweep_errors import NoPointError, SpaceError
from nki.profiling.draws import SURE, latencies, part_faster
from nki.sweeps.axes import Axis
from nki.sweeps.search import Search, Trial
from nki.sweeps.tuning import DRAWS, tune
from tests.sweeps import kernels
from tests.sweeps.test_sweep import Here

FILE = str(Path(kernels.__file__))
PARTS = {"arguments": {"x": "64x256:float32", "parts": [1, 2, 4, 8]}, "targets": ["trn2"]}
PRODUCT = {
    "targets": ["trn2"],
    "arguments": {
        "a_t": "128x128:bfloat16", "b": "128x256:bfloat16", "rows": [32, 64, 128], "columns": [32, 64, 128, 256],
        "depth": 128, "buffers": {"from": 1, "to": 12},
    },
    "where": "buffers * columns <= 2048",
}  # fmt: skip


def test_the_winner_is_the_fastest_of_all():
    found = tune(kernels.scaled, PARTS, executor=Here())
    [choice] = found.choices
    assert choice.is_exhaustive and choice.tried == 4 and choice.refused == 0 and choice.judged == 3
    times = {}
    for parts in (1, 2, 4, 8):
        row = nki.sweep(
            kernels.scaled, {**PARTS, "arguments": {"x": "64x256:float32", "parts": parts}}, executor=Here()
        ).rows[0]
        times[parts] = row["latency"]
    assert choice.seconds == min(times.values()) == times[choice.configuration["parts"]] == times[found.best["parts"]]
    assert choice.worst == max(times.values())
    low, high = choice.interval
    assert low <= choice.seconds <= high
    assert "4 configurations, 0 refused" in str(found) and "no reference judged it" in str(found)


def test_ties_are_configurations_that_the_winner_does_not_surely_beat():
    found = tune(kernels.scaled, PARTS, executor=Here())
    [choice] = found.choices
    for tie in choice.ties:
        assert tie.seconds >= choice.seconds and tie.interval[0] <= choice.interval[1]
    x = np.zeros((64, 256), np.float32)
    own = latencies(nki.profile(kernels.scaled, target="trn2")(x, **choice.configuration), DRAWS)
    for parts in {1, 2, 4, 8} - {choice.configuration["parts"]}:
        other = latencies(nki.profile(kernels.scaled, target="trn2")(x, parts=parts), DRAWS)
        is_tie = any(tie.configuration["parts"] == parts for tie in choice.ties)
        assert is_tie is (part_faster(own, other) < SURE), parts
    assert [t.seconds for t in choice.ties] == sorted(t.seconds for t in choice.ties)
    text = str(tune(kernels.scaled, PARTS, executor=Here()))
    assert ("a tie with" in text) == bool(choice.ties)
    assert ("the order is sure" in text) == (not choice.ties)


def test_each_workload_has_a_winner_and_a_weight_asks_for_one():
    space = {**PARTS, "vary": {"n": [64, 256]}, "arguments": {"x": "64x{n}:float32", "parts": [1, 2, 4]}}
    each = tune(kernels.scaled, space, executor=Here())
    assert [c.workload for c in each.choices] == [{"n": 64}, {"n": 256}]
    [one] = tune(kernels.scaled, {**space, "tune": {"weight": "n"}}, executor=Here()).choices
    sums = {}
    for parts in (1, 2, 4):
        rows = nki.sweep(
            kernels.scaled, {**space, "arguments": {"x": "64x{n}:float32", "parts": parts}}, executor=Here()
        ).rows
        sums[parts] = sum(row["values"]["n"] * row["latency"] for row in rows)
    assert one.seconds == pytest.approx(min(sums.values())) and sums[one.configuration["parts"]] == min(sums.values())


def test_a_winner_that_is_wrong_on_fresh_data_is_passed_over():
    space = {**PARTS, "arguments": {"x": "64x256:float32", "parts": [4, 2]}}
    [choice] = tune(kernels.scaled, space, reference=kernels.wrong_where_wide, executor=Here()).choices
    assert choice.configuration == {"parts": 2}
    fastest = tune(kernels.scaled, space, executor=Here()).best
    assert [row["values"]["parts"] for row in choice.passed_over] == ([4] if fastest == {"parts": 4} else [])
    only = {**PARTS, "arguments": {"x": "64x256:float32", "parts": [4]}}
    with pytest.raises(NoPointError, match="is right for none of 1 legal configuration"):
        tune(kernels.scaled, only, reference=kernels.wrong_where_wide, executor=Here())


def test_illegal_configurations_lose():
    space = {**PARTS, "arguments": {"x": "64x256:float32", "parts": [0, 512, 2]}}  # they leave no column
    [choice] = tune(kernels.scaled, space, reference=kernels.reference, executor=Here()).choices
    assert choice.configuration == {"parts": 2} and choice.refused + len(choice.passed_over) == 2
    with pytest.raises(NoPointError, match="compiles for none of 1 legal configuration"):
        tune(kernels.scaled, {**PARTS, "arguments": {"x": "64x256:float32", "parts": [0]}}, executor=Here())


def test_by_native_time():
    [choice] = tune(kernels.scaled, PARTS, by="native", executor=Here()).choices
    assert choice.seconds > 0 and choice.tried == 4


def test_nothing_to_choose():
    with pytest.raises(SpaceError, match="nothing is chosen"):
        tune(kernels.scaled, {"vary": {"n": [8, 16]}, "arguments": {"x": "4x{n}:float32"}}, executor=Here())


def test_the_search_comes_near_the_best_of_all(tmp_path):
    """The bar of 500 configurations, on a smaller product: a quarter of them, and at most 1.02 of the best."""
    [best] = tune(product, PRODUCT, executor=Here(), results=tmp_path).choices
    assert best.is_exhaustive and best.tried > 100
    for seed in (0, 1):
        [found] = tune(product, PRODUCT, trials=best.tried // 4, seed=seed, executor=Here(), results=tmp_path).choices
        assert not found.is_exhaustive and found.tried <= best.tried // 4
        assert found.seconds <= 1.02 * best.seconds


AXES = (Axis(("a",), tuple((n,) for n in range(40))), Axis(("b", "c"), tuple((n, -n) for n in range(50))))


def bowl(batch):
    return [Trial(c, abs(c["a"] - 31) + abs(c["b"] - 7) + 1.0, (0.0, 0.0), ()) for c in batch]


def test_the_search_is_repeatable_legal_and_within_its_budget():
    pytest.importorskip("optuna")
    found = [Search(AXES, lambda c: (c["a"] + c["b"]) % 2 == 0).sampled(bowl, 120, 5, 2) for _ in range(2)]
    assert [t.configuration for t in found[0]] == [t.configuration for t in found[1]]
    assert len(found[0]) <= 120 and all((t.configuration["a"] + t.configuration["b"]) % 2 == 0 for t in found[0])
    assert len({tuple(t.configuration.items()) for t in found[0]}) == len(found[0])
    assert min(t.seconds for t in found[0]) <= 4.0


def test_a_search_ends_where_little_is_legal():
    pytest.importorskip("optuna")
    few = Search(AXES, lambda c: c["a"] == 3 and c["b"] < 4)
    assert 1 <= len(few.sampled(bowl, 100, 0, 2)) <= 4
    with pytest.raises(NoPointError, match="`where` excludes all"):
        Search(AXES, lambda c: False).sampled(bowl, 100, 0, 2)


def test_results_are_shared_with_later_tuning(tmp_path):
    seen = []
    tune(kernels.scaled, PARTS, executor=Here(), results=tmp_path)
    tune(
        kernels.scaled,
        PARTS,
        executor=Here(),
        results=tmp_path,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert seen[0] == (4, 4)  # all of them at once; then the winner is judged


CONFIGS = [{"parts": 8}, {"parts": 1}]


def test_autotune_picks_at_the_first_call(monkeypatch):
    tuned = nki.autotune(configs=CONFIGS)(kernels.scaled)
    x = np.random.default_rng(0).standard_normal((64, 256), np.float32)
    np.testing.assert_array_equal(tuned(x), x * np.float32(2))
    np.testing.assert_array_equal(tuned(x, 3.0), x * np.float32(3))
    assert tuned.choose(x) == {"parts": tune(kernels.scaled, {**PARTS, "targets": ["trn3"], "arguments": {
        "x": "64x256:float32", "parts": [8, 1]}}, executor=Here()).best["parts"]}  # fmt: skip
    monkeypatch.setattr(nki._imported("nki.sweeps.autotune"), "evaluate", None)
    assert tuned.choose(x) == tuned.choose(x)
    assert repr(tuned) == "<nki kernel scaled, one of 2 configurations>"


def test_autotune_of_frameworks():
    torch = pytest.importorskip("torch")
    tuned = nki.autotune(configs=CONFIGS)(kernels.scaled)
    assert torch.equal(tuned(torch.ones(8, 16)), torch.full((8, 16), 2.0))
    jax = pytest.importorskip("jax")
    np.testing.assert_array_equal(jax.jit(lambda x: tuned(x))(np.ones((8, 16), np.float32)), np.full((8, 16), 2.0))


def test_autotune_keeps_its_predictions(tmp_path, monkeypatch):
    monkeypatch.setenv("OPEN_NKI_CACHE", str(tmp_path))
    monkeypatch.delenv("OPEN_NKI_CACHE_DISABLE")
    x = np.ones((8, 16), np.float32)
    chosen = nki.autotune(configs=CONFIGS)(kernels.scaled).choose(x)
    assert sum(1 for _ in (tmp_path / "sweeps").rglob("*.json")) == 2
    monkeypatch.setattr(nki._imported("nki.sweeps.autotune"), "evaluate", None)
    assert nki.autotune(configs=CONFIGS)(kernels.scaled).choose(x) == chosen


def test_autotune_refuses():
    with pytest.raises(SpaceError, match="has no parameter 'part'"):
        nki.autotune(configs=[{"part": 1}])(kernels.scaled)
    with pytest.raises(SpaceError, match="no configuration"):
        nki.autotune(configs=[])(kernels.scaled)
    with pytest.raises(NoPointError, match="compiles for none of 1 configurations"):
        nki.autotune(configs=[{"parts": 0}])(kernels.scaled)(np.ones((8, 16), np.float32))
    tuned = nki.autotune(configs=CONFIGS)(kernels.scaled)

    @nki.jit
    def outer(x):
        return tuned(x)

    with pytest.raises(ArgumentError, match="inside another kernel"):
        outer(np.ones((8, 16), np.float32))


def test_choices_are_records():
    assert {field.name for field in dataclasses.fields(tune(kernels.scaled, PARTS, executor=Here()).choices[0])} >= {
        "configuration", "ties", "interval",
    }  # fmt: skip
