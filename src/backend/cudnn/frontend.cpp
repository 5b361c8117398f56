// SPDX-License-Identifier: Apache-2.0
// A GraphSpec as a cudnn-frontend graph with one attention node.
//
// The frontend's inline functions carry statics that the dynamic linker would merge with those of
// another frontend in the process (PyTorch has one): this file is compiled with hidden inlines and
// without unique symbols. Its loader is ours (loader.h), so nothing here links cuDNN, and every
// call of it stands inside guarded(), because it throws.
#include "backend/cudnn/frontend.h"

#include <dlfcn.h>

#include <limits>

#include "backend/cudnn/loader.h"
#include "core/message.h"

// dlfcn.h has been read: from here on the names mean ours.
#define dlopen(name, flags) ::tilegate::cudnn::open_library(name, flags)
#define dlsym(handle, name) ::tilegate::cudnn::find_symbol(handle, name)
#include <cudnn_frontend.h>
#undef dlopen
#undef dlsym

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;  // declared by the frontend, set by connect()
}

namespace tilegate::cudnn {
namespace {

namespace fe = cudnn_frontend;
using Attributes = fe::graph::Tensor_attributes;
using TensorPtr = std::shared_ptr<Attributes>;
using Extents = std::vector<std::int64_t>;

// Hands our cuDNN to the frontend before its first call; it looks symbols up once and for good.
Status connect() {
  static const bool connected = [] {
    fe::cudnn_dlhandle = library().handle;
    return fe::cudnn_dlhandle != nullptr;
  }();
  if (connected) return {};
  return unsupported("cuDNN must be found: {}", library().missing);
}

bool is_refusal(fe::error_code_t code) {
  return code == fe::error_code_t::GRAPH_NOT_SUPPORTED ||
         code == fe::error_code_t::HEURISTIC_QUERY_FAILED ||
         code == fe::error_code_t::ATTRIBUTE_NOT_SET || code == fe::error_code_t::INVALID_VALUE ||
         code == fe::error_code_t::GRAPH_EXECUTION_PLAN_CREATION_FAILED;
}

// cuDNN's reasons come in many lines.
std::string one_line(const std::string& text) {
  std::string line;
  for (const char c : text) {
    const bool blank = c == '\n' || c == '\t' || c == ' ';
    if (!blank) line += c;
    if (blank && !line.empty() && line.back() != ' ') line += ' ';
  }
  return line;
}

// By value: the frontend's getters are not const.
Status to_status(fe::error_t error, std::string_view what) {
  if (error.is_good()) return {};
  return Status(is_refusal(error.get_code()) ? StatusCode::kUnsupported : StatusCode::kCudnn,
                fmt::format("{} failed in cuDNN: {}", what, one_line(error.get_message())));
}

template <class F>
auto guarded(std::string_view what, F body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::exception& failure) {
    return Status(StatusCode::kUnsupported,
                  fmt::format("{} failed in cuDNN: {}", what, one_line(failure.what())));
  }
}

std::int64_t id_of(Slot slot) { return static_cast<std::int64_t>(slot) + 1; }

fe::DataType_t data_type(DType dtype) {
  return dtype == DType::kFloat16 ? fe::DataType_t::HALF : fe::DataType_t::BFLOAT16;
}

Attributes attributes(Slot slot, Extents dims, Extents strides, fe::DataType_t type) {
  return Attributes()
      .set_uid(id_of(slot))
      .set_dim(std::move(dims))
      .set_stride(std::move(strides))
      .set_data_type(type);
}

// A vector in cuDNN's four dimensions.
Attributes vector(Slot slot, std::int64_t length, fe::DataType_t type) {
  return attributes(slot, {length, 1, 1, 1}, {1, 1, 1, 1}, type);
}

class Builder {
 public:
  Builder(fe::graph::Graph& graph, const GraphSpec& spec) : graph_(graph), spec_(spec) {}

