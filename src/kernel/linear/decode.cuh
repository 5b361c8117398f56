// SPDX-License-Identifier: Apache-2.0
// The delta rule for a few tokens a sequence: S [V, K] a (sequence, head) is read once, takes all
// tokens in registers and is written once. Bound by the traffic of the states.
//
// A block takes some rows of one (sequence, head). Rows of S are independent: K / 8 lanes share a
// row, a warp holds kPasses rows in each group of lanes, and the bits of a row do not depend on how
// rows are dealt. All states of a block are on their way to shared memory while it prepares the
// vectors of the steps there too (decode_steps.cuh). Sums over lanes are scattered
// (tile/lane_sum.cuh), so that each lane finishes one row's d and o.
#pragma once

#include <type_traits>

#include "kernel/linear/decode_steps.cuh"
#include "kernel/linear/state_rows.cuh"
#include "kernel/ptx/cp_async.cuh"
#include "kernel/ptx/grid.cuh"

namespace tilegate::kernel {

template <class State, int kDimK, int kPasses>
struct DeltaDecode {
  using Steps = DeltaSteps<kDimK, State::kHalves>;
  static constexpr int kLanes = kDimK / kLaneColumns;  // that share a row
  static constexpr int kGroups = 32 / kLanes;
  static constexpr int kTileRows = kGroups * kPasses;  // of a warp
  static constexpr int kSums = 2 * kPasses;            // a prediction and a readout a row
  static constexpr int kCopies = kLanes / kSums;       // lanes that hold the same sum
  static_assert(kCopies >= 1);
  using Raw = typename State::Raw;

