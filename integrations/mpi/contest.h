#pragma once
/// Who carries out the calls of one kind faster, the engine or the MPI: the rules by which the
/// ranks of a communicator find that out in calls that the program makes anyway. No clock and no
/// MPI: whoever has those feeds times.
///
/// A look is a short series of calls, some by the engine and some by the MPI, which are timed.
/// Whose turn it is depends on nothing but the number of the call and what the ranks have agreed on
/// before, so all ranks know it alike. Between looks the faster one carries out all calls, and how
/// many those are depends on what the look has cost: see distance().

#include <algorithm>
#include <array>
#include <cstdint>

namespace ibcoll::mpi {

enum class Candidate : uint8_t { kEngine, kMpi };
inline constexpr size_t kCandidates = 2;
constexpr Candidate other(Candidate candidate) {
  return candidate == Candidate::kEngine ? Candidate::kMpi : Candidate::kEngine;
}

/// Nanoseconds of both.
using Times = std::array<uint32_t, kCandidates>;
/// Of a rank that has no memory to note times in: then nothing is measured, on all ranks.
inline constexpr uint32_t kNoTime = UINT32_MAX;
/// Of a rank whose calls were of very different sizes: their times can't be compared.
inline constexpr uint32_t kUnlike = kNoTime - 1;
inline constexpr uint32_t kLongest = kUnlike - 1;

/// Calls by one candidate, one after the other. The first is not timed: what the other candidate
/// has left in caches, and ranks that come to it at different times, are none of this one's.
struct Turn {
  Candidate who;
  int calls;
};
/// Each candidate is the first of a pair as often as the second. The short turns come first: they
/// show whether one is much slower, and cost little where it is.
inline constexpr std::array kTurns = {Turn{Candidate::kEngine, 2}, Turn{Candidate::kMpi, 2},
                                      Turn{Candidate::kMpi, 2},    Turn{Candidate::kEngine, 2},
                                      Turn{Candidate::kEngine, 4}, Turn{Candidate::kMpi, 4},
                                      Turn{Candidate::kMpi, 4},    Turn{Candidate::kEngine, 4},
                                      Turn{Candidate::kEngine, 4}, Turn{Candidate::kMpi, 4}};
inline constexpr size_t kShortTurns = 4;
/// Turns of each candidate.
inline constexpr size_t kSamples = kTurns.size() / kCandidates;

/// One call of a look.
struct LookedAt {
  Candidate who = Candidate::kEngine;
  bool begins = false, ends = false;  ///< the turn
  uint8_t sample = 0;                 ///< which of the candidate's turns it is in
  uint8_t timed = 0;                  ///< calls of the turn that are
};

constexpr size_t calls_of(size_t turns) {
  size_t calls = 0;
  for (size_t i = 0; i < turns; ++i) calls += static_cast<size_t>(kTurns[i].calls);
  return calls;
}
inline constexpr uint8_t kShortLook = calls_of(kShortTurns), kLook = calls_of(kTurns.size());

inline constexpr auto kLookedAt = [] {
  std::array<LookedAt, kLook> calls = {};
  std::array<uint8_t, kCandidates> samples = {};
  size_t at = 0;
  for (const Turn& turn : kTurns) {
    const uint8_t sample = samples[static_cast<size_t>(turn.who)]++;
    for (int i = 0; i < turn.calls; ++i)
      calls[at++] = {turn.who, i == 0, i + 1 == turn.calls, sample,
                     static_cast<uint8_t>(turn.calls - 1)};
  }
  return calls;
}();

/// What a rank notes of a look, and what came of it.
struct Look {
  uint64_t nanoseconds = 0;  ///< of the turn that is under way
  std::array<std::array<uint32_t, kSamples>, kCandidates> samples = {};  ///< means of turns
  Times found = {};             ///< by the last look: the slowest rank's medians
  uint8_t least = 0, most = 0;  ///< classes of sizes of this look's calls, where those may differ
  uint64_t calls = 0;           ///< that came before the present distance began
  uint32_t distance = 0;
};

/// Of calls of one kind on one communicator. Small, and complete for who may not note times: there
/// are hundreds of each communicator, of which a program makes few.
class Contest {
 public:
  /// Calls that come before the first look: buffers have been touched and moved then, and
  /// connections made. A program that makes no more of them has nothing to gain.
  static constexpr uint32_t kWarmUp = 16;
  /// One takes over only if it is faster by this part: 1/32.
  static constexpr uint64_t kPreference = 32;
  /// From here on one is so much slower that short turns show it.
  static constexpr uint64_t kClearly = 4;
  /// A look may take 1 % of the calls' time until the next one.
  static constexpr double kMostPart = 0.01;
  /// The first look may be wrong by chance and is repeated soon: that may take more, once.
  static constexpr double kMostPartAtFirst = 0.1;
  /// What a look takes besides the slower candidate's calls, as a number of calls: clocks are read,
  /// ranks wait for each other before each turn, and agree. A barrier may be all that a call is.
  static constexpr double kOverhead = kTurns.size() + 20, kShortOverhead = kShortTurns + 8;
  static constexpr uint8_t kMostDoublings = 6;
  /// Calls to the next look behind one whose calls were unlike.
  static constexpr uint32_t kUnlikeDistance = 10000;