  void build() {
    const fe::DataType_t type = data_type(spec_.dtype);
    graph_.set_io_data_type(type)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    auto q = graph_.tensor(attributes(
        Slot::kQ, {spec_.batch, spec_.heads_q, spec_.rows, spec_.dim_qk}, strides(spec_.q), type));
    if (ragged_q()) q->set_ragged_offset(offsets(Slot::kQOffsets));
    auto k = keys_or_values(Slot::kK);
    auto v = keys_or_values(Slot::kV);
    auto [o, lse] = graph_.sdpa(q, k, v, attention());
    o->set_output(true)
        .set_uid(id_of(Slot::kO))
        .set_dim({spec_.batch, spec_.heads_q, spec_.rows, spec_.dim_v})
        .set_stride(strides(spec_.o))
        .set_data_type(type);
    if (ragged_q()) o->set_ragged_offset(offsets(Slot::kOOffsets));
    if (!spec_.has_lse) return;
    lse->set_output(true)
        .set_uid(id_of(Slot::kLse))
        .set_dim({spec_.batch, spec_.heads_q, spec_.rows, 1})
        .set_stride(strides(spec_.lse))
        .set_data_type(fe::DataType_t::FLOAT);
    if (ragged_q()) lse->set_ragged_offset(offsets(Slot::kLseOffsets));
  }

 private:
  bool ragged_q() const { return spec_.q_placement == Placement::kRagged; }

  static Extents strides(const Strides& s) { return {s.batch, s.head, s.row, 1}; }

  TensorPtr offsets(Slot slot) {
    return graph_.tensor(vector(slot, spec_.batch + 1, fe::DataType_t::INT64));
  }

  // Paged: a pool [pages, heads, slots, dim]; the page table is the attention node's.
  TensorPtr keys_or_values(Slot slot) {
    const bool is_k = slot == Slot::kK;
    const bool paged = spec_.page_size > 0;
    auto tensor = graph_.tensor(
        attributes(slot,
                   {paged ? spec_.pages : spec_.batch, spec_.heads_kv,
                    paged ? spec_.page_size : spec_.keys, is_k ? spec_.dim_qk : spec_.dim_v},
                   strides(is_k ? spec_.k : spec_.v), data_type(spec_.dtype)));
    if (spec_.kv_placement == Placement::kRagged) {
      tensor->set_ragged_offset(offsets(is_k ? Slot::kKOffsets : Slot::kVOffsets));
    }
    return tensor;
  }

  TensorPtr page_table(Slot slot) {
    const std::int64_t width = spec_.table_width();
    return graph_.tensor(
        attributes(slot, {spec_.batch, 1, width, 1}, {width, width, 1, 1}, fe::DataType_t::INT32));
  }

  fe::graph::SDPA_attributes attention() {
    auto node =
        fe::graph::SDPA_attributes().set_generate_stats(spec_.has_lse).set_attn_scale(spec_.scale);
    if (spec_.left_keys >= 0 || spec_.right_keys >= 0) {
      node.set_diagonal_alignment(spec_.diagonal == Diagonal::kTopLeft
                                      ? fe::DiagonalAlignment_t::TOP_LEFT
                                      : fe::DiagonalAlignment_t::BOTTOM_RIGHT);
    }
    if (spec_.left_keys >= 0) {
      node.set_diagonal_band_left_bound(static_cast<int>(spec_.left_keys));
    }
    if (spec_.right_keys >= 0) {
      node.set_diagonal_band_right_bound(static_cast<int>(spec_.right_keys));
    }
    if (spec_.lengths == Lengths::kPadded) {
      node.set_padding_mask(true)
          .set_seq_len_q(graph_.tensor(vector(Slot::kQLens, spec_.batch, fe::DataType_t::INT32)))
          .set_seq_len_kv(graph_.tensor(vector(Slot::kKvLens, spec_.batch, fe::DataType_t::INT32)));
    }
    if (spec_.page_size > 0) {
      node.set_paged_attention_k_table(page_table(Slot::kPageTableK))
          .set_paged_attention_v_table(page_table(Slot::kPageTableV))
          .set_paged_attention_max_seq_len_kv(static_cast<int>(spec_.keys));
    }
    if (spec_.has_sinks) {
      node.set_sink_token(
          graph_.tensor(attributes(Slot::kSinks, {1, spec_.heads_q, 1, 1}, {spec_.heads_q, 1, 1, 1},
                                   fe::DataType_t::FLOAT)));
    }
    return node;
  }

