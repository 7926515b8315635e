#include "studies/mapping/assignment.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

#include "studies/mapping/near.h"
#include "studies/mapping/small.h"
#include "studies/mapping/tabu_loops.h"

namespace ibcoll::topology {
namespace {

bool sends_back_as_much(const CommMatrix& matrix) {
  for (int task = 0; task < matrix.tasks(); ++task) {
    const bool same = std::ranges::equal(
        matrix.out(task), matrix.in(task),
        [](const auto& a, const auto& b) { return a.task == b.task && a.bytes == b.bytes; });
    if (!same) return false;
  }
  return true;
}

/// What all flows are multiples of: their greatest common divisor, or 0 where some are no integers
/// of moderate size.
double unit_of(const CommMatrix& matrix) {
  constexpr double kLargest = 0x1p53;
  int64_t unit = 0;
  for (int task = 0; task < matrix.tasks(); ++task) {
    for (const CommMatrix::Edge& edge : matrix.both(task)) {
      if (edge.bytes > kLargest || edge.bytes != std::floor(edge.bytes)) return 0;
      unit = std::gcd(unit, static_cast<int64_t>(edge.bytes));
    }
  }
  return static_cast<double>(unit);
}

}  // namespace

std::optional<Assignment> Assignment::of(const CommMatrix& matrix, const Network& network,
                                         const Room& room, const Goal& goal, int most_slots) {
  Assignment made;
  made.tasks = matrix.tasks();
  made.slots = usable_slots(network, room);
  if (made.tasks < 2 || made.slots > most_slots || matrix.total_bytes() == 0) return std::nullopt;
  for (int node = 0; node < node_count(network); ++node) {
    if (room.allows(node)) made.node_of_slot.insert(made.node_of_slot.end(), room.per_node, node);
  }
  made.stride = (made.slots + kTabuLanes - 1) / kTabuLanes * kTabuLanes;
  made.flow.resize(static_cast<size_t>(made.slots) * made.stride);
  made.distance.resize(made.flow.size());
  bool as_far_back = true;
  double farthest = 0;
  std::visit(
      [&](const auto& paths) {
        const Hops hops(paths, goal.mesh_hops);
        for (int a = 0; a < made.slots; ++a) {
          for (int b = 0; b < made.slots; ++b) {
            const int from = made.node_of_slot[a], to = made.node_of_slot[b];
            if (from == to) continue;
            const int there = hops(from, to), back = hops(to, from);
            as_far_back = as_far_back && there == back;
            const float mean = static_cast<float>(there + back) / 2;
            made.distance[static_cast<size_t>(a) * made.stride + b] = mean;
            farthest = std::max<double>(farthest, mean);
          }
        }
      },
      network);
  if (!as_far_back && !sends_back_as_much(matrix)) return std::nullopt;

  const double unit = unit_of(matrix);
  double heaviest = 0;
  for (int task = 0; task < made.tasks; ++task) {
    double sum = 0;
    for (const CommMatrix::Edge& edge : matrix.both(task)) {
      const double flow = unit > 0 ? edge.bytes / unit : edge.bytes / matrix.largest();
      made.flow[static_cast<size_t>(task) * made.stride + edge.task] = static_cast<float>(flow);
      sum += flow;
    }
    heaviest = std::max(heaviest, sum);
  }
  // What an exchange changes is the sum of four rows' products.
  made.exact = as_far_back && unit > 0 && 4 * heaviest * farthest < 0x1p24;
  return made;
}

double Assignment::value(const std::vector<int>& slot_of) const {
  double sum = 0;
  for (int a = 0; a < tasks; ++a) {
    for (int b = 0; b < a; ++b)
      sum += static_cast<double>(flow_between(a, b)) * distance_between(slot_of[a], slot_of[b]);
  }
  return sum;
}

std::vector<int> Assignment::slots_of(const Placement& placement) const {
  std::vector<int> slot_of(slots, -1), next_on(1 + node_of_slot.back(), -1);
  for (int slot = slots; slot-- > 0;) next_on[node_of_slot[slot]] = slot;
  std::vector<char> taken(slots);
  for (int task = 0; task < tasks; ++task) {
    slot_of[task] = next_on[placement[task]]++;
    taken[slot_of[task]] = 1;
  }
  int idle = tasks;
  for (int slot = 0; slot < slots; ++slot) {
    if (taken[slot] == 0) slot_of[idle++] = slot;
  }
  return slot_of;
}

Placement Assignment::placement(const std::vector<int>& slot_of) const {
  Placement result(tasks);
  for (int task = 0; task < tasks; ++task) result[task] = node_of_slot[slot_of[task]];
  return result;
}

}  // namespace ibcoll::topology
