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

/// Callers that have not said who they are, besides all leaders that come to a new root at once.
constexpr size_t kMostStrangers = 64;
constexpr auto kBetweenLooks = std::chrono::milliseconds(10);
/// What has not happened by then may take long, and is looked for less often.
constexpr auto kSoon = std::chrono::seconds(2);
/// How long rank 0 stays for those who have not heard what counts.
constexpr auto kAnswering = std::chrono::seconds(2);
/// How long rank 0's machine may take to acknowledge a report: some packets may be lost.
constexpr auto kAcknowledging = std::chrono::seconds(1);

/// Whether a connection to a rank is the one among these.
bool is_of(const std::map<Rank, ControlConnection>& group, Rank peer,
           const ControlConnection& connection) {
  const auto at = group.find(peer);
  return at != group.end() && &at->second == &connection;
}

}  // namespace

ControlAgent::ControlAgent(Rank me, ControlBlock& block, ControlConnections connections,
                           AgentOptions options)
    : me_(me),
      block_(block),
      is_root_(block.job_ranks().front() == 0),
      connections_(std::move(connections)),
      options_(std::move(options)),
      entrance_(connections_.token, me, kMostStrangers + static_cast<size_t>(block.job_size())) {
  for (const auto& [rank, connection] : connections_.members) {
    const pid_t pid = process_at(connection.fd());
    members_[rank] = {pid, open_process(pid), program_of(pid)};
  }
  if (connections_.source.rank != 0) source_state_ = Source::kSought;
  if (is_root_ && !options_.succeeds) block_.set_homes(connections_.homes);
  for (const auto& [leader, connection] : connections_.machines)
    if (connections_.ports.count(leader) > 0)
      homes_[leader] = {peer_address(connection.fd()), connections_.ports[leader]};
}

