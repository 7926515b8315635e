#pragma once
/// The memory through which the ranks of one launch meet: processes share it because it is mapped
/// before they are forked, threads share it anyway.

#include <sys/eventfd.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/base/unique_fd.h"
#include "engine/bootstrap/bootstrap.h"
#include "engine/bootstrap/control_home.h"
#include "engine/bootstrap/first_failure.h"
#include "engine/bootstrap/machine.h"
#include "engine/bootstrap/verdicts.h"
#include "engine/sharing/shared_access.h"

namespace ibcoll {

/// One rank's view of the ranks that share the memory.
class LocalBootstrap : public Bootstrap {
 public:
  /// Collective: everybody gets the root's `bytes` bytes.
  virtual Status broadcast(Rank root, void* data, size_t bytes) = 0;
  /// From now on collective calls fail once the end of a rank has been noted.
  virtual void fail_after_deaths() = 0;
};

/// Whether others may wait for a rank.
enum class Presence : uint8_t {
  kHere,
  kLeaving,      ///< it has ended its calls and serves the others until they have
  kGone,         ///< it ended in order, or serves nobody any more
  kUnreachable,  ///< the control connection to its machine is down
};

/// Owns the shared memory and gives each rank its Bootstrap.
class ControlBlock {
 public:
  enum class Sharing { kProcesses, kThreads };
  static Result<std::unique_ptr<ControlBlock>> create(int ranks, Sharing sharing);

  /// For the processes of one machine that somebody else started: memory that can be passed on by
  /// descriptor. `job_ranks`: their ranks in the job of `job_size`, in ascending order; here they
  /// are numbered from 0. Where the job has other machines, too, reports are proposals until
  /// decide() says what counts.
  static Result<std::unique_ptr<ControlBlock>> create_passable(std::vector<Rank> job_ranks,
                                                               int job_size);
  /// The same memory in another process. Both descriptors are the other one's, passed on.
  static Result<std::unique_ptr<ControlBlock>> attach(std::vector<Rank> job_ranks, int job_size,
                                                      UniqueFd memory, UniqueFd reported);
  ~ControlBlock();
  ControlBlock(const ControlBlock&) = delete;
  ControlBlock& operator=(const ControlBlock&) = delete;

  /// The memory through which `ranks` ranks of a machine meet, in a job of `job_size`.
  static size_t bytes_for(int ranks, int job_size);
  /// What is touched of it, where ranks give at most `longest` bytes to an exchange and none fails.
  static size_t touched_bytes(int ranks, int job_size, size_t longest);

  std::unique_ptr<LocalBootstrap> bootstrap(Rank rank);
  int ranks() const { return ranks_; }
  int job_size() const { return job_size_; }

  /// Reports a failure; the first counts. `writer`: a rank, or ranks() for the launcher.
  void report(const Failure& failure, int writer);
  /// What was reported first, where reports are relayed.
  std::optional<Failure> proposal() const;
  /// See Bootstrap.
  void end_after_death(const Failure& end, int writer);
  /// Makes this the job's failure here, unless there is one.
  void decide(const Failure& failure, int writer);
  /// Tells how a rank ended that did not end in order, beside the job's failure, which may be
  /// another rank's: before anything else is said of its end, and by one thread alone. True if
  /// that is news. Of ranks of other machines there is room for kMostElsewhere.
  bool note_end(const Failure& end);
  static constexpr size_t kMostElsewhere = 64;
  /// What was noted of a rank of the job.
  std::optional<Failure> end_of(Rank job_rank) const;
  uint32_t ends_noted() const;
  /// Of ranks of other machines, in the order in which they were noted.
  std::vector<Failure> ends_elsewhere() const;
  /// What was noted first, of any rank.
  std::optional<Failure> first_end() const;

  // Jobs of several machines that survive deaths.

