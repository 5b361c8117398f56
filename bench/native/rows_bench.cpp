// SPDX-License-Identifier: Apache-2.0
// Times append_paged_kv and merge_states beside a plain copy of as many bytes, in recordings of ten
// calls on one GPU: a row a shape, median microseconds a call, bytes read and written over it, and
// the same of the copy. bf16, 8 KV heads (append) and 32 heads (merge) of 128; pages of 16 tokens
// in random order.
//
//   rows_bench [--repeats N]
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "bench/native/device_calls.h"

namespace {

using namespace tilegate;
using namespace tilegate::bench;

constexpr std::int64_t kDim = 128;
constexpr std::int64_t kPage = 16;

class Bench {
 public:
  explicit Bench(int repeats)
      : repeats_(repeats),
        context_(Context::create({.device = kGpu}).value()),
        stream_(Stream::create(kGpu).value()) {}

  void append(std::int64_t tokens) {
    constexpr std::int64_t kHeads = 8;
    const std::int64_t pages = (tokens + kPage - 1) / kPage;
    const std::int64_t bytes = tokens * kHeads * kDim * 2;
    const DeviceBuffer k = zeros(bytes);
    const DeviceBuffer v = zeros(bytes);
    const DeviceBuffer k_cache = zeros(pages * kPage * kHeads * kDim * 2);
    const DeviceBuffer v_cache = zeros(pages * kPage * kHeads * kDim * 2);
    std::vector<std::int32_t> order(static_cast<std::size_t>(pages));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937(1));
    std::vector<std::int32_t> place(static_cast<std::size_t>(tokens));
    std::iota(place.begin(), place.end(), 0);
    const DeviceBuffer table = copy_of(order);
    const DeviceBuffer positions = copy_of(place);
    const DeviceBuffer lens = copy_of(std::vector<std::int32_t>{static_cast<std::int32_t>(tokens)});
    AppendPagedKvArgs args;
    args.k = view(k, DType::kBFloat16, {tokens, kHeads, kDim});
    args.v = view(v, DType::kBFloat16, {tokens, kHeads, kDim});
    args.positions = view(positions, DType::kInt32, {tokens});
    args.k_cache = view(k_cache, DType::kBFloat16, {pages, kPage, kHeads, kDim});
    args.v_cache = view(v_cache, DType::kBFloat16, {pages, kPage, kHeads, kDim});
    args.table.block_tables = view(table, DType::kInt32, {1, pages});
    args.table.kv_lens = view(lens, DType::kInt32, {1});
    row(fmt::format("append {} tokens", tokens), describe(args, AppendOptions{}).value(), args,
        4 * bytes);
  }

  void merge(std::int64_t rows, std::int64_t parts) {
    constexpr std::int64_t kHeads = 32;
    const std::int64_t part_bytes = rows * kHeads * kDim * 2;
    const DeviceBuffer v = zeros(parts * part_bytes);
    const DeviceBuffer s = zeros(rows * parts * kHeads * 4);
    const DeviceBuffer o = zeros(part_bytes);
    const DeviceBuffer lse = zeros(rows * kHeads * 4);
    MergeStatesArgs args;
    args.v = view(v, DType::kBFloat16, {rows, parts, kHeads, kDim});
    args.s = view(s, DType::kFloat32, {rows, parts, kHeads});
    args.o = view(o, DType::kBFloat16, {rows, kHeads, kDim});
    args.lse = view(lse, DType::kFloat32, {rows, kHeads});
    row(fmt::format("merge {} rows of {} parts", rows, parts),
        describe(args, MergeOptions{}).value(), args,
        (parts + 1) * (part_bytes + rows * kHeads * 4));
  }

 private:
  // `bytes`: read and written by a call together; the copy reads half of them and writes half.
  void row(const std::string& name, const Problem& problem, const CallArgs& args,
           std::int64_t bytes) {
    const Plan call = plan(problem, context_).value();
    const DeviceBuffer workspace = zeros(static_cast<std::int64_t>(call.workspace_bytes()));
    const double us = median_us(stream_, repeats_, [&](int) {
      return call.run(context_, args, {workspace.data(), workspace.bytes()}, stream_.handle());
    });
    const double copy = copy_us(stream_, repeats_, bytes / 2);
    fmt::print("{:28} {:8} {:9.2f} {:7.0f} {:9.2f} {:7.0f} {:6.3f}\n", name, call.kernel(), us,
               static_cast<double>(bytes) / us * 1e-3, copy,
               static_cast<double>(bytes) / copy * 1e-3, us / copy);
  }

  int repeats_;
  Context context_;
  Stream stream_;
};

}  // namespace

int main(int argc, char** argv) {
  Bench bench(repeats_of(argc, argv));
  fmt::print("{:28} {:8} {:>9} {:>7} {:>9} {:>7} {:>6}\n", "call", "kernel", "us", "GB/s",
             "copy us", "GB/s", "ratio");
  for (std::int64_t tokens : {256, 4096, 16384, 131072}) bench.append(tokens);
  bench.merge(64, 8);
  bench.merge(4096, 2);
  bench.merge(4096, 8);
  bench.merge(16384, 8);
  return 0;
}
