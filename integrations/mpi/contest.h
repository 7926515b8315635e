#pragma once
/// By whom the calls of one kind are carried out fastest, the engine, with which of its algorithms,
/// or the MPI: the rules by which the ranks of a communicator find that out in calls that the
/// program makes anyway. No clock and no MPI: whoever has those feeds times.
///
/// A look is a short series of calls, some by the candidate that is kept and some by a rival, which
/// are timed. Whose turn it is depends on nothing but the number of the call and what the ranks
/// have agreed on before, so all ranks know it alike. Between looks the faster one carries out all
/// calls, and how many those are depends on what the look has cost: see distance(). The next look
/// is at the next rival.

#include <algorithm>
#include <array>
#include <cstdint>

namespace ibcoll::mpi {

/// After these two come the engine's other algorithms that are worth trying
/// (ibcoll_algorithm_to_try), of which there may be none.
enum class Candidate : uint8_t { kEngine, kMpi, kFirstOther };
inline constexpr uint8_t kFewestCandidates = static_cast<uint8_t>(Candidate::kFirstOther);
inline constexpr uint8_t kMostOthers = 3, kMostCandidates = kFewestCandidates + kMostOthers;
/// Which of the other algorithms.
constexpr size_t other_of(Candidate candidate) {
  return static_cast<size_t>(candidate) - static_cast<size_t>(Candidate::kFirstOther);
}
constexpr bool is_other(Candidate candidate) { return candidate >= Candidate::kFirstOther; }

/// The two of a look.
enum class Contender : uint8_t { kKept, kRival };
inline constexpr size_t kContenders = 2;

/// Nanoseconds of both contenders.
using Times = std::array<uint32_t, kContenders>;
/// Of a rank that has no memory to note times in: then nothing is measured, on all ranks.
inline constexpr uint32_t kNoTime = UINT32_MAX;
/// Of a rank whose calls were of very different sizes: their times can't be compared.
inline constexpr uint32_t kUnlike = kNoTime - 1;
inline constexpr uint32_t kLongest = kUnlike - 1;

/// Calls by one of them, one after the other. The first is not timed: what the other one has left
/// in caches, and ranks that come to it at different times, are none of this one's.
struct Turn {
  Contender who;
  int calls;
};
/// Each is the first of a pair as often as the second. The short turns come first: they show
/// whether one is much slower, and cost little where it is.
inline constexpr std::array kTurns = {Turn{Contender::kKept, 2},  Turn{Contender::kRival, 2},
                                      Turn{Contender::kRival, 2}, Turn{Contender::kKept, 2},
                                      Turn{Contender::kKept, 4},  Turn{Contender::kRival, 4},
                                      Turn{Contender::kRival, 4}, Turn{Contender::kKept, 4},
                                      Turn{Contender::kKept, 4},  Turn{Contender::kRival, 4}};
inline constexpr size_t kShortTurns = 4;
/// Turns of each contender.
inline constexpr size_t kSamples = kTurns.size() / kContenders;

/// One call of a look.
struct LookedAt {
  Contender who = Contender::kKept;
  bool begins = false, ends = false;  ///< the turn
  uint8_t sample = 0;                 ///< which of the contender's turns it is in
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
  std::array<uint8_t, kContenders> samples = {};
  size_t at = 0;
  for (const Turn& turn : kTurns) {
    const uint8_t sample = samples[static_cast<size_t>(turn.who)]++;
    for (int i = 0; i < turn.calls; ++i)
      calls[at++] = {turn.who, i == 0, i + 1 == turn.calls, sample,
                     static_cast<uint8_t>(turn.calls - 1)};
  }
  return calls;
}();

/// When the first look at the next rival comes: when it costs little, or at once, where calls are
/// made for nothing else.
enum class FirstLooks : uint8_t { kSpread, kAtOnce };

/// What a rank notes of a look, and what came of it.
struct Look {
  uint64_t nanoseconds = 0;  ///< of the turn that is under way
  std::array<std::array<uint32_t, kSamples>, kContenders> samples = {};  ///< means of turns
  /// By the last look at each candidate: the slowest rank's medians; 0: there was none.
  std::array<uint32_t, kMostCandidates> found = {};
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
  /// The first look at a rival comes soon after the one before; and what was decided then may be
  /// wrong by chance, and is looked at again. That may take more, once.
  static constexpr double kMostPartAtFirst = 0.1;
  /// What a look takes besides the slower one's calls, as a number of calls: clocks are read,
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
  /// No calls are measured. `mpi_leads`: see without_others().
  explicit constexpr Contest(Candidate kept, bool mpi_leads = false)
      : rest_(kForEver), kept_(kept), fixed_(true), mpi_leads_(mpi_leads) {}

