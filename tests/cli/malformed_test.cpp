// SPDX-License-Identifier: Apache-2.0
// Every kind of bad file gives one line on stderr that names the file and what is wrong, nothing on
// stdout, and exit status 2.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "case_builder.h"
#include "program.h"

namespace tilegate::cli::testing {
namespace {

void expect_one_line(const std::string& path, const std::string& message) {
  const Said said = run_program({"run", path, "--backend", "reference"});
  EXPECT_EQ(said.code, 2) << said.err;
  EXPECT_EQ(said.out, "");
  EXPECT_EQ(lines(said.err).size(), 1u) << said.err;
  EXPECT_NE(said.err.find(path), std::string::npos) << said.err;
  EXPECT_NE(said.err.find(message), std::string::npos) << said.err;
}

// A valid case, how it is spoiled, and part of the message.
struct Spoiled {
  const char* name;
  CaseBuilder (*start)();
  void (*spoil)(CaseBuilder&);
  const char* message;
};

CaseBuilder dense_case() { return paged_case(true); }
CaseBuilder csr_case() { return paged_case(false); }

class SpoiledCase : public ::testing::TestWithParam<Spoiled> {};

TEST_P(SpoiledCase, IsRefusedInOneLine) {
  const std::string path = fresh_folder() + "/case.safetensors";
  CaseBuilder c = GetParam().start();
  c.write(path);
  const Said before = run_program({"run", path, "--backend", "reference"});
  ASSERT_EQ(before.code, 0) << before.err;
  GetParam().spoil(c);
  c.write(path);
  expect_one_line(path, GetParam().message);
}

using B = CaseBuilder;
const auto kName = [](const auto& kind) { return kind.param.name; };

INSTANTIATE_TEST_SUITE_P(
    Metadata, SpoiledCase,
    ::testing::Values(
        Spoiled{"NoVersion", ragged_case, [](B& c) { c.metadata.erase("tilegate_case"); },
                "must have tilegate_case \"1\", got none"},
        Spoiled{"OtherVersion", ragged_case, [](B& c) { c.metadata["tilegate_case"] = "2"; },
                "must have tilegate_case \"1\", got \"2\""},
        Spoiled{"NoOp", ragged_case, [](B& c) { c.metadata.erase("op"); }, "must have an op"},
        Spoiled{"UnknownOp", ragged_case, [](B& c) { c.metadata["op"] = "flash"; },
                "got \"flash\""},
        Spoiled{"ParamsNotJson", ragged_case, [](B& c) { c.set_params("{causal}"); },
                "params must be JSON"},
        Spoiled{"ParamsNotObject", ragged_case, [](B& c) { c.set_params("[]"); },
                "params must be a JSON object"},
        Spoiled{"ParamTwice", ragged_case,
                [](B& c) { c.set_params(R"({"causal":true,"causal":false})"); },
                "must name \"causal\" once"},
        Spoiled{"UnknownParam", ragged_case, [](B& c) { c.set_params(R"({"casual":true})"); },
                "got \"casual\""},
        Spoiled{"ParamOfOtherOp", ragged_case, [](B& c) { c.set_params(R"({"page_size":4})"); },
                "got \"page_size\""},
        Spoiled{"BoolAsNumber", ragged_case, [](B& c) { c.set_params(R"({"causal":1})"); },
                "causal must be true or false, got 1"},
        Spoiled{"NumberAsText", ragged_case, [](B& c) { c.set_params(R"({"scale":"1"})"); },
                "scale must be a number, got \"1\""},
        Spoiled{"IntegerAsFraction", ragged_case,
                [](B& c) { c.set_params(R"({"window_left":1.5})"); },
                "window_left must be an integer, got 1.5"},
        Spoiled{"IntegerPast64Bits", ragged_case,
                [](B& c) { c.set_params(R"({"window_left":18446744073709551615})"); },
                "window_left must be an integer"},
        Spoiled{"UnknownLayout", csr_case, [](B& c) { c.set_params(R"({"kv_layout":"NDH"})"); },
                "kv_layout must be \"NHD\" or \"HND\", got \"NDH\""},
        Spoiled{"CheckNotJson", ragged_case, [](B& c) { c.metadata["check"] = "tight"; },
                "check must be JSON"},
        Spoiled{"CheckNegative", ragged_case,
                [](B& c) { c.metadata["check"] = R"({"rel_rms":-1,"max_abs":1})"; },
                "check must have a number rel_rms >= 0"}),
    kName);

INSTANTIATE_TEST_SUITE_P(
    Tensors, SpoiledCase,
    ::testing::Values(
        Spoiled{"Missing", ragged_case, [](B& c) { c.tensors.erase("v"); },
                "tensor \"v\" of batch_prefill_ragged"},
        Spoiled{"Unknown", ragged_case, [](B& c) { c.add("w", DType::kFloat32, {1}); },
                "tensor \"w\" must be an argument"},
        Spoiled{"Rank", ragged_case,
                [](B& c) {
                  c.add("k", DType::kFloat32, {7, 8});
                },
                "k must"},
        Spoiled{"DtypeMix", ragged_case,
                [](B& c) {
                  c.add("k", DType::kFloat16, {7, 1, 8});
                },
                "k must"},
        Spoiled{"DtypeOfIndices", ragged_case,
                [](B& c) { c.add("qo_indptr", DType::kFloat32, {3}); }, "qo_indptr must"},
        Spoiled{"HeadDim", ragged_case,
                [](B& c) {
                  c.add("k", DType::kFloat32, {7, 1, 16});
                },
                "k must"},
        Spoiled{"HeadCount", ragged_case,
                [](B& c) {
                  c.add("k", DType::kFloat32, {7, 3, 8});
                  c.add("v", DType::kFloat32, {7, 3, 8});
                },
                "heads"},
        Spoiled{"TableOfTwoForms", csr_case,
                [](B& c) {
                  c.add_indices("kv_lens", {4, 3});
                },
                "kv_lens"},
        Spoiled{"TableIncomplete", csr_case, [](B& c) { c.tensors.erase("kv_indices"); },
                "kv_indices"},
        Spoiled{"TableAbsent", dense_case,
                [](B& c) {
                  c.tensors.erase("kv_lens");
                  c.tensors.erase("block_tables");
                },
                "block_tables"},
        Spoiled{"PageSize", csr_case, [](B& c) { c.set_params(R"({"page_size":8})"); },
                "page_size must be 4"},
        Spoiled{"PoolWithoutIndices", pool_case, [](B& c) { c.tensors.erase("state_indices"); },
                "state_pool and state_indices"},
        Spoiled{"PoolAndInitialState", pool_case,
                [](B& c) {
                  c.add("initial_state", DType::kFloat32, {3, 1, 8, 8});
                },
                "initial_state must be absent"},
        Spoiled{"StateShape", state_case,
                [](B& c) {
                  c.add("initial_state", DType::kFloat32, {2, 1, 8, 4});
                },
                "initial_state must"}),
    kName);

INSTANTIATE_TEST_SUITE_P(
    Values, SpoiledCase,
    ::testing::Values(
        Spoiled{"IndptrStart", ragged_case, [](B& c) { c.index("qo_indptr", 0) = 1; },
                "qo_indptr must start at 0, got 1"},
        Spoiled{"IndptrDecreases", ragged_case, [](B& c) { c.index("kv_indptr", 1) = 9; },
                "kv_indptr must not decrease"},
        Spoiled{"IndptrPastTheData", ragged_case, [](B& c) { c.index("kv_indptr", 2) = 8; },
                "kv_indptr must end within"},
        Spoiled{"CuSeqlensStart", state_case, [](B& c) { c.index("cu_seqlens", 0) = -1; },
                "cu_seqlens must start at 0, got -1"},
        Spoiled{"CuSeqlensDecreases", state_case, [](B& c) { c.index("cu_seqlens", 1) = 4; },
                "cu_seqlens must not decrease"},
        Spoiled{"CuSeqlensPastTheData", state_case, [](B& c) { c.index("cu_seqlens", 2) = 6; },
                "cu_seqlens must end"},
        Spoiled{"PageIdOfTable", dense_case, [](B& c) { c.index("block_tables", 1) = 3; },
                "block_tables must hold page ids in 0..2, got 3"},
        Spoiled{"PageIdNegative", csr_case, [](B& c) { c.index("kv_indices", 0) = -1; },
                "kv_indices must hold page ids in 0..2, got -1"},
        Spoiled{"KvLenPastTheTable", dense_case, [](B& c) { c.index("kv_lens", 0) = 5; },
                "kv_lens must be in 0..4"},
        Spoiled{"LastPageLen", csr_case, [](B& c) { c.index("kv_last_page_len", 1) = 5; },
                "kv_last_page_len must be in 0..4"},
        Spoiled{"SlotPastThePool", pool_case, [](B& c) { c.index("state_indices", 0) = 5; },
                "state_indices"},
        Spoiled{"SlotTwice", pool_case, [](B& c) { c.index("state_indices", 1) = 3; },
                "state_indices"},
        Spoiled{"CheckpointRows", state_case,
                [](B& c) {
                  c.set_params(R"({"checkpoint_every_n_tokens":16})");
                  c.add_indices("checkpoint_cu_starts", {0, 1000000000, 2000000000});
                },
                "checkpoint_cu_starts must"},
        Spoiled{"MaskSize", ragged_case, [](B& c) { c.add("custom_mask", DType::kUInt8, {17}); },
                "custom_mask must"}),
    kName);

// Files that the writer would not write.
struct BadBytes {
  const char* name;
  void (*spoil)(std::string& bytes);
  const char* message;
};

class BadFile : public ::testing::TestWithParam<BadBytes> {};

void replace(std::string& bytes, const std::string& from, const std::string& to) {
  ASSERT_EQ(from.size(), to.size());
  const std::size_t at = bytes.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  bytes.replace(at, from.size(), to);
}

TEST_P(BadFile, IsRefusedInOneLine) {
  const std::string path = fresh_folder() + "/case.safetensors";
  ragged_case().write(path);
  std::ifstream in(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  GetParam().spoil(bytes);
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  expect_one_line(path, GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Bytes, BadFile,
    ::testing::Values(
        BadBytes{"Empty", [](std::string& b) { b.clear(); }, "at least 8 bytes, got 0"},
        BadBytes{"HeaderCutShort", [](std::string& b) { b.resize(20); }, "header must fit"},
        BadBytes{"DataCutShort", [](std::string& b) { b.resize(b.size() - 4); },
                 "data_offsets of tensor"},
        BadBytes{"NotAFileOfThisKind", [](std::string& b) { b.assign(100, '{'); },
                 "header must have at most"},
        BadBytes{"UnknownDtype", [](std::string& b) { replace(b, "\"F32\"", "\"F64\""); },
                 "got \"F64\""},
        BadBytes{"Overlap", [](std::string& b) { replace(b, "[224,236]", "[220,232]"); },
                 "data_offsets of tensors must not overlap"}),
    kName);

TEST(BadPath, ThatDoesNotExist) { expect_one_line("/no/such/case.safetensors", "no such file"); }

TEST(BadPath, FolderWithoutCases) { expect_one_line(fresh_folder(), "must hold *.safetensors"); }

}  // namespace
}  // namespace tilegate::cli::testing
