#pragma once
/// Transports that carry nothing and take no time, so that benchmarks see the executor alone.

#include <string>

#include "engine/bootstrap/bootstrap.h"
#include "engine/transport/transport.h"

namespace ibcoll::perf {

/// Rank 0 of a job whose other ranks never do anything.
class LoneBootstrap : public Bootstrap {
 public:
  explicit LoneBootstrap(int ranks) : ranks_(ranks) {}
  Rank rank() const override { return 0; }
  int size() const override { return ranks_; }
  Status allgather(const void*, size_t, void*) override {
    return fail(ErrorCode::kUnsupported, "there is nobody else");
  }
  Status allgather_of(std::span<const Rank>, const void*, size_t, void*) override {
    return allgather(nullptr, 0, nullptr);
  }
  Status barrier() override { return {}; }
  void abort(const Failure&) override {}
  void end_after_death(const Failure&) override {}
  Result<std::optional<int64_t>> settle(uint64_t, int64_t proposal) override {
    return std::optional(proposal);
  }
  std::optional<int64_t> verdict(uint64_t) const override { return std::nullopt; }
  void forget_verdict(uint64_t) override {}
  std::optional<Failure> failure() const override { return std::nullopt; }

 private:
  int ranks_;
};

/// Whatever is offered is taken, whatever is asked for is there.
class EmptyLocal : public LocalTransport {
 public:
  Offer offer(Rank, const MessageKey&, const void*, size_t, uint32_t&) override {
    return Offer::kDone;
  }
  Offer offer_strided(Rank, const MessageKey&, const StridedMemory&, const StridedView&, size_t,
                      uint32_t&) override {
    return Offer::kDone;
  }
  Pull pull_strided(Rank, const MessageKey&, const StridedView&, size_t, size_t&) override {
    return Pull::kDone;
  }
  bool completed(Rank, uint32_t) override { return true; }
  Pull pull(Rank, const MessageKey&, void*, size_t, bool, size_t&) override { return Pull::kDone; }
  Pull pull_combined(Rank, const MessageKey&, void*, size_t, Combining&, size_t&) override {
    return Pull::kDone;
  }
  bool retract(Rank, uint32_t) override { return true; }
  void drop(uint64_t) override {}
  const std::string& trouble() const override { return nothing_; }
  bool offer_mail(Rank, std::span<const std::byte>) override { return true; }
  std::span<const std::byte> take_mail() override { return {}; }
  bool poll() override { return false; }
  Result<uint32_t> open_gates(uint64_t, std::span<const Rank>) override { return 0; }
  void close_gates(uint32_t, bool) override {}
  void gate_signal(uint32_t, uint32_t, uint32_t) override {}
  bool gate_passed(Rank, uint32_t, uint32_t, uint32_t) const override { return true; }

 private:
  std::string nothing_;
};

/// Takes everything that is posted; nothing ever arrives.
class EmptyNetwork : public NetworkTransport {
 public:
  const char* name() const override { return "empty"; }
  Result<MemoryKey> register_memory(void*, size_t) override { return MemoryKey{}; }
  void deregister_memory(const MemoryKey&) override {}
  bool put(Rank, const void*, const MemoryKey&, RemoteAddress, size_t, uint64_t) override {
    return true;
  }
  bool signal(Rank, uint32_t) override { return true; }
  bool mail(Rank, std::span<const std::byte>, size_t) override { return true; }
  size_t poll(std::span<Arrival>) override { return 0; }
  uint64_t posted(Rank) const override { return 0; }
  uint64_t completed(Rank) override { return 0; }
  std::optional<Failure> failure() const override { return std::nullopt; }
  const TransportCounters& counters() const override { return counters_; }
  Status close() override { return {}; }

 private:
  TransportCounters counters_;
};

}  // namespace ibcoll::perf
