// SPDX-License-Identifier: Apache-2.0
// Flags to BenchOptions. What one flag may hold is checked here, what flags mean together in
// bench.cpp.
#include "cli/bench_flags.h"

#include "bench/rows/sets.h"

namespace tilegate::cli {
namespace {

const std::vector<std::string> kDtypes = {"float16", "bfloat16", "float32"};

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

void one_of(CLI::App& verb, const std::string& flag, std::string& value, const std::string& help,
            const std::vector<std::string>& names) {
  verb.add_option(flag, value, help + ": " + joined(names))->check(CLI::IsMember(names));
}

template <class T>
CLI::Option* positive(CLI::App& verb, const std::string& flag, T& value, const std::string& help) {
  return verb.add_option(flag, value, help)->check(CLI::PositiveNumber)->capture_default_str();
}

// A named set has shapes of its own: every other flag of the verb so far would be ignored.
void set_excludes_shapes(CLI::App& verb) {
  CLI::Option* set = verb.get_option("--set");
  for (CLI::Option* flag : verb.get_options()) {
    if (flag != set && flag != verb.get_help_ptr()) set->excludes(flag);
  }
}

void add_run_flags(CLI::App& verb, BenchOptions& o) {
  positive(verb, "--warmups", o.warmups, "Untimed samples first");
  positive(verb, "--repeats", o.repeats, "Timed samples");
  verb.add_option("--scope-seconds", o.scope_seconds,
                  "Fewer samples once a scope took this long; 0: never")
      ->check(CLI::NonNegativeNumber);
  verb.add_option("--backend", o.backends, "auto, cpu, cuda, cudnn or reference; several at once")
      ->check(CLI::IsMember({"auto", "cpu", "cuda", "cudnn", "reference"}));
  verb.add_option("--peers", o.peers, "Peers to time beside ours: torch, flashinfer, fla");
  verb.add_option("--peer-folder", o.peer_folder, "Where NAME_peer.py are")->needs("--peers");
  positive(verb, "--peer-timeout", o.peer_timeout_s, "Seconds a peer may take for a row")
      ->needs("--peers");
  one_of(verb, "--device", o.device, "Default: cuda where there is one", {"cpu", "cuda"});
  one_of(verb, "--timing", o.timing, "On cuda", {"graph", "eager", "both"});
  one_of(verb, "--l2", o.l2, "State of the caches", {"warm", "cold", "both"});
  verb.add_option("--threads", o.threads, "CPU threads; 0: all that this process may use")
      ->check(CLI::Range(0, 4096));
  verb.add_option("--output", o.output, "JSON file, written after every row");
}

void add_attention(CLI::App& bench, BenchOptions& o) {
  CLI::App* verb = bench.add_subcommand("attention", "Softmax attention: prefill, paged, decode");
  verb->callback([&o, verb] {
    o.family = "attention";
    if (verb->count("--page-size") > 0 && !o.decode && o.op == "prefill") {
      throw CLI::ValidationError("--page-size", "must be absent for prefill, which has no pages");
    }
  });
  one_of(*verb, "--set", o.set, "Rows of a named set instead of shapes",
         tilegate::bench::attention_set_names());
  positive(*verb, "--batch-size", o.batch_size, "Requests; several at once");
  positive(*verb, "--query-length", o.query_length, "Query rows a request; several at once");
  positive(*verb, "--kv-length", o.kv_length, "Keys a request; several at once");
  positive(*verb, "--num-heads", o.num_heads, "Query heads");
  positive(*verb, "--num-kv-heads", o.num_kv_heads, "Key and value heads");
  positive(*verb, "--head-size", o.head_size, "Head dimension");
  positive(*verb, "--page-size", o.page_size, "Keys a page, paged and decode");
  one_of(*verb, "--dtype", o.dtype, "Of q, k, v and o", kDtypes);
  one_of(*verb, "--op", o.op, "Which call", {"prefill", "paged", "decode"});
  verb->add_flag("--causal,!--no-causal", o.causal, "Bottom-right causal mask");
  verb->add_flag("--decode", o.decode, "The same as --op decode; --query-length defaults to 1")
      ->excludes("--op");
  set_excludes_shapes(*verb);
  add_run_flags(*verb, o);
}

void add_linear(CLI::App& bench, BenchOptions& o) {
  CLI::App* verb = bench.add_subcommand("linear", "Delta rules: GDN, GDN-2, GDP, KDA");
  verb->callback([&o, verb] {
    o.family = "linear";
    if (verb->count("--num-householder") > 0 && o.rule != "gdp") {
      throw CLI::ValidationError("--num-householder", "must be absent without --rule gdp");
    }
  });
  one_of(*verb, "--set", o.set, "Rows of a named set instead of shapes",
         tilegate::bench::linear_set_names());
  one_of(*verb, "--rule", o.rule, "Which rule", {"gdn", "gdn2", "gdp", "kda"});
  positive(*verb, "--batch-size", o.batch_size, "Sequences; several at once");
  positive(*verb, "--length", o.length, "Tokens a sequence; several at once; decode: 1 to 16");
  positive(*verb, "--lengths", o.lengths, "One batch of sequences of these tokens")
      ->excludes("--length")
      ->excludes("--batch-size");
  verb->add_option("--heads", o.heads, "Query and key heads / value heads; several at once");
  positive(*verb, "--head-size", o.head_size, "Head dimension");
  positive(*verb, "--num-householder", o.num_householder, "GDP: rows a token");
  one_of(*verb, "--gates", o.gates, "How fast states forget", {"random", "none", "steep", "slow"});
  one_of(*verb, "--dtype", o.dtype, "Of q, k, v and o", kDtypes);
  one_of(*verb, "--state-dtype", o.state_dtype, "Of states", kDtypes);
  verb->add_flag("--decode", o.decode, "Steps over a pool of states updated in place");
  set_excludes_shapes(*verb);
  add_run_flags(*verb, o);
}

}  // namespace

void add_bench(CLI::App& app, BenchOptions& options) {
  CLI::App* bench = app.add_subcommand("bench", "Time calls, beside other libraries where asked");
  bench->require_subcommand(1);
  add_attention(*bench, options);
  add_linear(*bench, options);
}

}  // namespace tilegate::cli
