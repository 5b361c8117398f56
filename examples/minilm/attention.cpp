// SPDX-License-Identifier: Apache-2.0
// Builds the views and makes the one-shot call; Status::throw_if_error turns a rejection into an
// exception, as a program that does not want to pass errors along would.
#include "attention.h"

namespace minilm {
namespace {

// Part 0, 1 or 2 (q, k, v) of the packed projection, as [T, heads, head_dim].
tilegate::TensorView part(const AttentionSetup& setup, const Matrix& qkv, int index) {
  const std::int64_t hidden = setup.heads * setup.head_dim;
  // Views have no const form; the call only reads q, k and v.
  float* first = const_cast<float*>(qkv.data()) + index * hidden;
  auto view = tilegate::TensorView::packed(first, tilegate::DType::kFloat32,
                                           {qkv.rows(), setup.heads, setup.head_dim});
  view.strides[0] = qkv.cols();
  return view;
}

}  // namespace

Matrix attend(tilegate::Context& context, const AttentionSetup& setup, const Matrix& qkv,
              const std::vector<std::int32_t>& indptr) {
  Matrix out = Matrix::Zero(qkv.rows(), setup.heads * setup.head_dim);
  tilegate::PrefillRaggedArgs args;
  args.q = part(setup, qkv, 0);
  args.k = part(setup, qkv, 1);
  args.v = part(setup, qkv, 2);
  args.qo_indptr = tilegate::TensorView::packed(const_cast<std::int32_t*>(indptr.data()),
                                                tilegate::DType::kInt32,
                                                {static_cast<std::int64_t>(indptr.size())});
  args.kv_indptr = args.qo_indptr;
  args.o = tilegate::TensorView::packed(out.data(), tilegate::DType::kFloat32,
                                        {qkv.rows(), setup.heads, setup.head_dim});
  tilegate::AttentionOptions options;
  options.batch_invariant = setup.batch_invariant;
  options.backend = setup.backend;
  tilegate::batch_prefill_ragged(context, args, options).throw_if_error();
  return out;
}

}  // namespace minilm
