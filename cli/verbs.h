// SPDX-License-Identifier: Apache-2.0
// The verbs of `tilegate`, one file each. Every verb prints what it has to say and returns the exit
// status.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/exit_code.h"

namespace tilegate::cli {

struct RunOptions {
  std::vector<std::string> cases;  // files and folders
  std::string backend = "auto";
  std::string out;  // a file for one case, a folder for several; empty: nothing is written
  bool check = false;
  std::vector<std::string> set;  // name=value
  int threads = 0;
};

struct ExplainOptions {
  std::string path;
  std::string backend = "auto";
  std::vector<std::string> set;
  int threads = 0;
};

struct BenchOptions {
  std::string family;  // "attention" or "linear"
  std::string set;     // a named set; empty: the shapes below
  std::vector<std::int64_t> batch_size = {1, 2, 4, 8};
  std::vector<std::int64_t> query_length;        // attention; empty: 256 1024, decode 1
  std::vector<std::int64_t> kv_length = {4096};  // attention
  std::vector<std::int64_t> length;              // linear, tokens a sequence; empty: 1024, decode 1
  std::vector<std::int64_t> lengths;             // linear: one batch of unequal sequences
  std::int64_t num_heads = 12;
  std::int64_t num_kv_heads = 4;
  std::vector<std::string> heads = {"16/32"};  // linear: query and key / value
  std::int64_t head_size = 128;
  std::int64_t page_size = 16;
  std::int64_t num_householder = 2;
  std::string op = "prefill";
  std::string rule = "gdn";
  std::string gates = "random";
  std::string dtype = "bfloat16";
  std::string state_dtype = "float32";
  bool causal = false;
  bool decode = false;
  int warmups = 20;
  int repeats = 100;
  double scope_seconds = 0.0;
  std::vector<std::string> backends = {"auto"};
  std::vector<std::string> peers;
  std::string peer_folder;
  double peer_timeout_s = 300.0;
  std::string device;  // empty: cuda where the build and the machine have it
  std::string timing;  // empty: both on cuda
  std::string l2;      // empty: both on cuda, warm on the cpu
  int threads = 0;
  std::string output;
  std::string command;
};

ExitCode run(const RunOptions& options);
ExitCode explain(const ExplainOptions& options);
ExitCode bench(const BenchOptions& options);
ExitCode info();

}  // namespace tilegate::cli
