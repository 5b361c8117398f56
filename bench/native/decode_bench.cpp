// SPDX-License-Identifier: Apache-2.0
// Times cuda.decode through the public API in CUDA graphs of ten calls, and prints a row a shape:
// median, 20th and 80th percentile a call, and KV bytes over the median. Warm: the ten calls read
// one cache. Cold: they rotate over caches of 512 MB together. Eager: ten calls between two events,
// without a graph.
//
//   decode_bench [--only TEXT] [--repeats N] [--page N] [--layout nhd|hnd]
//                [--order random|rising]
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "tilegate/device_memory.h"
#include "tilegate/tilegate.h"

namespace {

using namespace tilegate;

constexpr int kCallsPerGraph = 10;
constexpr std::int64_t kColdBytes = std::int64_t{512} << 20;

struct Shape {
  const char* name;
  std::int64_t batch, kv_len, heads_q, heads_kv;
  std::int64_t dim = 128;
  std::int64_t q_len = 1;
  bool invariant = false;
};

constexpr Shape kShapes[] = {
    {"b1_kv8192_32/8", 1, 8192, 32, 8},
    {"b1_kv131072_32/8", 1, 131072, 32, 8},
    {"b16_kv4096_32/8", 16, 4096, 32, 8},
    {"b64_kv4096_32/8", 64, 4096, 32, 8},
    {"b256_kv1024_32/8", 256, 1024, 32, 8},
    {"b64_kv4096_64/8", 64, 4096, 64, 8},
    {"b32_kv8192_12/4", 32, 8192, 12, 4},
    {"b128_kv8192_8/1", 128, 8192, 8, 1},
    {"b1_kv1024_32/8", 1, 1024, 32, 8},
    {"b8_kv2048_32/8", 8, 2048, 32, 8},
    {"b1_kv64_32/8", 1, 64, 32, 8},
    {"b1_kv128_32/8", 1, 128, 32, 8},
    {"b64_kv4096_32/8_q4", 64, 4096, 32, 8, 128, 4},
    {"b64_kv4096_32/8_q8", 64, 4096, 32, 8, 128, 8},
    {"b64_kv4096_32/8_q16", 64, 4096, 32, 8, 128, 16},
    {"b64_kv4096_32/8_d64", 64, 4096, 32, 8, 64},
    {"b32_kv4096_32/8_d256", 32, 4096, 32, 8, 256},
    {"b64_kv4096_32/8_inv", 64, 4096, 32, 8, 128, 1, true},
    {"b1_kv131072_32/8_inv", 1, 131072, 32, 8, 128, 1, true},
    {"b1_kv8192_32/8_inv", 1, 8192, 32, 8, 128, 1, true},
};

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  fmt::print("error: {}: {}\n", what, cudaGetErrorString(error));
  std::exit(4);
}

struct Quantiles {
  double p20 = 0.0, median = 0.0, p80 = 0.0;
};

Quantiles quantiles(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const auto at = [&](double q) {
    return samples[static_cast<std::size_t>(q * static_cast<double>(samples.size() - 1))];
  };
  return {at(0.2), at(0.5), at(0.8)};
}

DeviceBuffer allocate(std::int64_t bytes) {
  return DeviceBuffer::allocate({DeviceType::kCuda, 0}, static_cast<std::size_t>(bytes)).value();
}

// bf16 values of magnitude 2^-3 to 1 with random signs and mantissas, one block repeated.
void fill_random(DeviceBuffer& buffer) {
  static const std::vector<std::uint16_t> block = [] {
    std::vector<std::uint16_t> values(std::size_t{1} << 22);
    std::uint64_t state = 7;
    for (std::uint16_t& x : values) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      const auto bits = static_cast<std::uint32_t>(state >> 40);
      x = static_cast<std::uint16_t>((bits & 0x807fu) | ((124u + (bits >> 8 & 3u)) << 7));
    }
    return values;
  }();
  const std::size_t size = block.size() * sizeof(block[0]);
  buffer.copy_from_host(block.data(), std::min(size, buffer.bytes())).throw_if_error();
  char* data = static_cast<char*>(buffer.data());
  for (std::size_t done = size; done < buffer.bytes(); done *= 2) {
    const std::size_t more = std::min(done, buffer.bytes() - done);
    check(cudaMemcpy(data + done, data, more, cudaMemcpyDeviceToDevice), "fill");
  }
}

