// SPDX-License-Identifier: Apache-2.0
// The whole of cudnn-frontend behind six functions. frontend.cpp is the only file that includes its
// headers: they take a minute to compile, throw, and must not meet another version of themselves.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "backend/cudnn/graph/spec.h"
#include "tilegate/status.h"

namespace tilegate::cudnn {

// What a graph reads and writes. The order is the order of cuDNN's tensor ids.
enum class Slot : std::uint8_t {
  kQ,
  kK,
  kV,
  kO,
  kLse,
  kSinks,
  kQLens,
  kKvLens,
  kQOffsets,
  kKOffsets,
  kVOffsets,
  kOOffsets,
  kLseOffsets,
  kPageTableK,
  kPageTableV,
  kCount,
};
inline constexpr std::size_t kSlots = static_cast<std::size_t>(Slot::kCount);

// Device pointers by slot; those that a graph does not have stay null.
struct GraphBuffers {
  std::array<void*, kSlots> pointers{};
  void*& operator[](Slot slot) { return pointers[static_cast<std::size_t>(slot)]; }
};

// A built graph: a compiled kernel with its plan.
class Graph {
 public:
  virtual ~Graph() = default;
  // Puts the kernel on `stream`. The engine's workspace may be null when it has no bytes.
  virtual Status run(void* handle, void* stream, const GraphBuffers& buffers, void* workspace) = 0;

  std::size_t workspace_bytes = 0;
  std::string engine;           // cuDNN's name of the engine and its knobs
  bool is_first_choice = true;  // false: engines that cuDNN prefers did not build
};

// A cudnnHandle_t on the current device. Errors: cudnn.
Result<void*> open_handle();
void close_handle(void* handle);

// Compiles: 0.5 to 2 s. Engines whose workspace exceeds `max_workspace` are left out.
// Errors: unsupported with cuDNN's reason, cudnn.
Result<std::unique_ptr<Graph>> build_graph(void* handle, const GraphSpec& spec,
                                           std::size_t max_workspace);

// A device that need not be here.
struct DescribedDevice {
  int compute_capability = 0;
  std::string properties;  // of device_properties() there
};

// Whether cuDNN has an engine for the graph on a device; compiles nothing. Returns the name of the
// one it prefers. Errors: as build_graph.
Result<std::string> find_engine(const GraphSpec& spec, const DescribedDevice& device);

// JSON that describes the current device to find_engine(). Errors: cudnn.
Result<std::string> device_properties(int device);

}  // namespace tilegate::cudnn
