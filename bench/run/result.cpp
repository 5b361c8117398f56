// SPDX-License-Identifier: Apache-2.0
// Entries of the result file and their rates.
#include "bench/run/result.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace tilegate::bench {
namespace {

Json shape_keys(const AttentionShape& s) {
  return {{"op", to_string(s.op)},
          {"batch_size", s.batch_size},
          {"query_length", s.query_length},
          {"kv_length", s.kv_length},
          {"num_heads", s.num_heads},
          {"num_kv_heads", s.num_kv_heads},
          {"head_size", s.head_size},
          {"dtype", to_string(s.dtype)},
          {"causal", s.causal || s.op == AttentionOp::kDecode},
          {"page_size", s.op == AttentionOp::kPrefill ? Json() : Json(s.page_size)}};
}

Json shape_keys(const LinearShape& s) {
  const std::int64_t longest = *std::max_element(s.lengths.begin(), s.lengths.end());
  return {{"op", s.decode ? "linear-decode" : "linear-prefill"},
          {"rule", to_string(s.rule)},
          {"batch_size", s.batch_size()},
          {"query_length", longest},
          {"kv_length", longest},
          {"num_heads", s.heads_qk},
          {"num_kv_heads", s.heads_v},
          {"head_size", s.head_size},
          {"dtype", to_string(s.dtype)},
          {"causal", true},
          {"lengths", s.lengths},
          {"num_householder", s.num_householder},
          {"state_dtype", to_string(s.state_dtype)},
          {"gates", to_string(s.gates)}};
}

Json or_null(double value) { return value > 0.0 ? Json(value) : Json(); }

}  // namespace

Json to_json(const Shape& shape) {
  return std::visit([](const auto& s) { return shape_keys(s); }, shape);
}

ResultFile::ResultFile(std::string path, Json environment) : path_(std::move(path)) {
  document_["environment"] = std::move(environment);
  document_["timing_scope"] = "";
  document_["warmups"] = 0;
  document_["repeats"] = 0;
  document_["ceilings"] = Json::object();
  document_["peers"] = Json::array();
  document_["complete"] = false;
  document_["results"] = Json::array();
  document_["declined"] = Json::array();
}

void ResultFile::set_ceilings(const Ceilings& ceilings) {
  ceilings_ = ceilings;
  document_["ceilings"] = {{"gb_per_s", or_null(ceilings.gb_per_s)},
                           {"memory_from", ceilings.memory_from},
                           {"tflop_per_s", or_null(ceilings.tflop_per_s)},
                           {"compute_from", ceilings.compute_from}};
}

const Json& ResultFile::add(const Row& row, const Entrant& who, const Sampled& sampled) {
  const Cost cost = work_of(row.shape);
  const Quantiles q = quantiles(sampled.samples_ms);
  const Share share = share_of(ceilings_, cost, q.median);
  Json entry = {
      {"name", name_of(row.shape)}, {"backend", who.backend},
      {"peer", who.peer},           {"kernel", who.peer ? Json() : Json(who.kernel)},
      {"pass", sampled.pass},       {"differs", who.differs.empty() ? Json() : Json(who.differs)}};
  entry.update(to_json(row.shape));
  entry["timing"] = to_string(sampled.scope.timing);
  entry["l2"] = to_string(sampled.scope.cache);
  entry["median_ms"] = q.median;
  entry["p20_ms"] = q.p20;
  entry["p80_ms"] = q.p80;
  entry["tflop_per_s"] = cost.flops / q.median * 1e-9;
  entry["gb_per_s"] = cost.bytes / q.median * 1e-6;
  entry["ceiling_share"] = or_null(share.of_ceiling);
  entry["bound_by"] = share.bound_by.empty() ? Json() : Json(share.bound_by);
  entry["goal_ms"] = or_null(row.goal_ms);
  entry["goal_peer_ms"] = or_null(row.goal_peer_ms);
  entry["explain"] = who.peer ? Json() : Json(who.explain);
  entry["samples_ms"] = sampled.samples_ms;
  document_["results"].push_back(std::move(entry));
  return document_["results"].back();
}

bool ResultFile::add_declined(const Row& row, const std::string& backend,
                              const std::string& reason) {
  const std::string name = name_of(row.shape);
  Json& declined = document_["declined"];
  const bool known = std::any_of(declined.begin(), declined.end(), [&](const Json& one) {
    return one["name"] == name && one["backend"] == backend;
  });
  if (!known) declined.push_back({{"name", name}, {"backend", backend}, {"reason", reason}});
  return !known;
}

Status ResultFile::write() const {
  const std::filesystem::path path(path_);
  std::error_code error;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), error);
  const std::string beside = path_ + ".part";
  std::ofstream file(beside);
  file << document_.dump(1) << "\n";
  file.close();
  if (file) std::filesystem::rename(beside, path, error);
  if (!file || error) {
    return Status(StatusCode::kIo,
                  fmt::format("--output must be a file that can be written, got {}", path_));
  }
  return Status();
}

}  // namespace tilegate::bench
