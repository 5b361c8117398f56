// SPDX-License-Identifier: Apache-2.0
// append_paged_kv and merge_states to their problems. Order of checks: inputs, caches or outputs.
#include "core/layout.h"
#include "problem/attention_normalise.h"
#include "problem/paged_layout.h"

namespace tilegate {
namespace {

Status check_new_tokens(const Named& x, const Named& cache, const AppendProblem& p) {
  TILEGATE_RETURN_IF_ERROR(require_rank(x, 3));
  TILEGATE_RETURN_IF_ERROR(require_dtype(x, p.dtype));
  TILEGATE_RETURN_IF_ERROR(require_dtype(cache, p.dtype));
  TILEGATE_RETURN_IF_ERROR(require_shape(x, {p.tokens, p.heads_kv, cache.view.shape[3]}));
  TILEGATE_RETURN_IF_ERROR(require_inner_contiguous(x));
  return require_writable_strides(cache);
}

Status check_token_indices(const AppendPagedKvArgs& args, AppendProblem& p) {
  TILEGATE_RETURN_IF_ERROR(require_shape({"positions", args.positions}, {p.tokens}));
  TILEGATE_RETURN_IF_ERROR(require_index({"positions", args.positions}));
  p.positions = args.positions;
  if (args.batch_indices.present()) {
    TILEGATE_RETURN_IF_ERROR(require_shape({"batch_indices", args.batch_indices}, {p.tokens}));
    TILEGATE_RETURN_IF_ERROR(require_index({"batch_indices", args.batch_indices}));
    p.batch_indices = args.batch_indices;
    return {};
  }
  if (p.batch != 1) {
    return invalid("batch_indices must be given for a page table of {} requests, got none",
                   p.batch);
  }
  return {};
}

}  // namespace

Result<Operation> normalise_append(const AppendPagedKvArgs& args, const AppendOptions& options) {
  AppendProblem p;
  TILEGATE_RETURN_IF_ERROR(require_rank({"k", args.k}, 3));
  TILEGATE_RETURN_IF_ERROR(require_float({"k", args.k}));
  p.dtype = args.k.dtype;
  p.tokens = args.k.shape[0];
  p.backend = options.backend;
  Result<PagedCache> cache =
      paged_cache(args.k_cache, args.v_cache, args.kv_cache, options.kv_layout);
  if (!cache.ok()) return cache.status();
  p.k_cache = cache->k;
  p.v_cache = cache->v;
  p.page_size = cache->k.shape[1];
  p.heads_kv = cache->k.shape[2];
  p.dim_k = cache->k.shape[3];
  p.dim_v = cache->v.shape[3];
  TILEGATE_RETURN_IF_ERROR(check_new_tokens({"k", args.k}, {"k_cache", p.k_cache}, p));
  TILEGATE_RETURN_IF_ERROR(check_new_tokens({"v", args.v}, {"v_cache", p.v_cache}, p));
  p.k = args.k;
  p.v = args.v;
  TILEGATE_RETURN_IF_ERROR(fill_page_table(args.table, p));
  TILEGATE_RETURN_IF_ERROR(check_token_indices(args, p));
  return Operation(p);
}

Result<Operation> normalise_merge(const MergeStatesArgs& args, const MergeOptions& options) {
  MergeProblem p;
  TILEGATE_RETURN_IF_ERROR(require_rank({"v", args.v}, 4));
  TILEGATE_RETURN_IF_ERROR(require_float({"v", args.v}));
  TILEGATE_RETURN_IF_ERROR(require_inner_contiguous({"v", args.v}));
  p.dtype = args.v.dtype;
  p.rows = args.v.shape[0];
  p.parts = args.v.shape[1];
  p.heads = args.v.shape[2];
  p.dim = args.v.shape[3];
  p.backend = options.backend;
  TILEGATE_RETURN_IF_ERROR(require_shape({"s", args.s}, {p.rows, p.parts, p.heads}));
  TILEGATE_RETURN_IF_ERROR(require_dtype({"s", args.s}, DType::kFloat32));
  TILEGATE_RETURN_IF_ERROR(require_shape({"o", args.o}, {p.rows, p.heads, p.dim}));
  TILEGATE_RETURN_IF_ERROR(require_dtype({"o", args.o}, p.dtype));
  TILEGATE_RETURN_IF_ERROR(require_inner_contiguous({"o", args.o}));
  TILEGATE_RETURN_IF_ERROR(require_writable_strides({"o", args.o}));
  p.v = args.v;
  p.s = args.s;
  p.o = args.o;
  if (args.lse.present()) {
    TILEGATE_RETURN_IF_ERROR(require_shape({"lse", args.lse}, {p.rows, p.heads}));
    TILEGATE_RETURN_IF_ERROR(require_dtype({"lse", args.lse}, DType::kFloat32));
    TILEGATE_RETURN_IF_ERROR(require_writable_strides({"lse", args.lse}));
    p.lse = args.lse;
  }
  return Operation(p);
}

}  // namespace tilegate
