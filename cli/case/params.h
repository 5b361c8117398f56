// SPDX-License-Identifier: Apache-2.0
// The scalar arguments of a case: JSON checked against the table of its operation. null is absent.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cli/case/op_table.h"
#include "tilegate/status.h"

namespace tilegate::cli {

class Params {
 public:
  // `text` is the JSON of the file, `overrides` are "name=value" of the command line, the last of a
  // name wins. Errors: io (not a JSON object), invalid_argument (unknown or ill-typed).
  static Result<Params> parse(const OpSpec& op, std::string_view text,
                              std::span<const std::string> overrides);

  std::optional<double> number(std::string_view name) const;
  std::optional<std::int64_t> integer(std::string_view name) const;
  std::optional<bool> flag(std::string_view name) const;
  std::optional<std::string> text(std::string_view name) const;

 private:
  // Null for absent and for null.
  const nlohmann::json* find(std::string_view name) const;
  Status set(const OpSpec& op, const std::string& name, nlohmann::json value);

  nlohmann::json values_ = nlohmann::json::object();
};

}  // namespace tilegate::cli
