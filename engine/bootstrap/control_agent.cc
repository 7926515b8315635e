#include "engine/bootstrap/control_agent.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cstring>

namespace ibcoll {
namespace {

Failure death_of(Rank rank) {
  return {rank, ErrorCode::kPeerFailed, fmt::format("rank {} has died", rank)};
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

Result<std::unique_ptr<ControlAgent>> ControlAgent::start(Rank me, ControlBlock& block,
                                                          ControlLinks links) {
  std::unique_ptr<ControlAgent> agent(new ControlAgent(me, block, std::move(links)));
  agent->wake_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!agent->wake_.valid()) return fail_errno("cannot create an eventfd");
  agent->process_ = getpid();
  // Signals are for the program's own threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  agent->thread_ = std::thread([raw = agent.get()] { raw->run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return agent;
}

ControlAgent::~ControlAgent() {
  if (!thread_.joinable()) return;
  if (getpid() !=
      process_) {  // a forked child has no such thread, and these are its parent's links
    thread_.detach();
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  eventfd_write(wake_.get(), 1);
  thread_.join();
}

Status ControlAgent::exchange(std::span<const std::byte> mine, size_t bytes,
                              std::span<std::byte> all) {
  std::unique_lock lock(mutex_);
  exchanging_ = true;
  outgoing_.emplace();
  outgoing_->kind = FrameKind::kGather;
  outgoing_->rank = static_cast<int32_t>(bytes);
  outgoing_->payload.assign(mine.begin(), mine.end());
  eventfd_write(wake_.get(), 1);
  changed_.wait(lock, [this] { return result_ || failed_; });
  if (!result_) {
    const Failure failure = block_.failure().value_or(Failure{});
    return tl::unexpected<Error>(Error{failure.code, failure.what});
  }
  std::copy(result_->begin(), result_->end(), all.begin());
  result_.reset();
  return {};
}

void ControlAgent::run() {
  std::vector<pollfd> watched;
  std::vector<std::pair<ControlLink*, Rank>> links;
  while (true) {
    watched.assign({{wake_.get(), POLLIN, 0}, {block_.failure_fd(), POLLIN, 0}});
    links.clear();
    const auto watch = [&](ControlLink& link, Rank peer) {
      if (!link.open()) return;
      watched.push_back({link.fd(), POLLIN, 0});
      links.emplace_back(&link, peer);
    };
    watch(links_.root, 0);
    for (auto& [rank, link] : links_.machines) watch(link, rank);
    for (auto& [rank, link] : links_.members) watch(link, rank);
    if (poll(watched.data(), watched.size(), -1) < 0) continue;  // interrupted
    eventfd_t ignored = 0;
    if (watched[1].revents != 0) eventfd_read(block_.failure_fd(), &ignored);
    if (const auto proposal = block_.proposal()) propose(*proposal);
    for (size_t i = 0; i < links.size(); ++i) {
      if (watched[i + 2].revents != 0) serve(*links[i].first, links[i].second);
    }
    if (watched[0].revents != 0) {
      eventfd_read(wake_.get(), &ignored);
      take_outgoing();
      const std::lock_guard lock(mutex_);
      if (stop_) break;
    }
  }
  say_goodbye();
}

void ControlAgent::serve(ControlLink& link, Rank peer) {
  Result<Frame> frame = link.receive();
  if (frame && frame->kind != FrameKind::kBye) return handle(std::move(*frame), peer);
  const bool in_order = frame.has_value();
  const bool member = links_.members.count(peer) > 0 && &link == &links_.members[peer];
  link.close();
  if (!in_order) return lost(peer);
  if (member) return;
  left_ = peer;
  eventfd_write(wake_.get(), 1);  // an exchange under way can't end any more
}

void ControlAgent::handle(Frame frame, Rank peer) {
  switch (frame.kind) {
    case FrameKind::kGather:
      gather(peer, std::move(frame));
      break;
    case FrameKind::kAll:
      give(std::move(frame.payload));
      break;
    case FrameKind::kFailure: {
      const Failure failure{frame.rank, static_cast<ErrorCode>(frame.code), frame.text()};
      if (me_ == 0)
        propose(failure);
      else
        decide(failure);
      break;
    }
    default:
      break;
  }
}

/// A connection ended without a goodbye. The failure ends all waiting: the rank is not marked as
/// departed, or a waiter's report of that could come before this one.
void ControlAgent::lost(Rank peer) {
  const Failure failure = death_of(peer);
  const auto& here = block_.job_ranks();
  const auto place = std::find(here.begin(), here.end(), peer);
  if (place != here.end()) block_.finish_report(static_cast<Rank>(place - here.begin()), failure);
  if (peer == 0)
    decide(failure);  // nobody is left to ask
  else
    propose(failure);
}

/// Takes what this machine gives to an allgather on its way.
void ControlAgent::take_outgoing() {
  std::optional<Frame> mine;
  bool exchanging = false;
  {
    const std::lock_guard lock(mutex_);
    mine.swap(outgoing_);
    exchanging = exchanging_;
    if (exchanging && decided_) {
      failed_ = true;
      changed_.notify_all();
      return;
    }
  }
  if (exchanging && left_) {
    const Failure failure{*left_, ErrorCode::kPeerFailed,
                          fmt::format("rank {} ended while others still wait for it", *left_)};
    return propose(failure);
  }
  if (!mine) return;
  if (me_ == 0)
    gather(0, std::move(*mine));
  else if (!links_.root.send(FrameKind::kGather, mine->rank, mine->payload))
    lost(0);
}

/// Rank 0: one machine's part of an allgather; with the last one, everybody gets all of it.
void ControlAgent::gather(Rank leader, Frame frame) {
  gathered_[leader] = std::move(frame);
  if (gathered_.size() <= links_.machines.size()) return;
  const int32_t bytes = gathered_[0].rank;
  std::map<Rank, size_t> next;  // of each machine's part
  std::vector<std::byte> all(links_.leader_of.size() * static_cast<size_t>(bytes));
  for (size_t rank = 0; rank < links_.leader_of.size(); ++rank) {
    const Rank from = links_.leader_of[rank];
    const Frame& part = gathered_[from];
    const size_t offset = next[from]++ * static_cast<size_t>(bytes);
    if (part.rank != bytes || offset + static_cast<size_t>(bytes) > part.payload.size()) {
      return decide({from, ErrorCode::kMismatch,
                     fmt::format("ranks disagree in an allgather or barrier: rank 0 gives {} "
                                 "bytes, rank {} gives {}",
                                 bytes, from, part.rank)});
    }
    if (bytes > 0)
      std::memcpy(all.data() + rank * static_cast<size_t>(bytes), part.payload.data() + offset,
                  static_cast<size_t>(bytes));
  }
  gathered_.clear();
  for (auto& [rank, link] : links_.machines) {
    if (!link.send(FrameKind::kAll, -1, all)) return lost(rank);
  }
  give(std::move(all));
}

/// Ends this machine's exchange.
void ControlAgent::give(std::vector<std::byte> all) {
  const std::lock_guard lock(mutex_);
  result_ = std::move(all);
  exchanging_ = false;
  changed_.notify_all();
}

/// Rank 0's agent says which failure counts; the others ask it.
void ControlAgent::propose(const Failure& failure) {
  if (decided_) return;
  if (!links_.root.open()) return decide(failure);
  if (std::exchange(proposed_, true)) return;
  if (!links_.root.send(FrameKind::kFailure, failure.culprit, bytes_of(failure.what),
                        static_cast<int32_t>(failure.code)))
    lost(0);
}

void ControlAgent::decide(const Failure& failure) {
  if (std::exchange(decided_, true)) return;
  for (auto& [rank, link] : links_.machines) {
    if (link.open())
      (void)link.send(FrameKind::kFailure, failure.culprit, bytes_of(failure.what),
                      static_cast<int32_t>(failure.code));
  }
  block_.decide(failure, block_.ranks());
  const std::lock_guard lock(mutex_);
  failed_ = true;
  changed_.notify_all();
}

void ControlAgent::say_goodbye() {
  if (links_.root.open()) (void)links_.root.send(FrameKind::kBye, me_);
  for (auto* group : {&links_.machines, &links_.members}) {
    for (auto& [rank, link] : *group) {
      if (link.open()) (void)link.send(FrameKind::kBye, me_);
    }
  }
}

}  // namespace ibcoll
