#include "studies/mapping/matrix.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace ibcoll::topology {
namespace {

bool by_pair(const Flow& a, const Flow& b) {
  return std::tie(a.from, a.to) < std::tie(b.from, b.to);
}

/// Sorts by pair and adds up equal pairs.
void merge(std::vector<Flow>& flows) {
  std::sort(flows.begin(), flows.end(), by_pair);
  size_t kept = 0;
  for (const Flow& flow : flows) {
    if (kept > 0 && flows[kept - 1].from == flow.from && flows[kept - 1].to == flow.to) {
      flows[kept - 1].bytes += flow.bytes;
    } else {
      flows[kept++] = flow;
    }
  }
  flows.resize(kept);
}

void compress(int tasks, const std::vector<Flow>& flows, std::vector<CommMatrix::Edge>& edges,
              std::vector<size_t>& start) {
  start.assign(static_cast<size_t>(tasks) + 1, 0);
  for (const Flow& flow : flows) ++start[flow.from + 1];
  for (int task = 0; task < tasks; ++task) start[task + 1] += start[task];
  edges.clear();
  edges.reserve(flows.size());
  for (const Flow& flow : flows) edges.push_back({flow.to, flow.bytes});
}

}  // namespace

Result<CommMatrix> CommMatrix::from_flows(int tasks, std::vector<Flow> flows) {
  if (tasks < 1 || tasks > kMaxTasks) {
    return fail(ErrorCode::kInvalidArgument, "{} tasks: a matrix has 1 to {}", tasks, kMaxTasks);
  }
  for (const Flow& flow : flows) {
    if (flow.from < 0 || flow.from >= tasks || flow.to < 0 || flow.to >= tasks) {
      return fail(ErrorCode::kInvalidArgument, "entry ({}, {}): task outside 0..{}", flow.from,
                  flow.to, tasks - 1);
    }
    if (!std::isfinite(flow.bytes) || flow.bytes < 0) {
      return fail(ErrorCode::kInvalidArgument,
                  "entry ({}, {}) is {}: bytes must be finite and not negative", flow.from, flow.to,
                  flow.bytes);
    }
  }
  std::erase_if(flows, [](const Flow& flow) { return flow.from == flow.to || flow.bytes == 0; });
  merge(flows);
  CommMatrix matrix;
  matrix.tasks_ = tasks;
  compress(tasks, flows, matrix.out_, matrix.out_start_);
  for (Flow& flow : flows) {
    matrix.total_bytes_ += flow.bytes;
    std::swap(flow.from, flow.to);
  }
  if (!std::isfinite(matrix.total_bytes_)) {
    return fail(ErrorCode::kInvalidArgument, "the entries add up to more than a double can hold");
  }
  std::sort(flows.begin(), flows.end(), by_pair);
  compress(tasks, flows, matrix.in_, matrix.in_start_);
  const size_t pairs = flows.size();
  for (size_t i = 0; i < pairs; ++i) flows.push_back({flows[i].to, flows[i].from, flows[i].bytes});
  merge(flows);
  compress(tasks, flows, matrix.both_, matrix.both_start_);
  return matrix;
}

double CommMatrix::largest() const {
  double largest = 0;
  for (const Edge& edge : out_) largest = std::max(largest, edge.bytes);
  return largest;
}

std::vector<Flow> CommMatrix::flows() const {
  std::vector<Flow> flows;
  flows.reserve(out_.size());
  for (int task = 0; task < tasks_; ++task) {
    for (const Edge& edge : out(task)) flows.push_back({task, edge.task, edge.bytes});
  }
  return flows;
}

CommMatrix CommMatrix::renamed(std::span<const int> name) const {
  std::vector<Flow> renamed = flows();
  for (Flow& flow : renamed) {
    flow.from = name[flow.from];
    flow.to = name[flow.to];
  }
  return *from_flows(tasks_, std::move(renamed));
}

}  // namespace ibcoll::topology
