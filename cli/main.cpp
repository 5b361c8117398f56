// SPDX-License-Identifier: Apache-2.0
// The command line of `tilegate`: options to structs, one verb each. Usage errors exit with 2.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <new>

#include "cli/bench_flags.h"
#include "cli/verbs.h"
#include "tilegate/context.h"

namespace {

using tilegate::cli::ExitCode;

constexpr const char* kBackendHelp = "auto, cpu, cuda, cudnn or reference";
const std::vector<std::string> kBackends = {"auto", "cpu", "cuda", "cudnn", "reference"};

struct CommandLine {
  CLI::App app{"Attention and delta-rule kernels", "tilegate"};
  CLI::App* run = nullptr;
  CLI::App* explain = nullptr;
  CLI::App* info = nullptr;
  tilegate::cli::RunOptions run_options;
  tilegate::cli::ExplainOptions explain_options;
  tilegate::cli::BenchOptions bench_options;

  CommandLine() {
    app.require_subcommand(1);
    app.set_version_flag("--version", tilegate::version());
    add_run();
    add_explain();
    tilegate::cli::add_bench(app, bench_options);
    info = app.add_subcommand("info", "Print version, backends and environment");
  }

  void add_run() {
    run = app.add_subcommand("run", "Run case files, one line each");
    run->add_option("case", run_options.cases, "Case files, or folders of *.safetensors")
        ->required();
    run->add_option("--backend", run_options.backend, kBackendHelp)
        ->check(CLI::IsMember(kBackends));
    run->add_option("--out", run_options.out,
                    "Write the outputs: a file for one case, a folder for several");
    run->add_flag("--check", run_options.check, "Compare with the expected tensors of the file");
    add_common(*run, run_options.set, run_options.threads);
  }

  void add_explain() {
    explain = app.add_subcommand("explain", "Print which kernel a case gets, and why");
    explain->add_option("case", explain_options.path, "Case file")->required();
    explain->add_option("--backend", explain_options.backend, kBackendHelp)
        ->check(CLI::IsMember(kBackends));
    add_common(*explain, explain_options.set, explain_options.threads);
  }

  static void add_common(CLI::App& verb, std::vector<std::string>& set, int& threads) {
    verb.add_option("--set", set, "Override a scalar argument: name=value")
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    verb.add_option("--threads", threads, "CPU threads; 0: all that this process may use")
        ->check(CLI::Range(0, 4096));
  }
};

std::string typed(int argc, char** argv) {
  std::string text = "tilegate";
  for (int i = 1; i < argc; ++i) text += std::string(" ") + argv[i];
  return text;
}

ExitCode dispatch(int argc, char** argv) {
  CommandLine line;
  try {
    line.app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return line.app.exit(error) == 0 ? ExitCode::kOk : ExitCode::kMalformed;
  }
  if (line.run->parsed()) return tilegate::cli::run(line.run_options);
  if (!line.bench_options.family.empty()) {
    line.bench_options.command = typed(argc, argv);
    return tilegate::cli::bench(line.bench_options);
  }
  if (line.explain->parsed()) return tilegate::cli::explain(line.explain_options);
  return tilegate::cli::info();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return static_cast<int>(dispatch(argc, argv));
  } catch (const std::bad_alloc&) {
    std::fputs("tilegate: no memory\n", stderr);
    return static_cast<int>(ExitCode::kFailure);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tilegate: %s\n", error.what());
    return static_cast<int>(ExitCode::kMalformed);
  }
}
