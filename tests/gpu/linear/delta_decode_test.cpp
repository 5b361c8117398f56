// SPDX-License-Identifier: Apache-2.0
// cuda.delta_decode and cuda.commit against the fp64 reference backend: every rule, gate, type and
// layout of a short step, pools, speculation, bits and graphs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/gpu/linear/delta_fixture.h"

namespace tilegate::test {
namespace {

class DeltaDecodeGpu : public DeltaGpuTest {};

constexpr DType kFloats[] = {DType::kFloat32, DType::kFloat16, DType::kBFloat16};

TEST_F(DeltaDecodeGpu, DecodeOfEveryTypeAndLength) {
  for (const DType dtype : kFloats) {
    for (const DType state : kFloats) {
      for (const int tokens : {1, 2, 5, 16}) {
        DeltaShape shape{.lens = {tokens, tokens}, .dtype = dtype, .state = state};
        shape.out_state = state;
        expect_reference(shape,
                         fmt::format("{} {} {}", to_string(dtype), to_string(state), tokens));
      }
    }
  }
}

TEST_F(DeltaDecodeGpu, EveryStatePair) {
  for (const DType in : kFloats) {
    for (const DType out : kFloats) {
      expect_reference({.lens = {3}, .state = in, .out_state = out},
                       fmt::format("{} {}", to_string(in), to_string(out)));
    }
  }
}

TEST_F(DeltaDecodeGpu, DimsAndHeads) {
  for (const std::int64_t dim_k : {32, 64, 128, 256}) {
    for (const std::int64_t dim_v : {8, 40, 128, 264}) {
      for (const DType state : kFloats) {
        DeltaShape shape{.dim_k = dim_k, .dim_v = dim_v, .state = state, .out_state = state};
        expect_reference(shape, fmt::format("{} {} {}", dim_k, dim_v, to_string(state)));
      }
    }
  }
  struct Heads {
    std::int64_t q, k, v;
  };
  for (const Heads h : {Heads{1, 1, 1}, {6, 2, 2}, {2, 6, 6}, {3, 3, 3}}) {
    DeltaShape shape{.lens = {2, 2}, .heads_q = h.q, .heads_k = h.k, .heads_v = h.v};
    expect_reference(shape, fmt::format("heads {} {} {}", h.q, h.k, h.v));
  }
}

TEST_F(DeltaDecodeGpu, LargeBatchesTakeTheWideTile) {
  for (const DType state : kFloats) {
    for (const std::int64_t dim_k : {64, 128, 256}) {
      DeltaShape shape{.lens = std::vector<int>(96, 2), .heads_v = 8, .dim_k = dim_k};
      shape.dim_v = 136;
      shape.state = shape.out_state = state;
      expect_reference(shape, fmt::format("{} {}", to_string(state), dim_k));
    }
  }
}

TEST_F(DeltaDecodeGpu, RulesAndGates) {
  for (const DType gate : kFloats) {
    DeltaShape shape{.lens = {3, 0, 7, 1}, .packed = true, .gate = gate};
    shape.rule = DeltaRule::kGatedDeltaRule;
    expect_reference(shape, "gdn");
    shape.rule = DeltaRule::kGatedDeltaRule2;
    expect_reference(shape, "gdn2");
    shape.rule = DeltaRule::kKda;
    expect_reference(shape, "kda");
    shape.raw_gates = true;
    expect_reference(shape, "kda softplus");
    DeltaCase bounded(shape);
    bounded.options.lower_bound = -5.0;
    bounded.options.use_qk_l2norm = true;
    bounded.options.beta_is_logit = true;
    expect_reference(bounded);
    shape.raw_gates = false;
    shape.rule = DeltaRule::kGatedDeltaProduct;
    for (const std::int64_t n : {1, 2, 3}) {
      shape.householder = n;
      expect_reference(shape, fmt::format("gdp {}", n));
    }
  }
}

TEST_F(DeltaDecodeGpu, AbsentGatesFactorsAndStates) {
  for (const DeltaRule rule : {DeltaRule::kGatedDeltaRule, DeltaRule::kGatedDeltaRule2,
                               DeltaRule::kKda, DeltaRule::kGatedDeltaProduct}) {
    SCOPED_TRACE(static_cast<int>(rule));
    DeltaCase c({.rule = rule, .lens = {4, 1}, .packed = true});
    for (Mirror* m : {&c.g, &c.beta, &c.w, &c.state}) *m = Mirror();
    expect_reference(c);
    DeltaCase no_output({.rule = rule, .lens = {4, 1}, .packed = true});
    no_output.options.output_final_state = false;
    no_output.output_state = Mirror();
    expect_reference(no_output);
  }
}

// What is forgotten is replaced by zero, be it infinite.
TEST_F(DeltaDecodeGpu, ZeroDecayForgets) {
  for (const DeltaRule rule : {DeltaRule::kGatedDeltaRule, DeltaRule::kKda}) {
    DeltaCase c({.rule = rule, .lens = {2, 3}, .packed = true});
    const bool log = rule == DeltaRule::kKda;
    for (std::int64_t i = 0; i < c.g.elements() / 2; ++i) {
      c.g.set(i, log ? -std::numeric_limits<float>::infinity() : 0.0f);
    }
    c.state.fill(std::numeric_limits<float>::infinity());
    c.add_record();
    expect_reference(c);
  }
}

TEST_F(DeltaDecodeGpu, GapsBetweenRows) {
  for (const std::int64_t gap : {1, 8}) {
    for (const DType state : kFloats) {
      DeltaShape shape{.lens = {2, 2}, .state = state, .out_state = state, .gap = gap};
      expect_reference(shape, fmt::format("{} {}", gap, to_string(state)));
    }
  }
}

TEST_F(DeltaDecodeGpu, PoolsSlotsAndSkips) {
  for (const DType index : {DType::kInt32, DType::kInt64}) {
    for (const bool packed : {false, true}) {
      SCOPED_TRACE(testing::Message() << to_string(index) << packed);
      DeltaShape shape{.rule = packed ? DeltaRule::kKda : DeltaRule::kGatedDeltaRuleDecode};
      shape.lens = packed ? std::vector<int>{1, 0, 3, 2, 0} : std::vector<int>{2, 2, 2, 2, 2};
      shape.packed = packed;
      shape.state = DType::kBFloat16;
      shape.index = index;
      shape.slots = 11;
      DeltaCase c(shape);
      c.output_state_indices = Mirror(index, {5});
      c.has_initial = Mirror(DType::kUInt8, {5});
      for (int i = 0; i < 5; ++i) {
        c.output_state_indices.set_index(i, i == 3 ? -1 : (5 * i + 3) % 11);
        c.has_initial.set_index(i, i == 2 ? 0 : 1);
      }
      c.state_indices.set_index(1, -1);
      // Slots that no sequence reads, and the one that starts from zero, hold NaN.
      const std::int64_t slot = c.pool.stride(0);
      for (const std::int64_t row : {0, 8, 2}) {
        for (std::int64_t j = 0; j < slot; ++j) c.pool.set(row * slot + j, std::nanf(""));
      }
      expect_reference(c);
    }
  }
}

// NaN payloads of an untouched state survive.
TEST_F(DeltaDecodeGpu, EmptySequencesHandBytesOn) {
  for (const DType state : kFloats) {
    DeltaShape shape{.rule = DeltaRule::kKda, .lens = {0, 0, 0}, .packed = true, .state = state};
    shape.out_state = state;
    DeltaCase c(shape);
    std::vector<unsigned char> bytes = c.state.bytes();
    for (unsigned char& x : bytes) x = static_cast<unsigned char>(c.random.next());
    c.state.set_bytes(bytes);
    c.push();
    run_gpu(c);
    EXPECT_EQ(c.output_state.read(), bytes) << to_string(state);
  }
}

TEST_F(DeltaDecodeGpu, SlotsOfTokensAndAcceptedCounts) {
  for (const bool with_reads : {false, true}) {
    for (const bool packed : {false, true}) {
      SCOPED_TRACE(testing::Message() << with_reads << packed);
      DeltaShape shape{.rule = packed ? DeltaRule::kKda : DeltaRule::kGatedDeltaRuleDecode};
      shape.lens = packed ? std::vector<int>{3, 1, 0, 3} : std::vector<int>{3, 3, 3, 3};
      shape.packed = packed;
      shape.slots = 17;
      DeltaCase c(shape);
      c.add_slots(4);
      c.accepted = Mirror(DType::kInt32, {4});
      for (int i = 0; i < 4; ++i) {
        c.accepted.set_index(i, i);
        c.state_indices.set_index(i, i);
      }
      c.state_slots.set_index(5, -1);
      if (!with_reads) c.state_indices = Mirror();
      expect_reference(c);
    }
  }
}

TEST_F(DeltaDecodeGpu, CheckpointsOfSixteenTokens) {
  for (const auto position : {CheckpointPosition::kAfter, CheckpointPosition::kBefore}) {
    DeltaCase c({.rule = DeltaRule::kGatedDeltaRule, .lens = {16, 5, 0, 16}, .packed = true});
    c.options.checkpoint_every_n_tokens = 16;
    c.options.checkpoint_position = position;
    c.checkpoints = Mirror(DType::kBFloat16, {8, 4, 128, 128});
    c.checkpoints.fill(7.5f);
    c.checkpoint_starts = Mirror(DType::kInt32, {4});
    for (int i = 0; i < 4; ++i) c.checkpoint_starts.set_index(i, 2 * i);
    expect_reference(c);
  }
}

CommitArgs commit_args(DeltaCase& c, Mirror& accepted, TensorView (Mirror::*view)()) {
  CommitArgs args;
  args.state_pool = (c.pool.*view)();
  args.state_indices = (c.state_indices.*view)();
  args.record_k = (c.record_k.*view)();
  args.record_d = (c.record_d.*view)();
  args.record_decay = (c.record_decay.*view)();
  args.accepted = (accepted.*view)();
  return args;
}

// Verify without update keeps the pool; the record then advances it by the accepted tokens.
TEST_F(DeltaDecodeGpu, VerifyThenCommit) {
  for (const DeltaRule rule : {DeltaRule::kGatedDeltaRuleDecode, DeltaRule::kKda,
                               DeltaRule::kGatedDeltaRule2, DeltaRule::kGatedDeltaProduct}) {
    for (const DType state : kFloats) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(rule) << " " << to_string(state));
      DeltaShape shape{.rule = rule, .lens = {4, 4, 4, 4}, .state = state, .slots = 7};
      shape.householder = rule == DeltaRule::kGatedDeltaProduct ? 2 : 1;
      DeltaCase c(shape);
      c.state_indices.set_index(2, -1);
      c.options.disable_state_update = true;
      c.add_record();
      expect_reference(c);
      EXPECT_EQ(c.pool.read(), c.pool.bytes());
      Mirror accepted(DType::kInt32, {4});
      for (int i = 0; i < 4; ++i) accepted.set_index(i, i == 0 ? 4 : i - 1);
      c.push();
      const CommitOptions options{.num_householder = shape.householder};
      commit(*cuda_, commit_args(c, accepted, &Mirror::device), options).throw_if_error();
      const auto got = c.pool.read();
      CommitOptions reference = options;
      reference.backend = Backend::kReference;
      commit(*cpu_, commit_args(c, accepted, &Mirror::host), reference).throw_if_error();
      EXPECT_LE(error_of(c.pool, got), 1.0);
    }
  }
}

