// SPDX-License-Identifier: Apache-2.0
// The verb as a user runs it: every key of the result file, one sentence and 2 for bad flags, and
// finished rows after Ctrl-C.
#include "tests/cli/program.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

namespace tilegate::bench {
namespace {

using cli::testing::fresh_folder;
using cli::testing::lines;
using cli::testing::run_program;
using cli::testing::Said;
using nlohmann::json;

using Words = std::vector<std::string>;

const Words kTiny = {"--device", "cpu", "--batch-size", "1", "--warmups", "1", "--repeats", "3"};

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

json read_json(const std::string& path) {
  std::ifstream file(path);
  return json::parse(file, nullptr, /*allow_exceptions=*/false);
}

void expect_keys(const json& object, const Words& keys) {
  for (const std::string& key : keys) EXPECT_TRUE(object.contains(key)) << key;
}

TEST(Bench, AttentionWritesEveryKey) {
  const std::string path = fresh_folder() + "/deeper/result.json";
  const Said said = run_program(with({"bench",
                                      "attention",
                                      "--query-length",
                                      "8",
                                      "16",
                                      "--kv-length",
                                      "32",
                                      "--num-heads",
                                      "4",
                                      "--num-kv-heads",
                                      "2",
                                      "--head-size",
                                      "64",
                                      "--dtype",
                                      "float32",
                                      "--no-causal",
                                      "--backend",
                                      "auto",
                                      "reference",
                                      "--output",
                                      path},
                                     kTiny));
  ASSERT_EQ(said.code, 0) << said.err;
  EXPECT_EQ(said.err, "");
  const json result = read_json(path);
  expect_keys(result, {"environment", "timing_scope", "warmups", "repeats", "scope_seconds",
                       "ceilings", "peers", "results", "declined", "complete"});
  expect_keys(result["environment"],
              {"machine", "gpu", "driver", "runtime", "commit", "date", "command", "threads"});
  EXPECT_EQ(result["warmups"], 1);
  EXPECT_EQ(result["repeats"], 3);
  EXPECT_EQ(result["complete"], true);
  ASSERT_EQ(result["results"].size(), 4u);  // two shapes, two backends
  for (const json& entry : result["results"]) {
    expect_keys(entry, {"backend",    "batch_size",   "query_length", "kv_length",
                        "num_heads",  "num_kv_heads", "head_size",    "dtype",
                        "causal",     "median_ms",    "p20_ms",       "p80_ms",
                        "samples_ms", "tflop_per_s",  "gb_per_s",     "ceiling_share",
                        "bound_by",   "kernel",       "explain",      "timing",
                        "l2"});
    EXPECT_EQ(entry["samples_ms"].size(), 3u);
    EXPECT_LE(entry["p20_ms"], entry["median_ms"]);
    EXPECT_LE(entry["median_ms"], entry["p80_ms"]);
    EXPECT_EQ(entry["causal"], false);
    EXPECT_EQ(entry["timing"], "wall");
    EXPECT_NE(entry["explain"], "");
  }
  EXPECT_EQ(result["results"][0]["query_length"], 8);
  EXPECT_EQ(result["results"][3]["query_length"], 16);
  EXPECT_EQ(result["results"][1]["kernel"].get<std::string>().rfind("reference.", 0), 0u);
}

TEST(Bench, EveryOpAndRuleRuns) {
  const Words small = {"--head-size", "64",  "--repeats",    "1", "--warmups", "1",
                       "--device",    "cpu", "--batch-size", "2"};
  for (const char* op : {"prefill", "paged", "decode"}) {
    const Said said = run_program(with(
        {"bench", "attention", "--op", op, "--query-length", "4", "--kv-length", "24", "--causal"},
        small));
    EXPECT_EQ(said.code, 0) << said.err;
    EXPECT_EQ(said.out.find("declined"), std::string::npos) << said.out;
  }
  for (const char* rule : {"gdn", "gdn2", "gdp", "kda"}) {
    for (const char* gates : {"random", "none", "steep", "slow"}) {
      const Said said = run_program(with(
          {"bench", "linear", "--rule", rule, "--gates", gates, "--heads", "2/4", "--length", "32"},
          small));
      EXPECT_EQ(said.code, 0) << said.err;
      EXPECT_EQ(said.out.find("declined"), std::string::npos) << said.out;
    }
    const Said said =
        run_program(with({"bench", "linear", "--rule", rule, "--heads", "2", "--decode"}, small));
    EXPECT_EQ(said.code, 0) << said.err;
    EXPECT_EQ(said.out.find("declined"), std::string::npos) << said.out;
  }
}

TEST(Bench, ALimitOfSecondsLeavesThreeSamples) {
  const std::string path = fresh_folder() + "/result.json";
  Words words = {"bench", "attention", "--device",    "cpu", "--batch-size", "1",
                 "--op",  "decode",    "--kv-length", "8",   "--repeats",    "9",
                 "--l2",  "warm",      "--output",    path,  "--warmups",    "1"};
  for (const auto& [limit, samples] : {std::pair("0.000000001", 3u), std::pair("0", 9u)}) {
    const Said said = run_program(with(words, {"--scope-seconds", limit}));
    ASSERT_EQ(said.code, 0) << said.err;
    EXPECT_EQ(read_json(path)["results"][0]["samples_ms"].size(), samples);
  }
}

TEST(Bench, ColdSamplesAreEntriesOfTheirOwn) {
  const std::string path = fresh_folder() + "/result.json";
  const Said said =
      run_program(with({"bench", "linear", "--lengths", "5", "9", "--heads", "2/4", "--head-size",
                        "64", "--l2", "both", "--output", path, "--repeats", "1", "--warmups", "1"},
                       {"--device", "cpu"}));
  ASSERT_EQ(said.code, 0) << said.err;
  const json results = read_json(path)["results"];
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0]["l2"], "warm");
  EXPECT_EQ(results[1]["l2"], "cold");
  EXPECT_EQ(results[0]["lengths"], json({5, 9}));
}

