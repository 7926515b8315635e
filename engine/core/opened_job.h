#pragma once
/// What a rank has to do with the others of its job before it can make calls: where everybody is,
/// the memory that ranks of a machine share, and the transports.

#include <memory>
#include <optional>
#include <string>

#include "engine/bootstrap/bootstrap.h"
#include "engine/bootstrap/machine_watch.h"
#include "engine/bootstrap/shared_region.h"
#include "engine/core/context_options.h"
#include "engine/core/job_start.h"
#include "engine/core/machine_board.h"
#include "engine/core/server_placement.h"
#include "engine/core/start_clock.h"
#include "engine/execute/call_meaning.h"
#include "engine/transport/open.h"
#include "shm/transport.h"

namespace ibcoll {

/// The longest data that mails carry between servers, where each mail of the network has room for
/// so much and the job has so many ranks: what one rank may be sent unasked is bounded.
int64_t longest_eager(size_t max_mail_data, size_t ranks);

class OpenedJob {
 public:
  /// Collective over all ranks of the job. The bootstrap must outlive what is opened.
  static Result<std::unique_ptr<OpenedJob>> open(Bootstrap& bootstrap,
                                                 const ContextOptions& options);
  ~OpenedJob();
  OpenedJob(const OpenedJob&) = delete;
  OpenedJob& operator=(const OpenedJob&) = delete;

  Bootstrap& bootstrap() { return bootstrap_; }
  Rank rank() const { return bootstrap_.rank(); }
  int size() const { return bootstrap_.size(); }

  const ServerPlacement& placement() const { return *placement_; }
  const Shape& shape() const { return placement_->shape; }
  /// How the servers of shape() came by their numbers.
  const FabricOrder& fabric_order() const { return placement_->fabric_order; }
  /// The network between servers, as far as its description is believed (topology::believe): once,
  /// and if one is known.
  std::optional<topology::Fabric> take_fabric();
  /// How many ranks of the job run on this rank's machine: all, where servers are emulated.
  int ranks_on_machine() const { return static_cast<int>(machine_board_.places().size()); }
  int machines() const { return machines_; }
  /// Whether this rank's machine has more ranks than cores.
  bool crowded() const { return crowded_; }

  shm::Transport& local() { return *local_; }
  /// Null on a single server.
  NetworkTransport* network() { return network_.transport.get(); }
  const NetworkTransport* network() const { return network_.transport.get(); }
  /// The transport between servers and, on rank 0, why "auto" took it; "none" on a single server.
  const std::string& network_reason() const { return network_.reason; }
  /// Whether the job goes on after the death of a rank: the network takes dead peers out.
  bool survives_deaths() const { return network() == nullptr || network()->survives_deaths(); }
  /// Whether messages between servers cost cores' time, so that fewer are better.
  bool messages_cost_cores() const { return network_.costs_cores; }
  /// Rank 0's ContextOptions::check.
  CheckMode check_mode() const { return check_mode_; }
  /// ContextOptions::eager_bytes, as far as mails of the transport are as long; 0 on a single
  /// server.
  int64_t eager_bytes() const { return eager_bytes_; }

  /// How many regions its ranks share with others.
  static constexpr size_t kRegions = 3;

  /// How long the start takes, until now.
  StartClock& start_clock() { return start_clock_; }

  /// What wakes this rank.
  Bell& bell() { return machine_board_.bells().of(rank()); }
  /// Where the ranks of this server note their calls.
  CallBoard::Place board() { return {notes_.data(), &shape(), rank()}; }
  /// A rank that has died, as this machine has learnt.
  std::optional<Rank> find_dead() { return watch_.find_dead(); }
  /// Whether a rank has, or has left the job; if so find_dead() gives it no more.
  bool has_died(Rank rank);

 private:
  explicit OpenedJob(Bootstrap& bootstrap);
  Status place(const ContextOptions& options, const DistinctNumbers& machines);
  Status open_local(const ContextOptions& options, const std::vector<int>& machines);
  Status open_network(const ContextOptions& options, const JobStart& start);

  Bootstrap& bootstrap_;
  StartClock start_clock_;
  std::unique_ptr<ServerPlacement> placement_;
  std::optional<topology::Fabric> fabric_;
  int machines_ = 1;
  bool crowded_ = false;
  MachineBoard machine_board_;
  SharedRegion notes_;  ///< of the calls that the server's ranks make
  MachineWatch watch_;
  std::unique_ptr<shm::Transport> local_;
  OpenedNetwork network_{.transport = nullptr, .reason = "none"};
  CheckMode check_mode_ = CheckMode::kOff;
  int64_t eager_bytes_ = 0;
};

}  // namespace ibcoll
