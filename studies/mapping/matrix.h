#pragma once
/// Who sends how much to whom: the input of task mapping, kept sparse.

#include <span>
#include <vector>

#include "engine/base/result.h"

namespace ibcoll::topology {

/// `bytes` sent from task `from` to task `to`.
struct Flow {
  int from = 0;
  int to = 0;
  double bytes = 0;
};

/// A directed communication matrix in compressed rows. Entry (t, u) is the number of bytes that
/// task t sends to task u; a task's traffic with itself is left out, since it never reaches the
/// network.
class CommMatrix {
 public:
  /// One entry of a row or a column: the other task and the bytes.
  struct Edge {
    int task = 0;
    double bytes = 0;
  };

  /// Largest number of tasks that any reader or generator accepts.
  static constexpr int kMaxTasks = 1 << 20;

  CommMatrix() = default;

  /// Adds up flows of the same pair and drops zeros and self-traffic. Refuses a task outside [0,
  /// tasks) and negative, infinite or not-a-number bytes, naming the entry.
  static Result<CommMatrix> from_flows(int tasks, std::vector<Flow> flows);

  int tasks() const { return tasks_; }
  /// Number of directed pairs with traffic.
  size_t pairs() const { return out_.size(); }
  /// What `task` sends, by ascending receiver.
  std::span<const Edge> out(int task) const { return row(out_, out_start_, task); }
  /// What `task` receives, by ascending sender.
  std::span<const Edge> in(int task) const { return row(in_, in_start_, task); }
  /// Both directions added up: entry (t, u) equals entry (u, t), by ascending other task.
  std::span<const Edge> both(int task) const { return row(both_, both_start_, task); }
  /// Sum of all entries.
  double total_bytes() const { return total_bytes_; }
  /// The largest entry; 0 when nothing is sent.
  double largest() const;
  /// All entries by ascending sender, then receiver.
  std::vector<Flow> flows() const;
  /// The same traffic with task t renamed to name[t].
  CommMatrix renamed(std::span<const int> name) const;

 private:
  static std::span<const Edge> row(const std::vector<Edge>& edges, const std::vector<size_t>& start,
                                   int task) {
    return {edges.data() + start[task], edges.data() + start[task + 1]};
  }

  int tasks_ = 0;
  double total_bytes_ = 0;
  std::vector<Edge> out_, in_, both_;
  std::vector<size_t> out_start_, in_start_, both_start_;
};

}  // namespace ibcoll::topology
