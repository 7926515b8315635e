#include "studies/formats/msccl_order.h"

#include <algorithm>
#include <map>
#include <queue>
#include <tuple>

namespace ibcoll::formats {
namespace {

constexpr uint32_t kNone = ~uint32_t{0};
/// Of clocks: a gigabyte of them.
constexpr uint64_t kMostClockEntries = uint64_t{1} << 28;

}  // namespace

Result<MscclOrder> MscclOrder::create(const MscclProgram& program) {
  MscclOrder order(program);
  for (uint32_t rank = 0; rank < program.gpus.size(); ++rank) {
    order.first_block_.push_back(order.first_step_.size());
    const auto& blocks = program.gpus[rank].blocks;
    for (uint32_t block = 0; block < blocks.size(); ++block) {
      order.first_step_.push_back(order.steps_.size());
      for (uint32_t step = 0; step < blocks[block].steps.size(); ++step)
        order.steps_.push_back({rank, block, step});
    }
  }
  const uint64_t blocks = order.first_step_.size();
  if (blocks * blocks > kMostClockEntries)
    return fail(ErrorCode::kInput, "{} threadblocks are too many", blocks);
  IBCOLL_TRY(order.match());
  IBCOLL_TRY(order.sort());
  order.clocks_.assign(blocks, Clock(blocks));
  return order;
}

/// Which step receives what which one sends, and which one waits for which.
Status MscclOrder::match() {
  comes_after_.assign(steps_.size(), -1);
  waiters_.assign(steps_.size(), 0);
  sent_.assign(steps_.size(), kNone);
  received_.assign(steps_.size(), kNone);
  using Queue = std::tuple<int64_t, int64_t, int64_t>;  // from, to, channel
  struct Ends {
    std::vector<size_t> sends, receives;
    int64_t sender = -1, receiver = -1;
  };
  std::map<Queue, Ends> queues;
  for (size_t i = 0; i < steps_.size(); ++i) {
    const StepPlace& at = steps_[i];
    const MscclStep& mine = step(at);
    const MscclBlock& block = program_->gpus[at.rank].blocks[at.block];
    const auto enter = [&](const Queue& queue, bool sends) -> Status {
      Ends& ends = queues[queue];
      int64_t& owner = sends ? ends.sender : ends.receiver;
      if (owner >= 0 && owner != at.block) {
        return fail(ErrorCode::kInput,
                    "{}: channel {} between ranks {} and {} has another threadblock, {}", name(at),
                    block.channel, std::get<0>(queue), std::get<1>(queue),
                    program_->gpus[at.rank].blocks[owner].id);
      }
      owner = at.block;
      (sends ? ends.sends : ends.receives).push_back(i);
      return {};
    };
    if (mine.sends()) IBCOLL_TRY(enter({at.rank, block.send, block.channel}, true));
    if (mine.receives()) IBCOLL_TRY(enter({block.recv, at.rank, block.channel}, false));
    if (mine.after_block < 0) continue;
    const auto& blocks = program_->gpus[at.rank].blocks;
    const auto other = std::find_if(blocks.begin(), blocks.end(), [&](const MscclBlock& one) {
      return one.id == mine.after_block;
    });
    if (other == blocks.end() || mine.after_step >= static_cast<int64_t>(other->steps.size())) {
      return fail(ErrorCode::kInput,
                  "{}: comes after step {} of threadblock {}, which there is not", name(at),
                  mine.after_step, mine.after_block);
    }
    // It is the next one that announces itself that shows.
    auto shows = other->steps.begin() + mine.after_step;
    while (shows != other->steps.end() && !shows->announces) ++shows;
    if (shows == other->steps.end()) {
      return fail(ErrorCode::kInput,
                  "{}: comes after step {} of threadblock {}, which announces itself to nobody",
                  name(at), mine.after_step, mine.after_block);
    }
    const size_t before = step_index({at.rank, static_cast<uint32_t>(other - blocks.begin()),
                                      static_cast<uint32_t>(shows - other->steps.begin())});
    comes_after_[i] = static_cast<int64_t>(before);
    ++waiters_[before];
  }
  for (const auto& [queue, ends] : queues) {
    for (size_t k = 0; k < std::max(ends.sends.size(), ends.receives.size()); ++k) {
      if (k >= ends.receives.size()) {
        return fail(ErrorCode::kInput,
                    "{}: rank {} does not receive it, only {} messages before it",
                    name(steps_[ends.sends[k]]), std::get<1>(queue), k);
      }
      if (k >= ends.sends.size()) {
        return fail(ErrorCode::kInput, "{}: rank {} does not send it, only {} messages before it",
                    name(steps_[ends.receives[k]]), std::get<0>(queue), k);
      }
      const MscclStep &from = step(steps_[ends.sends[k]]), &to = step(steps_[ends.receives[k]]);
      if (from.count != to.count) {
        return fail(ErrorCode::kInput, "{}: receives {} chunks, but {} sends {}",
                    name(steps_[ends.receives[k]]), to.count, name(steps_[ends.sends[k]]),
                    from.count);
      }
      sent_[ends.sends[k]] = received_[ends.receives[k]] = messages_++;
    }
  }
  return {};
}

/// Takes what nothing holds back, the lowest level first, or the order that the file gives.
Status MscclOrder::sort() {
  // Halves: 2 * step is the first one, 2 * step + 1 what it sends.
  const size_t count = 2 * steps_.size();
  const auto has = [&](size_t half) {
    const MscclStep& of = step(steps_[half / 2]);
    return half % 2 == 1 ? of.sends() : of.type != "s";
  };
  const auto last_half = [&](size_t of) { return 2 * of + (step(steps_[of]).sends() ? 1 : 0); };
  const auto first_half = [&](size_t of) {
    return 2 * of + (step(steps_[of]).type == "s" ? 1 : 0);
  };
  std::vector<std::vector<uint32_t>> next(count);
  std::vector<uint32_t> waits(count);
  const auto edge = [&](size_t before, size_t after) {
    next[before].push_back(static_cast<uint32_t>(after));
    ++waits[after];
  };
  std::vector<size_t> sender(messages_);
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (sent_[i] != kNone) sender[sent_[i]] = i;
  }
  bool told = !steps_.empty();
  for (size_t i = 0; i < steps_.size(); ++i) {
    const MscclStep& of = step(steps_[i]);
    told = told && of.order >= 0;
    if (first_half(i) != last_half(i)) edge(2 * i, 2 * i + 1);
    if (steps_[i].step > 0) edge(last_half(i - 1), first_half(i));
    if (comes_after_[i] >= 0) edge(last_half(comes_after_[i]), first_half(i));
    if (received_[i] != kNone) edge(2 * sender[received_[i]] + 1, 2 * i);
  }
  std::vector<uint32_t> level(count);
  using Key = std::tuple<int64_t, uint32_t, size_t>;
  std::priority_queue<Key, std::vector<Key>, std::greater<>> ready;
  const auto add = [&](size_t half) {
    const int64_t order = told ? step(steps_[half / 2]).order : 0;
    ready.emplace(order, level[half], half);
  };
  for (size_t half = 0; half < count; ++half) {
    if (half % 2 == 1) level[half] = 1;
    if (has(half) && waits[half] == 0) add(half);
  }
  size_t all = 0;
  for (size_t half = 0; half < count; ++half) all += has(half) ? 1 : 0;
  while (!ready.empty()) {
    const size_t half = std::get<2>(ready.top());
    ready.pop();
    const size_t of = half / 2;
    const uint32_t message = half % 2 == 1 ? sent_[of] : received_[of];
    halves_.push_back({steps_[of], half % 2 == 1, level[half], message, message != kNone});
    for (const uint32_t after : next[half]) {
      level[after] = std::max(level[after], level[half] + (after % 2 == 1 ? 1 : 0));
      if (--waits[after] == 0) add(after);
    }
  }
  return halves_.size() == all ? Status{} : stuck(waits);
}

