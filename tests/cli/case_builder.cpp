// SPDX-License-Identifier: Apache-2.0
// Values are a fixed formula of their position: no seed, and the same on every machine.
#include "case_builder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "io/safetensors.h"
#include "program.h"

namespace tilegate::cli::testing {
namespace {

constexpr const char* kTight = R"({"rel_rms":1e-6,"max_abs":1e-5})";

CaseBuilder with_metadata(const std::string& op, const std::string& params) {
  CaseBuilder c;
  c.metadata = {{"tilegate_case", "1"}, {"op", op}, {"params", params}, {"check", kTight}};
  return c;
}

CaseBuilder delta_case(const std::string& params, const std::vector<std::int32_t>& cu_seqlens) {
  CaseBuilder c = with_metadata("chunk_gated_delta_rule", params);
  for (const char* name : {"q", "k", "v"}) c.add(name, DType::kFloat32, {5, 1, 8});
  c.add_indices("cu_seqlens", cu_seqlens);
  return c;
}

}  // namespace

void CaseBuilder::add(std::string_view name, DType dtype, const std::vector<std::int64_t>& shape) {
  io::HostTensor tensor = io::HostTensor::allocate(dtype, shape).value();
  if (dtype == DType::kFloat32) {
    const double phase = static_cast<double>(tensors.size());
    for (std::int64_t i = 0; i < tensor.view().numel(); ++i) {
      tensor.as<float>()[i] = static_cast<float>(std::sin(0.7 * static_cast<double>(i) + phase));
    }
  }
  tensors.insert_or_assign(std::string(name), std::move(tensor));
}

void CaseBuilder::add_indices(std::string_view name, const std::vector<std::int32_t>& values) {
  const std::int64_t shape[] = {static_cast<std::int64_t>(values.size())};
  io::HostTensor tensor = io::HostTensor::allocate(DType::kInt32, shape).value();
  std::copy(values.begin(), values.end(), tensor.as<std::int32_t>());
  tensors.insert_or_assign(std::string(name), std::move(tensor));
}

void CaseBuilder::write(const std::string& path) const {
  std::map<std::string, TensorView, std::less<>> views;
  for (const auto& [name, tensor] : tensors) views.emplace(name, tensor.view());
  ASSERT_TRUE(io::write_safetensors(path, views, metadata).ok()) << path;
}

void CaseBuilder::add_answers(const std::string& folder) {
  const std::string question = folder + "/question.safetensors";
  const std::string answer = folder + "/answer.safetensors";
  write(question);
  const Said said = run_program({"run", question, "--backend", "reference", "--out", answer});
  ASSERT_EQ(said.code, 0) << said.err;
  io::Safetensors answers = io::read_safetensors(answer).value();
  for (auto& [name, tensor] : answers.tensors) {
    tensors.insert_or_assign("expected." + name, std::move(tensor));
  }
  std::filesystem::remove(question);
  std::filesystem::remove(answer);
}

CaseBuilder ragged_case() {
  CaseBuilder c = with_metadata("batch_prefill_ragged", R"({"causal":true,"return_lse":true})");
  c.add("q", DType::kFloat32, {5, 2, 8});
  c.add("k", DType::kFloat32, {7, 1, 8});
  c.add("v", DType::kFloat32, {7, 1, 8});
  c.add_indices("qo_indptr", {0, 3, 5});
  c.add_indices("kv_indptr", {0, 4, 7});
  return c;
}

CaseBuilder paged_case(bool dense) {
  CaseBuilder c = with_metadata("batch_prefill_paged", R"({"page_size":4})");
  c.add("q", DType::kFloat32, {5, 2, 8});
  c.add("k_cache", DType::kFloat32, {3, 4, 1, 8});
  c.add("v_cache", DType::kFloat32, {3, 4, 1, 8});
  c.add_indices("qo_indptr", {0, 3, 5});
  if (dense) {
    c.add("block_tables", DType::kInt32, {2, 1});
    c.index("block_tables", 0) = 2;
    c.index("block_tables", 1) = 0;
    c.add_indices("kv_lens", {4, 3});
    return c;
  }
  c.add_indices("kv_indptr", {0, 1, 2});
  c.add_indices("kv_indices", {2, 0});
  c.add_indices("kv_last_page_len", {4, 3});
  return c;
}

CaseBuilder pool_case() {
  CaseBuilder c = delta_case("{}", {0, 3, 3, 5});
  c.add("state_pool", DType::kFloat32, {5, 1, 8, 8});
  c.add_indices("state_indices", {3, 1, -1});
  return c;
}

CaseBuilder state_case() {
  CaseBuilder c = delta_case(R"({"output_final_state":true})", {0, 3, 3});
  c.add("initial_state", DType::kFloat32, {2, 1, 8, 8});
  return c;
}

}  // namespace tilegate::cli::testing
