// SPDX-License-Identifier: Apache-2.0
// Token ids of a packed batch to one unit vector a sentence.
//
// Six BERT layers over all tokens of the batch at once, [T, hidden], without padding: dense
// products and row-wise parts do not care where a sentence ends, attention gets the offsets. Then
// the mean of each sentence's rows, scaled to length 1. The dense products (Eigen, one thread)
// bound the time.
#pragma once

#include <tilegate/tilegate.h>

#include "attention.h"
#include "config.h"
#include "text/tokenizer.h"
#include "weights.h"

namespace minilm {

// What the first layer's attention read and gave, for tests and --dump.
struct Trace {
  Matrix qkv;        // [T, 3 * hidden]
  Matrix attention;  // [T, hidden]
};

class Encoder {
 public:
  // Keeps references: the context and the weights must outlive the encoder.
  Encoder(tilegate::Context& context, const Config& config, const Weights& weights,
          tilegate::Backend backend);

  // [sentences, hidden]. `trace` may be null.
  Matrix encode(const Batch& batch, Trace* trace = nullptr) const;

  const AttentionSetup& attention() const { return attention_; }

 private:
  Matrix embed(const Batch& batch) const;
  void run_layer(const Layer& layer, const Batch& batch, Matrix& x, Trace* trace) const;

  tilegate::Context& context_;
  const Config& config_;
  const Weights& weights_;
  AttentionSetup attention_;
};

}  // namespace minilm
