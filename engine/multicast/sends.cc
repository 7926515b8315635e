#include "engine/multicast/sends.h"

#include <algorithm>

#include "engine/base/clock.h"

namespace ibcoll {
namespace {

/// A root that has neither acknowledged nor said whom it waits for is late itself.
constexpr int64_t kSilentNs = 100'000'000;

}  // namespace

std::string MulticastSends::name(const MulticastSend& send) const {
  return fmt::format("multicast {} of rank {}", send.counter, services_.me);
}

/// Whom the oldest one that is under way waits for first.
Rank MulticastSends::oldest_root() const {
  const MulticastSend* oldest = nullptr;
  for (const auto& [counter, send] : sends_) {
    if (oldest == nullptr || counter < oldest->counter) oldest = send.get();
  }
  return oldest == nullptr || oldest->acked ? services_.me : oldest->root;
}

Status MulticastSends::check(const RankSet& set, size_t bytes,
                             const MulticastOptions& options) const {
  if (set.empty()) return fail(ErrorCode::kInvalidArgument, "a multicast to nobody");
  if (bytes > limit_) {
    return fail(ErrorCode::kNoMemory,
                "a message of {} bytes is longer than the memory for messages, {} bytes "
                "(IBCOLL_MULTICAST_MEMORY)",
                bytes, limit_);
  }
  if (!options.algorithm.empty() && options.algorithm != "auto") {
    IBCOLL_ASSIGN(const Algorithm* algorithm,
                  find_algorithm(Collective::kBcast, options.algorithm));
    if (algorithm->paced) {
      return fail(ErrorCode::kInvalidArgument,
                  "{} needs a plan for its ranks: a multicast can't go by it", algorithm->name);
    }
    if (!algorithm->relays && services_.job.servers() > 1) {
      return fail(ErrorCode::kInvalidArgument,
                  "{} sends to each rank itself: a multicast goes by the leaders of servers",
                  algorithm->name);
    }
  }
  if (const auto held = window_.held(set)) {
    if (held->late) {
      return fail(ErrorCode::kBusy, "rank {} is late: it lacks {} multicasts of rank {} already",
                  held->rank, held->under_way, services_.me);
    }
    return fail(ErrorCode::kBusy,
                "{} multicasts of rank {} are under way, as many as may be "
                "(IBCOLL_MULTICAST_WINDOW); the oldest waits for rank {}",
                held->under_way, services_.me, held->rank >= 0 ? held->rank : oldest_root());
  }
  return {};
}

Result<std::shared_ptr<MulticastSend>> MulticastSends::start(RankSet set, const std::byte* data,
                                                             size_t bytes,
                                                             const MulticastOptions& options) {
  IBCOLL_TRY(check(set, bytes, options));
  auto send = std::make_shared<MulticastSend>();
  send->set = std::move(set);
  send->options = options;
  send->options.algorithm = {};  // it need not stay
  send->begun_ns = now_ns();
  MulticastStart start;
  start.facts.bytes = bytes;
  start.facts.tag = options.tag;
  start.facts.pieces = options.pieces;
  if (options.algorithm != "auto") start.facts.algorithm = algorithm_number(options.algorithm);
  send->counter = window_.start(send->set, start.previous);
  ++sent_;
  sends_.emplace(send->counter, send);
  const MulticastId id{services_.me, send->counter};
  uint64_t own_previous = 0;
  if (const auto own = send->set.id_of(services_.me)) {
    send->self_done = false;
    start.facts.with_master = 1;
    start.set = send->set.without(services_.me);
    if (!start.previous.empty()) {
      own_previous = start.previous[static_cast<size_t>(*own)];
      start.previous.erase(start.previous.begin() + *own);
    }
  } else {
    start.set = send->set;
  }
  if (start.set.empty()) {
    send->acked = true;
  } else {
    send->root = start.set.rank_of(0);
    const std::span<const std::byte> short_data(data, start.facts.is_short() ? bytes : 0);
    const MulticastHead head{
        send->counter, services_.me, services_.me, MulticastMailKind::kStart, false, 0};
    outbox_.send(send->root, head, encode(start, send->counter), short_data);
    if (!start.facts.is_short()) {
      send->feed = make_multicast_feed(services_, id, send->root);
      // It is only read.
      IBCOLL_TRY(post_multicast_feed(services_, *send->feed, const_cast<std::byte*>(data), bytes));
      if (send->feed->under_way()) feeding_.push_back(send);
    }
  }
  if (!send->self_done)
    runs_.send_to_self(*send, start.facts, id, send->set.size(), own_previous, data);
  settle(*send);
  return send;
}

/// Whether the program has its answer, and whether there is anything left to follow.
void MulticastSends::settle(MulticastSend& send) {
  // Its data are read by the feed, and by this rank's own copy.
  if (!send.fed() || !send.self_done) return;
  if (send.acked || send.given_up || !send.options.acknowledged) send.completion.done = true;
  if (send.acked) sends_.erase(uint64_t{send.counter});
}

/// The root has answered, or never will.
void MulticastSends::over(MulticastSend& send, const MulticastMissing& missing) {
  if (send.acked) return;
  send.acked = true;
  if (!missing.ranks.empty()) {
    const Rank first = missing.ranks.rank_of(0);
    Rank dead = -1;
    missing.ranks.for_each([&](Rank rank) {
      if (dead < 0 && services_.executor.has_lost(rank)) dead = rank;
    });
    const std::string others = missing.ranks.size() == 1
                                   ? ""
                                   : fmt::format(" and {} other{}", missing.ranks.size() - 1,
                                                 missing.ranks.size() == 2 ? "" : "s");
    if (!send.given_up && !send.completion.done) {
      missing.ranks.for_each([&](Rank rank) { send.missing.push_back(rank); });
      send.result = dead >= 0 ? fail(ErrorCode::kPeerFailed, "rank {} has died: it{} may lack {}",
                                     dead, others, name(send))
                              : fail(missing.code, "rank {}{} may lack {}: {}", first, others,
                                     name(send), to_string(missing.code));
    }
    // A root that lacks it takes no more of the data.
    if (send.root >= 0 && missing.ranks.contains(send.root) && !send.fed())
      send.feed->end({send.root, missing.code, "the root lacks it"});
    // What comes later must not wait for it.
    missing.ranks.for_each([&](Rank rank) {
      if (rank == services_.me || services_.executor.has_lost(rank)) return;
      const MulticastHead head{
          send.counter, services_.me, services_.me, MulticastMailKind::kSkip, false, 0};
      outbox_.send(rank, head, encode_previous_one(window_.previous_of(send.counter, rank)));
    });
  }
  if (send.self_done) return window_.finish(send.counter);
  // Only this rank lacks it.
  window_.late(send.counter, RankSet::interval(services_.me, services_.me + 1));
}

Status MulticastSends::acknowledge(const MulticastAssembly::Whole& message) {
  IBCOLL_ASSIGN(const MulticastMissing missing,
                decode_missing(message.body, services_.job.ranks()));
  const auto found = sends_.find(message.head.counter);
  if (found == sends_.end()) return {};
  const std::shared_ptr<MulticastSend> send = found->second;
  over(*send, missing);
  settle(*send);
  return {};
}

Status MulticastSends::note_late(const MulticastAssembly::Whole& message) {
  IBCOLL_ASSIGN(MulticastMissing late, decode_missing(message.body, services_.job.ranks()));
  const auto found = sends_.find(message.head.counter);
  if (found == sends_.end() || found->second->acked || late.ranks.empty()) return {};
  MulticastSend& send = *found->second;
  send.heard = true;
  send.late = std::move(late.ranks);
  if (!send.self_done) {
    std::vector<Rank> all = send.late.members();
    all.push_back(services_.me);
    window_.late(send.counter, *RankSet::create(all, services_.job.ranks()));
  } else {
    window_.late(send.counter, send.late);
  }
  return {};
}

void MulticastSends::own_is_done(MulticastSend& send, const Error* error) {
  send.self_done = true;
  if (error != nullptr && !send.given_up) {
    if (send.result) send.result = tl::unexpected<Error>(*error);
    send.missing.push_back(services_.me);
  }
  if (send.acked) window_.finish(send.counter);
  const auto found = sends_.find(send.counter);
  if (found == sends_.end()) return;
  const std::shared_ptr<MulticastSend> stays = found->second;
  settle(*stays);
}

void MulticastSends::give_up(MulticastSend& send, ErrorCode why, std::string_view text) {
  if (send.completion.done || send.given_up) return;
  send.given_up = true;
  if (!send.self_done) send.missing.push_back(services_.me);
  if (!send.acked) {
    (send.heard ? send.late : send.set).for_each([&](Rank rank) {
      if (rank != services_.me) send.missing.push_back(rank);
    });
  }
  const Rank first = send.heard && !send.late.empty() ? send.late.rank_of(0)
                     : send.acked                     ? services_.me
                                                      : send.root;
  send.result =
      fail(why, "{} {}: rank {}{} has not acknowledged it", name(send), text, first,
           send.missing.size() > 1 ? fmt::format(", and {} others, maybe,", send.missing.size() - 1)
                                   : "");
  if (!send.fed()) send.feed->end({first, why, send.result.error().message});
  if (!send.self_done) runs_.give_up_own({services_.me, send.counter});
  const auto found = sends_.find(send.counter);
  if (found == sends_.end()) return;
  const std::shared_ptr<MulticastSend> stays = found->second;
  settle(*stays);
}

bool MulticastSends::advance() {
  bool moved = false;
  for (size_t i = feeding_.size(); i-- > 0;) {
    if (feeding_[i]->feed->under_way()) continue;
    const std::shared_ptr<MulticastSend> send = std::move(feeding_[i]);
    feeding_[i] = std::move(feeding_.back());
    feeding_.pop_back();
    settle(*send);
    moved = true;
  }
  return moved;
}

void MulticastSends::look_after(int64_t now) {
  std::vector<std::shared_ptr<MulticastSend>> all;
  for (const auto& entry : sends_) all.push_back(entry.second);
  for (const std::shared_ptr<MulticastSend>& send : all) {
    const int64_t waited = now - send->begun_ns;
    if (!send->acked && !send->heard && waited >= kSilentNs) {
      send->heard = true;
      send->late = RankSet::interval(send->root, send->root + 1);
      window_.late(send->counter, send->late);
    }
    const int64_t limit = send->options.time_limit_ns;
    if (limit != 0 && waited >= limit) {
      give_up(*send, ErrorCode::kDeadline,
              fmt::format("has passed its deadline of {:.3g} s", static_cast<double>(limit) / 1e9));
    }
  }
}

void MulticastSends::lose(Rank rank) {
  std::vector<std::shared_ptr<MulticastSend>> all;
  for (const auto& entry : sends_) all.push_back(entry.second);
  for (const std::shared_ptr<MulticastSend>& send : all) {
    if (send->root != rank || send->acked) continue;
    // Whom it has reached nobody knows.
    RankSet set = send->set.contains(services_.me) ? send->set.without(services_.me) : send->set;
    if (!send->fed()) {
      send->feed->end({rank, ErrorCode::kRankDied, fmt::format("rank {} has died", rank)});
    }
    over(*send, {ErrorCode::kPeerFailed, std::move(set)});
    settle(*send);
  }
}

}  // namespace ibcoll
