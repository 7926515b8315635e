#include "engine/bootstrap/control_agent.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "engine/base/quiet_thread.h"
#include "engine/bootstrap/gather_call.h"
#include "engine/bootstrap/packing.h"
#include "engine/bootstrap/peer_watch.h"

namespace ibcoll {
namespace {

/// Callers that have not said who they are.
constexpr size_t kMostCallers = 64;
constexpr auto kBetweenLooks = std::chrono::milliseconds(10);
/// How long rank 0 stays for those who have not heard what counts.
constexpr auto kAnswering = std::chrono::seconds(2);
/// How long rank 0's machine may take to acknowledge a report: some packets may be lost.
constexpr auto kAcknowledging = std::chrono::seconds(1);

}  // namespace

ControlAgent::ControlAgent(Rank me, ControlBlock& block, ControlConnections connections,
                           AgentOptions options)
    : me_(me),
      block_(block),
      connections_(std::move(connections)),
      options_(std::move(options)),
      entrance_(connections_.token, me, kMostCallers) {
  for (const auto& [rank, connection] : connections_.members) {
    const pid_t pid = process_at(connection.fd());
    members_[rank] = {pid, open_process(pid), program_of(pid)};
  }
  if (connections_.source.rank != 0) source_state_ = Source::kSought;
}

Result<std::unique_ptr<ControlAgent>> ControlAgent::start(Rank me, ControlBlock& block,
                                                          ControlConnections& connections,
                                                          AgentOptions options) {
  std::unique_ptr<ControlAgent> agent(
      new ControlAgent(me, block, std::move(connections), std::move(options)));
  agent->process_ = getpid();
  try {
    agent->thread_ = quiet_thread([raw = agent.get()] { raw->run(); });
  } catch (const std::system_error& error) {
    connections = std::move(agent->connections_);
    return fail(ErrorCode::kSystem, "no thread to talk to the other machines: {}", error.what());
  }
  return agent;
}

ControlAgent::~ControlAgent() {
  if (!thread_.joinable()) return;
  if (getpid() !=
      process_) {  // a forked child has no such thread, and these are its parent's connections
    thread_.detach();
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  eventfd_write(options_.wake.get(), 1);
  thread_.join();
}

Status ControlAgent::exchange(std::optional<std::span<const Rank>> givers,
                              std::span<const std::byte> mine, size_t bytes,
                              std::span<std::byte> all) {
  std::optional<std::vector<std::byte>> packed = pack(mine);
  if (!packed)
    return fail(ErrorCode::kNoMemory, "no memory to pack {} bytes for the other machines",
                mine.size());
  std::unique_lock lock(mutex_);
  exchanging_ = true;
  outgoing_.emplace();
  outgoing_->kind = FrameKind::kGather;
  outgoing_->rank = static_cast<int32_t>(bytes);
  if (givers) outgoing_->code = static_cast<int32_t>(GatherCall::mark_of(*givers));
  outgoing_->payload = std::move(*packed);
  outgoing_givers_.reset();
  if (me_ == 0 && givers) outgoing_givers_.emplace(givers->begin(), givers->end());
  eventfd_write(options_.wake.get(), 1);
  changed_.wait(lock, [this] { return result_ || failed_; });
  if (!result_) {
    const Failure failure = block_.failure().value_or(Failure{});
    return tl::unexpected<Error>(failure.error());
  }
  const ControlConnection::Payload result = std::exchange(result_, nullptr);
  lock.unlock();
  if (unpack(*result, all)) return {};
  return fail(ErrorCode::kSystem,
              "what rank 0 has sent of an allgather is damaged, or there is no memory to unpack "
              "{} bytes",
              all.size());
}

void ControlAgent::run() {
  std::vector<pollfd> watched;
  while (!leaving_ || !all_have_heard()) turn(watched);
  say_goodbye();
  while (someone_may_miss_it()) turn(watched);
}

/// Waits for something to happen, and does what there is to do.
void ControlAgent::turn(std::vector<pollfd>& watched) {
  const int timeout_ms = watch(watched);
  if (poll(watched.data(), watched.size(), timeout_ms) < 0) {
    if (errno == EINTR) return;
    // A program may have lowered its limit of open files below what it has open, and poll() then
    // refuses so many: look at all of them now and then.
    std::this_thread::sleep_for(kBetweenLooks);
    for (pollfd& one : watched) one.revents = one.fd == options_.launcher.get() ? 0 : POLLIN;
  }
  look(watched);
  take_callers();
  call_root();
  call_source();
  check_outages();
  check_proposal();
  tell_presence();
  count_sent_bytes();
  if (watched[0].revents == 0) return;
  eventfd_t ignored = 0;
  eventfd_read(options_.wake.get(), &ignored);
  take_outgoing();
  const std::lock_guard lock(mutex_);
  leaving_ = stop_;
}

/// What to wait for: first what this process tells, then the launcher, then the connections in the
/// order of watched_connections_, then those who come or are called. Gives how long to wait at
/// most.
int ControlAgent::watch(std::vector<pollfd>& watched) {
  watched.assign({{options_.wake.get(), POLLIN, 0},
                  {block_.failure_fd(), POLLIN, 0},
                  {launcher_ended_ ? -1 : options_.launcher.get(), POLLIN, 0}});
  watched_connections_.clear();
  const auto add = [&](ControlConnection& connection, Rank peer) {
    if (!connection.open()) return;
    watched.push_back(connection.watch());
    watched_connections_.emplace_back(&connection, peer);
  };
  add(connections_.root, 0);
  for (auto& [rank, connection] : connections_.machines) add(connection, rank);
  if (!goodbye_until_) {  // afterwards their ends do not matter
    for (auto& [rank, connection] : connections_.members) add(connection, rank);
  }
  for (auto* group : {&orphans_, &branches_}) {
    for (auto& [rank, connection] : *group) add(connection, rank);
  }
  add(source_, connections_.source.rank);
  entrance_.watch(watched);
  for (auto* attempt : {&attempt_, &source_attempt_})
    if (*attempt) watched.push_back((*attempt)->watch());
  const bool resting = Clock::now() < listen_again_;
  if (connections_.listener.open() && !resting)
    watched.push_back({connections_.listener.fd(), POLLIN, 0});
  if (leaving_) return 20;
  if (attempt_ || source_state_ == Source::kSought || !outages_.empty() || (proposed_ && !decided_))
    return 100;
  if (tell_at_) return 50;
  if (resting || !entrance_.empty()) return 500;
  return -1;
}

void ControlAgent::look(const std::vector<pollfd>& watched) {
  eventfd_t ignored = 0;
  if (watched[1].revents != 0) eventfd_read(block_.failure_fd(), &ignored);
  if (const auto proposal = block_.proposal()) propose(*proposal);
  note_presence();
  if (watched[2].revents != 0) {
    launcher_ended_ = true;
    propose({-1, ErrorCode::kPeerFailed, "the launcher has ended, and the job ends with it"});
  }
  for (size_t i = 0; i < watched_connections_.size(); ++i) {
    if (watched[i + 3].revents != 0)
      serve(*watched_connections_[i].first, watched_connections_[i].second);
  }
}

void ControlAgent::serve(ControlConnection& connection, Rank peer) {
  connection.flush();
  while (connection.open()) {
    Result<std::optional<Frame>> frame = connection.take();
    if (!frame) return ended(connection, peer);
    if (!*frame) return;
    if ((*frame)->kind != FrameKind::kBye) {
      handle(std::move(**frame), peer);
      continue;
    }
    if (&connection == &connections_.root) {
      hear_bye_of_root(**frame);
      continue;
    }
    connection.close();
    if (members_.count(peer) == 0 && orphans_.count(peer) == 0) left(peer);
  }
}

void ControlAgent::ended(ControlConnection& connection, Rank peer) {
  const ConnectionEnd end = connection.end();
  connection.close();
  if (&connection == &source_) return lose_source();
  if (const auto branch = branches_.find(peer);
      branch != branches_.end() && &branch->second == &connection) {
    branches_.erase(branch);  // it asks rank 0 for what it lacks
    return;
  }
  if (goodbye_until_ && end == ConnectionEnd::kEnded) return;  // it has all that was sent to it
  answers_until_ = Clock::now() + kAnswering;
  if (members_.count(peer) > 0) return member_ended(peer);
  if (orphans_.count(peer) > 0) return;  // it had a failure to tell, and nobody watches it
  if (end == ConnectionEnd::kEnded) return lost(peer);
  outages_[peer] = {Clock::now(), end == ConnectionEnd::kReset};
  next_attempt_ = Clock::now();
}

/// A leader has said goodbye.
void ControlAgent::left(Rank peer) {
  left_ = peer;
  root_gone_ = root_gone_ || peer == 0;
  outages_.erase(peer);
  if (me_ == 0) outages_[peer] = {Clock::now(), true};  // nobody speaks for the others there
  block_.set_presence(peer, Presence::kGone);
  eventfd_write(options_.wake.get(), 1);  // an exchange under way can't end any more
}

void ControlAgent::handle(Frame frame, Rank peer) {
  switch (frame.kind) {
    case FrameKind::kGather:
      gather(peer, std::move(frame));
      break;
    case FrameKind::kAll:
      take_result(std::move(frame));
      break;
    case FrameKind::kAsk:
      if (me_ == 0) send_results_to(peer, frame.rank);
      break;
    case FrameKind::kFailure:
      if (me_ == 0 || members_.count(peer) > 0)
        propose(frame.failure());
      else
        decide(frame.failure());
      break;
    case FrameKind::kPresence:
      hear_presence(frame, peer);
      break;
    case FrameKind::kHeard:
      heard_.insert(peer);
      break;
    default:
      break;
  }
}

/// Another machine's leader has ended without a goodbye. The failure ends all waiting: the rank is
/// not marked as departed, or a waiter's report of that could come before this one.
void ControlAgent::lost(Rank peer) {
  outages_.erase(peer);
  if (peer != 0) return propose(death_of(peer));
  if (root_bye_) return root_ended_after_bye();
  root_gone_ = true;
  decide(death_of(peer));  // nobody is left to ask
}

/// The same of a rank of this machine; one that has ended well has merely left.
void ControlAgent::member_ended(Rank member) {
  const Member& process = members_[member];
  const auto goes_on = left_by_living(member, process.pid, process.process.get(), process.program);
  const auto status = goes_on ? std::nullopt : status_of_ended(process.pid, process.process.get());
  const Failure failure = goes_on.value_or(end_of_rank(member, process.pid, status));
  const auto& here = block_.job_ranks();
  const auto place = static_cast<Rank>(std::find(here.begin(), here.end(), member) - here.begin());
  if (status && WIFEXITED(*status) && WEXITSTATUS(*status) == 0) return block_.departed(place);
  block_.note_end(failure);
  propose(failure);
}

/// Takes what this machine gives to an allgather on its way.
void ControlAgent::take_outgoing() {
  std::optional<Frame> mine;
  bool exchanging = false;
  {
    const std::lock_guard lock(mutex_);
    mine.swap(outgoing_);
    if (mine) givers_.swap(outgoing_givers_);
    exchanging = exchanging_;
    if (exchanging && decided_) {
      failed_ = true;
      changed_.notify_all();
      return;
    }
  }
  if (exchanging && left_) return propose(rank_has_left(*left_));
  if (!mine) return;
  if (me_ == 0)
    gather(0, std::move(*mine));
  else
    connections_.root.send(FrameKind::kGather, mine->rank, mine->payload, mine->code);
  ask_root();
}

size_t ControlAgent::root_bytes(int ranks, int machines, int ranks_here, size_t told) {
  const auto all = static_cast<size_t>(ranks), here = static_cast<size_t>(ranks_here);
  const auto others = static_cast<size_t>(machines - 1);
  if (others == 0) return 0;
  const size_t records = 3 * told + told * here / all;
  const size_t tables = all * sizeof(Rank) + (others + 1) * sizeof(std::pair<const Rank, Frame>) +
                        here * (sizeof(Member) + sizeof(std::pair<const Rank, Presence>));
  const size_t connections = (others + here - 1) * sizeof(std::pair<const Rank, ControlConnection>);
  return records + tables + connections;
}

void ControlAgent::count_sent_bytes() {
  uint64_t bytes = connections_.root.sent_bytes();
  for (const auto* group : {&connections_.machines, &branches_}) {
    for (const auto& [rank, connection] : *group) bytes += connection.sent_bytes();
  }
  sent_bytes_.store(bytes, std::memory_order_relaxed);
}

/// Ends this machine's exchange.
void ControlAgent::give(ControlConnection::Payload packed) {
  count_sent_bytes();
  const std::lock_guard lock(mutex_);
  result_ = std::move(packed);
  exchanging_ = false;
  changed_.notify_all();
}

/// Rank 0's agent says which failure counts; the others ask it.
void ControlAgent::propose(const Failure& failure) {
  if (decided_) return;
  if (me_ == 0 || root_gone_) return decide(failure);
  if (proposed_) return;
  proposed_ = failure;
  proposed_at_ = Clock::now();
  connections_.root.send_failure(failure);
}

/// Where rank 0's machine does not even acknowledge what it was told, there is no way to it, and it
/// says nothing: this machine decides for itself. A rank 0 that is merely late is waited for.
void ControlAgent::check_proposal() {
  if (!proposed_ || decided_ || Clock::now() - proposed_at_ < kAcknowledging) return;
  if (connections_.root.unacknowledged()) decide(*proposed_);
}

void ControlAgent::decide(const Failure& failure) {
  if (std::exchange(decided_, true)) return;
  decision_ = failure;
  answers_until_ = Clock::now() + kAnswering;
  for (auto* group : {&connections_.machines, &orphans_}) {
    for (auto& [rank, connection] : *group) connection.send_failure(failure);
  }
  block_.decide(failure, block_.ranks());
  if (me_ != 0) connections_.root.send(FrameKind::kHeard, me_);
  const std::lock_guard lock(mutex_);
  failed_ = true;
  changed_.notify_all();
}

void ControlAgent::say_goodbye() {
  const Deadline until = deadline_in(kGoodbyeSeconds);
  goodbye_until_ = until;
  const auto say = [&](ControlConnection& connection) {
    if (!connection.open()) return;
    connection.send(FrameKind::kBye, me_, {}, round_);
    (void)connection.flush_by(until);
  };
  say(connections_.root);
  for (auto* group : {&connections_.machines, &connections_.members, &orphans_}) {
    for (auto& [rank, connection] : *group) say(connection);
  }
  for (auto& [rank, branch] : branches_) (void)branch.flush_by(until);
}

}  // namespace ibcoll
