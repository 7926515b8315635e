#pragma once
/// The multicasts of this rank as a master.

#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/multicast/outbox.h"
#include "engine/multicast/runs.h"
#include "engine/multicast/window.h"

namespace ibcoll {

struct MulticastOptions {
  uint64_t tag = 0;
  std::string_view algorithm;  ///< empty, "auto": chosen
  uint32_t pieces = 0;         ///< 0: chosen
  bool acknowledged = false;
  int64_t time_limit_ns = 0;  ///< 0: none
};

/// One of them. The program's until it has let go of it and it is over.
struct MulticastSend {
  uint64_t counter = 0;
  RankSet set;
  Rank root = -1;  ///< -1: none but this rank is a member
  MulticastOptions options;
  int64_t begun_ns = 0;
  std::unique_ptr<MulticastTransfer> feed;
  bool root_answered = false;
  bool counted = false;      ///< `direct` is known
  bool directly = false;     ///< members of the root's server acknowledge to this rank
  std::vector<Rank> direct;  ///< members of this server that have not acknowledged; see awaits()
  MulticastMissing named;    ///< whom answers have named
  bool acked = false;        ///< by all, or nobody waits for them
  bool self_done = true;     ///< this rank has its copy, or is no member
  bool given_up = false;     ///< the program waits for the root no longer
  bool late = false;         ///< it counts against those it waits for
  RankSet late_below;        ///< whom the root waits for, as it has said
  Completion completion;     ///< for the program: see MulticastOptions::acknowledged
  Status result;             ///< once it is done
  std::vector<Rank> missing;

  bool fed() const { return !feed || !feed->under_way(); }
};

/// Sends to roots, and follows what becomes of it.
class MulticastSends {
 public:
  MulticastSends(const MulticastServices& services, MulticastOutbox& outbox, MulticastRuns& runs,
                 uint32_t window, size_t limit);
  ~MulticastSends();

  /// Starts one. Fails where the arguments can't be right, a member has died (kPeerFailed), or no
  /// more may be under way (kBusy).
  Result<std::shared_ptr<MulticastSend>> start(RankSet set, const std::byte* data, size_t bytes,
                                               const MulticastOptions& options);
  /// Ends it for the program before its time, with an error. What is under way goes on for those
  /// who can still get it; the data are no longer read when it is done.
  void give_up(MulticastSend& send, ErrorCode why, std::string_view text);

  Status acknowledge(const MulticastAssembly::Whole& message);
  Status note_late(const MulticastAssembly::Whole& message);
  void own_is_done(MulticastSend& send, const Error* error);
  /// True if something moved.
  bool advance();
  void look_after(int64_t now);
  void lose(Rank rank);

  bool idle() const { return sends_.empty(); }
  /// Whether data are under way.
  bool busy() const { return !feeding_.empty(); }
  uint64_t sent() const { return sent_; }

 private:
  Status check(const RankSet& set, size_t bytes, const MulticastOptions& options) const;
  void finish(MulticastSend& send);
  void count_direct(MulticastSend& send) const;
  RankSet unanswered(const MulticastSend& send) const;
  RankSet awaited(const MulticastSend& send) const;
  void note_late(MulticastSend& send);
  void name_missing(MulticastSend& send, const RankSet& ranks, ErrorCode code);
  void look_whether_over(MulticastSend& send);
  void over(MulticastSend& send);
  void settle(MulticastSend& send);
  Rank oldest_root() const;
  std::string name(const MulticastSend& send) const;

  const MulticastServices& services_;
  MulticastOutbox& outbox_;
  MulticastRuns& runs_;
  MulticastWindow window_;
  const size_t limit_;                                                  ///< bytes of a message
  std::unordered_map<uint64_t, std::shared_ptr<MulticastSend>> sends_;  ///< by counter: not over
  std::vector<std::shared_ptr<MulticastSend>> feeding_;
  uint64_t sent_ = 0;
};

}  // namespace ibcoll