Result<std::unique_ptr<ControlAgent>> ControlAgent::start(Rank me, ControlBlock& block,
                                                          ControlConnections& connections,
                                                          AgentOptions options) {
  std::unique_ptr<ControlAgent> agent(
      new ControlAgent(me, block, std::move(connections), std::move(options)));
  agent->process_ = getpid();
  const auto give_back = [&](const Error& error) {
    connections = std::move(agent->connections_);
    return tl::unexpected<Error>(error);
  };
  if (agent->options_.succeeds)
    if (const Status ready = agent->succeed(); !ready) return give_back(ready.error());
  try {
    agent->thread_ = quiet_thread([raw = agent.get()] { raw->run(); });
  } catch (const std::system_error& error) {
    return give_back({ErrorCode::kSystem,
                      fmt::format("no thread to talk to the other machines: {}", error.what())});
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
  if (is_root_ && givers) outgoing_givers_.emplace(givers->begin(), givers->end());
  eventfd_write(options_.wake.get(), 1);
  changed_.wait(lock, [this] { return result_ || failed_; });
  if (!result_) {
    exchanging_ = false;
    std::optional<Failure> failure = block_.failure();
    if (!failure) failure = block_.first_end().value_or(Failure{});
    return tl::unexpected<Error>(failure->error());
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
  while (!leaving_ || !all_have_heard() || is_still_needed()) turn(watched);
  give_up_lead();
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
    for (pollfd& one : watched)
      if (poll(&one, 1, 0) < 0) one.revents = 0;
  }
  look(watched);
  hand_over();
  take_callers();
  find_root();
  call_root();
  call_source();
  check_outages();
  check_headless();
  drop_comers();
  pass_questions();
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
  // What happens after its goodbye the next leader looks after.
  watched.assign({{options_.wake.get(), POLLIN, 0},
                  {handed_over() ? -1 : block_.failure_fd(), POLLIN, 0},
                  {launcher_ended_ ? -1 : options_.launcher.get(), POLLIN, 0}});
  watched_connections_.clear();
  const auto add = [&](ControlConnection& connection, Rank peer) {
    if (!connection.open()) return;
    watched.push_back(connection.watch());
    watched_connections_.emplace_back(&connection, peer);
  };
  add(connections_.root, root_rank_);
  for (auto& [rank, connection] : connections_.machines) add(connection, rank);
  if (!goodbye_until_) {  // afterwards their ends do not matter
    for (auto& [rank, connection] : connections_.members) add(connection, rank);
  }
  for (auto* group : {&orphans_, &branches_}) {
    for (auto& [rank, connection] : *group) add(connection, rank);
  }
  if (is_root_) {  // else they have nothing to say yet
    for (auto& [rank, connection] : comers_) add(connection, rank);
  }
  add(source_, connections_.source.rank);
  if (goodbye_until_) adopted_.clear();
  for (const Rank rank : adopted_) watched.push_back({members_[rank].process.get(), POLLIN, 0});
  entrance_.watch(watched);
  for (auto* attempt : {&attempt_, &source_attempt_})
    if (*attempt) watched.push_back((*attempt)->watch());
  const bool resting = Clock::now() < listen_again_;
  if (connections_.listener.open() && !resting)
    watched.push_back({connections_.listener.fd(), POLLIN, 0});
  int most_ms = -1;
  const auto look_within = [&most_ms](bool due, int ms) {
    if (due && (most_ms < 0 || ms < most_ms)) most_ms = ms;
  };
  const auto is_new = [](const auto& machine) {
    return Clock::now() - machine.second.since < kSoon;
  };
  look_within(leaving_ || !asked_meanwhile_.empty(), 20);
  look_within(sought_since_ && Clock::now() - *sought_since_ < kSoon, 20);
  look_within(std::any_of(headless_.begin(), headless_.end(), is_new), 20);
  look_within(tell_at_.has_value(), has_outlived() ? 20 : 50);
  look_within(attempt_ || source_state_ == Source::kSought || !outages_.empty() || !came_.empty() ||
                  (proposed_ && !decided_),
              100);
  look_within(sought_since_ || !headless_.empty(), 200);
  look_within(resting || !entrance_.empty(), 500);
  return most_ms;
}

void ControlAgent::look(const std::vector<pollfd>& watched) {
  eventfd_t ignored = 0;
  if (watched[1].revents != 0) eventfd_read(block_.failure_fd(), &ignored);
  if (!handed_over()) {
    if (const auto proposal = block_.proposal()) propose(*proposal);
    note_presence();
  }
  if (watched[2].revents != 0) {
    launcher_ended_ = true;
    propose({-1, ErrorCode::kPeerFailed, "the launcher has ended, and the job ends with it"});
  }
  size_t next = 3;
  for (const auto& [connection, peer] : watched_connections_)
    if (watched[next++].revents != 0) serve(*connection, peer);
  for (auto rank = adopted_.begin(); rank != adopted_.end();) {
    const bool has_ended = watched[next++].revents != 0;
    const Rank adopted = *rank;
    rank = has_ended ? adopted_.erase(rank) : std::next(rank);
    if (has_ended) member_ended(adopted);
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
    if (is_of(connections_.machines, peer, connection)) left(peer);
  }
}

void ControlAgent::ended(ControlConnection& connection, Rank peer) {
  const ConnectionEnd end = connection.end();
  connection.close();
  if (&connection == &source_) return lose_source();
  if (is_of(branches_, peer, connection)) {
    branches_.erase(peer);  // it asks rank 0 for what it lacks
    return;
  }
  if (goodbye_until_ && end == ConnectionEnd::kEnded) return;  // it has all that was sent to it
  answers_until_ = Clock::now() + kAnswering;
  if (is_of(connections_.members, peer, connection)) return member_ended(peer);
  // It had a failure to tell, or has not been taken in, and nobody watches it.
  if (is_of(orphans_, peer, connection) || is_of(comers_, peer, connection)) return;
  if (end == ConnectionEnd::kEnded) return lost(peer);
  outages_[peer] = {Clock::now(), end == ConnectionEnd::kReset};
  next_attempt_ = Clock::now();
}

/// A leader has said goodbye.
void ControlAgent::left(Rank peer) {
  left_ = peer;
  outages_.erase(peer);
  block_.set_presence(peer, Presence::kGone);
  if (is_root_ && (has_outlived() || (outlives() && goes_on_here()))) {
    to_tell_[peer] = Presence::kGone;
    tell_at_ = Clock::now();
    behead(peer).left = true;
  } else if (is_root_) {
    outages_[peer] = {Clock::now(), true};  // nobody speaks for the others there
  } else if (peer == root_rank_ && outlives() && (has_outlived() || goes_on_here())) {
    lost_root_.reset();
    seek_root();
  } else if (peer == root_rank_) {
    root_gone_ = true;
  }
  eventfd_write(options_.wake.get(), 1);  // an exchange under way can't end any more
}

void ControlAgent::handle(Frame frame, Rank peer) {
  if (handed_over()) return;  // the next leader hears it
  switch (frame.kind) {
    case FrameKind::kGather:
      gather(peer, std::move(frame));
      break;
    case FrameKind::kAll:
      take_result(std::move(frame));
      break;
    case FrameKind::kAsk:
      if (is_root_) send_results_to(peer, frame.rank);
      break;
    case FrameKind::kFailure:
      if (is_root_ || members_.count(peer) > 0)
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
    case FrameKind::kSurvive:
      survivors_.insert(peer);
      break;
    case FrameKind::kEnd:
      hear_end(frame.failure());
      break;
    case FrameKind::kQuestion:
      if (const auto question = frame.verdict(); question && is_root_) answer(*question, peer);
      break;
    case FrameKind::kVerdict:
      if (const auto verdict = frame.verdict()) hear_verdict(*verdict);
      break;
    case FrameKind::kForget:
      if (const auto verdict = frame.verdict()) forget(verdict->question);
      break;
    case FrameKind::kTakeOver:
      if (is_root_)
        take_over(frame, peer);
      else if (peer == root_rank_)
        taken_in();
      break;
    case FrameKind::kHomes:
      if (!is_root_) block_.set_homes(frame.payload);
      break;
    default:
      break;
  }
}

/// Another machine's leader has ended without a goodbye, or a process that this one took for the
/// root. The failure ends all waiting: the rank is not marked as departed, or a waiter's report of
/// that could come before this one.
void ControlAgent::lost(Rank peer) {
  if (!is_root_) end_outage(peer);
  outages_.erase(peer);
  if (is_root_ && outlives()) {
    behead(peer);
    return;
  }
  if (is_root_ || peer != root_rank_) return propose(death_of(peer));
  if (root_bye_ && !has_outlived()) return root_ended_after_bye();
  if (outlives()) {
    if (is_taken_in_) {  // else it may never have been the root
      lost_root_ = peer;
      lost_root_at_ = Clock::now();
    }
    return seek_root();
  }
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
  const bool left = block_.presence(member) == Presence::kGone && outlives();
  if (left || (status && WIFEXITED(*status) && WEXITSTATUS(*status) == 0))
    return block_.departed(place);
  if (goes_on && outlives()) return propose(failure);
  block_.note_end(failure);
  announce(failure);
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
    if (exchanging && (decided_ || has_outlived())) {
      failed_ = true;
      changed_.notify_all();
      return;
    }
  }
  if (exchanging && left_) return propose(rank_has_left(*left_));
  if (!mine) return;
  if (block_.asked_to_survive() && !std::exchange(told_survival_, true) && !is_root_)
    connections_.root.send(FrameKind::kSurvive, me_);
  if (is_root_)
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
  uint64_t bytes = sent_before_ + connections_.root.sent_bytes();
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
  if (is_root_ || root_gone_) return decide(failure);
  if (proposed_) return;
  proposed_ = failure;
  proposed_at_ = Clock::now();
  connections_.root.send_failure(failure);
}