  fe::graph::Graph& graph_;
  const GraphSpec& spec_;
};

class FrontendGraph : public Graph {
 public:
  fe::graph::Graph graph;
  std::vector<std::size_t> order;  // slots as the graph wants their pointers

  Status run(void* handle, void* stream, const GraphBuffers& buffers, void* workspace) override {
    return guarded("running a graph", [&]() -> Status {
      auto* const cudnn_handle = static_cast<cudnnHandle_t>(handle);
      const cudnnStatus_t status =
          fe::detail::set_stream(cudnn_handle, static_cast<cudaStream_t>(stream));
      if (status != CUDNN_STATUS_SUCCESS) {
        return Status(StatusCode::kCudnn, fmt::format("setting a stream failed in cuDNN: status {}",
                                                      static_cast<int>(status)));
      }
      std::array<void*, kSlots> pointers{};
      for (std::size_t i = 0; i < order.size(); ++i) pointers[i] = buffers.pointers[order[i]];
      return to_status(
          graph.execute(cudnn_handle, pointers.data(), static_cast<int>(order.size()), workspace),
          "running a graph");
    });
  }
};

// Engines that must not serve the graph. With paged keys those of sm_90 and newer multiply what
// stands in a page past a request's last key, so that a NaN there reaches the output; the engines
// of sm_80 mask it. Names read "eng2_k24=7"; the first number of each pair is the older graph
// form's.
std::vector<std::string> excluded_engines(const GraphSpec& spec) {
  if (spec.page_size == 0) return {};
  return {"eng2_", "eng9_", "eng3_", "eng10_"};
}

bool is_excluded(const std::string& engine, const GraphSpec& spec) {
  for (const std::string& prefix : excluded_engines(spec)) {
    if (engine.rfind(prefix, 0) == 0) return true;
  }
  return false;
}

struct EngineLimits {
  cudnnHandle_t handle = nullptr;  // null: the graph has device properties instead
  std::size_t max_workspace = std::numeric_limits<std::int64_t>::max();
};

// Up to engine selection, which needs no kernel.
Status find_engines(fe::graph::Graph& graph, const GraphSpec& spec, const EngineLimits& limits) {
  TILEGATE_RETURN_IF_ERROR(to_status(graph.validate(), "checking a graph"));
  TILEGATE_RETURN_IF_ERROR(to_status(limits.handle != nullptr
                                         ? graph.build_operation_graph(limits.handle)
                                         : graph.build_operation_graph(),
                                     "making a graph"));
  TILEGATE_RETURN_IF_ERROR(
      to_status(graph.create_execution_plans({fe::HeurMode_t::A}), "finding an engine"));
  graph.deselect_engines(excluded_engines(spec));
  graph.deselect_workspace_greater_than(static_cast<std::int64_t>(limits.max_workspace));
  return to_status(graph.check_support(), "finding an engine");
}

// The name of the first engine in cuDNN's order that may serve the graph.
Result<std::string> preferred_engine(const fe::graph::Graph& graph, const GraphSpec& spec) {
  for (std::int64_t i = 0; i < graph.get_execution_plan_count(); ++i) {
    std::string name;
    TILEGATE_RETURN_IF_ERROR(
        to_status(graph.get_plan_name_at_index(i, name), "reading an engine's name"));
    if (!is_excluded(name, spec)) return name;
  }
  return unsupported("cuDNN must have an engine that may serve the graph, got none");
}

Status collect_facts(FrontendGraph& built, const GraphSpec& spec) {
  TILEGATE_RETURN_IF_ERROR(
      to_status(built.graph.get_plan_name(built.engine), "reading an engine's name"));
  const Result<std::string> preferred = preferred_engine(built.graph, spec);
  if (!preferred.ok()) return preferred.status();
  built.is_first_choice = built.engine == *preferred;
  std::int64_t bytes = 0;
  TILEGATE_RETURN_IF_ERROR(
      to_status(built.graph.get_workspace_size(bytes), "reading a workspace size"));
  built.workspace_bytes = static_cast<std::size_t>(bytes);
  for (const std::int64_t id : built.graph.get_variant_pack_uids_sorted()) {
    if (id < 1 || id > static_cast<std::int64_t>(kSlots)) {
      return Status(StatusCode::kCudnn,
                    fmt::format("tensor ids of a graph must be 1..{}, got {}", kSlots, id));
    }
    built.order.push_back(static_cast<std::size_t>(id - 1));
  }
  return {};
}

}  // namespace

