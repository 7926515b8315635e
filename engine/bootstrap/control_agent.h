#pragma once
/// Carries control messages between the machines of a job: one thread in one process of each
/// machine (its leader), asleep unless something happens. Rank 0's joins them all. Only the results
/// of allgathers, which are as long as there are ranks, reach the others along a tree of leaders.

#include <poll.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <thread>
#include <vector>

#include "engine/bootstrap/control.h"
#include "engine/bootstrap/control_connection.h"
#include "engine/bootstrap/control_socket.h"
#include "engine/bootstrap/entrance.h"
#include "engine/bootstrap/process_end.h"

namespace ibcoll {

/// From whom a leader gets results.
struct ResultSource {
  Rank rank = 0;  ///< another leader, or rank 0 over the connection to it
  std::string address;
  int port = 0;
};

/// A leader's connections, and what it takes to make one again.
struct ControlConnections {
  std::vector<Rank> leader_of;                 ///< rank 0: of each rank of the job
  std::map<Rank, ControlConnection> members;   ///< the other ranks of this machine
  std::map<Rank, ControlConnection> machines;  ///< rank 0: the leaders of the other machines
  ControlConnection root;                      ///< the others: to rank 0
  /// Rank 0: where the others come back to. Of the others: where those that get results from it
  /// come to; not open where there was no port left.
  ControlListener listener;
  ResultSource source;
  std::set<Rank> direct;  ///< rank 0: leaders that it sends results to
  JobToken token{};
  std::string root_address;
  int root_port = 0;
};

struct AgentOptions {
  UniqueFd wake;  ///< an eventfd that does not block
  /// How long another machine may be silent before its ranks count as unreachable.
  int silence_ms = 30'000;
  /// The process that started this one, as a pidfd: the job ends with it. Invalid: not watched.
  UniqueFd launcher;
};

class ControlAgent {
 public:
  /// `block` must outlive it. Takes the connections over, unless it fails.
  static Result<std::unique_ptr<ControlAgent>> start(Rank me, ControlBlock& block,
                                                     ControlConnections& connections,
                                                     AgentOptions options);
  /// Says goodbye to everybody.
  ~ControlAgent();
  ControlAgent(const ControlAgent&) = delete;
  ControlAgent& operator=(const ControlAgent&) = delete;

  /// What rank 0 holds while ranks of a job of several machines tell each other `told` bytes, all
  /// together: what each machine gives until all are there, all of it in order, and its own copy of
  /// that; and its connections.
  static size_t root_bytes(int ranks, int machines, int ranks_here, size_t told);

  /// Collective over the leaders. `mine`: what those of this machine give that give anything,
  /// `bytes` each, in ascending order; `all` receives everybody's in the order of ranks. `givers`:
  /// who gives, the same for all; nothing: everybody.
  Status exchange(std::optional<std::span<const Rank>> givers, std::span<const std::byte> mine,
                  size_t bytes, std::span<std::byte> all);
  /// To other machines, by now.
  uint64_t sent_bytes() const { return sent_bytes_.load(std::memory_order_relaxed); }

 private:
  /// How long the others may take to have its goodbye.
  static constexpr double kGoodbyeSeconds = 1;
  using Clock = std::chrono::steady_clock;
  struct Member {
    pid_t pid = 0;
    UniqueFd process;
    std::optional<ProgramPlace> program;
  };
  /// A machine whose connection is broken; it may come back.
  struct Outage {
    Clock::time_point since;
    bool brief = false;  ///< who lives comes back at once
    bool told = false;   ///< its ranks count as unreachable
  };

  ControlAgent(Rank me, ControlBlock& block, ControlConnections connections, AgentOptions options);
  void run();
  void turn(std::vector<pollfd>& watched);
  int watch(std::vector<pollfd>& watched);
  void look(const std::vector<pollfd>& watched);
  void serve(ControlConnection& connection, Rank peer);
  void ended(ControlConnection& connection, Rank peer);
  void handle(Frame frame, Rank peer);
  void lost(Rank peer);
  void member_ended(Rank member);
  void left(Rank peer);
  void propose(const Failure& failure);
  void decide(const Failure& failure);
  void check_proposal();
  void take_outgoing();
  void give(ControlConnection::Payload packed);
  void say_goodbye();
  void count_sent_bytes();

