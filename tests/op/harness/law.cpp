// SPDX-License-Identifier: Apache-2.0
// The fixture: moves tensors, plans, runs, and compares the bytes that must not have changed.
#include "tests/op/harness/law.h"

#include <cstdlib>
#include <cstring>
#include <iostream>
#include <optional>

namespace laws {

using tilegate::Status;
using tilegate::StatusCode;

namespace {

struct Snapshot {
  std::vector<std::byte> bytes;
  std::vector<std::uint8_t> writable;  // 1 a byte that may change; empty: none may
};
using Snapshots = std::map<Block*, Snapshot>;

Snapshots take_snapshots(Call& call) {
  Snapshots snapshots;
  for (const Argument& argument : call.arguments()) {
    const Tensor& tensor = *argument.tensor;
    if (!tensor.present() || tensor.block()->is_sparse) continue;
    Block& block = *tensor.block();
    Snapshot& snapshot = snapshots[&block];
    if (snapshot.bytes.empty()) snapshot.bytes.assign(block.host, block.host + block.bytes);
    if (argument.role == Role::kOut) tensor.mark(snapshot.writable);
  }
  return snapshots;
}

// Where the first forbidden byte changed, as "<argument> byte <n>", or nullopt.
std::optional<std::string> forbidden_change(Call& call, const Snapshots& before, bool refused) {
  for (const Argument& argument : call.arguments()) {
    const Tensor& tensor = *argument.tensor;
    if (!tensor.present() || tensor.block()->is_sparse) continue;
    const auto found = before.find(tensor.block().get());
    if (found == before.end()) continue;
    const Snapshot& snapshot = found->second;
    const std::byte* now = tensor.block()->host;
    if (std::memcmp(now, snapshot.bytes.data(), snapshot.bytes.size()) == 0) continue;
    for (std::size_t i = 0; i < snapshot.bytes.size(); ++i) {
      const bool allowed = !refused && i < snapshot.writable.size() && snapshot.writable[i] != 0;
      if (now[i] != snapshot.bytes[i] && !allowed) {
        return argument.name + " byte " + std::to_string(i);
      }
    }
  }
  return std::nullopt;
}

// Exactly the bytes asked for, aligned to 256, full of NaN, with a guard behind them.
class GuardedWorkspace {
 public:
  GuardedWorkspace(Memory& memory, std::size_t bytes) : memory_(memory), bytes_(bytes) {
    const std::size_t total = (bytes + kGuard + 255) / 256 * 256;
    host_.reset(static_cast<std::byte*>(std::aligned_alloc(256, total)));
    std::memset(host_.get(), 0xff, total);
    if (memory_.device().type != tilegate::DeviceType::kCpu) {
      device_ = memory_.allocate(total);
      memory_.to_device(device_, host_.get(), total);
    }
    total_ = total;
  }
  ~GuardedWorkspace() {
    if (device_ != nullptr) memory_.release(device_);
  }
  GuardedWorkspace(const GuardedWorkspace&) = delete;
  GuardedWorkspace& operator=(const GuardedWorkspace&) = delete;

  tilegate::Workspace get() const {
    return {device_ != nullptr ? device_ : static_cast<void*>(host_.get()), bytes_};
  }
  bool guard_intact() {
    if (device_ != nullptr) memory_.to_host(host_.get(), device_, total_);
    for (std::size_t i = bytes_; i < total_; ++i) {
      if (host_.get()[i] != std::byte{0xff}) return false;
    }
    return true;
  }

