#pragma once
/// Which of several contenders is fastest, where every measurement is disturbed: they are measured
/// in turn, round by round, and those that lose early are dropped.

#include <cstddef>
#include <span>
#include <vector>

namespace ibcoll::measure {

/// Contender 0 is what there is already: another is chosen only where it is better beyond what
/// rounds differ. What is compared are ratios of times of one round, which disturbances of the
/// machine that last longer than a round leave as they are.
class Race {
 public:
  /// `kept`: contenders that are never dropped; 0 is one of them anyway.
  Race(size_t contenders, std::span<const size_t> kept = {});

  /// Who is measured in the next round, ascending.
  const std::vector<size_t>& running() const { return running_; }
  /// Their times, in that order; positive. Drops the slower half of those that may be dropped in
  /// the third round, and after every second one.
  void add_round(std::span<const double> times);
  size_t rounds() const { return rounds_; }

  /// The median of a contender's times.
  double median_time(size_t contender) const;
  /// What `one` takes in parts of what `other` takes, in each round that had both.
  std::vector<double> ratios(size_t one, size_t other) const;
  /// The median of ratios(contender, 0).
  double score(size_t contender) const;
  /// Of those still running, the one with the least score.
  size_t fastest() const;
  /// The fastest one if it is better than 0 beyond doubt: by kWorth, and in three of four rounds.
  size_t choice() const;

  /// What another choice must save to be worth a rule.
  static constexpr double kWorth = 0.03;

 private:
  void drop_slow();

  std::vector<std::vector<double>> times_;  ///< of each contender, from the first round on
  std::vector<bool> kept_;
  std::vector<size_t> running_;
  size_t rounds_ = 0;
};

}  // namespace ibcoll::measure
