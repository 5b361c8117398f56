// SPDX-License-Identifier: Apache-2.0
// A Candidate is one kernel that may serve a problem: the only thing a backend exports.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/resources.h"
#include "problem/problem.h"
#include "tilegate/status.h"

namespace tilegate {

// What the planner knows of the device: enough to choose and schedule without touching it.
struct DeviceFacts {
  DeviceType type = DeviceType::kCpu;
  std::string name;             // "NVIDIA H200"
  int num_threads = 1;          // CPU
  int num_sms = 0;              // CUDA
  int compute_capability = 0;   // CUDA: 90 for sm_90
  double bandwidth_gbps = 0.0;  // copy bandwidth
  int cudnn_version = 0;        // 0: no cuDNN
  std::string cudnn_missing;    // why there is none
  int decode_auto_cudnn = -1;   // the override, see ContextOptions
};

// Decided in plan, from shapes and device facts alone; the launch obeys it.
struct Schedule {
  std::size_t workspace_bytes = 0;
  std::int64_t kv_split = 0;        // attention: keys a split; 0: one split
  std::int64_t segment_tokens = 0;  // delta rule: tokens a context-parallel segment; 0: one segment
  std::int64_t config = 0;          // index into the candidate's own configuration table
  bool pinned_bits = true;          // bits of a request do not depend on batch, capacity or device
  std::string note;                 // one line for explain()
  bool operator==(const Schedule&) const = default;
};

// What `prepare` gets: the problem has no pointers.
struct Preparation {
  const Operation& problem;
  const Schedule& schedule;
  const DeviceFacts& facts;
  Resources& resources;
};

struct Launch {
  const Operation& call;  // with the caller's pointers
  const Schedule& schedule;
  const DeviceFacts& facts;
  Resources& resources;
  std::byte* workspace = nullptr;  // schedule.workspace_bytes, 256-byte aligned
  void* stream = nullptr;
};

// The rejection of a kernel that serves another kind of operation: never worth a line in explain().
inline constexpr std::string_view kOtherOperation = "it is a kernel for another operation";

// The cost of a kernel that an option of the context prefers: below that of any real one.
inline constexpr double kPreferredUs = -1.0;

// The cost of a kernel that is chosen only where no other serves: above that of any real one.
inline constexpr double kLastResortUs = 1e12;

struct Candidate {
  std::string_view name;  // "cpu.flash": backend, dot, kernel
  Backend backend = Backend::kReference;
  // A reason why this kernel cannot serve the problem, or nullopt.
  std::optional<std::string> (*reject)(const Operation&, const DeviceFacts&) = nullptr;
  double (*cost_us)(const Operation&, const DeviceFacts&) = nullptr;
  Schedule (*schedule)(const Operation&, const DeviceFacts&) = nullptr;
  Status (*launch)(const Launch&) = nullptr;
  // Optional: what a first launch would do, done at the plan of a backend that was asked for by
  // name, so that its refusal is the plan's. May sharpen the schedule.
  Result<Schedule> (*prepare)(const Preparation&) = nullptr;
};

}  // namespace tilegate
