#include "engine/core/opened_job.h"

#include <algorithm>
#include <array>
#include <span>

#include "engine/bootstrap/machine.h"
#include "engine/costs/server_costs.h"
#include "topology/distort.h"

namespace ibcoll {
namespace {

/// By what copying costs on this rank's server, where that is known.
Result<RingLimits> ring_limits_of_server(const ContextOptions& options, const Shape& shape, Rank me,
                                         bool crowded, std::span<const ProcessPlace> places) {
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
  for (const ProcessPlace& place : places) {
    if (shape.server_of(place.process.rank) == server)
      CPU_OR(&processors, &processors, &place.processors);
  }
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
  IBCOLL_TRY(self->place(options, start.machines));
  self->check_mode_ = start.check;
  self->start_clock_.end(StartPhase::kPlaces);
  if (Status local = self->open_local(options, start.machines.numbers); !local) {
    // Ranks of other servers would wait for this one, or not know why it is gone.
    bootstrap.abort({bootstrap.rank(), local.error().code, local.error().message});
    return tl::unexpected<Error>(std::move(local.error()));
  }
  self->start_clock_.end(StartPhase::kMemory);
  if (self->shape().servers() > 1) IBCOLL_TRY(self->open_network(options, start));
  self->start_clock_.end(StartPhase::kNetwork);
  return self;
}

/// Which ranks make up which server, and where these are in the network.
Status OpenedJob::place(const ContextOptions& options, const DistinctNumbers& machines) {
  IBCOLL_ASSIGN(placement_,
                place_on_servers(bootstrap_, options.shape, machines.numbers, options.fabric));
  if (!options.fabric.fabric.empty()) {
    IBCOLL_ASSIGN(fabric_,
                  topology::believe(*placement_->fabric_order.network, options.fabric.error));
    placement_->fabric_order.network.reset();
  }
  machines_ = static_cast<int>(machines.firsts.size());
  return {};
}

Status OpenedJob::open_local(const ContextOptions& options, const std::vector<int>& machines) {
  const Rank me = rank();
  const int server = shape().server_of(me), on_server = shape().server_size(server);
  shm::Options local;
  local.heap_bytes =
      options.heap_bytes != 0 ? options.heap_bytes : shm::default_heap_bytes(on_server);
  local.allow_process_vm = options.allow_process_vm;
  const std::array<SharedRegion::Request, kRegions> requests{
      {MachineBoard::request(me, machines),
       shm::Transport::region(me, shape(), local),
       {.colour = server,
        .bytes = CallBoard::bytes(static_cast<size_t>(on_server)),
        .name = "ibcoll-notes",
        .prepare = SharedRegion::reserve_all}}};
  IBCOLL_ASSIGN(std::vector<SharedRegion> regions, SharedRegion::create_all(bootstrap_, requests));
  machine_board_ = MachineBoard(std::move(regions[0]), me, machines);
  notes_ = std::move(regions[2]);
  const std::span<const ProcessPlace> places = machine_board_.places();
  if (!bootstrap_.shares_address_space()) watch_ = MachineWatch(bootstrap_, processes_at(places));
  crowded_ = oversubscribed(places);
  IBCOLL_ASSIGN(local.limits, ring_limits_of_server(options, shape(), me, crowded_, places));
  // What a rank takes that shares its core says little about copies.
  local.learn = options.learn && !crowded_;
  IBCOLL_ASSIGN(local_, shm::Transport::create(bootstrap_, shape(), machine_board_.bells(), local,
                                               std::move(regions[1])));
  return {};
}

Status OpenedJob::open_network(const ContextOptions& options, const JobStart& start) {
  const std::vector<WatchedProcess> processes = processes_at(machine_board_.places());
  IBCOLL_ASSIGN(network_, ibcoll::open_network({bootstrap_, shape(), machine_board_.bells().all(),
                                                processes, start.machines.numbers,
                                                options.loopback_seed, options.max_connections},
                                               options.transport));
  IBCOLL_ASSIGN(eager_bytes_,
                start.agreed_eager_bytes(longest_eager(max_mail_data(*network()),
                                                       static_cast<size_t>(bootstrap_.size()))));
  return {};
}

bool OpenedJob::has_died(Rank rank) {
  constexpr int kLastMs = 300;  // its memory goes before the process does
  // Of one that has left in order nobody notes how it ended.
  if (!bootstrap_.has_left(rank) && !watch_.has_ended(rank, kLastMs)) return false;
  watch_.forget(rank);
  return true;
}

}  // namespace ibcoll
