// SPDX-License-Identifier: Apache-2.0
// WordPiece: a sentence becomes [CLS] pieces... [SEP], at most max_tokens ids.
//
// A word is cut greedily into the longest pieces that the vocabulary has; pieces after the first
// carry "##". A word that cannot be cut, or has more than 100 characters, is one [UNK]. Text that
// spells a special token is ordinary text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace minilm {

// Sentences back to back, without padding.
struct Batch {
  std::vector<std::int32_t> ids;        // [T]
  std::vector<std::int32_t> indptr{0};  // [sentences + 1], offsets into ids

  std::int64_t tokens() const { return static_cast<std::int64_t>(ids.size()); }
  std::int64_t sentences() const { return static_cast<std::int64_t>(indptr.size()) - 1; }
  void append(const std::vector<std::int32_t>& sentence);
};

class Tokenizer {
 public:
  // `vocabulary` is a vocab.txt: one piece a line, its id the line's number from 0.
  // Throws std::runtime_error when the file cannot be read or lacks a special token.
  Tokenizer(const std::string& vocabulary, std::int64_t max_tokens);

  std::vector<std::int32_t> encode(std::string_view sentence) const;
  Batch encode(const std::vector<std::string>& sentences) const;

 private:
  std::int32_t special(const std::string& piece) const;
  std::vector<std::int32_t> pieces(std::u32string_view word) const;

  std::unordered_map<std::string, std::int32_t> ids_;
  std::size_t max_tokens_;
  std::int32_t cls_ = 0, sep_ = 0, unknown_ = 0;
};

}  // namespace minilm
