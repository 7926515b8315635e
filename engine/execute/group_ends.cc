#include "engine/execute/group_ends.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "engine/base/clock.h"
#include "engine/base/quote.h"
#include "engine/execute/mail.h"
#include "engine/execute/waits.h"
#include "engine/sharing/test_hooks.h"

namespace ibcoll {
namespace {

/// Notices that are tried in one go; peers that are slow to take theirs hold up no other.
IBCOLL_LIMIT(size_t, kNoticesAtOnce, 16);
/// Up to so many members on other servers are told by whoever ends a group; of more, one a server.
IBCOLL_LIMIT(size_t, kToldDirectly, 256);

/// Ranks of other servers, by their numbers in the job, in ascending order.
struct RemotePeers {
  std::vector<Rank> writers;  ///< they may put into memory of the call, or signal to it
  std::vector<Rank> readers;  ///< the call may put or signal to them
};

void sort_unique(std::vector<Rank>& ranks) {
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
}

RemotePeers remote_peers(const PostedCall& call) {
  RemotePeers peers;
  if (call.binding.eager) return peers;
  const GroupState& group = *call.group;
  for (const OpList& lane : call.program->lanes) {
    for (const Op& op : lane) {
      const bool comes = op.kind == OpKind::kExpect || op.kind == OpKind::kWait;
      const bool goes = op.kind == OpKind::kPut || op.kind == OpKind::kSignal;
      if ((!comes && !goes) || group.shape.same_server(op.peer, group.me)) continue;
      if (group.to_job[op.peer] < 0) continue;
      (comes ? peers.writers : peers.readers).push_back(group.to_job[op.peer]);
    }
  }
  sort_unique(peers.writers);
  sort_unique(peers.readers);
  return peers;
}

/// The rank of the job that tells a server of the group's end; -1: this rank knows nobody there.
Rank told_first(const GroupState& group, int server) {
  const Rank usual = group.to_job[gateway(group.shape, group.me, server)];
  if (usual >= 0) return usual;
  for (const Rank rank : group.shape.members(server)) {
    if (group.to_job[rank] >= 0) return group.to_job[rank];
  }
  return -1;
}

bool has(const std::vector<Rank>& ranks, Rank rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

}  // namespace

GroupEnds::GroupEnds(Bootstrap& bootstrap, LocalTransport& local, NetworkTransport* network,
                     JobEnd& end, const Deaths& deaths, MadeGroups* made)
    : bootstrap_(bootstrap),
      local_(local),
      network_(network),
      end_(end),
      deaths_(deaths),
      made_(made) {}
GroupEnds::~GroupEnds() = default;

void GroupEnds::enter(GroupState& group) {
  groups_[group.key] = &group;
  // Others ended it before this rank made it.
  const auto over = over_.find(group.key);
  if (over != over_.end()) {
    due_.push_back({&group, over->second, 0, false, true, {}, {}});
    busy_ = true;
  }
}

void GroupEnds::leave(const GroupState& group) {
  groups_.erase(group.key);
  std::erase_if(due_, [&](const Due& due) {
    if (due.group != &group) return false;
    remember(group.key, due.why);
    return true;
  });
}

void GroupEnds::request(GroupState& group, const Failure& why, int64_t patience_ns) {
  add_due(group, why, patience_ns, true);
}

/// `origin`: this rank ends the group, unless somebody has before.
void GroupEnds::add_due(GroupState& group, const Failure& why, int64_t patience_ns, bool origin) {
  const auto same = [&](const Due& due) { return due.group == &group; };
  if (group.over || std::any_of(due_.begin(), due_.end(), same)) return;
  due_.push_back({&group, why, patience_ns, origin, false, {}, {}});
  busy_ = true;
}

void GroupEnds::lose(const Failure& death) {
  // Who has left after a death is missed only by those who wait for it: they tell the others.
  const bool all_know = bootstrap_.end_of(death.culprit).has_value();
  for (const auto& [key, group] : groups_) {
    if (group->by_arrival) continue;  // who makes its calls decides
    if (group->rank_of(death.culprit) == group->shape.ranks()) continue;
    add_due(*group, death, 0, !all_know);
  }
}

void GroupEnds::remember(uint64_t key, const Failure& why) {
  if (!over_.emplace(key, why).second) return;
  over_in_order_.push_back(key);
  if (over_in_order_.size() <= kRemembered) return;
  over_.erase(over_in_order_.front());
  over_in_order_.pop_front();
}

void GroupEnds::take(std::span<const std::byte> mail, bool local) {
  MailHeader header;
  EndNotice notice;
  std::memcpy(&header, mail.data(), sizeof header);
  std::memcpy(&notice, mail.data() + sizeof header, sizeof notice);
  const auto* const text =
      reinterpret_cast<const char*>(mail.data() + sizeof header + sizeof notice);
  const Failure why{notice.culprit, static_cast<ErrorCode>(notice.code),
                    std::string(text, notice.text_bytes)};
  const auto found = groups_.find(header.group);
  const bool is_there = found != groups_.end();
  if (is_there)
    add_due(*found->second, why, 0, false);
  else
    remember(header.group, why);
  hear(header.group, notice.sender, local, notice.answers);
  // Members that are there tell all others of their server of their own accord. Whoever answers a
  // question does not ask, so nobody answers for ever.
  if (notice.asks || (local && !is_there && !notice.answers)) {
    replies_.push_back({header.group, {notice.sender, local, false, true}});
    busy_ = true;
  }
}

/// A rank of the job has stopped what it had under way in the group.
void GroupEnds::hear(uint64_t key, Rank sender, bool local, bool answers) {
  for (Due& due : due_) {
    if (due.group->key != key) continue;
    if (local) due.heard.push_back(sender);
    if (answers && !local) due.confirmed.push_back(sender);
  }
  for (const auto& ending : endings_) {
    if (ending->key != key) continue;
    if (local) std::erase(ending->unheard, sender);
    if (answers) {
      std::erase_if(ending->unconfirmed,
                    [sender](const Writer& writer) { return writer.rank == sender; });
    }
  }
}

void GroupEnds::tell(uint64_t group, Rank rank, bool local) {
  const auto same = [&](const Reply& reply) {
    return reply.key == group && reply.notice.to == rank;
  };
  if (std::any_of(replies_.begin(), replies_.end(), same)) return;
  replies_.push_back({group, {rank, local, false, true}});
  busy_ = true;
}

void GroupEnds::begin(const PostedCall* call) {
  Due due = std::move(due_.front());
  due_.pop_front();
  GroupState& group = *due.group;
  const std::string place = call != nullptr ? describe(*call, local_) : "";
  const bool said = place.empty() || due.why.what.find(place) != std::string::npos;
  group.over =
      Error{due.why.error_code(), said ? due.why.what : fmt::format("{}; {}", due.why.what, place),
            Scope::kGroup};
  remember(group.key, due.why);
  if (made_ != nullptr) made_->ended(group.list);

  auto ending = std::make_unique<Ending>();
  ending->key = group.key;
  ending->why = due.why;
  ending->patience_ns = due.patience_ns;
  ending->since_ns = now_ns();
  const Shape& shape = group.shape;
  const int server = shape.server_of(group.me);
  for (const Rank rank : shape.members(server)) {
    if (rank == group.me || group.to_job[rank] < 0) continue;
    // Who has told this rank before does not do so again unasked.
    ending->notices.push_back({group.to_job[rank], true, due.late});
    ending->unheard.push_back(group.to_job[rank]);
  }
  std::erase_if(ending->unheard, [&](Rank rank) { return has(due.heard, rank); });
  ending->confirmed = std::move(due.confirmed);
  const auto others = static_cast<size_t>(shape.ranks() - shape.server_size(server));
  for (int there = 0; due.origin && there < shape.servers(); ++there) {
    if (there == server) continue;
    if (others > kToldDirectly) {
      if (const Rank told = told_first(group, there); told >= 0) ending->notices.push_back({told});
    } else {
      for (const Rank rank : shape.members(there)) {
        if (group.to_job[rank] >= 0) ending->notices.push_back({group.to_job[rank]});
      }
    }
  }
  endings_.push_back(std::move(ending));
}

void GroupEnds::hold(PostedCall& call) {
  Ending& ending = *endings_.back();
  ending.held.push_back(&call);
  if (const int64_t limit = call.binding.time_limit_ns; limit != 0)
    ending.patience_ns = std::max({ending.patience_ns, kLeastPatienceNs, limit});
  for (LaneState& lane : call.lanes) {
    for (; !lane.pending.empty(); lane.pending.pop()) {
      const PendingPut& put = lane.pending.front();
      if (!put.ended) ending.sources.push_back(put);
    }
  }
  const RemotePeers peers = remote_peers(call);
  for (const Rank rank : peers.readers) notice_to(ending, rank).answers = true;
  for (const Rank rank : peers.writers) {
    const auto same = [rank](const Writer& writer) { return writer.rank == rank; };
    if (has(ending.confirmed, rank) ||
        std::any_of(ending.unconfirmed.begin(), ending.unconfirmed.end(), same))
      continue;
    ending.unconfirmed.push_back({rank});
    notice_to(ending, rank).asks = true;
  }
}

/// The notice to a rank of another server.
GroupEnds::Notice& GroupEnds::notice_to(Ending& ending, Rank rank) {
  for (Notice& notice : ending.notices) {
    if (!notice.local && notice.to == rank) return notice;
  }
  return ending.notices.emplace_back(Notice{rank});
}

bool GroupEnds::send(uint64_t key, const Failure& why, const Notice& notice) {
  std::array<std::byte, sizeof(MailHeader) + sizeof(EndNotice) + Failure::kMaxText> mail{};
  MailHeader header{};
  header.group = key;
  header.kind = MailKind::kEnd;
  EndNotice body{};
  body.sender = bootstrap_.rank();
  body.culprit = why.culprit;
  body.text_bytes = static_cast<uint32_t>(cut_to(why.what, Failure::kMaxText).size());
  body.code = static_cast<uint8_t>(why.code);
  body.asks = notice.asks;
  body.answers = notice.answers;
  std::memcpy(mail.data(), &header, sizeof header);
  std::memcpy(mail.data() + sizeof header, &body, sizeof body);
  std::memcpy(mail.data() + sizeof header + sizeof body, why.what.data(), body.text_bytes);
  const auto whole = std::span(mail).first(sizeof header + sizeof body + body.text_bytes);
  return notice.local ? local_.offer_mail(notice.to, whole)
                      : network_->mail(notice.to, whole, NetworkTransport::kUncounted);
}

bool GroupEnds::advance_all() {
  bool moved = false;
  std::erase_if(replies_, [&](const Reply& reply) {
    const auto over = over_.find(reply.key);
    // Who asked knows why, and of those that did not only a few are remembered.
    static const Failure kForgotten{-1, ErrorCode::kCancelled, "the group is over"};
    const bool done =
        is_absent(reply.notice.to, reply.key) ||
        send(reply.key, over == over_.end() ? kForgotten : over->second, reply.notice);
    moved |= done;
    return done;
  });
  for (const auto& ending : endings_) moved |= advance(*ending);
  std::erase_if(endings_, [](const auto& ending) {
    return ending->held.empty() && ending->notices.empty() && ending->unheard.empty();
  });
  if (network_ != nullptr) network_->flush();
  busy_ = !due_.empty() || !replies_.empty() || !endings_.empty();
  if (settled_ != nullptr && !busy_) settled_->done = true;
  return moved;
}

bool GroupEnds::advance(Ending& ending) {
  bool moved = send_notices(ending);
  std::erase_if(ending.unheard, [&](Rank rank) { return is_absent(rank, ending.key); });
  // Once more after the last one has said that it has stopped.
  local_.drop(ending.key);
  if (ending.held.empty()) return moved;
  std::erase_if(ending.unconfirmed,
                [&](Writer& writer) { return has_stopped(writer, ending.key); });
  if (is_quiet(ending)) {
    quiet_.insert(quiet_.end(), ending.held.begin(), ending.held.end());
    ending.held.clear();
    return true;
  }
  give_up_if_late(ending);
  return moved;
}

bool GroupEnds::send_notices(Ending& ending) {
  bool moved = false;
  std::vector<Notice>& notices = ending.notices;
  for (size_t tried = 0; tried < kNoticesAtOnce && !notices.empty(); ++tried) {
    const size_t i = ending.next_notice++ % notices.size();
    if (!is_absent(notices[i].to, ending.key) && !send(ending.key, ending.why, notices[i]))
      continue;
    notices[i] = notices.back();
    notices.pop_back();
    moved = true;
  }
  return moved;
}

/// One that has left the job does not confirm anything, and what it put before may be on its way.
/// What a dead one put is refused.
bool GroupEnds::has_stopped(Writer& writer, uint64_t key) const {
  if (deaths_.include(writer.rank)) return true;
  if (!is_absent(writer.rank, key)) {
    writer.absent_since_ns = 0;
    return false;
  }
  const int64_t now = now_ns();
  if (writer.absent_since_ns == 0) writer.absent_since_ns = now;
  return now - writer.absent_since_ns >= kLastDataNs;
}

/// Whether no peer reads or writes memory of the calls that are held any more.
bool GroupEnds::is_quiet(Ending& ending) {
  std::erase_if(ending.sources, [this](const PutTicket& source) {
    return source.local ? local_.retract(source.peer, static_cast<uint32_t>(source.ticket))
                        : network_->completed(source.peer) >= source.ticket;
  });
  return ending.sources.empty() && ending.unconfirmed.empty();
}

void GroupEnds::withdraw() {
  for (const auto& ending : endings_) {
    for (const PutTicket& source : ending->sources) {
      if (source.local) local_.retract(source.peer, static_cast<uint32_t>(source.ticket));
    }
  }
}

Rank GroupEnds::awaited(const Ending& ending) {
  if (!ending.unconfirmed.empty()) return ending.unconfirmed.front().rank;
  return ending.sources.empty() ? -1 : ending.sources.front().peer;
}

Rank GroupEnds::awaited(uint64_t group) const {
  for (const auto& ending : endings_) {
    if (ending->key == group) return awaited(*ending);
  }
  return -1;
}

void GroupEnds::give_up_if_late(const Ending& ending) {
  if (ending.patience_ns == 0 || now_ns() - ending.since_ns < ending.patience_ns) return;
  const Rank culprit = awaited(ending);
  end_.abort(
      {culprit, ErrorCode::kDeadline,
       fmt::format("rank {} has not confirmed the end of a group for {:.1f} s, and may still "
                   "write to memory of rank {}; the group ended because {}",
                   culprit, static_cast<double>(ending.patience_ns) / 1e9, bootstrap_.rank(),
                   ending.why.what)});
}

}  // namespace ibcoll
