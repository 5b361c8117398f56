// SPDX-License-Identifier: Apache-2.0
// Law: a one-shot call is describe, plan, run: the same bits, the same errors.
#include "tests/op/calls/attention_call.h"
#include "tests/op/calls/catalog.h"
#include "tests/op/calls/delta_call.h"
#include "tests/op/calls/small_calls.h"
#include "tests/op/harness/law.h"

namespace laws {
namespace {

using tilegate::DeltaRule;
using tilegate::Status;

class OneShot : public Law {
 protected:
  Status call_once(const AttentionCall& call) {
    const tilegate::CallArgs args = call.args();
    if (const auto* ragged = std::get_if<tilegate::PrefillRaggedArgs>(&args)) {
      return tilegate::batch_prefill_ragged(context(), *ragged, call.options);
    }
    if (const auto* paged = std::get_if<tilegate::PrefillPagedArgs>(&args)) {
      return tilegate::batch_prefill_paged(context(), *paged, call.options);
    }
    return tilegate::batch_decode_paged(context(), std::get<tilegate::DecodePagedArgs>(args),
                                        call.options);
  }
  Status call_once(const DeltaCall& call) {
    const auto args = std::get<tilegate::DeltaRuleArgs>(call.args());
    switch (call.rule) {
      case DeltaRule::kGatedDeltaRule:
        return tilegate::chunk_gated_delta_rule(context(), args, call.options);
      case DeltaRule::kGatedDeltaRule2:
        return tilegate::chunk_gated_delta_rule2(context(), args, call.options);
      case DeltaRule::kGatedDeltaProduct:
        return tilegate::chunk_gated_delta_product(context(), args, call.options);
      case DeltaRule::kKda:
        return tilegate::recurrent_kda(context(), args, call.options);
      case DeltaRule::kGatedDeltaRuleDecode:
        return tilegate::gated_delta_rule_decode(context(), args, call.options);
    }
    return {};
  }
  Status call_once(const Call& call) {
    if (const auto* attention = dynamic_cast<const AttentionCall*>(&call)) {
      return call_once(*attention);
    }
    if (const auto* delta = dynamic_cast<const DeltaCall*>(&call)) return call_once(*delta);
    const tilegate::CallArgs args = call.args();
    if (const auto* append = dynamic_cast<const AppendCall*>(&call)) {
      return tilegate::append_paged_kv(context(), std::get<tilegate::AppendPagedKvArgs>(args),
                                       append->options);
    }
    if (const auto* merge = dynamic_cast<const MergeCall*>(&call)) {
      return tilegate::merge_states(context(), std::get<tilegate::MergeStatesArgs>(args),
                                    merge->options);
    }
    return tilegate::commit(context(), std::get<tilegate::CommitArgs>(args),
                            dynamic_cast<const CommitCall&>(call).options);
  }
};

TEST_P(OneShot, EqualsDescribePlanRun) {
  for (const CatalogEntry& entry : catalog()) {
    const auto planned = entry.make(), at_once = entry.make();
    if (!run(*planned)) continue;
    at_once->set_backend(backend());
    for (const Argument& argument : at_once->arguments()) {
      argument.tensor->upload(memory_of(GetParam()));
    }
    const Status status = call_once(*at_once);
    ASSERT_TRUE(status.ok()) << entry.name << ": " << status.to_string();
    for (const Argument& argument : at_once->arguments()) argument.tensor->download();
    expect_same_outputs(*planned, *at_once, entry.name + " at once");
  }
}

TEST_P(OneShot, HasTheErrorsOfDescribe) {
  AttentionCall call = make_ragged({});
  call.set_backend(backend());
  call.options.window_left = -5;
  const Status described = call.describe().status();
  const Status status = call_once(call);
  EXPECT_EQ(status.code(), tilegate::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), described.message());
}

LAWS_ON_EVERY_BACKEND(OneShot);

}  // namespace
}  // namespace laws
