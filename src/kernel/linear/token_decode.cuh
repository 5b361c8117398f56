// SPDX-License-Identifier: Apache-2.0
// The delta rule for one token of one update a sequence: tokens of one 16-bit type, the erase
// factor a scalar, rows of a state next to each other, no index array but read_index. S [V, K] goes
// from global memory to registers, takes the step there and goes back. Bound by the traffic of the
// states.
//
// A warp takes kRows rows of one (sequence, head), prepares the step for itself in its own piece of
// shared memory while its rows are on their way, and waits for no other warp. Addresses do not
// depend on what is read: they are formed before the predecessor ends. Eight lanes share a row, an
// access of theirs is 128 contiguous bytes, and a lane holds kPasses rows. Sums run in the order of
// decode.cuh, scattered over the lanes (tile/lane_sum.cuh): a row has the same bits in both.
#pragma once

#include "kernel/linear/decode_steps.cuh"
#include "kernel/linear/state_rows.cuh"
#include "kernel/ptx/grid.cuh"
#include "kernel/tile/element.cuh"

namespace tilegate::kernel {

// Token: the type of q, k, v and o. kChannel: a decay a column.
template <class State, class Token, int kDimK, bool kChannel, int kPasses>
struct TokenDecode {
  static constexpr int kLanes = 8;  // that share a row
  static constexpr int kGroups = 32 / kLanes;
  static constexpr int kRows = kGroups * kPasses;                 // of a warp
  static constexpr int kParts = kDimK / (kLanes * kLaneColumns);  // of a lane's row, 8 columns each
  static constexpr int kFours = 2 * kParts;
  static constexpr bool kHalves = State::kHalves;
  static constexpr int kAccessBytes = kLanes * static_cast<int>(sizeof(uint4));
  static constexpr int kPartBytes = State::kAccesses * kAccessBytes;
  static constexpr int kRowBytes = kParts * kPartBytes;
  static constexpr int kSums = 2 * kPasses;       // a prediction and a readout a row
  static constexpr int kCopies = kLanes / kSums;  // lanes that hold the same sum
  static constexpr int kLoads = kDimK / 32;       // of q, k, a channel gate: lane, lane + 32, ..
  static constexpr int kGates = kChannel ? kLoads : 1;
  enum Vector { kKey, kErased, kQuery, kDecay };
  static constexpr int kFloats = (kChannel ? 4 : 3) * kDimK;  // of a warp's shared memory
  using Columns = float[kParts][kLaneColumns];
  using RawRows = typename State::Raw[kPasses][kParts];

  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) & 31; }
  static __device__ __forceinline__ int in_group() { return lane() % kLanes; }
  static __device__ __forceinline__ int group() { return lane() / kLanes; }
  // The lane that finishes pass i of its group of lanes holds the prediction, its partner the
  // readout. Where neighbours of four columns are in the next lane (kHalves), that step comes
  // first.
  static constexpr int kPartner = kHalves ? 1 : kLanes / 2;  // distance
  static constexpr int kPassLanes = kHalves ? 2 * kCopies : kCopies;
  static __device__ __forceinline__ bool holds_readout() { return (lane() & kPartner) != 0; }
  static __device__ __forceinline__ bool finishes() {
    return !holds_readout() && in_group() % kPassLanes == 0;
  }
  static __device__ __forceinline__ int finished_row() {
    return in_group() / kPassLanes % kPasses * kGroups + group();
  }

  struct Places {
    const char *q, *k, *v, *gate, *beta, *a_log, *bias, *index, *from;
    char *o, *to;
  };
  static __device__ __forceinline__ char* token_row(const TokenRows& rows, int seq, int head) {
    return static_cast<char*>(rows.data) +
           std::uint64_t{static_cast<std::uint32_t>(seq)} * rows.batch +
           std::uint64_t{head_of(rows.heads, head)} * rows.head;
  }
  static __device__ __forceinline__ Places places(const DeltaDecodeParams& p, int seq, int head,
                                                  int row0) {
    Places at;
    at.q = token_row(p.q, seq, head) + lane() * Token::kBytes;
    at.k = token_row(p.k, seq, head) + lane() * Token::kBytes;
    at.v = token_row(p.v, seq, head) + (row0 + finished_row()) * Token::kBytes;
    at.o = token_row(p.o, seq, head) + (row0 + finished_row()) * Token::kBytes;
    at.gate = token_row(p.gate.g, seq, head);
    at.beta = token_row(p.beta, seq, head);
    at.a_log = reinterpret_cast<const char*>(p.gate.a_log) +
               std::uint64_t{head_of(p.gate.a_log_heads, head)} * p.gate.a_log_step;
    at.bias = static_cast<const char*>(p.gate.dt_bias) +
              std::uint64_t{head_of(p.gate.dt_bias_heads, head)} * p.gate.dt_bias_step;
    const tile::IndexArray& index = p.sequences.read_index;
    at.index = static_cast<const char*>(index.data) +
               std::uint64_t{static_cast<std::uint32_t>(seq)} * index.step;
    const std::int64_t row = (row0 + group()) * kRowBytes + in_group() * int{sizeof(uint4)};
    at.from = row_pointer(p.state_in, 0, head, 0) + row;
    at.to = row_pointer(p.state_out, 0, head, 0) + row;
    return at;
  }
  static __device__ __forceinline__ std::uint32_t mix(const void* x) {
    const auto bits = reinterpret_cast<std::uint64_t>(x);
    return static_cast<std::uint32_t>(bits) ^ static_cast<std::uint32_t>(bits >> 32);
  }
  static __device__ __forceinline__ std::uint32_t mix(const Places& at) {
    return mix(at.q) ^ mix(at.k) ^ mix(at.v) ^ mix(at.gate) ^ mix(at.beta) ^ mix(at.a_log) ^
           mix(at.bias) ^ mix(at.index) ^ mix(at.from) ^ mix(at.o) ^ mix(at.to);
  }

  static __device__ __forceinline__ tile::RawIndex load_index(const DeltaDecodeParams& p,
                                                              const Places& at) {
    tile::RawIndex raw;
    const bool indexed = p.sequences.read_index.data != nullptr;
    if (indexed) raw.low = ptx::load_32(at.index);
    if (indexed && p.sequences.read_index.is_int64 != 0) raw.high = ptx::load_32(at.index + 4);
    return raw;
  }

  // What the step reads besides the state, as it is stored. All lanes hold scalars.
  struct Raw {
    std::uint32_t k[kLoads], q[kLoads], gate[kGates], bias[kGates];
    std::uint32_t beta;
    float a_log;
  };
  static __device__ __forceinline__ void load_gate(const GateParams& p, const Places& at,
                                                   Raw& out) {
    const int element = kChannel ? lane() : 0;
    const char* gate = at.gate + element * tile::bytes_of(p.g.kind);
    const char* bias = at.bias + element * tile::bytes_of(p.dt_bias_kind);
#pragma unroll
    for (int i = 0; i < kGates; ++i)
      out.gate[i] = tile::load_raw_at(gate + 32 * i * tile::bytes_of(p.g.kind), p.g.kind);
    if (p.a_log == nullptr) return;
    out.a_log = *reinterpret_cast<const float*>(at.a_log);
    if (p.dt_bias == nullptr) return;
#pragma unroll
    for (int i = 0; i < kGates; ++i)
      out.bias[i] =
          tile::load_raw_at(bias + 32 * i * tile::bytes_of(p.dt_bias_kind), p.dt_bias_kind);
  }
  static __device__ __forceinline__ void load(const DeltaDecodeParams& p, const Places& at,
                                              Raw& out) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      out.k[i] = *reinterpret_cast<const std::uint16_t*>(at.k + 32 * i * Token::kBytes);
      out.q[i] = *reinterpret_cast<const std::uint16_t*>(at.q + 32 * i * Token::kBytes);
    }
    if (p.erase == EraseForm::kScalar) out.beta = tile::load_raw_at(at.beta, p.beta.kind);
    if (p.gate.form != GateForm::kNone) load_gate(p.gate, at, out);
  }

  static __device__ __forceinline__ void load_rows(const char* from, RawRows& raw) {
#pragma unroll
    for (int i = 0; i < kPasses; ++i)
#pragma unroll
      for (int part = 0; part < kParts; ++part)
        raw[i][part] =
            State::load(from + i * kGroups * kRowBytes + part * kPartBytes, {}, kAccessBytes);
  }

  struct Scalars {
    float k_factor, q_factor, erase, write, kq;
    float alpha[kGates];
    bool select;  // a decay is zero: what is forgotten may have been infinite
  };
  static __device__ __forceinline__ void decays(const GateParams& p, const Raw& raw, Scalars& out) {
    bool zero = false;
    const float rate = exp_of(raw.a_log);
#pragma unroll
    for (int i = 0; i < kGates; ++i) {
      out.alpha[i] = 1.0f;
      if (p.form == GateForm::kNone) continue;
      const float stored = tile::widen(raw.gate[i], p.g.kind);
      const float bias = p.dt_bias == nullptr ? 0.0f : tile::widen(raw.bias[i], p.dt_bias_kind);
      out.alpha[i] = decay_of(p, stored, log_decay(p, rate, stored, bias));
      zero = zero || out.alpha[i] == 0.0f;
    }
    out.select = kChannel ? __any_sync(tile::kFullWarp, zero ? 1 : 0) != 0 : zero;
  }
  static __device__ __forceinline__ void scalars(const DeltaDecodeParams& p, const Raw& raw,
                                                 Scalars& out) {
    float kq = 0.0f, kk = 0.0f, qq = 0.0f;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const float k = Token::low(raw.k[i]), q = Token::low(raw.q[i]);
      kq = fmaf(k, q, kq);
      kk = fmaf(k, k, kk);
      qq = fmaf(q, q, qq);
    }
    kq = tile::lane_sum<32>(kq);
    kk = tile::lane_sum<32>(kk);
    qq = tile::lane_sum<32>(qq);
    out.k_factor = p.l2norm != 0 ? rsqrtf(kk + kNormEpsilon) : 1.0f;
    out.q_factor = p.l2norm != 0 ? rsqrtf(qq + kNormEpsilon) : 1.0f;
    out.kq = kq * out.k_factor * out.q_factor;
    out.erase = 1.0f;
    if (p.erase == EraseForm::kScalar) {
      out.erase = tile::widen(raw.beta, p.beta.kind);
      if (p.beta_is_logit != 0) out.erase = sigmoid(out.erase);
    }
    out.write = p.write == WriteForm::kErase ? out.erase : 1.0f;
    decays(p.gate, raw, out);
  }

  // Vectors of the step in shared memory, columns in order.
  static __device__ __forceinline__ void publish(const Raw& raw, const Scalars& c, float* to) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      float* at = to + lane() + 32 * i;
      const float key = Token::low(raw.k[i]) * c.k_factor;
      at[kKey * kDimK] = key;
      at[kErased * kDimK] = c.erase * key;
      at[kQuery * kDimK] = Token::low(raw.q[i]) * c.q_factor;
      if constexpr (kChannel) at[kDecay * kDimK] = c.alpha[i];
    }
  }
  // This lane's columns of a vector.
  static __device__ __forceinline__ void read(const float* vector, Columns& out) {
    constexpr int kFirst = kHalves ? 4 : 8;    // columns from lane to lane
    constexpr int kSecond = kHalves ? 32 : 4;  // from a lane's first four to its second
#pragma unroll
    for (int part = 0; part < kParts; ++part)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float* from = vector + kFirst * in_group() + 64 * part + kSecond * i;
        const float4 x = *reinterpret_cast<const float4*>(from);
        out[part][4 * i] = x.x, out[part][4 * i + 1] = x.y;
        out[part][4 * i + 2] = x.z, out[part][4 * i + 3] = x.w;
      }
  }
  struct Vectors {
    Columns key, erased, query, alpha;
  };
  static __device__ __forceinline__ void read_all(const float* from, Vectors& out) {
    read(from + kKey * kDimK, out.key);
    read(from + kErased * kDimK, out.erased);
    read(from + kQuery * kDimK, out.query);
    if constexpr (kChannel) read(from + kDecay * kDimK, out.alpha);
  }

  static __device__ __forceinline__ void decay(const Scalars& c, const Vectors& v, Columns& s) {
#pragma unroll
    for (int part = 0; part < kParts; ++part)
#pragma unroll
      for (int j = 0; j < kLaneColumns; ++j) s[part][j] *= kChannel ? v.alpha[part][j] : c.alpha[0];
    if (!c.select) return;
#pragma unroll
    for (int part = 0; part < kParts; ++part)
#pragma unroll
      for (int j = 0; j < kLaneColumns; ++j)
        if ((kChannel ? v.alpha[part][j] : c.alpha[0]) == 0.0f) s[part][j] = 0.0f;
  }

  // Products of four neighbouring columns of this lane, added in order.
  static __device__ __forceinline__ float four(const float* s, const float* vector) {
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < 4; ++j) sum = fmaf(s[j], vector[j], sum);
    return sum;
  }
  // The predictions and readouts of all rows, one sum a lane: four columns, then their neighbours,
  // then a butterfly from the distance K / 2 down to 8.
  static __device__ __forceinline__ float sums(const Vectors& v, const Columns (&s)[kPasses]) {
    float sum[kFours][kSums];
#pragma unroll
    for (int i = 0; i < kPasses; ++i)
#pragma unroll
      for (int f = 0; f < kFours; ++f) {
        const float* columns = s[i][f / 2] + f % 2 * 4;
        sum[f][i] = four(columns, v.erased[f / 2] + f % 2 * 4);
        sum[f][kPasses + i] = four(columns, v.query[f / 2] + f % 2 * 4);
      }
    if constexpr (kHalves) {
#pragma unroll
      for (int f = 0; f < kFours; ++f) tile::share_step(sum[f], kSums, 1);
    } else {
#pragma unroll
      for (int f = 0; f < kParts; ++f)
#pragma unroll
        for (int i = 0; i < kSums; ++i) sum[f][i] = sum[2 * f][i] + sum[2 * f + 1][i];
    }
    constexpr int kHeld = kHalves ? kSums / 2 : kSums;
#pragma unroll
    for (int step = (kHalves ? kFours : kParts) / 2; step > 0; step /= 2)
#pragma unroll
      for (int f = 0; f < step; ++f)
#pragma unroll
        for (int i = 0; i < kHeld; ++i) sum[f][i] += sum[f + step][i];
    return tile::scattered_sums < kLanes / 2, kHalves ? 2 : 1 > (sum[0], kHeld);
  }

  static __device__ __forceinline__ void update(const Scalars& c, const Vectors& v, float value,
                                                Columns (&s)[kPasses], float& readout) {
#pragma unroll
    for (int i = 0; i < kPasses; ++i) decay(c, v, s[i]);
    const float mine = sums(v, s);
    const float other = __shfl_xor_sync(tile::kFullWarp, mine, kPartner);
    const float d = c.write * value - (holds_readout() ? other : mine);
#pragma unroll
    for (int i = 0; i < kPasses; ++i) {
      const float row_d = __shfl_sync(tile::kFullWarp, d, i * kPassLanes, kLanes);
#pragma unroll
      for (int part = 0; part < kParts; ++part)
#pragma unroll
        for (int j = 0; j < kLaneColumns; ++j)
          s[i][part][j] = fmaf(row_d, v.key[part][j], s[i][part][j]);
    }
    readout = fmaf(d, c.kq, other);
  }

  static __device__ __forceinline__ void store_rows(const Columns (&s)[kPasses], char* to) {
#pragma unroll
    for (int i = 0; i < kPasses; ++i)
#pragma unroll
      for (int part = 0; part < kParts; ++part)
        State::store(State::narrow(s[i][part], {}),
                     to + i * kGroups * kRowBytes + part * kPartBytes, {}, kAccessBytes);
  }

  // vectors: kFloats of shared memory, this warp's own.
  static __device__ __forceinline__ void walk(const DeltaDecodeParams& p, int row0,
                                              float* vectors) {
    const int head = static_cast<int>(blockIdx.y), seq = static_cast<int>(blockIdx.z);
    const Places at = places(p, seq, head, row0);
    ptx::wait_for_predecessor_after(mix(at));
    const tile::RawIndex index = load_index(p, at);
    Raw raw = {};
    load(p, at, raw);
    const std::uint32_t value = *reinterpret_cast<const std::uint16_t*>(at.v);
    const std::int64_t slot = p.sequences.read_index.data == nullptr
                                  ? seq
                                  : tile::index_of(p.sequences.read_index, index);
    RawRows rows = {};
    if (slot >= 0 && p.state_in.data != nullptr) load_rows(at.from + slot * p.state_in.slot, rows);
    Scalars c;
    Vectors v;
    scalars(p, raw, c);
    publish(raw, c, vectors);
    __syncwarp();
    read_all(vectors, v);
    if (slot < 0) {
      if (finishes()) Token::store(at.o, 0.0f);
      return;
    }
    Columns s[kPasses];
#pragma unroll
    for (int i = 0; i < kPasses; ++i)
#pragma unroll
      for (int part = 0; part < kParts; ++part) State::widen(rows[i][part], {}, s[i][part]);
    float readout = 0.0f;
    update(c, v, Token::low(value), s, readout);
    if (finishes()) Token::store(at.o, p.scale * readout);
    if (p.sequences.store_final != 0) store_rows(s, at.to + slot * p.state_out.slot);
  }
};

// Grid: (rows of a head in blocks of kWarps kRows, heads, sequences).
template <class State, class Token, int kDimK, bool kChannel, int kPasses, int kWarps,
          int kMinBlocks>
__global__ void __launch_bounds__(32 * kWarps, kMinBlocks)
    token_decode_kernel(const __grid_constant__ DeltaDecodeParams p) {
  using Kernel = TokenDecode<State, Token, kDimK, kChannel, kPasses>;
  __shared__ __align__(16) float vectors[kWarps][Kernel::kFloats];
  ptx::launch_dependents();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int row0 = (static_cast<int>(blockIdx.x) * kWarps + warp) * Kernel::kRows;
  Kernel::walk(p, row0, vectors[warp]);
}

}  // namespace tilegate::kernel
