// SPDX-License-Identifier: Apache-2.0
// Graphs of append_paged_kv and commit: a captured launch reads positions, pages, slots and
// accepted counts when it replays. Decode's replays are in decode_test.cpp and
// delta_decode_test.cpp.
#include <gtest/gtest.h>

#include <optional>

#include "tests/gpu/linear/delta_case.h"
#include "tilegate/device_timing.h"

namespace tilegate::test {
namespace {

constexpr Device kGpu{DeviceType::kCuda, 0};

class ReplayGpu : public testing::Test {
 protected:
  void SetUp() override {
    TILEGATE_REQUIRE_GPU(80);
    cuda_.emplace(Context::create({.device = kGpu}).value());
    stream_.emplace(Stream::create(kGpu).value());
  }

  // A plan on the GPU, recorded. Args: AppendPagedKvArgs or CommitArgs.
  template <class Args, class Options>
  Recording record(const Args& args, Options options) {
    options.backend = Backend::kCuda;
    const Plan plan = tilegate::plan(describe(args, options).value(), *cuda_).value();
    EXPECT_EQ(plan.workspace_bytes(), 0u);
    return Recording::capture(*stream_,
                              [=, this] { return plan.run(*cuda_, args, {}, stream_->handle()); })
        .value();
  }
  void replay(const Recording& recording) {
    recording.replay(*stream_).throw_if_error();
    stream_->synchronize().throw_if_error();
  }

 private:
  std::optional<Context> cuda_;
  std::optional<Stream> stream_;
};

TEST_F(ReplayGpu, AppendsAtNewPositionsOfNewPages) {
  constexpr int kTokens = 5, kPages = 9, kSlots = 4;
  Random random(31);
  Mirror k(DType::kFloat16, {kTokens, 2, 64}), v(DType::kFloat16, {kTokens, 2, 64});
  Mirror k_cache(DType::kFloat16, {kPages, kSlots, 2, 64});
  Mirror v_cache(DType::kFloat16, {kPages, kSlots, 2, 64});
  Mirror requests(DType::kInt32, {kTokens}), positions(DType::kInt32, {kTokens});
  Mirror table(DType::kInt32, {2, 4}), lens(DType::kInt32, {2});
  k_cache.fill(0.0f);
  v_cache.fill(0.0f);
  const std::initializer_list<Mirror*> all = {&k,        &v,         &k_cache, &v_cache,
                                              &requests, &positions, &table,   &lens};
  const auto args = [&](TensorView (Mirror::*view)()) {
    AppendPagedKvArgs a;
    a.k = (k.*view)(), a.v = (v.*view)();
    a.k_cache = (k_cache.*view)(), a.v_cache = (v_cache.*view)();
    a.batch_indices = (requests.*view)(), a.positions = (positions.*view)();
    a.table.block_tables = (table.*view)(), a.table.kv_lens = (lens.*view)();
    return a;
  };
  // Round n: tokens 0..4 of both requests at positions from n, one skipped, pages rotated by n.
  const auto set_round = [&](int n) {
    k.draw(random, -1.0f, 1.0f);
    v.draw(random, -1.0f, 1.0f);
    for (int t = 0; t < kTokens; ++t) {
      requests.set_index(t, t % 2);
      positions.set_index(t, t == n % kTokens ? -1 : t + n);
    }
    for (int i = 0; i < 8; ++i) table.set_index(i, (i + n) % kPages);
    for (int b = 0; b < 2; ++b) lens.set_index(b, 4 * kSlots);
    for (Mirror* m : all) m->push();
  };
  set_round(0);
  const Recording recording = record(args(&Mirror::device), AppendOptions{});
  Context cpu = Context::create({}).value();
  for (const int n : {0, 3, 11}) {
    set_round(n);
    replay(recording);
    const auto got_k = k_cache.read(), got_v = v_cache.read();
    AppendOptions reference;
    reference.backend = Backend::kReference;
    append_paged_kv(cpu, args(&Mirror::host), reference).throw_if_error();
    EXPECT_EQ(got_k, k_cache.bytes()) << "round " << n;
    EXPECT_EQ(got_v, v_cache.bytes()) << "round " << n;
  }
}

TEST_F(ReplayGpu, CommitsNewCountsIntoNewSlots) {
  constexpr int kSeqs = 3, kTokens = 4, kSlots = 7;
  Random random(32);
  Mirror pool(DType::kFloat32, {kSlots, 4, 16, 64}), slots(DType::kInt32, {kSeqs});
  Mirror k(DType::kFloat32, {kSeqs, kTokens, 2, 64}), d(DType::kFloat32, {kSeqs, kTokens, 4, 16});
  Mirror decay(DType::kFloat32, {kSeqs, kTokens, 4}), accepted(DType::kInt32, {kSeqs});
  pool.draw(random, -1.0f, 1.0f);
  k.draw(random, -0.2f, 0.2f);
  d.draw(random, -1.0f, 1.0f);
  decay.draw(random, -1.0f, 0.0f);
  const std::initializer_list<Mirror*> all = {&pool, &slots, &k, &d, &decay, &accepted};
  const auto args = [&](TensorView (Mirror::*view)()) {
    CommitArgs a;
    a.state_pool = (pool.*view)(), a.state_indices = (slots.*view)();
    a.record_k = (k.*view)(), a.record_d = (d.*view)(), a.record_decay = (decay.*view)();
    a.accepted = (accepted.*view)();
    return a;
  };
  const auto set_round = [&](int n) {
    for (int i = 0; i < kSeqs; ++i) {
      slots.set_index(i, i == n ? -1 : (2 * i + n) % kSlots);
      accepted.set_index(i, (i + 2 * n) % (kTokens + 1));
    }
    for (Mirror* m : all) m->push();
  };
  set_round(0);
  const Recording recording = record(args(&Mirror::device), CommitOptions{});
  Context cpu = Context::create({}).value();
  for (const int n : {0, 1, 2}) {
    set_round(n);
    replay(recording);
    const auto got = pool.read();
    CommitOptions reference;
    reference.backend = Backend::kReference;
    commit(cpu, args(&Mirror::host), reference).throw_if_error();
    EXPECT_LE(error_of(pool, got), 1.0) << "round " << n;
  }
}

}  // namespace
}  // namespace tilegate::test
