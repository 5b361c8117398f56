// SPDX-License-Identifier: Apache-2.0
// Packed, all sentences are one batch and one attention call a layer; one by one, each is a batch
// of its own and the results are put back in order.
#include "model.h"

namespace minilm {

Model::Model(const std::string& folder)
    : config_(read_config(folder)),
      tokenizer_(folder + "/vocab.txt", config_.max_tokens),
      weights_(read_weights(folder, config_)) {}

Embeddings Model::embed(tilegate::Context& context, const std::vector<std::string>& sentences,
                        Batching batching, tilegate::Backend backend) const {
  const Encoder encoder(context, config_, weights_, backend);
  Embeddings result;
  result.batch = tokenizer_.encode(sentences);
  if (batching == Batching::kPacked) {
    result.vectors = encoder.encode(result.batch, &result.trace);
    return result;
  }
  const std::int64_t tokens = result.batch.tokens();
  result.vectors.resize(result.batch.sentences(), config_.hidden);
  result.trace = {Matrix(tokens, 3 * config_.hidden), Matrix(tokens, config_.hidden)};
  for (std::size_t i = 0; i < sentences.size(); ++i) {
    Batch one;
    one.append(tokenizer_.encode(sentences[i]));
    Trace trace;
    result.vectors.row(static_cast<Eigen::Index>(i)) = encoder.encode(one, &trace);
    const std::int32_t first = result.batch.indptr[i];
    result.trace.qkv.middleRows(first, one.tokens()) = trace.qkv;
    result.trace.attention.middleRows(first, one.tokens()) = trace.attention;
  }
  return result;
}

}  // namespace minilm
