// SPDX-License-Identifier: Apache-2.0
// The functions that python/tilegate calls: contexts, plans, and what is done with a call. A call
// is (operation, tensors.., options..) positionally, in the order of calls.cpp.
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/object.h>
#include <tvm/ffi/reflection/registry.h>

#include <memory>
#include <mutex>
#include <utility>

#include "arguments.h"
#include "calls.h"

namespace tilegate::python {
namespace {

class ContextObj : public ffi::Object {
 public:
  explicit ContextObj(Context made) : context(std::move(made)) {}
  mutable Context context;
  static constexpr bool _type_mutable = true;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tilegate.Context", ContextObj, ffi::Object);
};

class ContextRef : public ffi::ObjectRef {
 public:
  explicit ContextRef(Context made) : ObjectRef(ffi::make_object<ContextObj>(std::move(made))) {}
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(ContextRef, ffi::ObjectRef, ContextObj);
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

// plan(context, call..) -> Plan
void plan_entry(ffi::PackedArgs packed, ffi::Any* result) {
  ArgumentReader in(packed);
  const auto context = in.value<ContextRef>();
  *result = PlanRef(make_plan(context->context, read_call(in)));
}

// run(context, plan, workspace, call.. without options). Without a workspace the call has its own.
void run_entry(ffi::PackedArgs packed, ffi::Any*) {
  ArgumentReader in(packed);
  const auto context = in.value<ContextRef>();
  const auto planned = in.value<PlanRef>();
  const TensorView workspace = in.tensor();
  const CallArgs args = read_args(in);
  void* stream = current_stream(context->context);
  const Plan& plan = planned->plan;
  raise_if_error(workspace.present() ? plan.run(context->context, args,
                                                workspace_of(workspace, context->context), stream)
                                     : plan.run_once(context->context, args, stream));
}

// call(context, call..): plan and run with a workspace of its own.
void call_entry(ffi::PackedArgs packed, ffi::Any*) {
  ArgumentReader in(packed);
  const auto context = in.value<ContextRef>();
  const Call call = read_call(in);
  const Plan made = make_plan(context->context, call);
  raise_if_error(made.run_once(context->context, call.args, current_stream(context->context)));
}

ContextRef make_context(std::int64_t device_type, std::int64_t index, std::int64_t threads) {
  ContextOptions options;
  options.device.type = device_type == kDLCUDA ? DeviceType::kCuda : DeviceType::kCpu;
  options.device.index = static_cast<int>(index);
  options.num_threads = static_cast<int>(threads);
  Result<Context> made = Context::create(options);
  raise_if_error(made.status());
  return ContextRef(std::move(made).value());
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
  refl::ObjectDef<ContextObj>(refl::init(false));
  refl::ObjectDef<PlanObj>(refl::init(false));
  refl::GlobalDef()
      .def("tilegate.context", make_context)
      .def("tilegate.threads",
           [](const ContextRef& ref) { return std::int64_t{ref->context.num_threads()}; })
      .def_packed("tilegate.plan", plan_entry)
      .def_packed("tilegate.run", run_entry)
      .def_packed("tilegate.call", call_entry)
      .def("tilegate.plan_explain", [](const PlanRef& p) { return ffi::String(p->plan.explain()); })
      .def("tilegate.plan_backend", [](const PlanRef& p) { return ffi::String(p->plan.backend()); })
      .def("tilegate.plan_kernel", [](const PlanRef& p) { return ffi::String(p->plan.kernel()); })
      .def("tilegate.plan_workspace_bytes",
           [](const PlanRef& p) { return static_cast<std::int64_t>(p->plan.workspace_bytes()); })
      .def("tilegate.backends", backend_table)
      .def("tilegate.version", [] { return ffi::String(version()); });
}

}  // namespace
}  // namespace tilegate::python
