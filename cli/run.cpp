// SPDX-License-Identifier: Apache-2.0
// `tilegate run`: every case is loaded, checked, planned, run once and, if asked, compared and
// written. One line a case on stdout, one line an error on stderr; a failing case stops no other.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <new>
#include <optional>

#include "cli/case/prepare.h"
#include "cli/case/storage.h"
#include "cli/check/compare.h"
#include "cli/check/unchanged.h"
#include "cli/files.h"
#include "cli/verbs.h"
#include "io/safetensors.h"

namespace tilegate::cli {
namespace {

using Clock = std::chrono::steady_clock;

// "3/69 name" on a terminal, once a run has taken long enough to be watched.
class Progress {
 public:
  explicit Progress(std::size_t total) : total_(total), shown_(isatty(STDERR_FILENO) != 0) {}

  void begin(std::size_t number, const std::string& path) {
    const bool slow = Clock::now() - start_ > std::chrono::seconds(1);
    if (!shown_ || total_ < 2 || !slow) return;
    fmt::print(stderr, "\r\x1b[K{}/{} {}", number + 1, total_, path);
    std::fflush(stderr);
    drawn_ = true;
  }
  void clear() {
    if (!drawn_) return;
    fmt::print(stderr, "\r\x1b[K");
    std::fflush(stderr);
    drawn_ = false;
  }

 private:
  std::size_t total_;
  bool shown_;
  bool drawn_ = false;
  Clock::time_point start_ = Clock::now();
};

// What one case came to: the line to print, and the exit status it asks for.
struct Outcome {
  std::string line;
  ExitCode code = ExitCode::kOk;
};

struct Verdict {
  std::string text;
  bool right = true;
};

Outcome failure(const Status& status) { return {status.message(), exit_code(status.code())}; }

Verdict judge(const Case& c, const Tensors& results) {
  Verdict verdict;
  for (const auto& [name, expected] : c.expected) {
    const Comparison seen = compare(results.find(name)->second.view(), expected.view(),
                                    c.tolerance_of(name).value_or(Tolerance{}));
    verdict.text += fmt::format(
        "  {} {}", name,
        seen.miss.empty() ? fmt::format("rel_rms {:.1e} max_abs {:.1e}", seen.rel_rms, seen.max_abs)
                          : seen.miss);
    verdict.right = verdict.right && seen.miss.empty();
  }
  if (const std::string changed = find_changed_state(c, results); !changed.empty()) {
    verdict.text += "  " + changed;
    verdict.right = false;
  }
  return verdict;
}

// A check that could not fail is a malformed request.
Status check_can_fail(const Case& c) {
  if (c.expected.empty()) {
    return Status(StatusCode::kIo, "--check must have expected.* tensors in the file, got none");
  }
  for (const auto& [name, tensor] : c.expected) {
    if (!c.tolerance_of(name)) {
      return Status(StatusCode::kIo,
                    fmt::format("check must have rel_rms and max_abs for {}, got none", name));
    }
  }
  return Status();
}

Status write_results(const std::string& path, const Case& c, const Tensors& results) {
  Views views;
  for (const auto& [name, tensor] : results) views.emplace(name, tensor.view());
  return io::write_safetensors(path, views, {{"op", std::string(c.op->name)}});
}

// Runs cases one after another in one context.
class Runner {
 public:
  explicit Runner(const RunOptions& options) : options_(options) {}

  Outcome run(const std::string& path, const std::string& out) {
    Result<PreparedCase> prepared =
        prepare_case(path, {options_.backend, options_.set, options_.check});
    if (!prepared.ok()) return failure(prepared.status());
    if (options_.check) {
      Status status = check_can_fail(prepared->c);
      if (!status.ok()) return failure(at_path(path, status));
    }
    Result<Outcome> outcome = run_prepared(*prepared, out);
    return outcome.ok() ? *outcome : failure(at_path(path, outcome.status()));
  }

 private:
  Status open_context() {
    if (context_) return Status();
    Result<Context> context = make_context(options_.backend, options_.threads);
    if (!context.ok()) return context.status();
    context_.emplace(std::move(*context));
    return Status();
  }

  Result<Outcome> run_prepared(const PreparedCase& prepared, const std::string& out) {
    const Case& c = prepared.c;
    if (Status status = open_context(); !status.ok()) return status;
    Result<Plan> chosen = plan(prepared.problem, *context_);
    if (!chosen.ok()) return chosen.status();
    Result<Storage> storage = Storage::create(c, prepared.outputs, prepared.device);
    if (!storage.ok()) return storage.status();
    Result<Workspace> workspace = storage->workspace(chosen->workspace_bytes());
    if (!workspace.ok()) return workspace.status();
    const Call call = make_call(c, storage->inputs(), storage->outputs(), prepared.backend);
    const Clock::time_point start = Clock::now();
    if (Status status = chosen->run(*context_, call.args, *workspace); !status.ok()) return status;
    if (Status status = storage->fetch(); !status.ok()) return status;
    const double ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    if (!out.empty()) {
      Status status = write_results(out, c, storage->results());
      if (!status.ok()) return status;
    }
    Verdict verdict;
    if (options_.check) verdict = judge(c, storage->results());
    return Outcome{
        fmt::format("{:<4}  {}  {}  {}  {:.2f} ms{}", verdict.right ? "ok" : "MISS", c.name,
                    prepared.problem.summary(), chosen->kernel(), ms, verdict.text),
        verdict.right ? ExitCode::kOk : ExitCode::kMiss};
  }

  const RunOptions& options_;
  std::optional<Context> context_;
};

ExitCode refuse(const Status& status) {
  fmt::print(stderr, "{}\n", status.message());
  return exit_code(status.code());
}

}  // namespace

ExitCode run(const RunOptions& options) {
  Result<CaseFiles> files = find_case_files(options.cases);
  if (!files.ok()) return refuse(files.status());
  Result<std::vector<std::string>> outputs = output_paths(*files, options.out);
  if (!outputs.ok()) return refuse(outputs.status());
  Runner runner(options);
  Progress progress(files->paths.size());
  ExitCode code = ExitCode::kOk;
  for (std::size_t i = 0; i < files->paths.size(); ++i) {
    const std::string& path = files->paths[i];
    progress.begin(i, path);
    Outcome outcome;
    try {
      outcome = runner.run(path, outputs->empty() ? "" : (*outputs)[i]);
    } catch (const std::bad_alloc&) {
      outcome = {path + ": no memory", ExitCode::kFailure};
    }
    progress.clear();
    const bool ran = outcome.code == ExitCode::kOk || outcome.code == ExitCode::kMiss;
    fmt::print(ran ? stdout : stderr, "{}\n", outcome.line);
    std::fflush(stdout);
    code = graver(code, outcome.code);
  }
  return code;
}

}  // namespace tilegate::cli
