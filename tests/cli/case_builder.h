// SPDX-License-Identifier: Apache-2.0
// Small valid cases, to be spoiled one thing at a time.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "io/host_tensor.h"

namespace tilegate::cli::testing {

struct CaseBuilder {
  std::map<std::string, std::string, std::less<>> metadata;
  std::map<std::string, io::HostTensor, std::less<>> tensors;

  // Deterministic values around 0 for a floating dtype (fp32 only); zero for others.
  void add(std::string_view name, DType dtype, const std::vector<std::int64_t>& shape);
  void add_indices(std::string_view name, const std::vector<std::int32_t>& values);
  // Runs the case and adds what it gives as expected.* tensors.
  void add_answers(const std::string& folder);
  void set_params(const std::string& json) { metadata["params"] = json; }
  void write(const std::string& path) const;
  float& value(std::string_view name, std::size_t i) { return find(name).as<float>()[i]; }
  std::int32_t& index(std::string_view name, std::size_t i) {
    return find(name).as<std::int32_t>()[i];
  }

 private:
  io::HostTensor& find(std::string_view name) { return tensors.find(name)->second; }
};

// Two requests of 3 and 2 rows over 4 and 3 keys, fp32, two heads on one KV head, dim 8, with lse.
CaseBuilder ragged_case();
// The same lengths over pages of 4 keys. `dense`: block_tables and kv_lens, else CSR.
CaseBuilder paged_case(bool dense);
// GDN over a pool of 5 slots: sequences of 3, 0 and 2 tokens in slots 3, 1 and -1.
CaseBuilder pool_case();
// GDN from initial states to final states: sequences of 3 and 0 tokens.
CaseBuilder state_case();

}  // namespace tilegate::cli::testing
