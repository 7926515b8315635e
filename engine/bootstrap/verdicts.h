#pragma once
/// What the ranks of a job decide together, where some of them may die meanwhile: what the first of
/// them says is what all of them go by. Nobody waits for anybody to agree, and what has been said
/// stays when its rank has died.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/base/result.h"

namespace ibcoll {

/// A question, which is not 0, and what is said of it.
struct Verdict {
  uint64_t question = 0;
  int64_t answer = 0;
};

/// Those that the ranks of a machine know, in memory that they share. Where the job has other
/// machines, too, what is asked here is passed on to where all of them ask, by whoever speaks for
/// this machine.
class Verdicts {
 public:
  /// Where a verdict is given.
  enum class Given {
    kHere,       ///< as soon as it is asked for
    kElsewhere,  ///< what is proposed here is a question only
  };

  /// What they take of memory in a job of so many ranks: the same on all its machines, so that none
  /// has room for less than another one.
  static size_t bytes(size_t job_ranks);
  /// In that memory, which is zero and a multiple of 64: by one rank, before any other uses it.
  static void prepare(std::byte* memory);

  Verdicts() = default;
  /// In that memory.
  Verdicts(std::byte* memory, size_t job_ranks);

  /// Asks: `mine.answer` is the verdict unless another rank was first. Nothing where it is not
  /// given yet; find() has it then, once it is. kNoMemory where more questions are open than there
  /// is room for.
  Result<std::optional<int64_t>> settle(const Verdict& mine, Given given);
  /// The verdict, if there is one.
  std::optional<int64_t> find(uint64_t question) const;
  /// No rank asks for it any more. Where verdicts are given elsewhere, that is passed on, too.
  void forget(uint64_t question, Given given);

  // For who passes on what is asked here.

  /// What has been proposed here and is not passed on yet, which it is from now on.
  std::vector<Verdict> take_questions();
  /// Proposals whose verdicts are still out are to be passed on again: to somebody else.
  void ask_again();
  /// What is forgotten here and has not been passed on yet, which it is from now on.
  std::vector<uint64_t> take_forgotten();
  /// All verdicts that are known here.
  std::vector<Verdict> given() const;

 private:
  struct Place;
  struct Control;
  /// Null where there is no room for another question.
  Place* place_of(uint64_t question) const;

  Control* control_ = nullptr;
  size_t places_ = 0;
};

}  // namespace ibcoll
