// SPDX-License-Identifier: Apache-2.0
// The chunk walk of one unit. With E, Q scaled to the chunk start and R (tail) to its end:
//   Y = inv(I + L) (W v - E S);  O = scale (Q S + P Y);  S <- D S + R^T Y
// Per panel of V columns, fp32: 3 K + 64 multiply-adds a row and column, bound by their throughput.
// A checkpoint inside a chunk is the update by the rows before it, the very operations of a run
// that stops there.
#if defined(TILEGATE_CPU_LINEAR_WALK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TILEGATE_CPU_LINEAR_WALK_INL_H_
#undef TILEGATE_CPU_LINEAR_WALK_INL_H_
#else
#define TILEGATE_CPU_LINEAR_WALK_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "backend/cpu/linear/simd/prepare_channel-inl.h"
#include "backend/cpu/linear/simd/prepare_scalar-inl.h"
#include "backend/cpu/linear/simd/record-inl.h"
#include "backend/cpu/linear/simd/state_panels-inl.h"
#include "backend/cpu/linear/unit.h"

HWY_BEFORE_NAMESPACE();
namespace tilegate::cpu_linear {
namespace HWY_NAMESPACE {

// One head of a unit.
struct Walk {
  const ChunkUnit& unit;
  const LinearProblem& p;
  HeadView head;
  ChunkBuffers b;            // whose state is this head's
  std::int64_t columns = 0;  // V columns of this unit
  std::int64_t len = 0;      // tokens of the sequence

