#pragma once
/// Transports that do only what the test tells them.

#include <cstring>
#include <span>
#include <vector>

#include "engine/execute/executor.h"
#include "engine/schedule/builder.h"
#include "perf/support/empty_transports.h"

namespace ibcoll {

inline constexpr uint64_t kBlockBytes = 8;

inline Slice slot_of(Buffer buffer, uint32_t slot) { return {buffer, slot, 1}; }

/// A server's local side where the pieces a peer sent are counted by the test.
class CountedLocal : public perf::EmptyLocal {
 public:
  int arrived = 0;
  bool reads_late = false;  ///< what is offered is read after somebody has asked for it once
  int asked = 0;

  Offer offer(Rank, const MessageKey&, const void*, size_t, uint32_t& ticket) override {
    ticket = 1;
    return reads_late ? Offer::kPending : Offer::kDone;
  }
  bool completed(Rank, uint32_t) override { return ++asked > 1; }
  Pull pull(Rank, const MessageKey&, void*, size_t, bool, size_t&) override {
    if (arrived == 0) return Pull::kNotYet;
    --arrived;
    return Pull::kDone;
  }
};

/// A network that tells what was put where, and completes it when the test says so.
class ToldNetwork : public perf::EmptyNetwork {
 public:
  std::vector<uint64_t> put_to;  ///< target addresses
  uint64_t done = 0;
  std::vector<std::byte> mail_to_deliver;

  std::vector<std::vector<std::byte>> mailed;

  using NetworkTransport::mail;
  bool mail(Rank, std::span<const std::byte> bytes, size_t) override {
    mailed.emplace_back(bytes.begin(), bytes.end());
    return true;
  }
  bool put(Rank, const void*, const MemoryKey&, RemoteAddress target, size_t, uint64_t) override {
    put_to.push_back(target.address);
    return true;
  }
  size_t poll(std::span<Arrival> arrivals) override {
    if (mail_to_deliver.empty()) return 0;
    delivered_ = std::exchange(mail_to_deliver, {});
    arrivals[0] = {Arrival::Kind::kMail, 2, 0, delivered_};
    return 1;
  }
  uint64_t posted(Rank) const override { return put_to.size(); }
  uint64_t completed(Rank) override { return done; }

 private:
  std::vector<std::byte> delivered_;
};

}  // namespace ibcoll