/// Where rank 0's machine does not even acknowledge what it was told, there is no way to it, and it
/// says nothing: this machine decides for itself. A rank 0 that is merely late is waited for.
void ControlAgent::check_proposal() {
  if (!proposed_ || decided_ || sought_since_ || Clock::now() - proposed_at_ < kAcknowledging)
    return;
  if (connections_.root.unacknowledged()) decide(*proposed_);
}

void ControlAgent::decide(const Failure& what) {
  if (std::exchange(decided_, true)) return;
  Failure failure = what;
  // What ends a job that survives deaths must not be taken for one that it survives.
  if (outlives()) failure.code = failure.error_code();
  decision_ = failure;
  answers_until_ = Clock::now() + kAnswering;
  block_.decide(failure, block_.ranks());  // where the next leader finds it
  for (auto* group : {&connections_.machines, &orphans_, &comers_}) {
    for (auto& [rank, connection] : *group) connection.send_failure(failure);
  }
  if (!is_root_) connections_.root.send(FrameKind::kHeard, me_);
  fail_exchange();
}

/// Who calls from now on is the next leader's.
void ControlAgent::hand_over() {
  if (handed_over()) connections_.listener = ControlListener();
}

void ControlAgent::say_goodbye() {
  const Deadline until = deadline_in(kGoodbyeSeconds);
  goodbye_until_ = until;
  hand_over();
  const auto say = [&](ControlConnection& connection) {
    if (!connection.open()) return;
    connection.send(FrameKind::kBye, me_, {}, round_);
    (void)connection.flush_by(until);
  };
  say(connections_.root);
  for (auto* group : {&connections_.machines, &connections_.members, &orphans_, &comers_}) {
    for (auto& [rank, connection] : *group) say(connection);
  }
  for (auto& [rank, branch] : branches_) (void)branch.flush_by(until);
}

}  // namespace ibcoll