  constexpr Contest() = default;
  /// Of calls whose size no rank knows as a whole. What is decided holds as long as the sizes stay
  /// about alike, so looks do not become as rare.
  static constexpr Contest of_any_size() {
    Contest contest;
    contest.any_size_ = true;
    return contest;
  }
  /// No calls are measured.
  explicit constexpr Contest(Candidate kept) : rest_(kForEver), kept_(kept), fixed_(true) {}

  Candidate kept() const { return kept_; }
  bool is_fixed() const { return fixed_; }
  bool is_decided() const { return fixed_ || decided_; }

  /// Whether the call passes by, to the one that is kept: no look is under way. Asked once a call.
  bool passes() {
    if (rest_ == 0) [[unlikely]]
      return false;
    --rest_;
    return true;
  }
  /// Where it does not: whether ranks have to agree first, on the highest of what each proposes.
  /// That is at the call behind those that it is about: no call of a rank that an error has led
  /// astray, out of MPI's function and past what follows there, is missing then.
  bool must_agree() const { return !agreed_ && (position_ == kShortLook || position_ == kLook); }
  /// Then, if it still does not pass by: the next call of a look, which begins. Null: it is a call
  /// like others after all. `look`: null: there is no memory to note times in. `size_class`: of
  /// what this rank knows of the call's size, where ranks do not know all of it.
  const LookedAt* looked_at(Look* look, uint8_t size_class = 0) {
    if (fixed_) {
      rest_ = kForEver;
      return nullptr;
    }
    if (look != nullptr) {
      look->least = position_ == 0 ? size_class : std::min(look->least, size_class);
      look->most = position_ == 0 ? size_class : std::max(look->most, size_class);
    }
    const LookedAt& call = kLookedAt[position_++];
    agreed_ = false;
    if (look != nullptr && call.begins) {
      look->nanoseconds = 0;
      sample_of(*look, call) = kLongest;  // as long as it has not ended
    }
    return &call;
  }
  /// It has ended on this rank.
  static void end(Look& look, const LookedAt& call, int64_t nanoseconds) {
    if (!call.begins) look.nanoseconds += static_cast<uint64_t>(std::max<int64_t>(nanoseconds, 0));
    if (!call.ends) return;
    const uint64_t mean = look.nanoseconds / call.timed;
    sample_of(look, call) = static_cast<uint32_t>(std::min<uint64_t>(mean, kLongest));
  }
  Times proposed(const Look* look) const {
    if (look != nullptr && look->most > look->least + 1) return {kUnlike, kUnlike};
    Times times = {kNoTime, kNoTime};
    for (size_t i = 0; look != nullptr && i < kCandidates; ++i) {
      auto samples = look->samples[i];
      if (position_ == kShortLook) {
        times[i] = std::min(samples[0], samples[1]);
        continue;
      }
      std::nth_element(samples.begin(), samples.begin() + kSamples / 2, samples.end());
      times[i] = samples[kSamples / 2];
    }
    return times;
  }
  /// What all have agreed on: the slowest rank's time with each.
  void settle(Look* look, const Times& slowest) {
    if (slowest[0] == kNoTime || slowest[1] == kNoTime) return stop_measuring();
    if (slowest[0] == kUnlike) return end_look(look, Candidate::kEngine, kUnlikeDistance, {});
    const auto ours = static_cast<size_t>(kept_);
    const uint64_t kept = std::max(slowest[ours], uint32_t{1});
    const uint64_t rival = std::max(slowest[1 - ours], uint32_t{1});
    const bool is_short = position_ == kShortLook;
    // Two times each are enough to leave everything as it is, not to change it.
    agreed_ = is_short && rival < kClearly * kept;
    if (agreed_) return;
    const bool changes = rival * kPreference < kept * (kPreference - 1);
    const double slower =
        static_cast<double>(changes ? kept : rival) / static_cast<double>(changes ? rival : kept);
    end_look(look, changes ? other(kept_) : kept_, distance(slower, is_short, !decided_), slowest);
  }
  /// The engine carries out all calls from now on.
  void stop_measuring() { *this = Contest(Candidate::kEngine); }