TEST(Bench, ABackendThatDeclinesIsALineAndNoFailure) {
  const std::string path = fresh_folder() + "/result.json";
  const Said said =
      run_program(with({"bench", "attention", "--head-size", "7", "--query-length", "4",
                        "--kv-length", "8", "--backend", "cpu", "--output", path},
                       kTiny));
  EXPECT_EQ(said.code, 0) << said.err;
  const json result = read_json(path);
  ASSERT_EQ(result["declined"].size(), 1u) << result.dump();
  EXPECT_EQ(result["declined"][0]["backend"], "cpu");
  EXPECT_NE(result["declined"][0]["reason"], "");
  EXPECT_EQ(result["results"].size(), 0u);
}

TEST(Bench, BadFlagsAreRefusedWith2) {
  const std::vector<Words> bad = {
      {"bench"},
      {"bench", "convolution"},
      {"bench", "attention", "--dtype", "float8"},
      {"bench", "attention", "--repeats", "0"},
      {"bench", "attention", "--warmups", "-1"},
      {"bench", "attention", "--batch-size", "0"},
      {"bench", "attention", "--set", "gdn"},
      {"bench", "linear", "--set", "seed-table"},
      {"bench", "linear", "--lengths", "4", "--length", "4"},
      {"bench", "attention", "--set", "cpu", "--batch-size", "4"},
      {"bench", "attention", "--set", "cpu", "--causal"},
      {"bench", "linear", "--set", "cpu", "--decode"},
      {"bench", "attention", "--decode", "--op", "paged"},
      {"bench", "attention", "--page-size", "8"},
      {"bench", "attention", "--peer-timeout", "5"},
      {"bench", "linear", "--rule", "kda", "--num-householder", "3"},
      {"bench", "attention", "--num-heads", "12", "--num-kv-heads", "5"},
      {"bench", "attention", "--decode", "--query-length", "17"},
      {"bench", "attention", "--device", "cpu", "--timing", "graph"},
      {"bench", "attention", "--device", "cpu", "--backend", "cuda"},
      {"bench", "linear", "--heads", "3/4"},
      {"bench", "linear", "--heads", "4/"},
      {"bench", "linear", "--heads", "16/32x"},
      {"bench", "linear", "--decode", "--length", "17"},
      {"bench", "linear", "--decode", "--gates", "none"},
      {"bench", "attention", "--device", "cpu", "--output", "/dev/null/no/file.json"},
  };
  for (const Words& words : bad) {
    const Said said = run_program(words);
    EXPECT_EQ(said.code, 2) << words.back() << ": " << said.err;
    EXPECT_EQ(said.out, "") << words.back();
    EXPECT_NE(said.err, "") << words.back();
  }
  const Said said = run_program({"bench", "linear", "--heads", "3/4"});
  EXPECT_EQ(lines(said.err).size(), 1u) << said.err;
  EXPECT_NE(said.err.find("3/4"), std::string::npos) << said.err;
}