struct Setting {
  std::int64_t page = 16;
  KvLayout layout = KvLayout::kNhd;
  bool random_order = true;  // of pages in the caches
  int repeats = 20;
};

// One decode call's tensors; `caches` of them to rotate over.
class Call {
 public:
  Call(const Shape& s, const Setting& set, int caches)
      : s_(s), page_size_(set.page), layout_(set.layout) {
    pages_ = s.batch * ((s.kv_len + set.page - 1) / set.page);
    const std::int64_t cache_bytes = pages_ * set.page * s.heads_kv * s.dim * 2;
    for (int i = 0; i < 2 * caches; ++i) {
      caches_.push_back(allocate(cache_bytes));
      fill_random(caches_.back());
    }
    q_ = allocate(s.batch * s.q_len * s.heads_q * s.dim * 2);
    fill_random(q_);
    o_ = allocate(s.batch * s.q_len * s.heads_q * s.dim * 2);
    table_ = allocate(pages_ * 4);
    lens_ = allocate(s.batch * 4);
    std::vector<std::int32_t> order(static_cast<std::size_t>(pages_));
    std::iota(order.begin(), order.end(), 0);
    std::uint64_t state = 1;
    for (std::size_t i = set.random_order ? order.size() : 0; i > 1; --i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      std::swap(order[i - 1], order[(state >> 33) % i]);
    }
    table_.copy_from_host(order.data(), order.size() * 4).throw_if_error();
    const std::vector<std::int32_t> lens(static_cast<std::size_t>(s.batch),
                                         static_cast<std::int32_t>(s.kv_len));
    lens_.copy_from_host(lens.data(), lens.size() * 4).throw_if_error();
  }

  DecodePagedArgs args(int cache) const {
    const Device device{DeviceType::kCuda, 0};
    const auto view = [&](const DeviceBuffer& b, DType t, std::initializer_list<std::int64_t> d) {
      return TensorView::packed(b.data(), t, d, device);
    };
    const DType type = DType::kBFloat16;
    DecodePagedArgs a;
    a.q = view(q_, type, {s_.batch * s_.q_len, s_.heads_q, s_.dim});
    a.o = view(o_, type, {s_.batch * s_.q_len, s_.heads_q, s_.dim});
    const auto at = static_cast<std::size_t>(2 * cache);
    const bool nhd = layout_ == KvLayout::kNhd;
    const std::int64_t second = nhd ? page_size_ : s_.heads_kv;
    const std::int64_t third = nhd ? s_.heads_kv : page_size_;
    a.k_cache = view(caches_[at], type, {pages_, second, third, s_.dim});
    a.v_cache = view(caches_[at + 1], type, {pages_, second, third, s_.dim});
    a.table.block_tables = view(table_, DType::kInt32, {s_.batch, pages_ / s_.batch});
    a.table.kv_lens = view(lens_, DType::kInt32, {s_.batch});
    return a;
  }

 private:
  Shape s_;
  std::int64_t page_size_;
  KvLayout layout_;
  std::int64_t pages_ = 0;
  std::vector<DeviceBuffer> caches_;
  DeviceBuffer q_, o_, table_, lens_;
};