  // The states of `rows` rows, and the vectors, written values and infos of `steps` steps.
  static constexpr int shared_bytes(int steps, int rows) {
    constexpr int kRowBytes = kLanes * State::kAccesses * static_cast<int>(sizeof(uint4));
    constexpr int kStepBytes = Steps::kVectors * kDimK * static_cast<int>(sizeof(float)) +
                               static_cast<int>(sizeof(StepInfo));
    return rows * kRowBytes + steps * (kStepBytes + rows * static_cast<int>(sizeof(float)));
  }
  using Rows = float[kPasses][kLaneColumns];

  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) & 31; }
  static __device__ __forceinline__ int in_group() { return lane() % kLanes; }
  // Row of the block that this lane holds in pass i of a tile, and the one that it finishes.
  static __device__ __forceinline__ int row_of(int tile, int pass) {
    const int number = tile * Steps::warps() + Steps::warp();
    return number * kTileRows + pass * kGroups + lane() / kLanes;
  }
  // The lane that finishes pass i of its group of lanes; it holds the prediction, its partner the
  // readout, and kCopies lanes hold the same.
  static constexpr int kPartner = State::kHalves ? 1 : kLanes / 2;  // distance
  static constexpr int kPassLanes = State::kHalves ? 2 * kCopies : kCopies;
  static __device__ __forceinline__ bool holds_readout() { return (in_group() & kPartner) != 0; }
  static __device__ __forceinline__ int finished_row(int tile) {
    return row_of(tile, in_group() / kPassLanes % kPasses);
  }
  static __device__ __forceinline__ bool finishes() { return in_group() % kPassLanes == 0; }
  // Where this lane's part of its first row of a tile lies in a state; the row of pass i is i steps
  // further.
  struct Cursor {
    char* at;
    std::int64_t step;  // bytes
    int second;         // bytes from the lane's first four columns to its second
    int rows_left;      // rows of V from its first row on
  };
  static __device__ __forceinline__ Cursor cursor(const DeltaDecodeParams& p, const HeadWalk& w,
                                                  const StateRows& s, std::int64_t slot, int tile) {
    const int row = w.row0 + row_of(tile, 0);
    const LaneColumns columns =
        lane_columns<kDimK, State::kHalves>(in_group(), State::element_bytes(s));
    return {row_pointer(s, slot, w.head, row) + columns.first, kGroups * s.row, columns.second,
            p.dim_v - row};
  }

  static __device__ __forceinline__ void load(const DeltaDecodeParams& p, const HeadWalk& w,
                                              int tile, Raw (&raw)[kPasses]) {
    Cursor from = cursor(p, w, p.state_in, w.place.read_row, tile);
#pragma unroll
    for (int i = 0; i < kPasses; ++i) {
      raw[i] = Raw{};
      const bool there = w.place.seeded && i * kGroups < from.rows_left;
      if (there) raw[i] = State::load(from.at, p.state_in, from.second);
      from.at += from.step;
    }
  }

  static __device__ __forceinline__ void store(const DeltaDecodeParams& p, const HeadWalk& w,
                                               int tile, const Rows& s, const StateRows& to,
                                               std::int64_t slot) {
    if (slot == kNoRow) return;
    Cursor target = cursor(p, w, to, slot, tile);
#pragma unroll
    for (int i = 0; i < kPasses; ++i) {
      const Raw raw = State::narrow(s[i], to);
      if (i * kGroups < target.rows_left) State::store(raw, target.at, to, target.second);
      target.at += target.step;
    }
  }

  // A sequence without tokens: equal types hand their bytes on.
  static __device__ __forceinline__ void pass_through(const DeltaDecodeParams& p, const HeadWalk& w,
                                                      int tile) {
    if (w.place.write_row == kNoRow) return;
    Raw raw[kPasses];
    load(p, w, tile, raw);
    Cursor to = cursor(p, w, p.state_out, w.place.write_row, tile);
#pragma unroll
    for (int i = 0; i < kPasses; ++i) {
      if (!State::same_storage(p)) {
        float s[kLaneColumns];
        State::widen(raw[i], p.state_in, s);
        raw[i] = State::narrow(s, p.state_out);
      }
      if (i * kGroups < to.rows_left) State::store(raw[i], to.at, p.state_out, to.second);
      to.at += to.step;
    }
  }

  // This lane's columns of a prepared vector.
  static __device__ __forceinline__ void read(const HeadWalk& w, int slot,
                                              typename Steps::Vector which,
                                              float (&out)[kLaneColumns]) {
    const float* from = w.vectors + (slot * Steps::kVectors + which) * kDimK + 4 * in_group();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float4 x = *reinterpret_cast<const float4*>(from + half * (kDimK / 2));
      out[4 * half] = x.x, out[4 * half + 1] = x.y;
      out[4 * half + 2] = x.z, out[4 * half + 3] = x.w;
    }
  }

  static __device__ __forceinline__ void decay(const HeadWalk& w, int slot, const StepInfo& info,
                                               Rows& s) {
    if (info.decay == DecayUse::kNone) return;
    float alpha[kLaneColumns];
    read(w, slot, Steps::kDecay, alpha);
    if (info.decay == DecayUse::kSelect) {
#pragma unroll
      for (int i = 0; i < kPasses; ++i)
#pragma unroll
        for (int j = 0; j < kLaneColumns; ++j)
          s[i][j] = alpha[j] == 0.0f ? 0.0f : s[i][j] * alpha[j];
      return;
    }
#pragma unroll
    for (int i = 0; i < kPasses; ++i)
#pragma unroll
      for (int j = 0; j < kLaneColumns; ++j) s[i][j] *= alpha[j];
  }

  // The predictions and readouts of all rows, one sum a lane (finishes(), holds_readout()). Sums of
  // four neighbouring columns are added in pairs, then in a butterfly from the distance K / 2 down
  // to 8: the same order, and so the same bits, for every type of state.
  static __device__ __forceinline__ float sums(const HeadWalk& w, int slot, const Rows& s) {
    float erased[kLaneColumns], query[kLaneColumns];
    read(w, slot, Steps::kErased, erased);
    read(w, slot, Steps::kQuery, query);
    float first[kSums], second[kSums];
#pragma unroll
    for (int i = 0; i < kPasses; ++i) {
      first[i] = first[kPasses + i] = second[i] = second[kPasses + i] = 0.0f;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        first[i] = fmaf(s[i][j], erased[j], first[i]);
        first[kPasses + i] = fmaf(s[i][j], query[j], first[kPasses + i]);
        second[i] = fmaf(s[i][4 + j], erased[4 + j], second[i]);
        second[kPasses + i] = fmaf(s[i][4 + j], query[4 + j], second[kPasses + i]);
      }
    }
    if constexpr (State::kHalves) {  // neighbours are in the next lane, distance K / 2 in this one
      tile::share_step(first, kSums, 1);
      tile::share_step(second, kSums, 1);
    }
    constexpr int kHeld = State::kHalves ? kSums / 2 : kSums;