Result<void*> open_handle() {
  TILEGATE_RETURN_IF_ERROR(connect());
  return guarded("opening a handle", []() -> Result<void*> {
    cudnnHandle_t handle = nullptr;
    const cudnnStatus_t status = fe::detail::create_handle(&handle);
    if (status == CUDNN_STATUS_SUCCESS) return static_cast<void*>(handle);
    return Status(StatusCode::kCudnn, fmt::format("opening a handle failed in cuDNN: status {}",
                                                  static_cast<int>(status)));
  });
}

void close_handle(void* handle) {
  (void)guarded("closing a handle", [&]() -> Status {
    (void)fe::detail::destroy_handle(static_cast<cudnnHandle_t>(handle));
    return {};
  });
}

Result<std::unique_ptr<Graph>> build_graph(void* handle, const GraphSpec& spec,
                                           std::size_t max_workspace) {
  TILEGATE_RETURN_IF_ERROR(connect());
  return guarded("building a graph", [&]() -> Result<std::unique_ptr<Graph>> {
    auto built = std::make_unique<FrontendGraph>();
    Builder(built->graph, spec).build();
    TILEGATE_RETURN_IF_ERROR(
        find_engines(built->graph, spec, {static_cast<cudnnHandle_t>(handle), max_workspace}));
    TILEGATE_RETURN_IF_ERROR(to_status(built->graph.build_plans(), "compiling a graph"));
    TILEGATE_RETURN_IF_ERROR(collect_facts(*built, spec));
    return std::unique_ptr<Graph>(std::move(built));
  });
}

Result<std::string> find_engine(const GraphSpec& spec, const DescribedDevice& device) {
  TILEGATE_RETURN_IF_ERROR(connect());
  return guarded("finding an engine", [&]() -> Result<std::string> {
    auto properties = std::make_shared<fe::DeviceProperties>();
    const std::string& text = device.properties;
    TILEGATE_RETURN_IF_ERROR(to_status(properties->deserialize({text.begin(), text.end()}),
                                       "reading device properties"));
    fe::graph::Graph graph;
    graph.set_device_properties(properties).set_sm_version(device.compute_capability);
    Builder(graph, spec).build();
    TILEGATE_RETURN_IF_ERROR(find_engines(graph, spec, {}));
    return preferred_engine(graph, spec);
  });
}

Result<std::string> device_properties(int device) {
  TILEGATE_RETURN_IF_ERROR(connect());
  return guarded("reading device properties", [&]() -> Result<std::string> {
    fe::DeviceProperties properties;
    TILEGATE_RETURN_IF_ERROR(
        to_status(properties.set_device_id(device).build(), "reading device properties"));
    std::vector<std::uint8_t> text;
    TILEGATE_RETURN_IF_ERROR(to_status(properties.serialize(text), "reading device properties"));
    return std::string(text.begin(), text.end());
  });
}

}  // namespace tilegate::cudnn
