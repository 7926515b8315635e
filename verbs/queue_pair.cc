#include "verbs/queue_pair.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "verbs/limit_errors.h"

namespace ibcoll::verbs {

namespace {

constexpr uint8_t kMinRnrTimer = 12;  ///< 0.64 ms; 0 would mean 655 ms
constexpr uint8_t kRnrRetries = 7;    ///< without end: a peer that is late is not dead
/// A shorter timeout would take a busy peer for a dead one.
constexpr int kLeastTimeoutExponent = 14;
constexpr int kMostTimeoutExponent = 31;

/// ibv_modify_qp with an error that says which transition failed on which device.
Status modify(const Device& device, ibv_qp* qp, ibv_qp_attr& attributes, int mask,
              const char* state) {
  if (const int error = ibv_modify_qp(qp, &attributes, mask); error != 0) {
    return fail(is_unreachable(error) ? ErrorCode::kPeerFailed : ErrorCode::kSystem,
                "{}: queue pair does not go to state {}: {}", device.port().name(), state,
                std::strerror(error));
  }
  return {};
}

}  // namespace

int64_t longest_patience_ns(const RetryOptions& retry) {
  constexpr int64_t kLonger = 4;  // than the timeout that was set, at most
  return kLonger * (int64_t{4096} << timeout_exponent_for(retry)) * (retry.retries + 1);
}

int timeout_exponent_for(const RetryOptions& retry) {
  if (retry.timeout_exponent != 0) return retry.timeout_exponent;
  int exponent = kLeastTimeoutExponent;
  while (exponent < kMostTimeoutExponent &&
         (int64_t{4096} << exponent) * (retry.retries + 1) < retry.unreachable_ns)
    ++exponent;
  return exponent;
}

uint32_t send_depth(const PortInfo& port) {
  return std::min(kSendDepth, static_cast<uint32_t>(port.max_work_requests));
}

uint32_t wanted_segments(const PortInfo& port) {
  return std::min(kWantedSegments, static_cast<uint32_t>(port.max_segments));
}

Result<ReliableQueuePair> ReliableQueuePair::create(const Device& device, ibv_cq* sends,
                                                    ibv_cq* receives, ibv_srq* shared_receives,
                                                    uint32_t depth) {
  ReliableQueuePair result;
  result.depth_ = depth;
  uint32_t segments = wanted_segments(device.port());
  for (uint32_t inline_bytes = kWantedInline; !result.handle_;) {
    ibv_qp_init_attr wanted{};
    wanted.send_cq = sends;
    wanted.recv_cq = receives;
    wanted.srq = shared_receives;
    wanted.qp_type = IBV_QPT_RC;
    wanted.cap.max_send_wr = result.depth_;
    wanted.cap.max_send_sge = segments;
    wanted.cap.max_inline_data = inline_bytes;
    result.handle_.reset(ibv_create_qp(device.domain(), &wanted));
    if (result.handle_) {
      result.max_inline_ = std::min(wanted.cap.max_inline_data, kWantedInline);
      result.max_segments_ = segments;
    } else if (inline_bytes != 0) {
      inline_bytes /= 2;
    } else if (segments != 1) {
      segments = 1;
      inline_bytes = kWantedInline;
    } else {
      return queue_pair_error(device, "queue pair", errno);
    }
  }
  IBCOLL_TRY(result.restart(device));
  return result;
}

Status ReliableQueuePair::restart(const Device& device) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RESET;
  IBCOLL_TRY(modify(device, get(), attributes, IBV_QP_STATE, "RESET"));
  attributes.qp_state = IBV_QPS_INIT;
  attributes.pkey_index = device.port().pkey_index;
  attributes.port_num = static_cast<uint8_t>(device.port().port);
  attributes.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  return modify(device, get(), attributes,
                IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "INIT");
}

Status ReliableQueuePair::break_off(const Device& device) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  return modify(device, get(), attributes, IBV_QP_STATE, "ERR");
}

Status ReliableQueuePair::connect(const Device& device, const Way& way, uint32_t peer_number,
                                  uint32_t peer_psn, uint32_t own_psn, const RetryOptions& retry) {
  ibv_qp_attr receive{};
  receive.qp_state = IBV_QPS_RTR;
  receive.ah_attr = way.attributes;
  receive.path_mtu = way.mtu;
  receive.dest_qp_num = peer_number;
  receive.rq_psn = peer_psn;
  receive.max_dest_rd_atomic = 1;
  receive.min_rnr_timer = kMinRnrTimer;
  IBCOLL_TRY(modify(device, get(), receive,
                    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
                    "RTR"));
  ibv_qp_attr send{};
  send.qp_state = IBV_QPS_RTS;
  send.timeout = static_cast<uint8_t>(timeout_exponent_for(retry));
  send.retry_cnt = static_cast<uint8_t>(retry.retries);
  send.rnr_retry = kRnrRetries;
  send.sq_psn = own_psn;
  send.max_rd_atomic = 1;
  return modify(device, get(), send,
                IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
                "RTS");
}

Status ReliableQueuePair::advance(const Device& device, ibv_qp_attr& attributes, int mask,
                                  const RetryOptions& retry) {
  attributes.min_rnr_timer = kMinRnrTimer;
  attributes.timeout = static_cast<uint8_t>(timeout_exponent_for(retry));
  attributes.retry_cnt = static_cast<uint8_t>(retry.retries);
  attributes.rnr_retry = kRnrRetries;
  return modify(device, get(), attributes, mask,
                attributes.qp_state == IBV_QPS_RTR ? "RTR" : "RTS");
}

Status start_datagram(const Device& device, ibv_qp* qp, uint32_t qkey) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RESET;
  IBCOLL_TRY(modify(device, qp, attributes, IBV_QP_STATE, "RESET"));
  attributes.qp_state = IBV_QPS_INIT;
  attributes.pkey_index = device.port().pkey_index;
  attributes.port_num = static_cast<uint8_t>(device.port().port);
  attributes.qkey = qkey;
  IBCOLL_TRY(modify(device, qp, attributes,
                    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, "INIT"));
  attributes.qp_state = IBV_QPS_RTR;
  IBCOLL_TRY(modify(device, qp, attributes, IBV_QP_STATE, "RTR"));
  attributes.qp_state = IBV_QPS_RTS;
  return modify(device, qp, attributes, IBV_QP_STATE | IBV_QP_SQ_PSN, "RTS");
}

}  // namespace ibcoll::verbs