  std::int64_t panels() const { return (columns + kPanel - 1) / kPanel; }
  float* state_panel(std::int64_t panel) const { return b.state + panel * kPanel * b.dims.dim_k; }
  float* delta_panel(std::int64_t panel) const { return b.delta + panel * kPanel * kChunk; }
  StateSlice slice(const TensorView& view, std::int64_t slot) const {
    return {.view = view,
            .slot = slot,
            .head = head.head,
            .begin = unit.column_begin,
            .count = columns};
  }
  bool outputs() const { return unit.emit != Emit::kState; }
};

HWY_INLINE void seed_state(const Walk& w) {
  const std::int64_t dim_k = w.b.dims.dim_k;
  const std::int64_t floats = w.panels() * kPanel * dim_k;
  if (w.unit.seed == Seed::kBuffer) {
    std::copy_n(w.unit.seed_boundary + w.unit.column_begin * dim_k, floats, w.b.state);
    return;
  }
  const bool stored = w.unit.seed == Seed::kInitial && starts_from_state(w.p, w.unit.seq);
  if (!stored || w.columns % kPanel != 0) std::fill_n(w.b.state, floats, 0.0f);
  if (stored) {
    load_state(w.slice(w.p.state_in, read_row(w.p, w.unit.seq)), dim_k, w.b.row_pitch(), w.b.rows,
               w.b.state);
  }
  for (std::int64_t c = 0; w.unit.seed == Seed::kIdentity && c < w.columns; ++c) {
    w.b.state[panel_offset(dim_k, c) + (w.unit.column_begin + c) * kPanel] = 1.0f;
  }
}

HWY_INLINE void write_state(const Walk& w, const float* panels, const TensorView& view,
                            std::int64_t slot) {
  if (slot == kNoRow) return;
  store_state(panels, w.b.dims.dim_k, w.b.row_pitch(), w.b.rows, w.slice(view, slot));
}

// write * v of rows [sub, sub + rows) into the panels of delta, whole rows at a time.
inline HWY_NOINLINE void load_values(const Walk& w, std::int64_t sub, std::int64_t rows) {
  const std::int64_t padded_columns = w.panels() * kPanel;
  const std::int64_t padded_rows = round_up(rows, kBlock);
  const bool reads_values = w.unit.seed != Seed::kIdentity;
  float* row = w.b.rows + w.b.row_pitch();
  if (!reads_values) fill(row, padded_columns, 0.0f);
  for (std::int64_t i = 0; i < padded_rows; ++i) {
    if (i == rows) fill(row, padded_columns, 0.0f);
    if (reads_values && i < rows) {
      value_row(w.head, sub + i, w.unit.column_begin, w.columns, padded_columns, w.b.rows, row);
    }
    for (std::int64_t panel = 0; panel < w.panels(); ++panel) {
      float* out = w.delta_panel(panel) + i * kPanel;
      store(load(row + panel * kPanel), out);
      store(load(row + panel * kPanel + kLanes), out + kLanes);
    }
  }
}

// Y of one panel, in place of write * v.
HWY_INLINE void solve_delta(const Walk& w, std::int64_t sub, std::int64_t rows,
                            std::int64_t panel) {
  const std::int64_t padded = round_up(rows, kBlock);
  float* delta = w.delta_panel(panel);
  const std::int64_t column = w.unit.column_begin + panel * kPanel;
  const std::int64_t valid = std::min(kPanel, w.columns - panel * kPanel);
  gemm<Init::kLoad, Sign::kMinus, 2>({.a = w.b.erase,
                                      .lda = w.b.dims.key_pitch(),
                                      .b = w.state_panel(panel),
                                      .ldb = kPanel,
                                      .c_in = delta,
                                      .c = delta,
                                      .ldc = kPanel,
                                      .depth = w.b.dims.dim_k},
                                     rows);
  solve_panel(w.b.lower, padded / kBlock, delta);
  for (std::int64_t i = 0; w.outputs() && i < rows; ++i) {
    record_delta(w.head, sub + i, column, valid, delta + i * kPanel);
  }
}

// Outputs of one panel.
HWY_INLINE void read_outputs(const Walk& w, std::int64_t sub, std::int64_t rows,
                             std::int64_t panel) {
  const std::int64_t padded = round_up(rows, kBlock);
  float* out = w.b.output;
  gemm<Init::kZero, Sign::kPlus, 2>({.a = w.b.query,
                                     .lda = w.b.dims.key_pitch(),
                                     .b = w.state_panel(panel),
                                     .ldb = kPanel,
                                     .c = out,
                                     .ldc = kPanel,
                                     .depth = w.b.dims.dim_k},
                                    rows);
  std::fill_n(out + rows * kPanel, (padded - rows) * kPanel, 0.0f);
  multiply_panel(w.b.reads, padded / kBlock, w.delta_panel(panel), out);
  const std::int64_t column = w.unit.column_begin + panel * kPanel;
  const std::int64_t valid = std::min(kPanel, w.columns - panel * kPanel);
  const std::int64_t n = w.p.householder;
  for (std::int64_t i = 0; i < rows; ++i) {
    if ((sub + i) % n != n - 1) continue;
    const std::int64_t token = w.head.first + (sub + i) / n;
    store_row(out + i * kPanel, w.p.scale, valid, w.p.o,
              offset_of(w.p.o, w.head.batch, token, w.head.head) + column);
  }
}

// The state after the first `rows` rows of the chunk, from `state` into `out` (may be the same).
HWY_INLINE void advance_state(const Walk& w, std::int64_t rows, float* out) {
  const std::int64_t blocks = round_up(rows, kBlock) / kBlock;
  for (std::int64_t panel = 0; panel < w.panels(); ++panel) {
    gemm<Init::kScale, Sign::kPlus, 2>({.a = w.b.tail_t,
                                        .lda = kChunk,
                                        .b = w.delta_panel(panel),
                                        .ldb = kPanel,
                                        .c_in = w.state_panel(panel),
                                        .scale = w.b.prefix_decay + blocks * w.b.dims.key_pitch(),
                                        .c = out + panel * kPanel * w.b.dims.dim_k,
                                        .ldc = kPanel,
                                        .depth = rows},
                                       w.b.dims.dim_k);
  }
}

// Number of the checkpoint that is the state after `tokens` tokens; -1: none is.
HWY_INLINE std::int64_t checkpoint_number(const LinearProblem& p, std::int64_t tokens,
                                          std::int64_t len) {
  if (p.checkpoint_every <= 0 || tokens % p.checkpoint_every != 0) return -1;
  const std::int64_t count = tokens / p.checkpoint_every;
  const bool before = p.checkpoint_position == CheckpointPosition::kBefore;
  const std::int64_t number = before ? count : count - 1;
  return number < num_checkpoints(p, len) ? number : -1;
}

HWY_INLINE void write_checkpoint(const Walk& w, std::int64_t tokens, const float* panels) {
  const std::int64_t number = checkpoint_number(w.p, tokens, w.len);
  if (number < 0) return;
  write_state(w, panels, w.p.checkpoints, checkpoint_row(w.p, w.unit.seq, number));
}

// Keys and decays of the replay record.
HWY_INLINE void write_record(const Walk& w, std::int64_t sub, std::int64_t rows) {
  const std::int64_t pitch = w.b.dims.key_pitch();
  for (std::int64_t i = 0; w.outputs() && w.unit.column_begin == 0 && i < rows; ++i) {
    record_key(w.head, sub + i, w.b.keys + i * pitch);
    record_decay(w.head, sub + i, pitch, w.b.rows, w.b.rows + w.b.row_pitch());
  }
}

enum class Gates : std::uint8_t { kScalar, kChannel };

template <Gates kGates>
HWY_INLINE void end_keys_at(std::int64_t blocks, const ChunkBuffers& b) {
  if constexpr (kGates == Gates::kScalar) {
    scalar_tail(blocks, b);
  } else {
    channel_tail(blocks, b);
  }
}

// Whether the chunk's keys and their products are those of the head before, still in the buffers.
enum class Keys : std::uint8_t { kNew, kShared };

template <Gates kGates>
HWY_INLINE void prepare_chunk(const Walk& w, std::int64_t sub, std::int64_t rows, Keys keys) {
  const Queries queries = w.outputs() ? Queries::kLoad : Queries::kSkip;
  const bool vector = w.p.erase == EraseKind::kVector;
  if constexpr (kGates == Gates::kScalar) {
    if (keys == Keys::kNew) {
      load_keys(w.head, sub, rows, queries, w.b, w.b.raw_query);
      pair_rows(rows, queries, w.b);
    }
    load_scalars(w.head, sub, rows, w.b);
    if (vector) {
      load_erase(w.head, sub, rows, w.b);
      gate_rows<EraseKind::kVector>(rows, queries, w.b);
    } else {
      gate_rows<EraseKind::kScalar>(rows, queries, w.b);
    }
  } else {
    load_keys(w.head, sub, rows, queries, w.b, w.b.query);
    load_erase(w.head, sub, rows, w.b);
    load_channel_decays(w.head, sub, rows, w.b);
  }
  write_record(w, sub, rows);  // before channel gates scale the keys
  if constexpr (kGates == Gates::kChannel) prepare_channel(rows, queries, w.b);
}

// One chunk: rows [sub, sub + rows) of the sequence.
template <Gates kGates>
HWY_INLINE void walk_chunk(const Walk& w, std::int64_t sub, std::int64_t rows, Keys keys) {
  prepare_chunk<kGates>(w, sub, rows, keys);
  load_values(w, sub, rows);
  for (std::int64_t panel = 0; panel < w.panels(); ++panel) {
    solve_delta(w, sub, rows, panel);
    if (w.outputs()) read_outputs(w, sub, rows, panel);
  }
  const std::int64_t n = w.p.householder;
  for (std::int64_t inside = kBlock; w.outputs() && inside < rows; inside += kBlock) {
    if ((sub + inside) % n != 0 || checkpoint_number(w.p, (sub + inside) / n, w.len) < 0) continue;
    end_keys_at<kGates>(inside / kBlock, w.b);
    advance_state(w, inside, w.b.saved);
    write_checkpoint(w, (sub + inside) / n, w.b.saved);
  }
  end_keys_at<kGates>(round_up(rows, kBlock) / kBlock, w.b);
  advance_state(w, rows, w.b.state);
  if (w.outputs() && (sub + rows) % n == 0) write_checkpoint(w, (sub + rows) / n, w.b.state);
}

HWY_INLINE void begin_walk(const Walk& w) {
  seed_state(w);
  const bool before = w.p.checkpoint_position == CheckpointPosition::kBefore;
  if (w.outputs() && w.unit.begin == 0 && before) write_checkpoint(w, 0, w.b.state);
}

HWY_INLINE void end_walk(const Walk& w) {
  if (w.unit.emit != Emit::kAll) {
    std::copy_n(w.b.state, w.panels() * kPanel * w.b.dims.dim_k,
                w.unit.boundary + w.unit.column_begin * w.b.dims.dim_k);
  }
  if (w.outputs() && w.unit.end == w.len) {
    write_state(w, w.b.state, w.p.state_out, write_row(w.p, w.unit.seq));
  }
}

HWY_INLINE Walk head_walk(const ChunkUnit& unit, const ChunkBuffers& buffers, std::int64_t head) {
  const LinearProblem& p = *unit.problem;
  ChunkBuffers own = buffers;
  own.state += (head - unit.head_begin) * buffers.dims.state_floats();
  return {.unit = unit,
          .p = p,
          .head = head_view(p, unit.seq, head),
          .b = own,
          .columns = unit.column_end - unit.column_begin,
          .len = seq_len(p, unit.seq)};
}

template <Gates kGates>
HWY_NOINLINE void walk_heads(const ChunkUnit& unit, const ChunkBuffers& buffers) {
  for (std::int64_t h = unit.head_begin; h < unit.head_end; ++h) {
    begin_walk(head_walk(unit, buffers, h));
  }
  const std::int64_t n = unit.problem->householder;
  const std::int64_t end = unit.end * n;
  for (std::int64_t sub = unit.begin * n; sub < end; sub += kChunk) {
    std::int64_t head_k = -1;
    std::int64_t head_q = -1;
    for (std::int64_t h = unit.head_begin; h < unit.head_end; ++h) {
      const Walk w = head_walk(unit, buffers, h);
      const bool shared = w.head.head_k == head_k && w.head.head_q == head_q;
      walk_chunk<kGates>(w, sub, std::min(kChunk, end - sub), shared ? Keys::kShared : Keys::kNew);
      head_k = w.head.head_k;
      head_q = w.head.head_q;
    }
  }
  for (std::int64_t h = unit.head_begin; h < unit.head_end; ++h) {
    end_walk(head_walk(unit, buffers, h));
  }
}

// A sequence without tokens hands its initial state on.
HWY_INLINE void pass_state(const Walk& w) {
  const std::int64_t to = write_row(w.p, w.unit.seq);
  if (to == kNoRow) return;
  const StateSlice out = w.slice(w.p.state_out, to);
  if (!starts_from_state(w.p, w.unit.seq)) {
    zero_state(out, w.b.dims.dim_k);
    return;
  }
  copy_state(w.slice(w.p.state_in, read_row(w.p, w.unit.seq)), out, w.b.dims.dim_k, w.b.rows);
}

// Output rows of a skipped sequence.
HWY_INLINE void zero_outputs(const Walk& w) {
  const std::int64_t size = size_of(w.p.o.dtype);
  for (std::int64_t t = w.unit.begin; t < w.unit.end; ++t) {
    const std::int64_t at = offset_of(w.p.o, w.head.batch, w.head.first + t, w.head.head);
    std::memset(static_cast<std::byte*>(w.p.o.data) + (at + w.unit.column_begin) * size, 0,
                static_cast<std::size_t>(w.columns * size));
  }
}

HWY_INLINE void chunk_unit(const ChunkUnit& unit, const ChunkBuffers& buffers) {
  const LinearProblem& p = *unit.problem;
  const bool skipped = is_skipped(p, unit.seq);
  if (skipped || seq_len(p, unit.seq) == 0) {
    for (std::int64_t h = unit.head_begin; h < unit.head_end; ++h) {
      const Walk w = head_walk(unit, buffers, h);
      if (skipped) zero_outputs(w);
      if (!skipped) pass_state(w);
    }
    return;
  }
  if (p.gate_per_channel && p.gate != GateKind::kNone) {
    walk_heads<Gates::kChannel>(unit, buffers);
  } else {
    walk_heads<Gates::kScalar>(unit, buffers);
  }
}

HWY_INLINE void scan_step(const ScanStep& s) {
  for (std::int64_t c = s.column_begin; c < s.column_end; c += kPanel) {
    float* out = s.out + c * s.dim_k;
    const float* in = s.from_zero + c * s.dim_k;
    for (std::int64_t k = 0; k < s.dim_k; k += kPanel) {
      gemm<Init::kLoad, Sign::kPlus, 2>({.a = s.transition + k * s.dim_k,
                                         .lda = kPanel,
                                         .b = s.in + c * s.dim_k + k * kPanel,
                                         .ldb = kPanel,
                                         .c_in = in,
                                         .c = out,
                                         .ldc = kPanel,
                                         .depth = std::min(kPanel, s.dim_k - k)},
                                        s.dim_k);
      in = out;
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tilegate::cpu_linear
HWY_AFTER_NAMESPACE();

#endif  // TILEGATE_CPU_LINEAR_WALK_INL_H_
