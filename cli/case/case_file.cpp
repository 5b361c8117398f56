// SPDX-License-Identifier: Apache-2.0
// Loading order, which is also the order of complaints: the safetensors file, version, op, params,
// check, tensor names.
#include "cli/case/case_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <utility>

#include "io/json.h"
#include "io/safetensors.h"

namespace tilegate::cli {
namespace {

using nlohmann::json;

constexpr std::string_view kVersion = "1";
constexpr std::string_view kExpected = "expected.";
constexpr std::array<std::string_view, 5> kOutputs = {"o", "lse", "final_state",
                                                      "state_checkpoints", "state_pool"};
constexpr int kCheckDepth = 2;  // tolerances, and one object a tensor

template <class... Args>
Status malformed(fmt::format_string<Args...> format, Args&&... args) {
  return Status(StatusCode::kIo, fmt::format(format, std::forward<Args>(args)...));
}

bool contains(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Null when the file's metadata does not have it.
const std::string* metadata_of(const io::Safetensors& file, std::string_view name) {
  const auto found = file.metadata.find(name);
  return found == file.metadata.end() ? nullptr : &found->second;
}

Status read_op(const io::Safetensors& file, Case& c) {
  const std::string* version = metadata_of(file, "tilegate_case");
  if (version == nullptr || *version != kVersion) {
    return malformed("__metadata__ must have tilegate_case \"{}\", got {}", kVersion,
                     version ? io::quote_name(*version) : "none");
  }
  const std::string* op = metadata_of(file, "op");
  if (op == nullptr) return malformed("__metadata__ must have an op, got none");
  c.op = find_op(*op);
  if (c.op == nullptr) {
    return malformed("op must be one of {}, got {}", op_names(), io::quote_name(*op));
  }
  return Status();
}

Result<Tolerance> read_tolerance(std::string_view what, const json& fields) {
  Tolerance tolerance;
  const std::pair<const char*, double*> wanted[] = {{"rel_rms", &tolerance.rel_rms},
                                                    {"max_abs", &tolerance.max_abs}};
  for (const auto& [name, value] : wanted) {
    const auto found = fields.find(name);
    if (found == fields.end() || !found->is_number() || !(found->get<double>() >= 0)) {
      return malformed("{} must have a number {} >= 0", what, name);
    }
    *value = found->get<double>();
  }
  return tolerance;
}

Status read_check(const std::string& text, Case& c) {
  Result<json> root = io::parse_json("check", text, kCheckDepth);
  if (!root.ok()) return root.status();
  if (!root->is_object())
    return malformed("check must be a JSON object, got a {}", root->type_name());
  for (const auto& [name, value] : root->items()) {
    if (name == "rel_rms" || name == "max_abs") continue;
    if (!contains(kOutputs, name) || !value.is_object()) {
      return malformed(
          "check must hold rel_rms, max_abs and objects under names of outputs, got {}",
          io::quote_name(name));
    }
    Result<Tolerance> tolerance = read_tolerance(fmt::format("check of {}", name), value);
    if (!tolerance.ok()) return tolerance.status();
    c.tolerances.emplace(name, *tolerance);
  }
  if (!root->contains("rel_rms") && !root->contains("max_abs")) return Status();
  Result<Tolerance> tolerance = read_tolerance("check", *root);
  if (!tolerance.ok()) return tolerance.status();
  c.tolerance = *tolerance;
  return Status();
}

Status sort_tensors(io::Safetensors& file, Case& c) {
  for (auto& [name, tensor] : file.tensors) {
    if (name.starts_with(kExpected)) {
      c.expected.emplace(name.substr(kExpected.size()), std::move(tensor));
      continue;
    }
    if (!contains(c.op->required, name) && !contains(c.op->optional, name)) {
      return malformed("tensor {} must be an argument of {} or an expected.* tensor",
                       io::quote_name(name), c.op->name);
    }
    c.inputs.emplace(name, std::move(tensor));
  }
  for (const std::string_view name : c.op->required) {
    if (!c.inputs.contains(name)) {
      return malformed("tensor \"{}\" of {} must be in the file, got none", name, c.op->name);
    }
  }
  if (c.inputs.contains("state_pool") != c.inputs.contains("state_indices")) {
    return malformed("state_pool and state_indices must be given together, got {}",
                     c.inputs.contains("state_pool") ? "state_pool" : "state_indices");
  }
  if (c.inputs.contains("state_pool") && c.inputs.contains("initial_state")) {
    return malformed("initial_state must be absent beside state_pool, got both");
  }
  return Status();
}

Status fill(io::Safetensors& file, std::span<const std::string> overrides, Case& c) {
  if (Status status = read_op(file, c); !status.ok()) return status;
  const std::string* params_text = metadata_of(file, "params");
  Result<Params> params = Params::parse(*c.op, params_text ? *params_text : "{}", overrides);
  if (!params.ok()) return params.status();
  c.params = std::move(*params);
  if (const std::string* check = metadata_of(file, "check"); check != nullptr) {
    if (Status status = read_check(*check, c); !status.ok()) return status;
  }
  return sort_tensors(file, c);
}

}  // namespace

TensorView Case::input(std::string_view tensor) const {
  const auto found = inputs.find(tensor);
  return found == inputs.end() ? TensorView{} : found->second.view();
}

std::optional<Tolerance> Case::tolerance_of(std::string_view output) const {
  const auto found = tolerances.find(output);
  return found == tolerances.end() ? tolerance : std::optional(found->second);
}

TensorView find_view(const Views& views, std::string_view name) {
  const auto found = views.find(name);
  return found == views.end() ? TensorView{} : found->second;
}

Result<Case> load_case(const std::string& path, std::span<const std::string> overrides) {
  Result<io::Safetensors> file = io::read_safetensors(path);
  if (!file.ok()) return file.status();
  Case c;
  c.path = path;
  c.name = std::filesystem::path(path).stem().string();
  if (Status status = fill(*file, overrides, c); !status.ok()) {
    return Status(status.code(), fmt::format("{}: {}", path, status.message()));
  }
  return c;
}

}  // namespace tilegate::cli
