// SPDX-License-Identifier: Apache-2.0
// ThreadPool over tbb::task_arena. oneTBB is not built for ThreadSanitizer, which therefore does
// not see that starting an item happens after the call and that the call returns after every item;
// a build for it (TILEGATE_TSAN) leaves this file uninstrumented and says so by hand. Items of one
// worker happen one after another; those of different workers stay unordered, so a race between
// them is found.
#include "core/thread_pool.h"

#include <tbb/blocked_range.h>
#include <tbb/info.h>
#include <tbb/parallel_for.h>
#include <tbb/partitioner.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <vector>

#ifdef TILEGATE_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace tilegate {
namespace {

#ifdef TILEGATE_TSAN
void happens_before(void* token) { __tsan_release(token); }
void happens_after(void* token) { __tsan_acquire(token); }
#else
void happens_before(void*) {}
void happens_after(void*) {}
#endif

// More threads than the process may use would not run anyway: oneTBB drops them, with a line on
// stderr.
int usable(int threads) {
  const int all = tbb::info::default_concurrency();
  return threads > 0 ? std::min(threads, all) : all;
}

}  // namespace

struct ThreadPool::Impl {
  explicit Impl(int threads) : arena(usable(threads)), workers(arena.max_concurrency()) {}
  tbb::task_arena arena;
  std::vector<char> workers;  // one token a worker
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
  char started = 0, finished = 0;
  happens_before(&started);
  impl_->arena.execute([&] {
    tbb::parallel_for(
        tbb::blocked_range<std::int64_t>(0, items, 1),
        [&](const tbb::blocked_range<std::int64_t>& range) {
          const int worker = tbb::this_task_arena::current_thread_index();
          happens_after(&started);
          happens_after(&impl_->workers[worker]);
          for (std::int64_t i = range.begin(); i != range.end(); ++i) body(i, worker);
          happens_before(&impl_->workers[worker]);
          happens_before(&finished);
        },
        tbb::simple_partitioner());
  });
  happens_after(&finished);
}

}  // namespace tilegate
