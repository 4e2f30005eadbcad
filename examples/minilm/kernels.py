"""The MiniLM sentence encoder as four NKI kernels.

Data lives in two layouts, chosen so that almost nothing has to be transposed:

* *rows*: 128 tokens on the partitions, 384 features along the free axis. LayerNorm reduces along the free axis and the
  residual is added here; a product with tokens in its *stationary* operand comes out in this layout.
* *features*: 128 features on the partitions (384 = 3 blocks), up to 512 tokens along the free axis. Every product reads
  its tokens in this layout; with weights as the *stationary* operand the result stays in it, one bias per partition.

Queries, keys and the hidden layer of the feed-forward network are made in *features*, values and both outputs in
*rows*. So a block transposes only its input, the attention probabilities and the context, all on the Tensor engine.

Tokens come in groups of `span` (128, 256 or 512) that hold whole sentences; of groups of 128, which are one tile each,
the last may be shorter. A token attends within its own group; which keys it may see is two small matrices, `segments`
(sentence by token) and `key_bias` (sentence by key): their product is the additive mask. One matrix product therefore
masks a whole PSUM bank of scores, 512 per query, before the scores themselves are accumulated onto it.

All arithmetic is float32. Weights are stored [in, out]. Needs trn2 or later (32-row tiles of the Tensor engine).
"""

from __future__ import annotations

import nki
import nki.isa as nisa
import nki.language as nl

PARTITIONS = 128  # rows of SBUF and PSUM, and the widest stationary operand
BANK = 512  # float32 values in a partition of one PSUM bank, and the widest moving operand
HEAD = 32  # features of one attention head
EPSILON = 1e-12  # added to the variance by every LayerNorm of this model


# ---- pieces that the kernels share ---------------------------------------------------------------------------------


def load_weight(weight):
    """[in, out] in HBM -> [128, in / 128, out] in SBUF: block k holds input features 128 k to 128 k + 127."""
    blocks = weight.shape[0] // PARTITIONS
    tile = nl.ndarray((PARTITIONS, blocks, weight.shape[1]), dtype=weight.dtype, buffer=nl.sbuf)
    for k in range(blocks):
        nisa.dma_copy(dst=tile[:, k, :], src=weight[k * PARTITIONS : (k + 1) * PARTITIONS, :])
    return tile


def load_row(vector):
    """[n] in HBM -> [1, n] in SBUF."""
    tile = nl.ndarray((1, vector.shape[0]), dtype=vector.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=vector.reshape((1, vector.shape[0])))
    return tile


def load_columns(vector):
    """[128 n] in HBM -> [128, n] in SBUF: column i holds values 128 i to 128 i + 127, a bias for each partition.

    Read as n long rows and turned on chip: 128 n values of 4 bytes each would be as many DMA descriptors.
    """
    count = vector.shape[0] // PARTITIONS
    rows = nl.ndarray((count, PARTITIONS), dtype=vector.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=rows, src=vector.reshape((count, PARTITIONS)))
    turned = nl.ndarray((PARTITIONS, count), dtype=vector.dtype, buffer=nl.psum)
    nisa.nc_transpose(dst=turned, data=rows)
    columns = nl.ndarray((PARTITIONS, count), dtype=vector.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=columns, src=turned)
    return columns


def ones_row():
    """[1, 128] of ones: as a stationary operand it copies a row to all 128 partitions."""
    ones = nl.ndarray((1, PARTITIONS), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=ones, value=1.0)
    return ones


