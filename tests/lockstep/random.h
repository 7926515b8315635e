#pragma once
/// Numbers that follow from a seed and nothing else.

#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace ibcoll::lockstep {

constexpr uint64_t kStep = 0x9e3779b97f4a7c15ULL;

constexpr uint64_t shuffled(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

/// A number for these, as if drawn.
constexpr uint64_t drawn(std::initializer_list<uint64_t> of) {
  uint64_t hash = kStep;
  for (const uint64_t value : of) hash = shuffled(hash + value + kStep);
  return hash;
}

/// A sequence of numbers.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() { return shuffled(state_ += kStep); }
  /// 0 to `bound` - 1.
  uint64_t below(uint64_t bound) { return bound <= 1 ? 0 : next() % bound; }
  bool one_in(uint64_t bound) { return next() % bound == 0; }
  template <class T, size_t kSize>
  const T& of(const T (&list)[kSize]) {
    return list[below(kSize)];
  }
  template <class List>
  void shuffle(List& list) {
    for (size_t i = list.size(); i > 1; --i) {
      const size_t other = below(i);
      auto kept = list[i - 1];
      list[i - 1] = list[other];
      list[other] = kept;
    }
  }

 private:
  uint64_t state_;
};

}  // namespace ibcoll::lockstep
