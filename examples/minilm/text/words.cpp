// SPDX-License-Identifier: Apache-2.0
// The steps named in words.h, each a function from code points to code points, so that every step
// sees whole characters. utf8proc's canonical decomposition works on UTF-8; only it converts.
#include "words.h"

#include <utf8proc.h>

#include <array>
#include <stdexcept>

namespace minilm {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

struct CodeRange {
  char32_t first, last;
};

// The blocks of CJK unified and compatibility ideographs. Kana and Hangul are not among them: they
// are written in words.
constexpr std::array<CodeRange, 8> kIdeographs{{{0x4E00, 0x9FFF},
                                                {0x3400, 0x4DBF},
                                                {0x20000, 0x2A6DF},
                                                {0x2A700, 0x2B73F},
                                                {0x2B740, 0x2B81F},
                                                {0x2B820, 0x2CEAF},
                                                {0xF900, 0xFAFF},
                                                {0x2F800, 0x2FA1F}}};

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

bool is_ideograph(char32_t c) {
  for (CodeRange range : kIdeographs) {
    if (c >= range.first && c <= range.last) return true;
  }
  return false;
}

bool is_space(char32_t c) {
  if (c == '\t' || c == '\n' || c == '\r') return true;
  const auto kind = category(c);
  return kind == UTF8PROC_CATEGORY_ZS || kind == UTF8PROC_CATEGORY_ZL ||
         kind == UTF8PROC_CATEGORY_ZP;
}

// Control, format, surrogate and private code points. Unassigned ones stay: an emoji newer than the
// tables is an unknown word, not nothing.
bool is_control(char32_t c) {
  const auto kind = category(c);
  return kind == UTF8PROC_CATEGORY_CC || kind == UTF8PROC_CATEGORY_CF ||
         kind == UTF8PROC_CATEGORY_CS || kind == UTF8PROC_CATEGORY_CO;
}

// All printable ASCII but letters, digits and space, although Unicode calls some of it symbols.
bool is_punctuation(char32_t c) {
  if ((c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) ||
      (c >= 123 && c <= 126)) {
    return true;
  }
  const auto kind = category(c);
  return kind >= UTF8PROC_CATEGORY_PC && kind <= UTF8PROC_CATEGORY_PO;
}

std::u32string decode(std::string_view utf8) {
  std::u32string text;
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(utf8.data());
  auto left = static_cast<utf8proc_ssize_t>(utf8.size());
  while (left > 0) {
    utf8proc_int32_t code = 0;
    const utf8proc_ssize_t used = utf8proc_iterate(bytes, left, &code);
    text.push_back(used > 0 ? static_cast<char32_t>(code) : kReplacement);
    bytes += used > 0 ? used : 1;
    left -= used > 0 ? used : 1;
  }
  return text;
}

std::u32string clean(std::u32string_view text) {
  std::u32string out;
  for (char32_t c : text) {
    if (is_space(c)) {
      out.push_back(' ');
    } else if (c != kReplacement && !is_control(c)) {
      out.push_back(c);
    }
  }
  return out;
}

std::u32string set_ideographs_apart(std::u32string_view text) {
  std::u32string out;
  for (char32_t c : text) {
    if (is_ideograph(c)) {
      out.append({' ', c, ' '});
    } else {
      out.push_back(c);
    }
  }
  return out;
}

std::u32string decompose(std::u32string_view text) {
  const std::string utf8 = to_utf8(text);
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(utf8.data());
  const auto size = static_cast<utf8proc_ssize_t>(utf8.size());
  constexpr auto kNfd = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);
  const utf8proc_ssize_t needed = utf8proc_decompose(bytes, size, nullptr, 0, kNfd);
  if (needed < 0) throw std::runtime_error(utf8proc_errmsg(needed));
  std::vector<utf8proc_int32_t> codes(static_cast<std::size_t>(needed));
  const utf8proc_ssize_t got = utf8proc_decompose(bytes, size, codes.data(), needed, kNfd);
  if (got != needed) throw std::runtime_error("utf8proc changed its mind about a length");
  return {codes.begin(), codes.end()};
}

// Lower-cases code point by code point: a sigma at a word's end becomes the ordinary small one.
std::u32string strip_marks_and_lower(std::u32string_view text) {
  std::u32string out;
  for (char32_t c : text) {
    if (category(c) == UTF8PROC_CATEGORY_MN) continue;
    out.push_back(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
  }
  return out;
}

}  // namespace

std::string to_utf8(std::u32string_view text) {
  std::string out;
  for (char32_t c : text) {
    std::array<utf8proc_uint8_t, 4> bytes{};
    const auto n = utf8proc_encode_char(static_cast<utf8proc_int32_t>(c), bytes.data());
    out.append(reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(n));
  }
  return out;
}

std::vector<std::u32string> split_words(std::string_view utf8) {
  const std::u32string text =
      strip_marks_and_lower(decompose(set_ideographs_apart(clean(decode(utf8)))));
  std::vector<std::u32string> words;
  bool in_word = false;
  for (char32_t c : text) {
    if (is_space(c)) {
      in_word = false;
    } else if (is_punctuation(c)) {
      words.emplace_back(1, c);
      in_word = false;
    } else {
      if (!in_word) words.emplace_back();
      words.back().push_back(c);
      in_word = true;
    }
  }
  return words;
}

}  // namespace minilm
