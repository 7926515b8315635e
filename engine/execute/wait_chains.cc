// How ranks find out that they wait for each other: each tells those that wait for it what it waits
// in itself. A chain of waits that comes back to where it began never ends.
//
// Who closes a chain has not made the call in which the first one waits for it, so that one still
// waits there; so it has not made the call in which the second one waits for it; and so on, unless
// one of their groups has ended. All of them make calls by one thread alone, and have no deadline
// of their own: only another member can end a group. So waits become part of a chain when they have
// lasted for long (ExecutorOptions::cycle_ns), and chains are told anew all the time: what a rank
// says of a group that has ended since is soon forgotten.

#include <algorithm>
#include <cstring>

#include "engine/base/clock.h"
#include "engine/execute/disagreement.h"
#include "engine/execute/mailroom.h"
#include "engine/execute/waits.h"

namespace ibcoll {
namespace {

/// Of chains that lead to one call so many are passed on, and those whose first rank is the lowest
/// so far: of a cycle, however long, one comes around.
constexpr size_t kMostChains = 64;
/// Chains that were told so long ago are told anew, those that not all had room for later.
constexpr int64_t kTellAgainNs = 500'000'000, kTellAllAgainNs = 5'000'000'000;

/// Whether no rank can end the call before all have made it.
bool needs_all(const PostedCall& call) { return traits(call.program->collective).needs_all; }

std::string members_of(const GroupState& group) {
  constexpr size_t kNamed = 12;
  const size_t ranks = group.to_job.size(), named = std::min(ranks, kNamed);
  return fmt::format(
      "{{{}{}}}",
      fmt::join(group.to_job.begin(), group.to_job.begin() + static_cast<ptrdiff_t>(named), ", "),
      named < ranks ? fmt::format(", ... {} in all", ranks) : "");
}

/// "call 3 (alltoall) of its 2. group {0, 1, 2} with identifier 7", "call 0 (alltoall) with tag 7
/// on the set {0, 1, 2}": all that may differ where ranks wait in different groups.
std::string call_and_group(const PostedCall& call) {
  const GroupState& group = *call.group;
  const CallMeaning meaning = call.binding.told != nullptr ? *call.binding.told : CallMeaning{};
  const uint32_t number = meaning.number;
  if (group.of_set) {
    return fmt::format("call {} ({}) with tag {} on the set {}", number, meaning.name(),
                       group.identifier, members_of(group));
  }
  return fmt::format(
      "call {} ({}) of its {}group {}{}", call.key.sequence, meaning.name(),
      number == 0 ? "" : fmt::format("{}. ", number + 1), members_of(group),
      group.identifier == 0 ? "" : fmt::format(" with identifier {}", group.identifier));
}

void add_waiting(WaitChain& chain, Rank rank, const PostedCall& call) {
  if (chain.length < WaitChain::kNamed) {
    WaitChain::WaitingRank& waiting = chain.waiting[chain.length];
    waiting.rank = rank;
    waiting.call.fill(0);
    const std::string text = call_and_group(call);
    text.copy(waiting.call.data(), waiting.call.size() - 1);
  }
  chain.lowest = chain.length == 0 ? rank : std::min(chain.lowest, rank);
  ++chain.length;
}

}  // namespace

/// Whether this call can't end before that rank of the job has made it.
bool Disagreements::needs(const PostedCall& call, Rank peer) const {
  if (call.group->rank_of(peer) == call.group->shape.ranks()) return false;
  return needs_all(call) || wait_of(call, local_).peer == peer;
}

/// The chain of this rank alone, as it is told to who waits for it.
WaitChain Disagreements::chain_from(const PostedCall& call, Rank asker) const {
  const GroupState& group = *call.group;
  WaitChain chain;
  chain.call = call.id();
  chain.list = group.list;
  chain.number = call.binding.told != nullptr ? call.binding.told->number : 0;
  chain.awaits = wait_of(call, local_).peer;
  chain.needs_receiver = needs(call, asker);
  chain.needs_all = needs_all(call);
  chain.ranks = static_cast<uint32_t>(group.to_job.size());
  std::copy_n(group.to_job.begin(), std::min(group.to_job.size(), chain.members.size()),
              chain.members.begin());
  add_waiting(chain, bootstrap_.rank(), call);
  return chain;
}

void Disagreements::tell_the_stuck(const PostedCall& waited_for) {
  // A wait that its own deadline ends is none for ever.
  if (groups_ == nullptr || waited_for.binding.deadline_ns != 0) return;
  const int64_t now = now_ns();
  if (!(waited_for_ == waited_for.id())) {
    waited_for_ = waited_for.id();
    chains_.clear();
    told_ns_ = now;
  }
  bool told = true;
  for (Asked& asked : inquiries_) {
    if (asked.inquiry.waits &&
        !groups_->has_made(asked.inquiry.list, asked.inquiry.meaning.number, asked.call))
      told &= tell(asked, waited_for);
  }
  std::erase_if(companions_,
                [&](const Asked& asked) { return calls_.find(asked.call) == nullptr; });
  if (needs_all(waited_for)) {
    for (Asked& asked : companions_) {
      if (asked.call == waited_for.id()) told &= tell(asked, waited_for);
    }
  }
  if (now - told_ns_ < (told ? kTellAgainNs : kTellAllAgainNs)) return;
  told_ns_ = now;
  chains_.clear();
  for (std::vector<Asked>* const all : {&inquiries_, &companions_}) {
    for (Asked& asked : *all) asked.told = {};
  }
}

/// Tells all chains that it has not been told yet. False: there was no room for some.
bool Disagreements::tell(Asked& asked, const PostedCall& waited_for) {
  const bool with_me = !(asked.call == waited_for.id());
  if (!(asked.told == waited_for.id())) {
    asked.told = waited_for.id();
    asked.chains = with_me ? 0 : 1;  // the first one is this rank's own
  }
  for (; asked.chains <= chains_.size(); ++asked.chains) {
    WaitChain chain;
    if (asked.chains == 0) {
      chain = chain_from(waited_for, asked.inquiry.rank);
    } else {
      chain = chains_[asked.chains - 1];
      chain.needs_receiver = false;
      // Who waits in the same call waits for the last of the chain, too.
      if (with_me) add_waiting(chain, bootstrap_.rank(), waited_for);
    }
    if (!send_chain(asked, chain)) return false;
  }
  return true;
}

bool Disagreements::send_chain(const Asked& asked, WaitChain chain) {
  chain.waited_in = asked.call;
  MailHeader header{};
  header.group = chain.call.group;
  header.sequence = chain.call.sequence;
  header.kind = MailKind::kStuck;
  std::array<std::byte, sizeof(header) + sizeof(chain)> mail;
  static_assert(mail.size() <= NetworkTransport::kMaxMailBytes);
  std::memcpy(mail.data(), &header, sizeof(header));
  std::memcpy(mail.data() + sizeof(header), &chain, sizeof(chain));
  return send_mail(asked.inquiry.rank, asked.local, mail);
}

/// Whether the first one of the chain waits for this rank to make its call. `call`: which this rank
/// waits for.
bool Disagreements::closes(const WaitChain& chain, const PostedCall& call) const {
  const Rank me = bootstrap_.rank();
  if (chain.first() == me) return chain.call == call.id();
  const auto known = chain.members.begin() + std::min<size_t>(chain.ranks, chain.members.size());
  const bool needs = chain.awaits == me || chain.needs_receiver ||
                     (chain.needs_all && std::find(chain.members.begin(), known, me) != known);
  return needs && !groups_->has_made(chain.list, chain.number, chain.call);
}

/// The last one of the chain has not made the call that this rank waited in when it asked. If it
/// still does, and has for long, it is the next one.
void Disagreements::take_chain(const WaitChain& chain) {
  const PostedCall* const call = calls_.waited_for();
  if (call == nullptr || call->group->over || call->queued) return;
  if (!(call->id() == chain.waited_in) || !(call->id() == waited_for_)) return;
  if (closes(chain, *call)) {
    WaitChain cycle = chain;
    if (chain.first() != bootstrap_.rank()) add_waiting(cycle, bootstrap_.rank(), *call);
    // Several ranks may close the cycle at the same time, each in the chain that began behind it.
    // One of these chains begins with the lowest rank, and all that know it say the same.
    if (cycle.first() == cycle.lowest) end_in_cycle(cycle);
    return;
  }
  if (chain.first() == bootstrap_.rank()) return;
  bool lowest = true;
  for (const WaitChain& known : chains_) {
    if (known.first() == chain.first() && known.call == chain.call) return;
    lowest = lowest && chain.first() < known.first();
  }
  if (chains_.size() < kMostChains || lowest) chains_.push_back(chain);
}

void Disagreements::end_in_cycle(const WaitChain& chain) {
  std::vector<WaitChain::WaitingRank> named(
      chain.waiting.begin(),
      chain.waiting.begin() + std::min<size_t>(chain.length, chain.waiting.size()));
  const Rank culprit = named.front().rank == bootstrap_.rank() ? named.back().rank : chain.first();
  std::sort(named.begin(), named.end(),
            [](const auto& a, const auto& b) { return a.rank < b.rank; });
  const auto place = [](const WaitChain::WaitingRank& waiting) {
    return fmt::format("rank {} in {}", waiting.rank, waiting.call.data());
  };
  std::string text;
  if (chain.length == 2) {
    text = fmt::format(
        "ranks {} and {} wait for each other: {}, {}; neither has made the other's call",
        named[0].rank, named[1].rank, place(named[0]), place(named[1]));
  } else {
    text =
        fmt::format("{} ranks wait for each other in a cycle: {}", chain.length, place(named[0]));
    constexpr std::string_view kMore = ", ...";
    for (size_t i = 1; i < named.size(); ++i) {
      const std::string next = ", " + place(named[i]);
      const bool is_last = i + 1 == chain.length;
      if (text.size() + next.size() + (is_last ? 0 : kMore.size()) > Failure::kMaxText) {
        text += kMore;
        break;
      }
      text += next;
      if (!is_last && i + 1 == named.size()) text += kMore;
    }
  }
  end_.abort({culprit, ErrorCode::kMismatch, text});
}

}  // namespace ibcoll
