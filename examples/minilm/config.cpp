// SPDX-License-Identifier: Apache-2.0
// Reads the model's JSON files and refuses a model that this example would compute wrongly.
#include "config.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace minilm {
namespace {

nlohmann::json read_json(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  try {
    return nlohmann::json::parse(file);
  } catch (const nlohmann::json::exception& error) {
    throw std::runtime_error(path + ": " + error.what());
  }
}

void want(bool holds, const std::string& sentence) {
  if (!holds) throw std::runtime_error("config.json: " + sentence);
}

}  // namespace

Config read_config(const std::string& model_dir) {
  const nlohmann::json model = read_json(model_dir + "/config.json");
  const nlohmann::json sentence = read_json(model_dir + "/sentence_bert_config.json");
  Config config;
  try {
    want(model.at("model_type") == "bert", "model_type must be bert");
    want(model.at("hidden_act") == "gelu", "hidden_act must be gelu");
    want(model.value("position_embedding_type", "absolute") == "absolute",
         "position_embedding_type must be absolute");
    config.layers = model.at("num_hidden_layers");
    config.heads = model.at("num_attention_heads");
    config.hidden = model.at("hidden_size");
    config.intermediate = model.at("intermediate_size");
    config.vocabulary = model.at("vocab_size");
    config.positions = model.at("max_position_embeddings");
    config.layer_norm_eps = model.at("layer_norm_eps");
    config.max_tokens = sentence.at("max_seq_length");
  } catch (const nlohmann::json::exception& error) {
    throw std::runtime_error(model_dir + ": " + error.what());
  }
  want(config.layers > 0 && config.hidden > 0 && config.intermediate > 0,
       "num_hidden_layers, hidden_size and intermediate_size must be positive");
  want(config.heads > 0 && config.hidden % config.heads == 0,
       "num_attention_heads must divide hidden_size");
  want(config.max_tokens >= 2 && config.max_tokens <= config.positions,
       "max_position_embeddings must reach max_seq_length");
  return config;
}

}  // namespace minilm
