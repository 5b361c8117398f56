// SPDX-License-Identifier: Apache-2.0
// chunk_gated_delta_rule (GDN): two sequences of 5 and 70 tokens, one head, from zero, with the
// final states asked for.
#include "checks.h"

namespace {

constexpr std::int64_t kKeyDim = 16;
constexpr std::int64_t kValueDim = 16;
const std::vector<std::int32_t> kCuSeqlens = {0, 5, 75};

struct Inputs {
  std::vector<float> q, k;     // [75, 1, kKeyDim]
  std::vector<float> v;        // [75, 1, kValueDim]
  std::vector<float> g, beta;  // [75, 1]
};

struct Outputs {
  std::vector<double> o;      // [75, 1, kValueDim]
  std::vector<double> state;  // [2, 1, kValueDim, kKeyDim]
};

// S <- alpha S;  d = beta (v - S k);  S <- S + d k^T;  o = S q / sqrt(K), row by row of S.
void step(const Inputs& in, std::int64_t t, double* state, double* o) {
  const float* q = in.q.data() + t * kKeyDim;
  const float* k = in.k.data() + t * kKeyDim;
  for (std::int64_t r = 0; r < kValueDim; ++r) {
    double* row = state + r * kKeyDim;
    double predicted = 0;
    for (std::int64_t c = 0; c < kKeyDim; ++c) {
      row[c] *= in.g[t];
      predicted += row[c] * k[c];
    }
    const double delta = in.beta[t] * (in.v[t * kValueDim + r] - predicted);
    double read = 0;
    for (std::int64_t c = 0; c < kKeyDim; ++c) {
      row[c] += delta * k[c];
      read += row[c] * q[c];
    }
    o[r] = read / std::sqrt(double{kKeyDim});
  }
}

Outputs by_loops(const Inputs& in) {
  const std::size_t sequences = kCuSeqlens.size() - 1;
  Outputs out{std::vector<double>(in.v.size()),
              std::vector<double>(sequences * kValueDim * kKeyDim)};
  for (std::size_t n = 0; n < sequences; ++n) {
    double* state = out.state.data() + n * kValueDim * kKeyDim;
    for (std::int64_t t = kCuSeqlens[n]; t < kCuSeqlens[n + 1]; ++t) {
      step(in, t, state, out.o.data() + t * kValueDim);
    }
  }
  return out;
}

}  // namespace

tilegate::Result<double> delta_rule_error(tilegate::Context& context) {
  using tilegate::DType;
  using tilegate::TensorView;
  const std::int64_t tokens = kCuSeqlens.back();
  const auto count = static_cast<std::size_t>(tokens);
  Inputs in{random_values(count * kKeyDim, -1, 1, 4),
            random_values(count * kKeyDim, -0.25f, 0.25f, 5),  // |k|^2 beta stays below 2
            random_values(count * kValueDim, -1, 1, 6), random_values(count, 0.5f, 1, 7),
            random_values(count, 0, 1, 8)};
  std::vector<std::int32_t> cu_seqlens = kCuSeqlens;
  std::vector<float> o(in.v.size());
  std::vector<float> state((kCuSeqlens.size() - 1) * kValueDim * kKeyDim);

  tilegate::DeltaRuleArgs args;
  args.q = TensorView::packed(in.q.data(), DType::kFloat32, {tokens, 1, kKeyDim});
  args.k = TensorView::packed(in.k.data(), DType::kFloat32, {tokens, 1, kKeyDim});
  args.v = TensorView::packed(in.v.data(), DType::kFloat32, {tokens, 1, kValueDim});
  args.g = TensorView::packed(in.g.data(), DType::kFloat32, {tokens, 1});
  args.beta = TensorView::packed(in.beta.data(), DType::kFloat32, {tokens, 1});
  args.cu_seqlens = TensorView::packed(cu_seqlens.data(), DType::kInt32, {3});
  args.output_state = TensorView::packed(state.data(), DType::kFloat32, {2, 1, kValueDim, kKeyDim});
  args.o = TensorView::packed(o.data(), DType::kFloat32, {tokens, 1, kValueDim});
  tilegate::DeltaRuleOptions options;
  options.output_final_state = true;
  const tilegate::Status status = tilegate::chunk_gated_delta_rule(context, args, options);
  if (!status.ok()) return status;
  const Outputs want = by_loops(in);
  return std::max(largest_difference(o, want.o), largest_difference(state, want.state));
}
