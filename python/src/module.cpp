// SPDX-License-Identifier: Apache-2.0
// The functions that python/tilegate calls: contexts, plans, and one entry an operation. Each entry
// takes (context or plan, tensors.., options..) positionally, in the order of the field tables
// here, which python/tilegate/_calls.py repeats.
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/object.h>
#include <tvm/ffi/reflection/registry.h>

#include <memory>
#include <mutex>
#include <utility>

#include "arguments.h"

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

AttentionOptions attention_options(ArgumentReader& in) {
  AttentionOptions o;
  o.scale = in.optional_real();
  o.causal = in.flag();
  o.window_left = in.integer();
  o.window_right = in.integer();
  o.logits_soft_cap = in.real();
  o.lse_base = in.text() == "ln" ? LseBase::kNatural : LseBase::kLog2;
  o.kv_layout = in.text() == "HND" ? KvLayout::kHnd : KvLayout::kNhd;
  o.q_len_per_req = in.integer();
  o.max_qo_len = in.integer();
  o.max_kv_len = in.integer();
  o.fixed_split_size = in.integer();
  o.disable_split_kv = in.flag();
  o.batch_invariant = in.flag();
  o.backend = backend_from(in.text());
  return o;
}

DeltaRuleOptions delta_options(ArgumentReader& in) {
  DeltaRuleOptions o;
  o.scale = in.optional_real();
  o.use_qk_l2norm = in.optional_flag();
  o.gate_domain = static_cast<GateDomain>(in.integer());
  o.use_gate_in_kernel = in.flag();
  o.lower_bound = in.optional_real();
  o.beta_is_logit = in.flag();
  o.output_final_state = in.flag();
  o.num_householder = in.integer();
  o.checkpoint_every_n_tokens = in.integer();
  o.checkpoint_position =
      in.text() == "before" ? CheckpointPosition::kBefore : CheckpointPosition::kAfter;
  o.disable_state_update = in.flag();
  o.use_cp = static_cast<UseCp>(in.integer());
  o.max_seqlen = in.integer();
  o.batch_invariant = in.flag();
  o.backend = backend_from(in.text());
  return o;
}

void read_table(ArgumentReader& in, PageTable& table) {
  using T = PageTable;
  static constexpr TensorView T::*kFields[] = {&T::kv_indptr, &T::kv_indices, &T::kv_last_page_len,
                                               &T::block_tables, &T::kv_lens};
  in.tensors(table, kFields);
}

struct Call {
  CallArgs args;
  Result<Problem> problem;
};

Call ragged(ArgumentReader& in) {
  using A = PrefillRaggedArgs;
  static constexpr TensorView A::*kFields[] = {
      &A::q,         &A::k,     &A::v,           &A::qo_indptr,
      &A::kv_indptr, &A::sinks, &A::custom_mask, &A::packed_custom_mask,
      &A::o,         &A::lse};
  A args;
  in.tensors(args, kFields);
  return {args, describe(args, attention_options(in))};
}

Call paged(ArgumentReader& in) {
  using A = PrefillPagedArgs;
  static constexpr TensorView A::*kFields[] = {
      &A::q,         &A::k_cache, &A::v_cache,     &A::kv_cache,
      &A::qo_indptr, &A::sinks,   &A::custom_mask, &A::packed_custom_mask,
      &A::o,         &A::lse};
  A args;
  in.tensors(args, kFields);
  read_table(in, args.table);
  return {args, describe(args, attention_options(in))};
}

Call decode(ArgumentReader& in) {
  using A = DecodePagedArgs;
  static constexpr TensorView A::*kFields[] = {&A::q,
                                               &A::k_cache,
                                               &A::v_cache,
                                               &A::kv_cache,
                                               &A::sinks,
                                               &A::custom_mask,
                                               &A::packed_custom_mask,
                                               &A::o,
                                               &A::lse};
  A args;
  in.tensors(args, kFields);
  read_table(in, args.table);
  return {args, describe(args, attention_options(in))};
}

Call append(ArgumentReader& in) {
  using A = AppendPagedKvArgs;
  static constexpr TensorView A::*kFields[] = {
      &A::k, &A::v, &A::batch_indices, &A::positions, &A::k_cache, &A::v_cache, &A::kv_cache};
  A args;
  in.tensors(args, kFields);
  read_table(in, args.table);
  AppendOptions options;
  options.kv_layout = in.text() == "HND" ? KvLayout::kHnd : KvLayout::kNhd;
  options.backend = backend_from(in.text());
  return {args, describe(args, options)};
}

