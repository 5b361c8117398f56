// SPDX-License-Identifier: Apache-2.0
// From an attention problem to its cuDNN graph, and the workspace around it. Pure: shapes only.
//
// Paged keys of more than one row are copied into the workspace: cuDNN's engines of sm_90 and newer
// multiply what stands in a page past a request's last key (a NaN there reaches the output), and
// those of sm_80, which do not, take twice the time of the copy and the other engine together.
//
// Requests of equal lengths are dense: no offsets, no length tensors. One query row a request drops
// the bounds that cannot cut (bottom-right causal with one row is no mask), because cuDNN splits
// the keys over the GPU only in graphs without any. Bounds that cannot cut are dropped everywhere.
#pragma once

#include <cstddef>

#include "backend/cudnn/graph/spec.h"
#include "plan/candidate.h"

namespace tilegate::cudnn {

// Bytes from the start of the workspace. Arrays that a graph does not read have no bytes.
struct WorkspaceLayout {
  std::size_t q_lens = 0;       // int32 [batch]
  std::size_t kv_lens = 0;      // int32 [batch]
  std::size_t q_offsets = 0;    // int64 [batch + 1], elements, as all offsets
  std::size_t o_offsets = 0;    //
  std::size_t lse_offsets = 0;  //
  std::size_t k_offsets = 0;    //
  std::size_t v_offsets = 0;    //
  std::size_t page_table = 0;   // int32 [batch, table width]
  std::size_t k_copy = 0;       // [copied rows, heads_kv, dim_qk]
  std::size_t v_copy = 0;       // [copied rows, heads_kv, dim_v]
  std::size_t sinks = 0;        // float [heads_q], where the caller's have a stride
  std::size_t engine = 0;       // cuDNN's own, last
};

struct GraphForm {
  GraphSpec spec;
  std::int64_t rows_each = -1;  // >= 0: rows of every request
  std::int64_t keys_each = -1;  // >= 0: keys of every request
  Strides q, o, lse;            // of the caller's tensors, with the batch stride of equal requests
  bool copies_sinks = false;
  std::int64_t copied_rows = 0;  // > 0: paged keys are copied
  WorkspaceLayout layout;

  // Something must be written for the graph before it runs.
  bool prepares() const { return spec.lengths == Lengths::kPadded || copies_sinks; }
  // There are no keys at all: every row is empty and no graph is needed.
  bool no_keys() const { return spec.keys == 0; }
};

GraphForm make_form(const AttentionProblem& p, const DeviceFacts& facts);

}  // namespace tilegate::cudnn
