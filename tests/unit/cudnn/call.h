// SPDX-License-Identifier: Apache-2.0
// Attention problems without tensors behind them, for the pure side of the cuDNN backend.
#pragma once

#include "plan/candidate.h"
#include "problem/problem.h"
#include "tilegate/tilegate.h"

namespace tilegate::test {

inline constexpr Device kGpu{DeviceType::kCuda, 0};

struct CallShape {
  std::int64_t batch = 2;
  std::int64_t rows = 64;   // a request
  std::int64_t keys = 256;  // a request
  std::int64_t heads_q = 8;
  std::int64_t heads_kv = 2;
  std::int64_t dim = 128;
  std::int64_t dim_v = 0;  // 0: dim
  std::int64_t page_size = 16;
  DType dtype = DType::kBFloat16;
  bool lse = true;
  bool sinks = false;
  AttentionOptions options{};
};

inline TensorView absent_data(DType dtype, std::initializer_list<std::int64_t> dims) {
  return TensorView::packed(nullptr, dtype, dims, kGpu);
}

inline AttentionProblem problem_of(Result<Problem> problem) {
  return std::get<AttentionProblem>(problem.value().data().op);
}

inline PrefillRaggedArgs dense_args(const CallShape& s) {
  const std::int64_t dim_v = s.dim_v > 0 ? s.dim_v : s.dim;
  PrefillRaggedArgs a;
  a.q = absent_data(s.dtype, {s.batch, s.rows, s.heads_q, s.dim});
  a.k = absent_data(s.dtype, {s.batch, s.keys, s.heads_kv, s.dim});
  a.v = absent_data(s.dtype, {s.batch, s.keys, s.heads_kv, dim_v});
  a.o = absent_data(s.dtype, {s.batch, s.rows, s.heads_q, dim_v});
  if (s.lse) a.lse = absent_data(DType::kFloat32, {s.batch * s.rows, s.heads_q});
  if (s.sinks) a.sinks = absent_data(DType::kFloat32, {s.heads_q});
  return a;
}

inline PrefillRaggedArgs ragged_args(const CallShape& s) {
  const std::int64_t dim_v = s.dim_v > 0 ? s.dim_v : s.dim;
  PrefillRaggedArgs a = dense_args(s);
  a.q = absent_data(s.dtype, {s.batch * s.rows, s.heads_q, s.dim});
  a.k = absent_data(s.dtype, {s.batch * s.keys, s.heads_kv, s.dim});
  a.v = absent_data(s.dtype, {s.batch * s.keys, s.heads_kv, dim_v});
  a.o = absent_data(s.dtype, {s.batch * s.rows, s.heads_q, dim_v});
  a.qo_indptr = absent_data(DType::kInt32, {s.batch + 1});
  a.kv_indptr = absent_data(DType::kInt32, {s.batch + 1});
  return a;
}

inline PageTable dense_table(const CallShape& s) {
  PageTable table;
  table.block_tables = absent_data(DType::kInt32, {s.batch, s.keys / s.page_size});
  table.kv_lens = absent_data(DType::kInt32, {s.batch});
  return table;
}

inline TensorView pool(const CallShape& s) {
  return absent_data(s.dtype, {s.batch * s.keys / s.page_size, s.page_size, s.heads_kv, s.dim});
}

inline PrefillPagedArgs paged_args(const CallShape& s) {
  const PrefillRaggedArgs ragged = ragged_args(s);
  PrefillPagedArgs a;
  a.q = ragged.q, a.o = ragged.o, a.lse = ragged.lse, a.sinks = ragged.sinks;
  a.qo_indptr = ragged.qo_indptr;
  a.k_cache = a.v_cache = pool(s);
  a.table = dense_table(s);
  return a;
}

// `rows` is q_len_per_req.
inline DecodePagedArgs decode_args(const CallShape& s) {
  const PrefillRaggedArgs ragged = ragged_args(s);
  DecodePagedArgs a;
  a.q = ragged.q, a.o = ragged.o, a.lse = ragged.lse, a.sinks = ragged.sinks;
  a.k_cache = a.v_cache = pool(s);
  a.table = dense_table(s);
  return a;
}

inline AttentionProblem dense_problem(const CallShape& s) {
  return problem_of(describe(dense_args(s), s.options));
}
inline AttentionProblem ragged_problem(const CallShape& s) {
  return problem_of(describe(ragged_args(s), s.options));
}
inline AttentionProblem paged_problem(const CallShape& s) {
  return problem_of(describe(paged_args(s), s.options));
}
inline AttentionProblem decode_problem(const CallShape& s) {
  AttentionOptions options = s.options;
  options.q_len_per_req = s.rows;
  return problem_of(describe(decode_args(s), options));
}

inline DeviceFacts h200(int cudnn_version = 91900) {
  DeviceFacts facts;
  facts.type = DeviceType::kCuda;
  facts.name = "NVIDIA H200";
  facts.num_sms = 132;
  facts.compute_capability = 90;
  facts.bandwidth_gbps = 4278.0;
  facts.cudnn_version = cudnn_version;
  return facts;
}

}  // namespace tilegate::test
