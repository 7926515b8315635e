// Leaders that go, by death or after one, while other ranks of their machine go on: one of those
// speaks for the machine then. On rank 0's machine it is the next root, at the same port, since all
// ranks there hold the socket; what its predecessor has told others is in the memory that they
// share. So only the other leaders have to present themselves anew.

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "engine/bootstrap/control_agent.h"
#include "engine/bootstrap/descriptors.h"
#include "engine/bootstrap/machine.h"
#include "engine/bootstrap/peer_watch.h"

namespace ibcoll {
namespace {

/// The next leader of a machine knows how the one before has died; it may be late.
constexpr auto kHeirComes = std::chrono::milliseconds(500);
constexpr auto kBetweenCalls = std::chrono::milliseconds(50);
/// The next root answers once a rank of that machine is in a call.
constexpr double kRootSeconds = 30;
/// What the next root learns meanwhile from machines that it can't look for it goes by.
constexpr auto kLearning = std::chrono::milliseconds(1000);
/// Others may notice before this leader that the root is gone.
constexpr auto kComerWaits = std::chrono::seconds(3);
constexpr auto kBetweenProbes = std::chrono::milliseconds(500);
/// How long who leaves looks for a root to tell it.
constexpr auto kTellsLeaving = std::chrono::seconds(1);

}  // namespace

/// Whether a rank has neither died nor left, as far as is known.
bool ControlAgent::goes_on(Rank rank) const {
  return block_.presence(rank) != Presence::kGone && !block_.end_of(rank);
}

/// Ranks of this machine that have neither died nor left, but for this one.
std::vector<Rank> ControlAgent::others_alive() const {
  std::vector<Rank> alive;
  for (const Rank rank : block_.job_ranks()) {
    if (rank != me_ && goes_on(rank)) alive.push_back(rank);
  }
  return alive;
}

/// Speaks for a machine that has had another leader.
Status ControlAgent::succeed() {
  IBCOLL_TRY(adopt_members());
  told_survival_ = true;
  if (const auto failure = block_.failure()) decide(*failure);
  block_.verdicts().ask_again();
  if (is_root_)
    lead_job();
  else
    seek_root();
  return {};
}

/// Watches the processes of the ranks of this machine, to which there are no connections.
Status ControlAgent::adopt_members() {
  // As the root this agent has connections to all other machines, too.
  const auto most = is_root_ ? static_cast<size_t>(block_.job_size()) : block_.job_ranks().size();
  make_room_for_files(kOwnFiles + most);
  const std::vector<Rank>& here = block_.job_ranks();
  for (const Rank rank : others_alive()) {
    const auto place = std::lower_bound(here.begin(), here.end(), rank) - here.begin();
    const WatchedProcess process = block_.process(static_cast<Rank>(place));
    IBCOLL_ASSIGN(UniqueFd opened, watch_process(process));
    if (!opened.valid()) {
      (void)block_.note_end(end_of_rank(rank, process.pid, std::nullopt));
      continue;
    }
    members_[rank] = {process.pid, std::move(opened), program_of(process.pid)};
    adopted_.insert(rank);
  }
  return {};
}

/// Where the root is, or is looked for.
ControlHome ControlAgent::home_of_root() const {
  if (home_ == 0) return {connections_.root_address, connections_.root_port, {}};
  return block_.homes()[home_];
}

/// The connection to the root is of no use any more. Another rank of its machine may be the root
/// now.
void ControlAgent::seek_root() {
  sent_before_ += connections_.root.sent_bytes();
  connections_.root = ControlConnection();
  end_outage(root_rank_);
  attempt_.reset();
  no_way_since_.reset();
  root_bye_.reset();
  root_gone_ = false;
  next_attempt_ = sought_since_.emplace(Clock::now());
  // A process that has not taken this one in may never have been the root.
  if (!std::exchange(is_taken_in_, false)) home_ = 0;
}

/// Nobody is left on the machine where the root was looked for.
void ControlAgent::seek_next_root() {
  const ControlHomes homes = block_.homes();
  ++home_;
  if (home_ < homes.size() && homes[home_].ranks == block_.job_ranks()) return become_root();
  if (home_ < homes.size()) return;
  root_gone_ = true;
  sought_since_.reset();
  if (!has_outlived()) return;  // all have left at the end of the job
  const bool left = block_.presence(root_rank_) == Presence::kGone;
  decide(left ? rank_has_left(root_rank_) : death_of(root_rank_));
}

void ControlAgent::find_root() {
  if (!sought_since_) return;
  if (decided_) {
    sought_since_.reset();
    return attempt_.reset();
  }
  // The next root may know how that one has died. But where all on its machine compute, nobody
  // tells.
  if (lost_root_ && Clock::now() - *sought_since_ > kHeirComes && goes_on(*lost_root_))
    hear_end(death_of(*lost_root_));
  if (!attempt_ && Clock::now() >= next_attempt_) call_home();
  if (!attempt_) return;
  const HandshakeState state = attempt_->advance();
  if (attempt_->connected()) no_way_since_.reset();
  if (state == HandshakeState::kWaiting) return;
  CallerHandshake& handshake = attempt_->handshake();
  if (state == HandshakeState::kDone) {
    connections_.root = std::move(handshake.connection());
    root_rank_ = handshake.peer();
    sought_since_.reset();
    introduce();
  } else if (handshake.refusal()) {
    root_gone_ = true;
    decide({me_, handshake.refusal()->code, handshake.refusal()->message});
  } else if (attempt_->error() == ECONNREFUSED) {
    attempt_.reset();
    return seek_next_root();
  } else if (attempt_->error() != 0) {
    bear_no_way(std::strerror(attempt_->error()));
  }
  attempt_.reset();
}

void ControlAgent::call_home() {
  next_attempt_ = Clock::now() + kBetweenCalls;
  const ControlHome home = home_of_root();
  Result<Attempt> attempt =
      Attempt::begin(home.address, home.port, options_.silence_ms / 2, connections_.token,
                     {me_, false, true}, 0, deadline_in(kRootSeconds));
  if (attempt)
    attempt_.emplace(std::move(*attempt));
  else
    bear_no_way(attempt.error().message);
}

/// There may be no way for a while to the machine where the root is looked for. Only where nobody
/// listens is it looked for elsewhere: there must not be two.
void ControlAgent::bear_no_way(const std::string& why) {
  next_attempt_ = Clock::now() + kBetweenProbes;
  if (!no_way_since_) no_way_since_ = Clock::now();
  if (Clock::now() - *no_way_since_ < std::chrono::milliseconds(options_.silence_ms)) return;
  root_gone_ = true;
  decide({root_rank_, ErrorCode::kPeerFailed,
          fmt::format("rank {} is gone, and its machine can't be reached, where others may be "
                      "left that know what has been decided: {}",
                      root_rank_, why)});
}

/// All machines before this one among those that the root is looked for on have nobody left.
void ControlAgent::become_root() {
  const Rank last = std::exchange(root_rank_, me_);
  const bool last_died = block_.presence(last) != Presence::kGone;
  is_root_ = true;
  sought_since_.reset();
  learns_until_ = Clock::now() + std::chrono::milliseconds(options_.silence_ms);
  learns_from_strays_until_ = Clock::now() + kLearning;
  const ControlHomes homes = block_.homes();
  for (size_t home = 0; home < home_; ++home) {
    const std::vector<Rank>& ranks = homes[home].ranks;
    const bool of_last = std::binary_search(ranks.begin(), ranks.end(), last);
    bury(ranks, !left_untold() || (of_last && last_died));
  }
  lead_job();
  block_.verdicts().ask_again();
  if (proposed_) decide(*proposed_);
}

/// Root: all other machines are to come.
void ControlAgent::lead_job() {
  connections_.leader_of.assign(static_cast<size_t>(block_.job_size()), -1);
  for (const Rank rank : block_.job_ranks())
    connections_.leader_of[static_cast<size_t>(rank)] = me_;
  strays_since_ = Clock::now();
  expect_machines();
}

/// Root: the leaders of these are to come, unless nobody is left there.
void ControlAgent::expect_machines() {
  for (const ControlHome& home : block_.homes()) {
    const Rank first = home.ranks.front();
    if (connections_.leader_of[static_cast<size_t>(first)] >= 0 ||
        std::none_of(home.ranks.begin(), home.ranks.end(),
                     [this](Rank rank) { return goes_on(rank); }))
      continue;
    for (const Rank rank : home.ranks) connections_.leader_of[static_cast<size_t>(rank)] = first;
    homes_[first] = {home.address, home.port};
    behead(first).expected = true;
  }
}

/// Root: whether it knows what its predecessor has said.
bool ControlAgent::has_learnt() const {
  if (Clock::now() >= learns_until_) return true;
  if (expects_machines()) return false;
  return Clock::now() >= learns_from_strays_until_ || !has_strays();
}

/// Root: whether machines are to come of which it knows where they are.
bool ControlAgent::expects_machines() const {
  return std::any_of(headless_.begin(), headless_.end(),
                     [](const auto& machine) { return machine.second.expected; });
}

/// Root: whether machines are to come of which it does not know that.
bool ControlAgent::has_strays() const {
  for (Rank rank = 0; rank < block_.job_size(); ++rank)
    if (connections_.leader_of[static_cast<size_t>(rank)] < 0 && goes_on(rank)) return true;
  return false;
}

/// Root: nobody is left where these were. `died`: who has not left in order. Else it is not known:
/// they may have left while there was no root to tell. Whoever waits for them counts them as dead.
void ControlAgent::bury(const std::vector<Rank>& ranks, bool died) {
  for (const Rank rank : ranks) {
    if (!goes_on(rank)) continue;
    if (died && block_.presence(rank) != Presence::kLeaving) {
      hear_end(death_of(rank));
      continue;
    }
    block_.set_presence(rank, Presence::kGone);
    to_tell_[rank] = Presence::kGone;
    tell_at_ = Clock::now();
  }
}

/// Root: a machine has no leader any more.
ControlAgent::Headless& ControlAgent::behead(Rank leader) {
  Headless& machine = headless_[leader] = Headless();
  machine.since = Clock::now();
  const std::vector<Rank>& leader_of = connections_.leader_of;
  for (size_t rank = 0; rank < leader_of.size(); ++rank)
    if (leader_of[rank] == leader) machine.ranks.push_back(static_cast<Rank>(rank));
  return machine;
}

/// Root: connections that nobody comes back to.
void ControlAgent::drop_machines() {
  auto& machines = connections_.machines;
  for (auto machine = machines.begin(); machine != machines.end();) {
    const bool over = !machine->second.open() && outages_.count(machine->first) == 0;
    if (over) sent_before_ += machine->second.sent_bytes();
    machine = over ? machines.erase(machine) : std::next(machine);
  }
}

/// To a root that may know nothing of this machine yet, nor of what its predecessor has said.
void ControlAgent::introduce() {
  ControlConnection& root = connections_.root;
  root.make_resumable();
  // Before it counts this machine as one that it has learnt from.
  for (const Verdict& verdict : block_.verdicts().given())
    root.send(FrameKind::kVerdict, me_, std::as_bytes(std::span(&verdict, 1)));
  const auto ranks = std::as_bytes(std::span(block_.job_ranks()));
  root.send(FrameKind::kTakeOver, me_, ranks, connections_.listener.port());
  for (const Rank rank : block_.job_ranks())
    if (const auto end = block_.end_of(rank)) root.send_failure(FrameKind::kEnd, *end);
  for (const Failure& end : block_.ends_elsewhere()) root.send_failure(FrameKind::kEnd, end);
  if (proposed_) {
    proposed_at_ = Clock::now();
    root.send_failure(*proposed_);
  }
  block_.verdicts().ask_again();
  told_.clear();
  note_presence();
  if (tell_at_) tell_at_ = Clock::now();
}

/// The root is one, and knows this machine.
void ControlAgent::taken_in() {
  is_taken_in_ = true;
  lost_root_.reset();
}

/// A process that says next who it is, if this is the root, or is going to be.
void ControlAgent::take_comer(CalledHandshake& handshake) {
  const Rank rank = handshake.caller().rank;
  ControlConnection& comer = comers_[rank] = handshake.welcome(0);
  came_[rank] = Clock::now();
  if (decided_) comer.send_failure(decision_);
}

/// Those who take this leader for the root, which is well.
void ControlAgent::drop_comers() {
  std::erase_if(comers_, [](const auto& comer) { return !comer.second.open(); });
  if (is_root_) came_.clear();
  for (auto comer = came_.begin(); comer != came_.end();) {
    const bool waits = sought_since_ || Clock::now() - comer->second < kComerWaits;
    if (!waits) comers_.erase(comer->first);
    comer = waits ? std::next(comer) : came_.erase(comer);
  }
}

/// Root: a process that has come speaks for these ranks from now on.
void ControlAgent::take_over(const Frame& frame, Rank heir) {
  const auto comer = comers_.find(heir);
  if (comer == comers_.end()) return;
  std::vector<Rank> ranks(frame.payload.size() / sizeof(Rank));
  std::memcpy(ranks.data(), frame.payload.data(), ranks.size() * sizeof(Rank));
  for (const Rank rank : ranks) {
    if (rank < 0 || rank >= block_.job_size()) continue;
    Rank& leader = connections_.leader_of[static_cast<size_t>(rank)];
    if (leader >= 0 && leader != heir) {
      if (const auto old = connections_.machines.find(leader); old != connections_.machines.end())
        old->second.close();
      headless_.erase(leader);
      outages_.erase(leader);
    }
    leader = heir;
    if (block_.presence(rank) == Presence::kUnreachable) {
      block_.set_presence(rank, Presence::kHere);
      to_tell_[rank] = Presence::kHere;
      tell_at_ = Clock::now();
    }
  }
  headless_.erase(heir);
  outages_.erase(heir);
  if (const auto before = connections_.machines.find(heir); before != connections_.machines.end())
    sent_before_ += before->second.sent_bytes();
  ControlConnection& machine = connections_.machines[heir] = std::move(comer->second);
  machine.make_resumable();
  homes_[heir] = {peer_address(machine.fd()), frame.code};
  machine.send(FrameKind::kTakeOver, me_);
  inform(machine);
}

/// Root: of all that a machine may have missed.
void ControlAgent::inform(ControlConnection& machine) {
  for (const Rank rank : block_.job_ranks())
    if (const auto end = block_.end_of(rank)) machine.send_failure(FrameKind::kEnd, *end);
  for (const Failure& end : block_.ends_elsewhere()) machine.send_failure(FrameKind::kEnd, end);
  tell_all_presences(machine);
  for (const Verdict& verdict : block_.verdicts().given())
    machine.send(FrameKind::kVerdict, me_, std::as_bytes(std::span(&verdict, 1)));
  if (decided_) machine.send_failure(decision_);
}

/// Root: machines whose leaders are gone.
void ControlAgent::check_headless() {
  if (!is_root_ || !outlives() || goodbye_until_) return;
  drop_machines();
  const std::chrono::milliseconds longest(options_.silence_ms);
  for (auto next = headless_.begin(); next != headless_.end();) {
    const Rank leader = next->first;
    Headless& machine = next->second;
    const bool knows_leader = !machine.expected, died = knows_leader && !machine.left;
    const auto may_be_there = [&](Rank rank) {
      return (rank != leader || machine.expected || machine.may_live) && goes_on(rank);
    };
    const bool empty = std::none_of(machine.ranks.begin(), machine.ranks.end(), may_be_there);
    const bool deserted = !empty && nobody_is_at_home(leader);
    const bool late = !machine.may_live && Clock::now() - machine.since > kHeirComes;
    if (died && (empty || deserted || late) && goes_on(leader)) hear_end(death_of(leader));
    if (deserted) bury(machine.ranks, knows_leader ? died : !left_untold());
    const auto silent = Clock::now() - std::max(machine.since, machine.alive);
    if (!empty && !deserted && !machine.told && silent > longest) {
      machine.told = true;
      set_reachable(leader, false);
    }
    next = empty || deserted ? headless_.erase(next) : std::next(next);
  }
  // It does not know where those are that have not come.
  if (!strays_since_ || Clock::now() - *strays_since_ < longest) return;
  strays_since_.reset();
  set_reachable(-1, false);
}

/// Root: whether all processes of a machine are gone, as far as is known by now. As long as one of
/// them is left, a connection to its home stays, whether or not anybody takes it.
bool ControlAgent::nobody_is_at_home(Rank leader) {
  Headless& machine = headless_.at(leader);
  const auto home = homes_.find(leader);
  if (home == homes_.end() || home->second.port == 0) return false;
  if (!machine.probe.valid()) {
    if (Clock::now() < machine.next_probe) return false;
    machine.next_probe = Clock::now() + kBetweenProbes;
    auto probe = connect_network(home->second.address, home->second.port, options_.silence_ms / 2);
    if (!probe) return false;
    machine.probe = std::move(*probe);
    machine.connected = false;
  }
  pollfd ready{machine.probe.get(), static_cast<short>(machine.connected ? POLLIN : POLLOUT), 0};
  const bool quiet = poll(&ready, 1, 0) == 0;
  if (quiet && machine.connected) machine.alive = Clock::now();
  if (quiet) return false;
  const int error = machine.connected ? 0 : connect_error(machine.probe.get());
  if (!machine.connected && error == 0) {
    machine.connected = true;
    machine.alive = Clock::now();
    return false;
  }
  machine.probe.reset();
  return error == ECONNREFUSED;
}

/// Whether ranks of this machine are neither gone nor leaving.
bool ControlAgent::goes_on_here() const {
  const std::vector<Rank>& here = block_.job_ranks();
  return std::any_of(here.begin(), here.end(),
                     [this](Rank rank) { return block_.presence(rank) == Presence::kHere; });
}

/// Whether the others have not been told yet that the last rank here has left. As long as a root
/// may come that tells them, or those whom this one tells, this agent stays; so what is gone and
/// has not been told of has died.
bool ControlAgent::is_still_needed() {
  if (!leaves_since_) leaves_since_ = Clock::now();
  if (!has_outlived() || decided_ || Clock::now() - *leaves_since_ > kTellsLeaving ||
      !others_alive().empty())
    return false;
  return is_root_ ? expects_machines() || has_strays() : !heard_of_goodbye_;
}

/// Whether ranks may have left lately without anybody having been told: not where the last root has
/// died, and who leaves still waits for the next one.
bool ControlAgent::left_untold() const {
  return !lost_root_ || Clock::now() - lost_root_at_ > kTellsLeaving;
}

/// A rank that leaves says so first and looks then whether anybody leads here, so either it or this
/// leader tells the others.
void ControlAgent::give_up_lead() {
  if (!outlives() || !block_.pass_lead(me_, -1) || !has_outlived()) return;
  note_presence();
  if (!tell_at_) return;
  tell_at_ = Clock::now();
  tell_presence();
}

}  // namespace ibcoll
