// Connections between machines that break while both sides live: they are made again, and what was
// under way is sent again. Only silence for long makes ranks unreachable, and only for those who
// wait for their data in vain as well.

#include <algorithm>
#include <cerrno>

#include "engine/bootstrap/control_agent.h"

namespace ibcoll {
namespace {

constexpr double kAnswerSeconds = 5;
constexpr auto kBetweenAttempts = std::chrono::milliseconds(500);
/// Who lives comes back at once after a reset.
constexpr auto kComeBack = std::chrono::milliseconds(3000);
constexpr auto kListenerRest = std::chrono::seconds(1);

}  // namespace

void ControlAgent::take_callers() {
  if (!connections_.listener.open() || handed_over()) return;
  if (Clock::now() >= listen_again_ && !entrance_.open(connections_.listener, true))
    listen_again_ = Clock::now() + kListenerRest;
  for (Entrance::Arrival& arrival : entrance_.arrived()) {
    if (is_root_)
      take_caller(arrival.handshake);
    else if (arrival.handshake.caller().seeks)
      take_comer(arrival.handshake);
    else
      take_branch(arrival.handshake);
  }
}

/// Rank 0: leaders that come back, and members whose leader is gone and who have a failure to tell.
/// A member may see that before the leader's connection has ended here.
void ControlAgent::take_caller(CalledHandshake& handshake) {
  const Caller caller = handshake.caller();
  const auto refuse = [&](std::string_view why) {
    handshake.refuse({ErrorCode::kSystem, fmt::format("rank {} {}", caller.rank, why)});
  };
  if (caller.rank <= 0 || caller.rank >= block_.job_size()) return refuse("is none of this job");
  if (outlives() && block_.end_of(caller.rank))
    return refuse("counts as dead: its machine could not be reached");
  if (outlives() && caller.seeks) return take_comer(handshake);
  const Rank leader = connections_.leader_of[static_cast<size_t>(caller.rank)];
  const auto machine = connections_.machines.find(leader);
  if (machine == connections_.machines.end()) return refuse("has joined this job already");
  if (leader != caller.rank) {
    if (caller.resumes) return refuse("has joined this job already");
    ControlConnection& orphan = orphans_[caller.rank] = handshake.welcome(0);
    if (decided_) orphan.send_failure(decision_);
    return;
  }
  if (!caller.resumes || block_.presence(leader) == Presence::kGone)
    return refuse("has joined this job already");
  // The old connection may look whole here; only the leader itself can have made a new one.
  ControlConnection& connection = machine->second;
  const uint64_t peer_received = handshake.peer_received();
  connection.resume(handshake.welcome(connection.received()), peer_received);
  restored(leader);
}

/// Rank 0: whether it may leave. Where the job has failed, a machine whose leader dies before it
/// has passed on what counts has nobody but rank 0 to learn it from: its members come and ask.
bool ControlAgent::all_have_heard() const {
  if (!is_root_ || !decided_ || Clock::now() > answers_until_) return true;
  if (!headless_.empty()) return false;  // their next leaders come
  for (size_t rank = 0; rank < connections_.leader_of.size(); ++rank) {
    const Rank leader = connections_.leader_of[rank];
    const auto machine = connections_.machines.find(leader);
    const auto member = static_cast<Rank>(rank);
    // Of a leader that has left others of its machine may still be there, who come and ask.
    if (machine == connections_.machines.end() || heard_.count(leader) > 0 ||
        block_.presence(member) == Presence::kGone)
      continue;
    // One whose connection has merely broken comes back.
    const bool dead = member == leader && !machine->second.open() && outages_.count(leader) == 0;
    if (!dead && orphans_.count(member) == 0) return false;
  }
  return true;
}

/// The others: back to rank 0.
void ControlAgent::call_root() {
  if (outages_.count(root_rank_) == 0 || is_root_ || sought_since_) return;
  if (!attempt_ && Clock::now() >= next_attempt_) {
    next_attempt_ = Clock::now() + kBetweenAttempts;
    const ControlHome home = home_of_root();
    Result<Attempt> attempt =
        Attempt::begin(home.address, home.port, options_.silence_ms / 2, connections_.token,
                       {me_, true}, connections_.root.received(), deadline_in(kAnswerSeconds));
    if (attempt) attempt_.emplace(std::move(*attempt));
  }
  if (!attempt_) return;
  const HandshakeState state = attempt_->advance();
  if (state == HandshakeState::kWaiting) return;
  CallerHandshake& handshake = attempt_->handshake();
  if (state == HandshakeState::kDone) {
    connections_.root.resume(std::move(handshake.connection()), handshake.peer_received());
    restored(root_rank_);
  } else if (outlives() && attempt_->error() == 0) {
    seek_root();  // it has forgotten this machine, or another one is the root, or going to be
  } else if (handshake.refusal() || attempt_->error() == ECONNREFUSED) {
    lost(root_rank_);  // its machine answers, and nobody listens there
  }
  attempt_.reset();
}

void ControlAgent::restored(Rank peer) {
  if (outages_.count(peer) > 0 && goodbye_until_)
    goodbye_until_ = deadline_in(kGoodbyeSeconds);  // it has been sent again
  end_outage(peer);
}

void ControlAgent::end_outage(Rank peer) {
  const auto outage = outages_.find(peer);
  if (outage == outages_.end()) return;
  const bool told = outage->second.told;
  outages_.erase(outage);
  if (told) set_reachable(peer, true);
}

/// Rank 0, after its goodbye: whether a machine may still lack what was sent to it last, such as
/// the result of the job's last barrier. A machine that has the goodbye closes its connection. One
/// whose connection has broken comes back for the rest.
bool ControlAgent::someone_may_miss_it() const {
  if (!is_root_ || decided_) return false;
  const auto may_miss_it = [&](const auto& machine) {
    const auto& [leader, connection] = machine;
    if (connection.open()) return !past(*goodbye_until_);
    const auto outage = outages_.find(leader);
    return outage != outages_.end() && !outage->second.told &&
           block_.presence(leader) != Presence::kGone;
  };
  const auto& machines = connections_.machines;
  return std::any_of(machines.begin(), machines.end(), may_miss_it);
}

void ControlAgent::check_outages() {
  if (is_root_ && outlives()) {
    // A leader that lives comes back, or another one of its machine comes; else nobody is there.
    for (auto outage = outages_.begin(); outage != outages_.end();) {
      const auto& [peer, what] = *outage;
      const bool over = what.brief && Clock::now() - what.since > kComeBack &&
                        block_.presence(peer) != Presence::kGone;
      if (over) behead(peer).may_live = true;
      outage = over ? outages_.erase(outage) : std::next(outage);
    }
  }
  for (auto& [peer, outage] : outages_) {
    const std::chrono::milliseconds silence(options_.silence_ms / 2);
    const auto limit = outage.brief ? std::min(kComeBack, silence) : silence;
    if (!outage.told && Clock::now() - outage.since > limit) {
      outage.told = true;
      set_reachable(peer, false);
    }
    if (!outage.told) continue;
    const bool exchanging = [this] {
      const std::lock_guard lock(mutex_);
      return exchanging_;
    }();
    // Nobody waits for data here, which could tell whether the machine lives.
    if (!exchanging || decided_) continue;
    const std::string why =
        outage.brief ? fmt::format("rank {} has died", peer)  // in the midst of what was sent to it
                     : fmt::format(
                           "rank {} can't be reached: its machine has been silent for {} s "
                           "(IBCOLL_CONTROL_TIMEOUT)",
                           peer, options_.silence_ms / 1000);
    return decide({peer, ErrorCode::kPeerFailed, why});
  }
}

void ControlAgent::set_reachable(Rank peer, bool reachable) {
  const Presence before = reachable ? Presence::kUnreachable : Presence::kHere;
  const Presence after = reachable ? Presence::kHere : Presence::kUnreachable;
  const auto change = [&](Rank rank) {
    if (block_.presence(rank) != before) return;
    block_.set_presence(rank, after);
    if (is_root_) to_tell_[rank] = after;
  };
  if (is_root_) {
    for (size_t rank = 0; rank < connections_.leader_of.size(); ++rank)
      if (connections_.leader_of[rank] == peer) change(static_cast<Rank>(rank));
    tell_at_ = Clock::now();
    return;
  }
  const auto& here = block_.job_ranks();  // ascending
  size_t next = 0;
  for (Rank rank = 0; rank < block_.job_size(); ++rank) {
    if (next < here.size() && here[next] == rank)
      ++next;
    else
      change(rank);
  }
}

}  // namespace ibcoll