 private:
  static constexpr std::size_t kGuard = 256;
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  Memory& memory_;
  std::size_t bytes_;
  std::size_t total_ = 0;
  std::unique_ptr<std::byte, Free> host_;
  void* device_ = nullptr;
};

}  // namespace

// cuDNN's contexts live as long as the program: they hold the graphs, each of which takes about a
// second to build.
tilegate::Context& Law::context(int threads) {
  static std::map<int, tilegate::Context> of_cudnn;
  auto& contexts = on(tilegate::Backend::kCudnn) ? of_cudnn : contexts_;
  const auto found = contexts.find(threads);
  if (found != contexts.end()) return found->second;
  tilegate::ContextOptions options;
  if (GetParam().rehearsal == nullptr) options.device = GetParam().device;
  options.num_threads = threads;
  return contexts.emplace(threads, tilegate::Context::create(options).value()).first->second;
}

Status Law::run_plan(const tilegate::Plan& plan, Call& call, int threads) {
  Memory& memory = memory_of(GetParam());
  const Snapshots before = take_snapshots(call);
  for (const Argument& argument : call.arguments()) argument.tensor->upload(memory);
  GuardedWorkspace workspace(memory, plan.workspace_bytes());
  const Status status = plan.run(context(threads), call.args(), workspace.get());
  for (const Argument& argument : call.arguments()) argument.tensor->download();
  EXPECT_TRUE(workspace.guard_intact()) << "wrote past the workspace of " << plan.kernel();
  const auto change = forbidden_change(call, before, !status.ok());
  EXPECT_FALSE(change.has_value()) << plan.kernel() << " changed " << change.value_or("");
  return status;
}

tilegate::Result<tilegate::Plan> Law::plan(Call& call, int threads) {
  call.set_backend(GetParam().backend);
  for (const Argument& argument : call.arguments()) argument.tensor->upload(memory_of(GetParam()));
  tilegate::Result<tilegate::Problem> problem = call.describe();
  if (!problem.ok()) return problem.status();
  const std::string summary = problem->summary();
  operation_ = summary.substr(0, summary.find(' '));
  if (GetParam().rehearsal != nullptr) {
    const Status admitted = GetParam().rehearsal->admit(*problem);
    if (!admitted.ok()) return admitted;
    call.set_backend(backend());
    problem = call.describe();
  }
  tilegate::Result<tilegate::Plan> plan = tilegate::plan(*problem, context(threads));
  if (plan.ok()) explain_ = plan->explain();
  return plan;
}

Status Law::attempt(Call& call, int threads) {
  const tilegate::Result<tilegate::Plan> plan = this->plan(call, threads);
  if (!plan.ok()) return plan.status();
  const std::string wanted = GetParam().rehearsal != nullptr ? "cpu" : GetParam().name;
  EXPECT_EQ(plan->backend(), wanted) << "an explicit backend fell back";
  return run_plan(*plan, call, threads);
}

void Law::expect_invalid(Call& call, const std::vector<std::string>& words) {
  const tilegate::Status status = attempt(call);
  EXPECT_EQ(status.code(), tilegate::StatusCode::kInvalidArgument) << status.to_string();
  for (const std::string& word : words) {
    EXPECT_NE(status.message().find(word), std::string::npos)
        << "\"" << status.message() << "\" must contain \"" << word << "\"";
  }
  EXPECT_EQ(status.message().find('\n'), std::string::npos) << status.message();
}

bool Law::record(const Status& status) {
  if (status.ok()) {
    ++tallies_[operation_].served;
    return true;
  }
  if (status.code() == StatusCode::kUnsupported) {
    tallies_[operation_].rejections.push_back(status.message());
  } else {
    ADD_FAILURE() << status.to_string();
  }
  return false;
}

bool Law::run(Call& call, int threads) { return record(attempt(call, threads)); }

std::shared_ptr<tilegate::Plan> Law::make_plan(Call& call, int threads) {
  const tilegate::Result<tilegate::Plan> plan = this->plan(call, threads);
  return record(plan.status()) ? std::make_shared<tilegate::Plan>(*plan) : nullptr;
}

// Where a kernel serves the operation, a law must have a shape that it serves too.
void Law::expect_something_served(const std::string& operation, const Tally& tally) const {
  if (tally.served > 0 || may_reject_) return;
  for (const std::string& rejection : tally.rejections) {
    if (GetParam().rehearsal->lacks_feature(rejection)) continue;
    ADD_FAILURE() << GetParam().name << " serves " << operation
                  << ", but no problem of this law: " << rejection;
    return;
  }
}

void Law::TearDown() {
  std::size_t served = 0;
  std::vector<std::string> rejections;
  for (const auto& [operation, tally] : tallies_) {
    if (GetParam().rehearsal != nullptr) expect_something_served(operation, tally);
    served += static_cast<std::size_t>(tally.served);
    rejections.insert(rejections.end(), tally.rejections.begin(), tally.rejections.end());
  }
  if (rejections.empty()) return;
  if (on_cpu_device() && !may_reject_) {
    ADD_FAILURE() << GetParam().name
                  << " must serve every legal problem, but: " << rejections.front();
    return;
  }
  if (served == 0) GTEST_SKIP() << rejections.front();
  std::cout << "note: " << GetParam().name << " rejected " << rejections.size() << " of "
            << rejections.size() + served << " problems of this law: " << rejections.front()
            << "\n";
}

}  // namespace laws
