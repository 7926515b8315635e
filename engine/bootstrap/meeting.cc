#include "engine/bootstrap/meeting.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "engine/bootstrap/descriptors.h"
#include "engine/bootstrap/machine.h"

namespace ibcoll {
namespace {

/// What each leader is told of where others are found: enough for a dozen of them.
constexpr size_t kHomeBytesEach = 512;
constexpr double kConnectSeconds = 10;  // to any of rank 0's addresses, with its answer
/// What is waited for behind rank 0's own limit before rank 0 counts as hung.
constexpr double kBehindSeconds = 30;

Error error_of(const Frame& failure) { return failure.failure().error(); }

}  // namespace

Status Meeting::hold(ProcessManager& manager) {
  make_room_for_files(kOwnFiles);
  IBCOLL_TRY(manager.rank() == 0 ? open_job(manager) : find_job(manager));
  if (!leader_) return wait_for_leader();
  // A connection for each machine, or for each rank of this one: of both there are fewer than
  // ranks.
  make_room_for_files(kOwnFiles + static_cast<size_t>(size_));
  Status met = me_ == 0 ? gather_everybody() : gather_machine();
  if (!met) return tl::unexpected<Error>(dismiss(met.error()));
  if (met) {
    here_.push_back(me_);
    for (const auto& [rank, connection] : connections_.members) here_.push_back(rank);
    std::sort(here_.begin(), here_.end());
  }
  return met;
}

std::string Meeting::machine() const {
  return options_.machine.empty() ? fmt::format("{}", pid_namespace()) : options_.machine;
}

Status Meeting::open_job(ProcessManager& manager) {
  leader_ = true;
  leader_rank_ = me_;
  IBCOLL_ASSIGN(place_.token, random_token());
  bool taken = false;
  IBCOLL_ASSIGN(local_, ControlListener::local(socket_name(place_.token, machine()), taken));
  if (size_ > 1) {
    IBCOLL_ASSIGN(connections_.listener, ControlListener::network(options_.silence_ms / 2));
    place_.port = connections_.listener.port();
    place_.addresses = own_addresses();
  }
  IBCOLL_TRY(manager.broadcast(place_.text()));
  return {};
}

Status Meeting::find_job(ProcessManager& manager) {
  IBCOLL_ASSIGN(const std::string text, manager.broadcast(""));
  IBCOLL_ASSIGN(place_, RootPlace::parse(text));
  const Deadline until = deadline_in(options_.limit_s);
  while (true) {
    bool taken = false;
    IBCOLL_ASSIGN(local_, ControlListener::local(socket_name(place_.token, machine()), taken));
    leader_ = !taken;
    if (leader_) {
      leader_rank_ = me_;
      return connect_to_root();
    }
    IBCOLL_ASSIGN(const bool joined, join_leader());
    if (joined) return {};
    // Somebody leads this machine; it may have named its socket but not listen yet, or be gone.
    if (past(until))
      return fail(ErrorCode::kPeerFailed, "the first rank of this machine does not answer for {} s",
                  options_.limit_s);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

/// True once the leader has let this rank in; false where trying again may help.
Result<bool> Meeting::join_leader() {
  Result<UniqueFd> socket = connect_local(socket_name(place_.token, machine()));
  if (!socket) return false;
  CallerHandshake handshake(std::move(*socket), place_.token, {me_, false}, 0,
                            deadline_in(options_.limit_s + kBehindSeconds));
  handshake.begin();
  while (true) {
    const HandshakeState state = handshake.advance();
    if (state == HandshakeState::kDone) break;
    if (handshake.refusal()) return tl::unexpected<Error>(*handshake.refusal());
    if (state == HandshakeState::kRefused) return false;
    pollfd more{handshake.connection().fd(), POLLIN, 0};
    ::poll(&more, 1, 100);
  }
  up_ = std::move(handshake.connection());
  leader_rank_ = handshake.peer();
  return true;
}

Status Meeting::connect_to_root() {
  RootAnswer answer;
  IBCOLL_ASSIGN(connections_.root, call_root(place_, me_, options_.silence_ms / 2,
                                             deadline_in(kConnectSeconds), answer));
  connections_.root_address = std::move(answer.address);
  connections_.root.make_resumable();
  // Where there is none, nobody gets results from here.
  Result<ControlListener> listener = ControlListener::network(options_.silence_ms / 2);
  if (listener) connections_.listener = std::move(*listener);
  connections_.root.send(FrameKind::kListen, me_, {}, connections_.listener.port());
  return {};
}

/// Lets in who is of this job.
Status Meeting::welcome(Entrance::Arrival& arrival) {
  const Caller caller = arrival.handshake.caller();
  const auto refuse = [&](std::string why) {
    arrival.handshake.refuse({ErrorCode::kSystem, std::move(why)});
    return Status();
  };
  if (caller.resumes || caller.rank < 0 || caller.rank >= size_)
    return refuse(fmt::format("rank {} is none of this job", caller.rank));
  const bool known = caller.rank == me_ || connections_.members.count(caller.rank) > 0 ||
                     connections_.machines.count(caller.rank) > 0 ||
                     (me_ == 0 && connections_.leader_of[caller.rank] >= 0);
  if (known && arrival.network && connections_.machines.count(caller.rank) == 0 &&
      connections_.machines.count(connections_.leader_of[caller.rank]) >
          0) {  // it knows before rank 0 does
    orphans_[caller.rank] = arrival.handshake.welcome(0);
    return fail(ErrorCode::kPeerFailed, "rank {} has died", connections_.leader_of[caller.rank]);
  }
  if (known) return refuse(fmt::format("rank {} has joined this job already", caller.rank));
  auto& group = arrival.network ? connections_.machines : connections_.members;
  ControlConnection& connection = group[caller.rank] = arrival.handshake.welcome(0);
  if (arrival.network) connection.make_resumable();
  if (me_ == 0) return arrival.network ? Status() : enter(caller.rank, 0);
  connections_.root.send(FrameKind::kJoin, caller.rank);
  return {};
}

Status Meeting::enter(Rank rank, Rank leader) {
  if (connections_.leader_of[rank] >= 0)
    return fail(ErrorCode::kSystem,
                "two processes say that they are rank {}: the launcher numbers them wrongly", rank);
  connections_.leader_of[rank] = leader;
  --missing_;
  return {};
}

/// Rank 0: until all ranks have said where they are.
Status Meeting::gather_everybody() {
  connections_.leader_of.assign(static_cast<size_t>(size_), -1);
  connections_.leader_of[0] = 0;
  missing_ = size_ - 1;
  const Deadline until = deadline_in(options_.limit_s);
  while (missing_ > 0) {
    std::vector<pollfd> watched{{local_.fd(), POLLIN, 0}, {connections_.listener.fd(), POLLIN, 0}};
    for (auto* group : {&connections_.machines, &connections_.members}) {
      for (auto& [rank, connection] : *group) watched.push_back(connection.watch());
    }
    entrance_.watch(watched);
    if (poll(watched.data(), watched.size(), 200) < 0 && errno != EINTR)
      return fail_errno("cannot wait for the other ranks");
    IBCOLL_TRY(launcher_lives());
    IBCOLL_TRY(hear_leaders(watched, 2));
    if (watched[0].revents != 0) IBCOLL_TRY(entrance_.open(local_, false));
    if (watched[1].revents != 0) IBCOLL_TRY(entrance_.open(connections_.listener, true));
    for (Entrance::Arrival& arrival : entrance_.arrived()) IBCOLL_TRY(welcome(arrival));
    if (missing_ > 0 && past(until)) {
      const auto first =
          std::find(connections_.leader_of.begin(), connections_.leader_of.end(), -1);
      const int missing = std::exchange(missing_, 0);  // they are not waited for to be told, either
      return fail(ErrorCode::kPeerFailed, "{} of {} ranks did not come within {} s, rank {} first",
                  missing, size_, options_.limit_s, first - connections_.leader_of.begin());
    }
  }
  let_go();
  return {};
}

/// Rank 0: all leaders learn from whom they get results. Those with low numbers pass them on.
void Meeting::let_go() {
  std::vector<Rank> leaders{me_};
  const auto branches = static_cast<size_t>(std::max(options_.fan_out, 1));
  for (auto& [rank, connection] : connections_.machines) {
    const ResultSource source = source_of(rank, leaders[(leaders.size() - 1) / branches]);
    leaders.push_back(rank);
    if (source.rank == me_) connections_.direct.insert(rank);
    connection.send(FrameKind::kGo, source.rank, std::as_bytes(std::span(source.address)),
                    source.port);
  }
  connections_.homes = pack_homes(find_homes(), ControlBlock::kMostHomeBytes);
  connections_.ports.insert(listening_.begin(), listening_.end());
  const std::vector<std::byte> of_some = pack_homes(find_homes(), kHomeBytesEach);
  for (auto& [rank, connection] : connections_.machines)
    connection.send(FrameKind::kHomes, me_, of_some);
}

bool Meeting::is_only_here(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

/// Rank 0: of its own machine and, in the order of their leaders, of those that all can reach.
ControlHomes Meeting::find_homes() const {
  std::map<Rank, ControlHome> homes;
  for (Rank rank = 0; rank < size_; ++rank)
    homes[connections_.leader_of[static_cast<size_t>(rank)]].ranks.push_back(rank);
  bool all_here = true;
  for (const auto& [leader, connection] : connections_.machines) {
    homes[leader].address = peer_address(connection.fd());
    homes[leader].port = listening_.at(leader);
    all_here = all_here && is_only_here(homes[leader].address);
  }
  ControlHomes found;
  for (auto& [leader, home] : homes) {
    const bool reachable = leader == me_ || (home.port != 0 && !home.address.empty() &&
                                             (all_here || !is_only_here(home.address)));
    if (reachable) found.push_back(std::move(home));
  }
  return found;
}

/// Rank 0: where a leader finds its source; this rank itself where it can't.
ResultSource Meeting::source_of(Rank leader, Rank source) const {
  if (source == me_) return {};
  const auto address_of = [&](Rank rank) {
    return peer_address(connections_.machines.at(rank).fd());
  };
  const std::string address = address_of(source);
  const int port = listening_.at(source);
  // The address of a process on rank 0's machine may be one that only that machine knows.
  if (port == 0 || address.empty() || (is_only_here(address) && !is_only_here(address_of(leader))))
    return {};
  return {source, address, port};
}

/// What leaders and members say to rank 0 before all are there. `watched`: from `first` on their
/// connections, those of the leaders in front.
Status Meeting::hear_leaders(const std::vector<pollfd>& watched, size_t first) {
  for (auto* group : {&connections_.machines, &connections_.members}) {
    for (auto& [rank, connection] : *group) {
      if (watched[first++].revents == 0) continue;
      connection.flush();
      while (true) {
        const Result<std::optional<Frame>> frame = connection.take();
        if (!frame) return fail(ErrorCode::kPeerFailed, "rank {} has died", rank);
        if (!*frame) break;
        if ((*frame)->kind == FrameKind::kFailure) return tl::unexpected<Error>(error_of(**frame));
        if ((*frame)->kind == FrameKind::kListen && listening_.emplace(rank, (*frame)->code).second)
          IBCOLL_TRY(enter(rank, rank));
        if ((*frame)->kind == FrameKind::kJoin && (*frame)->rank >= 0 && (*frame)->rank < size_)
          IBCOLL_TRY(enter((*frame)->rank, rank));
      }
    }
  }
  return {};
}

/// Another machine's leader: until rank 0 says that everybody is there.
Status Meeting::gather_machine() {
  const Deadline until = deadline_in(options_.limit_s + kBehindSeconds);
  while (!past(until)) {
    std::vector<pollfd> watched{{local_.fd(), POLLIN, 0}, connections_.root.watch()};
    for (auto& [rank, connection] : connections_.members) watched.push_back(connection.watch());
    entrance_.watch(watched);
    if (poll(watched.data(), watched.size(), 200) < 0 && errno != EINTR)
      return fail_errno("cannot wait for the other ranks");
    IBCOLL_TRY(launcher_lives());
    size_t at = 2;
    for (auto& [rank, connection] : connections_.members) {
      if (watched[at++].revents == 0) continue;
      connection.flush();
      if (!connection.take()) return fail(ErrorCode::kPeerFailed, "rank {} has died", rank);
    }
    if (watched[0].revents != 0) IBCOLL_TRY(entrance_.open(local_, false));
    for (Entrance::Arrival& arrival : entrance_.arrived()) IBCOLL_TRY(welcome(arrival));
    connections_.root.flush();
    const Result<std::optional<Frame>> frame = connections_.root.take();
    if (!frame) return fail(ErrorCode::kPeerFailed, "rank 0 has died");
    if (*frame) return take_go(**frame);
  }
  return fail(ErrorCode::kPeerFailed, "rank 0 has not answered for {} s",
              options_.limit_s + kBehindSeconds);
}

Status Meeting::launcher_lives() const {
  pollfd launcher{options_.launcher, POLLIN, 0};
  if (poll(&launcher, 1, 0) > 0)
    return fail(ErrorCode::kPeerFailed, "the launcher has ended, and the job ends with it");
  return {};
}

Status Meeting::wait_for_leader() {
  const Result<Frame> frame = up_.receive(deadline_in(options_.limit_s + 2 * kBehindSeconds));
  if (!frame) return leader_gone();
  return take_go(*frame);
}

Status Meeting::take_go(const Frame& frame) {
  const auto wrong = [] {
    return fail(ErrorCode::kSystem,
                "a control message that can't be: the ranks run different versions of ibcoll");
  };
  if (frame.kind == FrameKind::kFailure) {
    word_ = frame.failure();
    return tl::unexpected<Error>(error_of(frame));
  }
  if (frame.kind != FrameKind::kGo) return wrong();
  if (leader_) {
    if (frame.rank < 0 || frame.rank >= size_ || frame.rank == me_) return wrong();
    connections_.source = {frame.rank, frame.text(), frame.code};
    return {};
  }
  here_.resize(frame.payload.size() / sizeof(Rank));
  std::memcpy(here_.data(), frame.payload.data(), here_.size() * sizeof(Rank));
  leader_rank_ = frame.rank;
  has_home_ = frame.code != 0;
  const bool ascends = std::is_sorted(here_.begin(), here_.end(), std::less_equal<>());
  const auto has = [&](Rank rank) {
    return std::find(here_.begin(), here_.end(), rank) != here_.end();
  };
  if (!ascends || !has(me_) || !has(leader_rank_) || here_.front() < 0 || here_.back() >= size_)
    return wrong();
  return {};
}

Result<std::unique_ptr<ControlBlock>> Meeting::share_block() {
  const Deadline until = deadline_in(options_.limit_s);
  // Whoever leads this machine after its first leader is found by its socket.
  if (leader_)
    has_home_ = connections_.listener.open() && here_.size() < static_cast<size_t>(size_);
  const size_t passed = has_home_ ? 3 : 2;
  if (!leader_) {
    UniqueFd descriptors[3];
    if (const Status came = up_.receive_descriptors({descriptors, passed}, until); !came) {
      if (came.error().code == ErrorCode::kPeerFailed) return leader_gone();
      return tl::unexpected<Error>(came.error());
    }
    if (has_home_)
      connections_.listener =
          ControlListener::network_at(std::move(descriptors[2]), options_.silence_ms / 2);
    return ControlBlock::attach(here_, size_, std::move(descriptors[0]), std::move(descriptors[1]));
  }
  IBCOLL_ASSIGN(auto block, ControlBlock::create_passable(here_, size_));
  for (auto& [rank, connection] : connections_.members) {
    connection.send(FrameKind::kGo, me_, std::as_bytes(std::span(here_)), has_home_ ? 1 : 0);
    const int descriptors[] = {block->memory_fd(), block->failure_fd(), connections_.listener.fd()};
    // One that has ended meanwhile is found out by the agent.
    const Status sent = connection.send_descriptors({descriptors, passed}, until);
    if (!sent && connection.quiet()) return tl::unexpected<Error>(sent.error());
  }
  block->set_shared();
  return block;
}

ControlConnections& Meeting::connections() {
  connections_.token = place_.token;
  connections_.root_port = place_.port;
  return connections_;
}

}  // namespace ibcoll