#pragma unroll
    for (int i = 0; i < kHeld; ++i) first[i] += second[i];
    return tile::scattered_sums < kLanes / 2, State::kHalves ? 2 : 1 > (first, kHeld);
  }

  static __device__ __forceinline__ void update(const DeltaDecodeParams& p, const HeadWalk& w,
                                                const StepPlace& at, int slot, int tile, Rows& s) {
    const StepInfo info = w.info[slot];
    decay(w, slot, info, s);
    const float mine = sums(w, slot, s);
    const float other = __shfl_xor_sync(tile::kFullWarp, mine, kPartner);
    const bool readout = holds_readout();
    const int finished = finished_row(tile);
    const float d =
        info.write_factor * w.written[slot * w.rows + finished] - (readout ? other : mine);
    float key[kLaneColumns];
    read(w, slot, Steps::kKey, key);
#pragma unroll
    for (int i = 0; i < kPasses; ++i) {
      const float row_d = __shfl_sync(tile::kFullWarp, d, i * kPassLanes, kLanes);
#pragma unroll
      for (int j = 0; j < kLaneColumns; ++j) s[i][j] = fmaf(row_d, key[j], s[i][j]);
    }
    if (readout || !finishes() || w.row0 + finished >= p.dim_v) return;
    if (at.part + 1 == p.householder) {
      char* o = row_address(p.o, w, w.place.begin + at.token);
      o += (w.row0 + finished) * tile::bytes_of(p.o.kind);
      tile::store_at(o, p.o.kind, p.scale * fmaf(d, info.kq, other));
    }
    const RecordParams& r = p.record;
    if (r.d == nullptr) return;
    r.d[w.place.seq * r.d_seq + at.step * r.d_row + w.head * r.d_head + w.row0 + finished] = d;
  }

  static __device__ __forceinline__ void zero_output(const DeltaDecodeParams& p,
                                                     const HeadWalk& w) {
    const int end = min(w.rows, p.dim_v - w.row0);
    for (int t = 0; t < w.place.len; ++t) {
      char* o = row_address(p.o, w, w.place.begin + t) + w.row0 * tile::bytes_of(p.o.kind);
      for (int i = static_cast<int>(threadIdx.x); i < end; i += static_cast<int>(blockDim.x)) {
        tile::store_at(o + i * tile::bytes_of(p.o.kind), p.o.kind, 0.0f);
      }
    }
  }

  // What is stored after `tokens` tokens besides the final state.
  static __device__ __forceinline__ void deposit(const DeltaDecodeParams& p, const HeadWalk& w,
                                                 int tile, const Rows& s, int tokens) {
    if (tokens > 0) store(p, w, tile, s, p.state_out, slot_row(p.sequences, w.place, tokens - 1));
    if constexpr (std::is_same_v<State, StateTyped>) {
      const std::int64_t row = checkpoint_row(p.checkpoints, w.place, tokens);
      store(p, w, tile, s, p.checkpoints.states, row);
    }
  }

  // Starts the copies of all tiles to shared memory. Rows past V and fresh states are zeros: copies
  // of no bytes.
  static __device__ __forceinline__ void stage_states(const DeltaDecodeParams& p,
                                                      const HeadWalk& w) {
    if constexpr (State::kAccesses > 0) {
      Cursor from = cursor(p, w, p.state_in, w.place.read_row, 0);
      int rows_left = w.place.seeded ? from.rows_left : 0;
      const int tile_rows = Steps::warps() * kTileRows;
      const std::uint32_t distance = blockDim.x * static_cast<int>(sizeof(uint4));
      std::uint32_t to = ptx::shared_address(w.states + threadIdx.x);
#pragma unroll 1
      for (int tile = 0; tile < p.tiles; ++tile) {
        const char* at = from.at;
#pragma unroll
        for (int i = 0; i < kPasses; ++i) {
          const int bytes = i * kGroups < rows_left ? 16 : 0;
#pragma unroll
          for (int a = 0; a < State::kAccesses; ++a) {
            ptx::cp_async_16(to, at + a * from.second, bytes);
            to += distance;
          }
          at += from.step;
        }
        from.at += tile_rows * p.state_in.row;
        rows_left -= tile_rows;
      }
      ptx::cp_async_commit();
    }
  }

  static __device__ __forceinline__ void begin_tile(const DeltaDecodeParams& p, const HeadWalk& w,
                                                    int tile, Rows& s) {
    Raw raw[kPasses];
    if constexpr (State::kAccesses > 0) {
      const int distance = static_cast<int>(blockDim.x);
      const uint4* stage = w.states + tile * (kPasses * State::kAccesses) * distance + threadIdx.x;
#pragma unroll
      for (int i = 0; i < kPasses; ++i) {
        raw[i] = State::staged(stage, distance);
        stage += State::kAccesses * distance;
      }
    } else {
      load(p, w, tile, raw);
    }
#pragma unroll
    for (int i = 0; i < kPasses; ++i) State::widen(raw[i], p.state_in, s[i]);
    deposit(p, w, tile, s, 0);
  }

  // All steps of a tile. Their vectors are prepared in stages: by the first tile for all tiles when
  // one stage holds them, else by every tile again.
  static __device__ __forceinline__ void take_steps(const DeltaDecodeParams& p, const HeadWalk& w,
                                                    int tile, int steps,
                                                    typename Steps::StageLoads& loads) {
    Rows s = {};
    StepPlace at;
#pragma unroll 1
    while (at.step < steps) {
      const int count = min(steps - at.step, p.stage_steps);
      if (tile == 0 || steps > p.stage_steps) {
        if (tile + at.step > 0) {
          __syncthreads();  // the stage before it has been read
          Steps::load_stage(p, w, at.step, count, loads);
        }
        Steps::prepare_stage(p, w, at.step, count, loads);
        ptx::cp_async_wait<0>();
        __syncthreads();
      }
      if (at.step == 0) begin_tile(p, w, tile, s);
#pragma unroll 1
      for (int slot = 0; slot < count; ++slot, ++at.step) {
        update(p, w, at, slot, tile, s);
        if (++at.part < p.householder) continue;
        at.part = 0;
        deposit(p, w, tile, s, ++at.token);
      }
    }
    store(p, w, tile, s, p.state_out, w.place.write_row);
  }

  // The block's rows of one (sequence, head).
  static __device__ __forceinline__ void walk(const DeltaDecodeParams& p, HeadWalk& w, int seq) {
    const RawPlace place = load_place(p.sequences, seq);
    w.place = place_tokens(p.sequences, seq, place);
    const int steps = w.place.len * p.householder;
    typename Steps::StageLoads loads;
    Steps::load_stage(p, w, 0, min(steps, p.stage_steps), loads);
    place_states(p.sequences, place, p.state_in.data != nullptr, w.place);
    if (w.place.skipped()) return zero_output(p, w);
    if (steps > 0) stage_states(p, w);
#pragma unroll 1
    for (int tile = 0; tile < p.tiles; ++tile) {
      if (steps > 0) {
        take_steps(p, w, tile, steps, loads);
      } else {
        pass_through(p, w, tile);
      }
    }
  }
};

