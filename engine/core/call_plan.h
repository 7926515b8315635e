#pragma once
/// What a call is to run, and how the caller wants it to be made.

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "engine/schedule/program.h"

namespace ibcoll {

/// How a call is to be made; the same on all ranks of the group. Empty and zero: the engine
/// chooses.
struct CallOptions {
  std::string_view algorithm;
  std::optional<Pacing> pacing;
  uint32_t pieces = 0;
  bool ordered = false;                     ///< reduce: see AlgorithmOptions::ordered
  std::shared_ptr<const Graph> graph = {};  ///< where the collective has one (has_graph())
};

/// What a call runs: an algorithm's program with everything chosen.
struct CallPlan {
  std::shared_ptr<const RankProgram> program;
  uint32_t pieces = 1;
  bool relays = false;  ///< blocks pass through other ranks
  AlgorithmOptions options;
  /// Blocks between servers up to this size travel eagerly (Binding::eager); -1: none do.
  int64_t eager_block_bytes = -1;

  /// Options are part of the program.
  bool is_same(const CallPlan& other) const {
    return program == other.program && pieces == other.pieces &&
           eager_block_bytes == other.eager_block_bytes;
  }
};

}  // namespace ibcoll
