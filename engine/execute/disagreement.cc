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

/// "call 3 (alltoall) of its 2. group {0, 1, 2} with identifier 7", "call 0 (alltoall) with tag 7
/// on the set {0, 1, 2}": all that may differ where ranks wait in different groups.
std::string call_and_group(uint32_t sequence, const Inquiry& inquiry) {
  const auto known = std::min<size_t>(inquiry.ranks, inquiry.members.size());
  const std::string members =
      fmt::format("{{{}{}}}",
                  fmt::join(inquiry.members.begin(),
                            inquiry.members.begin() + static_cast<ptrdiff_t>(known), ", "),
                  known < inquiry.ranks ? fmt::format(", ... {} in all", inquiry.ranks) : "");
  const uint32_t number = inquiry.meaning.number;
  if (inquiry.of_set) {
    return fmt::format("call {} ({}) with tag {} on the set {}", number, inquiry.meaning.name(),
                       inquiry.identifier, members);
  }
  return fmt::format(
      "call {} ({}) of its {}group {}{}", sequence, inquiry.meaning.name(),
      number == 0 ? "" : fmt::format("{}. ", number + 1), members,
      inquiry.identifier == 0 ? "" : fmt::format(" with identifier {}", inquiry.identifier));
}

/// Says which group it is.
void name_group(Inquiry& inquiry, const GroupState& group) {
  inquiry.list = group.list;
  inquiry.identifier = group.identifier;
  inquiry.of_set = group.of_set;
  inquiry.ranks = static_cast<uint32_t>(group.to_job.size());
  std::copy_n(group.to_job.begin(), std::min(group.to_job.size(), inquiry.members.size()),
              inquiry.members.begin());
}

}  // namespace

Rank inquirer(std::span<const std::byte> mail) { return inquiry_of(mail).rank; }

void Disagreements::note(const PostedCall& call) {
  if (call.group->by_arrival) [[unlikely]]
    return look_at_strays();
  static constexpr CallMeaning kNothingTold;
  board_.write(call.key.group, call.key.sequence, call.key.program,
               call.binding.told != nullptr ? *call.binding.told : kNothingTold);
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
  GroupState* const group = ends_.find(dispute_->call.group);
  if (group == nullptr) return;  // it has been freed: the peer has, or will see
  PostedCall call;               // the call itself may have ended
  call.group = group;
  call.key = {dispute_->call.group, dispute_->call.sequence, dispute_->program, false, false};
  call.binding.told = &dispute_->mine;
  dispute_->asked = send(call, dispute_->peer, MailKind::kInquiry, {});
}

void Disagreements::dispute_ended(const GroupState& group, const MailHeader& header) {
  const auto mine = board_.find(CallKey{header.group, header.sequence});
  if (!mine || mine->program == header.program) return;
  dispute(mine->call, mine->program, mine->meaning, group.to_job[header.from]);
}

void Disagreements::settle() {
  if (!dispute_) return;
  if (!dispute_->asked) ask_about_dispute();
  if (now_ns() - dispute_->since_ns < kAnswerNs) return;
  disagree(dispute_->call, dispute_->mine, dispute_->peer, CallMeaning{});
}

/// Sends a rank of the job, which is one of the group, what is meant by this call. False: no room
/// now.
bool Disagreements::send(const PostedCall& call, Rank peer, MailKind kind, const CallKey& other) {
  const MailHeader header = Mailroom::header_for(call, kind);
  Inquiry inquiry;
  inquiry.meaning = meaning_of(call);
  inquiry.other = other;
  inquiry.rank = bootstrap_.rank();
  inquiry.waits = calls_.waited_for() == &call;
  name_group(inquiry, *call.group);
  std::array<std::byte, sizeof(header) + sizeof(inquiry)> mail;
  std::memcpy(mail.data(), &header, sizeof(header));
  std::memcpy(mail.data() + sizeof(header), &inquiry, sizeof(inquiry));
  bool sent = false;
  if (call.group->shape.same_server(call.group->rank_of(peer), call.group->me)) {
    sent = local_.offer_mail(peer, mail);
    local_.poll();
  } else if (network_ != nullptr) {
    sent = network_->mail(peer, mail, NetworkTransport::kUncounted);
    network_->flush();
  }
  return sent;
}