  // Connections that break (control_agent_outage.cc).
  void take_callers();
  void take_caller(CalledHandshake& handshake);
  void call_root();
  void restored(Rank peer);
  void check_outages();
  void set_reachable(Rank peer, bool reachable);
  bool someone_may_miss_it() const;

  // Allgathers, and their results on the way along the tree (control_agent_results.cc).
  void gather(Rank leader, Frame frame);
  std::map<Rank, std::vector<size_t>> places_of_machines() const;
  std::optional<std::vector<std::byte>> assemble(size_t bytes);
  void publish(ControlConnection::Payload packed);
  void take_result(Frame frame);
  void hear_bye_of_root(const Frame& bye);
  void root_ended_after_bye();
  void send_results_to(Rank leader, int32_t has);
  void take_branch(CalledHandshake& handshake);
  void call_source();
  void lose_source();
  void ask_root();

  // Machines whose leader dies before it has passed on what counts (control_agent_outage.cc).
  bool all_have_heard() const;

  // Who has left (control_agent_presence.cc).
  void note_presence();
  void hear_presence(const Frame& frame, Rank peer);
  void tell_presence();

  const Rank me_;
  ControlBlock& block_;
  ControlConnections connections_;
  const AgentOptions options_;
  pid_t process_ = 0;
  std::thread thread_;

  // Of the agent's thread.
  std::map<Rank, Member> members_;
  std::map<Rank, Frame> gathered_;
  std::optional<std::vector<Rank>> givers_;  ///< rank 0: to that; nothing: everybody
  std::vector<std::pair<ControlConnection*, Rank>> watched_connections_;
  bool decided_ = false, launcher_ended_ = false, root_gone_ = false;
  std::optional<Failure> proposed_;  ///< to rank 0
  Clock::time_point proposed_at_{};
  Failure decision_;
  std::optional<Rank> left_;  ///< a leader that is gone in order
  std::map<Rank, Outage> outages_;
  std::map<Rank, ControlConnection> orphans_;  ///< rank 0: members of machines whose leader is gone
  std::set<Rank> heard_;                       ///< rank 0: leaders whose machines know the decision
  Clock::time_point answers_until_{};      ///< rank 0: how long those who have not heard may ask
  bool leaving_ = false;                   ///< it only answers them
  std::optional<Deadline> goodbye_until_;  ///< once it has been said
  Entrance entrance_;
  int32_t round_ = 0;                           ///< so many allgathers have had results here
  ControlConnection::Payload last_result_;      ///< packed
  std::map<Rank, ControlConnection> branches_;  ///< leaders that get results from this one
  ControlConnection source_;                    ///< where this one gets them, if not from rank 0
  enum class Source { kNone, kSought, kFound, kLost, kReplaced } source_state_ = Source::kNone;
  std::optional<Attempt> source_attempt_;
  Clock::time_point source_answers_until_{};
  std::optional<int32_t> root_bye_;  ///< rank 0 has left after so many, and one is on its way here
  std::optional<Attempt> attempt_;   ///< to come back to rank 0
  Clock::time_point next_attempt_{};
  Clock::time_point listen_again_{};  ///< no files are left for those who call until then
  std::map<Rank, Presence> told_;     ///< of this machine's ranks: what the others know
  std::map<Rank, Presence> to_tell_;  ///< changes on their way to the others
  std::optional<Clock::time_point> tell_at_;

  std::atomic<uint64_t> sent_bytes_ = 0;

  // Shared with the thread that exchanges.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Frame> outgoing_;
  std::optional<std::vector<Rank>> outgoing_givers_;
  ControlConnection::Payload result_;  ///< packed; null: none yet
  bool exchanging_ = false, failed_ = false, stop_ = false;
};

}  // namespace ibcoll
