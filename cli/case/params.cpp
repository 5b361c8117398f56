// SPDX-License-Identifier: Apache-2.0
// Every value is checked before it is kept, so the getters cannot meet a wrong type.
#include "cli/case/params.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "io/json.h"

namespace tilegate::cli {
namespace {

using nlohmann::json;

// A parameter is a scalar, so deeper nesting is wrong whatever it holds.
constexpr int kParamDepth = 4;

bool is_one_of(const json& value, std::string_view a, std::string_view b) {
  return value.is_string() && (value == a || value == b);
}

bool fits(const json& value, ParamType type) {
  switch (type) {
    case ParamType::kNumber:
      return value.is_number();
    case ParamType::kInteger:
      return value.is_number_integer() &&
             (!value.is_number_unsigned() ||
              value.get<std::uint64_t>() <= std::numeric_limits<std::int64_t>::max());
    case ParamType::kBool:
      return value.is_boolean();
    case ParamType::kLayout:
      return is_one_of(value, "NHD", "HND");
    case ParamType::kPosition:
      return is_one_of(value, "after", "before");
    case ParamType::kUseCp:
      return value.is_boolean() || is_one_of(value, "auto", "auto");
  }
  return false;
}

// A value of the command line is JSON where it reads as JSON, else the text itself.
json command_line_value(const std::string& text) {
  Result<json> value = io::parse_json("value", text, kParamDepth);
  return value.ok() ? std::move(*value) : json(text);
}

std::string shown(const json& value) {
  return io::one_line(value.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace));
}

}  // namespace

Status Params::set(const OpSpec& op, const std::string& name, json value) {
  const auto spec = std::find_if(op.params.begin(), op.params.end(),
                                 [&](const auto& p) { return p.name == name; });
  if (spec == op.params.end()) {
    std::string known;
    for (const ParamSpec& param : op.params) {
      known += fmt::format("{}{}", known.empty() ? "" : ", ", param.name);
    }
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("parameter of {} must be one of {}, got {}", op.name,
                              known.empty() ? "none" : known, io::quote_name(name)));
  }
  if (!value.is_null() && !fits(value, spec->type)) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("{} must be {}, got {}", name, wanted(spec->type), shown(value)));
  }
  values_[name] = std::move(value);
  return Status();
}

Result<Params> Params::parse(const OpSpec& op, std::string_view text,
                             std::span<const std::string> overrides) {
  Result<json> root = io::parse_json("params", text, kParamDepth);
  if (!root.ok()) return root.status();
  if (!root->is_object()) {
    return Status(StatusCode::kIo,
                  fmt::format("params must be a JSON object, got a {}", root->type_name()));
  }
  Params params;
  for (const auto& [name, value] : root->items()) {
    if (Status status = params.set(op, name, value); !status.ok()) return status;
  }
  for (const std::string& assignment : overrides) {
    const std::size_t equals = assignment.find('=');
    if (equals == std::string::npos || equals == 0) {
      return Status(StatusCode::kInvalidArgument,
                    fmt::format("--set must be name=value, got {}", io::quote_name(assignment)));
    }
    Status status = params.set(op, assignment.substr(0, equals),
                               command_line_value(assignment.substr(equals + 1)));
    if (!status.ok()) return status;
  }
  return params;
}

const json* Params::find(std::string_view name) const {
  const auto found = values_.find(std::string(name));
  return found == values_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<double> Params::number(std::string_view name) const {
  const json* value = find(name);
  return value ? std::optional(value->get<double>()) : std::nullopt;
}

std::optional<std::int64_t> Params::integer(std::string_view name) const {
  const json* value = find(name);
  return value ? std::optional(value->get<std::int64_t>()) : std::nullopt;
}

std::optional<bool> Params::flag(std::string_view name) const {
  const json* value = find(name);
  return value && value->is_boolean() ? std::optional(value->get<bool>()) : std::nullopt;
}

std::optional<std::string> Params::text(std::string_view name) const {
  const json* value = find(name);
  return value && value->is_string() ? std::optional(value->get<std::string>()) : std::nullopt;
}

}  // namespace tilegate::cli
