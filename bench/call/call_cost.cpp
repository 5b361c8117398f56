// SPDX-License-Identifier: Apache-2.0
// Host time of a call from C++: small calls of which nearly nothing is left but planning, checks
// and the launch. Prints `<call> <form> <microseconds>` lines for call_cost.py, which has the same
// calls and says what Python adds. Form: `one-shot` plans every time, `plan` runs a kept plan. The
// least of many batches counts; on a GPU a batch is shorter than the launch queue and is waited
// for outside the clock.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tilegate/device_memory.h"
#include "tilegate/device_timing.h"
#include "tilegate/tilegate.h"

namespace {

using tilegate::DType;
using tilegate::Result;
using tilegate::Status;
using tilegate::TensorView;

constexpr int kBatches = 60;
constexpr int kCallsPerBatch = 50;

// Tensors of zeros on a device. The first error stays in `status`.
class Memory {
 public:
  explicit Memory(tilegate::Device device) : device_(device) {}

  TensorView zeros(DType dtype, std::initializer_list<std::int64_t> shape) {
    TensorView view = TensorView::packed(nullptr, dtype, shape);
    view.device = device_;
    auto made = tilegate::DeviceBuffer::allocate(
        device_, static_cast<std::size_t>(view.numel() * size_of(dtype)));
    if (made.ok()) status = made->fill(0);
    if (!made.ok()) status = made.status();
    if (!status.ok()) return view;
    view.data = made->data();
    buffers_.push_back(std::move(*made));
    return view;
  }

  TensorView index(std::int32_t value) {
    TensorView view = zeros(DType::kInt32, {1});
    if (status.ok()) status = buffers_.back().copy_from_host(&value, sizeof value);
    return view;
  }

  Status status;

 private:
  tilegate::Device device_;
  std::vector<tilegate::DeviceBuffer> buffers_;
};

struct Call {
  const char* name;
  tilegate::CallArgs args;
  Result<tilegate::Problem> problem;
  std::function<Status(tilegate::Context&, void*)> one_shot;
};

Call decode_call(Memory& memory) {
  tilegate::DecodePagedArgs args;
  args.q = memory.zeros(DType::kFloat16, {1, 4, 64});
  args.o = memory.zeros(DType::kFloat16, {1, 4, 64});
  args.k_cache = memory.zeros(DType::kFloat16, {1, 16, 2, 64});
  args.v_cache = memory.zeros(DType::kFloat16, {1, 16, 2, 64});
  args.table.block_tables = memory.zeros(DType::kInt32, {1, 1});
  args.table.kv_lens = memory.index(16);
  return {"decode", args, describe(args), [args](auto& context, void* stream) {
            return batch_decode_paged(context, args, {}, stream);
          }};
}

Call dense_call(Memory& memory) {
  tilegate::PrefillRaggedArgs args;
  args.q = memory.zeros(DType::kFloat16, {1, 16, 4, 64});
  args.k = memory.zeros(DType::kFloat16, {1, 16, 4, 64});
  args.v = memory.zeros(DType::kFloat16, {1, 16, 4, 64});
  args.o = memory.zeros(DType::kFloat16, {1, 16, 4, 64});
  return {"dense", args, describe(args), [args](auto& context, void* stream) {
            return batch_prefill_ragged(context, args, {}, stream);
          }};
}

Call merge_call(Memory& memory) {
  tilegate::MergeStatesArgs args;
  args.v = memory.zeros(DType::kFloat16, {1, 2, 4, 64});
  args.s = memory.zeros(DType::kFloat32, {1, 2, 4});
  args.o = memory.zeros(DType::kFloat16, {1, 4, 64});
  args.lse = memory.zeros(DType::kFloat32, {1, 4});
  return {"merge", args, describe(args),
          [args](auto& context, void* stream) { return merge_states(context, args, {}, stream); }};
}

Call delta_call(Memory& memory) {
  tilegate::DeltaRuleArgs args;
  args.q = memory.zeros(DType::kFloat16, {1, 1, 2, 64});
  args.k = memory.zeros(DType::kFloat16, {1, 1, 2, 64});
  args.v = memory.zeros(DType::kFloat16, {1, 1, 2, 64});
  args.o = memory.zeros(DType::kFloat16, {1, 1, 2, 64});
  args.a = memory.zeros(DType::kFloat16, {1, 1, 2});
  args.b = memory.zeros(DType::kFloat16, {1, 1, 2});
  args.A_log = memory.zeros(DType::kFloat32, {2});
  args.dt_bias = memory.zeros(DType::kFloat32, {2});
  args.state_pool = memory.zeros(DType::kFloat32, {1, 2, 64, 64});
  args.state_indices = memory.zeros(DType::kInt32, {1});
  return {"delta-decode", args, describe(tilegate::DeltaRule::kGatedDeltaRuleDecode, args),
          [args](auto& context, void* stream) {
            return gated_delta_rule_decode(context, args, {}, stream);
          }};
}

// Microseconds a call; the first error of `work` otherwise.
Result<double> least_us(const tilegate::Stream& stream, const tilegate::Work& work) {
  using Clock = std::chrono::steady_clock;
  double least = 1e9;
  for (int batch = 0; batch < kBatches; ++batch) {
    const auto start = Clock::now();
    for (int call = 0; call < kCallsPerBatch; ++call) {
      if (Status status = work(); !status.ok()) return status;
    }
    const std::chrono::duration<double, std::micro> elapsed = Clock::now() - start;
    least = std::min(least, elapsed.count() / kCallsPerBatch);
    if (Status status = stream.synchronize(); !status.ok()) return status;
  }
  return least;
}

Status print_us(const char* call, const char* form, const Result<double>& us) {
  if (us.ok()) std::printf("%s %s %.3f\n", call, form, *us);
  return us.status();
}

Status measure(tilegate::Context& context, const tilegate::Stream& stream, const Call& call) {
  if (!call.problem.ok()) return call.problem.status();
  void* handle = stream.handle();
  Result<tilegate::Plan> planned = plan(*call.problem, context);
  if (!planned.ok()) return planned.status();
  auto scratch = tilegate::DeviceBuffer::allocate(
      context.device(), std::max<std::size_t>(planned->workspace_bytes(), 1));
  if (!scratch.ok()) return scratch.status();
  const auto one_shot = [&] { return call.one_shot(context, handle); };
  const auto run = [&] {
    return planned->run(context, call.args, {scratch->data(), scratch->bytes()}, handle);
  };
  if (Status s = print_us(call.name, "one-shot", least_us(stream, one_shot)); !s.ok()) return s;
  return print_us(call.name, "plan", least_us(stream, run));
}

Status measure_all(tilegate::Device device) {
  auto context = tilegate::Context::create({.device = device, .num_threads = 1});
  if (!context.ok()) return context.status();
  auto stream = tilegate::Stream::create(device);
  if (!stream.ok()) return stream.status();
  Memory memory(device);
  for (auto* make : {decode_call, dense_call, merge_call, delta_call}) {
    const Call call = make(memory);
    if (!memory.status.ok()) return memory.status;
    if (Status status = measure(*context, *stream, call); !status.ok()) return status;
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "cpu";
  if (argc > 2 || (name != "cpu" && name != "cuda")) {
    std::fprintf(stderr, "usage: call_cost [cpu|cuda]\n");
    return 2;
  }
  tilegate::Device device;
  if (name == "cuda") device.type = tilegate::DeviceType::kCuda;
  const Status status = measure_all(device);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
