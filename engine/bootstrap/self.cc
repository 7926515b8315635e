#include "engine/bootstrap/self.h"

#include <cstring>

#include "engine/bootstrap/first_failure.h"

namespace ibcoll {
namespace {

class SelfBootstrap final : public Bootstrap {
 public:
  Rank rank() const override { return 0; }
  int size() const override { return 1; }
  Status allgather(const void* mine, size_t bytes, void* all) override {
    IBCOLL_TRY(barrier());
    if (bytes > 0) std::memcpy(all, mine, bytes);
    return {};
  }
  Status allgather_of(std::span<const Rank> givers, const void* mine, size_t bytes,
                      void* all) override {
    return allgather(mine, givers.empty() ? 0 : bytes, all);
  }
  Status barrier() override {
    const std::optional<Failure> first = failure();
    if (!first) return {};
    return tl::unexpected<Error>(first->error());
  }
  void abort(const Failure& failure) override { first_.tell(&place_, 0, failure); }
  void end_after_death(const Failure&) override {}  // there is nobody to survive
  std::optional<Failure> failure() const override { return first_.read(&place_); }
  Result<std::optional<int64_t>> settle(uint64_t, int64_t proposal) override {
    return std::optional(proposal);
  }
  std::optional<int64_t> verdict(uint64_t) const override { return std::nullopt; }
  void forget_verdict(uint64_t) override {}

 private:
  FirstFailure first_{};
  FirstFailure::Place place_{};
};

}  // namespace

std::unique_ptr<Bootstrap> self_bootstrap() { return std::make_unique<SelfBootstrap>(); }

}  // namespace ibcoll
