// What the executor does when ranks mean different things by a call, or call different things.

#include <algorithm>
#include <cstring>

#include "engine/base/clock.h"
#include "engine/execute/executor.h"

namespace ibcoll {
namespace {

/// A peer that was asked what it means by a call gets so long to say it.
constexpr int64_t kAnswerNs = 2'000'000'000;

Inquiry inquiry_of(std::span<const std::byte> mail) {
  Inquiry inquiry;
  std::memcpy(static_cast<void*>(&inquiry), mail.data() + sizeof(MailHeader), sizeof(inquiry));
  return inquiry;
}

CallMeaning meaning_of(const Run& run) {
  return run.binding.told != nullptr ? *run.binding.told : CallMeaning{};
}

/// "call 3 (alltoall) of the 2nd group {0, 1, 2}".
std::string call_and_group(uint32_t sequence, const Inquiry& inquiry) {
  const auto known = std::min<size_t>(inquiry.ranks, inquiry.members.size());
  return fmt::format(
      "call {} ({}) of its {}group {{{}{}}}", sequence, inquiry.meaning.name(),
      inquiry.meaning.number == 0 ? "" : fmt::format("{}. ", inquiry.meaning.number + 1),
      fmt::join(inquiry.members.begin(), inquiry.members.begin() + static_cast<ptrdiff_t>(known),
                ", "),
      known < inquiry.ranks ? fmt::format(", ... {} in all", inquiry.ranks) : "");
}

}  // namespace

/// `theirs`: what `peer`, a rank of the job, means by the call.
void Executor::disagree(const CallKey& call, const CallMeaning& mine, Rank peer,
                        const CallMeaning& theirs) {
  const Rank me = bootstrap_.rank();
  const Rank low = std::min(me, peer), high = std::max(me, peer);
  // One of two groups may have been taken for the other, so that anything may differ.
  const bool several = options_.groups != nullptr && options_.groups->made_several(call.group);
  // Alike on both, whoever notices.
  abort(
      {peer, ErrorCode::kMismatch,
       fmt::format(
           "ranks {} and {} disagree on call {} of their group: {}{}", low, high, call.sequence,
           me < peer ? differences(low, mine, high, theirs) : differences(low, theirs, high, mine),
           several ? "; were the groups of these ranks made in the same order?" : "")});
}

/// `peer`, a rank of the group, has sent what does not fit the call; `text` says how.
void Executor::mismatch(const Run& run, Rank peer, const std::string& text) {
  const Rank job_peer = run.group->to_job[peer];
  const auto theirs = board_.find(job_peer, run.call());
  if (theirs && theirs->program != run.key.program)
    return disagree(run.call(), meaning_of(run), job_peer, theirs->meaning);
  abort({job_peer, ErrorCode::kMismatch, fmt::format("{} ({})", text, describe(run))});
}

/// The mail of a rank of the group, on another server, does not fit the call: asks what it means.
void Executor::dispute(const Run& run, Rank peer) {
  if (dispute_) return;
  dispute_ = Dispute{run.call(), meaning_of(run), run.group->to_job[peer], now_ns()};
  send_inquiry(run, dispute_->peer, MailKind::kInquiry, {});
}

/// Ends the job where the peer has not said what it means.
void Executor::settle_dispute() {
  if (!dispute_ || now_ns() - dispute_->since_ns < kAnswerNs) return;
  disagree(dispute_->call, dispute_->mine, dispute_->peer, CallMeaning{});
}

/// Sends a rank of the job, which is one of the group, what is meant by this call. False: no room
/// now.
bool Executor::send_inquiry(const Run& run, Rank peer, MailKind kind, const CallKey& other) {
  MailHeader header = header_for(run, kind);
  const std::vector<Rank>& to_job = run.group->to_job;
  Inquiry inquiry;
  inquiry.meaning = meaning_of(run);
  inquiry.other = other;
  inquiry.list = run.group->list;
  inquiry.rank = bootstrap_.rank();
  inquiry.waits = waiting_ != nullptr && waiting_->run == &run;
  inquiry.ranks = static_cast<uint32_t>(to_job.size());
  std::copy_n(to_job.begin(), std::min(to_job.size(), inquiry.members.size()),
              inquiry.members.begin());
  std::array<std::byte, sizeof(header) + sizeof(inquiry)> mail;
  std::memcpy(mail.data(), &header, sizeof(header));
  std::memcpy(mail.data() + sizeof(header), &inquiry, sizeof(inquiry));
  const auto place =
      static_cast<Rank>(std::find(to_job.begin(), to_job.end(), peer) - to_job.begin());
  bool sent = false;
  if (run.group->shape.same_server(place, run.group->me)) {
    sent = local_.offer_mail(peer, mail);
    local_.poll();
  } else if (network_ != nullptr) {
    sent = network_->mail(peer, mail, NetworkTransport::kUncounted);
    network_->flush();
  }
  return sent;
}

/// Ranks that disagree may wait for each other without ever having sent what would show it: each
/// may take the other for the root, or have made another group.
void Executor::ask(Run& run) {
  look_at_strays(local_.untaken());
  if (failed_) return;
  const Rank peer = blocked_on(run).peer;
  if (peer < 0) return;
  if (const auto theirs = board_.find(peer, run.call())) {
    run.asked = true;
    if (theirs->program != run.key.program)
      disagree(run.call(), meaning_of(run), peer, theirs->meaning);
    return;
  }
  run.asked = send_inquiry(run, peer, MailKind::kInquiry, {});
}

/// This rank's note of a call it has made.
std::optional<CallNote> Executor::find_note(const CallKey& call) const {
  for (const Run* run : active_) {
    if (run->call() == call) return CallNote{call, run->key.program, meaning_of(*run)};
  }
  return board_.find(call);
}

void Executor::take_inquiry(std::span<const std::byte> mail) {
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
  inquiries_.push_back({call, header.program, inquiry});
}

/// Answers the inquiries about a call that is made only now.
void Executor::answer_inquiries(const Run& run) {
  for (size_t i = 0; i < inquiries_.size() && !failed_;) {
    const Asked asked = inquiries_[i];
    if (!(asked.call == run.call())) {
      ++i;
      continue;
    }
    inquiries_.erase(inquiries_.begin() + static_cast<ptrdiff_t>(i));
    if (asked.program != run.key.program)
      disagree(asked.call, meaning_of(run), asked.inquiry.rank, asked.inquiry.meaning);
  }
}

/// Whether this call can't end before that rank of the job has made it.
bool Executor::needs(const Run& run, Rank peer) const {
  const std::vector<Rank>& to_job = run.group->to_job;
  if (std::find(to_job.begin(), to_job.end(), peer) == to_job.end()) return false;
  return !has_root(run.program->collective) || blocked_on(run).peer == peer;
}

/// Tells those that wait for calls this rank has not made that it will not make them before its
/// own wait for their part in another call, `run`, has ended.
void Executor::tell_the_stuck(const Run& run) {
  if (options_.groups == nullptr) return;
  for (Asked& asked : inquiries_) {
    if (!asked.inquiry.waits || asked.told == run.call() || !needs(run, asked.inquiry.rank) ||
        options_.groups->has_made(asked.inquiry.list, asked.inquiry.meaning.number, asked.call))
      continue;
    if (send_inquiry(run, asked.inquiry.rank, MailKind::kStuck, asked.call))
      asked.told = run.call();
  }
}

/// Another rank waits in `call` for this one, and has not made the call that this one waited in
/// when it asked. If this rank still does, and has not made `call`, neither wait ever ends.
void Executor::check_deadlock(const CallKey& call, const Inquiry& theirs) {
  if (waiting_ == nullptr || waiting_->run == nullptr || options_.groups == nullptr) return;
  const Run& run = *waiting_->run;
  if (run.queued || !(run.call() == theirs.other) ||
      options_.groups->has_made(theirs.list, theirs.meaning.number, call))
    return;
  Inquiry mine;
  const std::vector<Rank>& to_job = run.group->to_job;
  mine.meaning = meaning_of(run);
  mine.ranks = static_cast<uint32_t>(to_job.size());
  std::copy_n(to_job.begin(), std::min(to_job.size(), mine.members.size()), mine.members.begin());
  Rank low = bootstrap_.rank(), high = theirs.rank;
  std::string low_call = call_and_group(run.key.sequence, mine);
  std::string high_call = call_and_group(call.sequence, theirs);
  if (low > high) {
    std::swap(low, high);
    low_call.swap(high_call);
  }
  abort({theirs.rank, ErrorCode::kMismatch,
         fmt::format("ranks {} and {} wait for each other: rank {} in {}, rank {} in {}; neither "
                     "has made the other's call",
                     low, high, low, low_call, high, high_call)});
}

/// Messages whose call means something else here, or has ended here without them: of a root to one
/// that takes itself for the root, too.
void Executor::look_at_strays(std::span<const LocalTransport::Stray> strays) {
  for (const LocalTransport::Stray& stray : strays) {
    if (failed_) return;
    const CallKey call{stray.key.group, stray.key.sequence};
    const auto mine = find_note(call);
    if (!mine || mine->program == stray.key.program) continue;
    const auto theirs = board_.find(stray.peer, call);
    disagree(call, mine->meaning, stray.peer, theirs ? theirs->meaning : CallMeaning{});
  }
}

Status Executor::check_nothing_is_left() {
  if (!failed_) look_at_strays(local_.untaken());
  if (failed_) return tl::unexpected<Error>(*failed_);
  return {};
}

}  // namespace ibcoll