// fp32 states: T tokens in one launch and T launches of one have the same bits.
TEST_F(DeltaDecodeGpu, OneLaunchEqualsSingleSteps) {
  DeltaShape shape{.lens = {7, 7}, .slots = 3};
  DeltaCase together(shape);
  DeltaCase steps(shape);
  shape.lens = {1, 1};
  DeltaCase one(shape);
  together.push();
  run_gpu(together);
  one.push();
  steps.push();
  const auto slice = [](TensorView view, std::int64_t t, std::int64_t length) {
    const std::int64_t offset = t * view.strides[1] * size_of(view.dtype);
    view.data = static_cast<char*>(view.data) + offset;
    view.shape[1] = length;
    return view;
  };
  const DeltaRuleArgs all = steps.device();
  for (std::int64_t t = 0; t < 7; ++t) {
    DeltaRuleArgs args = all;
    for (TensorView* view : {&args.q, &args.k, &args.v, &args.a, &args.b, &args.o}) {
      *view = slice(*view, t, 1);
    }
    gated_delta_rule_decode(*cuda_, args, steps.options).throw_if_error();
  }
  synchronize({DeviceType::kCuda, 0}).throw_if_error();
  EXPECT_EQ(steps.pool.read(), together.pool.read());
  EXPECT_EQ(steps.o.read(), together.o.read());
}

