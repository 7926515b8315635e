#include "engine/multicast/sends.h"

#include <algorithm>

#include "engine/base/clock.h"
#include "engine/base/data_hash.h"
#include "engine/multicast/choice.h"

namespace ibcoll {
namespace {

/// A root that has neither acknowledged nor said whom it waits for is late itself.
constexpr int64_t kSilentNs = 2 * kLateMulticastNs;

}  // namespace

MulticastSends::MulticastSends(const MulticastServices& services, MulticastOutbox& outbox,
                               MulticastRuns& runs, uint32_t window, size_t limit)
    : services_(services),
      outbox_(outbox),
      runs_(runs),
      window_(services.job.ranks(), window),
      limit_(limit) {}
MulticastSends::~MulticastSends() = default;

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
    IBCOLL_TRY(check_multicast(*algorithm, services_.job.servers()));
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
  if (services_.checks) start.facts.hash = hash_data({const_cast<std::byte*>(data)}, bytes);
  if (options.algorithm != "auto") start.facts.algorithm = algorithm_number(options.algorithm);
  send->counter = window_.start(send->set, start.previous);
  ++sent_;
  sends_.emplace(send->counter, send);
  const MulticastId id{services_.me, send->counter};
  if (const auto own = send->set.id_of(services_.me)) {
    send->self_done = false;
    start.facts.with_master = 1;
    start.set = send->set.without(services_.me);
    if (!start.previous.empty()) start.previous.erase(start.previous.begin() + *own);
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
  if (!send->self_done) runs_.send_to_self(*send, start.facts, id, send->set.size(), data);
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

/// Members that acknowledge to this rank itself.
void MulticastSends::count_direct(MulticastSend& send) const {
  if (send.counted) return;
  send.counted = true;
  if (send.root < 0 || !services_.job.same_server(send.root, services_.me)) return;
  send.set.for_each([&](Rank rank) {
    if (rank != services_.me && rank != send.root && services_.job.same_server(rank, send.root))
      send.direct.push_back(rank);
  });
  if (!acknowledge_directly(true, send.direct.size())) send.direct.clear();
  send.directly = !send.direct.empty();
}

/// Members that have not acknowledged to this rank, and need not have it.
RankSet MulticastSends::unanswered(const MulticastSend& send) const {
  std::vector<Rank> ranks;
  send.set.for_each([&](Rank rank) {
    const bool answers_here =
        send.directly && rank != send.root && services_.job.same_server(rank, send.root);
    const bool waits = std::find(send.direct.begin(), send.direct.end(), rank) != send.direct.end();
    if (rank != services_.me && (!answers_here || waits)) ranks.push_back(rank);
  });
  return *RankSet::create(ranks, services_.job.ranks());  // they are of the job
}

/// Whom it waits for now, as far as this rank knows.
RankSet MulticastSends::awaited(const MulticastSend& send) const {
  std::vector<Rank> ranks = send.direct;
  if (!send.self_done) ranks.push_back(services_.me);
  if (!send.root_answered && send.root >= 0) {
    if (send.late_below.empty()) ranks.push_back(send.root);
    send.late_below.for_each([&](Rank rank) { ranks.push_back(rank); });
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return *RankSet::create(ranks, services_.job.ranks());  // they are of the job
}

/// From now on it counts against those it waits for.
void MulticastSends::note_late(MulticastSend& send) {
  count_direct(send);
  send.late = true;
  const RankSet ranks = awaited(send);
  if (!ranks.empty()) window_.late(send.counter, ranks);
}

void MulticastSends::name_missing(MulticastSend& send, const RankSet& ranks, ErrorCode code) {
  if (ranks.empty()) return;
  send.named.code = code;
  std::vector<Rank> all = send.named.ranks.members();
  ranks.for_each([&](Rank rank) {
    if (!send.named.ranks.contains(rank)) all.push_back(rank);
  });
  send.named.ranks = *RankSet::create(all, services_.job.ranks());
}

void MulticastSends::look_whether_over(MulticastSend& send) {
  if (send.root_answered && send.direct.empty()) {
    over(send);
  } else if (send.late) {
    note_late(send);
  }
  settle(send);
}

/// All have answered, or never will.
void MulticastSends::over(MulticastSend& send) {
  if (send.acked) return;
  send.acked = true;
  const MulticastMissing& missing = send.named;
  if (!missing.ranks.empty()) {
    const Rank first = missing.ranks.rank_of(0);
    Rank dead = -1, gone = -1;
    missing.ranks.for_each([&](Rank rank) {
      if (dead < 0 && services_.executor.has_lost(rank)) dead = rank;
      if (gone < 0 && services_.executor.has_gone(rank)) gone = rank;
    });
    const std::string others = missing.ranks.size() == 1
                                   ? ""
                                   : fmt::format(" and {} other{}", missing.ranks.size() - 1,
                                                 missing.ranks.size() == 2 ? "" : "s");
    if (!send.given_up && !send.completion.done) {
      missing.ranks.for_each([&](Rank rank) { send.missing.push_back(rank); });
      if (const Rank culprit = dead >= 0 ? dead : gone; culprit >= 0) {
        // One whose process has ended may have left in order before.
        send.result = fail(ErrorCode::kPeerFailed, "{}: it{} may lack {}",
                           dead >= 0 ? services_.executor.why_lost(culprit)
                                     : fmt::format("rank {} has left the job", culprit),
                           others, name(send));
      } else {
        send.result = fail(missing.code, "rank {}{} may lack {}: {}", first, others, name(send),
                           to_string(missing.code));
      }
    }
    // What comes later must not wait for it.
    missing.ranks.for_each([&](Rank rank) {
      if (rank == services_.me || services_.executor.has_lost(rank) ||
          services_.executor.has_gone(rank))
        return;
      const MulticastHead head{
          send.counter, services_.me, services_.me, MulticastMailKind::kSkip, false, 0};
      outbox_.send(rank, head, encode_previous_one(window_.previous_of(send.counter, rank)));
    });
  }
  if (send.self_done) return window_.finish(send.counter);
  note_late(send);  // only this rank lacks it
}

Status MulticastSends::acknowledge(const MulticastAssembly::Whole& message) {
  IBCOLL_ASSIGN(const MulticastMissing missing,
                decode_missing(message.body, services_.job.ranks()));
  const auto found = sends_.find(message.head.counter);
  if (found == sends_.end()) return {};
  const std::shared_ptr<MulticastSend> send = found->second;
  count_direct(*send);
  if (message.head.from == send->root) send->root_answered = true;
  std::erase(send->direct, message.head.from);
  name_missing(*send, missing.ranks, missing.code);
  // A root that lacks it takes no more of the data.
  if (missing.ranks.contains(send->root) && !send->fed())
    send->feed->end({send->root, missing.code, "the root lacks it"});
  look_whether_over(*send);
  return {};
}

Status MulticastSends::note_late(const MulticastAssembly::Whole& message) {
  IBCOLL_ASSIGN(MulticastMissing late, decode_missing(message.body, services_.job.ranks()));
  const auto found = sends_.find(message.head.counter);
  if (found == sends_.end() || found->second->acked || late.ranks.empty()) return {};
  if (message.head.from == found->second->root) found->second->late_below = std::move(late.ranks);
  note_late(*found->second);
  return {};
}

void MulticastSends::own_is_done(MulticastSend& send, const Error* error) {
  send.self_done = true;
  if (error != nullptr && !send.given_up) {
    if (send.result) send.result = tl::unexpected<Error>(*error);
    send.missing.push_back(services_.me);
  }
  if (send.acked) {
    window_.finish(send.counter);
  } else if (send.late) {
    note_late(send);
  }
  const auto found = sends_.find(send.counter);
  if (found == sends_.end()) return;
  const std::shared_ptr<MulticastSend> stays = found->second;
  settle(*stays);
}

void MulticastSends::give_up(MulticastSend& send, ErrorCode why, std::string_view text) {
  if (send.completion.done || send.given_up) return;
  send.given_up = true;
  if (!send.self_done) send.missing.push_back(services_.me);
  count_direct(send);
  const RankSet waits_for = awaited(send);
  // What lies below a root that has not said whom it waits for nobody knows.
  const bool all = !send.root_answered && send.late_below.empty();
  for (const RankSet& lack : {all ? unanswered(send) : waits_for, send.named.ranks}) {
    lack.for_each([&](Rank rank) {
      if (rank != services_.me) send.missing.push_back(rank);
    });
  }
  std::sort(send.missing.begin(), send.missing.end());
  send.missing.erase(std::unique(send.missing.begin(), send.missing.end()), send.missing.end());
  const Rank first = waits_for.empty() ? services_.me : waits_for.rank_of(0);
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
    const int64_t patience = send->root_answered ? kLateMulticastNs : kSilentNs;
    if (!send->acked && !send->late && waited >= patience) note_late(*send);
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
    if (send->acked) continue;
    count_direct(*send);
    const size_t waited = send->direct.size();
    std::erase(send->direct, rank);
    if (send->direct.size() != waited)
      name_missing(*send, RankSet::interval(rank, rank + 1), ErrorCode::kPeerFailed);
    // One that has answered has done so for itself alone, where members answer to this rank: what
    // it was to tell them may have waited for room, and is gone with it.
    if (send->root == rank) {
      send->root_answered = true;
      if (!send->fed()) {
        send->feed->end(services_.executor.has_lost(rank)
                            ? Failure{rank, ErrorCode::kRankDied, services_.executor.why_lost(rank)}
                            : rank_has_left(rank));
      }
      // Whom it has told of the message before nobody knows.
      name_missing(*send, unanswered(*send), ErrorCode::kPeerFailed);
      send->direct.clear();
    }
    look_whether_over(*send);
  }
}

}  // namespace ibcoll