def load_replicated(vector, ones):
    """[n] in HBM -> [128, n] in SBUF, the same in every partition (n <= 512)."""
    spread = nl.ndarray((PARTITIONS, vector.shape[0]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=spread, stationary=ones, moving=load_row(vector), accumulate=False)
    tile = nl.ndarray((PARTITIONS, vector.shape[0]), dtype=vector.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile, src=spread)
    return tile


def layer_norm(out, rows, scale, shift):
    """Write (rows - mean) / sqrt(variance + EPSILON) * scale + shift to out, by token.

    out, rows: [tokens, n]; scale, shift: [128, n], the same in every partition; n <= 512.
    """
    tokens = rows.shape[0]
    stats = nl.ndarray((tokens, 6), dtype=nl.float32, buffer=nl.sbuf)
    nisa.bn_stats(dst=stats, data=rows)
    moments = nl.ndarray((tokens, 2), dtype=nl.float32, buffer=nl.sbuf)
    nisa.bn_aggr(dst=moments, data=stats)
    inverse = nl.ndarray((tokens, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=inverse, op=nl.rsqrt, data=moments[:, 1:2], bias=EPSILON)

    centred = nl.ndarray(rows.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.scalar_tensor_tensor(
        dst=centred, data=rows, op0=nl.subtract, operand0=moments[:, 0:1], op1=nl.multiply, operand1=scale[0:tokens]
    )
    nisa.scalar_tensor_tensor(
        dst=out, data=centred, op0=nl.multiply, operand0=inverse, op1=nl.add, operand1=shift[0:tokens]
    )


def turn(features, rows, position):
    """features[:, :, position : position + tokens] = rows transposed, block by block through one PSUM bank."""
    blocks, tokens = features.shape[1], rows.shape[0]
    turned = nl.ndarray((PARTITIONS, blocks, tokens), dtype=nl.float32, buffer=nl.psum)
    for k in range(blocks):
        nisa.nc_transpose(dst=turned[:, k, :], data=rows[:, k * PARTITIONS : (k + 1) * PARTITIONS])
    nisa.tensor_copy(dst=features[:, :, position : position + tokens], src=turned)


def load_tokens(x, first, count):
    """Tokens first to first + count - 1 of x, in both layouts: a list of rows, and features [128, blocks, count]."""
    hidden = x.shape[1]
    features = nl.ndarray((PARTITIONS, hidden // PARTITIONS, count), dtype=nl.float32, buffer=nl.sbuf)
    tiles = []
    for position in range(0, count, PARTITIONS):
        size = min(PARTITIONS, count - position)
        rows = nl.ndarray((size, hidden), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=rows, src=x[first + position : first + position + size, :])
        turn(features, rows, position)
        tiles.append(rows)
    return tiles, features


def project_to_features(features, weight, column):
    """[128, count] in PSUM: output features column to column + 127 of features @ weight."""
    result = nl.ndarray((PARTITIONS, features.shape[2]), dtype=nl.float32, buffer=nl.psum)
    for k in range(features.shape[1]):
        nisa.nc_matmul(
            dst=result,
            stationary=weight[:, k, column : column + PARTITIONS],
            moving=features[:, k, :],
            accumulate=k > 0,
        )
    return result


def project_to_rows(features, position, weight, column, bias, ones):
    """[size, n] in PSUM: the tile of tokens from `position` on, times n columns of weight from `column` on, plus bias.

    A tile has 128 tokens, or those that are left; bias: [1, n].
    """
    width, size = bias.shape[1], min(PARTITIONS, features.shape[2] - position)
    result = nl.ndarray((size, width), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=result, stationary=ones[:, 0:size], moving=bias, accumulate=False)
    for k in range(features.shape[1]):
        nisa.nc_matmul(
            dst=result,
            stationary=features[:, k, position : position + size],
            moving=weight[:, k, column : column + width],
            accumulate=True,
        )
    return result


def finish_block(y, first, product, residual, scale, shift):
    """y[first : first + tokens] = layer_norm(product + residual)."""
    total = nl.ndarray(residual.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=total, data1=product, data2=residual, op=nl.add)
    rows = nl.ndarray(residual.shape, dtype=nl.float32, buffer=nl.sbuf)
    layer_norm(rows, total, scale, shift)
    nisa.dma_copy(dst=y[first : first + residual.shape[0], :], src=rows)


# ---- embeddings ----------------------------------------------------------------------------------------------------


@nki.jit
def embed_layer_norm(words, positions, token_type, scale, shift):
    """LayerNorm(word + position + token type).

    words: [tokens, hidden], the row of the word table for each token; positions: [span, hidden], the same for every
    group of `span` tokens; token_type, scale, shift: [hidden]. Returns [tokens, hidden].
    """
    tokens, hidden = words.shape
    span = positions.shape[0]
    assert span % PARTITIONS == 0, f"groups of {span} tokens; a tile has {PARTITIONS}"
    assert tokens % span == 0 or span == PARTITIONS, f"{tokens} tokens are not whole groups of {span}"
    x = nl.ndarray((tokens, hidden), dtype=nl.float32, buffer=nl.shared_hbm)

    ones = ones_row()
    scale_tile = load_replicated(scale, ones)
    shift_tile = load_replicated(shift, ones)
    type_tile = load_replicated(token_type, ones)
    offsets = []
    for first in range(0, span, PARTITIONS):
        offset = nl.ndarray((PARTITIONS, hidden), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=offset, src=positions[first : first + PARTITIONS, :])
        nisa.tensor_tensor(dst=offset, data1=offset, data2=type_tile, op=nl.add)
        offsets.append(offset)

    for first in range(0, tokens, PARTITIONS):
        size = min(PARTITIONS, tokens - first)
        rows = nl.ndarray((size, hidden), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=rows, src=words[first : first + size, :])
        total = nl.ndarray((size, hidden), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=total, data1=rows, data2=offsets[first % span // PARTITIONS][0:size], op=nl.add)
        result = nl.ndarray((size, hidden), dtype=nl.float32, buffer=nl.sbuf)
        layer_norm(result, total, scale_tile, shift_tile)
        nisa.dma_copy(dst=x[first : first + size, :], src=result)
    return x


# ---- self-attention ------------------------------------------------------------------------------------------------


def load_projections(w_qkv, b_qkv):
    """Weights [128, blocks, 3 hidden], biases of queries and keys [128, 2 blocks], of values [1, hidden], in SBUF."""
    hidden = w_qkv.shape[0]
    return load_weight(w_qkv), load_columns(b_qkv[0 : 2 * hidden]), load_row(b_qkv[2 * hidden : 3 * hidden])


def project(features, projections, ones):
    """Queries and keys in *features*, [128, blocks, count] each, and values in *rows*, a list of [tokens, hidden]."""
    weight, column_bias, row_bias = projections
    blocks, count = features.shape[1], features.shape[2]
    hidden = blocks * PARTITIONS
    query = nl.ndarray((PARTITIONS, blocks, count), dtype=nl.float32, buffer=nl.sbuf)
    key = nl.ndarray((PARTITIONS, blocks, count), dtype=nl.float32, buffer=nl.sbuf)
    for k in range(blocks):
        # The queries carry the 1 / sqrt(32) of the scores: it rides on the instruction that adds their bias.
        nisa.tensor_scalar(
            dst=query[:, k, :],
            data=project_to_features(features, weight, k * PARTITIONS),
            op0=nl.add,
            operand0=column_bias[:, k : k + 1],
            op1=nl.multiply,
            operand1=HEAD**-0.5,
        )
        nisa.tensor_scalar(
            dst=key[:, k, :],
            data=project_to_features(features, weight, hidden + k * PARTITIONS),
            op0=nl.add,
            operand0=column_bias[:, blocks + k : blocks + k + 1],
        )
    values = []
    for position in range(0, count, PARTITIONS):
        product = project_to_rows(features, position, weight, 2 * hidden, row_bias, ones)
        value = nl.ndarray(product.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=value, src=product)
        values.append(value)
    return query, key, values


def load_mask(segments, key_bias, group, size, copies):
    """Factors of a group's mask, for its first `size` tokens: [sentences, size] and [sentences, copies, size]."""
    sentences = segments.shape[1]
    members = nl.ndarray((sentences, size), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=members, src=segments[group, :, 0:size])
    bias = nl.ndarray((sentences, copies, size), dtype=nl.float32, buffer=nl.sbuf)
    for copy in range(copies):
        nisa.dma_copy(dst=bias[:, copy, :], src=key_bias[group, :, 0:size])
    return members, bias


def softmax_weights(probabilities, totals, scores):
    """exp(scores - largest), [queries, heads, keys], and the sums over the keys, [queries, heads]."""
    queries, heads = scores.shape[0], scores.shape[1]
    peak = nl.ndarray((queries, heads), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=peak, op=nl.maximum, data=scores, axis=2, negate=True)
    for j in range(heads):
        nisa.activation_reduce(
            dst=probabilities[:, j, :],
            op=nl.exp,
            data=scores[:, j, :],
            bias=peak[:, j : j + 1],
            reduce_op=nl.add,
            reduce_res=totals[:, j : j + 1],
        )


def weigh_values(context, first, probabilities, values):
    """Context of the heads from `first` on, not yet divided by the sums: probabilities @ values into PSUM.

    probabilities: [queries, heads, keys]. The product wants the keys on the partitions, so they are turned first.
    """
    queries, heads, tiles = probabilities.shape[0], probabilities.shape[1], len(values)
    keys = values[0].shape[0]  # of a tile; only a group of one tile is shorter than 128
    turned = nl.ndarray((keys, heads * tiles, queries), dtype=nl.float32, buffer=nl.psum)
    for j in range(heads):
        for t in range(tiles):
            nisa.nc_transpose(dst=turned[:, j * tiles + t, :], data=probabilities[:, j, t * keys : (t + 1) * keys])
    by_key = nl.ndarray(turned.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=by_key, src=turned)
    for j in range(heads):
        column = (first + j) * HEAD
        for t in range(tiles):
            nisa.nc_matmul(
                dst=context[:, column : column + HEAD],
                stationary=by_key[:, j * tiles + t, :],
                moving=values[t][:, column : column + HEAD],
                accumulate=t > 0,
            )


def attend(query, key, values, members, bias, start, position):
    """Context [queries, hidden] in SBUF of a tile of queries over the keys of their group.

    query, key: [128, hidden / 128, count], head h in rows 32 (h mod 4) of block h // 4; values: rows of the group;
    members, bias: the mask of load_mask, bias with a copy for each head that shares a PSUM bank for its scores;
    start: the group's first token, position: the first query's place in the group.
    """
    hidden = values[0].shape[1]
    heads, span, together = hidden // HEAD, members.shape[1], bias.shape[1]
    queries = min(PARTITIONS, span - position)
    context = nl.ndarray((queries, hidden), dtype=nl.float32, buffer=nl.psum)
    totals = nl.ndarray((queries, heads), dtype=nl.float32, buffer=nl.sbuf)

    for first in range(0, heads, together):
        scores = nl.ndarray((queries, together, span), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=scores, stationary=members[:, position : position + queries], moving=bias, accumulate=False)
        for j in range(together):
            row, block = (first + j) * HEAD % PARTITIONS, (first + j) * HEAD // PARTITIONS
            nisa.nc_matmul(
                dst=scores[:, j, :],
                stationary=query[row : row + HEAD, block, start + position : start + position + queries],
                moving=key[row : row + HEAD, block, start : start + span],
                accumulate=True,
                tile_position=(row, 0),
                tile_size=(HEAD, PARTITIONS),
            )
        probabilities = nl.ndarray(scores.shape, dtype=nl.float32, buffer=nl.sbuf)
        softmax_weights(probabilities, totals[:, first : first + together], scores)
        weigh_values(context, first, probabilities, values)

    # Dividing by the sums here, where the context leaves PSUM anyway, touches 32 values per head instead of `span`.
    inverse = nl.ndarray(totals.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.reciprocal(dst=inverse, data=totals)
    result = nl.ndarray(context.shape, dtype=nl.float32, buffer=nl.sbuf)
    for h in range(heads):
        nisa.tensor_scalar(
            dst=result[:, h * HEAD : (h + 1) * HEAD],
            data=context[:, h * HEAD : (h + 1) * HEAD],
            op0=nl.multiply,
            operand0=inverse[:, h : h + 1],
        )
    return result


@nki.jit
def attention_block(x, segments, key_bias, w_qkv, b_qkv, w_out, b_out, scale, shift):
    """LayerNorm(x + self_attention(x)).

    x: [tokens, hidden]; segments, key_bias: [groups, sentences, span] (see the head of this file);
    w_qkv: [hidden, 3 hidden], b_qkv: [3 hidden], queries first, then keys, then values; w_out: [hidden, hidden];
    b_out, scale, shift: [hidden]. Returns [tokens, hidden].
    """
    tokens, hidden = x.shape
    groups, span = segments.shape[0], segments.shape[2]
    assert span in (128, 256, 512), f"groups of {span} tokens; 128, 256 or 512 fill a PSUM bank"
    shortest = 1 if span == PARTITIONS else span  # tokens of the last group
    assert shortest <= tokens - (groups - 1) * span <= span, f"{tokens} tokens are not {groups} groups of {span}"
    y = nl.ndarray((tokens, hidden), dtype=nl.float32, buffer=nl.shared_hbm)

    ones = ones_row()
    projections = load_projections(w_qkv, b_qkv)
    out = load_weight(w_out)
    out_bias = load_row(b_out)
    scale_tile = load_replicated(scale, ones)
    shift_tile = load_replicated(shift, ones)

    blocks = hidden // PARTITIONS
    for first in range(0, tokens, BANK):
        count = min(BANK, tokens - first)
        rows, features = load_tokens(x, first, count)
        query, key, values = project(features, projections, ones)
        for start in range(0, count, span):
            size = min(span, count - start)
            members, bias = load_mask(segments, key_bias, (first + start) // span, size, BANK // span)
            group = values[start // PARTITIONS : (start + span) // PARTITIONS]
            for position in range(0, size, PARTITIONS):
                context = attend(query, key, group, members, bias, start, position)
                turned = nl.ndarray((PARTITIONS, blocks, context.shape[0]), dtype=nl.float32, buffer=nl.sbuf)
                turn(turned, context, 0)
                product = project_to_rows(turned, 0, out, 0, out_bias, ones)
                place = start + position
                finish_block(y, first + place, product, rows[place // PARTITIONS], scale_tile, shift_tile)
    return y


# ---- feed-forward network ------------------------------------------------------------------------------------------


@nki.jit
def feed_forward_block(x, w_in, b_in, w_out, b_out, scale, shift):
    """LayerNorm(x + gelu(x @ w_in + b_in) @ w_out + b_out).

    x: [tokens, hidden]; w_in: [hidden, inner]; b_in: [inner]; w_out: [inner, hidden]; b_out, scale, shift: [hidden].
    Returns [tokens, hidden].
    """
    tokens, hidden = x.shape
    inner = w_in.shape[1]
    y = nl.ndarray((tokens, hidden), dtype=nl.float32, buffer=nl.shared_hbm)

    ones = ones_row()
    expand = load_weight(w_in)
    expand_bias = load_columns(b_in)
    contract = load_weight(w_out)
    contract_bias = load_row(b_out)
    scale_tile = load_replicated(scale, ones)
    shift_tile = load_replicated(shift, ones)

    for first in range(0, tokens, BANK):
        count = min(BANK, tokens - first)
        rows, features = load_tokens(x, first, count)
        activated = nl.ndarray((PARTITIONS, inner // PARTITIONS, count), dtype=nl.float32, buffer=nl.sbuf)
        for block in range(inner // PARTITIONS):
            product = project_to_features(features, expand, block * PARTITIONS)
            nisa.activation(
                dst=activated[:, block, :], op=nl.gelu, data=product, bias=expand_bias[:, block : block + 1]
            )
        for position in range(0, count, PARTITIONS):
            product = project_to_rows(activated, position, contract, 0, contract_bias, ones)
            finish_block(y, first + position, product, rows[position // PARTITIONS], scale_tile, shift_tile)
    return y


# ---- sentence embeddings -------------------------------------------------------------------------------------------


@nki.jit
def pool_normalise(x, members):
    """Mean of each sentence's tokens, scaled to length 1.

    x: [tokens, hidden]; members: [tokens, sentences], 1 where the token is a word of the sentence, else 0 (at most 128
    sentences, none of them empty). Returns [sentences, hidden].
    """
    tokens, hidden = x.shape
    sentences = members.shape[1]
    assert sentences <= PARTITIONS, f"{sentences} sentences; one call takes {PARTITIONS}"
    embeddings = nl.ndarray((sentences, hidden), dtype=nl.float32, buffer=nl.shared_hbm)

    # A last feature that is 1 for every token makes the same product deliver the sums and the number of tokens.
    sums = nl.ndarray((sentences, hidden + 1), dtype=nl.float32, buffer=nl.psum)
    for first in range(0, tokens, PARTITIONS):
        size = min(PARTITIONS, tokens - first)
        rows = nl.ndarray((size, hidden + 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=rows[:, 0:hidden], src=x[first : first + size, :])
        nisa.memset(dst=rows[:, hidden : hidden + 1], value=1.0)
        selected = nl.ndarray((size, sentences), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=selected, src=members[first : first + size, :])
        nisa.nc_matmul(dst=sums, stationary=selected, moving=rows, accumulate=first > 0)

    share = nl.ndarray((sentences, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.reciprocal(dst=share, data=sums[:, hidden : hidden + 1])
    mean = nl.ndarray((sentences, hidden), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=mean, data=sums[:, 0:hidden], op0=nl.multiply, operand0=share)

    squares = nl.ndarray((sentences, hidden), dtype=nl.float32, buffer=nl.sbuf)
    length = nl.ndarray((sentences, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation_reduce(dst=squares, op=nl.square, data=mean, reduce_op=nl.add, reduce_res=length)
    inverse = nl.ndarray((sentences, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=inverse, op=nl.rsqrt, data=length)
    result = nl.ndarray((sentences, hidden), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=result, data=mean, op0=nl.multiply, operand0=inverse)
    nisa.dma_copy(dst=embeddings, src=result)
    return embeddings
