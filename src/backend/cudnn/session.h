// SPDX-License-Identifier: Apache-2.0
// What the cuDNN backend keeps in a Context: one handle and the graphs built so far, the least
// recently used of which leaves when there are too many. Graphs are found by everything that was
// baked into them.
#pragma once

#include <list>
#include <memory>

#include "backend/cudnn/frontend.h"
#include "core/resources.h"

namespace tilegate::cudnn {

// Larger engine workspaces are refused; engines need a few MB at most.
inline constexpr std::size_t kMaxEngineWorkspace = std::size_t{32} << 20;

class Session {
 public:
  // The Context's session, or null before open().
  static Session* of(Resources& resources);
  // The same, made on first use. Not while a stream is captured. Errors: cudnn, cuda.
  static Result<Session*> open(Resources& resources);
  ~Session();

  void* handle() const { return handle_; }
  // The graph if it was built before, else null.
  Graph* find(const GraphSpec& spec);
  // Builds the graph, or returns the one that is there. Errors: those of build_graph().
  Result<Graph*> build(const GraphSpec& spec);

 private:
  explicit Session(void* handle) : handle_(handle) {}
  struct Entry {
    GraphSpec spec;
    std::unique_ptr<Graph> graph;
  };
  void* handle_;
  std::list<Entry> entries_;  // most recently used first
};

}  // namespace tilegate::cudnn
