"""Functions written in PyTorch as graphs of ATen's operators without side effects."""

# PyTorch declares types only in part.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportUnknownLambdaType=false

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch._decomp import decomposition_table, get_decompositions
from torch._subclasses.fake_tensor import DataDependentOutputException
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.overrides import TorchFunctionMode

from nki.proofs.symbols import UndecidedError
from nki.proofs.traced.elements import listed

aten: Final = torch.ops.aten

_DECOMPOSED: Final = listed(
    "_softmax _log_softmax _safe_softmax logsumexp native_layer_norm native_group_norm "
    "_native_batch_norm_legit_no_training gelu silu mish softplus elu hardtanh hardsigmoid "
    "hardswish leaky_relu relu6 log_sigmoid_forward addmm addmv baddbmm addbmm addcmul addcdiv "
    "addr lerp mse_loss smooth_l1_loss huber_loss binary_cross_entropy "
    "binary_cross_entropy_with_logits nll_loss_forward nll_loss2d_forward norm "
    "linalg_vector_norm masked_fill masked_fill_ triu tril_ triu_ rsub trace dot mv vdot stack "
    "logaddexp logaddexp2 sinc threshold glu _fused_rms_norm native_dropout isposinf isneginf "
    "floor_divide im2col unfold_copy narrow_copy square_ sgn frac deg2rad rad2deg heaviside "
    "aminmax avg_pool2d log_sigmoid split split_with_sizes t unsafe_split unbind "
    "reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d native_batch_norm "
    "_prelu_kernel celu"
)
"""Operators that PyTorch itself expresses by others."""


def _decompositions() -> dict[Any, Any]:
    packets = [getattr(aten, name) for name in _DECOMPOSED if hasattr(aten, name)]
    known = {
        packet for packet in packets if any(getattr(packet, each) in decomposition_table for each in packet.overloads())
    }
    return get_decompositions(list(known))


class _Plain(TorchFunctionMode):
    """Attention by its formula: PyTorch's own one takes the root of the scale twice, which is no simple number."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.nn.functional.scaled_dot_product_attention:
            return _attention(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") == "rms_norm":
            return _rms_norm(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _attention(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
    scale: float | None = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    if dropout_p:
        raise UndecidedError("attention drops weights at random")
    if enable_gqa:
        key, value = (each.repeat_interleave(query.shape[-3] // each.shape[-3], -3) for each in (key, value))
    scores = query @ key.transpose(-1, -2) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if attn_mask is not None:
        is_truth = attn_mask.dtype == torch.bool
        scores = torch.where(attn_mask, scores, -math.inf) if is_truth else scores + attn_mask
    return torch.softmax(scores, -1) @ value


def _rms_norm(input: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:  # noqa: A002
    axes = tuple(range(-len(normalized_shape), 0))
    small = torch.finfo(input.dtype).eps if eps is None else eps
    found = input * torch.rsqrt((input * input).mean(axes, keepdim=True) + small)
    return found if weight is None else found * weight


def traced_graph(function: Callable[..., Any], examples: Sequence[Any]) -> torch.fx.GraphModule:
    """The operators of ``function``, which takes tensors as ``examples``, but for their elements.

    Raises :class:`UndecidedError` if elements decide what is computed.
    """
    try:
        with _Plain(), torch.no_grad():
            graph = _traced(function, examples)
            if any(getattr(getattr(node.target, "_schema", None), "is_mutable", False) for node in graph.graph.nodes):
                graph = _traced(graph, examples)  # a decomposition has changed a tensor
            return graph
    except (DataDependentOutputException, GuardOnDataDependentSymNode) as error:
        raise UndecidedError(
            "what an `if`, a loop or an index of the function decides depends on the inputs"
        ) from error


def _traced(function: Callable[..., Any], examples: Sequence[Any]) -> torch.fx.GraphModule:
    functional = torch.func.functionalize(function, remove="mutations_and_views")
    return make_fx(functional, _decompositions(), tracing_mode="fake", _allow_non_fake_inputs=True)(*examples)


__all__ = ["traced_graph"]
