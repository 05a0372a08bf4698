"""slime's rank of Megatron on the CPU, with the layers that Megatron has without Transformer Engine."""

from __future__ import annotations

import re
from itertools import pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from megatron.core.transformer.dot_product_attention import DotProductAttention
from slime.backends.megatron_utils import actor, hf_to_megatron, initialize
from slime.backends.megatron_utils.update_weight import common, hf_weight_iterator_direct
from slime.utils.reloadable_process_group import ReloadableProcessGroup
from torch.nn.functional import scaled_dot_product_attention

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Names of norms, which Transformer Engine has in the layer after them: slime converts those.
_NORMS = {
    r"(decoder\.layers\.\d+)\.input_layernorm\.weight": r"\1.self_attention.linear_qkv.layer_norm_weight",
    r"(decoder\.layers\.\d+)\.pre_mlp_layernorm\.weight": r"\1.mlp.linear_fc1.layer_norm_weight",
}
_named = common.named_params_and_buffers


def _renamed(*args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
    for name, value in _named(*args, **kwargs):
        for norm, of_layer in _NORMS.items():
            name = re.sub(norm, of_layer, name)  # noqa: PLW2901
        yield name, value


def _attend(_: Any, query: Any, key: Any, value: Any, *__: Any, packed_seq_params: Any, **___: Any) -> Any:
    """Attend within each of several sequences in one, which Megatron leaves to Transformer Engine."""
    outputs = []
    for first, end in pairwise(packed_seq_params.cu_seqlens_q.tolist()):
        heads = (part[first:end].transpose(0, 1)[None] for part in (query, key, value))
        output = scaled_dot_product_attention(*heads, is_causal=True, enable_gqa=True)
        outputs.append(output[0].transpose(0, 1).reshape(end - first, -1))
    return torch.cat(outputs)


def _forward(name: str) -> Any:
    return lambda group, *args: group._fwd(name, *args)


DotProductAttention.forward = _attend
# slime's groups forward what torch had before it named these.
for name in ("all_gather_single", "reduce_scatter_single"):
    for form in (name, f"{name}_coalesced"):
        setattr(ReloadableProcessGroup, form, _forward(form))
for module in (common, actor, hf_to_megatron.common, hf_weight_iterator_direct):
    if hasattr(module, "named_params_and_buffers"):
        module.named_params_and_buffers = _renamed
# It refuses NumPy 2, which SGLang needs; no other name of it is used there.
initialize.np = SimpleNamespace(__version__="1.26", random=np.random)


class MegatronTrainRayActor(actor.MegatronTrainRayActor):
    """slime's own."""
