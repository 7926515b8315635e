#include "engine/core/opened_job.h"

#include <algorithm>
#include <array>

#include "engine/bootstrap/machine.h"
#include "engine/costs/server_costs.h"
#include "topology/distort.h"

namespace ibcoll {
namespace {

/// By what copying costs on this rank's server, where that is known.
Result<RingLimits> ring_limits_of_server(const ContextOptions& options, const Shape& shape, Rank me,
                                         bool crowded, const std::vector<ProcessPlace>& places) {
  constexpr size_t kShort = 16384;
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
  limits.of_private_one_way =
      std::min(limits.of_private_one_way, longest_limits(ranks).of_private_one_way);
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
  IBCOLL_ASSIGN(const JobStart start, JobStart::exchange(bootstrap, options));
  const std::vector<int> machines = machine_of_ranks(start.places);
  IBCOLL_TRY(self->place(options, machines));
  self->check_mode_ = start.check;
  self->crowded_ = oversubscribed(start.places, machines, machines[bootstrap.rank()]);
  self->start_clock_.end(StartPhase::kPlaces);
  if (Status local = self->open_local(options, start.places, machines); !local) {
    // Ranks of other servers would wait for this one, or not know why it is gone.
    bootstrap.abort({bootstrap.rank(), local.error().code, local.error().message});
    return tl::unexpected<Error>(std::move(local.error()));
  }
  self->start_clock_.end(StartPhase::kMemory);
  if (self->shape().servers() > 1) IBCOLL_TRY(self->open_network(options, start, machines));
  self->start_clock_.end(StartPhase::kNetwork);
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

Status OpenedJob::open_local(const ContextOptions& options, const std::vector<ProcessPlace>& places,
                             const std::vector<int>& machines) {
  const Rank me = rank();
  const int server = shape().server_of(me), on_server = shape().server_size(server);
  shm::Options local;
  local.heap_bytes =
      options.heap_bytes != 0 ? options.heap_bytes : shm::default_heap_bytes(on_server);
  local.allow_process_vm = options.allow_process_vm;
  IBCOLL_ASSIGN(local.limits, ring_limits_of_server(options, shape(), me, crowded_, places));
  // What a rank takes that shares its core says little about copies.
  local.learn = options.learn && !crowded_;
  const std::array<SharedRegion::Request, kRegions> requests{
      {{.colour = machines[static_cast<size_t>(me)],
        .bytes = static_cast<size_t>(size()) * sizeof(Bell),
        .name = "ibcoll-bells",
        .prepare = SharedRegion::reserve_all},
       shm::Transport::region(me, shape(), local),
       {.colour = server,
        .bytes = CallBoard::bytes(static_cast<size_t>(on_server)),
        .name = "ibcoll-notes",
        .prepare = SharedRegion::reserve_all}}};
  IBCOLL_ASSIGN(std::vector<SharedRegion> regions, SharedRegion::create_all(bootstrap_, requests));
  bells_ = std::move(regions[0]);
  notes_ = std::move(regions[2]);
  if (!bootstrap_.shares_address_space()) watch_ = MachineWatch(bootstrap_, places);
  IBCOLL_ASSIGN(local_,
                shm::Transport::create(bootstrap_, shape(), bells(), local, std::move(regions[1])));
  return {};
}

Status OpenedJob::open_network(const ContextOptions& options, const JobStart& start,
                               const std::vector<int>& machines) {
  IBCOLL_ASSIGN(network_, ibcoll::open_network({bootstrap_, shape(), bells(), start.places,
                                                machines, options.loopback_seed},
                                               options.transport));
  IBCOLL_ASSIGN(eager_bytes_,
                start.agreed_eager_bytes(longest_eager(max_mail_data(*network()),
                                                       static_cast<size_t>(bootstrap_.size()))));
  return {};
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
