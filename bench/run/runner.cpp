// SPDX-License-Identifier: Apache-2.0
// The order of a run: ceilings, then row by row ours and peers, and back; the result file after
// each row.
#include "bench/run/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "bench/measure/interrupt.h"
#include "bench/rows/calls.h"
#include "bench/run/environment.h"
#include "bench/run/peer.h"
#include "bench/run/progress.h"
#include "bench/run/result.h"

namespace tilegate::bench {
namespace {

// A backend ready to be called on the tensors of a row.
struct Ours {
  Entrant who;
  Plan plan;
  DeviceBuffer workspace;
};

std::string line_of(const Json& entry) {
  const auto number = [&](const char* key) { return entry[key].get<double>(); };
  std::string line =
      fmt::format("  {:<18} {:<22} {:>5} {}  {:>10.4f} ms  {:>8.1f} GB/s  {:>7.2f} TFLOP/s",
                  entry["backend"].get<std::string>(),
                  entry["kernel"].is_null() ? "peer" : entry["kernel"].get<std::string>(),
                  entry["timing"].get<std::string>(), entry["l2"].get<std::string>(),
                  number("median_ms"), number("gb_per_s"), number("tflop_per_s"));
  if (!entry["ceiling_share"].is_null()) {
    line += fmt::format("  {:>5.1f} % of {}", 100.0 * number("ceiling_share"),
                        entry["bound_by"].get<std::string>());
  }
  return line;
}

class Runner {
 public:
  Runner(const RunRequest& request, Context context, Stream stream)
      : request_(request),
        context_(std::move(context)),
        stream_(std::move(stream)),
        timer_(stream_, request.counts, interrupts_.flag()),
        progress_(request.rows.size()),
        file_(request.output,
              environment({request.command, request.device, context_.num_threads()})) {}

  Result<Ended> run() {
    file_.set("timing_scope", timing_scope(request_.scopes));
    file_.set("warmups", request_.counts.warmups);
    file_.set("repeats", request_.counts.repeats);
    file_.set("scope_seconds", request_.counts.seconds);
    if (Status status = write(); !status.ok()) return status;
    Ended ended = Ended::kComplete;
    try {
      start_peers();
      measure_ceilings();
      for (const Row& row : request_.rows) {
        run_row(row);
        if (Status status = write(); !status.ok()) return status;
      }
      file_.set("complete", true);
    } catch (const Interrupted&) {
      ended = Ended::kInterrupted;
    }
    if (Status status = write(); !status.ok()) return status;
    return ended;
  }

 private:
  Status write() const { return request_.output.empty() ? Status() : file_.write(); }

  void start_peers() {
    Json list = Json::array();
    for (const std::string& name : request_.peers) {
      progress_.doing("starting peer " + name);
      const std::string log =
          request_.output.empty() ? "/dev/null" : request_.output + "." + name + ".log";
      Result<std::unique_ptr<Peer>> peer = Peer::start(
          name, {request_.peer_folder, log, request_.peer_timeout_s}, interrupts_.flag());
      if (!peer.ok()) {
        list.push_back({{"name", name}, {"reason", peer.status().message()}});
        progress_.print_line(fmt::format("peer {} is off: {}", name, peer.status().message()));
        continue;
      }
      list.push_back({{"name", name}, {"versions", (*peer)->versions()}});
      peers_.push_back(std::move(*peer));
    }
    file_.set("peers", list);
  }

  // Rows are worth their times even where there is no memory for the ceilings.
  void measure_ceilings() {
    progress_.doing("measuring ceilings");
    try {
      set_ceilings();
    } catch (const std::exception& error) {
      progress_.print_line(fmt::format("ceilings: not measured: {}", error.what()));
    }
  }

  void set_ceilings() {
    if (request_.device.type == DeviceType::kCpu) {
      file_.set_ceilings(measure_cpu_ceilings(context_.num_threads()));
    } else {
      Ceilings ceilings = measure_gpu_ceilings(stream_, timer_);
      for (const std::unique_ptr<Peer>& peer : peers_) {
        const Result<Json> answer = peer->ask({{"ceiling", "gemm"}});
        if (!answer.ok() || !answer->contains("tflop_per_s")) continue;
        ceilings.tflop_per_s = answer->at("tflop_per_s").get<double>();
        ceilings.compute_from = answer->value("from", peer->name());
        break;
      }
      file_.set_ceilings(ceilings);
    }
    const Ceilings& c = file_.ceilings();
    progress_.print_line(fmt::format("ceilings: {:.1f} GB/s ({}), {:.2f} TFLOP/s ({})", c.gb_per_s,
                                     c.memory_from, c.tflop_per_s,
                                     c.compute_from.empty() ? "not measured" : c.compute_from));
  }

  void run_row(const Row& row) {
    progress_.next_row(name_of(row.shape));
    progress_.print_line(name_of(row.shape));
    // Far more than any machine has, and far less than sizes can count.
    constexpr double kMostBytes = 0x1p56;
    if (const double bytes = work_of(row.shape).bytes; bytes > kMostBytes) {
      return decline(row, "row",
                     fmt::format("its tensors must fit in memory, got {:.2g} bytes", bytes));
    }
    try {
      progress_.doing("filling tensors");
      Tensors tensors(stream_);
      const CallArgs args = make_args(row.shape, tensors);
      std::vector<Ours> ours = prepare(row, args);
      time_ours(row, args, ours, 1);
      if (peers_.empty()) return;
      for (const std::unique_ptr<Peer>& peer : peers_) time_peer(row, *peer, 1);
      std::reverse(ours.begin(), ours.end());
      for (auto peer = peers_.rbegin(); peer != peers_.rend(); ++peer) time_peer(row, **peer, 2);
      time_ours(row, args, ours, 2);
    } catch (const std::exception& error) {  // Error, or bad_alloc or length_error of host memory
      decline(row, "row", error.what());
    }
  }

