// Meetings that fail: everybody who has come, and who comes yet, says the same as rank 0.

#include <poll.h>

#include <cerrno>
#include <thread>

#include "engine/bootstrap/meeting.h"
#include "engine/bootstrap/process_end.h"

namespace ibcoll {
namespace {

constexpr double kTellSeconds = 3;  // others that joining has failed
constexpr double kStaySeconds = 3;  // rank 0, for those who have not heard so
constexpr double kWordSeconds = 8;  // less than a report waits for what counts

void tell(ControlConnection& connection, const Failure& failure, Deadline until) {
  connection.send_failure(failure);
  (void)connection.flush_by(until);
}

/// Whether the other process is gone: one that leaves in order says goodbye before.
bool has_died(const ControlConnection& connection) {
  return connection.end() == ConnectionEnd::kEnded || connection.end() == ConnectionEnd::kReset;
}

/// Rank 0's word over a connection on which it has been told of `failure`.
Failure next_word(ControlConnection& root, const Failure& failure, Deadline until) {
  while (true) {
    const Result<Frame> frame = root.receive(until);
    if (!frame) return has_died(root) ? death_of(0) : failure;
    if (frame->kind == FrameKind::kFailure) return frame->failure();
    if (frame->kind == FrameKind::kBye) return failure;
  }
}

}  // namespace

Failure word_of_root(const RootPlace& place, Rank me, int silence_ms, const Failure& failure,
                     bool fresh) {
  const Deadline until = deadline_in(kWordSeconds);
  RootAnswer answer;
  Result<ControlConnection> connection = call_root(place, me, silence_ms, until, answer);
  if (connection) {
    connection->send_failure(failure);
    return next_word(*connection, failure, until);
  }
  if (answer.refused) return {failure.culprit, connection.error().code, connection.error().message};
  // Of rank 0 there is nothing left. It would have stayed to answer, so it was the first to die;
  // unless the leader is gone for longer than rank 0 stays.
  return past(until) || !fresh ? failure : death_of(0);
}

tl::unexpected<Error> Meeting::leader_gone() const {
  if (up_.end() == ConnectionEnd::kNone)
    return fail(ErrorCode::kPeerFailed, "rank {} does not answer", leader_rank_);
  Failure failure = death_of(leader_rank_);
  if (leader_rank_ != 0)
    failure = word_of_root(place_, me_, options_.silence_ms / 2, failure, true);
  return tl::unexpected<Error>(failure.error());
}

Error Meeting::give_up(const Error& error) {
  if (leader_) return dismiss(error);
  tell(up_, {me_, error.code, error.message}, deadline_in(kTellSeconds));
  return error;
}

Error Meeting::dismiss(const Error& error) {
  Failure failure{me_, error.code, error.message};
  if (me_ != 0 && !word_) {
    connections_.root.send_failure(failure);
    word_ = next_word(connections_.root, failure, deadline_in(kTellSeconds));
  }
  if (word_) failure = *word_;
  const Deadline until = deadline_in(kTellSeconds);
  for (auto& [rank, connection] : connections_.members) tell(connection, failure, until);
  connections_.members.clear();  // their files are needed for those who come yet
  if (me_ == 0) {
    see_that_all_hear(failure);
  } else {
    connections_.root.send(FrameKind::kHeard, me_);
    (void)connections_.root.flush_by(until);
  }
  return failure.error();
}

/// Rank 0: stays until all machines know, at most for a while. Members whose leader has died before
/// it could tell them come and ask, and so do those who have not come yet.
void Meeting::see_that_all_hear(const Failure& failure) {
  const Deadline until = deadline_in(kStaySeconds);
  for (auto* group : {&connections_.machines, &orphans_}) {
    for (auto& [rank, connection] : *group) connection.send_failure(failure);
  }
  while (!all_have_heard() && !past(until)) {
    std::vector<pollfd> watched{{local_.fd(), POLLIN, 0}, {connections_.listener.fd(), POLLIN, 0}};
    for (auto& [rank, connection] : connections_.machines) watched.push_back(connection.watch());
    for (auto& [rank, connection] : orphans_) {  // what they say, or that they end, tells nothing
      if (connection.unsent()) watched.push_back({connection.fd(), POLLOUT, 0});
    }
    entrance_.watch(watched);
    if (poll(watched.data(), watched.size(), 50) < 0 && errno != EINTR) return;
    hear_answers();
    // Too few files are one of the reasons to be here: those who are sent away make room.
    if (!entrance_.open(local_, false) || !entrance_.open(connections_.listener, true))
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    for (Entrance::Arrival& arrival : entrance_.arrived()) turn_away(arrival, failure);
  }
}

/// Rank 0: whether nobody will ask any more.
bool Meeting::all_have_heard() const {
  if (missing_ > 0) return false;
  for (Rank rank = 0; rank < size_; ++rank) {
    const Rank leader = connections_.leader_of[static_cast<size_t>(rank)];
    const auto machine = connections_.machines.find(leader);
    if (machine == connections_.machines.end()) continue;  // it has heard, or never comes
    const bool dead = rank == leader && !machine->second.open();
    const auto orphan = orphans_.find(rank);
    if (!dead && (orphan == orphans_.end() || orphan->second.unsent())) return false;
  }
  return true;
}

/// Rank 0: what leaders still say. Those who have told their members go.
void Meeting::hear_answers() {
  for (auto& [rank, connection] : orphans_) connection.flush();
  for (auto at = connections_.machines.begin(); at != connections_.machines.end();) {
    auto& [leader, connection] = *at;
    connection.flush();
    bool done = false;
    while (connection.open() && !done) {
      const Result<std::optional<Frame>> frame = connection.take();
      if (!frame) connection.close();  // its members come
      if (!frame || !*frame) break;
      const FrameKind kind = (*frame)->kind;
      if (kind == FrameKind::kJoin && (*frame)->rank >= 0 && (*frame)->rank < size_)
        (void)enter((*frame)->rank, leader);
      if (kind == FrameKind::kListen && listening_.emplace(leader, (*frame)->code).second)
        (void)enter(leader, leader);
      done = kind == FrameKind::kHeard || kind == FrameKind::kBye;
    }
    at = done ? connections_.machines.erase(at) : std::next(at);
  }
}

/// Rank 0: whoever comes now shall say the same as the others.
void Meeting::turn_away(Entrance::Arrival& arrival, const Failure& failure) {
  const Rank caller = arrival.handshake.caller().rank;
  const bool known =
      caller >= 0 && caller < size_ && connections_.leader_of[static_cast<size_t>(caller)] >= 0;
  if (known && arrival.network) {
    ControlConnection& orphan = orphans_[caller] = arrival.handshake.welcome(0);
    orphan.send_failure(failure);
    return;
  }
  arrival.handshake.refuse(failure.error());
  if (!known && caller >= 0 && caller < size_) (void)enter(caller, caller);
}

}  // namespace ibcoll
