// SPDX-License-Identifier: Apache-2.0
// A bounded pool of CPU threads (a oneTBB arena). Work is cut by the caller into numbered items, so
// results never depend on how many threads run them.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace tilegate {

// A borrowed callable: valid only while the callee runs.
template <class Signature>
class FunctionRef;

template <class R, class... A>
class FunctionRef<R(A...)> {
 public:
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef>)
      FunctionRef(F&& f)  // NOLINT(google-explicit-constructor)
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))),
        call_([](void* object, A... args) -> R {
          return (*static_cast<std::add_pointer_t<F>>(object))(args...);
        }) {}
  R operator()(A... args) const { return call_(object_, args...); }

 private:
  void* object_;
  R (*call_)(void*, A...);
};

class ThreadPool {
 public:
  // 0, and any number above, means all threads that this process may use.
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const;

  // Calls body(item, worker) once for every item in [0, items), in any order. `worker` is in
  // [0, num_threads()) and no two concurrent calls share it: use it to pick scratch memory.
  void parallel_for(std::int64_t items, FunctionRef<void(std::int64_t, int)> body);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tilegate
