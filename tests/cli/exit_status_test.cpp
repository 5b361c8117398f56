// SPDX-License-Identifier: Apache-2.0
// Exit statuses: 0 ok, 1 a check misses, 2 malformed, 3 unsupported, 4 failure, and of several
// cases the first present of 4, 2, 1, 3.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "case_builder.h"
#include "cli/exit_code.h"
#include "program.h"

namespace tilegate::cli::testing {
namespace {

const std::string kOk = "ok.safetensors", kMiss = "miss.safetensors", kBad = "bad.safetensors",
                  kRejected = "rejected.safetensors", kMemory = "memory.safetensors";

// One case for each status, on the reference backend and with --check.
class ExitStatus : public ::testing::Test {
 protected:
  void SetUp() override {
    CaseBuilder ok = ragged_case();
    ok.add_answers(folder_);
    ok.write(path(kOk));
    ok.value("expected.o", 3) += 0.5f;
    ok.write(path(kMiss));
    ok.index("qo_indptr", 0) = 1;
    ok.write(path(kBad));
    CaseBuilder rejected = state_case();
    rejected.add_answers(folder_);
    rejected.set_params(R"({"output_final_state":true,"use_cp":true})");
    rejected.write(path(kRejected));
    no_tokens().write(path(kMemory));
  }

  // No tokens, so no data, but states of 2^50 bytes.
  static CaseBuilder no_tokens() {
    CaseBuilder c = state_case();
    for (const char* name : {"q", "k", "v"}) {
      c.add(name, DType::kFloat32, {0, std::int64_t{1} << 24, 128});
    }
    c.tensors.erase("initial_state");
    c.add("cu_seqlens", DType::kInt32, {1025});
    return c;
  }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  Said run(const std::vector<std::string>& names, bool check = true) const {
    std::vector<std::string> arguments = {"run", "--backend", "reference"};
    if (check) arguments.push_back("--check");
    for (const std::string& name : names) arguments.push_back(path(name));
    return run_program(arguments);
  }

  std::string folder_ = fresh_folder();
};

TEST_F(ExitStatus, OkIs0) {
  const Said said = run({kOk});
  EXPECT_EQ(said.code, 0);
  EXPECT_EQ(said.err, "");
  ASSERT_EQ(lines(said.out).size(), 1u);
  for (const char* part : {"batch_prefill_ragged", "reference.", " ms", "rel_rms", "max_abs"}) {
    EXPECT_NE(said.out.find(part), std::string::npos) << part << " in " << said.out;
  }
}

TEST_F(ExitStatus, MissIs1) {
  const Said said = run({kMiss});
  EXPECT_EQ(said.code, 1);
  ASSERT_EQ(lines(said.out).size(), 1u);
  EXPECT_EQ(said.out.substr(0, 4), "MISS");
  EXPECT_EQ(run({kMiss}, /*check=*/false).code, 0);
}

TEST_F(ExitStatus, MalformedIs2) { EXPECT_EQ(run({kBad}).code, 2); }

TEST_F(ExitStatus, UnsupportedIs3WithTheReason) {
  const Said said = run({kRejected});
  EXPECT_EQ(said.code, 3);
  EXPECT_EQ(said.out, "");
  ASSERT_EQ(lines(said.err).size(), 1u) << said.err;
  EXPECT_NE(said.err.find("use_cp"), std::string::npos) << said.err;
}

TEST_F(ExitStatus, NoMemoryIs4) {
  const Said said = run({kMemory}, /*check=*/false);
  EXPECT_EQ(said.code, 4) << said.err;
  EXPECT_NE(said.err.find("no memory"), std::string::npos) << said.err;
}

TEST_F(ExitStatus, AllCasesAreRunAndTheGravestIsReturned) {
  const Said said = run({kMemory, kRejected, kMiss, kBad, kOk}, /*check=*/false);
  EXPECT_EQ(said.code, 4);
  EXPECT_EQ(lines(said.out).size(), 2u) << said.out;
  for (const std::string& name : {kMemory, kRejected, kBad}) {
    EXPECT_NE(said.err.find(path(name) + ": "), std::string::npos) << said.err;
  }
  EXPECT_EQ(run({kRejected, kMiss, kBad, kOk}).code, 2);
  EXPECT_EQ(run({kOk, kBad, kMiss}).code, 2);
  EXPECT_EQ(run({kRejected, kMiss, kOk}).code, 1);
  EXPECT_EQ(run({kOk, kRejected}).code, 3);
}

TEST(Graver, Is4Then2Then1Then3Then0) {
  const ExitCode order[] = {ExitCode::kFailure, ExitCode::kMalformed, ExitCode::kMiss,
                            ExitCode::kUnsupported, ExitCode::kOk};
  for (int i = 0; i < 5; ++i) {
    for (int j = 0; j < 5; ++j) EXPECT_EQ(graver(order[i], order[j]), order[std::min(i, j)]);
  }
}

TEST_F(ExitStatus, UsageIs2) {
  const std::vector<std::vector<std::string>> commands = {
      {},
      {"dance"},
      {"run"},
      {"run", path(kOk), "--backend", "gpu"},
      {"run", path(kOk), "--threads", "-1"},
      {"run", path(kOk), "--set", "scale"},
      {"run", path(kOk), "--set", "=1"},
      {"run", path(kOk), "--unknown"},
      {"explain"},
      {"info", "more"},
  };
  for (const auto& command : commands) {
    const Said said = run_program(command);
    EXPECT_EQ(said.code, 2) << (command.empty() ? "no verb" : command.back());
    EXPECT_EQ(said.out, "");
    EXPECT_NE(said.err, "");
  }
}

TEST_F(ExitStatus, ABackendThatIsOffIs3) {
  const Said info = run_program({"info"});
  for (const std::string& line : lines(info.out)) {
    for (const char* backend : {"cuda", "cudnn"}) {
      if (line.find(std::string("  ") + backend + " ") != 0) continue;
      if (line.find(" off ") == std::string::npos) continue;
      const Said said = run_program({"run", path(kOk), "--backend", backend});
      EXPECT_EQ(said.code, 3) << said.err;
      EXPECT_EQ(lines(said.err).size(), 1u) << said.err;
      EXPECT_NE(said.err.find(std::string("backend ") + backend + " is off"), std::string::npos);
      EXPECT_EQ(run_program({"run", path(kBad), "--backend", backend}).code, 2);
    }
  }
}

}  // namespace
}  // namespace tilegate::cli::testing
