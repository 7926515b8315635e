#pragma once
/// Carries control messages between the machines of a job: one thread in one process of each
/// machine (its leader), asleep unless something happens. The *root* joins them all: rank 0, or
/// after its end whichever rank of its machine leads that. Only the results of allgathers, which
/// are as long as there are ranks, reach the others along a tree of leaders.

#include <poll.h>

#include <atomic>
#include <condition_variable>
#include <deque>
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
  std::vector<Rank> leader_of;                 ///< root: of each rank of the job; -1: not known
  std::map<Rank, ControlConnection> members;   ///< the other ranks of this machine
  std::map<Rank, ControlConnection> machines;  ///< root: the leaders of the other machines
  ControlConnection root;                      ///< the others: to the root
  /// The home of this machine, which all ranks here hold. The root: where the others come back to.
  /// Of the others: where those that get results from it come to, and seekers and probes of the
  /// next root. Not open where there was no port left.
  ControlListener listener;
  ResultSource source;
  std::set<Rank> direct;         ///< root: leaders that it sends results to
  std::vector<std::byte> homes;  ///< root: packed ControlHomes
  std::map<Rank, int> ports;     ///< root: of the homes of the machines, by their leaders
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
  /// The machine has had another leader, which is gone: there are no connections but the listener,
  /// and the other ranks here are watched as processes.
  bool succeeds = false;
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

  /// A machine without a leader.
  struct Headless {
    Clock::time_point since;
    std::vector<Rank> ranks{};
    bool left = false;       ///< that leader, in order
    bool may_live = false;   ///< it may come back; else it has died, unless it has left
    bool expected = false;   ///< it may have one; by its first rank
    bool told = false;       ///< its ranks count as unreachable
    UniqueFd probe{};        ///< to its home
    bool connected = false;  ///< that is
    Clock::time_point next_probe{};
    Clock::time_point alive{};  ///< somebody was at home then, who may be in no call
  };

  ControlAgent(Rank me, ControlBlock& block, ControlConnections connections, AgentOptions options);
  Status succeed();
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
  void decide(const Failure& what);
  void check_proposal();
  void take_outgoing();
  void give(ControlConnection::Payload packed);
  void say_goodbye();
  void hand_over();
  bool handed_over() const { return goodbye_until_ && has_outlived(); }
  void count_sent_bytes();

  // Connections that break (control_agent_outage.cc).
  void take_callers();
  void take_caller(CalledHandshake& handshake);
  void take_comer(CalledHandshake& handshake);
  void call_root();
  void restored(Rank peer);
  void end_outage(Rank peer);
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

  // Deaths that the job survives (control_agent_deaths.cc), and what its ranks decide then.
  void announce(const Failure& end);
  void hear_end(const Failure& end);
  void spread(const Failure& end);
  void end_with_too_many(const Failure& last);
  void fail_exchange();
  void pass_questions();
  void answer(const Verdict& question, Rank asker);
  void hear_verdict(const Verdict& verdict);
  void forget(uint64_t question);
  void send_all(FrameKind kind, const Verdict& verdict);

  // Leaders that go while others of their machine go on (control_agent_succession.cc).
  bool outlives() const { return block_.survives(); }
  bool has_outlived() const { return outlives() && block_.ends_noted() > 0; }
  Status adopt_members();
  void seek_root();
  ControlHome home_of_root() const;
  void find_root();
  void call_home();
  void bear_no_way(const std::string& why);
  void seek_next_root();
  void become_root();
  void lead_job();
  void expect_machines();
  bool has_learnt() const;
  void introduce();
  void taken_in();
  void drop_comers();
  void bury(const std::vector<Rank>& ranks, bool died);
  Headless& behead(Rank leader);
  void drop_machines();
  void take_over(const Frame& frame, Rank heir);
  void inform(ControlConnection& machine);
  void check_headless();
  bool nobody_is_at_home(Rank leader);
  bool goes_on(Rank rank) const;
  std::vector<Rank> others_alive() const;
  bool expects_machines() const;
  bool has_strays() const;
  bool goes_on_here() const;
  bool is_still_needed();
  bool left_untold() const;
  void give_up_lead();

  // Who has left (control_agent_presence.cc).
  void note_presence();
  void tell_all_presences(ControlConnection& machine) const;
  void hear_presence(const Frame& frame, Rank peer);
  void tell_presence();

  const Rank me_;
  ControlBlock& block_;
  std::atomic<bool> is_root_;
  Rank root_rank_ = 0;  ///< of the others: whose connections_.root leads to
  ControlConnections connections_;
  const AgentOptions options_;
  pid_t process_ = 0;
  std::thread thread_;

  // Of the agent's thread.
  std::map<Rank, Member> members_;
  std::set<Rank> adopted_;  ///< of them those that it has no connection to
  std::map<Rank, Frame> gathered_;
  std::optional<std::vector<Rank>> givers_;  ///< rank 0: to that; nothing: everybody
  std::vector<std::pair<ControlConnection*, Rank>> watched_connections_;
  bool decided_ = false, launcher_ended_ = false, root_gone_ = false;
  std::optional<Failure> proposed_;  ///< to rank 0
  Clock::time_point proposed_at_{};
  Failure decision_;
  std::optional<Rank> left_;  ///< a leader that is gone in order
  std::map<Rank, Outage> outages_;
  std::map<Rank, ControlConnection> orphans_;  ///< root: members of machines whose leader is gone
  std::set<Rank> heard_;                       ///< root: leaders whose machines know the decision
  Clock::time_point answers_until_{};          ///< root: how long those who have not heard may ask
  bool leaving_ = false;                       ///< it only answers them
  std::optional<Deadline> goodbye_until_;      ///< once it has been said
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

  bool told_survival_ = false;                     ///< of this machine
  std::set<Rank> survivors_;                       ///< root: leaders that have told it of theirs
  std::deque<uint64_t> forgotten_;                 ///< root: the latest questions that are over
  std::optional<Clock::time_point> sought_since_;  ///< the others: there is no root that is known
  size_t home_ = 0;  ///< of ControlHomes: where the root is, or is looked for
  /// No connection to that has been made since then.
  std::optional<Clock::time_point> no_way_since_;
  std::optional<Rank> lost_root_;  ///< the last root, where it has not left in order
  Clock::time_point lost_root_at_{};
  bool heard_of_goodbye_ = false;  ///< the others: the root has told all that this rank has left
  std::optional<Clock::time_point> leaves_since_;
  bool is_taken_in_ = true;  ///< by the root
  /// Processes that may be new leaders, or take this one for the next root.
  std::map<Rank, ControlConnection> comers_;
  std::map<Rank, Clock::time_point> came_;
  std::map<Rank, Headless> headless_;  ///< root: by the leaders that are gone
  struct Home {
    std::string address;
    int port = 0;
  };
  std::map<Rank, Home> homes_;  ///< root: of machines, by their leaders
  /// Root: until then it may not know yet what its predecessor has said, from machines that it
  /// expects, and from those of which it does not know where they are.
  Clock::time_point learns_until_{}, learns_from_strays_until_{};
  std::optional<Clock::time_point> strays_since_;  ///< root: has expected the latter since then
  std::vector<std::pair<Verdict, Rank>> asked_meanwhile_;

  uint64_t sent_before_ = 0;  ///< bytes, through connections that are no more
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
