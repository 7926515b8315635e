#include "tools/ib_mcast_bench/master.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <csignal>
#include <numeric>

#include "engine/base/clock.h"
#include "ibcoll/calls.h"
#include "ibcoll/sets.h"
#include "tools/ib_mcast_bench/messages.h"

namespace ibcoll::tools {
namespace {

int64_t processor_ns() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return int64_t{1'000'000'000} * time.tv_sec + time.tv_nsec;
}

}  // namespace

Status of_api(ibcoll_status status) {
  if (status == IBCOLL_OK) return {};
  return fail(ErrorCode::kPeerFailed, "{}", ibcoll_last_error());
}

void Stopped::stop(int process) {
  process_ = process;
  since_ = now_ns();
  if (process_ > 0) kill(process_, SIGSTOP);
}

void Stopped::look() {
  if (stands() && now_ns() - since_ >= kStandsNs) resume();
}

void Stopped::resume() {
  if (stands() && process_ > 0) kill(process_, SIGCONT);
  process_ = 0;
  since_ = 0;
}

bool McastMaster::has_slow(const std::vector<int>& members) const {
  return settings_.slow && std::binary_search(members.begin(), members.end(), *settings_.slow);
}

std::vector<std::byte> McastMaster::buffer() {
  if (free_.empty()) return std::vector<std::byte>(static_cast<size_t>(bytes_), std::byte{1});
  std::vector<std::byte> taken = std::move(free_.back());
  free_.pop_back();
  return taken;
}

Result<bool> McastMaster::start(int send) {
  const std::vector<int>& members = members_of(send);
  UnderWay one;
  one.send = send;
  one.data = buffer();
  ibcoll_multicast_options options = IBCOLL_MULTICAST_OPTIONS_INIT;
  options.tag = McastTag{phase_, order_, static_cast<uint32_t>(send)}.word();
  options.algorithm = algorithm_.c_str();
  options.pieces = settings_.pieces;
  options.acknowledged = 1;
  if (settings_.check) fill_message(one.data, me_, options.tag);
  const std::vector<uint64_t> words = bitmap_of(members, settings_.draw.ranks);
  McastSample& sample = samples_[static_cast<size_t>(send)];
  if (settings_.bound && sample.bound_us == 0) {
    IBCOLL_TRY(of_api(ibcoll_multicast_bound(context_, words.data(), words.size(), one.data.size(),
                                             &options, &sample.bound_us)));
  }
  const int64_t begin = now_ns();
  const int64_t processor = processor_ns();
  const ibcoll_status status =
      ibcoll_multicast(context_, words.data(), words.size(), one.data.data(), one.data.size(),
                       &options, &one.settings);
  const int64_t took = processor_ns() - processor;
  int64_t& first_try = first_try_ns_[static_cast<size_t>(send)];
  if (first_try == 0) first_try = begin;
  if (status == IBCOLL_ERR_BUSY) {
    ++busy_;
    free_.push_back(std::move(one.data));
    return false;
  }
  IBCOLL_TRY(of_api(status));
  ++order_;
  one.begin_ns = first_try;
  sample.master_us = static_cast<double>(took) / 1e3;
  sample.members = static_cast<int64_t>(members.size());
  sample.second = settings_.repeat && send % 2 == 1 ? 1 : 0;
  sample.slow = has_slow(members) ? 1 : 0;
  under_way_.push_back(std::move(one));
  return true;
}

Status McastMaster::finish(UnderWay& one, ibcoll_status ended) {
  IBCOLL_TRY(of_api(ended));
  McastSample& sample = samples_[static_cast<size_t>(one.send)];
  sample.us = static_cast<double>(now_ns() - one.begin_ns) / 1e3;
  sample.stopped = stopped_.stands() ? 1 : 0;
  IBCOLL_TRY(of_api(ibcoll_call_free(one.settings)));
  free_.push_back(std::move(one.data));
  return {};
}

Status McastMaster::meet() {
  std::vector<int> masters(static_cast<size_t>(settings_.masters));
  std::iota(masters.begin(), masters.end(), 0);
  const std::vector<uint64_t> words = bitmap_of(masters, settings_.draw.ranks);
  const ibcoll_call barrier = ibcoll_call_of(IBCOLL_BARRIER, nullptr);
  return of_api(ibcoll_set_call(context_, words.data(), words.size(), 0, &barrier));
}

Status McastMaster::stop_slow() {
  while (!under_way_.empty()) IBCOLL_TRY(await_oldest());
  if (settings_.masters > 1) IBCOLL_TRY(meet());
  stopped_.stop(stop_);
  return settings_.masters > 1 ? meet() : Status{};
}

Status McastMaster::await_oldest() {
  UnderWay one = std::move(under_way_.front());
  under_way_.pop_front();
  return finish(one, ibcoll_wait(one.settings));
}

Status McastMaster::look_after_all() {
  bool any = false;
  for (size_t i = 0; i < under_way_.size();) {
    // Asking for what can't end takes others their time.
    if (stopped_.stands() && has_slow(members_of(under_way_[i].send))) {
      ++i;
      continue;
    }
    int done = 0;
    const ibcoll_status tested = ibcoll_test(under_way_[i].settings, &done);
    if (tested == IBCOLL_OK && done == 0) {
      ++i;
      continue;
    }
    UnderWay one = std::move(under_way_[i]);
    under_way_.erase(under_way_.begin() + static_cast<std::ptrdiff_t>(i));
    IBCOLL_TRY(finish(one, tested));
    any = true;
  }
  if (any) return {};
  int moved = 0;
  IBCOLL_TRY(of_api(ibcoll_progress(context_, &moved)));
  if (moved == 0) sched_yield();
  return {};
}

Status McastMaster::send_all(uint32_t phase, int64_t bytes, const std::string& algorithm,
                             const std::vector<std::vector<int>>& sets) {
  phase_ = phase;
  bytes_ = bytes;
  algorithm_ = algorithm;
  sets_ = &sets;
  order_ = 0;
  busy_ = 0;
  free_.clear();
  first_try_ns_.assign(static_cast<size_t>(settings_.sends()), 0);
  samples_.assign(static_cast<size_t>(settings_.sends()), {});
  const int warmup = settings_.warmup_sends();
  std::deque<int> pending;
  for (int send = 0; send < settings_.sends(); ++send) pending.push_back(send);
  // What a stopped rank holds up is for the library to limit, not for this window.
  const auto in_window = [this] {
    return std::count_if(under_way_.begin(), under_way_.end(),
                         [this](const UnderWay& one) { return !has_slow(members_of(one.send)); });
  };
  std::vector<int> deferred;  // to sets with the stopped rank, which is late with as many as may be
  bool stop = settings_.slow.has_value();
  while (!pending.empty() || !deferred.empty() || !under_way_.empty()) {
    stopped_.look();
    if (!stopped_.stands()) {
      pending.insert(pending.end(), deferred.begin(), deferred.end());
      deferred.clear();
    }
    while (!pending.empty() && in_window() < settings_.window) {
      const int send = pending.front();
      // Warm-up ends before anything that counts begins.
      if (send == warmup) {
        while (!under_way_.empty()) IBCOLL_TRY(await_oldest());
        counted_from_ns_ = now_ns();
      }
      // Half of those that count come before, to compare with.
      if (stop && send == (warmup + settings_.sends()) / 2) {
        IBCOLL_TRY(stop_slow());
        stop = false;
      }
      IBCOLL_ASSIGN(const bool sent, start(send));
      if (!sent && !(stopped_.stands() && has_slow(members_of(send)))) break;
      pending.pop_front();
      if (!sent) deferred.push_back(send);
    }
    if (settings_.window == 1 && !settings_.slow && !under_way_.empty()) {
      IBCOLL_TRY(await_oldest());
    } else {
      IBCOLL_TRY(look_after_all());
    }
  }
  stopped_.resume();
  took_us_ = static_cast<double>(now_ns() - counted_from_ns_) / 1e3;
  samples_.erase(samples_.begin(), samples_.begin() + warmup);
  return {};
}

Status McastMaster::send_one(uint64_t tag, int64_t bytes, const std::string& algorithm,
                             const std::vector<int>& members) {
  std::vector<std::byte> data(static_cast<size_t>(bytes), std::byte{1});
  if (settings_.check) fill_message(data, me_, tag);
  ibcoll_multicast_options options = IBCOLL_MULTICAST_OPTIONS_INIT;
  options.tag = tag;
  options.algorithm = algorithm.c_str();
  options.pieces = settings_.pieces;
  options.acknowledged = 1;
  const std::vector<uint64_t> words = bitmap_of(members, settings_.draw.ranks);
  ibcoll_request* settings = nullptr;
  ibcoll_status status = IBCOLL_ERR_BUSY;
  while (status == IBCOLL_ERR_BUSY) {
    status = ibcoll_multicast(context_, words.data(), words.size(), data.data(), data.size(),
                              &options, &settings);
    if (status == IBCOLL_ERR_BUSY) IBCOLL_TRY(of_api(ibcoll_progress(context_, nullptr)));
  }
  IBCOLL_TRY(of_api(status));
  IBCOLL_TRY(of_api(ibcoll_wait(settings)));
  return of_api(ibcoll_call_free(settings));
}

}  // namespace ibcoll::tools
