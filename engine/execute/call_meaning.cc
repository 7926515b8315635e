#include "engine/execute/call_meaning.h"

#include <fmt/format.h>

#include <algorithm>

namespace ibcoll {

void CallMeaning::set_algorithm(std::string_view name) {
  algorithm.fill(0);
  std::copy_n(name.begin(), std::min(name.size(), algorithm.size()), algorithm.begin());
}

std::string_view CallMeaning::name() const {
  switch (purpose) {
    case CallPurpose::kProgram:
      break;
    case CallPurpose::kCounts:
      return "exchange_counts";
    case CallPurpose::kRootCounts:
      return "exchange_root_counts";
    case CallPurpose::kGraph:
      return "graph creation";
    case CallPurpose::kCheck:
      return "the check of what a call has moved";
    case CallPurpose::kShrink:
      return "group_shrink";
  }
  return collective < kCollectives.size() ? to_string(kCollectives[collective]) : "another call";
}

std::string differences(Rank a, const CallMeaning& x, Rank b, const CallMeaning& y) {
  if (x.collective >= kCollectives.size() || y.collective >= kCollectives.size())
    return "they differ in algorithm, collective, root or option";
  if (x.name() != y.name())
    return fmt::format("rank {} calls {}, rank {} {}", a, x.name(), b, y.name());
  std::string text;
  const auto add = [&](const char* does, const auto& of_a, const auto& of_b) {
    if (of_a == of_b) return;
    text += fmt::format("{}rank {} {} {}, rank {} {}", text.empty() ? "" : "; ", a, does, of_a, b,
                        of_b);
  };
  const auto block = [](const CallMeaning& m) { return fmt::format("{} bytes", m.block_bytes); };
  const auto reduction = [](const CallMeaning& m) -> std::string {
    if (m.element > kElementTypes || m.op > kOperators) return "nothing";
    const char* const elements = to_string(static_cast<ElementType>(m.element));
    if (m.op == kOperators)
      return fmt::format("{} by an operator of its own, {}", elements, m.identifier);
    return fmt::format("{} by {}", elements, to_string(static_cast<Operator>(m.op)));
  };
  const auto algorithm = [](const CallMeaning& m) {
    return std::string(m.algorithm.data(), strnlen(m.algorithm.data(), m.algorithm.size()));
  };
  add("passes root", x.root, y.root);
  if (kCollectiveTraits[x.collective].recv.lengths != Lengths::kElements) {
    add("passes blocks of", block(x), block(y));
  } else if (x.block_bytes != y.block_bytes) {  // hashes
    text += fmt::format("ranks {} and {} pass different counts", a, b);
  }
  add("combines", reduction(x), reduction(y));
  add("passes ordered =", int{x.ordered}, int{y.ordered});
  // The engine chooses these by the others.
  if (text.empty()) {
    add("runs algorithm", algorithm(x), algorithm(y));
    add("paces by", to_string(static_cast<Pacing>(x.pacing)),
        to_string(static_cast<Pacing>(y.pacing)));
    add("cuts blocks into pieces:", x.pieces, y.pieces);
  }
  if (text.empty() && x.calls != y.calls) {
    return fmt::format(
        "rank {} made the group after {} calls on earlier groups of the same ranks, rank {} after "
        "{}",
        a, x.calls, b, y.calls);
  }
  if (text.empty() && x.op == kOperators)
    return "their operators are for elements of other sizes, or they have other plans";
  if (text.empty())
    return "they have other plans or graphs, or place the group's ranks on other servers";
  return text;
}

CallBoard::CallBoard(const Place& place) {
  if (place.memory == nullptr) {
    private_.reset(new Line[kCalls]{});
    own_ = private_.get();
    return;
  }
  shape_ = place.shape;
  server_ = shape_->server_of(place.me);
  all_ = reinterpret_cast<Line*>(place.memory);
  own_ = all_ + static_cast<size_t>(shape_->local_of(place.me)) * kCalls;
}

std::optional<CallNote> CallBoard::find(Rank rank, const CallKey& call) const {
  if (all_ == nullptr || shape_->server_of(rank) != server_) return std::nullopt;
  return find(all_ + static_cast<size_t>(shape_->local_of(rank)) * kCalls, call);
}

std::optional<CallNote> CallBoard::find(const Line* lines, const CallKey& call) {
  for (size_t i = 0; i < kCalls; ++i) {
    const Line& line = lines[i];
    if (line[0].load(std::memory_order_acquire) != ~call.group) continue;
    const uint64_t head = line[1].load(std::memory_order_acquire);
    if (static_cast<uint32_t>(head) != call.sequence) continue;
    CallNote note{call, static_cast<uint32_t>(head >> 32), {}};
    std::array<uint64_t, sizeof(CallMeaning) / sizeof(uint64_t)> words;
    for (size_t word = 0; word < words.size(); ++word)
      words[word] = line[2 + word].load(std::memory_order_acquire);
    // The owner goes on meanwhile, and may be at another call's note by now.
    if (line[0].load(std::memory_order_relaxed) != ~call.group ||
        line[1].load(std::memory_order_relaxed) != head)
      continue;
    std::memcpy(static_cast<void*>(&note.meaning), words.data(), sizeof(note.meaning));
    return note;
  }
  return std::nullopt;
}

}  // namespace ibcoll
