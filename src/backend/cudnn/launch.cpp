// SPDX-License-Identifier: Apache-2.0
// Binding of pointers, the order of the launches, and what must hold before them.
#include "backend/cudnn/launch.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <limits>
#include <numbers>

#include "backend/cudnn/check.h"
#include "backend/cudnn/graph/form.h"
#include "backend/cudnn/graph/support.h"
#include "backend/cudnn/kernels.h"
#include "backend/cudnn/loader.h"
#include "backend/cudnn/session.h"

namespace tilegate::cudnn {
namespace {

constexpr std::uintptr_t kPointerAlignment = 16;

cudaStream_t as_stream(void* stream) { return static_cast<cudaStream_t>(stream); }

IndexArray index_array(const TensorView& view) {
  if (!view.present()) return {};
  const int last = view.rank - 1;
  return {view.data, view.strides[last], last > 0 ? view.strides[0] : 0,
          view.dtype == DType::kInt64};
}

LengthSource length_source(const AttentionProblem& p, const GraphForm& form) {
  LengthSource source;
  source.batch = p.batch;
  source.rows_each = form.rows_each;
  source.keys_each = form.keys_each;
  source.page_size = p.page_size;
  // Not the graph's, which may declare a row more than the call.
  source.max_rows = form.rows_each >= 0 ? form.rows_each : p.max_qo_len;
  source.max_keys = form.spec.keys;
  source.qo_indptr = index_array(p.qo_indptr);
  source.kv_indptr = index_array(p.kv_indptr);
  source.kv_last_page_len = index_array(p.kv_last_page_len);
  source.kv_lens = index_array(p.kv_lens);
  return source;
}

PageSource page_source(const AttentionProblem& p) {
  return {index_array(p.block_tables), index_array(p.kv_indices)};
}

CopyParams copy_params(const AttentionProblem& p, const GraphForm& form, std::byte* workspace) {
  const auto tensor = [&](const TensorView& pool, std::size_t at) {
    CopyTensor out;
    out.from = static_cast<const std::uint16_t*>(pool.data);
    out.to = reinterpret_cast<std::uint16_t*>(workspace + at);
    out.page = pool.strides[0], out.slot = pool.strides[1], out.head = pool.strides[2];
    out.dim = pool.shape[3];
    return out;
  };
  CopyParams out;
  out.lengths = length_source(p, form);
  out.pages = page_source(p);
  out.heads = p.heads_kv;
  out.tensors[0] = tensor(p.k, form.layout.k_copy);
  out.tensors[1] = tensor(p.v, form.layout.v_copy);
  return out;
}

PrepareParams prepare_params(const AttentionProblem& p, const GraphForm& form,
                             std::byte* workspace) {
  const WorkspaceLayout& at = form.layout;
  const auto offsets = [&](std::size_t begin) {
    return reinterpret_cast<std::int64_t*>(workspace + begin);
  };
  PrepareParams out;
  out.lengths = length_source(p, form);
  out.pages = page_source(p);
  if (form.spec.lengths == Lengths::kPadded) {
    out.q_lens = reinterpret_cast<std::int32_t*>(workspace + at.q_lens);
    out.kv_lens = reinterpret_cast<std::int32_t*>(workspace + at.kv_lens);
  }
  if (form.spec.q_placement == Placement::kRagged) {
    out.q_offsets = offsets(at.q_offsets);
    out.o_offsets = offsets(at.o_offsets);
    if (form.spec.has_lse) out.lse_offsets = offsets(at.lse_offsets);
  }
  if (form.spec.kv_placement == Placement::kRagged) {
    out.k_offsets = offsets(at.k_offsets);
    out.v_offsets = offsets(at.v_offsets);
  }
  out.q = form.q, out.o = form.o, out.lse = form.lse;
  out.k_row = form.spec.k.row, out.v_row = form.spec.v.row;
  out.table_width = form.spec.table_width();
  out.page_table = reinterpret_cast<std::int32_t*>(workspace + at.page_table);
  if (form.copies_sinks) {
    out.sinks_in = static_cast<const float*>(p.sinks.data);
    out.sink_stride = p.sinks.strides[0];
    out.sinks_out = reinterpret_cast<float*>(workspace + at.sinks);
    out.heads_q = p.heads_q;
  }
  return out;
}

GraphBuffers graph_buffers(const AttentionProblem& p, const GraphForm& form, std::byte* workspace) {
  const WorkspaceLayout& at = form.layout;
  GraphBuffers buffers;
  buffers[Slot::kQ] = p.q.data;
  buffers[Slot::kK] = p.k.data;
  buffers[Slot::kV] = p.v.data;
  buffers[Slot::kO] = p.o.data;
  buffers[Slot::kLse] = p.lse.data;
  buffers[Slot::kSinks] = form.copies_sinks ? workspace + at.sinks : p.sinks.data;
  if (!form.prepares()) return buffers;
  if (form.copied_rows > 0) {
    buffers[Slot::kK] = workspace + at.k_copy;
    buffers[Slot::kV] = workspace + at.v_copy;
  }
  buffers[Slot::kQLens] = workspace + at.q_lens;
  buffers[Slot::kKvLens] = workspace + at.kv_lens;
  buffers[Slot::kQOffsets] = workspace + at.q_offsets;
  buffers[Slot::kKOffsets] = workspace + at.k_offsets;
  buffers[Slot::kVOffsets] = workspace + at.v_offsets;
  buffers[Slot::kOOffsets] = workspace + at.o_offsets;
  buffers[Slot::kLseOffsets] = workspace + at.lse_offsets;
  buffers[Slot::kPageTableK] = workspace + at.page_table;
  buffers[Slot::kPageTableV] = workspace + at.page_table;
  return buffers;
}

FinishParams finish_params(const AttentionProblem& p, const GraphForm& form) {
  FinishParams out;
  out.lengths = length_source(p, form);
  out.total_rows = p.total_q;
  out.heads = p.heads_q;
  out.dim_v = p.dim_v;
  out.o = static_cast<std::uint16_t*>(p.o.data);
  out.o_strides = form.o;
  out.lse = static_cast<float*>(p.lse.data);
  out.lse_strides = form.lse;
  out.lse_scale = p.lse_base == LseBase::kLog2 ? std::numbers::log2e_v<float> : 1.0f;
  out.sinks = static_cast<const float*>(p.sinks.data);
  out.sink_stride = p.sinks.strides[0];
  out.left = p.window_left;
  out.right = p.causal ? 0 : p.window_right;
  return out;
}

// Dense rows all see a key; what is left is the base of lse.
bool needs_finish(const AttentionProblem& p, const GraphForm& form) {
  if (form.no_keys() || form.spec.lengths == Lengths::kPadded) return true;
  return p.lse.present() && p.lse_base == LseBase::kLog2;
}

Status check_alignment(std::string_view name, const TensorView& view) {
  const auto address = reinterpret_cast<std::uintptr_t>(view.data);
  if (address % kPointerAlignment == 0) return {};
  return unsupported("{} must be aligned to {} bytes for cuDNN, got an address {} past one", name,
                     kPointerAlignment, address % kPointerAlignment);
}

Status check_pointers(const AttentionProblem& p) {
  TILEGATE_RETURN_IF_ERROR(check_alignment("q", p.q));
  TILEGATE_RETURN_IF_ERROR(check_alignment("k", p.k));
  TILEGATE_RETURN_IF_ERROR(check_alignment("v", p.v));
  return check_alignment("o", p.o);
}

Status require_no_capture(void* stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaError_t error = cudaStreamIsCapturing(as_stream(stream), &status);
  if (error == cudaSuccess && status == cudaStreamCaptureStatusNone) return {};
  (void)cudaGetLastError();
  return Status(StatusCode::kCudnn,
                "stream must not be capturing while cuDNN compiles a graph: run this plan once "
                "before the capture, or plan with backend \"cudnn\" on this context");
}

// The graph, built now if it is not there yet.
Result<Graph*> find_graph(const Launch& launch, const GraphForm& form) {
  if (Session* session = Session::of(launch.resources)) {
    if (Graph* graph = session->find(form.spec)) return graph;
  }
  TILEGATE_RETURN_IF_ERROR(require_no_capture(launch.stream));
  Result<Session*> session = Session::open(launch.resources);
  if (!session.ok()) return session.status();
  return (*session)->build(form.spec);
}

Status run_graph(const Launch& launch, const AttentionProblem& p, const GraphForm& form) {
  Result<Graph*> found = find_graph(launch, form);
  if (!found.ok()) return found.status();
  Graph* const graph = *found;
  const std::size_t needed = form.layout.engine + graph->workspace_bytes;
  if (needed > launch.schedule.workspace_bytes) {
    return Status(StatusCode::kOutOfWorkspace,
                  fmt::format("the planned workspace must be at least {} bytes for cuDNN's engine "
                              "{}, got {}",
                              needed, graph->engine, launch.schedule.workspace_bytes));
  }
  if (form.prepares()) {
    TILEGATE_RETURN_IF_ERROR(cuda_status(
        launch_prepare(prepare_params(p, form, launch.workspace), as_stream(launch.stream)),
        "launching the cuDNN preparation"));
  }
  std::byte* const engine_workspace =
      graph->workspace_bytes > 0 ? launch.workspace + form.layout.engine : nullptr;
  if (form.copied_rows > 0) {
    TILEGATE_RETURN_IF_ERROR(
        cuda_status(launch_copy(copy_params(p, form, launch.workspace), as_stream(launch.stream)),
                    "launching the copy of paged keys"));
  }
  return graph->run(Session::of(launch.resources)->handle(), launch.stream,
                    graph_buffers(p, form, launch.workspace), engine_workspace);
}

}  // namespace

std::size_t workspace_bound(const AttentionProblem& p, const DeviceFacts& facts) {
  const GraphForm form = make_form(p, facts);
  return form.no_keys() ? 0 : form.layout.engine + kMaxEngineWorkspace;
}

Result<Schedule> prepare(const Preparation& preparation) {
  const auto& p = std::get<AttentionProblem>(preparation.problem);
  const GraphForm form = make_form(p, preparation.facts);
  Schedule schedule = preparation.schedule;
  if (form.no_keys() || p.batch == 0 || p.total_q == 0) return schedule;
  Result<Session*> session = Session::open(preparation.resources);
  if (!session.ok()) return session.status();
  Result<Graph*> graph = (*session)->build(form.spec);
  if (!graph.ok()) return graph.status();
  schedule.workspace_bytes = form.layout.engine + (*graph)->workspace_bytes;
  schedule.note += fmt::format(
      "; engine {}{}", (*graph)->engine,
      (*graph)->is_first_choice ? "" : ", not cuDNN's first choice, which did not build");
  return schedule;
}

Status launch(const Launch& launch) {
  const auto& p = std::get<AttentionProblem>(launch.call);
  if (p.batch == 0 || p.total_q == 0) return {};
  const GraphForm form = make_form(p, launch.facts);
  TILEGATE_RETURN_IF_ERROR(check_pointers(p));
  if (!form.no_keys()) TILEGATE_RETURN_IF_ERROR(run_graph(launch, p, form));
  if (!needs_finish(p, form)) return {};
  return cuda_status(launch_finish(finish_params(p, form), as_stream(launch.stream)),
                     "launching the cuDNN correction");
}

}  // namespace tilegate::cudnn