Call merge(ArgumentReader& in) {
  using A = MergeStatesArgs;
  static constexpr TensorView A::*kFields[] = {&A::v, &A::s, &A::o, &A::lse};
  A args;
  in.tensors(args, kFields);
  MergeOptions options;
  options.backend = backend_from(in.text());
  return {args, describe(args, options)};
}

Call delta(ArgumentReader& in) {
  using A = DeltaRuleArgs;
  static constexpr TensorView A::*kFields[] = {&A::q,
                                               &A::k,
                                               &A::v,
                                               &A::g,
                                               &A::beta,
                                               &A::w,
                                               &A::a,
                                               &A::b,
                                               &A::A_log,
                                               &A::dt_bias,
                                               &A::cu_seqlens,
                                               &A::initial_state,
                                               &A::output_state,
                                               &A::state_pool,
                                               &A::output_state_pool,
                                               &A::state_indices,
                                               &A::output_state_indices,
                                               &A::has_initial_state,
                                               &A::state_checkpoints,
                                               &A::checkpoint_cu_starts,
                                               &A::checkpoint_state_indices,
                                               &A::state_slots,
                                               &A::num_accepted_tokens,
                                               &A::record_k,
                                               &A::record_d,
                                               &A::record_decay,
                                               &A::o};
  const auto rule = static_cast<DeltaRule>(in.integer());
  A args;
  in.tensors(args, kFields);
  return {args, describe(rule, args, delta_options(in))};
}

Call commit_call(ArgumentReader& in) {
  using A = CommitArgs;
  static constexpr TensorView A::*kFields[] = {&A::state_pool, &A::state_indices, &A::record_k,
                                               &A::record_d,   &A::record_decay,  &A::accepted};
  A args;
  in.tensors(args, kFields);
  CommitOptions options;
  options.num_householder = in.integer();
  options.backend = backend_from(in.text());
  return {args, describe(args, options)};
}

Call read_call(const std::string& op, ArgumentReader& in) {
  if (op == "ragged") return ragged(in);
  if (op == "paged") return paged(in);
  if (op == "decode") return decode(in);
  if (op == "append") return append(in);
  if (op == "merge") return merge(in);
  if (op == "delta") return delta(in);
  if (op == "commit") return commit_call(in);
  throw ffi::Error("ValueError", "op must be one of tilegate's operations, got \"" + op + "\"", "");
}

Plan make_plan(Context& context, const Call& call) {
  raise_if_error(call.problem.status());
  Result<Plan> made = plan(*call.problem, context);
  raise_if_error(made.status());
  return *made;
}

Workspace workspace_of(const TensorView& view) {
  return {view.present() ? view.data : nullptr,
          view.present() ? static_cast<std::size_t>(view.numel() * size_of(view.dtype)) : 0};
}

// plan(context, op, tensors.., options..) -> Plan
void plan_entry(ffi::PackedArgs packed, ffi::Any* result) {
  ArgumentReader in(packed);
  const auto context = in.value<ContextRef>();
  const std::string op = in.text();
  *result = PlanRef(make_plan(context->context, read_call(op, in)));
}

// run(context, plan, workspace, op, tensors.., options..)
void run_entry(ffi::PackedArgs packed, ffi::Any*) {
  ArgumentReader in(packed);
  const auto context = in.value<ContextRef>();
  const auto planned = in.value<PlanRef>();
  const Workspace workspace = workspace_of(in.tensor());
  const std::string op = in.text();
  const Call call = read_call(op, in);
  raise_if_error(call.problem.status());
  raise_if_error(
      planned->plan.run(context->context, call.args, workspace, current_stream(context->context)));
}

// call(context, op, tensors.., options..): plan and run with a workspace of its own.
void call_entry(ffi::PackedArgs packed, ffi::Any*) {
  ArgumentReader in(packed);
  const auto context = in.value<ContextRef>();
  const std::string op = in.text();
  const Call call = read_call(op, in);
  const Plan made = make_plan(context->context, call);
  raise_if_error(made.run_once(context->context, call.args, current_stream(context->context)));
}

// explain(context, op, tensors.., options..) -> str
void explain_entry(ffi::PackedArgs packed, ffi::Any* result) {
  ArgumentReader in(packed);
  const auto context = in.value<ContextRef>();
  const std::string op = in.text();
  *result = ffi::String(make_plan(context->context, read_call(op, in)).explain());
}

// check(op, tensors.., options..): index values of host tensors.
void check_entry(ffi::PackedArgs packed, ffi::Any*) {
  ArgumentReader in(packed);
  const std::string op = in.text();
  const Call call = read_call(op, in);
  raise_if_error(call.problem.status());
  raise_if_error(check_values(*call.problem, call.args));
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
      .def_packed("tilegate.explain", explain_entry)
      .def_packed("tilegate.check", check_entry)
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