  std::vector<Ours> prepare(const Row& row, const CallArgs& args) {
    std::vector<Ours> ready;
    for (const NamedBackend& backend : request_.backends) {
      progress_.doing("planning " + backend.name);
      try {
        const Problem problem = describe_call(row.shape, args, backend.backend).value();
        Plan chosen = plan(problem, context_).value();
        DeviceBuffer workspace =
            DeviceBuffer::allocate(request_.device, chosen.workspace_bytes()).value();
        Entrant who{backend.name, chosen.kernel(), chosen.explain()};
        ready.push_back({std::move(who), std::move(chosen), std::move(workspace)});
      } catch (const Error& error) {
        decline(row, backend.name, error.what());
      }
    }
    return ready;
  }

  void time_ours(const Row& row, const CallArgs& args, const std::vector<Ours>& ours, int pass) {
    for (const Ours& our : ours) {
      progress_.doing("timing " + our.who.backend);
      const Work call = [&] {
        return our.plan.run(context_, args, {our.workspace.data(), our.workspace.bytes()},
                            stream_.handle());
      };
      try {
        for (const Scope& scope : scopes_of(pass)) {
          const Json& entry = file_.add(row, our.who, {scope, pass, timer_.sample(call, scope)});
          progress_.print_line(line_of(entry));
        }
      } catch (const Error& error) {
        decline(row, our.who.backend, error.what());
      }
    }
  }

  // The second pass goes backwards.
  std::vector<Scope> scopes_of(int pass) const {
    std::vector<Scope> scopes = request_.scopes;
    if (pass == 2) std::reverse(scopes.begin(), scopes.end());
    return scopes;
  }

  void time_peer(const Row& row, Peer& peer, int pass) {
    progress_.doing("timing peer " + peer.name());
    Json scopes = Json::array();
    for (const Scope& scope : scopes_of(pass)) {
      scopes.push_back({{"timing", to_string(scope.timing)}, {"l2", to_string(scope.cache)}});
    }
    const Result<Json> answer =
        peer.ask({{"shape", to_json(row.shape)},
                  {"device", request_.device.type == DeviceType::kCpu ? "cpu" : "cuda"},
                  {"threads", context_.num_threads()},
                  {"scopes", scopes},
                  {"pass", pass},
                  {"warmups", request_.counts.warmups},
                  {"repeats", request_.counts.repeats},
                  {"seconds", request_.counts.seconds}});
    if (!answer.ok()) return decline(row, peer.name(), answer.status().message());
    try {
      add_answer(row, peer, pass, *answer);
    } catch (const Json::exception& error) {
      decline(row, peer.name(), fmt::format("it answered against the protocol: {}", error.what()));
    }
  }

  void add_answer(const Row& row, const Peer& peer, int pass, const Json& answer) {
    for (const Json& one : answer.value("declined", Json::array())) {
      decline(row, peer.name() + "." + one.value("backend", std::string("?")),
              one.value("reason", std::string("no reason")));
    }
    for (const Json& one : answer.value("results", Json::array())) {
      const std::string backend = peer.name() + "." + one.value("backend", std::string("?"));
      add_peer(row, {backend, "", "", true, one.value("differs", std::string())}, pass, one);
    }
  }

  // Keeps a peer's samples when they belong to a scope that was asked for.
  void add_peer(const Row& row, const Entrant& who, int pass, const Json& one) {
    const auto samples = one.value("samples_ms", std::vector<double>());
    for (const Scope& scope : request_.scopes) {
      if (one.value("timing", "") != to_string(scope.timing)) continue;
      if (one.value("l2", "") != to_string(scope.cache) || samples.empty()) continue;
      const Json& entry = file_.add(row, who, {scope, pass, samples});
      return progress_.print_line(line_of(entry));
    }
    decline(row, who.backend, "it answered without samples of a scope that was asked for");
  }

  void decline(const Row& row, const std::string& backend, const std::string& reason) {
    if (!file_.add_declined(row, backend, reason)) return;
    progress_.print_line(fmt::format("  {:<18} declined: {}", backend, reason));
  }

  const RunRequest& request_;
  CatchInterrupts interrupts_;
  Context context_;
  Stream stream_;
  Timer timer_;
  Progress progress_;
  ResultFile file_;
  std::vector<std::unique_ptr<Peer>> peers_;
};

}  // namespace

Result<Ended> run_benchmark(const RunRequest& request) {
  ContextOptions options;
  options.device = request.device;
  options.num_threads = request.threads;
  Result<Context> context = Context::create(options);
  if (!context.ok()) return context.status();
  Result<Stream> stream = Stream::create(request.device);
  if (!stream.ok()) return stream.status();
  return Runner(request, std::move(*context), std::move(*stream)).run();
}

}  // namespace tilegate::bench
