// SPDX-License-Identifier: Apache-2.0
// Runs an attention problem through cuDNN: prepare kernel, graph, finish kernel, all on one stream
// without a host sync.
#pragma once

#include "plan/candidate.h"

namespace tilegate::cudnn {

// Workspace of a schedule before its graph is built.
std::size_t workspace_bound(const AttentionProblem& p, const DeviceFacts& facts);

// Builds the graph now, so that cuDNN's own refusal is the plan's, and cuts the workspace to what
// the chosen engine needs. Errors: unsupported, cudnn, cuda.
Result<Schedule> prepare(const Preparation& preparation);

// Errors: cudnn, cuda, unsupported (a misaligned pointer; a graph that must be built while the
// stream is captured).
Status launch(const Launch& launch);

}  // namespace tilegate::cudnn