// A sequence has the same bits alone and in a batch that takes another tile.
TEST_F(DeltaDecodeGpu, BitsDoNotDependOnTheBatch) {
  for (const DType state : kFloats) {
    for (const std::int64_t dim_k : {64, 128, 256}) {
      DeltaShape shape{.lens = {3}, .heads_v = 8, .dim_k = dim_k, .state = state};
      shape.out_state = state;
      DeltaCase alone(shape);
      shape.lens = std::vector<int>(80, 3);
      DeltaCase batch(shape, 2);
      for (auto [from, to] : {std::pair{&alone.q, &batch.q},
                              {&alone.k, &batch.k},
                              {&alone.v, &batch.v},
                              {&alone.a, &batch.a},
                              {&alone.b, &batch.b},
                              {&alone.state, &batch.state},
                              {&alone.a_log, &batch.a_log},
                              {&alone.dt_bias, &batch.dt_bias}}) {
        auto bytes = to->bytes();
        std::copy(from->bytes().begin(), from->bytes().end(), bytes.begin());
        to->set_bytes(bytes);
      }
      alone.push();
      batch.push();
      run_gpu(alone);
      run_gpu(batch);
      auto states = batch.output_state.read();
      auto o = batch.o.read();
      states.resize(alone.output_state.bytes().size());
      o.resize(alone.o.bytes().size());
      EXPECT_EQ(states, alone.output_state.read());
      EXPECT_EQ(o, alone.o.read());
    }
  }
}

