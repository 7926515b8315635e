#pragma once
/// The memory through which the ranks of one launch meet: processes share it because it is mapped
/// before they are forked, threads share it anyway.

#include <atomic>
#include <cstdint>
#include <memory>

#include "engine/bootstrap/bootstrap.h"

namespace ibcoll {

/// The first failure of a job. Written once; whoever dies while it writes is found out by its
/// writer number. All zero bytes are a valid, empty record.
struct FailureRecord {
  static constexpr uint32_t kEmpty = 0, kWritten = 1, kFirstWriter = 2;
  std::atomic<uint32_t> state;  ///< kFirstWriter + n while writer n fills the record
  int32_t culprit;
  int32_t code;
  char text[Failure::kMaxText + 1];

  bool present() const { return state.load(std::memory_order_acquire) == kWritten; }
  /// True if this call wrote the record; false if there was one.
  bool write(const Failure& failure, uint32_t writer);
  /// Writes the record in place of a writer that died in the midst of it.
  bool finish_for_dead(const Failure& failure, uint32_t writer);
  Failure read() const;

 private:
  void fill(const Failure& failure);
};

/// Owns the shared memory and gives each rank its Bootstrap.
class ControlBlock {
 public:
  enum class Sharing { kProcesses, kThreads };
  static Result<std::unique_ptr<ControlBlock>> create(int ranks, Sharing sharing);
  ~ControlBlock();
  ControlBlock(const ControlBlock&) = delete;
  ControlBlock& operator=(const ControlBlock&) = delete;

  std::unique_ptr<Bootstrap> bootstrap(Rank rank);
  int ranks() const { return ranks_; }

  /// Reports a failure; the first counts. `writer`: a rank, or ranks() for the launcher.
  void report(const Failure& failure, int writer);
  /// Tells that a rank has ended, with what to report if others still wait for it or if it died
  /// while it reported. To be called once its thread or process is gone.
  void departed(Rank rank, const Failure& unfinished_report);
  std::optional<Failure> failure() const;
  /// Readable once a failure has been reported.
  int failure_fd() const { return failure_fd_; }

 private:
  friend class ControlBootstrap;
  struct Header;
  struct Slot;
  ControlBlock() = default;
  Slot& slot(uint32_t bank, Rank rank);
  void wake_all();

  int ranks_ = 0;
  Sharing sharing_ = Sharing::kProcesses;
  int failure_fd_ = -1;
  size_t bytes_ = 0;
  Header* header_ = nullptr;
};

}  // namespace ibcoll
