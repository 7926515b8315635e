#pragma once
/// Which ranks carry the transfers of a plan out, and in which order each does what.

#include <vector>

#include "engine/schedule/program.h"
#include "engine/schedule/transfer_plan.h"

namespace ibcoll {

/// All transfers of a server are carried out by one of its ranks, its agent: the first one, or the
/// root. So they leave and come in one order whatever the ranks of the server are up to. Times are
/// the plan's, put off where a token comes later than planned, so that whatever comes after
/// something else has a later time: ranks that do things in the order of times can't wait for each
/// other in a cycle.
class TransferOrder {
 public:
  TransferOrder(Collective collective, const Shape& shape, Rank root, const TransferPlan& plan);

  struct Transfer {
    Rank sender = 0, receiver = 0;
    int64_t start = 0, end = 0;
    /// In pieces: it is passed on, or passes something on, while it arrives.
    bool streamed = false;
    /// When it stands in its receiver's order.
    int64_t arrival() const { return streamed ? start : end; }
  };
  size_t size() const { return transfers_.size(); }
  const Transfer& operator[](size_t i) const { return transfers_[i]; }

  /// A signal of one agent to another, as TransferPlan::Token. Signals of a pair are counted, not
  /// named: `number` says the how-many-th it is, from 1; who waits for it waits for all before.
  struct Signal {
    uint32_t after, before;
    uint32_t left;
    uint32_t number;
  };
  /// Of those that cross from rank to rank, in the order in which each receiver sends them.
  const std::vector<Signal>& signals() const { return signals_; }
  /// Transfers that follow another into the same agent, which sends them: no signal is needed.
  const std::vector<TransferPlan::Token>& turns() const { return turns_; }

 private:
  void choose_agents(const TransferPlan& plan);
  void set_times(const TransferPlan& plan);
  void number_signals(const TransferPlan& plan);

  const Collective collective_;
  const Shape& shape_;
  const Rank root_;
  std::vector<Transfer> transfers_;
  std::vector<Signal> signals_;
  std::vector<TransferPlan::Token> turns_;
};

}  // namespace ibcoll
