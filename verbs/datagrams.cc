#include "verbs/datagrams.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "verbs/limit_errors.h"
#include "verbs/queue_pair.h"

namespace ibcoll::verbs {

namespace {

constexpr uint32_t kWantedDepth = 256;    ///< sends and receives; more arriving at once get lost
constexpr size_t kRouteHeaderBytes = 40;  ///< in front of what a datagram queue pair receives
constexpr size_t kSlotBytes = kRouteHeaderBytes + Datagrams::kMaxBytes;
/// Guards against stray datagrams only; which job they belong to is said inside.
constexpr uint32_t kQkey = 0x1bc011;

}  // namespace

uint32_t Datagrams::depth_for(const PortInfo& port) {
  return static_cast<uint32_t>(std::clamp<int64_t>(
      std::min<int64_t>(port.max_work_requests, port.max_completions / 2), 1, kWantedDepth));
}

size_t Datagrams::bytes_for(uint32_t depth) {
  return sizeof(Datagrams) + depth * (2 * kSlotBytes + sizeof(uint32_t));
}

Result<std::unique_ptr<Datagrams>> Datagrams::create(const Device& device,
                                                     ibv_comp_channel* channel) {
  std::unique_ptr<Datagrams> result(new Datagrams(device));
  result->depth_ = depth_for(device.port());
  result->memory_.resize(2 * result->depth_ * kSlotBytes);
  result->region_ = register_region(device.domain(), result->memory_.data(), result->memory_.size(),
                                    IBV_ACCESS_LOCAL_WRITE);
  if (!result->region_)
    return registration_error(device, fmt::format("{} bytes for datagrams", result->memory_.size()),
                              result->memory_.size(), errno);
  result->completions_.reset(ibv_create_cq(device.context(), static_cast<int>(2 * result->depth_),
                                           nullptr, channel, device.completion_vector()));
  if (!result->completions_) return completion_queue_error(device, 2 * result->depth_, errno);
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = result->completions_.get();
  wanted.qp_type = IBV_QPT_UD;
  wanted.cap.max_send_wr = wanted.cap.max_recv_wr = result->depth_;
  wanted.cap.max_send_sge = wanted.cap.max_recv_sge = 1;
  result->queue_pair_.reset(ibv_create_qp(device.domain(), &wanted));
  if (!result->queue_pair_) return queue_pair_error(device, "datagram queue pair", errno);
  IBCOLL_TRY(result->start());
  return result;
}

/// Makes the queue pair ready, which is new or in an error state, and empty.
Status Datagrams::start() {
  IBCOLL_TRY(start_datagram(device_, queue_pair_.get(), kQkey));
  broken_ = false;
  free_sends_.clear();
  for (uint32_t i = 0; i < depth_; ++i) {
    IBCOLL_TRY(post_receive(i));
    free_sends_.push_back(depth_ + i);
  }
  return {};
}

/// A datagram that can't be sent takes the queue pair out of service, with Soft-RoCE also for
/// receiving (a link that is down for a moment suffices). All that was posted comes back now.
void Datagrams::give_up() {
  if (broken_) return;
  broken_ = true;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  ibv_modify_qp(queue_pair_.get(), &attributes, IBV_QP_STATE);
}

Status Datagrams::post_receive(uint64_t slot) {
  ibv_sge place{reinterpret_cast<uint64_t>(memory_.data()) + slot * kSlotBytes, kSlotBytes,
                region_->lkey};
  ibv_recv_wr request{slot, nullptr, &place, 1};
  ibv_recv_wr* bad = nullptr;
  if (const int error = ibv_post_recv(queue_pair_.get(), &request, &bad); error != 0) {
    errno = error;
    return fail_errno(fmt::format("{}: no receive for datagrams", device_.port().name()));
  }
  ++posted_;
  return {};
}

Result<bool> Datagrams::send(ibv_ah* way, uint32_t number, std::span<const std::byte> bytes) {
  if (broken_ || free_sends_.empty()) return false;
  const uint32_t slot = free_sends_.back();
  std::byte* place = memory_.data() + slot * kSlotBytes;
  std::memcpy(place, bytes.data(), bytes.size());
  ibv_sge piece{reinterpret_cast<uint64_t>(place), static_cast<uint32_t>(bytes.size()),
                region_->lkey};
  ibv_send_wr request{};
  request.wr_id = slot;
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.ud.ah = way;
  request.wr.ud.remote_qpn = number;
  request.wr.ud.remote_qkey = kQkey;
  ibv_send_wr* bad = nullptr;
  if (const int error = ibv_post_send(queue_pair_.get(), &request, &bad); error != 0) {
    errno = error;
    return fail_errno(fmt::format("{}: a datagram can't be sent", device_.port().name()));
  }
  free_sends_.pop_back();
  ++posted_;
  return true;
}

Status Datagrams::poll(const Take& take) {
  std::array<ibv_wc, 16> done;
  int count = 0;
  do {
    count = ibv_poll_cq(completions_.get(), done.size(), done.data());
    if (count < 0)
      return fail(ErrorCode::kSystem, "{}: the datagrams' completion queue failed",
                  device_.port().name());
    posted_ -= static_cast<uint32_t>(count);
    for (int i = 0; i < count; ++i) {
      const auto slot = static_cast<uint32_t>(done[i].wr_id);
      if (done[i].status != IBV_WC_SUCCESS) give_up();
      if (slot >= depth_) {
        free_sends_.push_back(slot);
        continue;
      }
      if (done[i].status == IBV_WC_SUCCESS && done[i].byte_len >= kRouteHeaderBytes) {
        const std::byte* bytes = memory_.data() + slot * kSlotBytes + kRouteHeaderBytes;
        IBCOLL_TRY(take({bytes, done[i].byte_len - kRouteHeaderBytes}));
      }
      if (!broken_) IBCOLL_TRY(post_receive(slot));
    }
  } while (count == static_cast<int>(done.size()));
  return broken_ && posted_ == 0 ? start() : Status{};
}

}  // namespace ibcoll::verbs
