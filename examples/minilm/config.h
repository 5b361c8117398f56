// SPDX-License-Identifier: Apache-2.0
// The model's own description: config.json for the encoder, sentence_bert_config.json for the
// longest sentence. Read once; everything else takes sizes from here.
#pragma once

#include <cstdint>
#include <string>

namespace minilm {

struct Config {
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t hidden = 0;        // heads * head_dim
  std::int64_t intermediate = 0;  // width of the feed-forward part
  std::int64_t vocabulary = 0;
  std::int64_t positions = 0;   // rows of the position table
  std::int64_t max_tokens = 0;  // a sentence is cut here, [CLS] and [SEP] included
  double layer_norm_eps = 0;

  std::int64_t head_dim() const { return hidden / heads; }
};

// Throws std::runtime_error when a file cannot be read, a field is missing, or the model is not a
// BERT encoder with GELU and absolute positions, which is all that encoder.cpp computes.
Config read_config(const std::string& model_dir);

}  // namespace minilm
