#include "verbs/receive_queue.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "verbs/limit_errors.h"

namespace ibcoll::verbs {

namespace {

/// Receives are posted again so many at a time: a doorbell each would double their cost.
constexpr uint32_t kBatch = 32;

}  // namespace

void Unmapper::operator()(std::byte* memory) const { munmap(memory, bytes); }

/// Each receive may complete before any completion is taken; one more fits beside them.
uint32_t ReceiveQueue::depth_for(const PortInfo& port, uint32_t wanted) {
  return std::min({wanted, static_cast<uint32_t>(std::max(port.max_shared_receives, 0)),
                   static_cast<uint32_t>(std::max(port.max_completions - 1, 0))});
}

Result<ReceiveQueue> ReceiveQueue::create(const Device& device, uint32_t depth,
                                          size_t buffer_bytes) {
  ReceiveQueue result;
  depth = depth_for(device.port(), depth);
  if (depth == 0) return receive_queue_error(device, 1, EOPNOTSUPP);
  const size_t bytes = depth * buffer_bytes;
  // A mapping of its own: most of its pages are never touched by the CPU.
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return fail_errno("no memory for receive buffers");
  result.memory_ = {static_cast<std::byte*>(memory), Unmapper{bytes}};
  result.port_ = device.port().name();
  result.buffer_bytes_ = buffer_bytes;
  result.region_ = register_region(device.domain(), memory, bytes, IBV_ACCESS_LOCAL_WRITE);
  if (!result.region_)
    return registration_error(device, fmt::format("{} bytes of receive buffers", bytes), bytes,
                              errno);
  ibv_srq_init_attr wanted{};
  wanted.attr.max_wr = depth;
  wanted.attr.max_sge = 1;
  result.queue_.reset(ibv_create_srq(device.domain(), &wanted));
  if (!result.queue_) return receive_queue_error(device, depth, errno);

  result.places_.resize(depth);
  result.requests_.resize(depth);
  for (uint32_t i = 0; i < depth; ++i) {
    result.places_[i] = {reinterpret_cast<uint64_t>(memory) + i * buffer_bytes,
                         static_cast<uint32_t>(buffer_bytes), result.region_->lkey};
    result.requests_[i] = {i, i + 1 < depth ? &result.requests_[i + 1] : nullptr,
                           &result.places_[i], 1};
  }
  IBCOLL_TRY(result.post(result.requests_.data()));
  return result;
}

Status ReceiveQueue::post(ibv_recv_wr* first) {
  ibv_recv_wr* bad = nullptr;
  if (const int error = ibv_post_srq_recv(queue_.get(), first, &bad); error != 0) {
    errno = error;
    return fail_errno(fmt::format("{}: receives can't be posted", port_));
  }
  return {};
}

std::span<const std::byte> ReceiveQueue::buffer(uint64_t id, size_t bytes) const {
  return {memory_.get() + id * buffer_bytes_, bytes};
}

Status ReceiveQueue::give_back(uint64_t id) {
  ibv_recv_wr& request = requests_[id];
  request.next = returned_;
  returned_ = &request;
  if (++returned_count_ < std::min(kBatch, depth() / 4 + 1)) return {};
  ibv_recv_wr* first = returned_;
  returned_ = nullptr;
  returned_count_ = 0;
  return post(first);
}

}  // namespace ibcoll::verbs
