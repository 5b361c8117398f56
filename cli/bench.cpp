// SPDX-License-Identifier: Apache-2.0
// `tilegate bench`: flags to the rows and scopes of a run. Usage errors are one sentence and exit
// with 2; after Ctrl-C the finished rows are kept and the exit status is 130.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <optional>

#include "bench/rows/sets.h"
#include "bench/run/runner.h"
#include "cli/verbs.h"
#include "tilegate/context.h"

namespace tilegate::cli {
namespace {

using bench::AttentionOp;
using bench::AttentionShape;
using bench::Cache;
using bench::Gates;
using bench::LinearShape;
using bench::Row;
using bench::Rule;
using bench::Scope;
using bench::Timing;

constexpr std::int64_t kMaxDecodeRows = 16;

template <class... A>
Status usage(fmt::format_string<A...> format, A&&... arguments) {
  return Status(StatusCode::kInvalidArgument, fmt::format(format, std::forward<A>(arguments)...));
}

using Numbers = std::vector<std::int64_t>;

const Numbers& or_default(const Numbers& given, const Numbers& fallback) {
  return given.empty() ? fallback : given;
}

DType dtype_of(const std::string& name) {
  if (name == "float16") return DType::kFloat16;
  return name == "float32" ? DType::kFloat32 : DType::kBFloat16;
}

AttentionOp op_of(const std::string& name) {
  if (name == "paged") return AttentionOp::kPaged;
  return name == "decode" ? AttentionOp::kDecode : AttentionOp::kPrefill;
}

Rule rule_of(const std::string& name) {
  if (name == "gdn2") return Rule::kGdn2;
  if (name == "gdp") return Rule::kGdp;
  return name == "kda" ? Rule::kKda : Rule::kGdn;
}

Gates gates_of(const std::string& name) {
  if (name == "none") return Gates::kNone;
  if (name == "steep") return Gates::kSteep;
  return name == "slow" ? Gates::kSlow : Gates::kRandom;
}

Backend backend_of(const std::string& name) {
  if (name == "reference") return Backend::kReference;
  if (name == "cpu") return Backend::kCpu;
  if (name == "cuda") return Backend::kCuda;
  return name == "cudnn" ? Backend::kCudnn : Backend::kAuto;
}

Result<std::vector<Row>> attention_rows(const BenchOptions& o) {
  if (!o.set.empty()) return *bench::attention_set(o.set);
  AttentionShape s;
  s.op = o.decode ? AttentionOp::kDecode : op_of(o.op);
  s.num_heads = o.num_heads;
  s.num_kv_heads = o.num_kv_heads;
  s.head_size = o.head_size;
  s.page_size = o.page_size;
  s.dtype = dtype_of(o.dtype);
  s.causal = o.causal;
  if (o.num_heads % o.num_kv_heads != 0) {
    return usage("--num-heads must be a multiple of --num-kv-heads, got {} and {}", o.num_heads,
                 o.num_kv_heads);
  }
  const bool decode = s.op == AttentionOp::kDecode;
  const Numbers queries = or_default(o.query_length, decode ? Numbers{1} : Numbers{256, 1024});
  std::vector<Row> rows;
  for (std::int64_t batch : o.batch_size) {
    for (std::int64_t query : queries) {
      for (std::int64_t kv : o.kv_length) {
        if (decode && query > kMaxDecodeRows) {
          return usage("--query-length must be 1 to {} for decode, got {}", kMaxDecodeRows, query);
        }
        s.batch_size = batch;
        s.query_length = query;
        s.kv_length = kv;
        rows.push_back({s});
      }
    }
  }
  return rows;
}

// Where the number ends; null where there is none.
const char* parse_number(const char* begin, const char* end, std::int64_t& number) {
  const auto parsed = std::from_chars(begin, end, number);
  return parsed.ec == std::errc() ? parsed.ptr : nullptr;
}

// "16/32" to 16 and 32; one number stands for both.
Status parse_heads(const std::string& text, LinearShape& s) {
  const char* end = text.data() + text.size();
  const char* at = parse_number(text.data(), end, s.heads_qk);
  s.heads_v = s.heads_qk;
  if (at != nullptr && at != end && *at == '/') at = parse_number(at + 1, end, s.heads_v);
  const bool divides = s.heads_qk > 0 && s.heads_v > 0 &&
                       (s.heads_v % s.heads_qk == 0 || s.heads_qk % s.heads_v == 0);
  if (at == end && divides) return Status();
  return usage("--heads must be two numbers of which one divides the other, as 16/32, got {}",
               text);
}

Result<std::vector<Row>> linear_rows(const BenchOptions& o) {
  if (!o.set.empty()) return *bench::linear_set(o.set);
  LinearShape s;
  s.rule = rule_of(o.rule);
  s.decode = o.decode;
  s.head_size = o.head_size;
  s.num_householder = s.rule == Rule::kGdp ? o.num_householder : 1;
  s.dtype = dtype_of(o.dtype);
  s.state_dtype = dtype_of(o.state_dtype);
  s.gates = gates_of(o.gates);
  if (s.decode && s.rule == Rule::kGdn && s.gates != Gates::kRandom) {
    return usage("--gates must be random for gdn decode, which makes its own gates, got {}",
                 o.gates);
  }
  const Numbers tokens = or_default(o.length, s.decode ? Numbers{1} : Numbers{1024});
  std::vector<Numbers> batches;
  if (!o.lengths.empty()) batches.push_back(o.lengths);
  for (std::int64_t batch : o.lengths.empty() ? o.batch_size : Numbers()) {
    for (std::int64_t length : tokens) {
      batches.emplace_back(static_cast<std::size_t>(batch), length);
    }
  }
  std::vector<Row> rows;
  for (const std::string& heads : o.heads) {
    if (Status status = parse_heads(heads, s); !status.ok()) return status;
    for (const Numbers& lengths : batches) {
      s.lengths = lengths;
      const std::int64_t longest = *std::max_element(lengths.begin(), lengths.end());
      if (s.decode && (longest > kMaxDecodeRows || !s.uniform())) {
        return usage("--length must be 1 to {} and equal for all sequences in decode, got {}",
                     kMaxDecodeRows, longest);
      }
      rows.push_back({s});
    }
  }
  return rows;
}

bool cuda_is_there() {
  const std::vector<BackendInfo> all = backends();
  return std::any_of(all.begin(), all.end(), [](const BackendInfo& backend) {
    return backend.name == "cuda" && backend.available;
  });
}

Result<std::vector<Scope>> scopes_of(const BenchOptions& o, DeviceType device) {
  std::vector<Timing> timings;
  if (device == DeviceType::kCpu) {
    if (!o.timing.empty()) {
      return usage("--timing must be absent on the cpu, which has a wall clock only, got {}",
                   o.timing);
    }
    timings = {Timing::kWall};
  } else {
    if (o.timing != "eager") timings.push_back(Timing::kGraph);
    if (o.timing != "graph") timings.push_back(Timing::kEager);
  }
  const std::string l2 = !o.l2.empty() ? o.l2 : device == DeviceType::kCpu ? "warm" : "both";
  std::vector<Scope> scopes;
  for (Timing timing : timings) {
    if (l2 != "cold") scopes.push_back({timing, Cache::kWarm});
    if (l2 != "warm") scopes.push_back({timing, Cache::kCold});
  }
  return scopes;
}

// A GPU backend cannot read host tensors, nor the other way round.
Status check_backends(const BenchOptions& o, DeviceType device) {
  for (const std::string& name : o.backends) {
    const bool gpu_only = name == "cuda" || name == "cudnn";
    const bool cpu_only = name == "cpu" || name == "reference";
    if (device == DeviceType::kCpu ? gpu_only : cpu_only) {
      return usage("--backend must run on the {}, got {}",
                   device == DeviceType::kCpu ? "cpu" : "cuda device", name);
    }
  }
  return Status();
}

Result<bench::RunRequest> request_of(const BenchOptions& o) {
  bench::RunRequest request;
  const bool gpu = o.device == "cuda" || (o.device.empty() && cuda_is_there());
  request.device.type = gpu ? DeviceType::kCuda : DeviceType::kCpu;
  if (Status status = check_backends(o, request.device.type); !status.ok()) return status;
  Result<std::vector<Scope>> scopes = scopes_of(o, request.device.type);
  if (!scopes.ok()) return scopes.status();
  Result<std::vector<Row>> rows = o.family == "attention" ? attention_rows(o) : linear_rows(o);
  if (!rows.ok()) return rows.status();
  request.scopes = *scopes;
  request.rows = *std::move(rows);
  for (const std::string& name : o.backends) request.backends.push_back({name, backend_of(name)});
  request.threads = o.threads;
  request.peers = o.peers;
  request.peer_folder = o.peer_folder;
  request.peer_timeout_s = o.peer_timeout_s;
  request.counts = {o.warmups, o.repeats, o.scope_seconds};
  request.output = o.output;
  request.command = o.command;
  return request;
}

ExitCode fail(const Status& status) {
  fmt::print(stderr, "{}\n", status.message());
  return exit_code(status.code());
}

}  // namespace

ExitCode bench(const BenchOptions& options) {
  Result<bench::RunRequest> request = request_of(options);
  if (!request.ok()) return fail(request.status());
  Result<bench::Ended> ended = bench::run_benchmark(*request);
  if (!ended.ok()) return fail(ended.status());
  return *ended == bench::Ended::kComplete ? ExitCode::kOk : ExitCode::kInterrupted;
}

}  // namespace tilegate::cli
