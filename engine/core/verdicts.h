#pragma once
/// What the ranks of a machine decide together, where some of them may die meanwhile: what the
/// first of them says is what all of them go by. Nobody waits for anybody, and what has been said
/// stays when its rank has died.

#include <cstddef>
#include <cstdint>
#include <optional>

#include "engine/base/result.h"

namespace ibcoll {

class Verdicts {
 public:
  /// What they take of memory that `ranks` ranks share.
  static size_t bytes(size_t ranks);
  /// In that memory, which is zero and a multiple of 64: by one rank, before any other uses it.
  static void prepare(std::byte* memory);

  Verdicts() = default;
  /// In that memory.
  Verdicts(std::byte* memory, size_t ranks);

  /// The verdict on a question, which is not 0: `proposal` unless another rank was first.
  /// kNoMemory where more questions are open than there is room for.
  Result<int64_t> settle(uint64_t question, int64_t proposal);
  /// The verdict, if there is one.
  std::optional<int64_t> find(uint64_t question) const;
  /// No rank asks for it any more.
  void forget(uint64_t question);

 private:
  struct Control;
  Control* control_ = nullptr;
  size_t places_ = 0;
};

}  // namespace ibcoll
