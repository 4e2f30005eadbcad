"""The MiniLM example: kernels against PyTorch, whatever way sentences fall into tiles."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from examples.minilm import encoder, main, reference, shipped
from examples.minilm.model import MASKED, Batch, Model, load_model, make_batch

SHORT = ["A cat sleeps.", "The kitten is napping in the warm sun.", "Rates rose."]
HUNDRED = "one " * 98  # 100 tokens with the two that frame a sentence
CASES = {
    "four sentences in half a tile": SHORT,
    "eight sentences in a tile": 2 * SHORT,
    "a tile and a half": 4 * SHORT,
    "two tiles": ["word " * 20, *SHORT, "and one more"],
    "a tile for each sentence": [HUNDRED, SHORT[0]],
    "two tiles for each sentence": [HUNDRED + HUNDRED, SHORT[1]],
    "four tiles for each sentence": [5 * HUNDRED, SHORT[2]],
}


@pytest.fixture(scope="module")
def whole() -> Model:
    return load_model()


@pytest.fixture(scope="module")
def shallow(whole: Model) -> Model:
    """The first layer alone: everything that the layout of tokens can break happens in it."""
    return replace(whole, blocks=whole.blocks[:1], config={**whole.config, "num_hidden_layers": 1})


@pytest.mark.parametrize("sentences", CASES.values(), ids=CASES)
def test_embeddings_agree_with_pytorch(shallow: Model, sentences: list[str]) -> None:
    tokenizer = Tokenizer.from_str(shallow.tokenizer.to_str())
    tokenizer.enable_truncation(512)  # as many as there are positions; the model's own limit is 256
    batch = make_batch(tokenizer, sentences)
    found, expected = encoder.embed(shallow, batch), reference.embed(shallow, batch).numpy()
    assert found.shape == (len(sentences), 384)
    assert main.cosines(found, expected).min() >= main.LEAST_COSINE
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, rtol=0, atol=1e-5)


def test_whole_network_agrees_with_pytorch(whole: Model, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["--runs", "1", *SHORT]) == 0
    shown = capsys.readouterr()
    assert "attention_block" in shown.out and "3/4 pool_normalise" in shown.err


def test_company_does_not_change_an_embedding(shallow: Model) -> None:
    """Padding and neighbours in the same tile are masked: alone or among others, a sentence means the same."""
    alone = encoder.embed(shallow, make_batch(shallow.tokenizer, SHORT[:1]))
    among = encoder.embed(shallow, make_batch(shallow.tokenizer, [*SHORT, "noise " * 30]))
    np.testing.assert_allclose(among[0], alone[0], rtol=0, atol=2e-6)


def test_a_wrong_weight_fails_the_run(monkeypatch: pytest.MonkeyPatch, shallow: Model) -> None:
    wrong = replace(shallow.blocks[0], b_out=shallow.blocks[0].b_out + np.float32(0.05) * np.arange(384, dtype="f4"))
    monkeypatch.setattr(main, "load_model", lambda: replace(shallow, blocks=[wrong]))
    assert main.main(["--runs", "1", SHORT[0]]) == 1


def test_nan_is_no_agreement() -> None:
    good = np.ones((2, 4), np.float32)
    bad = good.copy()
    bad[1, 2] = np.nan
    assert not (main.cosines(bad, good) >= main.LEAST_COSINE).all()


def test_batches_say_what_is_padding(whole: Model) -> None:
    batch: Batch = make_batch(whole.tokenizer, SHORT)
    groups, sentences, span = batch.segments.shape
    assert (groups, sentences, span) == (1, 8, 128) and batch.ids.shape == (4, 16)
    real = len(whole.tokenizer.encode(SHORT[1]).ids)
    # Queries of the second sentence see its own tokens and nothing else.
    seen = np.flatnonzero(batch.key_bias[0, 1] == 0)
    np.testing.assert_array_equal(seen, np.arange(16, 16 + real))
    assert set(np.unique(batch.key_bias)) == {0.0, np.float32(MASKED)}
    assert (batch.members.sum(0) > 0).all(), "an empty sentence would divide by zero"
    assert batch.members[:, 1].sum() == real


def test_sentence_limits(whole: Model) -> None:
    for count in (0, 129):
        with pytest.raises(ValueError, match="give 1 to 128"):
            make_batch(whole.tokenizer, ["x"] * count)
    assert make_batch(whole.tokenizer, ["word " * 600]).length == 256


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # of PyTorch's own use
def test_the_shipped_model_has_the_bits_of_the_kernels(
    shallow: Model, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """torch.compile, then one file, then another process, which ends in silence; all caches are fresh."""
    monkeypatch.setenv("OPEN_NKI_CACHE", str(tmp_path / "kernels"))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    monkeypatch.delenv("OPEN_NKI_CACHE_DISABLE")
    monkeypatch.setattr(shipped, "load_model", lambda: shallow)
    assert shipped.main(["--runs", "1", *SHORT]) == 0
    shown, errors = capfd.readouterr()
    assert shown.count("the same") == 4 and "OTHER" not in shown and "Exception ignored" not in errors
    assert "4 kernels, embed_layer_norm, attention_block, feed_forward_block, pool_normalise" in shown


def test_a_shipped_model_with_other_bits_fails_the_run(
    shallow: Model, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def elsewhere(_folder: Path, _runs: int) -> tuple[np.ndarray, float, float]:
        found = encoder.embed(shallow, make_batch(shallow.tokenizer, SHORT))
        return np.nextafter(found, np.float32(2)), 0.0, 0.0

    monkeypatch.setattr(shipped, "elsewhere", elsewhere)
    monkeypatch.setattr(shipped.torch, "compile", lambda module, fullgraph: module)
    assert not shipped.compare(shallow, make_batch(shallow.tokenizer, SHORT), tmp_path, 1)
