#pragma once
/// Ranks that mean different things by a call, or call different things: how they find out.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/bootstrap/bootstrap.h"
#include "engine/execute/call_meaning.h"
#include "engine/execute/calls_under_way.h"
#include "engine/execute/group_ends.h"
#include "engine/execute/inquiry.h"
#include "engine/execute/job_end.h"
#include "engine/transport/transport.h"

namespace ibcoll {

/// Who sent a mail of kind kInquiry: a rank of the job.
Rank inquirer(std::span<const std::byte> mail);

/// Compares what this rank means by its calls with what others do: by notes on the server's board,
/// by inquiries between servers. Who finds a difference ends the job with an error that names both.
class Disagreements {
 public:
  /// `network` may be null on a single server; `groups`: this rank's, null if there are none to
  /// compare. All must outlive it.
  Disagreements(Bootstrap& bootstrap, LocalTransport& local, NetworkTransport* network,
                const CallsUnderWay& calls, const GroupEnds& ends, JobEnd& end,
                const CallBoard::Place& board, const MadeGroups* groups);
  ~Disagreements();

  // Calls by arrival are compared with nothing: what does not fit them is an internal error.
  /// Notes a call that is posted, and compares it with what others have said of it.
  void note(const PostedCall& call);
  /// The same of one that is to be carried out at once, before it is posted if it has to be. False:
  /// it must be posted first, since others have said something.
  bool note_short(const MessageKey& key, const CallMeaning* told) {
    if (!inquiries_.empty()) [[unlikely]]
      return false;
    write_note(key, told);
    look_at_strays();
    return true;
  }
  /// `peer`, a rank of the job, has sent what does not fit the call; `text` says how.
  void mismatch(const PostedCall& call, Rank peer, const std::string& text);
  /// The mail of a rank of the job, on another server, does not fit the call: asks what it means.
  void dispute(const PostedCall& call, Rank peer);
  /// The same of a message of that rank for a call that has ended here without it, whether its
  /// group is still there or not: of a root to one that takes itself for the root, too. False: no
  /// call is known that it does not fit.
  bool dispute_ended(const MailHeader& header, Rank peer);
  /// Whether a peer has still to say what it means.
  bool has_dispute() const { return dispute_.has_value(); }
  /// To be called now and then: ends the job where the peer in a dispute has not said what it
  /// means.
  void settle();
  /// Asks the rank that the call waits for, once: ranks that disagree may wait for each other
  /// without ever having sent what would show it. Each may take the other for the root, or have
  /// made another group.
  void ask(PostedCall& call);
  /// Of a call that is waited for for long, to be called again and again: tells those that wait for
  /// calls this rank has not made that it will not make them before its own wait has ended, and who
  /// waits for whom from there on. Who finds that the first one of such a chain waits for it, too,
  /// ends the job.
  void tell_the_stuck(const PostedCall& waited_for);
  /// Nothing is waited for for long.
  void forget_chains() {
    waited_for_ = {};
    chains_.clear();
  }
  /// A mail of kind kInquiry or kStuck.
  void take(std::span<const std::byte> mail, bool local);
  /// Gives the inquiries about calls of a group that this rank does not make any more.
  std::vector<Asked> forget(uint64_t group);
  /// Messages whose call means something else here, or has ended here without them: of a root to
  /// one that takes itself for the root, too.
  void look_at_strays() {
    if (local_.has_strays()) [[unlikely]]
      compare(local_.take_strays());
  }
  /// The same of all messages that nobody has asked for so far.
  void look_at_untaken() { compare(local_.untaken()); }
  /// The same of those of one group, whose calls have all ended here.
  void look_at_untaken_of(const GroupState& group);
  /// The same of all groups, when all ranks have ended all their calls.
  void look_at_what_is_left();

 private:
  void write_note(const MessageKey& key, const CallMeaning* told) {
    static constexpr CallMeaning kNothingTold;
    board_.write(key.group, key.sequence, key.program, told != nullptr ? *told : kNothingTold);
  }
  void compare(std::span<const LocalTransport::Stray> strays);
  void disagree(const CallKey& id, const CallMeaning& mine, Rank peer, const CallMeaning& theirs);
  void dispute(const CallKey& call, uint32_t program, const CallMeaning& mine, Rank peer);
  void ask_about_dispute();
  void blame_engine(const PostedCall& call, Rank peer, const std::string& text);
  bool send(const PostedCall& call, Rank peer);
  bool send_mail(Rank peer, bool local, std::span<const std::byte> mail);
  std::optional<CallNote> find_note(const CallKey& id) const;
  void answer_inquiries(const PostedCall& call);
  // Chains of waits.
  bool needs(const PostedCall& call, Rank peer) const;
  WaitChain chain_from(const PostedCall& call, Rank asker) const;
  bool tell(Asked& asked, const PostedCall& waited_for);
  bool send_chain(const Asked& asked, WaitChain chain);
  void take_chain(const WaitChain& chain);
  bool closes(const WaitChain& chain, const PostedCall& call) const;
  void end_in_cycle(const WaitChain& chain);

  Bootstrap& bootstrap_;
  LocalTransport& local_;
  NetworkTransport* network_;
  const CallsUnderWay& calls_;
  const GroupEnds& ends_;
  JobEnd& end_;
  CallBoard board_;
  const MadeGroups* groups_;
  std::vector<Asked> inquiries_;  ///< about calls this rank has not made
  /// About calls that it has under way, by ranks that wait in them, too.
  std::vector<Asked> companions_;
  CallKey waited_for_;             ///< for long: the call that `chains_` lead to
  int64_t told_ns_ = 0;            ///< since when they are told
  std::vector<WaitChain> chains_;  ///< that end with a rank which has not made it
  std::optional<Dispute> dispute_;
};

}  // namespace ibcoll