TEST(Bench, ARowTooLargeForMemoryIsALine) {
  const std::string path = fresh_folder() + "/result.json";
  const Said said = run_program(with({"bench", "attention", "--query-length", "4", "--kv-length",
                                      "9223372036854775807", "8", "--output", path},
                                     kTiny));
  ASSERT_EQ(said.code, 0) << said.err;
  const json result = read_json(path);
  EXPECT_EQ(result["complete"], true);
  EXPECT_EQ(result["declined"].size(), 1u);
  EXPECT_EQ(result["results"].size(), 1u);
  for (const Words& more : std::vector<Words>{
           {"attention", "--decode", "--kv-length", "9223372036854775807"},
           {"attention", "--query-length", "9223372036854775807", "--num-heads", "4"},
           {"linear", "--length", "9223372036854775807"}}) {
    Words words = {"bench"};
    words = with(with(words, more), {"--output", path});
    const Said huge = run_program(with(words, kTiny));
    ASSERT_EQ(huge.code, 0) << huge.err;
    EXPECT_EQ(read_json(path)["declined"].size(), 1u) << more.back();
  }
}

// Starts the program without waiting for it.
pid_t start(Words words) {
  std::string program = TILEGATE_PROGRAM;
  std::vector<char*> argv = {program.data()};
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t child = -1;
  return posix_spawn(&child, argv[0], nullptr, nullptr, argv.data(), environ) == 0 ? child : -1;
}

// The first row is over at once; the second would take minutes of short samples.
TEST(Bench, CtrlCKeepsFinishedRows) {
  const std::string path = fresh_folder() + "/result.json";
  const pid_t child = start({"bench",
                             "attention",
                             "--device",
                             "cpu",
                             "--backend",
                             "reference",
                             "--batch-size",
                             "1",
                             "--query-length",
                             "1",
                             "--kv-length",
                             "1",
                             "65536",
                             "--num-heads",
                             "1",
                             "--num-kv-heads",
                             "1",
                             "--head-size",
                             "64",
                             "--warmups",
                             "1",
                             "--repeats",
                             "20000",
                             "--output",
                             path});
  ASSERT_GT(child, 0);
  json result;
  int status = 0;
  for (int i = 0; i < 3000; ++i) {
    result = read_json(path);
    if (result.is_object() && !result["results"].empty()) break;
    ASSERT_EQ(waitpid(child, &status, WNOHANG), 0) << "it ended by itself";
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  kill(child, SIGINT);
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130);
  result = read_json(path);
  EXPECT_EQ(result["complete"], false);
  ASSERT_EQ(result["results"].size(), 1u);
  EXPECT_EQ(result["results"][0]["kv_length"], 1);
  EXPECT_EQ(result["results"][0]["samples_ms"].size(), 20000u);
}

}  // namespace
}  // namespace tilegate::bench
