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

tilegate::Context& Law::context(int threads) {
  const auto found = contexts_.find(threads);
  if (found != contexts_.end()) return found->second;
  tilegate::ContextOptions options;
  options.device = GetParam().device;
  options.num_threads = threads;
  return contexts_.emplace(threads, tilegate::Context::create(options).value()).first->second;
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

Status Law::attempt(Call& call, int threads) {
  call.set_backend(GetParam().backend);
  for (const Argument& argument : call.arguments()) argument.tensor->upload(memory_of(GetParam()));
  tilegate::Result<tilegate::Problem> problem = call.describe();
  if (!problem.ok()) return problem.status();
  tilegate::Result<tilegate::Plan> plan = tilegate::plan(*problem, context(threads));
  if (!plan.ok()) return plan.status();
  explain_ = plan->explain();
  EXPECT_EQ(plan->backend(), GetParam().name) << "an explicit backend fell back";
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

bool Law::run(Call& call, int threads) {
  const Status status = attempt(call, threads);
  if (status.ok()) {
    ++served_;
    return true;
  }
  if (status.code() == StatusCode::kUnsupported) {
    rejections_.push_back(status.message());
  } else {
    ADD_FAILURE() << status.to_string();
  }
  return false;
}

std::shared_ptr<tilegate::Plan> Law::make_plan(Call& call, int threads) {
  call.set_backend(GetParam().backend);
  for (const Argument& argument : call.arguments()) argument.tensor->upload(memory_of(GetParam()));
  tilegate::Result<tilegate::Problem> problem = call.describe();
  if (!problem.ok()) {
    ADD_FAILURE() << problem.status().to_string();
    return nullptr;
  }
  tilegate::Result<tilegate::Plan> plan = tilegate::plan(*problem, context(threads));
  if (!plan.ok()) {
    if (plan.status().code() == StatusCode::kUnsupported) {
      rejections_.push_back(plan.status().message());
    } else {
      ADD_FAILURE() << plan.status().to_string();
    }
    return nullptr;
  }
  ++served_;
  explain_ = plan->explain();
  return std::make_shared<tilegate::Plan>(*plan);
}

void Law::TearDown() {
  if (rejections_.empty()) return;
  if (on_cpu_device() && !may_reject_) {
    ADD_FAILURE() << GetParam().name
                  << " must serve every legal problem, but: " << rejections_.front();
    return;
  }
  if (served_ == 0) GTEST_SKIP() << rejections_.front();
  std::cout << "note: " << GetParam().name << " rejected " << rejections_.size() << " of "
            << rejections_.size() + static_cast<std::size_t>(served_)
            << " problems of this law: " << rejections_.front() << "\n";
}

std::vector<UnderTest> backends_under_test() {
  std::vector<UnderTest> under_test;
  for (const tilegate::BackendInfo& info : tilegate::backends()) {
    if (!info.available) continue;
    UnderTest entry;
    entry.name = info.name;
    if (info.name == "reference") {
      entry.backend = tilegate::Backend::kReference;
    } else if (info.name == "cpu") {
      entry.backend = tilegate::Backend::kCpu;
    } else if (info.name == "cuda") {
      entry.backend = tilegate::Backend::kCuda;
      entry.device.type = tilegate::DeviceType::kCuda;
    } else if (info.name == "cudnn") {
      entry.backend = tilegate::Backend::kCudnn;
      entry.device.type = tilegate::DeviceType::kCuda;
    } else {
      continue;
    }
    under_test.push_back(entry);
  }
  return under_test;
}

}  // namespace laws
