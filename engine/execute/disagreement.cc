#include "engine/execute/disagreement.h"

#include <algorithm>
#include <cstring>

#include "engine/base/clock.h"
#include "engine/execute/mailroom.h"
#include "engine/execute/waits.h"

namespace ibcoll {
namespace {

/// A peer that was asked what it means by a call gets so long to say it.
constexpr int64_t kAnswerNs = 2'000'000'000;

Inquiry inquiry_of(std::span<const std::byte> mail) {
  Inquiry inquiry;
  std::memcpy(static_cast<void*>(&inquiry), mail.data() + sizeof(MailHeader), sizeof(inquiry));
  return inquiry;
}

CallMeaning meaning_of(const PostedCall& call) {
  return call.binding.told != nullptr ? *call.binding.told : CallMeaning{};
}

}  // namespace

Rank inquirer(std::span<const std::byte> mail) { return inquiry_of(mail).rank; }

Disagreements::Disagreements(Bootstrap& bootstrap, LocalTransport& local, NetworkTransport* network,
                             const CallsUnderWay& calls, const GroupEnds& ends, JobEnd& end,
                             const CallBoard::Place& board, const MadeGroups* groups)
    : bootstrap_(bootstrap),
      local_(local),
      network_(network),
      calls_(calls),
      ends_(ends),
      end_(end),
      board_(board),
      groups_(groups) {}
Disagreements::~Disagreements() = default;

void Disagreements::note(const PostedCall& call) {
  if (call.group->by_arrival) [[unlikely]]
    return look_at_strays();
  write_note(call.key, call.binding.told);
  if (!inquiries_.empty()) [[unlikely]]
    answer_inquiries(call);
  look_at_strays();
}

/// `theirs`: what `peer`, a rank of the job, means by the call.
void Disagreements::disagree(const CallKey& call, const CallMeaning& mine, Rank peer,
                             const CallMeaning& theirs) {
  const Rank me = bootstrap_.rank();
  const Rank low = std::min(me, peer), high = std::max(me, peer);
  // One of two groups may have been taken for the other, so that anything may differ.
  const bool several = groups_ != nullptr && groups_->made_several(call.group);
  // Alike on both, whoever notices.
  end_.abort(
      {peer, ErrorCode::kMismatch,
       fmt::format(
           "ranks {} and {} disagree on call {} of their group: {}{}", low, high, call.sequence,
           me < peer ? differences(low, mine, high, theirs) : differences(low, theirs, high, mine),
           several ? "; were the groups of these ranks made in the same order?" : "")});
}

/// The program has no part in calls by arrival: what does not fit them is the engine's mistake.
void Disagreements::blame_engine(const PostedCall& call, Rank peer, const std::string& text) {
  end_.abort({peer, ErrorCode::kInternal, fmt::format("{} ({})", text, describe(call, local_))});
}

void Disagreements::mismatch(const PostedCall& call, Rank peer, const std::string& text) {
  if (call.group->by_arrival) return blame_engine(call, peer, text);
  const auto theirs = board_.find(peer, call.id());
  if (theirs && theirs->program != call.key.program)
    return disagree(call.id(), meaning_of(call), peer, theirs->meaning);
  end_.abort({peer, ErrorCode::kMismatch, fmt::format("{} ({})", text, describe(call, local_))});
}

void Disagreements::dispute(const PostedCall& call, Rank peer) {
  if (call.group->by_arrival)
    return blame_engine(call, peer, fmt::format("rank {} runs another program", peer));
  dispute(call.id(), call.key.program, meaning_of(call), peer);
}

void Disagreements::dispute(const CallKey& call, uint32_t program, const CallMeaning& mine,
                            Rank peer) {
  if (dispute_) return;
  dispute_ = Dispute{call, mine, program, peer, now_ns()};
  ask_about_dispute();
}

/// Says what this rank means, for the peer to compare.
void Disagreements::ask_about_dispute() {
  PostedCall call;  // the call itself may have ended
  GroupState gone(Shape::single_server(1));
  call.group = ends_.find(dispute_->call.group);
  if (call.group == nullptr) call.group = &gone;  // freed: the peer knows it by its key
  call.key = {dispute_->call.group, dispute_->call.sequence, dispute_->program, false, false};
  call.binding.told = &dispute_->mine;
  dispute_->asked = send(call, dispute_->peer);
}

bool Disagreements::dispute_ended(const MailHeader& header, Rank peer) {
  const auto mine = board_.find(CallKey{header.group, header.sequence});
  if (!mine || mine->program == header.program) return false;
  dispute(mine->call, mine->program, mine->meaning, peer);
  return true;
}

void Disagreements::settle() {
  if (!dispute_) return;
  if (!dispute_->asked) ask_about_dispute();
  if (now_ns() - dispute_->since_ns < kAnswerNs) return;
  disagree(dispute_->call, dispute_->mine, dispute_->peer, CallMeaning{});
}

/// Sends a rank of the job, which is one of the group, what is meant by this call. False: no room
/// now.
bool Disagreements::send(const PostedCall& call, Rank peer) {
  const MailHeader header = Mailroom::header_for(call, MailKind::kInquiry);
  Inquiry inquiry;
  inquiry.meaning = meaning_of(call);
  inquiry.rank = bootstrap_.rank();
  inquiry.waits = calls_.waited_for() == &call;
  inquiry.list = call.group->list;
  std::array<std::byte, sizeof(header) + sizeof(inquiry)> mail;
  std::memcpy(mail.data(), &header, sizeof(header));
  std::memcpy(mail.data() + sizeof(header), &inquiry, sizeof(inquiry));
  const GroupState& group = *call.group;
  const auto there = group.rank_of(peer);
  // Of a group that is gone only ranks of other servers are asked.
  return send_mail(
      peer,
      there < static_cast<Rank>(group.to_job.size()) && group.shape.same_server(there, group.me),
      mail);
}

bool Disagreements::send_mail(Rank peer, bool local, std::span<const std::byte> mail) {
  bool sent = false;
  if (local) {
    sent = local_.offer_mail(peer, mail);
    local_.poll();
  } else if (network_ != nullptr) {
    sent = network_->mail(peer, mail, NetworkTransport::kUncounted);
    network_->flush();
  }
  return sent;
}

void Disagreements::ask(PostedCall& call) {
  const Rank peer = wait_of(call, local_).peer;
  const bool waits = calls_.waited_for() == &call;
  if (peer >= 0 && call.watch.asked == peer && (call.watch.asked_waiting || !waits)) return;
  look_at_untaken();
  if (end_.has_come() || peer < 0) return;
  const auto theirs = board_.find(peer, call.id());
  if (theirs && theirs->program != call.key.program)
    return disagree(call.id(), meaning_of(call), peer, theirs->meaning);
  // One that waits in the call, too, may learn why that does not end.
  const bool known = theirs && !waits;
  if (!known && !send(call, peer)) return;
  call.watch.asked = peer;
  call.watch.asked_waiting = waits;
}

/// This rank's note of a call it has made.
std::optional<CallNote> Disagreements::find_note(const CallKey& id) const {
  if (const PostedCall* call = calls_.find(id))
    return CallNote{id, call->key.program, meaning_of(*call)};
  return board_.find(id);
}

std::vector<Asked> Disagreements::forget(uint64_t group) {
  if (dispute_ && dispute_->call.group == group) dispute_.reset();
  std::erase_if(companions_, [&](const Asked& asked) { return asked.call.group == group; });
  std::vector<Asked> about;
  std::erase_if(inquiries_, [&](const Asked& asked) {
    if (asked.call.group == group) about.push_back(asked);
    return asked.call.group == group;
  });
  return about;
}

void Disagreements::take(std::span<const std::byte> mail, bool local) {
  MailHeader header;
  std::memcpy(&header, mail.data(), sizeof(header));
  if (header.kind == MailKind::kStuck) {
    WaitChain chain;
    std::memcpy(static_cast<void*>(&chain), mail.data() + sizeof(header), sizeof(chain));
    return take_chain(chain);
  }
  const Inquiry inquiry = inquiry_of(mail);
  const CallKey call{header.group, header.sequence};
  // Each rank waits for one call at a time: its latest inquiry counts.
  const auto earlier = [&](const Asked& asked) { return asked.inquiry.rank == inquiry.rank; };
  if (const auto mine = find_note(call)) {
    if (mine->program != header.program)
      return disagree(call, mine->meaning, inquiry.rank, inquiry.meaning);
    std::erase_if(companions_, earlier);
    if (inquiry.waits && calls_.find(call) != nullptr)
      companions_.push_back({call, header.program, inquiry, local});
    return;
  }
  std::erase_if(inquiries_, earlier);
  inquiries_.push_back({call, header.program, inquiry, local});
}

/// Answers the inquiries about a call that is made only now.
void Disagreements::answer_inquiries(const PostedCall& call) {
  for (size_t i = 0; i < inquiries_.size() && !end_.has_come();) {
    const Asked asked = inquiries_[i];
    if (!(asked.call == call.id())) {
      ++i;
      continue;
    }
    inquiries_.erase(inquiries_.begin() + static_cast<ptrdiff_t>(i));
    if (asked.program != call.key.program)
      return disagree(asked.call, meaning_of(call), asked.inquiry.rank, asked.inquiry.meaning);
    if (!asked.inquiry.waits) continue;
    std::erase_if(companions_,
                  [&](const Asked& earlier) { return earlier.inquiry.rank == asked.inquiry.rank; });
    companions_.push_back(asked);
  }
}

void Disagreements::compare(std::span<const LocalTransport::Stray> strays) {
  for (const LocalTransport::Stray& stray : strays) {
    if (end_.has_come()) return;
    if (is_by_arrival(stray.key.group)) continue;
    const CallKey id{stray.key.group, stray.key.sequence};
    const auto mine = find_note(id);
    if (!mine || mine->program == stray.key.program || ends_.is_over(id.group)) continue;
    const auto theirs = board_.find(stray.peer, id);
    disagree(id, mine->meaning, stray.peer, theirs ? theirs->meaning : CallMeaning{});
  }
}

void Disagreements::look_at_untaken_of(const GroupState& group) {
  if (group.over || ends_.is_over(group.key)) return;
  for (const LocalTransport::Stray& stray : local_.untaken()) {
    const CallKey id{stray.key.group, stray.key.sequence};
    if (id.group != group.key || end_.has_come()) continue;
    // Notes are of the latest calls only, but what a call has not taken was not for it.
    if (!find_note(id) && group.calls.has_ended(id.sequence)) {
      const auto theirs = board_.find(stray.peer, id);
      disagree(id, CallMeaning{}, stray.peer, theirs ? theirs->meaning : CallMeaning{});
    } else {
      compare({&stray, 1});
    }
  }
}

void Disagreements::look_at_what_is_left() {
  for (const LocalTransport::Stray& stray : local_.untaken()) {
    const CallKey id{stray.key.group, stray.key.sequence};
    const GroupState* const group = ends_.find(id.group);
    const bool gone = group == nullptr && !is_by_arrival(id.group) && !find_note(id);
    if (group != nullptr && !group->by_arrival) {
      look_at_untaken_of(*group);
    } else if (gone && ends_.remembers_all() && !ends_.is_over(id.group)) {
      // It came after the group was freed here, and was taken by none of its calls.
      const auto theirs = board_.find(stray.peer, id);
      return disagree(id, CallMeaning{}, stray.peer, theirs ? theirs->meaning : CallMeaning{});
    } else {
      compare({&stray, 1});
    }
  }
}

}  // namespace ibcoll
