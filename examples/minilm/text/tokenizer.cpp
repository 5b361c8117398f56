// SPDX-License-Identifier: Apache-2.0
// Greedy longest-match WordPiece over the words that words.h cuts. A word of n characters costs at
// most n^2 / 2 look-ups, bounded by the 100 characters a word may have.
#include "tokenizer.h"

#include <fstream>
#include <stdexcept>

#include "words.h"

namespace minilm {
namespace {

constexpr std::size_t kMaxWordCharacters = 100;

}  // namespace

void Batch::append(const std::vector<std::int32_t>& sentence) {
  ids.insert(ids.end(), sentence.begin(), sentence.end());
  indptr.push_back(static_cast<std::int32_t>(ids.size()));
}

Tokenizer::Tokenizer(const std::string& vocabulary, std::int64_t max_tokens)
    : max_tokens_(static_cast<std::size_t>(max_tokens)) {
  if (max_tokens < 2) throw std::runtime_error("max_tokens must leave room for [CLS] and [SEP]");
  std::ifstream file(vocabulary);
  if (!file) throw std::runtime_error("cannot read " + vocabulary);
  std::int32_t id = 0;
  for (std::string line; std::getline(file, line); ++id) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    ids_.emplace(line, id);
  }
  cls_ = special("[CLS]");
  sep_ = special("[SEP]");
  unknown_ = special("[UNK]");
}

std::int32_t Tokenizer::special(const std::string& piece) const {
  const auto found = ids_.find(piece);
  if (found == ids_.end()) throw std::runtime_error("the vocabulary must have " + piece);
  return found->second;
}

std::vector<std::int32_t> Tokenizer::pieces(std::u32string_view word) const {
  if (word.size() > kMaxWordCharacters) return {unknown_};
  std::vector<std::int32_t> ids;
  for (std::size_t start = 0; start < word.size();) {
    std::size_t end = word.size();
    auto found = ids_.end();
    for (; end > start; --end) {
      const std::string piece = to_utf8(word.substr(start, end - start));
      found = ids_.find(start == 0 ? piece : "##" + piece);
      if (found != ids_.end()) break;
    }
    if (found == ids_.end()) return {unknown_};
    ids.push_back(found->second);
    start = end;
  }
  return ids;
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view sentence) const {
  std::vector<std::int32_t> ids{cls_};
  for (const std::u32string& word : split_words(sentence)) {
    const std::vector<std::int32_t> cut = pieces(word);
    ids.insert(ids.end(), cut.begin(), cut.end());
  }
  if (ids.size() > max_tokens_ - 1) ids.resize(max_tokens_ - 1);
  ids.push_back(sep_);
  return ids;
}

Batch Tokenizer::encode(const std::vector<std::string>& sentences) const {
  Batch batch;
  for (const std::string& sentence : sentences) batch.append(encode(sentence));
  return batch;
}

}  // namespace minilm
