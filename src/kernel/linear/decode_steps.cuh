// SPDX-License-Identifier: Apache-2.0
// The vectors of the updates of one (sequence, head), in shared memory for all warps of a block: a
// warp prepares a step alone, a lane K / 32 columns of it.
//
// A row s of the state takes a step in one pass (u and r are sums over columns):
//   s <- s * decay;  u = s . erased;  r = s . query;  d = write - u;  s <- s + d * key
//   o = scale * (r + d * (key . query))
// so that both sums are formed together; key . query is one number for all rows.
#pragma once

#include <utility>

#include "kernel/linear/gates.cuh"
#include "kernel/linear/sequences.cuh"
#include "kernel/tile/lane_sum.cuh"

namespace tilegate::kernel {

inline constexpr float kNormEpsilon = 1e-6f;

// Whether a step begins with a decay, and whether it must select: what is forgotten (a decay of
// zero) may have been infinite.
enum class DecayUse : int { kNone, kScale, kSelect };

struct StepInfo {
  float kq;            // key . query
  float write_factor;  // the erase scalar where it is also the write scalar
  DecayUse decay;
  int padding;
};

// One (sequence, head) as a block sees it, and its shared memory for `stage_steps` steps.
struct HeadWalk {
  SequencePlace place;
  int head = 0;
  int row0 = 0;              // of the block
  int rows = 0;              // of the block
  uint4* states = nullptr;   // staged, 16 bytes a thread and access
  float* vectors = nullptr;  // [steps, 4, K]: key, erased, query, decay
  float* written = nullptr;  // [steps, rows]: v or w * v
  StepInfo* info = nullptr;  // [steps]
};

__device__ __forceinline__ std::uint32_t head_of(const HeadMap& map, int head) {
  const auto number = static_cast<std::uint32_t>(head);
  return map.factor == 0 ? number : __umulhi(number, map.factor);
}

// Address of row `row` of tokens for the walk's head.
__device__ __forceinline__ char* row_address(const TokenRows& rows, const HeadWalk& w, int row) {
  char* at = static_cast<char*>(rows.data);
  at += std::uint64_t{static_cast<std::uint32_t>(w.place.batch)} * rows.batch;
  at += std::uint64_t{static_cast<std::uint32_t>(row)} * rows.row;
  return at + std::uint64_t{head_of(rows.heads, w.head)} * rows.head;
}

// Where a step stands: householder steps a token, the first decays, the last reads.
struct StepPlace {
  int step = 0;
  int token = 0;
  int part = 0;  // of the token
};

__device__ __forceinline__ StepPlace step_place(const DeltaDecodeParams& p, int step) {
  if (p.householder == 1) return {step, step, 0};
  const int token = step / p.householder;
  return {step, token, step - token * p.householder};
}

// kHalves: as the states' (state_rows.cuh).
template <int kDimK, bool kHalves>
struct DeltaSteps {
  static constexpr int kColumns = kDimK / 32;  // of a lane: lane, lane + 32, ..
  static constexpr int kVectors = 4;
  enum Vector { kKey, kErased, kQuery, kDecay };
  using Columns = float[kColumns];
  using Raw = std::uint32_t[kColumns];

  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) & 31; }
  static __device__ __forceinline__ int warp() { return static_cast<int>(threadIdx.x) / 32; }
  static __device__ __forceinline__ int warps() { return static_cast<int>(blockDim.x) / 32; }

  // What a step reads, as it is stored. All its loads are issued before the first is used. Of a
  // scalar, every lane holds it in element 0.
  struct Loads {
    Raw first, second, third;  // key, query, erase; or gate, bias
    float a_log = 0.0f;
  };
  // v and w of one element of the block's rows.
  struct ValueLoads {
    std::uint32_t v = 0, w = 0;
  };

  // The first loads of a stage, one task a warp and one value a thread: issued early.
  struct StageLoads {
    Loads task;
    ValueLoads value;
  };

  static __device__ __forceinline__ void load_vector(const char* row, ElementKind kind, Raw& out) {
    const char* at = row + lane() * tile::bytes_of(kind);
    load_columns(at, kind, out, std::make_integer_sequence<int, kColumns>());
  }
  template <int... kI>
  static __device__ __forceinline__ void load_columns(const char* at, ElementKind kind, Raw& out,
                                                      std::integer_sequence<int, kI...>) {
    ((out[kI] = tile::load_raw_at<32 * kI>(at, kind)), ...);
  }

  static __device__ __forceinline__ void widen(const Raw& raw, ElementKind kind, Columns& out) {
    if (kind == ElementKind::kBf16) {
#pragma unroll
      for (int i = 0; i < kColumns; ++i) out[i] = __uint_as_float(raw[i] << 16);
      return;
    }
#pragma unroll
    for (int i = 0; i < kColumns; ++i) out[i] = tile::widen(raw[i], kind);
  }

  static __device__ __forceinline__ void load_gate(const GateParams& p, const HeadWalk& w,
                                                   int token, Loads& out) {
    const char* row = row_address(p.g, w, token);
    if (p.per_channel != 0) load_vector(row, p.g.kind, out.first);
    if (p.per_channel == 0) out.first[0] = tile::load_raw_at(row, p.g.kind);
    if (p.a_log == nullptr) return;
    const char* a_log = reinterpret_cast<const char*>(p.a_log) +
                        std::uint64_t{head_of(p.a_log_heads, w.head)} * p.a_log_step;
    out.a_log = *reinterpret_cast<const float*>(a_log);
    if (p.dt_bias == nullptr) return;
    const char* bias = static_cast<const char*>(p.dt_bias) +
                       std::uint64_t{head_of(p.dt_bias_heads, w.head)} * p.dt_bias_step;
    if (p.per_channel != 0) load_vector(bias, p.dt_bias_kind, out.second);
    if (p.per_channel == 0) out.second[0] = tile::load_raw_at(bias, p.dt_bias_kind);
  }

  static __device__ __forceinline__ void load_factors(const DeltaDecodeParams& p, const HeadWalk& w,
                                                      const StepPlace& at, Loads& out) {
    const int row = w.place.begin * p.householder + at.step;
    load_vector(row_address(p.k, w, row), p.k.kind, out.first);
    load_vector(row_address(p.q, w, w.place.begin + at.token), p.q.kind, out.second);
    if (p.erase == EraseForm::kOne) return;
    const char* beta = row_address(p.beta, w, row);
    if (p.erase == EraseForm::kVector) load_vector(beta, p.beta.kind, out.third);
    if (p.erase == EraseForm::kScalar) out.third[0] = tile::load_raw_at(beta, p.beta.kind);
  }

  // A stage of `count` steps is 2 * count tasks of a warp: first the factors of every step (key,
  // query, erase), then the decays of every step.
  static __device__ __forceinline__ void load_task(const DeltaDecodeParams& p, const HeadWalk& w,
                                                   int step0, int count, int task, Loads& out) {
    const StepPlace at = step_place(p, step0 + (task < count ? task : task - count));
    if (task < count) {
      load_factors(p, w, at, out);
    } else if (p.gate.form != GateForm::kNone && at.part == 0) {
      load_gate(p.gate, w, w.place.begin + at.token, out);
    }
  }

  // Lane l of a row's lanes reads the four floats at 4 l and the four at K / 2 + 4 l: where the
  // columns that a lane holds are 8 l .. 8 l + 7 (16-bit states), they are put there.
  static __device__ __forceinline__ void store(const HeadWalk& w, int slot, Vector which,
                                               const Columns& x) {
    const int c = lane();
    const int first = kHalves ? c : (c / 4 % 2) * (kDimK / 2) + c / 8 * 4 + c % 4;
    constexpr int kStep = kHalves ? 32 : 16;
    float* to = w.vectors + (slot * kVectors + which) * kDimK + first;
#pragma unroll
    for (int i = 0; i < kColumns; ++i) to[i * kStep] = x[i];
  }

  // Decays of a token; true when one of the lane's is zero.
  static __device__ __forceinline__ bool decays(const DeltaDecodeParams& p, const HeadWalk& w,
                                                const StepPlace& at, const Loads& raw,
                                                Columns& alpha) {
    const GateParams& gate = p.gate;
    const float rate = exp_of(raw.a_log);
    bool zero = false;
    Columns log;
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      if (i > 0 && gate.per_channel == 0) {
        log[i] = log[0], alpha[i] = alpha[0];
        continue;
      }
      const float stored = tile::widen(raw.first[i], gate.g.kind);
      const float bias =
          gate.dt_bias == nullptr ? 0.0f : tile::widen(raw.second[i], gate.dt_bias_kind);
      log[i] = log_decay(gate, rate, stored, bias);
      alpha[i] = decay_of(gate, stored, log[i]);
      zero = zero || alpha[i] == 0.0f;
    }
    record_decay(p, w, at.token, log);
    return zero;
  }

  static __device__ __forceinline__ void record_decay(const DeltaDecodeParams& p, const HeadWalk& w,
                                                      int token, const Columns& log) {
    const RecordParams& r = p.record;
    if (r.decay == nullptr || w.row0 != 0) return;
    float* row = r.decay + w.place.seq * r.decay_seq + token * r.decay_row + w.head * r.decay_head;
    if (p.gate.per_channel == 0) {
      if (lane() == 0) row[0] = log[0];
      return;
    }
#pragma unroll
    for (int i = 0; i < kColumns; ++i) row[lane() + 32 * i] = log[i];
  }

  static __device__ __forceinline__ void record_key(const DeltaDecodeParams& p, const HeadWalk& w,
                                                    int step, const Columns& key) {
    const RecordParams& r = p.record;
    if (r.k == nullptr || w.row0 != 0) return;
    const int head = static_cast<int>(head_of(p.k.heads, w.head));
    if (head * p.heads_per_key != w.head) return;
    float* row = r.k + w.place.seq * r.k_seq + step * r.k_row + head * r.k_head;
#pragma unroll
    for (int i = 0; i < kColumns; ++i) row[lane() + 32 * i] = key[i];
  }

  // key . query, after both are normalised where the call asks for it.
  static __device__ __forceinline__ float normalise(const DeltaDecodeParams& p, Columns& key,
                                                    Columns& query) {
    float kq = 0.0f, kk = 0.0f, qq = 0.0f;
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      kq = fmaf(key[i], query[i], kq);
      kk = fmaf(key[i], key[i], kk);
      qq = fmaf(query[i], query[i], qq);
    }
    kq = tile::lane_sum<32>(kq);
    if (p.l2norm == 0) return kq;
    const float k_factor = rsqrtf(tile::lane_sum<32>(kk) + kNormEpsilon);
    const float q_factor = rsqrtf(tile::lane_sum<32>(qq) + kNormEpsilon);
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      key[i] *= k_factor;
      query[i] *= q_factor;
    }
    return kq * k_factor * q_factor;
  }

  // x <- erase * key. Returns the erase scalar where it is also the write scalar, else 1.
  static __device__ __forceinline__ float erase_key(const DeltaDecodeParams& p, const Loads& raw,
                                                    const Columns& key, Columns& x) {
    if (p.erase == EraseForm::kVector) {
      widen(raw.third, p.beta.kind, x);
#pragma unroll
      for (int i = 0; i < kColumns; ++i) x[i] *= key[i];
      return 1.0f;
    }
    float factor = 1.0f;
    if (p.erase == EraseForm::kScalar) {
      factor = tile::widen(raw.third[0], p.beta.kind);
      if (p.beta_is_logit != 0) factor = sigmoid(factor);
    }
#pragma unroll
    for (int i = 0; i < kColumns; ++i) x[i] = factor * key[i];
    return p.write == WriteForm::kErase ? factor : 1.0f;
  }

  static __device__ __forceinline__ void prepare_factors(const DeltaDecodeParams& p,
                                                         const HeadWalk& w, const StepPlace& at,
                                                         int slot, const Loads& raw) {
    Columns key, query, erased;
    widen(raw.first, p.k.kind, key);
    widen(raw.second, p.q.kind, query);
    const float kq = normalise(p, key, query);
    record_key(p, w, at.step, key);
    store(w, slot, kKey, key);
    store(w, slot, kQuery, query);
    const float write_factor = erase_key(p, raw, key, erased);
    store(w, slot, kErased, erased);
    if (lane() != 0) return;
    w.info[slot].kq = kq;
    w.info[slot].write_factor = write_factor;
  }

  static __device__ __forceinline__ void prepare_decay(const DeltaDecodeParams& p,
                                                       const HeadWalk& w, const StepPlace& at,
                                                       int slot, const Loads& raw) {
    DecayUse use = DecayUse::kNone;
    if (at.part == 0 && p.gate.form != GateForm::kNone) {
      Columns alpha;
      const bool zero = decays(p, w, at, raw, alpha);
      use = __any_sync(tile::kFullWarp, zero ? 1 : 0) != 0 ? DecayUse::kSelect : DecayUse::kScale;
      store(w, slot, kDecay, alpha);
    }
    if (at.part == 0 && p.gate.form == GateForm::kNone) {
      const Columns no_decay = {};
      record_decay(p, w, at.token, no_decay);
    }
    if (lane() == 0) w.info[slot].decay = use;
  }

  static __device__ __forceinline__ ValueLoads load_value(const DeltaDecodeParams& p,
                                                          const HeadWalk& w, const StepPlace& at,
                                                          int row) {
    ValueLoads raw;
    if (w.row0 + row >= p.dim_v) return raw;
    const char* v = row_address(p.v, w, w.place.begin * p.householder + at.step);
    raw.v = tile::load_raw_at(v + (w.row0 + row) * tile::bytes_of(p.v.kind), p.v.kind);
    if (p.write != WriteForm::kVector) return raw;
    const char* factor = row_address(p.w, w, w.place.begin + at.token);
    raw.w = tile::load_raw_at(factor + (w.row0 + row) * tile::bytes_of(p.w.kind), p.w.kind);
    return raw;
  }
  static __device__ __forceinline__ void load_stage(const DeltaDecodeParams& p, const HeadWalk& w,
                                                    int step0, int count, StageLoads& out) {
    if (warp() < 2 * count) load_task(p, w, step0, count, warp(), out.task);
    out.value = load_item(p, w, step0, count, static_cast<int>(threadIdx.x));
  }

  // Value number `item` of a stage.
  static __device__ __forceinline__ ValueLoads load_item(const DeltaDecodeParams& p,
                                                         const HeadWalk& w, int step0, int count,
                                                         int item) {
    if (item < w.rows && count > 0) return load_value(p, w, step_place(p, step0), item);
    if (item >= count * w.rows) return {};
    const int slot = item / w.rows;
    return load_value(p, w, step_place(p, step0 + slot), item - slot * w.rows);
  }

  // Steps [step0, step0 + count) by all warps; `first` is loaded. The caller synchronises before
  // and after.
  static __device__ __forceinline__ void prepare_stage(const DeltaDecodeParams& p,
                                                       const HeadWalk& w, int step0, int count,
                                                       StageLoads& first) {
#pragma unroll 1
    for (int task = warp(); task < 2 * count; task += warps()) {
      if (task != warp()) load_task(p, w, step0, count, task, first.task);
      const int slot = task < count ? task : task - count;
      const StepPlace at = step_place(p, step0 + slot);
      if (task < count) {
        prepare_factors(p, w, at, slot, first.task);
      } else {
        prepare_decay(p, w, at, slot, first.task);
      }
    }
    const int thread = static_cast<int>(threadIdx.x);
#pragma unroll 1
    for (int item = thread; item < count * w.rows; item += blockDim.x) {
      if (item != thread) first.value = load_item(p, w, step0, count, item);
      float value = tile::widen(first.value.v, p.v.kind);
      if (p.write == WriteForm::kVector) value *= tile::widen(first.value.w, p.w.kind);
      w.written[item] = value;
    }
  }
};

}  // namespace tilegate::kernel
