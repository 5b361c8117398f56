// SPDX-License-Identifier: Apache-2.0
// batch_prefill_ragged: two requests back to back, causal, two query heads on one KV head. The
// second request has keys from before its queries, so its diagonal is shifted.
#include "checks.h"

namespace {

constexpr std::int64_t kHeadsQ = 2;
constexpr std::int64_t kDim = 16;
const std::vector<std::int32_t> kQoIndptr = {0, 3, 5};  // 3 and 2 queries
const std::vector<std::int32_t> kKvIndptr = {0, 3, 9};  // 3 and 6 keys

struct Inputs {
  std::vector<float> q;  // [5, kHeadsQ, kDim]
  std::vector<float> k;  // [9, 1, kDim]
  std::vector<float> v;  // [9, 1, kDim]
};

// One row of output: query (row, head) over keys [first, last).
void attend_row(const Inputs& in, std::int64_t row, std::int64_t first, std::int64_t last,
                double* o) {
  const float* q = in.q.data() + row * kDim;
  double sum = 0;
  for (std::int64_t j = first; j < last; ++j) {
    double score = 0;
    for (std::int64_t d = 0; d < kDim; ++d) score += double{q[d]} * in.k[j * kDim + d];
    const double weight = std::exp(score / std::sqrt(double{kDim}));
    sum += weight;
    for (std::int64_t d = 0; d < kDim; ++d) o[d] += weight * in.v[j * kDim + d];
  }
  for (std::int64_t d = 0; d < kDim; ++d) o[d] /= sum;
}

std::vector<double> by_loops(const Inputs& in) {
  std::vector<double> o(in.q.size());
  for (std::size_t b = 0; b + 1 < kQoIndptr.size(); ++b) {
    const std::int64_t queries = kQoIndptr[b + 1] - kQoIndptr[b];
    const std::int64_t before = kKvIndptr[b + 1] - kKvIndptr[b] - queries;
    for (std::int64_t i = 0; i < queries; ++i) {
      for (std::int64_t h = 0; h < kHeadsQ; ++h) {
        const std::int64_t row = (kQoIndptr[b] + i) * kHeadsQ + h;
        attend_row(in, row, kKvIndptr[b], kKvIndptr[b] + before + i + 1, o.data() + row * kDim);
      }
    }
  }
  return o;
}

}  // namespace

tilegate::Result<double> attention_error(tilegate::Context& context) {
  using tilegate::DType;
  using tilegate::TensorView;
  const std::int64_t queries = kQoIndptr.back();
  const std::int64_t keys = kKvIndptr.back();
  Inputs in{random_values(static_cast<std::size_t>(queries * kHeadsQ * kDim), -1, 1, 1),
            random_values(static_cast<std::size_t>(keys * kDim), -1, 1, 2),
            random_values(static_cast<std::size_t>(keys * kDim), -1, 1, 3)};
  std::vector<std::int32_t> qo_indptr = kQoIndptr;
  std::vector<std::int32_t> kv_indptr = kKvIndptr;
  std::vector<float> o(in.q.size());

  tilegate::PrefillRaggedArgs args;
  args.q = TensorView::packed(in.q.data(), DType::kFloat32, {queries, kHeadsQ, kDim});
  args.k = TensorView::packed(in.k.data(), DType::kFloat32, {keys, 1, kDim});
  args.v = TensorView::packed(in.v.data(), DType::kFloat32, {keys, 1, kDim});
  args.qo_indptr = TensorView::packed(qo_indptr.data(), DType::kInt32, {3});
  args.kv_indptr = TensorView::packed(kv_indptr.data(), DType::kInt32, {3});
  args.o = TensorView::packed(o.data(), DType::kFloat32, {queries, kHeadsQ, kDim});
  tilegate::AttentionOptions options;
  options.causal = true;
  const tilegate::Status status = tilegate::batch_prefill_ragged(context, args, options);
  if (!status.ok()) return status;
  return largest_difference(o, by_loops(in));
}