// kMinBlocks: blocks of kDeltaMaxThreads on an SM, which bounds the registers. Dynamic shared
// memory: shared_bytes(p.stage_steps, blockDim.x).
template <class State, int kDimK, int kPasses, int kMinBlocks>
__global__ void __launch_bounds__(kDeltaMaxThreads, kMinBlocks)
    delta_decode_kernel(const __grid_constant__ DeltaDecodeParams p) {
  using Kernel = DeltaDecode<State, kDimK, kPasses>;
  extern __shared__ uint4 shared[];
  ptx::launch_dependents();
  ptx::wait_for_predecessor();
  HeadWalk w;
  w.rows = static_cast<int>(blockDim.x) / 32 * Kernel::kTileRows * p.tiles;
  w.row0 = static_cast<int>(blockIdx.x) * w.rows;
  w.states = shared;
  w.vectors = reinterpret_cast<float*>(shared + w.rows * Kernel::kLanes * State::kAccesses);
  w.written = w.vectors + p.stage_steps * Kernel::Steps::kVectors * kDimK;
  w.info = reinterpret_cast<StepInfo*>(w.written + p.stage_steps * w.rows);
  w.head = static_cast<int>(blockIdx.y);
#pragma unroll 1
  for (int seq = static_cast<int>(blockIdx.z); seq < p.num_seqs; seq += gridDim.z) {
    if (seq != static_cast<int>(blockIdx.z)) __syncthreads();  // the last stage has been read
    Kernel::walk(p, w, seq);
  }
}

}  // namespace tilegate::kernel
