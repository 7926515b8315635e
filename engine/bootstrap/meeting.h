#pragma once
/// How the processes of a job find each other at its start; joined_job.h says in what order.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/bootstrap/control.h"
#include "engine/bootstrap/control_agent.h"
#include "engine/bootstrap/control_socket.h"
#include "engine/bootstrap/entrance.h"
#include "engine/bootstrap/joined_job.h"
#include "engine/bootstrap/root_place.h"

namespace ibcoll {

/// For a rank whose leader, not rank 0, is gone: what rank 0 says that counts, or `failure`, which
/// is what this rank has to tell, where rank 0 has left; that rank 0 has died where it has.
/// `fresh`: the leader was there a moment ago.
Failure word_of_root(const RootPlace& place, Rank me, int silence_ms, const Failure& failure,
                     bool fresh);

class Meeting {
 public:
  Meeting(ProcessManager& manager, const JoinOptions& options)
      : options_(options),
        me_(manager.rank()),
        size_(manager.size()),
        entrance_(place_.token, me_, static_cast<size_t>(size_) + kStrangers) {}
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  Status hold(ProcessManager& manager);

  /// What has come of it can't be used after all: nobody shall wait for this process, which is the
  /// culprit. Of a leader: gives what all say; of a member, which waits for no answer: `error`.
  Error give_up(const Error& error);

  /// The memory the ranks of this machine meet in.
  Result<std::unique_ptr<ControlBlock>> share_block();

  bool leader() const { return leader_; }
  Rank leader_rank() const { return leader_rank_; }
  /// A leader's, for its agent; left as they are where that can't be started.
  ControlConnections& connections();
  ControlConnection take_up() { return std::move(up_); }
  /// Of a member: a hold on the socket that others find its machine by, where there is one.
  ControlListener take_listener() { return std::move(connections_.listener); }
  const RootPlace& place() const { return place_; }

 private:
  static constexpr size_t kStrangers = 64;  ///< connections besides those of ranks

  std::string machine() const;
  Status open_job(ProcessManager& manager);
  Status find_job(ProcessManager& manager);
  Result<bool> join_leader();
  Status connect_to_root();
  void let_go();
  ResultSource source_of(Rank leader, Rank source) const;
  ControlHomes find_homes() const;
  /// Whether an address means this machine on each.
  static bool is_only_here(const std::string& address);

  Status gather_everybody();
  Status hear_leaders(const std::vector<pollfd>& watched, size_t first);
  Status gather_machine();
  Status wait_for_leader();
  /// Fails once the launcher has ended: nobody else would end this process then.
  Status launcher_lives() const;
  tl::unexpected<Error> leader_gone() const;
  Status welcome(Entrance::Arrival& arrival);
  Status enter(Rank rank, Rank leader);
  Status take_go(const Frame& frame);
  /// Joining has failed: nobody shall wait for the rest.
  Error dismiss(const Error& error);
  void see_that_all_hear(const Failure& failure);
  bool all_have_heard() const;
  void hear_answers();
  void turn_away(Entrance::Arrival& arrival, const Failure& failure);

  const JoinOptions& options_;
  const Rank me_;
  const int size_;
  RootPlace place_;
  std::optional<Failure> word_;  ///< what rank 0 has said that counts
  Rank leader_rank_ = -1;
  bool leader_ = false;
  bool has_home_ = false;          ///< a member: its leader passes on the socket of the machine
  int missing_ = 0;                ///< rank 0: ranks that have not come
  std::map<Rank, int> listening_;  ///< rank 0: at which port leaders are for other leaders
  std::vector<Rank> here_;         ///< ranks on this machine, ascending
  ControlListener local_;
  Entrance entrance_;
  ControlConnections connections_;
  ControlConnection up_;                       ///< of a member: to its leader
  std::map<Rank, ControlConnection> orphans_;  ///< rank 0: members whose leader has died
};

}  // namespace ibcoll
