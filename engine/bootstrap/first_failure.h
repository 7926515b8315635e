#pragma once
/// Failures in memory that processes share.

#include <cstdint>
#include <optional>

#include "engine/bootstrap/bootstrap.h"
#include "engine/sharing/shared_access.h"

namespace ibcoll {

/// A failure where other processes can read it.
struct FailureText {
  int32_t culprit;
  int32_t code;
  char text[Failure::kMaxText + 1];

  void fill(const Failure& failure);
  Failure read() const;
};

/// The first failure of a job. Each writer has a place of its own, and the first one that has
/// filled its place counts; a writer that dies before has told nothing. All zero bytes are valid
/// and empty.
class FirstFailure {
 public:
  struct Place {
    Shared<bool> taken;  ///< by a thread of its writer
    FailureText text;
  };

  bool present() const { return writer_.load(std::memory_order_acquire) != 0; }
  /// True if this call's failure is the first. `places`: one a writer.
  bool tell(Place* places, uint32_t writer, const Failure& failure);
  std::optional<Failure> read(const Place* places) const;

 private:
  Shared<uint32_t> writer_;  ///< 1 + its number
};

}  // namespace ibcoll
