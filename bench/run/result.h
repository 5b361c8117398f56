// SPDX-License-Identifier: Apache-2.0
// The result file: environment, how times were taken, and one entry a backend, shape and scope. It
// is written anew after every row, so whatever ends a run keeps the finished rows.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/measure/ceilings.h"
#include "bench/measure/timing.h"
#include "bench/rows/shapes.h"
#include "tilegate/status.h"

namespace tilegate::bench {

using Json = nlohmann::ordered_json;

// Who was timed: one of our backends, or a peer's.
struct Entrant {
  std::string backend;  // "auto", "cuda"; a peer: "flashinfer.fa2"
  std::string kernel;   // what our planner chose; empty for a peer
  std::string explain;  // why
  bool peer = false;
  std::string differs = {};  // how a peer's work differs from the row's: it takes part in no ratio
};

// The keys of a shape: op, batch_size, query_length, kv_length, num_heads, num_kv_heads, head_size,
// dtype, causal, and those of its family.
Json to_json(const Shape& shape);

class ResultFile {
 public:
  ResultFile(std::string path, Json environment);

  void set(const std::string& key, Json value) { document_[key] = std::move(value); }
  void set_ceilings(const Ceilings& ceilings);
  const Ceilings& ceilings() const { return ceilings_; }

  struct Sampled {
    Scope scope;
    int pass = 1;  // with peers all of a row run twice
    std::vector<double> samples_ms;
  };
  // Adds an entry and returns it.
  const Json& add(const Row& row, const Entrant& who, const Sampled& sampled);
  // One line instead of numbers: who did not serve a row, and why. False when there is one already.
  bool add_declined(const Row& row, const std::string& backend, const std::string& reason);

  // By way of a second file, so a reader never sees half of it. Errors: io.
  Status write() const;

 private:
  std::string path_;
  Json document_;
  Ceilings ceilings_;
};

}  // namespace tilegate::bench
