// SPDX-License-Identifier: Apache-2.0
// From raw UTF-8 to the words that WordPiece looks up: the text side of BERT's uncased tokenizer.
//
// Order of the steps: drop control characters and turn every space into ' ', set CJK ideographs
// apart as words of one character, decompose (NFD) and drop combining marks, lower-case each code
// point, split at spaces and around punctuation. Unicode facts come from utf8proc. One pass a step,
// linear in the length of the text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace minilm {

// Bytes that are not UTF-8 count as U+FFFD, which the first step drops.
std::vector<std::u32string> split_words(std::string_view utf8);

std::string to_utf8(std::u32string_view text);

}  // namespace minilm