// The type of a state rounds what is stored and nothing else: equal values, equal bits of o.
TEST_F(DeltaDecodeGpu, OutputsDoNotDependOnTheStorageType) {
  for (const std::int64_t dim_k : {64, 128, 256}) {
    std::vector<unsigned char> wanted;
    for (const DType state : kFloats) {
      for (const std::int64_t gap : {0, 1}) {  // 1: unaligned rows, typed at run time
        DeltaShape shape{.lens = {4, 4}, .dim_k = dim_k, .state = state, .out_state = state};
        DeltaCase c(shape);
        c.state = Mirror(state, {2, 4, shape.dim_v, dim_k}, gap);
        for (std::int64_t i = 0; i < 2 * 4 * shape.dim_v; ++i) {
          for (std::int64_t j = 0; j < dim_k; ++j) {
            const std::int64_t row = i / (4 * shape.dim_v) * c.state.stride(0) +
                                     i / shape.dim_v % 4 * c.state.stride(1) +
                                     i % shape.dim_v * c.state.stride(2);
            c.state.set(row + j, static_cast<float>((i * 7 + j * 13) % 17 - 8) / 8.0f);
          }
        }
        run_gpu(c);
        if (wanted.empty()) wanted = c.o.read();
        EXPECT_EQ(c.o.read(), wanted) << to_string(state) << " " << gap << " " << dim_k;
      }
    }
  }
}

TEST_F(DeltaDecodeGpu, NoStateEqualsZeros) {
  DeltaShape shape{.rule = DeltaRule::kKda, .lens = {3, 2}, .packed = true};
  DeltaCase zeros(shape);
  DeltaCase none(shape);
  zeros.state.fill(0.0f);
  none.state = Mirror();
  run_gpu(zeros);
  run_gpu(none);
  EXPECT_EQ(zeros.o.read(), none.o.read());
  EXPECT_EQ(zeros.output_state.read(), none.output_state.read());
}

