#pragma once
/// What all programs that carry out a plan of transfers have in common: who does what when, and
/// whom tokens hold back.

#include <cstdint>
#include <map>
#include <vector>

#include "engine/algorithms/registry.h"
#include "engine/algorithms/transfer_order.h"
#include "engine/schedule/builder.h"

namespace ibcoll {

/// Writes the program of one rank for algorithm contention_free. What a transfer consists of, and
/// what goes on inside servers, is for those that derive from it.
class CarryTransfers {
 public:
  virtual ~CarryTransfers() = default;
  CarryTransfers(const CarryTransfers&) = delete;
  CarryTransfers& operator=(const CarryTransfers&) = delete;

  /// Once.
  ProgramPtr build();

 protected:
  static constexpr uint32_t kNone = TransferPlan::kNone;

  CarryTransfers(Collective collective, const Shape& shape, Rank me,
                 const AlgorithmOptions& options, const TransferPlan& plan);

  /// What goes through shared memory before anything goes out or beside it. In one order on all
  /// ranks of the server.
  virtual void collect() = 0;
  /// This rank's side of a transfer, as its receiver and as its sender.
  virtual void take(uint32_t transfer) = 0;
  virtual void pass(uint32_t transfer) = 0;
  /// Whether a transfer's receiver and this rank, of its server, hand out what it brings.
  virtual bool hands_out(uint32_t transfer) const = 0;
  virtual void hand_out(uint32_t transfer) = 0;

  int size_of(int server) const { return shape_.server_size(server); }

  ProgramBuilder program_;
  const Collective collective_;
  const Shape& shape_;
  const Rank me_, root_;
  const int mine_;  ///< this rank's server
  const TransferPlan& plan_;
  const TransferOrder order_;

 private:
  enum class Act : uint8_t { kTake, kHandOut, kPass };
  struct Event;
  void carry_out(const Event& event);
  void announce(uint32_t transfer);
  void await_turn(uint32_t transfer);

  std::map<uint32_t, std::vector<uint32_t>> announced_, awaited_;  ///< by transfer: signals
  std::map<uint32_t, bool> follows_arrival_;
  std::map<Rank, uint32_t> waited_;
};

/// Of a reduction: the agent of a server combines in the order in which it expects, its server's
/// ranks first, then what other servers send.
ProgramPtr carry_sums(const Shape& shape, Rank me, const AlgorithmOptions& options,
                      const TransferPlan& plan);

/// Of a bcast whose block is cut: each part along its own tree of servers, and all of them at once,
/// piece by piece. Nothing holds a transfer back but what it passes on: links, and ports that are
/// wide enough, carry all trees at once (disjoint_trees.h). At narrower ports transfers queue.
ProgramPtr carry_parts(const Shape& shape, Rank me, const AlgorithmOptions& options,
                       const TransferPlan& plan);

}  // namespace ibcoll
