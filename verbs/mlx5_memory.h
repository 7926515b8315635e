#pragma once
/// What the queues of a ConnectX take of a process's memory: as providers/mlx5 of rdma-core reckons
/// it (mlx5_calc_sq_size, mlx5_calc_rq_size, mlx5_alloc_qp_buf, mlx5_alloc_srq_buf, create_cq). The
/// buffers are registered, so all of them is there. What the kernel and the device keep comes on
/// top, and the driver's own objects, a kilobyte or so each.

#include <cstddef>
#include <cstdint>

#include "verbs/device.h"

namespace ibcoll::verbs::mlx5 {

/// The limits of such a port that matter here.
PortInfo typical_port();

struct QueuePairSize {
  uint32_t sends = 0, send_pieces = 0, inline_bytes = 0;
  uint32_t receives = 0;  ///< of one piece; 0: a shared queue has them
};
size_t reliable_queue_pair_bytes(const QueuePairSize& size);
size_t datagram_queue_pair_bytes(const QueuePairSize& size);
size_t completion_queue_bytes(uint64_t entries);
/// Of receives of one piece each.
size_t shared_receive_queue_bytes(uint32_t receives);

}  // namespace ibcoll::verbs::mlx5
