#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>

#include "tests/lockstep/random.h"
#include "tests/lockstep/run_state.h"

namespace ibcoll::lockstep {
namespace {

/// So often a multicast is tried that is refused as there are too many under way.
constexpr int kTries = 100;
/// Multicasts of a rank that may be under way where nothing is said (docs/environment.md).
constexpr uint64_t kUsualWindow = 64;
/// Rounds in which a rank that cannot ask the others takes what may still come.
constexpr int kLastRounds = 50;
constexpr int64_t kRoundNs = 20'000;
/// A wait for messages that others make many of.
constexpr int64_t kShortWaitUs = 1;

}  // namespace

void Run::State::multicast(const Action& action) {
  if (over_) return;
  const MulticastSpec& spec = action.multicast;
  Random random(drawn({program_.seed, action.number, 21}));
  Sent one;
  one.action = &action;
  one.data = buffers_.take(spec.memory == Memory::kMixed ? Memory::kPrivate : spec.memory,
                           spec.bytes, random.below(64), static_cast<std::byte>(random.next()));
  fill_block(block_base(program_.seed, action.number, 0, me_, kForAll), 0, one.data.data,
             spec.bytes);
  ibcoll_multicast_options options = IBCOLL_MULTICAST_OPTIONS_INIT;
  options.tag = spec.tag;
  if (spec.algorithm != 0)
    options.algorithm = program_.options.multicast_algorithms[spec.algorithm - 1u].c_str();
  options.pieces = spec.pieces;
  options.acknowledged = spec.acknowledged ? 1 : 0;
  options.deadline_us = spec.deadline_us;
  for (int i = 0;; ++i) {
    const ibcoll_status status =
        ibcoll_multicast(context_, &spec.members, 1, one.data.data, spec.bytes, &options,
                         spec.waits ? nullptr : &one.request);
    if (status == IBCOLL_ERR_BUSY) {
      runner_.finished(Operation::kMulticast, status);
      const Outcome outcome = outcome_of(status);
      if (!is_untold(outcome) && (outcome.scope != IBCOLL_SCOPE_CALL ||
                                  outcome.text.find("rank ") == std::string_view::npos))
        violation(action, fmt::format("a refusal does not name a rank: {}", outcome.text));
      const char* const window = std::getenv("IBCOLL_MULTICAST_WINDOW");
      const uint64_t may_be_under_way =
          window == nullptr ? kUsualWindow : std::strtoull(window, nullptr, 10);
      if (multicasts_begun_ - multicasts_acknowledged_ < may_be_under_way)
        violation(action, fmt::format("a refusal with {} of {} multicasts under way: {}",
                                      multicasts_begun_ - multicasts_acknowledged_,
                                      may_be_under_way, outcome.text));
      if (i < kTries) {
        progress(1);
        poll_sent();
        if (!handles_) take_message();
        if (over_) break;
        runner_.look_again();
        continue;
      }
      break;  // nothing was sent
    }
    ++multicasts_begun_;
    if (status == IBCOLL_OK && !spec.waits) {
      sent_.push_back(one);
      return poll_sent();
    }
    // What has ended inside of the call is as certain as what ends later.
    return sent(one, status);
  }
  buffers_.put(one.data);
}

void Run::State::sent(Sent& one, ibcoll_status status) {
  const Action& action = *one.action;
  const MulticastSpec& spec = action.multicast;
  runner_.finished(Operation::kMulticast, status);
  std::vector<int64_t>& counts = status == IBCOLL_OK ? certain_ : uncertain_;
  for (Rank rank = 0; rank < program_.ranks(); ++rank) {
    if ((spec.members >> rank & 1) != 0) ++counts[static_cast<size_t>(rank)];
  }
  if (status == IBCOLL_OK) {
    if (spec.acknowledged) ++multicasts_acknowledged_;
    const std::byte* const data = one.data.data;
    ibcoll_message message{};
    message.data = data;
    message.bytes = spec.bytes;
    message.tag = spec.tag;
    message.master = me_;
    if (!has_data(message)) violation(action, "the data that were sent have changed");
  } else {
    failed(action, status);
    if (one.request != nullptr && !over_) {
      int missing[kMostRanks], count = 0;
      expect_ok(ibcoll_multicast_missing(one.request, missing, kMostRanks, &count),
                "multicast_missing");
      for (int i = 0; i < std::min(count, kMostRanks); ++i) {
        if ((spec.members >> missing[i] & 1) == 0)
          violation(action, fmt::format("rank {} is said to lack the message, and is no member",
                                        missing[i]));
      }
    }
  }
  if (one.request != nullptr) expect_ok(ibcoll_call_free(one.request), "call_free");
  one.request = nullptr;
  // The data are the program's again: others find out if they are still read.
  one.data.fill();
  buffers_.put(one.data);
}

void Run::State::poll_sent() {
  for (size_t i = 0; i < sent_.size();) {
    int done = 0;
    const ibcoll_status status = ibcoll_test(sent_[i].request, &done);
    if (done == 0 && status == IBCOLL_OK) {
      ++i;
      continue;
    }
    sent(sent_[i], status);
    sent_.erase(sent_.begin() + static_cast<ptrdiff_t>(i));
  }
}

void Run::State::handle(void* state, const ibcoll_message* message) {
  static_cast<State*>(state)->check_message(*message);
}

void Run::State::set_handler(bool on) {
  if (over_ || on == handles_) return;
  handles_ = on;
  expect_ok(ibcoll_multicast_set_handler(context_, on ? handle : nullptr, this),
            "multicast_set_handler");
}

bool Run::State::has_data(const ibcoll_message& message) const {
  const auto number = static_cast<uint32_t>(message.tag);
  const uint64_t base = block_base(program_.seed, number, 0, message.master, kForAll);
  std::byte expected[4096];
  for (size_t at = 0; at < message.bytes; at += sizeof expected) {
    const size_t bytes = std::min(sizeof expected, message.bytes - at);
    fill_block(base, at, expected, bytes);
    if (std::memcmp(expected, static_cast<const std::byte*>(message.data) + at, bytes) != 0)
      return false;
  }
  return true;
}

void Run::State::check_message(const ibcoll_message& message) {
  runner_.finished(Operation::kReceive, IBCOLL_OK);
  const auto number = static_cast<uint32_t>(message.tag);
  const auto found =
      std::find_if(program_.actions.begin(), program_.actions.end(), [&](const Action& action) {
        return action.kind == ActionKind::kMulticast && action.number == number &&
               action.multicast.tag == message.tag;
      });
  if (found == program_.actions.end()) {
    return violation(fmt::format("a message of {} bytes, tag {:#x}, of rank {} was never sent",
                                 message.bytes, message.tag, message.master));
  }
  const MulticastSpec& spec = found->multicast;
  if (message.master != spec.master || message.bytes != spec.bytes ||
      message.members != __builtin_popcountll(spec.members) || (spec.members >> me_ & 1) == 0) {
    return violation(*found,
                     fmt::format("a message of {} bytes of rank {} to {} ranks has come here",
                                 message.bytes, message.master, message.members));
  }
  // Members by server, servers by their lowest member: here servers hold ranks that follow each
  // other.
  const uint64_t others = spec.members & ~(uint64_t{1} << spec.master);
  const int id = me_ == spec.master ? message.members - 1
                                    : __builtin_popcountll(others & ((uint64_t{1} << me_) - 1));
  if (message.id != id) violation(*found, fmt::format("logical id {} for {}", message.id, id));
  if (reinterpret_cast<uintptr_t>(message.data) % 64 != 0)
    violation(*found, "the data are not aligned");
  if (!has_data(message)) violation(*found, "the message is wrong");
  const auto master = static_cast<size_t>(message.master);
  if ((told_ >> master & 1) != 0) violation(*found, "a receive has said that it does not come");
  if (last_number_[master] >= static_cast<int64_t>(number))
    violation(*found, fmt::format("it came after the master's number {}", last_number_[master]));
  last_number_[master] = number;
  ++received_[master];
}

const ibcoll_message* Run::State::next_message(int64_t patience_us) {
  const ibcoll_message* message = nullptr;
  const ibcoll_status status = ibcoll_multicast_receive(context_, patience_us, &message);
  const Outcome outcome = outcome_of(status);
  if (status == IBCOLL_ERR_PEER_FAILED && outcome.scope == IBCOLL_SCOPE_CALL) {
    runner_.finished(Operation::kReceive, status);
    const Faults faults = runner_.faults();
    if (const std::string wrong = causes_.check_receive(outcome, faults); !wrong.empty())
      violation(wrong);
    size_t from = 0;
    const uint64_t told = uint64_t{1} << std::max(rank_named(outcome.text, from), 0);
    // Where none is left, each receive says so.
    if ((told_ & told) != 0 && std::popcount(told_) < program_.ranks() - 1)
      violation(fmt::format("a receive has told of that before: {}", outcome.text));
    told_ |= told;
    return nullptr;
  }
  if (!expect_ok(status, "multicast_receive") || message == nullptr) return nullptr;
  check_message(*message);
  return message;
}

bool Run::State::take_message() {
  const ibcoll_message* const message = next_message(0);
  if (message == nullptr) return false;
  expect_ok(ibcoll_message_free(context_, message), "message_free");
  return true;
}

void Run::State::free_held(size_t keep) {
  while (held_.size() > keep) {
    if (!has_data(*held_.front())) violation("a message that is held has changed");
    expect_ok(ibcoll_message_free(context_, held_.front()), "message_free");
    held_.erase(held_.begin());
  }
}

void Run::State::receive(const Action& action) {
  if (over_) return;
  poll_sent();
  if (handles_) {
    const ibcoll_message* message = nullptr;
    const ibcoll_status status = ibcoll_multicast_receive(context_, 0, &message);
    const bool lacks_memory = status == IBCOLL_ERR_NO_MEMORY && runner_.faults().memory_failed;
    if (status != IBCOLL_ERR_INVALID && !lacks_memory &&
        ibcoll_last_error_scope() != IBCOLL_SCOPE_JOB)
      violation(action, fmt::format("receiving beside a handler gives status {}",
                                    static_cast<int>(status)));
    if (message != nullptr) expect_ok(ibcoll_message_free(context_, message), "message_free");
    return;
  }
  free_held(held_.size() / 2);
  if (action.number % 2 == 0) learn_of_deaths(kShortWaitUs);
  for (uint32_t i = 0; i < action.count; ++i) {
    const ibcoll_message* const message = next_message(i == 0 ? action.ns / 1000 : 0);
    if (message == nullptr) return;
    held_.push_back(message);
  }
}

bool Run::State::settled(const std::vector<int64_t>& counts) const {
  for (size_t master = 0; master < received_.size(); ++master) {
    if (received_[master] < counts[2 * master]) return false;
  }
  return sent_.empty();
}

void Run::State::settle() {
  free_held(0);
  set_handler(false);  // from here on this rank takes what comes
  if (over_ || ended_[0] != IBCOLL_OK || runner_.faults().dead != 0) return settle_alone();
  const auto ranks = static_cast<size_t>(program_.ranks());
  // All ranks take what comes while they wait for each other, so nobody waits for memory.
  while (!sent_.empty() && !over_) {
    poll_sent();
    if (!take_message()) progress(1);
    runner_.look_again();
  }
  std::vector<int64_t> mine(2 * ranks), theirs(2 * ranks);
  for (size_t rank = 0; rank < ranks; ++rank) {
    mine[2 * rank] = certain_[rank];
    mine[2 * rank + 1] = uncertain_[rank];
  }
  const auto wait_for = [&](const ibcoll_call& call, bool takes) {
    ibcoll_request* request = nullptr;
    ibcoll_status status = ibcoll_call_init(groups_[0], &call, &request);
    int done = 0;
    if (status == IBCOLL_OK) status = ibcoll_start(request);
    while (status == IBCOLL_OK && done == 0) {
      status = ibcoll_test(request, &done);
      if (takes && !over_) take_message();
      if (done == 0) runner_.look_again();
    }
    Action action;
    action.kind = ActionKind::kCall;
    action.spec.operation = static_cast<Operation>(call.collective);
    if (status != IBCOLL_OK) failed(action, status);
    expect_ok(ibcoll_call_free(request), "call_free");
    return status == IBCOLL_OK;
  };
  const ibcoll_call counts =
      ibcoll_call_alltoall(mine.data(), theirs.data(), 2 * sizeof(int64_t), nullptr);
  if (!wait_for(counts, true)) return settle_alone();
  while (!settled(theirs) && !over_) {
    if (!take_message()) progress(1);
    runner_.look_again();
    // Who had no memory for a message does not get it, though it has left its master.
    if (runner_.faults().dead != 0 || runner_.faults().memory_failed) return settle_alone();
  }
  // From here on what comes is of the next program.
  if (!wait_for(ibcoll_call_barrier(nullptr), false)) return settle_alone();
  for (size_t master = 0; master < ranks && !over_; ++master) {
    if (received_[master] > theirs[2 * master] + theirs[2 * master + 1])
      violation(fmt::format("{} messages of rank {} have come, which has sent {}",
                            received_[master], master,
                            theirs[2 * master] + theirs[2 * master + 1]));
  }
}

void Run::State::leave_at_once() {
  free_held(0);
  set_handler(false);
  while (!sent_.empty()) {
    poll_sent();
    // What nobody takes may hold the memory that one of them waits for.
    if (!over_ && !sent_.empty()) take_message();
    runner_.look_again();
  }
}

void Run::State::settle_alone() {
  for (int i = 0; i < kLastRounds && !over_; ++i) {
    poll_sent();
    if (!take_message()) runner_.pause(kRoundNs);
  }
  while (!sent_.empty()) {
    poll_sent();
    if (!over_ && !sent_.empty()) take_message();
    runner_.look_again();
  }
  learn_of_deaths(program_.seed % 2 == 0 ? -1 : kShortWaitUs);
}

void Run::State::learn_of_deaths(int64_t patience_us) {
  const auto untold = [this] {
    const Faults faults = runner_.faults();
    return !faults.refused() && (faults.died_amid & ~told_) != 0;
  };
  while (!over_ && untold()) {
    const ibcoll_message* const message = next_message(patience_us);
    if (message != nullptr) expect_ok(ibcoll_message_free(context_, message), "message_free");
  }
}

}  // namespace ibcoll::lockstep
