#pragma once
/// Carries control messages between the machines of a job: one thread in one process of each
/// machine (its leader), asleep unless something happens. Rank 0's joins them all.

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "engine/bootstrap/control.h"
#include "engine/bootstrap/control_link.h"

namespace ibcoll {

/// A leader's connections, and who is where.
struct ControlLinks {
  std::vector<Rank> leader_of;           ///< of each rank of the job
  std::map<Rank, ControlLink> members;   ///< the other ranks of this machine
  std::map<Rank, ControlLink> machines;  ///< rank 0: the leaders of the other machines
  ControlLink root;                      ///< the others: to rank 0
};

class ControlAgent {
 public:
  /// `block` must outlive it.
  static Result<std::unique_ptr<ControlAgent>> start(Rank me, ControlBlock& block,
                                                     ControlLinks links);
  /// Says goodbye to everybody.
  ~ControlAgent();
  ControlAgent(const ControlAgent&) = delete;
  ControlAgent& operator=(const ControlAgent&) = delete;

  /// Collective over the leaders. `mine`: what the ranks of this machine give, `bytes` each, in
  /// ascending order; `all` receives everybody's in the order of ranks.
  Status exchange(std::span<const std::byte> mine, size_t bytes, std::span<std::byte> all);

 private:
  ControlAgent(Rank me, ControlBlock& block, ControlLinks links)
      : me_(me), block_(block), links_(std::move(links)) {}
  void run();
  void serve(ControlLink& link, Rank peer);
  void handle(Frame frame, Rank peer);
  void lost(Rank peer);
  void gather(Rank leader, Frame frame);
  void propose(const Failure& failure);
  void decide(const Failure& failure);
  void take_outgoing();
  void give(std::vector<std::byte> all);
  void say_goodbye();

  const Rank me_;
  ControlBlock& block_;
  ControlLinks links_;
  UniqueFd wake_;
  pid_t process_ = 0;
  std::thread thread_;

  // Of the agent's thread.
  std::map<Rank, Frame> gathered_;
  bool decided_ = false, proposed_ = false;
  std::optional<Rank> left_;  ///< a leader that is gone in order

  // Shared with the thread that exchanges.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Frame> outgoing_;
  std::optional<std::vector<std::byte>> result_;
  bool exchanging_ = false, failed_ = false, stop_ = false;
};

}  // namespace ibcoll
