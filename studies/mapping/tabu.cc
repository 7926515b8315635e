#include "studies/mapping/tabu.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "studies/mapping/tabu_loops.h"

namespace ibcoll::topology {
namespace {

constexpr float kNever = std::numeric_limits<float>::infinity();

}  // namespace

TabuSearch::TabuSearch(const Assignment& problem, uint64_t seed)
    : problem_(problem),
      tasks_(problem.tasks),
      slots_(problem.slots),
      stride_(problem.stride),
      random_(seed),
      distance_(problem.flow.size()),
      products_(problem.flow.size()),
      changes_(problem.flow.size()),
      flow_gap_(stride_),
      distance_gap_(stride_),
      away_until_(problem.flow.size()),
      forbidden_until_(problem.flow.size()) {}

void TabuSearch::start(std::vector<int> slot_of) {
  slot_of_ = std::move(slot_of);
  now_ = 0;
  std::fill(away_until_.begin(), away_until_.end(), 0);
  for (int task = 0; task < slots_; ++task) update_forbidden(task);
  tabulate();
  best_ = slot_of_;
  best_value_ = value_ = problem_.value(slot_of_);
}

void TabuSearch::run(int64_t exchanges, const std::function<bool()>& stop) {
  constexpr int kBetweenLooks = 64, kBetweenTables = 4096;
  // Single precision tells changes apart down to this part of the value.
  constexpr double kPrecision = 1e-6;
  const double margin = problem_.exact ? 0.25 : kPrecision * value_;
  for (int64_t i = 0; i < exchanges; ++i) {
    if (i % kBetweenLooks == 0 && stop()) return;
    if (now_ % kBetweenTables == kBetweenTables - 1 && !problem_.exact) tabulate();
    ++now_;
    FoundChange found = least_change({tasks_, stride_, changes_.data(), forbidden_until_.data(),
                                      now_, static_cast<float>(best_value_ - value_ - margin)});
    if (found.u < 0) {  // all are forbidden
      found.u = random_.below(tasks_);
      found.v = random_.below(slots_ - 1);
      found.v += found.v >= found.u ? 1 : 0;
      if (found.u > found.v) std::swap(found.u, found.v);
    }
    exchange(found.u, found.v);
    if (value_ >= best_value_ - margin) continue;
    best_value_ = value_;
    best_ = slot_of_;
  }
}

/// The tables from scratch; also takes away what rounding left behind.
void TabuSearch::tabulate() {
  for (int a = 0; a < slots_; ++a) {
    for (int b = 0; b < slots_; ++b)
      distance_[at(a, b)] = problem_.distance_between(slot_of_[a], slot_of_[b]);
  }
  for (int a = 0; a < slots_; ++a) {
    for (int b = 0; b < slots_; ++b) {
      float sum = 0;
      for (int k = 0; k < tasks_; ++k) sum += problem_.flow[at(a, k)] * distance_[at(b, k)];
      products_[at(a, b)] = sum;
    }
  }
  std::fill(changes_.begin(), changes_.end(), kNever);
  for (int a = 0; a < tasks_; ++a) {
    for (int b = a + 1; b < slots_; ++b) changes_[at(a, b)] = tabled_change(a, b);
  }
}

/// What the exchange of two tasks changes, from the products.
float TabuSearch::tabled_change(int a, int b) const {
  return products_[at(a, b)] + products_[at(b, a)] - products_[at(a, a)] - products_[at(b, b)] +
         2 * problem_.flow[at(a, b)] * distance_[at(a, b)];
}

double TabuSearch::exact_change(int a, int b) const {
  double sum = 0;
  for (int k = 0; k < tasks_; ++k) {
    if (k == a || k == b) continue;
    sum += (static_cast<double>(problem_.flow[at(a, k)]) - problem_.flow[at(b, k)]) *
           (distance_[at(b, k)] - distance_[at(a, k)]);
  }
  return sum;
}

void TabuSearch::exchange(int a, int b) {
  value_ += exact_change(a, b);
  away_until_[at(a, slot_of_[a])] = now_ + draw_tenure();
  away_until_[at(b, slot_of_[b])] = now_ + draw_tenure();
  std::swap(slot_of_[a], slot_of_[b]);
  update_tables(a, b);
  update_forbidden(a);
  update_forbidden(b);
}

void TabuSearch::update_tables(int a, int b) {
  const float between = distance_[at(a, b)];
  for (int k = 0; k < slots_; ++k) {
    flow_gap_[k] = problem_.flow[at(a, k)] - problem_.flow[at(b, k)];
    distance_gap_[k] = distance_[at(b, k)] - distance_[at(a, k)];
  }
  // The two themselves get each other's columns instead.
  distance_gap_[a] = distance_gap_[b] = 0;
  add_outer_products({slots_, stride_, flow_gap_.data(), distance_gap_.data()}, products_.data(),
                     changes_.data());
  for (int k = 0; k < slots_; ++k) {
    float &with_a = products_[at(k, a)], &with_b = products_[at(k, b)];
    const float moved = flow_gap_[k] * between, old = with_a;
    with_a = with_b - moved;
    with_b = old + moved;
    std::swap(distance_[at(a, k)], distance_[at(b, k)]);
  }
  for (int k = 0; k < slots_; ++k) std::swap(distance_[at(k, a)], distance_[at(k, b)]);
  for (const int task : {a, b}) {
    for (int k = 0; k < slots_; ++k) {
      if (k != task && std::min(k, task) < tasks_) changes_[pair(task, k)] = tabled_change(task, k);
    }
  }
}

/// An exchange is forbidden while neither task may go where the other is. It is never worth while
/// inside a node.
void TabuSearch::update_forbidden(int task) {
  const int slot = slot_of_[task], node = problem_.node_of_slot[slot];
  for (int k = 0; k < slots_; ++k) {
    if (k == task) continue;
    forbidden_until_[pair(task, k)] =
        problem_.node_of_slot[slot_of_[k]] == node
            ? std::numeric_limits<int>::max()
            : std::min(away_until_[at(task, slot_of_[k])], away_until_[at(k, slot)]);
  }
}

/// Nine to eleven tenths of the number of slots, as Taillard has it.
int TabuSearch::draw_tenure() { return static_cast<int>((0.9 + 0.2 * random_.unit()) * slots_); }

}  // namespace ibcoll::topology
