// SPDX-License-Identifier: Apache-2.0
// ThreadPool: every item runs exactly once, workers own their scratch, results are visible after
// the call. Under ThreadSanitizer these tests also say that the pool orders what it promises to.
#include "core/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace {

using tilegate::ThreadPool;

TEST(ThreadPool, RunsEveryItemOnce) {
  ThreadPool pool(4);
  for (std::int64_t items : {1, 2, 3, 64, 1000}) {
    std::vector<int> runs(items);
    pool.parallel_for(items, [&](std::int64_t i, int) { ++runs[i]; });
    EXPECT_EQ(runs, std::vector<int>(items, 1)) << items << " items";
  }
}

TEST(ThreadPool, RunsNothingForNoItems) {
  ThreadPool pool(2);
  std::atomic<int> runs = 0;
  pool.parallel_for(0, [&](std::int64_t, int) { ++runs; });
  pool.parallel_for(-1, [&](std::int64_t, int) { ++runs; });
  EXPECT_EQ(runs, 0);
}

TEST(ThreadPool, WorkersShareNoScratch) {
  ThreadPool pool(4);
  std::vector<std::int64_t> counts(pool.num_threads());
  std::atomic<int> bad = 0;
  for (int round = 0; round < 50; ++round) {
    pool.parallel_for(200, [&](std::int64_t, int worker) {
      if (worker < 0 || worker >= pool.num_threads()) {
        ++bad;
      } else {
        ++counts[worker];  // not atomic: no two concurrent items have the same worker
      }
    });
  }
  std::int64_t total = 0;
  for (std::int64_t count : counts) total += count;
  EXPECT_EQ(bad, 0);
  EXPECT_EQ(total, 50 * 200);
}

TEST(ThreadPool, OneThreadRunsInOrderOnTheCaller) {
  ThreadPool pool(1);
  EXPECT_EQ(pool.num_threads(), 1);
  const std::thread::id caller = std::this_thread::get_id();
  std::vector<std::int64_t> order;
  pool.parallel_for(5, [&](std::int64_t i, int worker) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_EQ(worker, 0);
    order.push_back(i);
  });
  EXPECT_EQ(order, (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
}

TEST(ThreadPool, ZeroMeansAllThreadsAndMoreThanAllDoesToo) {
  const int all = ThreadPool(0).num_threads();
  EXPECT_GE(all, 1);
  EXPECT_EQ(ThreadPool(all).num_threads(), all);
  EXPECT_EQ(ThreadPool(all + 5).num_threads(), all);
}

TEST(ThreadPool, PoolsOfSeveralThreadsRunSideBySide) {
  constexpr std::int64_t kItems = 500;
  std::vector<std::vector<int>> runs(3, std::vector<int>(kItems));
  std::vector<std::thread> callers;
  for (std::vector<int>& mine : runs) {
    callers.emplace_back([&mine] {
      ThreadPool pool(2);
      pool.parallel_for(kItems, [&mine](std::int64_t i, int) { ++mine[i]; });
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (const std::vector<int>& mine : runs) EXPECT_EQ(mine, std::vector<int>(kItems, 1));
}

}  // namespace
