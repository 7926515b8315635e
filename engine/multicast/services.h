#pragma once
/// What multicasts are carried out with.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/algorithms/registry.h"
#include "engine/execute/executor.h"
#include "engine/schedule/shape.h"
#include "engine/transport/transport.h"

namespace ibcoll {

struct MulticastServices {
  Executor& executor;
  LocalTransport& local;
  NetworkTransport* network;  ///< null on a single server
  const Shape& job;
  Rank me;
  /// The program of a rank; kept where that pays.
  std::function<ProgramPtr(const Algorithm&, const Shape&, Rank, const AlgorithmOptions&)> program;
  /// Masters say what the hash of their data is, and members compare (IBCOLL_CHECK).
  bool checks = false;
};

}  // namespace ibcoll
