// SPDX-License-Identifier: Apache-2.0
// The encoder's parameters as Eigen matrices, copied out of model.safetensors.
//
// Dense weights stay as stored, [out, in], so a layer is x * weight^T + bias. The three projections
// of attention are stacked into one: a token's q, k and v come from one product and lie side by
// side, and attention reads them there through strides.
#pragma once

#include <Eigen/Core>
#include <string>
#include <vector>

#include "config.h"

namespace minilm {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Vector = Eigen::Matrix<float, 1, Eigen::Dynamic>;

struct Dense {
  Matrix weight;  // [out, in]
  Vector bias;    // [out]
};

struct LayerNorm {
  Vector weight;  // [hidden]
  Vector bias;    // [hidden]
};

struct Layer {
  Dense qkv;               // [3 * hidden, hidden]: q rows, k rows, v rows
  Dense attention_output;  // [hidden, hidden]
  LayerNorm attention_norm;
  Dense intermediate;  // [intermediate, hidden]
  Dense output;        // [hidden, intermediate]
  LayerNorm output_norm;
};

struct Weights {
  Matrix words;      // [vocabulary, hidden]
  Matrix positions;  // [positions, hidden]
  Vector sentence;   // [hidden], the row of token type 0: a call has one sentence each
  LayerNorm embedding_norm;
  std::vector<Layer> layers;
};

// Throws std::runtime_error when the file cannot be read or a tensor is missing, not float32, or of
// another shape than `config` says.
Weights read_weights(const std::string& model_dir, const Config& config);

}  // namespace minilm
