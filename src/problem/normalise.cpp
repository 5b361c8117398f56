// SPDX-License-Identifier: Apache-2.0
// Dispatch over the kinds of call, and what is the same for all of them: pointer removal, one
// device for all tensors, comparison of a call with its plan.
#include <optional>
#include <string>
#include <variant>

#include "core/element.h"
#include "core/layout.h"
#include "problem/attention_normalise.h"
#include "problem/linear_normalise.h"
#include "problem/problem.h"
#include "problem/tensor_table.h"

namespace tilegate {
namespace {

struct Normalise {
  const CallOptions& options;
  DeltaRule rule;

  // A plan's options always match its problem; other arguments are a mistake of the caller.
  template <class Options, class F>
  Result<Operation> with(F&& f) const {
    if (const Options* own = std::get_if<Options>(&options)) return f(*own);
    return invalid("args must be of the call that was planned, got those of another call");
  }

  template <class Args>
  Result<Operation> attention(const Args& args) const {
    return with<AttentionOptions>([&](const auto& own) { return normalise_attention(args, own); });
  }
  Result<Operation> operator()(const PrefillRaggedArgs& args) const { return attention(args); }
  Result<Operation> operator()(const PrefillPagedArgs& args) const { return attention(args); }
  Result<Operation> operator()(const DecodePagedArgs& args) const { return attention(args); }
  Result<Operation> operator()(const AppendPagedKvArgs& args) const {
    return with<AppendOptions>([&](const auto& own) { return normalise_append(args, own); });
  }
  Result<Operation> operator()(const MergeStatesArgs& args) const {
    return with<MergeOptions>([&](const auto& own) { return normalise_merge(args, own); });
  }
  Result<Operation> operator()(const DeltaRuleArgs& args) const {
    return with<DeltaRuleOptions>(
        [&](const auto& own) { return normalise_linear(rule, args, own); });
  }
  Result<Operation> operator()(const CommitArgs& args) const {
    return with<CommitOptions>([&](const auto& own) { return normalise_commit(args, own); });
  }
};

bool same_layout(TensorView a, TensorView b) {
  a.data = nullptr;
  b.data = nullptr;
  return a == b;
}

std::string with_strides(const TensorView& view) {
  if (!view.present()) return "none";
  TensorView strides = view;
  strides.shape = view.strides;
  return fmt::format("{} with strides {}", describe_tensor(view), describe_shape(strides));
}

// Calls f(name, view) for every tensor of the call until it returns an error.
template <class F>
Status for_each_tensor(const Operation& op, F&& f) {
  return std::visit(
      [&](const auto& p) -> Status {
        using P = std::remove_cvref_t<decltype(p)>;
        for (const auto& entry : TensorTable<P>::kFields) {
          TILEGATE_RETURN_IF_ERROR(f(argument_name(p, entry), p.*entry.field));
        }
        return {};
      },
      op);
}

Status check_sizes(const Operation& op) {
  return for_each_tensor(op, [](std::string_view name, const TensorView& view) -> Status {
    for (int axis = 0; axis < view.rank; ++axis) {
      if (view.shape[axis] >= 0) continue;
      return invalid("{} must have sizes of at least 0, got {}", name, describe_shape(view));
    }
    return {};
  });
}

Status check_pointer(std::string_view name, const TensorView& view) {
  if (view.data != nullptr || view.numel() == 0) return {};
  return invalid("{} must point to memory, got null", name);
}

}  // namespace

Result<Operation> normalise(const CallArgs& args, const CallOptions& options, DeltaRule rule) {
  Result<Operation> op = std::visit(Normalise{options, rule}, args);
  if (!op.ok()) return op;
  TILEGATE_RETURN_IF_ERROR(check_sizes(*op));
  // Calls that name the same elements are the same call, whatever strides their dimensions of size
  // 1 happen to have.
  std::visit(
      [](auto& p) {
        using P = std::remove_cvref_t<decltype(p)>;
        for (const auto& entry : TensorTable<P>::kFields) {
          p.*entry.field = canonical_strides(p.*entry.field);
        }
      },
      *op);
  return op;
}

Operation without_pointers(Operation op) {
  std::visit(
      [](auto& p) {
        using P = std::remove_cvref_t<decltype(p)>;
        for (const auto& entry : TensorTable<P>::kFields) (p.*entry.field).data = nullptr;
      },
      op);
  return op;
}

Result<Device> common_device(const Operation& op) {
  std::optional<Device> device;
  std::string_view first;
  Status error;
  auto visit_tensor = [&](std::string_view name, const TensorView& view) {
    if (!view.present() || !error.ok()) return;
    if (!device) {
      device = view.device;
      first = name;
    } else if (!(*device == view.device)) {
      error = invalid("{} must be on {} like {}, got {}", name, describe_device(*device), first,
                      describe_device(view.device));
    }
  };
  std::visit(
      [&](const auto& p) {
        using P = std::remove_cvref_t<decltype(p)>;
        for (const auto& entry : TensorTable<P>::kFields) {
          visit_tensor(argument_name(p, entry), p.*entry.field);
        }
      },
      op);
  if (!error.ok()) return error;
  return device.value_or(Device{});
}

std::optional<std::string> first_difference(const Operation& planned, const Operation& call) {
  return std::visit(
      [&](const auto& want) -> std::optional<std::string> {
        using P = std::remove_cvref_t<decltype(want)>;
        const P* got = std::get_if<P>(&call);
        if (got == nullptr) return "args must be of the call that was planned, got another call";
        for (const auto& entry : TensorTable<P>::kFields) {
          const TensorView& a = want.*entry.field;
          const TensorView& b = got->*entry.field;
          if (same_layout(a, b)) continue;
          return fmt::format("{} must be {} as planned, got {}", argument_name(want, entry),
                             with_strides(a), with_strides(b));
        }
        if (!(Operation(want) == without_pointers(call))) {
          return "args must have the lengths and heads that were planned, got others";
        }
        return std::nullopt;
      },
      planned);
}

Status check_pointers(const Operation& call) { return for_each_tensor(call, check_pointer); }

Status check_index_pointers(const Operation& call) {
  return for_each_tensor(call, [](std::string_view name, const TensorView& view) -> Status {
    return is_float(view.dtype) ? Status() : check_pointer(name, view);
  });
}

Status check_values(const Operation& call) {
  struct Check {
    Status operator()(const AttentionProblem& p) const { return check_attention_values(p); }
    Status operator()(const AppendProblem& p) const { return check_append_values(p); }
    Status operator()(const MergeProblem&) const { return {}; }
    Status operator()(const LinearProblem& p) const { return check_linear_values(p); }
    Status operator()(const CommitProblem& p) const { return check_commit_values(p); }
  };
  return std::visit(Check{}, call);
}

Backend requested_backend(const Operation& op) {
  return std::visit([](const auto& p) { return p.backend; }, op);
}

bool wants_batch_invariance(const Operation& op) {
  if (const auto* p = std::get_if<AttentionProblem>(&op)) return p->batch_invariant;
  if (const auto* p = std::get_if<LinearProblem>(&op)) return p->batch_invariant;
  return false;
}

}  // namespace tilegate
