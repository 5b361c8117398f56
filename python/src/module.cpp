// SPDX-License-Identifier: Apache-2.0
// The functions that python/tilegate calls: contexts, plans, and what is done with a call. A call
// is (operation, tensors.., options..) positionally, in the order of calls.cpp; `words` says that
// unsigned 16-bit integers are bfloat16.
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/object.h>
#include <tvm/ffi/reflection/registry.h>

#include <memory>
#include <utility>
#include <vector>

#include "arguments.h"
#include "calls.h"
#include "tilegate/device_memory.h"

namespace tilegate::python {
namespace {

// The contexts of one Python thread: one a device, made when a call first needs it.
class ContextsObj : public ffi::Object {
 public:
  ContextsObj() = default;
  ContextsObj(const ContextsObj&) = delete;

  Context& of(Device device) const {
    for (Context& context : contexts_) {
      if (context.device() == device) return context;
    }
    return contexts_.emplace_back(make({.device = device}));
  }
  void set_cpu_threads(int threads) const {
    Context& cpu = of(Device{});
    cpu = make({.device = {}, .num_threads = threads});
  }

  static constexpr bool _type_mutable = true;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tilegate.Contexts", ContextsObj, ffi::Object);

 private:
  static Context make(const ContextOptions& options) {
    Result<Context> made = Context::create(options);
    raise_if_error(made.status());
    return std::move(made).value();
  }

  mutable std::vector<Context> contexts_;
};

class ContextsRef : public ffi::ObjectRef {
 public:
  ContextsRef() : ObjectRef(ffi::make_object<ContextsObj>()) {}
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(ContextsRef, ffi::ObjectRef, ContextsObj);
};

class PlanObj : public ffi::Object {
 public:
  explicit PlanObj(Plan made) : plan(std::move(made)) {}
  Plan plan;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tilegate.Plan", PlanObj, ffi::Object);
};

class PlanRef : public ffi::ObjectRef {
 public:
  explicit PlanRef(Plan made) : ObjectRef(ffi::make_object<PlanObj>(std::move(made))) {}
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(PlanRef, ffi::ObjectRef, PlanObj);
};

// The framework's current stream on the context's device.
void* current_stream(const Context& context) {
  if (context.device().type == DeviceType::kCpu) return nullptr;
  return TVMFFIEnvGetStream(kDLCUDA, context.device().index);
}

Plan make_plan(Context& context, const Call& call) {
  raise_if_error(call.problem.status());
  Result<Plan> made = plan(*call.problem, context);
  raise_if_error(made.status());
  return *made;
}

// Throws ValueError unless `view` is plain memory of the context's device.
Workspace workspace_of(const TensorView& view, const Context& context) {
  if (!(view.device == context.device())) {
    throw ffi::Error("ValueError", "workspace must be on the device of the call", "");
  }
  if (view.rank != 1 || (view.shape[0] > 1 && view.strides[0] != 1)) {
    throw ffi::Error("ValueError", "workspace must be one contiguous row", "");
  }
  return {view.data, static_cast<std::size_t>(view.numel() * size_of(view.dtype))};
}

// plan(contexts, words, call..) -> Plan
void plan_entry(ffi::PackedArgs packed, ffi::Any* result) {
  ArgumentReader in(packed);
  const auto contexts = in.value<ContextsRef>();
  in.words_are_bfloat16(in.value<bool>());
  const Call call = read_call(in);
  *result = PlanRef(make_plan(contexts->of(device_of(call.args)), call));
}

// run(plan, workspace, contexts, words, call..); the options are those that were planned. Without a
// workspace the call has its own.
void run_entry(ffi::PackedArgs packed, ffi::Any*) {
  ArgumentReader in(packed);
  const auto planned = in.value<PlanRef>();
  const TensorView workspace = in.tensor();
  const auto contexts = in.value<ContextsRef>();
  in.words_are_bfloat16(in.value<bool>());
  const CallArgs args = read_args(in);
  Context& context = contexts->of(device_of(args));
  void* stream = current_stream(context);
  const Plan& plan = planned->plan;
  raise_if_error(workspace.present()
                     ? plan.run(context, args, workspace_of(workspace, context), stream)
                     : plan.run_once(context, args, stream));
}

// call(contexts, words, call..): plan and run with a workspace of its own.
void call_entry(ffi::PackedArgs packed, ffi::Any*) {
  ArgumentReader in(packed);
  const auto contexts = in.value<ContextsRef>();
  in.words_are_bfloat16(in.value<bool>());
  const Call call = read_call(in);
  Context& context = contexts->of(device_of(call.args));
  const Plan made = make_plan(context, call);
  raise_if_error(made.run_once(context, call.args, current_stream(context)));
}

ffi::Array<ffi::Array<ffi::String>> backend_table() {
  ffi::Array<ffi::Array<ffi::String>> rows;
  for (const BackendInfo& info : backends()) {
    rows.push_back({ffi::String(info.name), ffi::String(info.available ? "yes" : "no"),
                    ffi::String(info.detail)});
  }
  return rows;
}

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = tvm::ffi::reflection;
  refl::ObjectDef<ContextsObj>(refl::init(false));
  refl::ObjectDef<PlanObj>(refl::init(false));
  refl::GlobalDef()
      .def("tilegate.contexts", [] { return ContextsRef(); })
      .def("tilegate.threads",
           [](const ContextsRef& ref) { return std::int64_t{ref->of(Device{}).num_threads()}; })
      .def("tilegate.set_threads",
           [](const ContextsRef& ref, std::int64_t threads) {
             ref->set_cpu_threads(to_count("num_threads", threads));
           })
      .def_packed("tilegate.plan", plan_entry)
      .def_packed("tilegate.run", run_entry)
      .def_packed("tilegate.call", call_entry)
      .def("tilegate.plan_explain",
           [](const PlanRef& p) { return ffi::String(in_python_words(p->plan.explain())); })
      .def("tilegate.plan_backend", [](const PlanRef& p) { return ffi::String(p->plan.backend()); })
      .def("tilegate.plan_kernel", [](const PlanRef& p) { return ffi::String(p->plan.kernel()); })
      .def("tilegate.plan_workspace_bytes",
           [](const PlanRef& p) { return static_cast<std::int64_t>(p->plan.workspace_bytes()); })
      .def("tilegate.wait_for_gpu",
           [](std::int64_t index) {
             raise_if_error(
                 synchronize({.type = DeviceType::kCuda, .index = to_count("device", index)}));
           })
      .def("tilegate.backends", backend_table)
      .def("tilegate.version", [] { return ffi::String(version()); });
}

}  // namespace
}  // namespace tilegate::python