  Candidate kept() const { return kept_; }
  /// Who carries out a call of the look that is under way.
  Candidate who(const LookedAt& call) const {
    return call.who == Contender::kKept ? kept_ : rival_;
  }
  /// The same of calls for which the engine has no other algorithm.
  Candidate without_others() const {
    if (!is_other(kept_)) [[likely]]
      return kept_;
    return mpi_leads_ ? Candidate::kMpi : Candidate::kEngine;
  }
  bool is_fixed() const { return fixed_; }
  /// Calls of a look have been made, and ranks have not agreed on it yet.
  bool is_looking() const { return position_ != 0; }
  bool is_decided() const { return fixed_ || decided_; }
  /// It is decided, and the next call is none of a look.
  bool rests() const { return is_decided() && rest_ != 0; }

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
    for (size_t i = 0; look != nullptr && i < kContenders; ++i) {
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
  /// What all have agreed on: the slowest rank's time with each. `candidates`: how many there are.
  void settle(Look* look, const Times& slowest, uint8_t candidates = kFewestCandidates,
              FirstLooks first_looks = FirstLooks::kSpread) {
    if (slowest[0] == kNoTime || slowest[1] == kNoTime) return stop_measuring();
    if (slowest[0] == kUnlike) {
      if (kept_ != Candidate::kEngine) looks_ = 0;
      kept_ = Candidate::kEngine;
      rival_ = Candidate::kMpi;
      if (look != nullptr) look->found = {};
      return end_look(look, false, kUnlikeDistance, candidates);
    }
    const uint64_t kept = std::max(slowest[0], uint32_t{1});
    const uint64_t rival = std::max(slowest[1], uint32_t{1});
    const bool is_short = position_ == kShortLook;
    // Two times each are enough to leave everything as it is, not to change it.
    agreed_ = is_short && rival < kClearly * kept;
    if (agreed_) return;
    if (look != nullptr) {
      look->found[static_cast<size_t>(kept_)] = slowest[0];
      look->found[static_cast<size_t>(rival_)] = slowest[1];
    }
    const bool changes = rival * kPreference < kept * (kPreference - 1);
    if (!is_other(kept_) && !is_other(rival_))
      mpi_leads_ = (changes ? rival_ : kept_) == Candidate::kMpi;
    const double slower =
        static_cast<double>(changes ? kept : rival) / static_cast<double>(changes ? rival : kept);
    const bool goes_on = first_looks == FirstLooks::kAtOnce && looks_ + 2 < candidates;
    end_look(look, changes, goes_on ? 0 : distance(slower, is_short, looks_ + 1 < candidates),
             candidates);
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

  void end_look(Look* look, bool changes, uint32_t distance, uint8_t candidates) {
    const auto rivals = static_cast<uint8_t>(candidates - 1);
    // All rivals have been looked at again, and nothing has changed.
    if (changes || looks_ < rivals)
      confirmed_ = 0;
    else
      confirmed_ = std::min<uint8_t>(confirmed_ + 1, rivals * (any_size_ ? 1 : kMostDoublings));
    looks_ = std::min<uint8_t>(looks_ + 1, rivals);
    const uint32_t before = decided_ && look != nullptr ? look->distance : kWarmUp;
    const uint32_t looked_at = position_;
    const Candidate rival = rival_;
    if (changes) kept_ = rival;
    decided_ = true;
    position_ = 0;
    rest_ = distance << confirmed_ / rivals;
    for (rival_ = next(rival, candidates); rival_ == kept_;) rival_ = next(rival_, candidates);
    if (look == nullptr) return;
    look->calls += before + looked_at;
    look->distance = rest_;
  }
  static Candidate next(Candidate candidate, uint8_t candidates) {
    return static_cast<Candidate>((static_cast<uint8_t>(candidate) + 1) % candidates);
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
  uint8_t confirmed_ = 0;    ///< looks after which all stayed as it was, from the second round on
  Candidate kept_ : 4 = Candidate::kEngine;
  Candidate rival_ : 4 = Candidate::kMpi;  ///< of the present look, or the next one
  uint8_t looks_ : 3 = 0;                  ///< that have ended, up to one a rival
  bool fixed_ : 1 = false, decided_ : 1 = false, any_size_ : 1 = false;
  bool agreed_ : 1 = false;     ///< on what came of the present look's calls
  bool mpi_leads_ : 1 = false;  ///< it, of it and the engine's own choice
};
static_assert(sizeof(Contest) == 8);

}  // namespace ibcoll::mpi
