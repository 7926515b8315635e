#pragma once
/// A queue pair for short datagrams. They may get lost: whoever sends one repeats it until
/// something comes of it.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/base/result.h"
#include "verbs/device.h"

namespace ibcoll::verbs {

class Datagrams {
 public:
  static constexpr size_t kMaxBytes = 88;

  /// How many sends a port lets it have under way, and receives.
  static uint32_t depth_for(const PortInfo& port);
  /// What so many take beside the device's own queues.
  static size_t bytes_for(uint32_t depth);

  /// Completions notify `channel`, if there is one.
  static Result<std::unique_ptr<Datagrams>> create(const Device& device, ibv_comp_channel* channel);
  Datagrams(const Datagrams&) = delete;
  Datagrams& operator=(const Datagrams&) = delete;

  uint32_t number() const { return queue_pair_->qp_num; }
  ibv_cq* completions() const { return completions_.get(); }

  /// Sends up to kMaxBytes. False, and nothing sent, where there is no room now.
  Result<bool> send(ibv_ah* way, uint32_t number, std::span<const std::byte> bytes);

  using Take = std::function<Status(std::span<const std::byte>)>;
  /// Hands out what has come.
  Status poll(const Take& take);

 private:
  explicit Datagrams(const Device& device) : device_(device) {}
  Status post_receive(uint64_t slot);
  Status fill();
  Status start();
  void give_up();

  const Device& device_;
  uint32_t depth_ = 0;  ///< sends, and receives
  std::vector<std::byte> memory_;
  MemoryHandle region_;
  CompletionQueueHandle completions_;
  QueuePairHandle queue_pair_;
  std::vector<uint32_t> free_sends_;
  uint32_t posted_ = 0;  ///< sends and receives that have not come back
  bool broken_ = false;  ///< the queue pair is let run empty, to start anew
};

}  // namespace ibcoll::verbs
