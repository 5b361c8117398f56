// SPDX-License-Identifier: Apache-2.0
// BERT's layer in the order it was trained with: the norm comes after each residual sum.
#include "encoder.h"

#include <cmath>
#include <stdexcept>

namespace minilm {
namespace {

// x [T, in] -> [T, out]
Matrix apply(const Dense& dense, const Matrix& x) {
  Matrix y = x * dense.weight.transpose();
  y.rowwise() += dense.bias;
  return y;
}

// Each row to mean 0 and variance 1, then the learned scale and shift.
void normalise_rows(const LayerNorm& norm, double eps, Matrix& x) {
  for (Eigen::Index t = 0; t < x.rows(); ++t) {
    auto row = x.row(t);
    row.array() -= row.mean();
    const float variance = row.squaredNorm() / static_cast<float>(row.size());
    row *= static_cast<float>(1.0 / std::sqrt(variance + eps));
    row = row.cwiseProduct(norm.weight) + norm.bias;
  }
}

// The exact form, x * Phi(x), that the model was trained with.
void gelu(Matrix& x) {
  constexpr float kInvSqrt2 = 0.70710678f;
  x = x.unaryExpr([](float v) { return 0.5f * v * (1.0f + std::erf(v * kInvSqrt2)); });
}

// Mean over each sentence's tokens, [CLS] and [SEP] included, then to length 1.
Matrix pool(const Matrix& x, const Batch& batch) {
  Matrix out(batch.sentences(), x.cols());
  for (std::int64_t i = 0; i < batch.sentences(); ++i) {
    const std::int32_t first = batch.indptr[static_cast<std::size_t>(i)];
    const std::int32_t last = batch.indptr[static_cast<std::size_t>(i) + 1];
    out.row(i) = x.middleRows(first, last - first).colwise().mean().normalized();
  }
  return out;
}

}  // namespace

Encoder::Encoder(tilegate::Context& context, const Config& config, const Weights& weights,
                 tilegate::Backend backend)
    : context_(context), config_(config), weights_(weights) {
  attention_.heads = config.heads;
  attention_.head_dim = config.head_dim();
  attention_.backend = backend;
}

// Word + position in the sentence + token type, normalised. [T, hidden]
Matrix Encoder::embed(const Batch& batch) const {
  Matrix x(batch.tokens(), config_.hidden);
  for (std::size_t i = 0; i + 1 < batch.indptr.size(); ++i) {
    const std::int32_t first = batch.indptr[i];
    if (batch.indptr[i + 1] - first > config_.positions) {
      throw std::runtime_error("a sentence has more tokens than the model has positions");
    }
    for (std::int32_t t = first; t < batch.indptr[i + 1]; ++t) {
      const std::int32_t id = batch.ids[static_cast<std::size_t>(t)];
      x.row(t) = weights_.words.row(id) + weights_.positions.row(t - first) + weights_.sentence;
    }
  }
  normalise_rows(weights_.embedding_norm, config_.layer_norm_eps, x);
  return x;
}

void Encoder::run_layer(const Layer& layer, const Batch& batch, Matrix& x, Trace* trace) const {
  const Matrix qkv = apply(layer.qkv, x);
  const Matrix mixed = attend(context_, attention_, qkv, batch.indptr);
  if (trace != nullptr) *trace = {qkv, mixed};

  x += apply(layer.attention_output, mixed);
  normalise_rows(layer.attention_norm, config_.layer_norm_eps, x);

  Matrix wide = apply(layer.intermediate, x);
  gelu(wide);
  x += apply(layer.output, wide);
  normalise_rows(layer.output_norm, config_.layer_norm_eps, x);
}

Matrix Encoder::encode(const Batch& batch, Trace* trace) const {
  Matrix x = embed(batch);
  for (std::size_t i = 0; i < weights_.layers.size(); ++i) {
    run_layer(weights_.layers[i], batch, x, i == 0 ? trace : nullptr);
  }
  return pool(x, batch);
}

}  // namespace minilm
