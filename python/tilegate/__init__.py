# SPDX-License-Identifier: Apache-2.0
"""tilegate: attention and delta-rule kernels, ahead-of-time built, for CPUs and NVIDIA GPUs."""

from ._library import backends, get_num_threads, set_num_threads, version
from .attention import (
    append_paged_kv,
    batch_decode_paged,
    batch_prefill_paged,
    batch_prefill_ragged,
    merge_states,
)
from .linear import (
    chunk_gated_delta_product,
    chunk_gated_delta_rule,
    chunk_gated_delta_rule2,
    commit,
    gated_delta_rule_decode,
    gated_delta_rule_decode_pretranspose,
    recurrent_kda,
)
from .planning import Plan, explain, plan

__version__ = version()

__all__ = [
    "Plan",
    "append_paged_kv",
    "backends",
    "batch_decode_paged",
    "batch_prefill_paged",
    "batch_prefill_ragged",
    "chunk_gated_delta_product",
    "chunk_gated_delta_rule",
    "chunk_gated_delta_rule2",
    "commit",
    "explain",
    "gated_delta_rule_decode",
    "gated_delta_rule_decode_pretranspose",
    "get_num_threads",
    "merge_states",
    "plan",
    "recurrent_kda",
    "set_num_threads",
    "version",
]
