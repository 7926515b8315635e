#pragma once
/// Groups that end before their members have freed them, while the job goes on.

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/bootstrap/bootstrap.h"
#include "engine/execute/deaths.h"
#include "engine/execute/inquiry.h"
#include "engine/execute/job_end.h"
#include "engine/execute/mail.h"
#include "engine/execute/posted_call.h"
#include "engine/transport/transport.h"

namespace ibcoll {

/// Ends groups on all their ranks, and says when what their calls were given may be given back.
///
/// Who ends a group tells its members; each of them stops the group's calls and tells the others of
/// its server, so that all messages of the group there are dropped. Memory of a call that was under
/// way is given back when
/// - what was offered to local peers is taken back, for which nobody has to do anything,
/// - puts of its own have left it,
/// - every rank of another server that might still put into it has confirmed that it has stopped: a
///   mail of a peer comes after all its puts. Ranks tell those that they might have put to when
///   they stop, and are asked by those that have not heard.
/// Nothing is deregistered under a peer's put: that would break a connection that others use.
class GroupEnds {
 public:
  /// `network` may be null on a single server; `made`: this rank's groups, for those who compare
  /// them, null if there are none. All must outlive it.
  GroupEnds(Bootstrap& bootstrap, LocalTransport& local, NetworkTransport* network, JobEnd& end,
            const Deaths& deaths, MadeGroups* made);
  ~GroupEnds();

  /// A group is there from now on, and is found by what peers say about it.
  void enter(GroupState& group);
  void leave(const GroupState& group);

  /// A group that is there; null: there is none of that key.
  GroupState* find(uint64_t key) const {
    const auto found = groups_.find(key);
    return found != groups_.end() ? found->second : nullptr;
  }

  /// The group is to be ended, which the next progress does; without effect if it is already.
  /// `patience_ns`: how long peers have to confirm it before the job is over; 0: any time.
  void request(GroupState& group, const Failure& why, int64_t patience_ns = 0);
  /// A rank of the job has died, which ends its groups here but for those by arrival; everybody
  /// finds that out.
  void lose(const Failure& death);
  /// A mail of kind kEnd; `local`: of a rank of this server.
  void take(std::span<const std::byte> mail, bool local);
  /// Whether it is known that a group is over, also if it has been freed; as far as the latest
  /// kRemembered are concerned.
  bool is_over(uint64_t group) const { return !over_.empty() && over_.contains(group); }
  /// Whether no group has ended early of which is_over() does not say it.
  bool remembers_all() const {
    return deaths_.known().empty() && over_in_order_.size() < kRemembered;
  }
  /// Tells a rank of the job that has not heard of it that a group is over.
  void tell(uint64_t group, Rank rank, bool local);

  /// The job is over: takes back what calls of groups that were ending have offered to local peers.
  void withdraw();

  /// Whether due() or advance() have anything to do.
  bool busy() const { return busy_; }

  /// A rank of the job that a group which is over waits for here; -1: for no one.
  Rank awaited(uint64_t group) const;

  // For who carries calls out.
  /// A group whose calls are to be stopped; null: there is none.
  GroupState* due() const { return due_.empty() ? nullptr : due_.front().group; }
  /// That group is over from now on; `call`: the first one of it that was under way, if any was.
  void begin(const PostedCall* call);
  /// A call of the group begun last which was under way: kept until its memory can be given back.
  void hold(PostedCall& call);
  /// Goes on with what is under way, after all that was due has begun; true if anything moved.
  /// Calls release(call) for those that are held no longer.
  template <class Release>
  bool advance(Release&& release) {
    const bool moved = advance_all();
    while (!quiet_.empty()) {
      PostedCall* const call = quiet_.back();
      quiet_.pop_back();
      release(*call);
    }
    return moved;
  }

  /// Sets completion->done as soon as nothing is under way, unless it is null.
  void when_settled(Completion* completion) {
    settled_ = completion;
    if (settled_ != nullptr) settled_->done = !busy_;
  }

  static constexpr size_t kRemembered = 4096;
  /// After a deadline peers have as much time again to confirm the end, and at least this.
  static constexpr int64_t kLeastPatienceNs = 2'000'000'000;

 private:
  /// A mail that is to be sent.
  struct Notice {
    Rank to = -1;  ///< in the job
    bool local = false, asks = false, answers = false;
  };
  struct Due {
    GroupState* group;
    Failure why;
    int64_t patience_ns;
    bool origin;                  ///< this rank ends it, and tells all
    bool late;                    ///< it was over before this rank made it
    std::vector<Rank> heard;      ///< local members that have stopped
    std::vector<Rank> confirmed;  ///< ranks of other servers that have
  };
  /// A rank that may still put into memory of the calls.
  struct Writer {
    Rank rank;                    ///< in the job
    int64_t absent_since_ns = 0;  ///< 0: it is there
  };
  /// A group whose end is under way on this rank. It may outlive the group.
  struct Ending {
    uint64_t key = 0;
    Failure why;
    std::vector<PostedCall*> held;
    std::vector<PutTicket> sources;  ///< of the calls that are held: what peers may be reading
    std::vector<Writer> unconfirmed;
    std::vector<Rank> confirmed;  ///< before this rank stopped
    std::vector<Rank> unheard;    ///< local members that may still send messages of the group
    std::vector<Notice> notices;  ///< not sent yet
    size_t next_notice = 0;       ///< to be tried
    int64_t patience_ns = 0, since_ns = 0;
  };

  void add_due(GroupState& group, const Failure& why, int64_t patience_ns, bool origin);
  static Notice& notice_to(Ending& ending, Rank rank);
  void remember(uint64_t key, const Failure& why);
  void hear(uint64_t key, Rank sender, bool local, bool answers);
  bool send(uint64_t key, const Failure& why, const Notice& notice);
  bool advance_all();
  bool advance(Ending& ending);
  bool send_notices(Ending& ending);
  bool has_stopped(Writer& writer, uint64_t key) const;
  bool is_quiet(Ending& ending);
  static Rank awaited(const Ending& ending);
  void give_up_if_late(const Ending& ending);
  /// A rank that leaves does not end groups any more, but for those by arrival.
  bool is_absent(Rank rank, uint64_t key) const {
    if (is_by_arrival(key) && bootstrap_.is_leaving(rank)) return deaths_.include(rank);
    return deaths_.include(rank) || bootstrap_.absence(rank).has_value();
  }

  Bootstrap& bootstrap_;
  LocalTransport& local_;
  NetworkTransport* network_;
  JobEnd& end_;
  const Deaths& deaths_;
  MadeGroups* const made_;
  std::unordered_map<uint64_t, GroupState*> groups_;  ///< that are there, by key
  std::unordered_map<uint64_t, Failure> over_;        ///< by key; some have not been made here
  std::deque<uint64_t> over_in_order_;
  std::deque<Due> due_;
  std::vector<std::unique_ptr<Ending>> endings_;
  struct Reply {
    uint64_t key;
    Notice notice;
  };
  std::vector<Reply> replies_;
  std::vector<PostedCall*> quiet_;
  Completion* settled_ = nullptr;
  bool busy_ = false;
};

}  // namespace ibcoll
