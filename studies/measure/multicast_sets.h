#pragma once
/// The sets of ranks that benchmarks of multicasts send to. They follow from a seed, so that every
/// rank knows all of them, and so does a program of another library that is to send to the same
/// ones: this takes nothing but standard C++.

#include <algorithm>
#include <cstdint>
#include <vector>

namespace ibcoll::measure {

/// How sets are drawn.
struct SetDraw {
  uint64_t seed = 1;
  int ranks = 0;
  /// Members, without the master: 1 <= least <= most < ranks; sets that leave a rank out have no
  /// more than there are.
  int least = 1, most = 1;
  int left_out = -1;  ///< a rank that is in sets of master 0 only
};

/// A generator of random numbers that is the same everywhere (splitmix64).
class SetRandom {
 public:
  explicit SetRandom(uint64_t state) : state_(state) {}
  uint64_t next() {
    uint64_t mixed = state_ += 0x9e3779b97f4a7c15u;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return mixed ^ (mixed >> 31);
  }
  /// Of 0 .. `end` - 1.
  int below(int end) { return static_cast<int>((next() >> 32) * static_cast<uint64_t>(end) >> 32); }

 private:
  uint64_t state_;
};

/// The members of set number `number` of a master, which is none of them, in ascending order. Each
/// number of members is as likely as any other, and so is each set of that many.
inline std::vector<int> draw_set(const SetDraw& draw, int master, uint64_t number) {
  SetRandom random(SetRandom(SetRandom(draw.seed).next() + static_cast<uint64_t>(master)).next() +
                   number);
  std::vector<int> ranks;
  for (int rank = 0; rank < draw.ranks; ++rank)
    if (rank != master && (master == 0 || rank != draw.left_out)) ranks.push_back(rank);
  const int most = std::min(draw.most, static_cast<int>(ranks.size()));
  const int members = draw.least + random.below(most - draw.least + 1);
  for (int i = 0; i < members; ++i)
    std::swap(ranks[i], ranks[i + random.below(static_cast<int>(ranks.size()) - i)]);
  ranks.resize(members);
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

}  // namespace ibcoll::measure
