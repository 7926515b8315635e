#pragma once
/// The receives of a rank: one shared queue for all peers. A signal uses up a receive without
/// touching its buffer, a mail lands in it.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "verbs/device.h"

namespace ibcoll::verbs {

/// Unmaps a mapping of so many bytes.
struct Unmapper {
  size_t bytes = 0;
  void operator()(std::byte* memory) const;
};

class ReceiveQueue {
 public:
  /// How many receives a port lets a rank have that wants so many.
  static uint32_t depth_for(const PortInfo& port, uint32_t wanted);
  /// What they take beside the device's own queue. All of it: registered memory is there.
  static constexpr size_t bytes_for(uint32_t depth, size_t buffer_bytes) {
    return depth * (buffer_bytes + sizeof(ibv_sge) + sizeof(ibv_recv_wr));
  }

  /// `depth` receives (fewer where the device allows fewer) of `buffer_bytes` each, all posted.
  static Result<ReceiveQueue> create(const Device& device, uint32_t depth, size_t buffer_bytes);

  ibv_srq* get() const { return queue_.get(); }
  uint32_t depth() const { return static_cast<uint32_t>(requests_.size()); }
  /// What arrived in the buffer of the receive with this work request id.
  std::span<const std::byte> buffer(uint64_t id, size_t bytes) const;
  /// Gives a used receive back; posted in batches.
  Status give_back(uint64_t id);

 private:
  Status post(ibv_recv_wr* first);

  std::string port_;
  size_t buffer_bytes_ = 0;
  std::unique_ptr<std::byte, Unmapper> memory_;
  MemoryHandle region_;
  SharedReceiveHandle queue_;
  std::vector<ibv_sge> places_;
  std::vector<ibv_recv_wr> requests_;
  ibv_recv_wr* returned_ = nullptr;
  uint32_t returned_count_ = 0;
};

}  // namespace ibcoll::verbs
