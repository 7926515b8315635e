#pragma once
/// What a measured collective sends and receives, and whether it received what it should.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/result.h"
#include "engine/core/call.h"
#include "engine/core/context.h"
#include "studies/measure/traffic.h"

namespace ibcoll::measure {

/// Memory of the engine or private memory of the process, every page of it touched.
class BenchMemory {
 public:
  static Result<BenchMemory> create(Context& context, size_t bytes, bool user_memory);
  BenchMemory() = default;
  BenchMemory(BenchMemory&& other) noexcept { *this = std::move(other); }
  BenchMemory& operator=(BenchMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(context_, other.context_);
    return *this;
  }
  ~BenchMemory();
  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
  Context* context_ = nullptr;
};

/// One rank's buffers (of an alltoallw: blocks of runs of at most 64 bytes, each with a gap as long
/// behind it), filled with what only this rank sends in this iteration.
class BenchBuffers {
 public:
  BenchBuffers(Rank me, int ranks) : me_(me), ranks_(ranks) {}

  /// Before anything else; `largest` is the most that is going to be measured.
  Status allocate(Context& context, const Traffic& largest, bool user_memory);
  /// A call's arguments, its options left open. Good until the next call of this function.
  CallArguments arguments(const Traffic& traffic);
  /// This iteration's own bytes to send; poison where they are received and a page behind it.
  void fill(const Traffic& traffic, int iteration);
  /// An error that names rank, origin, place and iteration when a received byte differs, or
  /// something was written past the end. `algorithm` is for the message.
  Status compare(const Traffic& traffic, int iteration, std::string_view algorithm) const;

 private:
  Result<std::vector<std::byte>> gathered(const Traffic::Slot& slot,
                                          std::string_view algorithm) const;
  CallArguments with_lists(CallArguments arguments) const;
  Status compare_block(const Block& block, const std::byte* data, int64_t bytes, int iteration,
                       std::string_view algorithm) const;
  Status compare_sums(const Traffic& traffic, int iteration, std::string_view algorithm) const;

  Rank me_;
  int ranks_;
  BenchMemory send_, receive_;
  std::vector<ibcoll_block> send_blocks_, receive_blocks_;
  std::vector<int64_t> send_counts_, send_places_, receive_counts_, receive_places_;
};

}  // namespace ibcoll::measure
