// SPDX-License-Identifier: Apache-2.0
// A model folder made ready to embed sentences: what main.cpp and the tests share.
#pragma once

#include <string>
#include <vector>

#include "config.h"
#include "encoder.h"
#include "text/tokenizer.h"
#include "weights.h"

namespace minilm {

enum class Batching { kPacked, kOneByOne };

struct Embeddings {
  Batch batch;     // the sentences' tokens
  Matrix vectors;  // [sentences, hidden], each row of length 1
  Trace trace;     // rows in the batch's order, also when run one by one
};

class Model {
 public:
  // Throws std::runtime_error naming the file that is missing or wrong.
  explicit Model(const std::string& folder);

  Embeddings embed(tilegate::Context& context, const std::vector<std::string>& sentences,
                   Batching batching, tilegate::Backend backend) const;

  const Config& config() const { return config_; }

 private:
  Config config_;
  Tokenizer tokenizer_;
  Weights weights_;
};

}  // namespace minilm