// A captured launch reads lengths, slots and accepted counts when it replays.
TEST_F(DeltaDecodeGpu, GraphReplaysWithNewIndices) {
  DeltaShape shape{.rule = DeltaRule::kKda, .lens = {1, 1, 1}, .packed = true, .slots = 13};
  DeltaCase c(shape);
  c.options.max_seqlen = 4;
  c.add_slots(1);
  c.accepted = Mirror(DType::kInt32, {3});
  c.push();
  const DeltaRuleArgs args = c.device();
  const Plan decode = plan_for(c, args, Backend::kCuda);
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  decode.run(*cuda_, args, {}, stream).throw_if_error();
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  for (const std::vector<int>& ends : {std::vector<int>{1, 2, 3}, {3, 3, 5}, {0, 4, 4}}) {
    for (int i = 0; i < 3; ++i) {
      c.cu_seqlens.set_index(i + 1, ends[static_cast<std::size_t>(i)]);
      c.state_indices.set_index(i, i == 0 ? ends[0] - 1 : 0);
      c.accepted.set_index(i, ends[1] - 2 + i % 2);
    }
    c.push();
    ASSERT_EQ(cudaGraphLaunch(exec, stream), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    const auto o = c.o.read();
    const auto pool = c.pool.read();
    run_reference(c);
    EXPECT_LE(error_of(c.o, o), 1.0);
    EXPECT_LE(error_of(c.pool, pool), 1.0);
  }
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
}

TEST_F(DeltaDecodeGpu, ManySmallSequences) {
  DeltaShape shape{.lens = std::vector<int>(50000, 1), .heads_q = 1, .heads_k = 1, .heads_v = 2};
  shape.dim_k = 64;
  shape.dim_v = 8;
  shape.state = shape.out_state = DType::kBFloat16;
  expect_reference(shape, "100000 pairs");
}

// Slots more than 2^32 bytes apart.
TEST_F(DeltaDecodeGpu, SlotsFarApart) {
  constexpr std::int64_t kSlotStride = (std::int64_t{1} << 32) / 4 + 128;
  DeltaShape shape{.lens = {1}, .heads_q = 1, .heads_k = 1, .heads_v = 1, .dim_v = 8, .slots = 3};
  DeltaCase c(shape);
  c.state_indices.set_index(0, 2);
  c.push();
  run_gpu(c);
  const auto near = c.pool.read();
  const std::size_t slot_bytes = near.size() / 3;
  DeviceBuffer far =
      DeviceBuffer::allocate({DeviceType::kCuda, 0}, 2 * kSlotStride * 4 + slot_bytes).value();
  far.copy_from_host(c.pool.bytes().data() + 2 * slot_bytes, slot_bytes, 2 * kSlotStride * 4)
      .throw_if_error();
  DeltaRuleArgs args = c.device();
  args.state_pool.data = far.data();
  args.state_pool.strides[0] = kSlotStride;
  gated_delta_rule_decode(*cuda_, args, c.options).throw_if_error();
  synchronize({DeviceType::kCuda, 0}).throw_if_error();
  std::vector<unsigned char> got(slot_bytes);
  far.copy_to_host(got.data(), slot_bytes, 2 * kSlotStride * 4).throw_if_error();
  EXPECT_TRUE(std::equal(got.begin(), got.end(), near.end() - static_cast<long>(slot_bytes)));
}

// Without a declared maximum, many short sequences are served, also one that is longer.
TEST_F(DeltaDecodeGpu, ServesUndeclaredShortLengths) {
  std::vector<int> lens(40, 1);
  lens[7] = 40;
  DeltaCase c({.rule = DeltaRule::kKda, .lens = lens, .packed = true});
  c.options.max_seqlen = 0;
  expect_reference(c);
}

TEST_F(DeltaDecodeGpu, RejectsWhatItDoesNotServe) {
  DeltaCase c({.rule = DeltaRule::kGatedDeltaRule, .lens = {17}, .packed = true});
  DeltaRuleOptions options = c.options;
  options.backend = Backend::kCuda;
  const Result<Plan> none = plan(describe(c.shape.rule, c.device(), options).value(), *cuda_);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.status().code(), StatusCode::kUnsupported);
  EXPECT_NE(none.status().message().find("max_seqlen must be at most 16, got 17"),
            std::string::npos)
      << none.status().message();
}

}  // namespace
}  // namespace tilegate::test