/// Names a step that waits for another, which waits in turn, in a cycle.
Status MscclOrder::stuck(const std::vector<uint32_t>& waits) const {
  const auto stands = [&](size_t of) { return waits[2 * of] > 0 || waits[2 * of + 1] > 0; };
  std::vector<size_t> sender(messages_);
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (sent_[i] != kNone) sender[sent_[i]] = i;
  }
  const auto cause = [&](size_t of) -> size_t {
    if (steps_[of].step > 0 && stands(of - 1)) return of - 1;
    if (comes_after_[of] >= 0 && stands(comes_after_[of])) return comes_after_[of];
    return sender[received_[of]];
  };
  size_t at = 0;
  while (!stands(at)) ++at;
  for (size_t i = 0; i < steps_.size(); ++i) at = cause(at);  // by now in the cycle
  // The first of its threadblock that stands says most.
  size_t of = at;
  for (size_t i = 0; i < steps_.size() && cause(of) == of - 1; ++i) of = cause(of);
  return fail(ErrorCode::kInput, "{}: no progress, it waits for {} in a cycle", name(steps_[of]),
              name(steps_[cause(of)]));
}

void MscclOrder::enter(const StepHalf& half) {
  Clock& clock = clocks_[block_index(half.at.rank, half.at.block)];
  const auto join = [&](const Clock& other) {
    for (size_t i = 0; i < clock.size(); ++i) clock[i] = std::max(clock[i], other[i]);
  };
  const size_t of = step_index(half.at);
  const bool first = half.sends == (step(half.at).type == "s");
  if (first && comes_after_[of] >= 0) {
    const auto awaited = awaited_.find(static_cast<size_t>(comes_after_[of]));
    join(awaited->second.first);
    if (--awaited->second.second == 0) awaited_.erase(awaited);
  }
  if (!half.sends && half.has_message) {
    const auto message = under_way_.find(half.message);
    join(message->second);
    under_way_.erase(message);
  }
}

void MscclOrder::leave(const StepHalf& half) {
  const size_t block = block_index(half.at.rank, half.at.block), of = step_index(half.at);
  Clock& clock = clocks_[block];
  if (half.sends != step(half.at).sends()) return;
  clock[block] = half.at.step + 1;
  if (half.sends) under_way_.emplace(half.message, clock);
  if (waiters_[of] > 0) awaited_.emplace(of, std::pair(clock, waiters_[of]));
}

bool MscclOrder::has_happened(const StepHalf& now, uint32_t block, uint32_t step) const {
  if (block == now.at.block) return true;
  const Clock& clock = clocks_[block_index(now.at.rank, now.at.block)];
  return clock[block_index(now.at.rank, block)] > step;
}

}  // namespace ibcoll::formats
