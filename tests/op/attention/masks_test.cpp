// SPDX-License-Identifier: Apache-2.0
// Laws of the masks: causal is bottom-right, windows count from the diagonal with or without
// causal, custom masks are ANDed with both, and bytes and packed bits say the same.
#include "tests/op/oracle/attention_law.h"

namespace laws {
namespace {

class Masks : public AttentionLaw {};

AttentionCall ragged(std::int64_t rows = 5) {
  return make_ragged(
      {.qo_lens = {rows, rows, rows}, .kv_lens = {rows, 37, rows + 1}, .dim_qk = head_dim(32)});
}

TEST_P(Masks, WindowsWithAndWithoutCausal) {
  for (const bool causal : {false, true}) {
    for (const std::int64_t left : {-1, 0, 1, 7, 100}) {
      for (const std::int64_t right : {-1, 0, 2, 100}) {
        AttentionCall call = ragged();
        call.options.causal = causal;
        call.options.window_left = left;
        call.options.window_right = right;
        expect_oracle_in_every_form(
            call, "window " + std::to_string(left) + ", " + std::to_string(right));
      }
    }
  }
}

TEST_P(Masks, WindowAcrossTiles) {
  AttentionCall call = make_ragged({.qo_lens = {140, 70},
                                    .kv_lens = {200, 133},
                                    .heads_q = 2,
                                    .heads_kv = 1,
                                    .dim_qk = head_dim(16)});
  for (const std::int64_t left : {0, 20, 64, 129}) {
    call.options.causal = true;
    call.options.window_left = left;
    expect_oracle(call);
    expect_oracle(as_paged(call, {.page_size = 16}));
  }
}

TEST_P(Masks, DecodeWindowSkipsWholePages) {
  for (const std::int64_t left : {0, 3, 4, 30}) {
    AttentionCall call = make_ragged({.qo_lens = {3, 3}, .kv_lens = {61, 5}});
    call.options.window_left = left;
    expect_oracle(as_decode(call));
    expect_oracle(as_decode(call, {.page_size = 1}));
  }
}

TEST_P(Masks, CustomMaskIsAndedWithCausalAndWindow) {
  for (const bool causal : {false, true}) {
    for (const std::int64_t left : {-1, 4}) {
      AttentionCall call = ragged();
      Random random(21);
      call.mask_bytes(random_mask(call, random));
      call.options.causal = causal;
      call.options.window_left = left;
      expect_oracle_in_every_form(call, "custom mask");
    }
  }
}

TEST_P(Masks, PackedBitsEqualBytes) {
  AttentionCall bytes = ragged(7);  // 7 * 7, 7 * 37 and 7 * 8 bits: not whole bytes
  Random random(22);
  bytes.mask_bytes(random_mask(bytes, random));
  AttentionCall packed = bytes;
  packed.mask_bits(bytes.visible);
  const auto expect_equal = [&](AttentionCall a, AttentionCall b) {
    expect_oracle(b, "packed mask");
    a.reset_outputs();
    b.reset_outputs();
    if (!run(a) || !run(b)) return;
    expect_same_bits(b.o_rows(), a.o_rows(), "o of a packed mask");
    expect_same_bits(b.lse_rows(), a.lse_rows(), "lse of a packed mask");
  };
  expect_equal(bytes, packed);
  expect_equal(as_paged(bytes), as_paged(packed));
  expect_equal(as_decode(bytes), as_decode(packed));
}

TEST_P(Masks, AnyNonzeroByteIsTrue) {
  AttentionCall ones = ragged();
  Random random(23);
  std::vector<std::uint8_t> mask = random_mask(ones, random);
  ones.mask_bytes(mask);
  AttentionCall others = ones;
  others.reset_outputs();
  constexpr std::uint8_t kValues[] = {1, 2, 128, 255};
  for (std::uint8_t& byte : mask) {
    if (byte != 0) byte = kValues[random.below(4)];
  }
  others.mask_bytes(mask);
  if (run(ones) && run(others)) expect_same_bits(others.o_rows(), ones.o_rows(), "mask bytes");
  AttentionCall boolean = ones;
  boolean.reset_outputs();
  boolean.custom_mask = Tensor::bytes(ones.visible, tilegate::DType::kBool);
  if (run(ones) && run(boolean)) expect_same_bits(boolean.o_rows(), ones.o_rows(), "bool mask");
}

TEST_P(Masks, DecodeIsCausalWhateverTheOptionSays) {
  AttentionCall call = as_decode(ragged());
  AttentionCall causal = call;
  causal.options.causal = true;
  causal.reset_outputs();
  if (run(call) && run(causal)) expect_same_bits(causal.o_rows(), call.o_rows(), "causal decode");
}

LAWS_ON_EVERY_BACKEND(Masks);

}  // namespace
}  // namespace laws
