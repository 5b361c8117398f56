// SPDX-License-Identifier: Apache-2.0
// From named tensors to the library's argument structs.
#include "tests/op/calls/small_calls.h"

namespace laws {

std::vector<Argument> AppendCall::arguments() {
  return {{"k", &k, Role::kIn},
          {"v", &v, Role::kIn},
          {"batch_indices", &batch_indices, Role::kIn},
          {"positions", &positions, Role::kIn},
          {"k_cache", &k_cache, Role::kOut},
          {"v_cache", &v_cache, Role::kOut},
          {"kv_cache", &kv_cache, Role::kOut},
          {"kv_indptr", &kv_indptr, Role::kIn},
          {"kv_indices", &kv_indices, Role::kIn},
          {"kv_last_page_len", &kv_last_page_len, Role::kIn},
          {"block_tables", &block_tables, Role::kIn},
          {"kv_lens", &kv_lens, Role::kIn}};
}

tilegate::CallArgs AppendCall::args() const {
  tilegate::AppendPagedKvArgs args;
  args.k = k.view();
  args.v = v.view();
  args.batch_indices = batch_indices.view();
  args.positions = positions.view();
  args.k_cache = k_cache.view();
  args.v_cache = v_cache.view();
  args.kv_cache = kv_cache.view();
  args.table.kv_indptr = kv_indptr.view();
  args.table.kv_indices = kv_indices.view();
  args.table.kv_last_page_len = kv_last_page_len.view();
  args.table.block_tables = block_tables.view();
  args.table.kv_lens = kv_lens.view();
  return args;
}

tilegate::Result<tilegate::Problem> AppendCall::describe() const {
  return tilegate::describe(std::get<tilegate::AppendPagedKvArgs>(args()), options);
}

std::vector<Argument> MergeCall::arguments() {
  return {
      {"v", &v, Role::kIn}, {"s", &s, Role::kIn}, {"o", &o, Role::kOut}, {"lse", &lse, Role::kOut}};
}

tilegate::CallArgs MergeCall::args() const {
  tilegate::MergeStatesArgs args;
  args.v = v.view();
  args.s = s.view();
  args.o = o.view();
  args.lse = lse.view();
  return args;
}

tilegate::Result<tilegate::Problem> MergeCall::describe() const {
  return tilegate::describe(std::get<tilegate::MergeStatesArgs>(args()), options);
}

std::vector<Argument> CommitCall::arguments() {
  return {{"state_pool", &state_pool, Role::kOut},    {"state_indices", &state_indices, Role::kIn},
          {"record_k", &record_k, Role::kIn},         {"record_d", &record_d, Role::kIn},
          {"record_decay", &record_decay, Role::kIn}, {"accepted", &accepted, Role::kIn}};
}

tilegate::CallArgs CommitCall::args() const {
  tilegate::CommitArgs args;
  args.state_pool = state_pool.view();
  args.state_indices = state_indices.view();
  args.record_k = record_k.view();
  args.record_d = record_d.view();
  args.record_decay = record_decay.view();
  args.accepted = accepted.view();
  return args;
}

tilegate::Result<tilegate::Problem> CommitCall::describe() const {
  return tilegate::describe(std::get<tilegate::CommitArgs>(args()), options);
}

MergeCall make_merge(Tensor v, Tensor s) {
  MergeCall call;
  call.o = Tensor::packed(v.dtype(), {v.dim(0), v.dim(2), v.dim(3)});
  call.lse = Tensor::packed(tilegate::DType::kFloat32, {v.dim(0), v.dim(2)});
  call.v = std::move(v);
  call.s = std::move(s);
  return call;
}

}  // namespace laws
