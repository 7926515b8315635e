#pragma once
/// A rank's view of its job that does what another one does, but for what a test overrides.

#include <optional>
#include <vector>

#include "engine/bootstrap/bootstrap.h"

namespace ibcoll {

class ForwardingBootstrap : public Bootstrap {
 public:
  explicit ForwardingBootstrap(Bootstrap& job) : job_(job) {}
  Rank rank() const override { return job_.rank(); }
  int size() const override { return job_.size(); }
  Status allgather(const void* mine, size_t bytes, void* all) override {
    return job_.allgather(mine, bytes, all);
  }
  Status allgather_of(std::span<const Rank> givers, const void* mine, size_t bytes,
                      void* all) override {
    return job_.allgather_of(givers, mine, bytes, all);
  }
  Status barrier() override { return job_.barrier(); }
  void abort(const Failure& failure) override { job_.abort(failure); }
  void end_after_death(const Failure& end) override { job_.end_after_death(end); }
  std::optional<Failure> failure() const override { return job_.failure(); }
  void set_leaving(bool leaving) override { job_.set_leaving(leaving); }
  void set_gone() override { job_.set_gone(); }
  bool is_leaving(Rank rank) const override { return job_.is_leaving(rank); }
  bool has_left(Rank rank) const override { return job_.has_left(rank); }
  std::optional<Failure> absence(Rank rank) const override { return job_.absence(rank); }
  std::optional<Failure> end_of(Rank rank) const override { return job_.end_of(rank); }
  uint32_t ends_noted() const override { return job_.ends_noted(); }
  void set_survival(bool survives) override { job_.set_survival(survives); }
  std::vector<Rank> ended() const override { return job_.ended(); }
  Result<std::optional<int64_t>> settle(uint64_t question, int64_t proposal) override {
    return job_.settle(question, proposal);
  }
  std::optional<int64_t> verdict(uint64_t question) const override {
    return job_.verdict(question);
  }
  void forget_verdict(uint64_t question) override { job_.forget_verdict(question); }
  bool is_watched(Rank rank) const override { return job_.is_watched(rank); }
  uint64_t sent_bytes() const override { return job_.sent_bytes(); }
  bool shares_address_space() const override { return job_.shares_address_space(); }

 private:
  Bootstrap& job_;
};

}  // namespace ibcoll
