// SPDX-License-Identifier: Apache-2.0
// ThreadPool over tbb::task_arena.
#include "core/thread_pool.h"

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/partitioner.h>
#include <tbb/task_arena.h>

namespace tilegate {

struct ThreadPool::Impl {
  explicit Impl(int threads)
      : arena(threads > 0 ? threads : tbb::this_task_arena::max_concurrency()) {}
  tbb::task_arena arena;
};

ThreadPool::ThreadPool(int num_threads) : impl_(std::make_unique<Impl>(num_threads)) {}
ThreadPool::~ThreadPool() = default;

int ThreadPool::num_threads() const { return impl_->arena.max_concurrency(); }

void ThreadPool::parallel_for(std::int64_t items, FunctionRef<void(std::int64_t, int)> body) {
  if (items <= 0) return;
  if (items == 1 || num_threads() == 1) {
    for (std::int64_t i = 0; i < items; ++i) body(i, 0);
    return;
  }
  impl_->arena.execute([&] {
    tbb::parallel_for(
        tbb::blocked_range<std::int64_t>(0, items, 1),
        [&](const tbb::blocked_range<std::int64_t>& range) {
          const int worker = tbb::this_task_arena::current_thread_index();
          for (std::int64_t i = range.begin(); i != range.end(); ++i) body(i, worker);
        },
        tbb::simple_partitioner());
  });
}

}  // namespace tilegate
