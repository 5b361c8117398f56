// SPDX-License-Identifier: Apache-2.0
// The depth is measured before parsing: a parser's own stack grows with the nesting it is given.
#include "io/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

namespace tilegate::io {
namespace {

// Deepest nesting of [ and { outside strings.
int nesting(std::string_view text) {
  int depth = 0, deepest = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
      continue;
    }
    if (c == '"') in_string = true;
    if (c == '[' || c == '{') deepest = std::max(deepest, ++depth);
    if (c == ']' || c == '}') --depth;
  }
  return deepest;
}

}  // namespace

Result<nlohmann::json> parse_json(std::string_view what, std::string_view text, int max_depth) {
  using nlohmann::json;
  if (const int depth = nesting(text); depth > max_depth) {
    return Status(StatusCode::kIo, fmt::format("{} must be JSON nested at most {} deep, got {}",
                                               what, max_depth, depth));
  }
  std::vector<std::set<std::string>> open_objects;
  std::optional<std::string> duplicate;
  const json::parser_callback_t track = [&](int, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) open_objects.emplace_back();
    if (event == json::parse_event_t::object_end) open_objects.pop_back();
    if (event == json::parse_event_t::key) {
      const std::string& name = parsed.get_ref<const std::string&>();
      if (!open_objects.back().insert(name).second) duplicate = name;
    }
    return true;
  };
  json value = json::parse(text.begin(), text.end(), track, /*allow_exceptions=*/false);
  if (value.is_discarded()) {
    return Status(StatusCode::kIo, fmt::format("{} must be JSON, got text that is not", what));
  }
  if (duplicate) {
    return Status(StatusCode::kIo,
                  fmt::format("{} must name {} once, got it twice", what, quote_name(*duplicate)));
  }
  return value;
}

std::string one_line(std::string_view text) {
  constexpr std::size_t kLongest = 80;
  std::string line;
  for (const char c : text.substr(0, kLongest)) {
    const bool plain = c >= 0x20 && c < 0x7f;
    line += plain ? std::string(1, c) : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return text.size() > kLongest ? line + ".." : line;
}

std::string quote_name(std::string_view name) { return fmt::format("\"{}\"", one_line(name)); }

}  // namespace tilegate::io
