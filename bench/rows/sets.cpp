// SPDX-License-Identifier: Apache-2.0
// The rows of the named sets, as tables.
#include "bench/rows/sets.h"

namespace tilegate::bench {
namespace {

using std::int64_t;

struct PrefillRow {
  int64_t batch, query, kv, heads, kv_heads;
  bool causal;
  double goal_ms, peer_ms;
};

constexpr PrefillRow kSeedTable[] = {
    {4, 128, 4096, 12, 4, false, .026, .0503},     {4, 256, 4096, 12, 4, false, .042, .0518},
    {4, 512, 4096, 12, 4, false, .080, .1038},     {4, 1024, 4096, 12, 4, false, .154, .1565},
    {8, 128, 4096, 12, 4, false, .042, .0549},     {8, 256, 4096, 12, 4, false, .080, .1069},
    {8, 512, 4096, 12, 4, false, .155, .1578},     {8, 1024, 4096, 12, 4, false, .308, .3118},
    {16, 128, 4096, 12, 4, false, .080, .1071},    {16, 256, 4096, 12, 4, false, .155, .1585},
    {16, 512, 4096, 12, 4, false, .308, .3113},    {16, 1024, 4096, 12, 4, false, .635, .6542},
    {32, 128, 4096, 12, 4, false, .160, .1648},    {32, 256, 4096, 12, 4, false, .310, .3144},
    {32, 512, 4096, 12, 4, false, .655, .6753},    {32, 1024, 4096, 12, 4, false, 1.330, 1.3694},
    {1, 16384, 16384, 16, 16, true, 1.70, 1.825},  {4, 4096, 4096, 32, 8, true, .87, .916},
    {2, 32760, 32760, 12, 12, false, 20.0, 20.54}, {8, 2048, 2048, 64, 8, true, .98, 1.109},
};

// Few rows or few keys: where launches and idle multiprocessors cost most.
constexpr PrefillRow kShort[] = {
    {1, 128, 128, 32, 8, true, 0, 0},   {1, 512, 512, 32, 8, true, 0, 0},
    {1, 128, 4096, 12, 4, false, 0, 0}, {8, 128, 512, 32, 8, false, 0, 0},
    {64, 128, 128, 32, 8, true, 0, 0},  {256, 32, 32, 12, 12, false, 0, 0},
};

constexpr PrefillRow kCpuBf16[] = {
    {1, 2048, 2048, 8, 2, true, 4.0, 5.69},
    {4, 128, 4096, 12, 4, false, 8, 19.9},
    {1, 1024, 1024, 32, 8, true, 5, 9.62},
    {1, 4096, 4096, 12, 12, false, 45, 47.8},
};

constexpr PrefillRow kCpuFp32[] = {
    {1, 2048, 2048, 8, 2, true, 12, 17.4},
    {1, 4096, 4096, 12, 12, false, 110, 110},
};

struct DecodeRow {
  int64_t batch, kv, heads, kv_heads;
  double goal_ms, peer_ms;
};

// Goals: KV bytes at 4.1 TB/s from 512 MB on, 4.0 at 268 MB, 3.7 at 134 MB, or the best peer where
// that is faster.
constexpr DecodeRow kDecode[] = {
    {1, 8192, 32, 8, .0115, .0139},   {1, 131072, 32, 8, .1309, .1334},
    {16, 4096, 32, 8, .0671, .0680},  {64, 4096, 32, 8, .2518, .2518},
    {256, 1024, 32, 8, .2523, .2523}, {64, 4096, 64, 8, .2520, .2520},
    {32, 8192, 12, 4, .1309, .1317},  {128, 8192, 8, 1, .1309, .1330},
};

constexpr DecodeRow kShortDecode[] = {
    {1, 128, 32, 8, 0, 0},
    {1, 1024, 32, 8, 0, 0},
    {16, 512, 32, 8, 0, 0},
    {64, 128, 32, 8, 0, 0},
};

constexpr DecodeRow kCpuDecodeBf16[] = {{1, 32768, 32, 8, 2.6, 9.38}, {8, 4096, 32, 8, 2.6, 10.0}};
constexpr DecodeRow kCpuDecodeFp32[] = {{1, 32768, 32, 8, 5.2, 17.5}};

void add(std::vector<Row>& rows, const PrefillRow& r, DType dtype) {
  AttentionShape s;
  s.batch_size = r.batch;
  s.query_length = r.query;
  s.kv_length = r.kv;
  s.num_heads = r.heads;
  s.num_kv_heads = r.kv_heads;
  s.causal = r.causal;
  s.dtype = dtype;
  rows.push_back({s, r.goal_ms, r.peer_ms});
}

void add(std::vector<Row>& rows, const DecodeRow& r, DType dtype) {
  AttentionShape s;
  s.op = AttentionOp::kDecode;
  s.batch_size = r.batch;
  s.kv_length = r.kv;
  s.num_heads = r.heads;
  s.num_kv_heads = r.kv_heads;
  s.dtype = dtype;
  s.causal = true;
  rows.push_back({s, r.goal_ms, r.peer_ms});
}

template <class Table>
void add_all(std::vector<Row>& rows, const Table& table, DType dtype = DType::kBFloat16) {
  for (const auto& row : table) add(rows, row, dtype);
}

struct LinearRow {
  Rule rule;
  int64_t heads_qk, heads_v, batch, length;
  Gates gates;
  double goal_ms, peer_ms;
};

constexpr LinearRow kGdn[] = {
    {Rule::kGdn, 16, 32, 1, 1024, Gates::kSlow, .020, .0496},
    {Rule::kGdn, 16, 32, 1, 8192, Gates::kSlow, .115, .2286},
    {Rule::kGdn, 16, 32, 4, 2048, Gates::kSlow, .075, .0984},
    {Rule::kGdn, 16, 32, 1, 65536, Gates::kSlow, .85, 1.546},
    {Rule::kGdn, 16, 32, 64, 512, Gates::kSlow, .30, .4283},
    {Rule::kGdn, 4, 8, 1, 32768, Gates::kSlow, .14, .2351},
    {Rule::kGdn, 16, 64, 1, 8192, Gates::kSlow, .17, .3715},
    {Rule::kGdn, 2, 4, 1, 131072, Gates::kSlow, .28, .4247},
    {Rule::kGdn, 16, 32, 1, 65536, Gates::kNone, .98, 1.546},
    {Rule::kGdn, 4, 8, 1, 32768, Gates::kNone, .17, .2351},
    {Rule::kGdn, 2, 4, 1, 131072, Gates::kNone, .31, .4247},
    {Rule::kGdn2, 32, 32, 1, 8192, Gates::kSlow, 0, 0},
    {Rule::kGdn2, 32, 32, 4, 2048, Gates::kSlow, 0, 0},
    {Rule::kGdp, 32, 32, 1, 4096, Gates::kSlow, 0, 0},
    {Rule::kGdp, 32, 32, 4, 1024, Gates::kSlow, 0, 0},
};

constexpr LinearRow kKda[] = {
    {Rule::kKda, 32, 32, 1, 8192, Gates::kRandom, .20, .229},
    {Rule::kKda, 32, 32, 1, 8192, Gates::kSteep, .20, .229},
    {Rule::kKda, 32, 32, 1, 8192, Gates::kSlow, .20, 1.854},
    {Rule::kKda, 32, 32, 4, 2048, Gates::kSteep, .15, .234},
    {Rule::kKda, 32, 32, 4, 2048, Gates::kSlow, .15, .500},
    {Rule::kKda, 64, 64, 1, 8192, Gates::kSteep, .33, .445},
    {Rule::kKda, 64, 64, 1, 8192, Gates::kSlow, .33, 1.895},
    {Rule::kKda, 96, 96, 1, 8192, Gates::kSteep, .50, .882},
    {Rule::kKda, 96, 96, 1, 8192, Gates::kSlow, .50, 1.922},
    {Rule::kKda, 8, 8, 1, 32768, Gates::kSteep, .22, .221},
    {Rule::kKda, 8, 8, 1, 32768, Gates::kSlow, .22, 7.279},
    {Rule::kKda, 32, 32, 64, 512, Gates::kRandom, .60, 1.634},
    {Rule::kKda, 16, 16, 1, 65536, Gates::kRandom, .90, 7.241},
};

// Long sequences with few heads, which pay for splitting a sequence over the multiprocessors.
constexpr LinearRow kCp[] = {
    {Rule::kGdn, 16, 32, 1, 8192, Gates::kSlow, .115, .2286},
    {Rule::kGdn, 16, 32, 1, 65536, Gates::kSlow, .85, 1.546},
    {Rule::kGdn, 4, 8, 1, 32768, Gates::kSlow, .14, .2351},
    {Rule::kGdn, 2, 4, 1, 131072, Gates::kSlow, .28, .4247},
    {Rule::kKda, 8, 8, 1, 32768, Gates::kSlow, .22, 7.279},
    {Rule::kKda, 16, 16, 1, 65536, Gates::kRandom, .90, 7.241},
};

constexpr LinearRow kShortLinear[] = {
    {Rule::kGdn, 16, 32, 1, 64, Gates::kSlow, 0, 0},
    {Rule::kGdn, 16, 32, 1, 1024, Gates::kSlow, .020, .0496},
    {Rule::kGdn, 16, 32, 64, 512, Gates::kSlow, .30, .4283},
    {Rule::kKda, 32, 32, 1, 64, Gates::kRandom, 0, 0},
    {Rule::kKda, 32, 32, 64, 512, Gates::kRandom, .60, 1.634},
};

LinearShape linear_shape(const LinearRow& r) {
  LinearShape s;
  s.rule = r.rule;
  s.heads_qk = r.heads_qk;
  s.heads_v = r.heads_v;
  s.lengths.assign(static_cast<std::size_t>(r.batch), r.length);
  s.num_householder = r.rule == Rule::kGdp ? 2 : 1;
  s.gates = r.gates;
  return s;
}

template <class Table>
std::vector<Row> linear_rows(const Table& table) {
  std::vector<Row> rows;
  for (const LinearRow& r : table) rows.push_back({linear_shape(r), r.goal_ms, r.peer_ms});
  return rows;
}

std::vector<Row> gdn_rows() {
  std::vector<Row> rows = linear_rows(kGdn);
  LinearShape mixed = linear_shape(kGdn[0]);
  mixed.lengths = {100, 3000, 17, 1, 900, 64, 4000, 110};
  rows.push_back({mixed, .09, .1937});
  return rows;
}

// The state's bytes, read and written, are nearly all there is to a step.
std::vector<Row> decode_rows() {
  struct Goal {
    int64_t batch;
    DType state;
    double goal_ms, peer_ms;
  };
  constexpr Goal kGoals[] = {
      {1, DType::kFloat32, .0038, .0042}, {1, DType::kBFloat16, .0034, .0037},
      {16, DType::kFloat32, 0, .0153},    {16, DType::kBFloat16, 0, .0093},
      {64, DType::kFloat32, .067, .0693}, {64, DType::kBFloat16, .035, .0411},
      {256, DType::kFloat32, .258, .262}, {256, DType::kBFloat16, .133, .146},
  };
  std::vector<Row> rows;
  for (const Goal& goal : kGoals) {
    LinearShape s = linear_shape({Rule::kGdn, 16, 32, goal.batch, 1, Gates::kRandom, 0, 0});
    s.decode = true;
    s.state_dtype = goal.state;
    rows.push_back({s, goal.goal_ms, goal.peer_ms});
  }
  return rows;
}

std::vector<Row> cpu_linear_rows() {
  constexpr LinearRow kRows[] = {
      {Rule::kGdn, 8, 8, 1, 2048, Gates::kSlow, 3.5, 38.6},
      {Rule::kGdn, 32, 32, 1, 8192, Gates::kSlow, 55, 834},
      {Rule::kGdn, 8, 8, 1, 1, Gates::kRandom, .03, .352},
  };
  std::vector<Row> rows = linear_rows(kRows);
  for (Row& row : rows) std::get<LinearShape>(row.shape).dtype = DType::kFloat32;
  std::get<LinearShape>(rows.back().shape).decode = true;
  return rows;
}

}  // namespace

std::optional<std::vector<Row>> attention_set(std::string_view name) {
  std::vector<Row> rows;
  if (name == "seed-table") {
    add_all(rows, kSeedTable);
  } else if (name == "decode") {
    add_all(rows, kDecode);
  } else if (name == "short") {
    add_all(rows, kShort);
    add_all(rows, kShortDecode);
  } else if (name == "cpu") {
    add_all(rows, kCpuBf16);
    add_all(rows, kCpuDecodeBf16);
    add_all(rows, kCpuFp32, DType::kFloat32);
    add_all(rows, kCpuDecodeFp32, DType::kFloat32);
  } else {
    return std::nullopt;
  }
  return rows;
}

std::optional<std::vector<Row>> linear_set(std::string_view name) {
  if (name == "gdn") return gdn_rows();
  if (name == "kda") return linear_rows(kKda);
  if (name == "cp") return linear_rows(kCp);
  if (name == "short") return linear_rows(kShortLinear);
  if (name == "decode") return decode_rows();
  if (name == "cpu") return cpu_linear_rows();
  return std::nullopt;
}

const std::vector<std::string>& attention_set_names() {
  static const std::vector<std::string> names = {"seed-table", "decode", "short", "cpu"};
  return names;
}

const std::vector<std::string>& linear_set_names() {
  static const std::vector<std::string> names = {"gdn", "kda", "cp", "short", "decode", "cpu"};
  return names;
}

}  // namespace tilegate::bench
