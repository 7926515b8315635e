// What a rank's transport takes of memory.

#include <algorithm>

#include "verbs/datagrams.h"
#include "verbs/mlx5_memory.h"
#include "verbs/port_agreement.h"
#include "verbs/rc_transport.h"

namespace ibcoll::verbs {

uint32_t RcTransport::share_of_device(const PortInfo& port, uint32_t ranks) {
  const int64_t free = int64_t{9} * std::max(port.max_queue_pairs, 0) / 10;
  const int64_t share = free / std::max(ranks, 1u) - kDatagramQueuePairs;
  return static_cast<uint32_t>(std::max<int64_t>(share, 1));
}

NetworkMemory RcTransport::memory(const NetworkLoad& load, const TransportOptions& options) {
  const PortInfo port = mlx5::typical_port();
  const uint64_t on_machine =
      (load.ranks + load.machines - 1) / std::max<uint64_t>(load.machines, 1);
  const uint32_t share = share_of_device(port, static_cast<uint32_t>(on_machine));
  const auto connections = static_cast<uint32_t>(load.open(share));
  const auto limit = static_cast<uint32_t>(load.limit(share));
  const uint32_t outside = limit != 0 ? limit : static_cast<uint32_t>(load.outside);
  const size_t queue_pair =
      mlx5::reliable_queue_pair_bytes({.sends = SendCompletions::depth_for(port, outside),
                                       .send_pieces = wanted_segments(port),
                                       .inline_bytes = kWantedInline});
  const uint32_t datagrams = Datagrams::depth_for(port);
  const size_t datagram_queues =
      mlx5::datagram_queue_pair_bytes(
          {.sends = datagrams, .send_pieces = 1, .receives = datagrams}) +
      mlx5::completion_queue_bytes(2 * datagrams) + Datagrams::bytes_for(datagrams);
  const uint32_t receives = ReceiveQueue::depth_for(port, options.receives);
  const uint64_t mailed = std::min<uint64_t>(load.mailed, connections);
  const uint64_t slabs = (mailed + MailSlab::kPeers - 1) / MailSlab::kPeers;

  NetworkMemory memory;
  memory.queue_pairs = connections;
  memory.other_queue_pairs = kDatagramQueuePairs;
  memory.device_queue_pairs = static_cast<uint64_t>(port.max_queue_pairs);
  memory.max_connections = std::min(limit, RankAddress::kMostConnections);
  memory.items = {
      {.part = MemoryPart::kQueuePairs,
       .what = "send queues of queue pairs",
       .bytes = connections * queue_pair},
      {.part = MemoryPart::kQueuePairs,
       .what = "completion queue of sends",
       .bytes =
           mlx5::completion_queue_bytes(SendCompletions::entries_for(port, outside, connections))},
      {.part = MemoryPart::kQueuePairs,
       .what = "what is known of connected ranks",
       .bytes = load.connections * (sizeof(Peer) + Connector::bytes_each_connection()) +
                SparseObjects<Peer>::table_bytes(load.ranks, load.connections) +
                Connector::table_bytes(load.ranks, load.connections) +
                (limit != 0 ? ConnectionSlots::table_bytes(load.ranks, load.connections) : 0)},
      {.part = MemoryPart::kQueuePairs,
       .what = "datagram queue pairs",
       .bytes = kDatagramQueuePairs * datagram_queues},
      {.part = MemoryPart::kQueuePairs,
       .what = "requests chained for the device",
       .bytes = SendQueue::memory_bytes()},
      {.part = MemoryPart::kMails,
       .what = "mail slots of connected ranks",
       .bytes = slabs * MailSlab::kPeers * kMailsPerPeer * kMaxMailBytes},
      {.part = MemoryPart::kReceives,
       .what = "receive buffers (IBCOLL_RECEIVES)",
       .bytes = ReceiveQueue::bytes_for(receives, kMaxMailBytes)},
      {.part = MemoryPart::kReceives,
       .what = "shared receive queue",
       .bytes = mlx5::shared_receive_queue_bytes(receives)},
      {.part = MemoryPart::kReceives,
       .what = "completion queue of receives",
       .bytes = mlx5::completion_queue_bytes(receives + 1)},
      table_of_ranks("addresses of ranks", load.ranks, AddressBook::bytes_each_rank(),
                     "any rank may be connected to later, and nobody else knows where it is"),
      {.part = MemoryPart::kTables,
       .what = "ports that ranks use",
       .bytes = load.machines * AddressBook::bytes_each_port(),
       .each_rank = static_cast<double>(load.machines * AddressBook::bytes_each_port()) /
                    static_cast<double>(load.ranks),
       .why = "one a machine at least, whose ranks share it"},
  };
  memory.start_bytes = std::max(port_agreement_bytes(load.ranks, load.machines),
                                introduction_bytes(load.ranks, load.machines));
  memory.start_told =
      std::max(port_agreement_told(load.ranks, load.machines), introduction_told(load.ranks));
  return memory;
}

}  // namespace ibcoll::verbs