void Disagreements::ask(PostedCall& call) {
  look_at_untaken();
  if (end_.has_come()) return;
  const Rank peer = wait_of(call, local_).peer;
  if (peer < 0) return;
  if (const auto theirs = board_.find(peer, call.id())) {
    call.asked = true;
    if (theirs->program != call.key.program)
      disagree(call.id(), meaning_of(call), peer, theirs->meaning);
    return;
  }
  call.asked = send(call, peer, MailKind::kInquiry, {});
}

/// This rank's note of a call it has made.
std::optional<CallNote> Disagreements::find_note(const CallKey& id) const {
  if (const PostedCall* call = calls_.find(id))
    return CallNote{id, call->key.program, meaning_of(*call)};
  return board_.find(id);
}

std::vector<Asked> Disagreements::forget(uint64_t group) {
  if (dispute_ && dispute_->call.group == group) dispute_.reset();
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
  const Inquiry inquiry = inquiry_of(mail);
  const CallKey call{header.group, header.sequence};
  if (header.kind == MailKind::kStuck) return check_deadlock(call, inquiry);
  if (const auto mine = find_note(call)) {
    if (mine->program != header.program)
      disagree(call, mine->meaning, inquiry.rank, inquiry.meaning);
    return;
  }
  // Each rank waits for one call at a time: its latest inquiry counts.
  std::erase_if(inquiries_, [&](const Asked& asked) { return asked.inquiry.rank == inquiry.rank; });
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
      disagree(asked.call, meaning_of(call), asked.inquiry.rank, asked.inquiry.meaning);
  }
}

/// Whether this call can't end before that rank of the job has made it.
bool Disagreements::needs(const PostedCall& call, Rank peer) const {
  if (call.group->rank_of(peer) == call.group->shape.ranks()) return false;
  return !has_root(call.program->collective) || wait_of(call, local_).peer == peer;
}

void Disagreements::tell_the_stuck(const PostedCall& waited_for) {
  if (groups_ == nullptr) return;
  for (Asked& asked : inquiries_) {
    if (!asked.inquiry.waits || asked.told == waited_for.id() ||
        !needs(waited_for, asked.inquiry.rank) ||
        groups_->has_made(asked.inquiry.list, asked.inquiry.meaning.number, asked.call))
      continue;
    if (send(waited_for, asked.inquiry.rank, MailKind::kStuck, asked.call))
      asked.told = waited_for.id();
  }
}

/// Another rank waits in a call for this one, and has not made the call that this one waited in
/// when it asked. If this rank still does, and has not made that other call, neither wait ever
/// ends.
void Disagreements::check_deadlock(const CallKey& id, const Inquiry& theirs) {
  const PostedCall* const call = calls_.waited_for();
  if (call == nullptr || groups_ == nullptr || call->group->over) return;
  if (call->queued || !(call->id() == theirs.other) ||
      groups_->has_made(theirs.list, theirs.meaning.number, id))
    return;
  Inquiry mine;
  mine.meaning = meaning_of(*call);
  name_group(mine, *call->group);
  Rank low = bootstrap_.rank(), high = theirs.rank;
  std::string low_call = call_and_group(call->key.sequence, mine);
  std::string high_call = call_and_group(id.sequence, theirs);
  if (low > high) {
    std::swap(low, high);
    low_call.swap(high_call);
  }
  end_.abort({theirs.rank, ErrorCode::kMismatch,
              fmt::format("ranks {} and {} wait for each other: rank {} in {}, rank {} in {}; "
                          "neither has made the other's call",
                          low, high, low, low_call, high, high_call)});
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

}  // namespace ibcoll
