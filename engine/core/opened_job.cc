#include "engine/core/opened_job.h"

#include <algorithm>

#include "engine/bootstrap/machine.h"
#include "engine/core/share.h"
#include "engine/costs/server_costs.h"
#include "topology/distort.h"

namespace ibcoll {
namespace {

/// The capacity of each heap on this rank's server: what its ranks agree on.
Result<size_t> heap_bytes(Bootstrap& bootstrap, const Shape& shape, size_t wanted) {
  const int server = shape.server_of(bootstrap.rank());
  if (wanted == 0) wanted = shm::default_heap_bytes(shape.server_size(server));
  std::vector<size_t> all(static_cast<size_t>(bootstrap.size()));
  IBCOLL_TRY(bootstrap.allgather(&wanted, sizeof wanted, all.data()));
  for (const Rank member : shape.members(server)) wanted = std::min(wanted, all[member]);
  return wanted;
}

Result<SharedRegion> reserved_region(Bootstrap& bootstrap, int sharers, size_t bytes,
                                     const char* name) {
  IBCOLL_ASSIGN(SharedRegion region, SharedRegion::create(bootstrap, sharers, bytes, name));
  IBCOLL_TRY(region.reserve(0, region.size()));
  return region;
}

/// By what copying costs on this rank's server, where that is known.
Result<RingLimits> ring_limits_of_server(const ContextOptions& options, const Shape& shape, Rank me,
                                         bool crowded, const std::vector<ProcessPlace>& places) {
  constexpr size_t kShort = 16384;
  constexpr int kManyReaders = 4;
  RingLimits limits;
  const int server = shape.server_of(me), ranks = shape.server_size(server);
  // Ranks that share a core find each other's messages in its cache, and whoever waits there for a
  // message to be read gives the core up: copying twice is cheaper.
  if (crowded) {
    limits.of_shared = limits.of_shared_one_way = kShort;
    return limits;
  }
  if (shape.local_of(me) != 0 || ranks == 1) return limits;  // the first rank's apply
  cpu_set_t processors;
  CPU_ZERO(&processors);
  for (const Rank member : shape.members(server))
    CPU_OR(&processors, &processors, &places[static_cast<size_t>(member)].processors);
  IBCOLL_ASSIGN(const std::optional<PairCosts> costs, server_costs(options.costs, processors));
  if (costs) limits = ring_limits(*costs);
  // Where each has a core, many can read what one has to send to all of them.
  if (ranks > kManyReaders) limits.of_private_one_way = std::min(limits.of_private_one_way, kShort);
  return limits;
}

}  // namespace

/// What one rank may be sent unasked by all others together takes this much memory, or what mails
/// of the usual length take.
int64_t longest_eager(size_t max_mail_data, size_t ranks) {
  constexpr size_t kTogether = size_t{32} << 20;
  const size_t usual = NetworkTransport::kMaxMailBytes - sizeof(MailHeader);
  return static_cast<int64_t>(
      std::clamp(kTogether / ranks, std::min(usual, max_mail_data), max_mail_data));
}

OpenedJob::OpenedJob(Bootstrap& bootstrap) : bootstrap_(bootstrap) {}
OpenedJob::~OpenedJob() = default;

std::optional<topology::Fabric> OpenedJob::take_fabric() { return std::move(fabric_); }

Result<std::unique_ptr<OpenedJob>> OpenedJob::open(Bootstrap& bootstrap,
                                                   const ContextOptions& options) {
  std::unique_ptr<OpenedJob> self(new OpenedJob(bootstrap));
  IBCOLL_ASSIGN(const std::vector<ProcessPlace> places, exchange_places(bootstrap));
  const std::vector<int> machines = machine_of_ranks(places);
  IBCOLL_TRY(self->place(options, machines));
  const Rank me = bootstrap.rank();
  self->crowded_ = oversubscribed(places, machines, machines[me]);
  self->start_clock_.end(StartPhase::kPlaces);
  IBCOLL_ASSIGN(self->bells_, reserved_region(bootstrap, machines[me],
                                              static_cast<size_t>(bootstrap.size()) * sizeof(Bell),
                                              "ibcoll-bells"));
  if (!bootstrap.shares_address_space()) self->watch_ = MachineWatch(bootstrap, places);
  IBCOLL_TRY(self->open_local(options, places));
  self->start_clock_.end(StartPhase::kMemory);
  const Shape& shape = self->shape();
  if (shape.servers() > 1) IBCOLL_TRY(self->open_network(options, places, machines));
  self->start_clock_.end(StartPhase::kNetwork);
  const int server = shape.server_of(me);
  const auto on_server = static_cast<size_t>(shape.server_size(server));
  IBCOLL_ASSIGN(self->notes_,
                reserved_region(bootstrap, server, CallBoard::bytes(on_server), "ibcoll-notes"));
  self->start_clock_.end(StartPhase::kMemory);
  return self;
}

/// Which ranks make up which server, where these are in the network, and who shares a machine.
Status OpenedJob::place(const ContextOptions& options, const std::vector<int>& machines) {
  IBCOLL_ASSIGN(placement_, place_on_servers(bootstrap_, options.shape, machines, options.fabric));
  if (!options.fabric.fabric.empty()) {
    IBCOLL_ASSIGN(fabric_,
                  topology::believe(*placement_->fabric_order.network, options.fabric.error));
    placement_->fabric_order.network.reset();
  }
  const int mine = machines[static_cast<size_t>(rank())];
  ranks_on_machine_ = static_cast<int>(std::count(machines.begin(), machines.end(), mine));
  machines_ = 1 + *std::max_element(machines.begin(), machines.end());
  return {};
}

Status OpenedJob::open_local(const ContextOptions& options,
                             const std::vector<ProcessPlace>& places) {
  shm::Options local;
  IBCOLL_ASSIGN(local.heap_bytes, heap_bytes(bootstrap_, shape(), options.heap_bytes));
  local.allow_process_vm = options.allow_process_vm;
  Result<RingLimits> limits = ring_limits_of_server(options, shape(), rank(), crowded_, places);
  if (!limits) {  // the others would wait for this rank
    bootstrap_.abort({rank(), limits.error().code, limits.error().message});
    return tl::unexpected<Error>(std::move(limits.error()));
  }
  local.limits = *limits;
  IBCOLL_ASSIGN(local_, shm::Transport::create(bootstrap_, shape(), bells(), local));
  return {};
}

Status OpenedJob::open_network(const ContextOptions& options,
                               const std::vector<ProcessPlace>& places,
                               const std::vector<int>& machines) {
  IBCOLL_ASSIGN(network_, ibcoll::open_network({bootstrap_, shape(), bells(), places, machines,
                                                options.loopback_seed},
                                               options.transport));
  eager_bytes_ =
      std::min(options.eager_bytes,
               longest_eager(max_mail_data(*network()), static_cast<size_t>(bootstrap_.size())));
  return same_on_all(bootstrap_, eager_bytes_, "IBCOLL_EAGER");
}

std::span<Bell> OpenedJob::bells() {
  return {reinterpret_cast<Bell*>(bells_.data()), static_cast<size_t>(size())};
}

bool OpenedJob::has_died(Rank rank) {
  constexpr int kLastMs = 300;  // its memory goes before the process does
  if (!watch_.has_ended(rank, kLastMs)) return false;
  watch_.forget(rank);
  return true;
}

}  // namespace ibcoll
