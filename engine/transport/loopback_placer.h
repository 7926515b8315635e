#pragma once
/// Puts bytes into a peer's memory as a network adapter would: without the peer's doing.

#include <chrono>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/bootstrap/machine_watch.h"
#include "engine/sharing/shared_access.h"
#include "engine/transport/loopback_wire.h"

namespace ibcoll::loopback {

/// What has gone wrong in a transport; set by whichever thread meets it.
class Failures {
 public:
  /// The first one counts.
  void set(Failure failure);
  std::optional<Failure> get() const;
  bool present() const { return present_.load(std::memory_order_acquire); }

  /// What was put to a rank, the culprit, could not be placed. Where it may have died
  /// (kPeerFailed) that counts only if nobody says so in kVerdictNs.
  void note_of_peer(Failure failure);
  bool has_suspects() const { return has_suspects_.load(std::memory_order_acquire); }
  bool suspects(Rank rank) const;
  /// The rank has died.
  void forget(Rank rank);
  /// Of a rank that has been suspected for long, or has left the job.
  std::optional<Failure> due(const Bootstrap& bootstrap) const;

 private:
  static constexpr int64_t kVerdictNs = 5'000'000'000;
  struct Suspect {
    Failure failure;
    int64_t since_ns;
  };
  mutable std::mutex mutex_;
  Shared<bool> present_{false}, has_suspects_{false};
  Failure failure_;
  std::vector<Suspect> suspects_;
};

class Placer {
 public:
  /// Collective. Finds out whether the kernel lets this process write into its peers. `processes`:
  /// of all ranks of the job, in their order.
  static Result<Placer> create(Bootstrap& bootstrap, std::span<const WatchedProcess> processes);

  /// What it keeps for each rank of the job.
  static constexpr size_t bytes_each_rank() {
    return sizeof(pid_t) + sizeof(std::chrono::steady_clock::time_point) +
           MachineWatch::bytes_each_peer();
  }

  /// Whether place() works.
  bool works() const { return works_; }
  const std::string& why_not() const { return why_not_; }

  /// Writes `bytes` bytes of the segments, from byte `begin` on, into `peer`; the reason if that
  /// fails. One thread at a time.
  std::optional<Error> place(Rank peer, uint64_t address, Segments segments, size_t begin,
                             size_t bytes);

 private:
  bool may_have_ended(Rank peer);
  std::optional<Failure> word_of(Rank peer) const;

  bool threads_ = false;
  bool works_ = false;
  std::string why_not_;
  Rank me_ = 0;
  std::vector<pid_t> processes_;  ///< of all ranks
  const Bootstrap* bootstrap_ = nullptr;
  MachineWatch watch_;
  std::vector<std::chrono::steady_clock::time_point> seen_alive_;
};

/// What a bad remote address is reported as.
Failure remote_access_error(Rank me, Rank peer, RemoteAddress target, size_t bytes,
                            const Error& why);

}  // namespace ibcoll::loopback
