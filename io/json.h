// SPDX-License-Identifier: Apache-2.0
// JSON from untrusted text: bounded depth, no duplicate names, errors as Status.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "tilegate/status.h"

namespace tilegate::io {

// `what` names the text in errors. Errors: io (not JSON, nested deeper than max_depth, a name twice
// in one object).
Result<nlohmann::json> parse_json(std::string_view what, std::string_view text, int max_depth);

// A name from a file for use in a message: in quotes, on one line, printable ASCII, cut when long.
std::string quote_name(std::string_view name);

// The same without the quotes, for text that has its own.
std::string one_line(std::string_view text);

}  // namespace tilegate::io