  /// Calls that there have been. The looks of a fixed one are none.
  uint64_t calls(const Look* look) const {
    if (fixed_) return kForEver - rest_;
    return look == nullptr || !decided_ ? 0 : look->calls + (look->distance - rest_);
  }

 private:
  static constexpr uint32_t kForEver = UINT32_MAX;

  void end_look(Look* look, Candidate kept, uint32_t distance, const Times& found) {
    if (kept != kept_ || !decided_)
      confirmed_ = 0;
    else
      confirmed_ = std::min<uint8_t>(confirmed_ + 1, any_size_ ? 1 : kMostDoublings);
    const uint32_t before = decided_ && look != nullptr ? look->distance : kWarmUp;
    const uint32_t looked_at = position_;
    kept_ = kept;
    decided_ = true;
    position_ = 0;
    rest_ = distance << confirmed_;
    if (look == nullptr) return;
    look->found = found;
    look->calls += before + looked_at;
    look->distance = rest_;
  }

  static uint32_t& sample_of(Look& look, const LookedAt& call) {
    return look.samples[static_cast<size_t>(call.who)][call.sample];
  }
  /// Calls to the next look. `slower`: how many times the one that is not kept takes as long.
  static uint32_t distance(double slower, bool is_short, bool is_first) {
    const double calls = (is_short ? kShortLook : kLook) / 2.0;
    const double cost = (is_short ? kShortOverhead : kOverhead) + calls * std::max(slower - 1, 0.0);
    constexpr double kMost = uint32_t{1} << (31 - kMostDoublings);
    return static_cast<uint32_t>(std::min(cost / (is_first ? kMostPartAtFirst : kMostPart), kMost));
  }

  uint32_t rest_ = kWarmUp;  ///< calls that pass by before the next look begins, or goes on
  uint8_t position_ = 0;     ///< calls of the present look that have begun
  uint8_t confirmed_ = 0;    ///< looks after which all stayed as it was, from the second on
  Candidate kept_ = Candidate::kEngine;
  bool fixed_ : 1 = false, decided_ : 1 = false, any_size_ : 1 = false;
  bool agreed_ : 1 = false;  ///< on what came of the present look's calls
};
static_assert(sizeof(Contest) == 8);

}  // namespace ibcoll::mpi
