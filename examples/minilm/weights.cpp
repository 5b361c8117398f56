// SPDX-License-Identifier: Apache-2.0
// Looks every parameter up by its name in the file and checks its shape while copying. The file is
// read once as a whole; one copy of each tensor, 90 MB for MiniLM.
#include "weights.h"

#include <stdexcept>
#include <string>

#include "io/safetensors.h"

namespace minilm {
namespace {

class Reader {
 public:
  Reader(const std::string& path, const Config& config)
      : path_(path), config_(config), file_(tilegate::io::read_safetensors(path).value()) {}

  Matrix matrix(const std::string& name, std::int64_t rows, std::int64_t columns) const {
    const tilegate::TensorView& view = find(name, 2);
    if (view.shape[0] != rows || view.shape[1] != columns) {
      throw std::runtime_error(path_ + ": " + name + " must be [" + std::to_string(rows) + ", " +
                               std::to_string(columns) + "], got [" +
                               std::to_string(view.shape[0]) + ", " +
                               std::to_string(view.shape[1]) + "]");
    }
    return Eigen::Map<const Matrix>(static_cast<const float*>(view.data), rows, columns);
  }

  Vector vector(const std::string& name, std::int64_t size) const {
    const tilegate::TensorView& view = find(name, 1);
    if (view.shape[0] != size) {
      throw std::runtime_error(path_ + ": " + name + " must be [" + std::to_string(size) +
                               "], got [" + std::to_string(view.shape[0]) + "]");
    }
    return Eigen::Map<const Vector>(static_cast<const float*>(view.data), size);
  }

  Dense dense(const std::string& name, std::int64_t out, std::int64_t in) const {
    return {matrix(name + ".weight", out, in), vector(name + ".bias", out)};
  }

  LayerNorm norm(const std::string& name) const {
    return {vector(name + ".weight", config_.hidden), vector(name + ".bias", config_.hidden)};
  }

  Dense stacked_projections(const std::string& name) const {
    const std::int64_t hidden = config_.hidden;
    Dense qkv{Matrix(3 * hidden, hidden), Vector(3 * hidden)};
    std::int64_t first = 0;
    for (const char* part : {".query", ".key", ".value"}) {
      const Dense one = dense(name + part, hidden, hidden);
      qkv.weight.middleRows(first, hidden) = one.weight;
      qkv.bias.segment(first, hidden) = one.bias;
      first += hidden;
    }
    return qkv;
  }

  Layer layer(const std::string& name) const {
    Layer layer;
    layer.qkv = stacked_projections(name + ".attention.self");
    layer.attention_output =
        dense(name + ".attention.output.dense", config_.hidden, config_.hidden);
    layer.attention_norm = norm(name + ".attention.output.LayerNorm");
    layer.intermediate = dense(name + ".intermediate.dense", config_.intermediate, config_.hidden);
    layer.output = dense(name + ".output.dense", config_.hidden, config_.intermediate);
    layer.output_norm = norm(name + ".output.LayerNorm");
    return layer;
  }

 private:
  const tilegate::TensorView& find(const std::string& name, int rank) const {
    const tilegate::io::HostTensor* tensor = file_.find(name);
    if (tensor == nullptr) throw std::runtime_error(path_ + ": tensor " + name + " is missing");
    const tilegate::TensorView& view = tensor->view();
    if (view.dtype != tilegate::DType::kFloat32 || view.rank != rank) {
      throw std::runtime_error(
          path_ + ": " + name + " must be float32 of rank " + std::to_string(rank) + ", got " +
          std::string(tilegate::to_string(view.dtype)) + " of rank " + std::to_string(view.rank));
    }
    return view;
  }

  std::string path_;
  const Config& config_;
  tilegate::io::Safetensors file_;
};

}  // namespace

Weights read_weights(const std::string& model_dir, const Config& config) {
  const Reader reader(model_dir + "/model.safetensors", config);
  Weights weights;
  const std::string embeddings = "embeddings.";
  weights.words =
      reader.matrix(embeddings + "word_embeddings.weight", config.vocabulary, config.hidden);
  weights.positions =
      reader.matrix(embeddings + "position_embeddings.weight", config.positions, config.hidden);
  weights.sentence =
      reader.matrix(embeddings + "token_type_embeddings.weight", 2, config.hidden).row(0);
  weights.embedding_norm = reader.norm(embeddings + "LayerNorm");
  for (std::int64_t i = 0; i < config.layers; ++i) {
    weights.layers.push_back(reader.layer("encoder.layer." + std::to_string(i)));
  }
  return weights;
}

}  // namespace minilm