// Microseconds a call of `enqueue(i)`, i in [0, kCallsPerGraph).
template <class F>
Quantiles time_calls(cudaStream_t stream, int repeats, bool in_graph, F enqueue) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  if (in_graph) {
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
    for (int i = 0; i < kCallsPerGraph; ++i) enqueue(i);
    check(cudaStreamEndCapture(stream, &graph), "end of capture");
    check(cudaGraphInstantiate(&exec, graph, 0), "instantiate");
  }
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  check(cudaEventCreate(&begin), "event");
  check(cudaEventCreate(&end), "event");
  std::vector<double> samples;
  for (int r = -3; r < repeats; ++r) {
    check(cudaEventRecord(begin, stream), "record");
    if (in_graph) {
      check(cudaGraphLaunch(exec, stream), "graph launch");
    } else {
      for (int i = 0; i < kCallsPerGraph; ++i) enqueue(i);
    }
    check(cudaEventRecord(end, stream), "record");
    check(cudaEventSynchronize(end), "synchronise");
    float ms = 0.0f;
    check(cudaEventElapsedTime(&ms, begin, end), "elapsed");
    if (r >= 0) samples.push_back(1e3 * ms / kCallsPerGraph);
  }
  check(cudaEventDestroy(begin), "event");
  check(cudaEventDestroy(end), "event");
  if (exec != nullptr) check(cudaGraphExecDestroy(exec), "destroy");
  if (graph != nullptr) check(cudaGraphDestroy(graph), "destroy");
  return quantiles(std::move(samples));
}

void bench(Context& context, const Shape& s, const Setting& set, cudaStream_t stream) {
  const std::int64_t bytes = 2 * s.batch * s.kv_len * s.heads_kv * s.dim * 2;
  const int caches = static_cast<int>(
      std::clamp<std::int64_t>((kColdBytes + bytes - 1) / bytes, 1, kCallsPerGraph));
  const Call call(s, set, caches);
  AttentionOptions options;
  options.q_len_per_req = s.q_len;
  options.batch_invariant = s.invariant;
  options.kv_layout = set.layout;
  options.backend = Backend::kCuda;
  const Plan decode = plan(describe(call.args(0), options).value(), context).value();
  DeviceBuffer workspace = allocate(static_cast<std::int64_t>(decode.workspace_bytes()));
  const auto run = [&](int cache) {
    decode.run(context, call.args(cache), {workspace.data(), workspace.bytes()}, stream)
        .throw_if_error();
  };
  const Quantiles warm = time_calls(stream, set.repeats, true, [&](int) { run(0); });
  const Quantiles cold = time_calls(stream, set.repeats, true, [&](int i) { run(i % caches); });
  const Quantiles eager = time_calls(stream, set.repeats, false, [&](int) { run(0); });
  const double gbps = static_cast<double>(bytes) / warm.median * 1e-3;
  fmt::print("{:22} {:8.2f} {:8.2f} {:8.2f} {:7.0f} {:8.2f} {:8.2f}\n", s.name, warm.median,
             warm.p20, warm.p80, gbps, cold.median, eager.median);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  std::string only;
  Setting set;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--only") == 0) only = argv[i + 1];
    if (std::strcmp(argv[i], "--repeats") == 0) set.repeats = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--page") == 0) set.page = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--order") == 0) {
      set.random_order = std::strcmp(argv[i + 1], "rising") != 0;
    }
    if (std::strcmp(argv[i], "--layout") == 0 && std::strcmp(argv[i + 1], "hnd") == 0) {
      set.layout = KvLayout::kHnd;
    }
  }
  Context context = Context::create({.device = {DeviceType::kCuda, 0}}).value();
  cudaStream_t stream = nullptr;
  check(cudaStreamCreate(&stream), "stream");
  fmt::print("page {}\n", set.page);
  fmt::print("{:22} {:>8} {:>8} {:>8} {:>7} {:>8} {:>8}\n", "shape", "warm us", "p20", "p80",
             "GB/s", "cold us", "eager us");
  for (const Shape& shape : kShapes) {
    if (std::string(shape.name).find(only) == std::string::npos) continue;
    bench(context, shape, set, stream);
  }
  check(cudaStreamDestroy(stream), "stream");
  return 0;
}
