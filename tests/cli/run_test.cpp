// SPDX-License-Identifier: Apache-2.0
// What `run` does besides failing: folders, --out, --set, --threads, and the case files kept here
// and elsewhere on every host backend.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "case_builder.h"
#include "io/safetensors.h"
#include "program.h"

namespace tilegate::cli::testing {
namespace {

namespace fs = std::filesystem;

std::size_t count_cases(const std::string& folder) {
  std::size_t count = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    count += entry.path().extension() == ".safetensors" ? 1 : 0;
  }
  return count;
}

void expect_all_right(const std::string& folder, const std::string& backend) {
  const Said said = run_program({"run", folder, "--check", "--backend", backend});
  EXPECT_EQ(said.code, 0) << said.out << said.err;
  EXPECT_EQ(said.err, "");
  const std::vector<std::string> printed = lines(said.out);
  EXPECT_EQ(printed.size(), count_cases(folder));
  for (const std::string& line : printed) EXPECT_EQ(line.substr(0, 2), "ok") << line;
}

class Cases : public ::testing::TestWithParam<const char*> {};

TEST_P(Cases, OfTheExamplesAreRight) { expect_all_right(TILEGATE_EXAMPLE_CASES, GetParam()); }

TEST_P(Cases, OfTheGivenFolderAreRight) {
  const char* folder = std::getenv("TILEGATE_CASES_DIR");
  if (folder == nullptr || *folder == '\0') {
    GTEST_SKIP() << "TILEGATE_CASES_DIR is not set: the case files of its folder are not run";
  }
  expect_all_right(folder, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Backend, Cases, ::testing::Values("reference", "cpu", "auto"),
                         [](const auto& backend) { return std::string(backend.param); });

bool same_bytes(const io::HostTensor& a, const io::HostTensor& b) {
  return a.bytes() == b.bytes() && std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

class Run : public ::testing::Test {
 protected:
  std::string write(const CaseBuilder& c, const std::string& name) const {
    const std::string path = folder_ + "/" + name + ".safetensors";
    c.write(path);
    return path;
  }
  // Outputs of a case.
  io::Safetensors outputs(const CaseBuilder& c, std::vector<std::string> more = {}) const {
    const std::string out = folder_ + "/outputs.safetensors";
    std::vector<std::string> arguments = {"run", write(c, "case"), "--out",
                                          out,   "--backend",      "reference"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Said said = run_program(arguments);
    EXPECT_EQ(said.code, 0) << said.err;
    return io::read_safetensors(out).value();
  }
  std::string folder_ = fresh_folder();
};

TEST_F(Run, OutHasTheOutputsInTheDtypesOfTheCall) {
  CaseBuilder c = state_case();
  c.add("initial_state", DType::kBFloat16, {2, 1, 8, 8});
  const io::Safetensors file = outputs(c);
  ASSERT_EQ(file.tensors.size(), 2u);
  EXPECT_EQ(file.find("o")->view().dtype, DType::kFloat32);
  EXPECT_EQ(file.find("o")->view().shape, c.tensors.at("v").view().shape);
  EXPECT_EQ(file.find("final_state")->view().dtype, DType::kBFloat16);
}

TEST_F(Run, OutOfAPoolIsThePoolAndNoFinalState) {
  CaseBuilder c = pool_case();
  c.set_params(R"({"output_final_state":true})");
  const io::Safetensors file = outputs(c);
  ASSERT_EQ(file.tensors.size(), 2u);
  ASSERT_NE(file.find("state_pool"), nullptr);
  EXPECT_FALSE(same_bytes(*file.find("state_pool"), c.tensors.at("state_pool")));
}

TEST_F(Run, OutIsTheRightAnswerOfTheSameCase) {
  CaseBuilder c = ragged_case();
  c.add_answers(folder_);
  EXPECT_EQ(run_program({"run", write(c, "case"), "--check", "--backend", "reference"}).code, 0);
}

TEST_F(Run, CheckpointsStartWhereTheirSequenceDoes) {
  CaseBuilder c = state_case();
  for (const char* name : {"q", "k", "v"}) c.add(name, DType::kFloat32, {40, 1, 8});
  c.add_indices("cu_seqlens", {0, 33, 40});
  c.set_params(R"({"checkpoint_every_n_tokens":16,"checkpoint_position":"before"})");
  const io::Safetensors file = outputs(c);
  const io::HostTensor* rows = file.find("state_checkpoints");
  ASSERT_NE(rows, nullptr);
  EXPECT_EQ(rows->view().shape[0], 4);  // 3 of the first sequence, 1 of the second
  const std::size_t bytes = 8 * 8 * sizeof(float);
  const io::HostTensor& initial = c.tensors.at("initial_state");
  EXPECT_EQ(std::memcmp(rows->data(), initial.data(), bytes), 0);
  EXPECT_EQ(std::memcmp(rows->data() + 3 * bytes, initial.data() + bytes, bytes), 0);
}

TEST_F(Run, SeveralCasesGoToAFolder) {
  write(ragged_case(), "one");
  write(pool_case(), "two");
  const std::string out = folder_ + "/answers/deep";
  const Said said = run_program({"run", folder_, "--out", out, "--backend", "reference"});
  ASSERT_EQ(said.code, 0) << said.err;
  EXPECT_EQ(lines(said.out).size(), 2u);
  EXPECT_NE(io::read_safetensors(out + "/one.safetensors").value().find("lse"), nullptr);
  EXPECT_NE(io::read_safetensors(out + "/two.safetensors").value().find("state_pool"), nullptr);
}

TEST_F(Run, OneCaseGoesIntoAFolderThatEndsInASlash) {
  const std::string path = write(ragged_case(), "one");
  ASSERT_EQ(run_program({"run", path, "--out", folder_ + "/answers/"}).code, 0);
  EXPECT_TRUE(fs::is_regular_file(folder_ + "/answers/one.safetensors"));
}

TEST_F(Run, OutMustNotOverwrite) {
  const std::string path = write(ragged_case(), "one");
  EXPECT_EQ(run_program({"run", path, "--out", path}).code, 2);
  EXPECT_EQ(run_program({"run", path, "--out", folder_ + "/none/out"}).code, 2);
  fs::create_directories(folder_ + "/other");
  fs::copy_file(path, folder_ + "/other/one.safetensors");
  const Said said = run_program({"run", path, folder_ + "/other", "--out", folder_ + "/answers"});
  EXPECT_EQ(said.code, 2);
  EXPECT_EQ(lines(said.err).size(), 1u) << said.err;
}

TEST_F(Run, SetOverridesAScalar) {
  CaseBuilder zero = ragged_case();
  zero.set_params(R"({"scale":0.0,"return_lse":true})");
  const io::Safetensors wanted = outputs(zero);
  CaseBuilder c = ragged_case();
  const io::Safetensors plain = outputs(c);
  const io::Safetensors set = outputs(c, {"--set", "scale=0", "--set", "causal=false"});
  EXPECT_TRUE(same_bytes(*set.find("o"), *wanted.find("o")));
  EXPECT_TRUE(same_bytes(*set.find("lse"), *wanted.find("lse")));
  EXPECT_FALSE(same_bytes(*set.find("o"), *plain.find("o")));
  // null is absent, and the last of a name wins.
  const io::Safetensors absent = outputs(c, {"--set", "scale=0", "--set", "scale=null"});
  EXPECT_TRUE(same_bytes(*absent.find("o"), *plain.find("o")));
  EXPECT_EQ(outputs(c, {"--set", "return_lse=null"}).find("lse"), nullptr);
}

TEST_F(Run, SetIsCheckedLikeAParameter) {
  const std::string path = write(paged_case(true), "case");
  EXPECT_EQ(run_program({"run", path, "--set", "kv_layout=NHD"}).code, 0);
  EXPECT_EQ(run_program({"run", path, "--set", "kv_layout=NDH"}).code, 2);
  EXPECT_EQ(run_program({"run", path, "--set", "causal=True"}).code, 2);
  EXPECT_EQ(run_program({"run", path, "--set", "use_cp=true"}).code, 2);
}

TEST_F(Run, CheckNeedsSomethingToCheck) {
  CaseBuilder c = ragged_case();
  EXPECT_EQ(run_program({"run", write(c, "no_answers"), "--check"}).code, 2);
  c.add_answers(folder_);
  c.metadata.erase("check");
  EXPECT_EQ(run_program({"run", write(c, "no_tolerance"), "--check"}).code, 2);
  EXPECT_EQ(run_program({"run", write(c, "no_tolerance")}).code, 0);
  c.metadata["check"] = R"({"rel_rms":1,"max_abs":1})";
  EXPECT_EQ(run_program({"run", write(c, "case"), "--check"}).code, 0);
  const std::string lse_off = "return_lse=false";
  EXPECT_EQ(run_program({"run", write(c, "case"), "--check", "--set", lse_off}).code, 2);
  c.add("expected.o", DType::kFloat32, {5, 2, 4});
  EXPECT_EQ(run_program({"run", write(c, "shape"), "--check"}).code, 2);
}

TEST_F(Run, ThreadsDoNotChangeTheBits) {
  CaseBuilder c = ragged_case();
  const std::string path = write(c, "case");
  const std::string one = folder_ + "/1.out", two = folder_ + "/2.out";
  ASSERT_EQ(run_program({"run", path, "--out", one, "--threads", "1"}).code, 0);
  ASSERT_EQ(run_program({"run", path, "--out", two, "--threads", "2"}).code, 0);
  EXPECT_TRUE(same_bytes(*io::read_safetensors(one).value().find("o"),
                         *io::read_safetensors(two).value().find("o")));
}

TEST_F(Run, InfoAndExplainSayWhatThereIs) {
  const Said info = run_program({"info"});
  EXPECT_EQ(info.code, 0);
  for (const char* part : {"tilegate ", "threads ", "reference", "cpu", "cuda", "cudnn",
                           "TILEGATE_DECODE_AUTO_CUDNN"}) {
    EXPECT_NE(info.out.find(part), std::string::npos) << part;
  }
  const std::string path = write(ragged_case(), "case");
  const Said explain = run_program({"explain", path, "--backend", "reference"});
  EXPECT_EQ(explain.code, 0) << explain.err;
  EXPECT_NE(explain.out.find("reference."), std::string::npos) << explain.out;
  EXPECT_NE(explain.out.find("bits: "), std::string::npos) << explain.out;
  EXPECT_EQ(run_program({"explain", folder_ + "/none"}).code, 2);
}

}  // namespace
}  // namespace tilegate::cli::testing
