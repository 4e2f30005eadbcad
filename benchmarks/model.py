"""The example's sentence model against plain PyTorch, both on one thread."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.timing import Row, medians
from examples.minilm import encoder, main, reference
from examples.minilm.model import load_model, make_batch


def rows(runs: int) -> Iterator[Row]:
    """The default sentences, and as many longer ones."""
    model = load_model()
    longer = [" ".join(main.SENTENCES[i:] + main.SENTENCES[:i])[:400] for i in range(len(main.SENTENCES))]
    for name, sentences in (("short", main.SENTENCES), ("long", longer)):
        batch = make_batch(model.tokenizer, sentences)
        work = (lambda batch=batch: encoder.embed(model, batch), lambda batch=batch: reference.embed(model, batch))
        ours, theirs = medians(max(3, runs // 4), *work)
        tokens = len(batch.ids.reshape(-1))
        what = f"MiniLM, {len(sentences)} {name} sentences ({tokens} tokens)"
        yield Row(what, f"{ours * 1e3:.1f} ms", f"{theirs * 1e3:.1f} ms PyTorch", f"{theirs / ours:.2f} x")
