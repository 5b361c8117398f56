// SPDX-License-Identifier: Apache-2.0
// The handle and the graphs of a Context.
#include "backend/cudnn/session.h"

#include <algorithm>

#include "backend/cudnn/check.h"
#include "tilegate/attention.h"

namespace tilegate::cudnn {
namespace {

constexpr std::size_t kMaxGraphs = 64;

}  // namespace

Session* Session::of(Resources& resources) {
  return static_cast<Session*>(
      resources.backend_state[static_cast<std::size_t>(Backend::kCudnn)].get());
}

Result<Session*> Session::open(Resources& resources) {
  if (Session* session = of(resources)) return session;
  TILEGATE_RETURN_IF_ERROR(
      cuda_status(cudaSetDevice(resources.device.index), "selecting the CUDA device"));
  Result<void*> handle = open_handle();
  if (!handle.ok()) return handle.status();
  resources.backend_state[static_cast<std::size_t>(Backend::kCudnn)] =
      std::shared_ptr<Session>(new Session(*handle));
  return of(resources);
}

// Graphs may still run, and their code goes with them; they need their handle until then.
Session::~Session() {
  (void)cudaDeviceSynchronize();
  entries_.clear();
  close_handle(handle_);
}

Graph* Session::find(const GraphSpec& spec) {
  const auto entry = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& e) { return e.spec == spec; });
  if (entry == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, entry);
  return entries_.front().graph.get();
}

Result<Graph*> Session::build(const GraphSpec& spec) {
  if (Graph* graph = find(spec)) return graph;
  Result<std::unique_ptr<Graph>> built = build_graph(handle_, spec, kMaxEngineWorkspace);
  if (!built.ok()) return built.status();
  if (entries_.size() == kMaxGraphs) {
    // The leaving graph may still run, and its code goes with it.
    TILEGATE_RETURN_IF_ERROR(cuda_status(cudaDeviceSynchronize(), "waiting for the device"));
    entries_.pop_back();
  }
  entries_.push_front({spec, std::move(*built)});
  return entries_.front().graph.get();
}

}  // namespace tilegate::cudnn
