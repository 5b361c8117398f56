// SPDX-License-Identifier: Apache-2.0
// Times gated_delta_rule_decode beside a plain copy of as many bytes, in recordings of ten calls on
// one GPU: a row a shape, median microseconds a call, bytes of the states read and written over it,
// and the same of the copy. 16 q and k heads, 32 v heads of 128 x 128, q k v bf16, l2 norm, states
// updated in place in a pool whose slots are in random order. warm: the calls of a recording use
// one pool; cold: they take ten pools in turn, or fewer of 400 MB together (the pools of small
// batches stay in the L2 all the same).
//
//   delta_bench [--repeats N]
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "bench/native/device_calls.h"

namespace {

using namespace tilegate;
using namespace tilegate::bench;

constexpr std::int64_t kDim = 128;
constexpr std::int64_t kHeads = 16;
constexpr std::int64_t kStateHeads = 32;
constexpr std::int64_t kColdBytes = 400 << 20;  // of all pools

// Values of bf16 in [1, 2) or (-2, -1].
DeviceBuffer random_bf16(std::int64_t elements, std::mt19937& random) {
  std::vector<std::uint16_t> values(static_cast<std::size_t>(elements));
  for (auto& x : values) x = static_cast<std::uint16_t>(0x3f80U | (random() & 0x807fU));
  return copy_of(values);
}

// One call's shape.
struct Shape {
  DType state;
  std::int64_t seqs;
  std::int64_t tokens;
};

// The tensors of calls that differ in their pool.
class Calls {
 public:
  Calls(const Shape& shape, std::int64_t pools)
      : shape_(shape),
        q_(random_bf16(rows() * kHeads * kDim, random_)),
        k_(random_bf16(rows() * kHeads * kDim, random_)),
        v_(random_bf16(rows() * kStateHeads * kDim, random_)),
        a_(random_bf16(rows() * kStateHeads, random_)),
        b_(random_bf16(rows() * kStateHeads, random_)),
        o_(zeros(rows() * kStateHeads * kDim * 2)),
        head_values_(zeros(kStateHeads * 4)) {
    std::vector<std::int32_t> order(static_cast<std::size_t>(shape.seqs));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random_);
    slots_ = copy_of(order);
    for (std::int64_t i = 0; i < pools; ++i) pools_.push_back(zeros(pool_bytes()));
  }

  std::int64_t pool_bytes() const {
    return shape_.seqs * kStateHeads * kDim * kDim * size_of(shape_.state);
  }
  std::int64_t pools() const { return static_cast<std::int64_t>(pools_.size()); }

  DeltaRuleArgs args(std::int64_t pool) const {
    const std::int64_t seqs = shape_.seqs;
    const std::int64_t tokens = shape_.tokens;
    DeltaRuleArgs args;
    args.q = view(q_, DType::kBFloat16, {seqs, tokens, kHeads, kDim});
    args.k = view(k_, DType::kBFloat16, {seqs, tokens, kHeads, kDim});
    args.v = view(v_, DType::kBFloat16, {seqs, tokens, kStateHeads, kDim});
    args.o = view(o_, DType::kBFloat16, {seqs, tokens, kStateHeads, kDim});
    args.a = view(a_, DType::kBFloat16, {seqs, tokens, kStateHeads});
    args.b = view(b_, DType::kBFloat16, {seqs, tokens, kStateHeads});
    args.A_log = view(head_values_, DType::kFloat32, {kStateHeads});
    args.dt_bias = view(head_values_, DType::kFloat32, {kStateHeads});
    args.state_pool =
        view(pools_[static_cast<std::size_t>(pool)], shape_.state, {seqs, kStateHeads, kDim, kDim});
    args.state_indices = view(slots_, DType::kInt32, {seqs});
    return args;
  }

 private:
  std::int64_t rows() const { return shape_.seqs * shape_.tokens; }

  Shape shape_;
  std::mt19937 random_{1};
  DeviceBuffer q_, k_, v_, a_, b_, o_, head_values_, slots_;
  std::vector<DeviceBuffer> pools_;
};

class Bench {
 public:
  explicit Bench(int repeats)
      : repeats_(repeats),
        context_(Context::create({.device = kGpu}).value()),
        stream_(Stream::create(kGpu).value()) {}

  void row(const Shape& shape) {
    const std::int64_t pool_bytes = shape.seqs * kStateHeads * kDim * kDim * size_of(shape.state);
    const Calls calls(shape, std::clamp<std::int64_t>(kColdBytes / pool_bytes, 2, kCalls));
    const DeltaRuleOptions options;
    const Plan call =
        plan(describe(DeltaRule::kGatedDeltaRuleDecode, calls.args(0), options).value(), context_)
            .value();
    const auto run = [&](std::int64_t pool) {
      return call.run(context_, calls.args(pool), {}, stream_.handle());
    };
    const double warm = median_us(stream_, repeats_, [&](int) { return run(0); });
    const double cold = median_us(stream_, repeats_, [&](int i) { return run(i % calls.pools()); });
    const double copy = copy_us(stream_, repeats_, pool_bytes);
    const auto gbps = [&](double us) { return 2e-3 * static_cast<double>(pool_bytes) / us; };
    fmt::print("{:4} {:4} {:3} {:18} {:8.2f} {:6.0f} {:8.2f} {:6.0f} {:8.2f} {:6.0f} {:6.3f}\n",
               shape.state == DType::kFloat32 ? "fp32" : "bf16", shape.seqs, shape.tokens,
               call.kernel(), warm, gbps(warm), cold, gbps(cold), copy, gbps(copy), warm / copy);
  }

 private:
  int repeats_;
  Context context_;
  Stream stream_;
};

}  // namespace

int main(int argc, char** argv) {
  Bench bench(repeats_of(argc, argv));
  fmt::print("{:4} {:>4} {:>3} {:18} {:>8} {:>6} {:>8} {:>6} {:>8} {:>6} {:>6}\n", "type", "B", "T",
             "kernel", "us", "GB/s", "cold us", "GB/s", "copy us", "GB/s", "ratio");
  for (const DType state : {DType::kFloat32, DType::kBFloat16}) {
    for (const std::int64_t seqs : {1, 4, 16, 64, 256}) bench.row({state, seqs, 1});
    for (const std::int64_t tokens : {2, 4, 8, 16}) bench.row({state, 64, tokens});
  }
  return 0;
}
