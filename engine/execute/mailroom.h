#pragma once
/// What goes to and comes from ranks of other servers: exposures, tokens, messages with their data.

#include <span>
#include <vector>

#include "engine/base/message_store.h"
#include "engine/execute/calls_under_way.h"
#include "engine/execute/cells.h"
#include "engine/execute/disagreement.h"
#include "engine/execute/group_ends.h"
#include "engine/execute/job_end.h"
#include "engine/execute/regions.h"
#include "engine/execute/user_registrations.h"
#include "engine/sharing/test_hooks.h"
#include "engine/transport/transport.h"

namespace ibcoll {

class ArrivalRuns;
class ExposureMail;

/// Sends what calls have to say, and hands what arrives to the calls it is for: signals by their
/// cells, mails by their heads. Mails of calls that this rank has not made yet are kept.
class Mailroom {
 public:
  /// `network` may be null on a single server. All must outlive it.
  Mailroom(LocalTransport& local, NetworkTransport* network, const CallsUnderWay& calls,
           Disagreements& disagreements, GroupEnds& ends, JobEnd& end, Cells::Share cells);
  ~Mailroom();

  /// Takes a cell for a call that leaves the server. False: so many calls are under way that none
  /// is left.
  bool admit(PostedCall& call) {
    call.remote.cell = cells_.take(&call);
    return call.remote.cell.has_value();
  }
  /// Makes an admitted call ready.
  Status open(PostedCall& call);
  /// Gives a call that starts the mails that came before it.
  void take_early_mails(PostedCall& call) {
    if (!early_mails_.empty()) [[unlikely]]
      accept_early_mails(call);
  }
  /// Gives back what admit() and open() took.
  void close(PostedCall& call);

  /// A rank of another server has died: nothing of its is known any more.
  void lose(Rank rank) {
    if (network_ != nullptr) peer_regions_.lose(*network_, rank);
  }
  /// Drops what has come for calls of a group that is over, and tells those who have asked.
  void forget(uint64_t group);
  /// Who gets mails of kind kMulticast; null: nobody, they are an error.
  void serve(ArrivalRuns* runs) { runs_ = runs; }

  /// Takes what has arrived; true if there was anything. Not on a single server.
  bool poll();
  /// Takes what ranks of the server have passed on or asked, so many mails at most.
  bool take_local_mails(size_t most = SIZE_MAX);
  /// Mails taken in one round of progress: who sends without end does not hold up the rest.
  IBCOLL_LIMIT(size_t, kMailsAtOnce, 64);

  // False: no room now, to be tried again.
  /// Sends the next mail of an exposure; `sent` counts its landings that are on their way, and is 0
  /// again when all are.
  bool send_exposure(PostedCall& call, const Op& op, size_t& sent);
  bool send_token(PostedCall& call, Rank peer);
  /// An eager message.
  bool send_data(PostedCall& call, Rank peer, std::span<const std::byte> data);
  /// The same of the first `bytes` bytes of a view.
  bool send_data(PostedCall& call, Rank peer, const StridedView& data, size_t bytes);
  /// Passes exposures addressed to this server on to its other ranks; true if something moved.
  bool pass_on(PostedCall& call);

  /// Where a put to a place that a rank of the job has exposed goes; see PeerRegions.
  RemoteAddress find(Rank peer, const RegionPlace& place) const {
    return peer_regions_.find(peer, place);
  }

  /// What the program has registered for its calls.
  UserRegistrations& user_registrations() { return user_registrations_; }

  /// Of a mail about that call.
  static MailHeader header_for(const PostedCall& call, MailKind kind);

 private:
  static void index_expects(PostedCall& call);
  static bool add_landings(const PostedCall& call, const Op& op, size_t sent, ExposureMail& mail);
  bool send_data_mail(PostedCall& call, Rank peer, size_t bytes);
  bool fits_mail(const PostedCall& call, size_t bytes);
  void count_signal(const Arrival& arrival);
  void deliver(std::span<const std::byte> mail, bool local, Rank from);
  void hand_to_runs(std::span<const std::byte> mail, bool local);
  void learn_keys(std::span<const std::byte> mail);
  void accept(PostedCall& call, std::span<const std::byte> mail);
  void accept_data(PostedCall& call, std::span<const std::byte> mail);
  void accept_exposure(PostedCall& call, std::span<const std::byte> mail);
  void accept_early_mails(PostedCall& call);
  void forward(PostedCall& call, std::span<const std::byte> mail);

  LocalTransport& local_;
  NetworkTransport* network_;
  const CallsUnderWay& calls_;
  Disagreements& disagreements_;
  GroupEnds& ends_;
  JobEnd& end_;
  ArrivalRuns* runs_ = nullptr;
  Cells cells_;
  OwnRegions own_regions_;
  UserRegistrations user_registrations_{network_, own_regions_};
  PeerRegions peer_regions_;
  MessageStore early_mails_;     ///< of calls this rank has not started
  std::vector<std::byte> mail_;  ///< being written
};

}  // namespace ibcoll
