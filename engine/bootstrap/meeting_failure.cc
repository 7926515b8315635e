// Meetings that fail: everybody who has come, and who comes yet, says the same as rank 0.

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "engine/bootstrap/meeting.h"
#include "engine/bootstrap/process_end.h"

namespace ibcoll {
namespace {

constexpr double kTellSeconds = 3;  // others that joining has failed
constexpr double kWordSeconds = 8;  // less than a report waits for what counts

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

void tell(ControlConnection& connection, Rank culprit, const Error& error, Deadline until) {
  connection.send(FrameKind::kFailure, culprit, bytes_of(error.message),
                  static_cast<int32_t>(error.code));
  (void)connection.flush_by(until);
}

}  // namespace

Failure word_of_root(const RootPlace& place, Rank me, int silence_ms, const Failure& failure,
                     bool fresh) {
  const Deadline until = deadline_in(kWordSeconds);
  std::string address;
  Result<ControlConnection> connection = call_root(place, me, silence_ms, until, address);
  if (connection) {
    connection->send(FrameKind::kFailure, failure.culprit, bytes_of(failure.what),
                     static_cast<int32_t>(failure.code));
    const Result<Frame> word = connection->receive(until);
    if (word && word->kind == FrameKind::kFailure)
      return {word->rank, static_cast<ErrorCode>(word->code), word->text()};
  }
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
  return tl::unexpected<Error>(Error{failure.code, failure.what});
}

Error Meeting::give_up(const Error& error) {
  if (leader_) return dismiss(error);
  tell(up_, me_, error, deadline_in(kTellSeconds));
  return error;
}

Error Meeting::dismiss(Error error) {
  const Deadline until = deadline_in(kTellSeconds);
  if (connections_.root.open()) error = answer_of_root(error, until);
  for (auto* group : {&connections_.members, &connections_.machines}) {
    for (auto& [rank, connection] : *group) tell(connection, me_, error, until);
  }
  const std::set<Rank> left_behind = me_ == 0 ? hear_answers(until) : std::set<Rank>();
  // Their files are needed for those who come yet.
  connections_.members.clear();
  connections_.machines.clear();
  if (me_ == 0) turn_away_latecomers(error, left_behind, until);
  return error;
}

/// Another machine's leader: tells rank 0 that it has failed, or has heard so, and gives what
/// counts. Rank 0 hangs up where that is this very error.
Error Meeting::answer_of_root(const Error& error, Deadline until) {
  tell(connections_.root, me_, error, until);
  while (true) {
    const Result<Frame> frame = connections_.root.receive(until);
    if (!frame) return error;
    if (frame->kind == FrameKind::kFailure)
      return {static_cast<ErrorCode>(frame->code), frame->text()};
  }
}

/// Rank 0: until all leaders have answered or died. Gives the members of the latter, who come and
/// ask.
std::set<Rank> Meeting::hear_answers(Deadline until) {
  std::set<Rank> left_behind;
  std::map<Rank, ControlConnection*> silent;
  for (auto& [rank, connection] : connections_.machines) {
    if (connection.open()) silent[rank] = &connection;
  }
  while (!silent.empty() && !past(until)) {
    std::vector<pollfd> watched;
    for (const auto& [rank, connection] : silent) watched.push_back({connection->fd(), POLLIN, 0});
    if (poll(watched.data(), watched.size(), 50) < 0 && errno != EINTR) break;
    for (auto at = silent.begin(); at != silent.end();) {
      const auto& [leader, connection] = *at;
      const Result<std::optional<Frame>> frame = connection->take();
      const bool joins = frame && *frame && (*frame)->kind == FrameKind::kJoin;
      if (joins && (*frame)->rank >= 0 && (*frame)->rank < size_)
        (void)enter((*frame)->rank, leader);
      if (!frame) {
        for (Rank rank = 0; rank < size_; ++rank)
          if (connections_.leader_of[rank] == leader && rank != leader) left_behind.insert(rank);
      }
      if (frame && (!*frame || joins)) {
        ++at;
      } else {
        at = silent.erase(at);
      }
    }
  }
  return left_behind;
}

/// Rank 0: those who have not come yet, and those whose leader has died, shall say the same as the
/// others.
void Meeting::turn_away_latecomers(const Error& error, std::set<Rank> left_behind, Deadline until) {
  for (auto& [rank, connection] : orphans_) {
    tell(connection, 0, error, until);
    left_behind.erase(rank);
  }
  while ((missing_ > 0 || !left_behind.empty()) && !past(until)) {
    std::vector<pollfd> watched{{local_.fd(), POLLIN, 0}, {connections_.listener.fd(), POLLIN, 0}};
    entrance_.watch(watched);
    if (poll(watched.data(), watched.size(), 50) < 0 && errno != EINTR) return;
    // Too few files are one of the reasons to be here: those who are sent away make room.
    if (!entrance_.open(local_, false) || !entrance_.open(connections_.listener, true))
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    for (Entrance::Arrival& arrival : entrance_.arrived()) {
      const Rank caller = arrival.handshake.caller().rank;
      if (left_behind.erase(caller) > 0) {
        tell(orphans_[caller] = arrival.handshake.welcome(0), 0, error, until);
      } else {
        arrival.handshake.refuse(error);
        --missing_;
      }
    }
  }
}

}  // namespace ibcoll
