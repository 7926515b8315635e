#include <algorithm>
#include <vector>

#include "tests/lockstep/bed/runs.h"

namespace ibcoll::lockstep {
namespace {

/// Looks for a shorter run that fails, too.
class Shrinking {
 public:
  Shrinking(uint64_t seed, Overrides overrides, Report& report)
      : seed_(seed), best_(std::move(overrides)), report_(report), until_(wall_s() + kLongestS) {}

  Overrides run() {
    // Disturbances first: without them a program says more.
    for (auto i = static_cast<uint32_t>(plan_of(seed_, best_).conditions.disturbances.size());
         i-- > 0;) {
      Overrides less = best_;
      less.undisturbed.insert(less.undisturbed.begin(), i);
      take_if_fails(std::move(less));
    }
    if (!plan_of(seed_, best_).limits.empty()) {
      Overrides less = best_;
      less.wide = true;
      take_if_fails(std::move(less));
    }
    for (size_t piece = std::max<size_t>(actions().size() / 2, 1);;) {
      bool shorter = false;
      // From the end: what comes first others stand on.
      for (size_t end = actions().size(); end > 0 && !is_late();) {
        const std::vector<uint32_t> all = actions();
        end = std::min(end, all.size());
        const size_t begin = end - std::min(piece, end);
        Overrides less = best_;
        less.without.insert(less.without.end(), all.begin() + static_cast<ptrdiff_t>(begin),
                            all.begin() + static_cast<ptrdiff_t>(end));
        std::sort(less.without.begin(), less.without.end());
        shorter |= take_if_fails(std::move(less));
        end = begin;
      }
      if (is_late() || (piece == 1 && !shorter)) break;
      piece = std::max<size_t>(piece / 2, 1);
    }
    for (bool simplified = true; simplified && !is_late();) {
      simplified = false;
      const size_t variants = simpler(plan_of(seed_, best_).program).size();
      for (uint32_t i = 0; i < variants && !simplified; ++i) {
        Overrides less = best_;
        less.simpler.push_back(i);
        simplified = take_if_fails(std::move(less));
      }
    }
    return best_;
  }

 private:
  static constexpr double kLongestS = 120;
  /// A shorter program goes another way under the same seed: it is tried under so many.
  static constexpr uint64_t kSchedules = 24;

  bool is_late() const { return wall_s() > until_; }
  std::vector<uint32_t> actions() const {
    std::vector<uint32_t> numbers;
    for (const Action& action : plan_of(seed_, best_).program.actions)
      numbers.push_back(action.number);
    return numbers;
  }
  bool take_if_fails(Overrides less) {
    const uint64_t first = best_.schedule.value_or(seed_);
    for (uint64_t i = 0; i < kSchedules && !is_late(); ++i) {
      less.schedule = first + i * 1'000'003;
      if (run_alone(plan_of(seed_, less), false, report_).empty()) continue;
      best_ = std::move(less);
      return true;
    }
    return false;
  }

  const uint64_t seed_;
  Overrides best_;
  Report& report_;
  const double until_;
};

}  // namespace

Overrides shrink(uint64_t seed, const Overrides& overrides, Report& report) {
  return Shrinking(seed, overrides, report).run();
}

}  // namespace ibcoll::lockstep
