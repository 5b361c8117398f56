// SPDX-License-Identifier: Apache-2.0
// Comparing a delta-rule call with the oracle.
#include "tests/op/oracle/delta_law.h"

namespace laws {

tilegate::DType output_precision(const DeltaCall& call) { return call.o.dtype(); }

tilegate::DType state_precision(const DeltaCall& call, const Tensor& state) {
  return coarser(call.o.dtype(), state.dtype());
}

bool DeltaLaw::expect_oracle(DeltaCall call, const std::string& note) {
  call.reset_outputs();
  const DeltaAnswer expected = delta_oracle(call);
  if (!run(call)) return false;
  const std::string name = label(call) + " " + note;
  expect_close(call.o_rows(), expected.o, tolerance(Quantity::kDelta, output_precision(call)),
               "o of " + name);
  if (!call.decode()) {
    expect_untouched(call.o.slice(0, call.tokens(), call.o.dim(0)), "o past the end of " + name);
  }
  if (call.options.output_final_state && call.output_state.present()) {
    expect_close(call.output_state, expected.all_final_states(),
                 tolerance(Quantity::kState, state_precision(call, call.output_state)),
                 "final state of " + name);
  }
  if (!call.state_pool.present() || call.options.disable_state_update) return true;
  const Tensor pool = call.output_state_pool.present() ? call.output_state_pool : call.state_pool;
  const Tensor slots =
      call.output_state_indices.present() ? call.output_state_indices : call.state_indices;
  for (std::size_t n = 0; n < call.lens.size(); ++n) {
    const auto slot = static_cast<std::int64_t>(slots.flat(static_cast<std::int64_t>(n)));
    if (slot < 0) continue;
    expect_close(pool.select(0, slot), expected.final_state[n],
                 tolerance(Quantity::kState, state_precision(call, pool)),
                 "pool slot of sequence " + std::to_string(n) + " of " + name);
  }
  return true;
}

}  // namespace laws
