// SPDX-License-Identifier: Apache-2.0
// Value checks of delta-rule calls: every index tensor is read once, on the host. Order: offsets
// and lengths, accepted counts, rows read, rows written, checkpoint rows. Cost: O(n log n) in the
// number of rows written, for the search for rows with two writers.
#include <algorithm>
#include <string_view>
#include <vector>

#include "core/layout.h"
#include "core/message.h"
#include "problem/linear_normalise.h"
#include "problem/sequences.h"
#include "problem/state_sharing.h"

namespace tilegate {
namespace {

struct Writer {
  std::int64_t row = 0;
  std::int64_t seq = 0;
  std::string_view name;  // the argument that names the row
};

Status check_below(std::string_view name, std::int64_t entry, std::int64_t value,
                   std::int64_t rows) {
  if (value < rows) return {};
  return invalid("{} must name one of {} rows, got {} at entry {}", name, rows, value, entry);
}

Status check_lengths(const LinearProblem& p) {
  if (!p.cu_seqlens.present()) return {};
  if (index_at(p.cu_seqlens, 0) != 0) {
    return invalid("cu_seqlens must start at 0, got {}", index_at(p.cu_seqlens, 0));
  }
  for (std::int64_t i = 0; i < p.num_seqs; ++i) {
    const std::int64_t begin = index_at(p.cu_seqlens, i);
    const std::int64_t end = index_at(p.cu_seqlens, i + 1);
    if (end < begin) {
      return invalid("cu_seqlens must not decrease, got {} after {} at entry {}", end, begin,
                     i + 1);
    }
    if (end > p.tokens) {
      return invalid("cu_seqlens must end within the {} tokens of q, got {} at entry {}", p.tokens,
                     end, i + 1);
    }
    if (end - begin > p.max_seqlen) {
      return invalid("max_seqlen must be at least the {} tokens of sequence {}, got {}",
                     end - begin, i, p.max_seqlen);
    }
  }
  return {};
}

Status check_accepted(std::string_view name, const TensorView& accepted, std::int64_t tokens) {
  for (std::int64_t i = 0; i < accepted.shape[0]; ++i) {
    const std::int64_t n = index_at(accepted, i);
    if (n < 0 || n > tokens) {
      return invalid("{} must be 0..{}, got {} at entry {}", name, tokens, n, i);
    }
  }
  return {};
}

Status check_reads(const LinearProblem& p) {
  if (!p.state_in.present()) return {};
  const std::string_view name = p.num_accepted.present() ? "state_slots" : "state_indices";
  for (std::int64_t i = 0; i < p.num_seqs; ++i) {
    TILEGATE_RETURN_IF_ERROR(check_below(name, i, read_row(p, i), p.state_in.shape[0]));
    if (!p.read_index.present()) continue;
    TILEGATE_RETURN_IF_ERROR(
        check_below("state_indices", i, index_at(p.read_index, i), p.state_in.shape[0]));
  }
  return {};
}

Status collect_writers(const LinearProblem& p, std::vector<Writer>& writers) {
  if (!p.state_out.present()) return {};
  const std::int64_t rows = p.state_out.shape[0];
  std::string_view name = p.read_index.present() ? "state_indices" : "output_state";
  if (p.write_index.present()) name = "output_state_indices";
  for (std::int64_t i = 0; i < p.num_seqs; ++i) {
    const std::int64_t row = write_row(p, i);
    TILEGATE_RETURN_IF_ERROR(check_below(name, i, row, rows));
    if (row != kNoRow) writers.push_back({row, i, name});
    if (!p.state_slots.present()) continue;
    for (std::int64_t t = 0; t < seq_len(p, i); ++t) {
      const std::int64_t slot = slot_row(p, i, t);
      TILEGATE_RETURN_IF_ERROR(
          check_below("state_slots", i * p.state_slots.shape[1] + t, slot, rows));
      if (slot != kNoRow) writers.push_back({slot, i, "state_slots"});
    }
  }
  return {};
}

bool by_row(const Writer& a, const Writer& b) {
  return a.row != b.row ? a.row < b.row : a.seq < b.seq;
}

Status check_unique(std::vector<Writer>& writers) {
  std::stable_sort(writers.begin(), writers.end(), by_row);
  for (std::size_t i = 1; i < writers.size(); ++i) {
    const Writer& first = writers[i - 1];
    const Writer& second = writers[i];
    if (first.row != second.row) continue;
    return invalid("{} must be written by one sequence once, got row {} for sequences {} and {}",
                   second.name, second.row, first.seq, second.seq);
  }
  return {};
}

// In place, a row that one sequence reads must not be written by another: which comes first is
// nobody's promise. `writers` is sorted by row; state_in has its rows at `shift`.
Status check_cross_reads(const LinearProblem& p, const std::vector<Writer>& writers,
                         std::int64_t shift) {
  for (std::int64_t i = 0; i < p.num_seqs; ++i) {
    if (read_row(p, i) == kNoRow || !starts_from_state(p, i)) continue;
    const std::int64_t row = read_row(p, i) + shift;
    const auto found = std::lower_bound(writers.begin(), writers.end(), Writer{row, 0, {}}, by_row);
    if (found == writers.end() || found->row != row || found->seq == i) continue;
    return invalid(
        "{} must not name a row that another sequence reads in place, got row {}, "
        "written by sequence {} and read by sequence {}",
        found->name, row, found->seq, i);
  }
  return {};
}

Status collect_checkpoint_writers(const LinearProblem& p, std::vector<Writer>& writers) {
  if (p.checkpoint_every == 0) return {};
  const bool redirected = p.checkpoint_rows.present();
  const std::int64_t rows = redirected ? p.checkpoint_rows.shape[0] : p.checkpoints.shape[0];
  for (std::int64_t i = 0; i < p.num_seqs; ++i) {
    const std::int64_t count = is_skipped(p, i) ? 0 : num_checkpoints(p, seq_len(p, i));
    if (count == 0) continue;
    const std::int64_t first = index_at(p.checkpoint_starts, i);
    const bool has_end = p.checkpoint_starts.shape[0] > p.num_seqs;
    const std::int64_t limit =
        has_end ? std::clamp<std::int64_t>(index_at(p.checkpoint_starts, i + 1), 0, rows) : rows;
    if (first < 0 || first > limit - count) {
      return invalid(
          "checkpoint_cu_starts must leave room for the {} checkpoints of sequence {} "
          "below row {}, got {}",
          count, i, limit, first);
    }
    for (std::int64_t j = 0; j < count; ++j) {
      const std::int64_t row = checkpoint_row(p, i, j);
      if (redirected) {
        TILEGATE_RETURN_IF_ERROR(
            check_below("checkpoint_state_indices", first + j, row, p.checkpoints.shape[0]));
      }
      if (row == kNoRow) continue;
      writers.push_back({row, i, redirected ? "checkpoint_state_indices" : "checkpoint_cu_starts"});
    }
  }
  return {};
}

Result<SharedRows> find_shared_rows(const Named& a, const Named& b) {
  const SharedRows shared = shared_rows(a.view, b.view);
  if (shared.sharing != Sharing::kTangled) return shared;
  return invalid("{} must be apart from {} or have its rows, got a partial overlap", b.name,
                 a.name);
}

// Reads and writes of states of all tensors together. Errors: a row with two writers, or one that
// is read by another sequence than the one that writes it, under whatever names.
Status check_state_rows(const LinearProblem& p) {
  const bool pools = p.read_index.present() || p.write_index.present();
  const Named in{pools ? "state_pool" : "initial_state", p.state_in};
  const Named out{pools ? "output_state_pool" : "output_state", p.state_out};
  const Named checkpoints{"state_checkpoints", p.checkpoints};
  std::vector<Writer> finals;
  std::vector<Writer> taken;
  TILEGATE_RETURN_IF_ERROR(collect_writers(p, finals));
  TILEGATE_RETURN_IF_ERROR(check_unique(finals));
  TILEGATE_RETURN_IF_ERROR(collect_checkpoint_writers(p, taken));
  TILEGATE_RETURN_IF_ERROR(check_unique(taken));
  const auto in_final = find_shared_rows(in, out);
  const auto in_taken = find_shared_rows(in, checkpoints);
  const auto taken_final = find_shared_rows(checkpoints, out);
  for (const auto* shared : {&in_final, &in_taken, &taken_final}) {
    if (!shared->ok()) return shared->status();
  }
  if (in_final->sharing == Sharing::kRows) {
    TILEGATE_RETURN_IF_ERROR(check_cross_reads(p, finals, in_final->shift));
  }
  if (in_taken->sharing == Sharing::kRows) {
    TILEGATE_RETURN_IF_ERROR(check_cross_reads(p, taken, in_taken->shift));
  }
  if (taken_final->sharing == Sharing::kNone) return {};
  for (const Writer& writer : taken) {
    finals.push_back({writer.row + taken_final->shift, writer.seq, writer.name});
  }
  return check_unique(finals);
}

}  // namespace

Status check_linear_values(const LinearProblem& p) {
  TILEGATE_RETURN_IF_ERROR(check_lengths(p));
  if (p.num_accepted.present()) {
    TILEGATE_RETURN_IF_ERROR(
        check_accepted("num_accepted_tokens", p.num_accepted, p.state_slots.shape[1]));
  }
  TILEGATE_RETURN_IF_ERROR(check_reads(p));
  return check_state_rows(p);
}

Status check_commit_values(const CommitProblem& p) {
  TILEGATE_RETURN_IF_ERROR(check_accepted("accepted", p.accepted, p.tokens));
  std::vector<Writer> writers;
  for (std::int64_t i = 0; i < p.num_seqs; ++i) {
    const std::int64_t row = p.index.present() ? index_at(p.index, i) : i;
    TILEGATE_RETURN_IF_ERROR(check_below("state_indices", i, row, p.state.shape[0]));
    if (row >= 0) writers.push_back({row, i, "state_indices"});
  }
  return check_unique(writers);
}

}  // namespace tilegate
