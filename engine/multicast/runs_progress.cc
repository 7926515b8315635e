// How the message of a run comes to this rank, and what follows.

#include <algorithm>
#include <cstring>

#include "engine/algorithms/server_tree.h"
#include "engine/base/copy.h"
#include "engine/base/data_hash.h"
#include "engine/base/hash.h"
#include "engine/multicast/choice.h"
#include "engine/multicast/runs.h"
#include "engine/tuner/choose.h"

namespace ibcoll {
namespace {

/// Groups of multicasts are never taken for those of programs.
uint64_t group_key(MulticastId id, uint64_t which) {
  const uint64_t key = mix(mix(mix(0, static_cast<uint64_t>(id.master)), id.counter), which);
  return key | kByArrivalKey;
}

/// The feed goes from rank 0, the master, to rank 1.
Result<Shape> feed_shape(bool same_server) {
  if (same_server) return Shape::single_server(2);
  return Shape::create({0, 1});
}

}  // namespace

std::unique_ptr<MulticastTransfer> make_multicast_feed(const MulticastServices& services,
                                                       MulticastId id, Rank root) {
  Shape shape = *feed_shape(services.job.same_server(id.master, root));  // it can't be wrong
  return std::make_unique<MulticastTransfer>(services.executor, std::move(shape),
                                             services.me == root ? 1 : 0,
                                             std::vector<Rank>{id.master, root}, group_key(id, 0));
}

Status post_multicast_feed(const MulticastServices& services, MulticastTransfer& feed,
                           std::byte* data, size_t bytes) {
  const Choice choice = choose({.collective = Collective::kBcast,
                                .shape = feed.shape(),
                                .block_bytes = static_cast<int64_t>(bytes),
                                .by_leaders = true});
  IBCOLL_ASSIGN(const Algorithm* algorithm, find_algorithm(Collective::kBcast, choice.algorithm));
  const uint32_t pieces = choice.pieces;
  AlgorithmOptions options;
  algorithm->set_pieces(pieces, options);
  const auto agreed = static_cast<uint32_t>(mix(mix(0, bytes), pieces));
  return feed.post(services.program(*algorithm, feed.shape(), feed.me(), options), data, bytes,
                   pieces, agreed, nullptr);
}

/// Messages of one master take memory in its order: one that waits for an earlier one to be handed
/// over gives nothing back, so that one must not be left without.
bool MulticastRuns::must_wait_for_earlier(const MulticastRun& run) const {
  if (!order_.knows(run.id.master, run.previous)) return true;
  return std::any_of(hungry_.begin(), hungry_.end(), [&](const MulticastRun* other) {
    return other->id.master == run.id.master && other->id.counter < run.id.counter;
  });
}

/// Memory for the message, or a place among those that wait for it. True if it is there.
bool MulticastRuns::feed_memory(MulticastRun& run) {
  if (run.facts.bytes != 0 && must_wait_for_earlier(run)) return false;
  // Two messages may each hold on one rank the memory that the other one lacks on another. So the
  // first one of each master that is not there yet gets its memory beyond all limits, unless it is
  // the program that keeps that master's.
  const bool must = order_.is_next(run.id.master, run.previous) && !kept_.contains(run.id.master);
  const auto memory = pool_.take(run.id.master, run.facts.bytes, must);
  if (!memory) {
    end(run, memory.error().code);
    return false;
  }
  run.has_memory = memory->has_value();
  if (run.has_memory) run.buffer = **memory;
  return run.has_memory;
}

/// The message is there. If it is another one than the master has sent nobody gets it: the job
/// ends.
void MulticastRuns::complete(MulticastRun& run) {
  if (services_.checks && run.has_memory) {
    const uint64_t hash = hash_data({run.buffer}, run.facts.bytes);
    if (hash != run.facts.hash) {
      const auto algorithm = algorithm_of(run.facts.algorithm);
      const bool by_algorithm = run.own == nullptr && !run.facts.is_short() && algorithm;
      return services_.executor.abort(
          {run.id.master, ErrorCode::kMismatch,
           fmt::format("multicast {} of rank {} ({}): rank {} has received other data than rank {} "
                       "has sent to it: block 0 of 1, {} bytes, hash {:016x} instead of {:016x} "
                       "(IBCOLL_CHECK)",
                       run.id.counter, run.id.master,
                       by_algorithm ? (*algorithm)->name : "announcement", services_.me,
                       run.id.master, run.facts.bytes, hash, run.facts.hash)});
    }
  }
  run.complete = true;
}

void MulticastRuns::fill(MulticastRun& run) {
  if (run.over) return;
  const bool is_short = run.facts.is_short();
  // Who does not hand it over needs no memory of its own to pass it on. What is its own it does.
  if (!is_short || run.wanted) {
    if (!feed_memory(run)) {
      if (!run.over && !run.hungry) hungry_.push_back(&run);
      run.hungry = !run.over;
      return;
    }
  }
  if (run.own != nullptr) {
    copy_plain(run.buffer, run.message.data, run.facts.bytes);
  } else if (is_short) {
    if (run.wanted && !run.short_data.empty())
      std::memcpy(run.buffer, run.short_data.data(), run.short_data.size());
    run.short_data = std::vector<std::byte>();
  }
  run.message.data = run.buffer;
  if (is_short || run.own != nullptr) return complete(run);
  const Status posted = post(run);
  if (!posted && posted.error().scope == Scope::kGroup) {
    // Another rank has ended it before it came here.
    end(run, posted.error().code);
  } else if (!posted) {
    services_.executor.give_up(posted.error());
  }
  look_at(run);
}

/// Has it looked at in each round, as long as data are under way.
void MulticastRuns::look_at(MulticastRun& run) {
  if (run.moves || (!run.transfers_under_way() && run.over)) return;
  moving_.push_back(&run);
  run.moves = true;
}

Status MulticastRuns::post(MulticastRun& run) {
  IBCOLL_ASSIGN(const Algorithm* algorithm, algorithm_of(run.facts.algorithm));
  if (run.is_root) IBCOLL_TRY(post_feed(run));
  make_distribution(run);
  if (const Rank lost = lost_leader(run); lost >= 0)
    return tl::unexpected<Error>(
        Error{ErrorCode::kPeerFailed, services_.executor.why_lost(lost), Scope::kGroup});
  return run.distribution ? post_distribution(run, *algorithm) : Status{};
}

/// Whether the data do not come to all leaders without that one, who is dead. In a tree those that
/// it would have passed them on to are not told of the multicast either.
bool MulticastRuns::needs(const MulticastRun& run, Rank rank) const {
  return run.distribution && run.part && run.part->role().relatives != Relatives::kChildren &&
         !services_.job.same_server(rank, services_.me) && run.distribution->includes(rank);
}

/// A dead rank that the data do not come without; -1: there is none.
Rank MulticastRuns::lost_leader(const MulticastRun& run) const {
  for (const Failure& death : services_.executor.deaths())
    if (needs(run, death.culprit)) return death.culprit;
  return -1;
}

Status MulticastRuns::post_feed(MulticastRun& run) {
  run.feed = make_multicast_feed(services_, run.id, services_.me);
  return post_multicast_feed(services_, *run.feed, run.buffer, run.facts.bytes);
}

/// Group ranks: the leaders, by place, then the other members of this server. None where there is
/// nobody else.
void MulticastRuns::make_distribution(MulticastRun& run) {
  const bool leads = run.part.has_value();
  const int servers = leads ? run.part->role().servers : run.local.servers;
  const int place = leads ? run.part->role().place : run.local.place;
  const int locals = leads ? static_cast<int>(run.part->locals().size()) : run.local.locals;
  if (servers == 1 && locals == 1) return;
  const int members = servers + locals - 1;
  std::vector<int> server_of(static_cast<size_t>(members), place);
  for (int i = 0; i < servers; ++i) server_of[i] = i;
  std::vector<Rank> to_job(static_cast<size_t>(members), -1);
  Rank me = place;
  if (leads) {
    run.part->name_leaders(to_job);
    if (!run.is_root) to_job[BinomialTree{servers}.parent(place)] = run.parent;
    for (int i = 1; i < locals; ++i) to_job[servers + i - 1] = run.part->locals()[i];
  } else {
    me = servers + run.local.local - 1;
    to_job[place] = run.parent;
  }
  to_job[me] = services_.me;
  run.distribution = std::make_unique<MulticastTransfer>(
      services_.executor, *Shape::create(server_of), me, std::move(to_job),
      group_key(run.id, 1));  // a shape that can't be wrong
}

Status MulticastRuns::post_distribution(MulticastRun& run, const Algorithm& algorithm) {
  MulticastTransfer& distribution = *run.distribution;
  AlgorithmOptions options;
  algorithm.set_pieces(run.facts.pieces, options);
  ProgramPtr program =
      services_.program(algorithm, distribution.shape(), distribution.me(), options);
  for (const MulticastRun::Child& child : run.children) {
    if (child.takes_none || services_.executor.has_lost(child.rank)) distribution.lose(child.rank);
  }
  const int servers = run.part ? run.part->role().servers : run.local.servers;
  const uint64_t agreed =
      mix(mix(mix(mix(0, run.facts.algorithm), run.facts.bytes), run.facts.pieces), servers);
  return distribution.post(std::move(program), run.buffer, run.facts.bytes, run.facts.pieces,
                           static_cast<uint32_t>(agreed), run.is_root ? &run.available : nullptr);
}

/// True if it has moved.
bool MulticastRuns::advance(MulticastRun& run) {
  bool moved = false;
  const MulticastTransfer* const source = run.is_root ? run.feed.get() : run.distribution.get();
  if (!run.complete && !run.over && source != nullptr) {
    if (run.is_root) run.available = source->received();
    if (source->has_received()) {
      moved = true;
      run.available = run.facts.bytes;
      complete(run);
    }
  }
  for (const MulticastTransfer* transfer : {run.feed.get(), run.distribution.get()}) {
    if (transfer != nullptr && transfer->error() != nullptr && !run.over) {
      end(run, transfer->error()->code);
      moved = true;
    }
  }
  if (run.transfers_under_way()) return moved;
  run.moves = false;
  return true;
}

bool MulticastRuns::advance() {
  bool moved = false;
  if (!hungry_.empty()) {
    // Those of a master whose share is used up let others go first.
    const size_t count = hungry_.size();
    for (size_t i = 0; i < count && !hungry_.empty(); ++i) {
      MulticastRun& run = *hungry_.front();
      hungry_.pop_front();
      run.hungry = false;
      fill(run);
      if (run.hungry) continue;
      moved = true;
      settle(run);
    }
  }
  for (size_t i = moving_.size(); i-- > 0;) {
    MulticastRun& run = *moving_[i];
    const bool run_moved = advance(run);
    if (!run.moves) {
      moving_[i] = moving_.back();
      moving_.pop_back();
    }
    if (run_moved) settle(run);
    moved |= run_moved;
  }
  return moved;
}

/// It does not come, or not to all below: whoever has not acknowledged lacks it.
void MulticastRuns::end(MulticastRun& run, ErrorCode why, Others others) {
  if (run.over) return;
  run.over = true;
  run.why = why;
  if (run.hungry) std::erase(hungry_, &run);
  run.hungry = false;
  for (MulticastRun::Child& child : run.children) {
    const bool direct = child.acked && child.place < 0;  // or it has the message
    if (child.acked && !direct) continue;
    if (!services_.executor.has_lost(child.rank))
      send(child.rank, MulticastMailKind::kDrop, run, {});
    give_up_child(run, child);
  }
  // Those that have still to post it tell their masters that code.
  const Failure failure{services_.me, why,
                        fmt::format("rank {} has ended multicast {} of rank {}", services_.me,
                                    run.id.counter, run.id.master)};
  if (run.feed && run.feed->under_way()) run.feed->end(failure);
  // Other leaders may wait for this one. Who leads nobody is given up by its leader alone.
  if (!run.complete && run.part && run.part->role().servers > 1 && !run.facts.is_short() &&
      run.distribution == nullptr)
    make_distribution(run);
  if (run.distribution &&
      (run.distribution->under_way() || !run.complete || others == Others::kAreTold))
    run.distribution->end(failure);
  if (!run.complete) {
    run.missing.push_back(services_.me);
    run.freed = true;
    std::vector<DeliveryOrder::MessageName> ready;
    if (run.wanted) order_.skip(run.id.master, run.id.counter, run.previous, ready);
    hand_over(ready);
  }
}

/// What follows from how far it is. The run may be gone afterwards.
void MulticastRuns::settle(MulticastRun& run) {
  if (run.complete && run.wanted) {
    std::vector<DeliveryOrder::MessageName> ready;
    order_.complete(run.id.master, run.id.counter, ready);
    hand_over(ready);
  }
  if ((run.complete || run.over) && run.unacked == 0 && !run.acked) {
    run.acked = true;
    --open_;
    if (run.own != nullptr) {
      const Error error{run.why, "no memory for the message that it sends to itself"};
      own_is_done_(*run.own, run.complete ? nullptr : &error);
    } else if (run.listens) {
      MulticastMissing missing{run.why, {}};
      std::sort(run.missing.begin(), run.missing.end());
      run.missing.erase(std::unique(run.missing.begin(), run.missing.end()), run.missing.end());
      if (auto set = RankSet::create(run.missing, services_.job.ranks())) missing.ranks = *set;
      const std::vector<std::byte> body = encode(missing);
      send(run.listener, MulticastMailKind::kAck, run, body);
      // Who was to send the data to it must know that it takes none.
      if (run.listener != run.parent && run.over)
        send(run.parent, MulticastMailKind::kAck, run, body);
    }
  }
  if (!run.acked || !run.freed || run.transfers_under_way() || run.moves) return;
  if (run.has_memory) pool_.give_back(run.id.master, run.buffer, run.facts.bytes);
  if (run.handed_over && --kept_.at(run.id.master) == 0) kept_.erase(run.id.master);
  runs_.erase(MulticastId(run.id));
}

void MulticastRuns::hand_over(const std::vector<DeliveryOrder::MessageName>& ready) {
  for (const auto& [master, counter] : ready) {
    const auto run = runs_.find({master, counter});
    if (run == runs_.end()) continue;
    auto& kept = kept_[master];
    ready_.push_back(run->second.get());
    // There was memory for both: what counts one is counted once.
    run->second->handed_over = true;
    ++kept;
    ++received_;
  }
}

MulticastRun& MulticastRuns::take_ready() {
  MulticastRun& run = *ready_.front();
  ready_.pop_front();
  return run;
}

void MulticastRuns::drop_ready(Rank master) {
  std::vector<MulticastRun*> dropped;
  std::erase_if(ready_, [&](MulticastRun* run) {
    if (run->id.master != master) return false;
    dropped.push_back(run);
    return true;
  });
  for (MulticastRun* const run : dropped) free(*run);
}

void MulticastRuns::free(MulticastRun& run) {
  run.freed = true;
  settle(run);
}

void MulticastRuns::lose(Rank rank) {
  std::vector<MulticastRun*> all;
  for (const auto& entry : runs_) all.push_back(entry.second.get());
  for (MulticastRun* const run : all) {
    for (MulticastRun::Child& child : run->children) {
      if (child.rank != rank) continue;
      give_up_child(*run, child);
      if (run->distribution) run->distribution->lose(rank);
    }
    if (run->listener == rank) run->listens = false;
    if (needs(*run, rank) && (!run->acked || run->distribution->under_way()))
      end(*run, ErrorCode::kPeerFailed, Others::kAreTold);
    if (run->parent == rank && !run->complete) {
      // It may have acknowledged before it died.
      if (run->listener != rank) run->missing.push_back(rank);
      end(*run, ErrorCode::kPeerFailed);
    }
    settle(*run);
  }
  std::vector<DeliveryOrder::MessageName> ready;
  order_.lose(rank, ready);
  hand_over(ready);
}

}  // namespace ibcoll