  /// Whether the ranks here have asked for that, and whether all ranks have by now.
  void ask_to_survive();
  bool asked_to_survive() const;
  void set_survives();
  bool survives() const;
  /// The rank of the job that speaks for this machine; -1: none does.
  Rank leader() const;
  /// True where the lead was `before`'s until now.
  bool pass_lead(Rank before, Rank after);
  /// Where this machine has found rank 0, and where the root of the job is looked for after that:
  /// for whoever leads here next.
  void set_root_address(const std::string& address);
  std::string root_address() const;
  static constexpr size_t kMostHomeBytes = 16384;  ///< of some hundred machines
  void set_homes(std::span<const std::byte> packed);
  ControlHomes homes() const;
  /// Of each rank here, for whoever watches them once the first leader is gone.
  void set_process(Rank rank, const WatchedProcess& process);
  WatchedProcess process(Rank rank) const;

  /// What the ranks here ask, and know of what the job's ranks have decided.
  Verdicts& verdicts() { return verdicts_; }
  const Verdicts& verdicts() const { return verdicts_; }
  Verdicts::Given verdicts_given() const {
    return relayed_ ? Verdicts::Given::kElsewhere : Verdicts::Given::kHere;
  }
  /// Has whoever waits for failure_fd() look.
  void call_leader() { eventfd_write(failure_fd(), 1); }
  /// Whoever waits for news of this memory looks again.
  void wake_all();
  /// Tells that a rank has ended: whoever still waits for it reports that. To be called once its
  /// thread or process is gone or waits for nobody any more, and after what is known about its end
  /// has been reported or decided, for waiters know no more than that it has gone.
  void departed(Rank rank);
  std::optional<Failure> failure() const;
  /// By rank in the job. Whose ranks are elsewhere is told by whoever relays.
  void set_presence(Rank job_rank, Presence presence);
  Presence presence(Rank job_rank) const;
  /// Readable once a failure has been reported or, where the job has other machines, the presence
  /// of a rank of this one has changed.
  int failure_fd() const { return failure_fd_.get(); }
  int memory_fd() const { return memory_.get(); }
  /// Whether all ranks have been given the memory, or are about to find it in their mail.
  void set_shared();
  bool shared() const;
  /// Called now and then, at least once a second, while this process waits for others.
  void set_watch(std::function<void()> watch) { watch_ = std::move(watch); }
  const std::vector<Rank>& job_ranks() const { return job_ranks_; }

 private:
  friend class ControlBootstrap;
  struct End;
  struct Header;
  struct Layout;
  using Place = FirstFailure::Place;
  ControlBlock() = default;
  Status map(int flags);
  Rank job_rank(Rank rank) const { return job_ranks_.empty() ? rank : job_ranks_[rank]; }
  uint64_t* calls(uint32_t bank);
  /// What a giver, by its place among them, gives to a round in which each gives `piece` bytes.
  std::byte* data(uint32_t bank, size_t giver, size_t piece);
  size_t writers() const { return static_cast<size_t>(ranks_) + 1; }
  bool is_here(Rank job_rank) const;
  End* end_place(Rank job_rank) const;

  int ranks_ = 0, job_size_ = 0;
  Sharing sharing_ = Sharing::kProcesses;
  bool relayed_ = false;
  std::vector<Rank> job_ranks_;  ///< empty: the same numbers
  std::function<void()> watch_;
  UniqueFd failure_fd_, memory_;
  size_t bytes_ = 0;
  Header* header_ = nullptr;
  // Behind the banks:
  Place* failures_ = nullptr;            ///< of each writer, one of the job's failure
  Place* proposals_ = nullptr;           ///< and one of what it proposes
  Place* after_death_ = nullptr;         ///< and one of what it ends a job with after a death
  End* ends_ = nullptr;                  ///< of each rank here
  End* elsewhere_ = nullptr;             ///< of ranks of other machines, in the order of news
  WatchedProcess* processes_ = nullptr;  ///< of each rank here, where there are other machines
  std::byte* homes_ = nullptr;           ///< packed, in such jobs
  Verdicts verdicts_;
  Shared<Presence>* presence_ = nullptr;  ///< of each rank of the job
};

}  // namespace ibcoll
