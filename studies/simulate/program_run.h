#pragma once
/// Runs the programs of all ranks on a simulated network.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/base/result.h"
#include "engine/schedule/lane_cursor.h"
#include "engine/schedule/program.h"
#include "studies/mapping/random.h"
#include "studies/simulate/network.h"

namespace ibcoll::sim {

/// What holds operations back besides the program itself.
enum class Hold : uint8_t {
  kProgram,   ///< nothing
  kRankStep,  ///< a rank enters a step when all its operations of earlier steps are complete
  kBarrier,   ///< a step begins when all operations of earlier steps are complete on all ranks
};

struct RunOptions {
  Hold hold = Hold::kProgram;
  uint64_t block_bytes = 0;
  /// Where blocks differ in size (alltoallv and the like): bytes of each.
  std::function<uint64_t(const Block&)> bytes_of = {};
  uint32_t pieces = 1;               ///< of streams; simulate() doesn't cut held steps
  int64_t send_overhead_ns = 0;      ///< of the rank, for each message it sends to another server
  int64_t recv_overhead_ns = 0;      ///< of the rank, for each message it takes from another server
  double copy_bytes_per_second = 0;  ///< of a rank, inside its server; 0: copies cost nothing
  /// Ranks start late by a random time up to this, evenly distributed.
  int64_t skew_ns = 0;
  /// A rank pauses before each put to another server for a random time up to this part of the time
  /// the put takes alone, evenly distributed.
  double jitter = 0;
  uint32_t control_bytes = 64;  ///< of exposures (tokens have none)
  uint64_t seed = 1;
  /// Called now and then with the number of operations done and in all.
  std::function<void(uint64_t, uint64_t)> progress = {};
};

struct StepTime {
  Time begin = INT64_MAX, end = -1;  ///< first start and last end of an operation of it
};

struct RunTimes {
  std::vector<Time> rank_end;  ///< by rank: its last operation is complete
  std::vector<StepTime> steps;
  Time end = 0;           ///< of the slowest rank
  uint64_t messages = 0;  ///< between servers, with data
};

/// One run. A put is complete at its sender when the acknowledgement is back, one route latency
/// after it has arrived; tokens and exposures travel as small messages. A rank does one thing at a
/// time, copies in pieces of 128 KB between which its other lanes get their turn. What costs
/// nothing takes no time.
class ProgramRun final : public NetworkClient {
 public:
  /// `hosts`: of each server, or as many of each one after the other: a port each, over which its
  /// ranks are dealt. `routes` must have all_routes() of the shape; programs must be
  /// verified. Everything referred to must outlive the run.
  ProgramRun(const Shape& shape, std::span<const std::shared_ptr<const RankProgram>> programs,
             std::span<const uint32_t> hosts, const Routes& routes, Network& network,
             const RunOptions& options);

  /// Fails, with the operation it hangs at, when the ranks can't go on: a hold the program was not
  /// made for.
  Result<RunTimes> run();

  void delivered(uint32_t tag) override;
  void woken(uint32_t tag) override;
  void moment_over() override;

 private:
  static constexpr uint32_t kNone = LaneCursor::kNone;
  struct Copy {
    uint32_t item = kNone;  // whose copy is under way
    uint64_t left = 0;      // bytes of it
  };
  struct RankRun {
    RankRun(const RankProgram& program, uint32_t pieces) : at(program, pieces), left(at.size()) {}
    ProgramCursor at;
    std::array<Copy, kLanes> copies;
    bool busy = false;  // the rank does something that ends at a time set
    bool queued = false;
    uint8_t turn = 0;  // lane that is looked at first
    uint8_t busy_lane = 0;
    uint32_t busy_item = kNone;
    uint32_t gates = 0;
    uint32_t routed = 0;  // exposures that came through this rank
    uint32_t step = 0;    // Hold::kRankStep: that it is in
    uint64_t left;        // items
  };
  struct Flight {
    OpKind kind = OpKind::kPut;
    bool arrived = false;
    Rank from = 0;
    Rank to = 0;
    uint32_t item = 0;
    uint32_t route = 0;
    int32_t server = -1;  // exposure to a whole server
  };
  struct LocalPuts {  // from one rank to another of its server, not yet taken
    std::vector<uint32_t> items;
    uint32_t first = 0;
    uint32_t tokens = 0;
  };

  uint64_t bytes_of(Rank rank, const Op& op, bool source) const;
  uint64_t item_bytes(Rank rank, int lane, uint32_t item) const;
  size_t pair(Rank at, Rank other) const {
    return static_cast<size_t>(at) * shape_.ranks() + other;
  }
  LocalPuts& local_puts(Rank from, Rank to) {
    return local_[static_cast<size_t>(to) * shape_.max_server_size() + shape_.local_of(from)];
  }

  void wake(Rank rank);
  void wake_server(int server);
  void advance(Rank rank);
  bool may_start(Rank rank, int lane, uint32_t item) const;
  bool peer_ready(Rank rank, const Op& op) const;
  void begin(Rank rank, int lane, uint32_t item);
  void start_slice(Rank rank, int lane);
  void take(Rank rank, const Op& op);
  Time cost(Rank rank, int lane, uint32_t item);
  void effect(Rank rank, int lane, uint32_t item);
  void launch(const Flight& flight, uint64_t bytes, bool control);
  void complete(Rank rank, int lane, uint32_t item);
  void leave_step(Rank rank, uint32_t step);
  Status check_finished() const;

  const Shape& shape_;
  const std::span<const std::shared_ptr<const RankProgram>> programs_;
  Network& network_;
  const Routes& routes_;
  const RunOptions options_;
  topology::FastRandom random_;

  std::vector<RankRun> ranks_;
  /// From rank to rank of another server.
  uint32_t route(Rank from, Rank to) const {
    return route_of_[port_of_[from] * ports_ + port_of_[to]];
  }

  uint32_t ports_;                  // of all servers
  std::vector<uint32_t> port_of_;   // by rank
  std::vector<uint32_t> route_of_;  // by pair of ports
  std::vector<uint16_t> arrived_;   // by (at, from): puts not yet expected
  std::vector<uint16_t> tokens_;    // the same; empty until the first
  std::vector<uint8_t> exposures_;  // by (at, from)
  std::vector<LocalPuts> local_;
  std::vector<Flight> flights_;
  std::vector<uint32_t> free_flights_;
  std::vector<Rank> ready_;
  size_t ready_first_ = 0;
  std::vector<uint64_t> left_in_step_;  // by step, of all ranks
  std::vector<std::vector<uint32_t>> rank_left_in_step_;
  uint32_t step_ = 0;  // Hold::kBarrier: that all are in
  RunTimes times_;
  uint64_t items_ = 0, done_ = 0;
};

/// Adds the routes between all pairs of servers that `hosts` stand for.
Status add_all_routes(std::span<const uint32_t> hosts, Routes& routes);

const char* to_string(Hold hold);

}  // namespace ibcoll::sim
