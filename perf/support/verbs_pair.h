#pragma once
/// The least that a write with immediate takes: one queue pair and raw libibverbs calls. What the
/// transport adds to it is what perf/verbs_point_to_point.cc measures.

#include <sched.h>

#include <array>
#include <cstdint>

#include "engine/bootstrap/bootstrap.h"
#include "verbs/queue_pair.h"
#include "verbs/receive_queue.h"

namespace ibcoll::verbs {

/// Two ranks, each on a port of its own where there are two; rank r talks to rank 1-r.
class BarePair {
 public:
  /// Collective over the two ranks.
  static Result<BarePair> create(Bootstrap& bootstrap) {
    BarePair pair;
    IBCOLL_ASSIGN(const std::vector<PortInfo> ports, usable_ports({}));
    const auto me = static_cast<size_t>(bootstrap.rank());
    IBCOLL_ASSIGN(pair.device_, Device::open(ports[me % ports.size()]));
    ibv_context* context = pair.device_.context();
    pair.sends_.reset(ibv_create_cq(context, kSendDepth, nullptr, nullptr, 0));
    pair.arrivals_.reset(ibv_create_cq(context, kReceives, nullptr, nullptr, 0));
    if (!pair.sends_ || !pair.arrivals_) return fail_errno("no completion queue");
    IBCOLL_ASSIGN(pair.receives_, ReceiveQueue::create(pair.device_, kReceives, 64));
    IBCOLL_ASSIGN(pair.qp_,
                  ReliableQueuePair::create(pair.device_, pair.sends_.get(), pair.arrivals_.get(),
                                            pair.receives_.get(), send_depth(pair.device_.port())));
    pair.memory_ = std::make_unique<std::array<uint64_t, 2>>();
    pair.region_ = register_region(pair.device_.domain(), pair.memory_.get(), sizeof *pair.memory_,
                                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if (!pair.region_) return fail_errno("no registration");
    const Address mine{address_of(pair.device_.port()), pair.qp_.number(), pair.region_->rkey,
                       reinterpret_cast<uint64_t>(&(*pair.memory_)[1])};
    std::array<Address, 2> all;
    IBCOLL_TRY(bootstrap.allgather(&mine, sizeof mine, all.data()));
    pair.peer_ = all[static_cast<size_t>(1 - bootstrap.rank())];
    IBCOLL_ASSIGN(const Way way, find_way(pair.device_, pair.peer_.port));
    IBCOLL_TRY(pair.qp_.connect(pair.device_, way, pair.peer_.queue_pair, 0, 0, {}));
    IBCOLL_TRY(bootstrap.barrier());
    return pair;
  }

  /// Writes eight bytes and an immediate to the peer.
  bool send() {
    ibv_sge piece{reinterpret_cast<uint64_t>(memory_.get()), 8, region_->lkey};
    ibv_send_wr work{};
    work.sg_list = &piece;
    work.num_sge = 1;
    work.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    work.send_flags = qp_.max_inline() >= 8 ? IBV_SEND_INLINE : 0;
    if (++posted_ % kSignalEvery == 0) work.send_flags |= IBV_SEND_SIGNALED;
    work.wr.rdma.remote_addr = peer_.address;
    work.wr.rdma.rkey = peer_.key;
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(qp_.get(), &work, &bad) == 0;
  }

  /// Waits for the peer's write, giving the core away while there is none.
  bool receive() {
    ibv_wc done;
    int count;
    while ((count = ibv_poll_cq(arrivals_.get(), 1, &done)) == 0) {
      ibv_wc sent;
      ibv_poll_cq(sends_.get(), 1, &sent);
      sched_yield();
    }
    return count == 1 && done.status == IBV_WC_SUCCESS && receives_.give_back(done.wr_id);
  }

 private:
  static constexpr int kReceives = 256;
  static constexpr uint64_t kSignalEvery = 32;
  struct Address {
    PortAddress port;
    uint32_t queue_pair = 0;
    uint32_t key = 0;
    uint64_t address = 0;
  };
  Device device_;
  std::unique_ptr<std::array<uint64_t, 2>> memory_;
  MemoryHandle region_;
  CompletionQueueHandle sends_, arrivals_;
  ReceiveQueue receives_;
  ReliableQueuePair qp_;
  Address peer_;
  uint64_t posted_ = 0;
};

}  // namespace ibcoll::verbs
