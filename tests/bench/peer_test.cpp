// SPDX-License-Identifier: Apache-2.0
// The protocol against small peers written for the purpose: one that answers, and ones that are
// missing, off, silent, confused or gone. None of them may fail a run.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/program.h"

namespace tilegate::bench {
namespace {

using cli::testing::fresh_folder;
using cli::testing::run_program;
using cli::testing::Said;
using nlohmann::json;

// Answers every shape with one sample a scope, as many ms as the pass, and one decline.
constexpr const char* kAnswers = R"(import json, sys
print(json.dumps({"ready": True, "versions": {"answers": "1.2"}}), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    assert request["shape"]["op"] == "prefill" and request["repeats"] == 2, request
    time, note = [float(request["pass"])], {"differs": "dense keys"}
    results = [{"backend": "two", **note, **scope, "samples_ms": time} for scope in request["scopes"]]
    declined = [{"backend": "three", "reason": "not today"}]
    print(json.dumps({"results": results, "declined": declined}), flush=True)
)";
constexpr const char* kOff = R"(print('{"ready": false, "reason": "no wheels"}'))";
constexpr const char* kConfused = R"(print('{"ready": true}', flush=True)
print('{"results": 7}', flush=True)
input()
)";
constexpr const char* kGone = R"(print('{"ready": true}', flush=True))";
constexpr const char* kSilent = R"(import time
print('{"ready": true}', flush=True)
time.sleep(600)
)";

class Peers : public ::testing::Test {
 protected:
  void add(const std::string& name, const char* text) {
    std::ofstream(folder_ + "/" + name + "_peer.py") << text;
  }

  json run(const std::vector<std::string>& peers) {
    const std::string path = folder_ + "/result.json";
    std::vector<std::string> words = {
        "bench",          "attention", "--device",      "cpu",   "--batch-size",   "1",
        "--query-length", "2",         "--kv-length",   "4",     "--head-size",    "64",
        "--warmups",      "1",         "--repeats",     "2",     "--peer-timeout", "2",
        "--output",       path,        "--peer-folder", folder_, "--peers"};
    words.insert(words.end(), peers.begin(), peers.end());
    const Said said = run_program(words);
    EXPECT_EQ(said.code, 0) << said.err;
    EXPECT_EQ(said.err, "");
    std::ifstream file(path);
    return json::parse(file, nullptr, /*allow_exceptions=*/false);
  }

  std::string folder_ = fresh_folder();
};

TEST_F(Peers, RunTwiceBetweenOurTwoPassesAndBackwardsThen) {
  add("answers", kAnswers);
  add("again", kAnswers);
  const json result = run({"answers", "again"});
  const json& results = result["results"];
  ASSERT_EQ(results.size(), 6u) << result.dump();
  const char* backends[] = {"auto", "answers.two", "again.two", "again.two", "answers.two", "auto"};
  for (int i = 0; i < 6; ++i) {
    const json& entry = results[i];
    const bool ours = i == 0 || i == 5;
    EXPECT_EQ(entry["backend"], backends[i]);
    EXPECT_EQ(entry["peer"], !ours);
    EXPECT_EQ(entry["pass"], i < 3 ? 1 : 2);
    EXPECT_EQ(entry["differs"], ours ? json() : json("dense keys"));
    if (ours) continue;
    EXPECT_EQ(entry["median_ms"], i < 3 ? 1.0 : 2.0);
  }
  ASSERT_EQ(result["declined"].size(), 2u);  // a line a peer, not one a pass
  EXPECT_EQ(result["declined"][0]["backend"], "answers.three");
  EXPECT_EQ(result["declined"][0]["reason"], "not today");
  EXPECT_EQ(result["declined"][1]["backend"], "again.three");
  EXPECT_EQ(result["peers"][0]["versions"]["answers"], "1.2");
}

TEST_F(Peers, ThatAreMissingOrOffAreALineWithTheReason) {
  add("off", kOff);
  const json result = run({"missing", "off"});
  EXPECT_EQ(result["results"].size(), 1u);
  ASSERT_EQ(result["peers"].size(), 2u);
  EXPECT_NE(result["peers"][0]["reason"].get<std::string>().find("missing_peer.py"),
            std::string::npos);
  EXPECT_EQ(result["peers"][1]["reason"], "no wheels");
}

TEST_F(Peers, ThatMisbehaveDeclineTheirRow) {
  add("confused", kConfused);
  add("gone", kGone);
  add("silent", kSilent);
  const json result = run({"confused", "gone", "silent"});
  EXPECT_EQ(result["results"].size(), 2u) << result.dump();  // ours, twice
  ASSERT_EQ(result["declined"].size(), 3u) << result.dump();
  const char* reasons[] = {"against the protocol", "has ended", "no answer in 2 s"};
  for (int i = 0; i < 3; ++i) {
    const std::string reason = result["declined"][i]["reason"];
    EXPECT_NE(reason.find(reasons[i]), std::string::npos) << reason;
  }
  EXPECT_EQ(result["complete"], true);
}

}  // namespace
}  // namespace tilegate::bench
