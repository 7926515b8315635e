#pragma once
/// Runs the programs of all ranks on a simulated network.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/base/result.h"
#include "engine/schedule/program.h"
#include "studies/mapping/random.h"
#include "studies/mapping/stopwatch.h"
#include "studies/simulate/network.h"
#include "studies/simulate/packed_program.h"
#include "studies/simulate/pair_table.h"

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
  /// Gives up, with an estimate, when it would take longer (processor time), or when more messages
  /// are under way. 0: never.
  double most_seconds = 0;
  uint64_t most_flights = 0;
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

/// Memory that a message under way takes, with its flow.
inline constexpr uint64_t kFlightBytes = 180;

/// One run. A put is complete at its sender when the acknowledgement is back, one route latency
/// after it has arrived; tokens and exposures travel as small messages. A rank does one thing at a
/// time, copies in pieces of 128 KB between which its other lanes get their turn. What costs
/// nothing takes no time.
class ProgramRun final : public NetworkClient {
 public:
  /// `hosts`: of each server, or as many of each one after the other: a port each, over which its
  /// ranks are dealt. `programs`: of all ranks, verified, packed with the bytes and pieces of the
  /// options; `routes` must have add_routes() of each. What is referred to must outlive the run.
  ProgramRun(const Shape& shape, std::vector<PackedProgram> programs,
             std::span<const uint32_t> hosts, const Routes& routes, Network& network,
             const RunOptions& options);

  /// Fails, with what `describe` says of the item (of that rank and lane) it hangs at, when the
  /// ranks can't go on: a hold the program was not made for.
  using Describe = std::function<std::string(Rank, Lane, uint32_t item)>;
  Result<RunTimes> run(const Describe& describe);

  void delivered(uint32_t tag) override;
  void woken(uint32_t tag) override;
  void moment_over() override;

 private:
  static constexpr uint32_t kNone = PackedCursor::kNone;
  struct Started {  // an item that a rank has started
    uint32_t item = kNone;
    PackedItem what;
  };
  struct Copy : Started {
    uint64_t left = 0;  // bytes of it
  };
  struct RankRun {
    explicit RankRun(PackedProgram program)
        : at{PackedCursor(std::move(program.lanes[0])), PackedCursor(std::move(program.lanes[1])),
             PackedCursor(std::move(program.lanes[2]))},
          left(program.items()) {}
    std::array<PackedCursor, kLanes> at;
    std::array<Copy, kLanes> copies;
    Started doing;      // while it is busy, unless it is late
    bool busy = false;  // the rank does something that ends at a time set
    bool queued = false;
    uint8_t turn = 0;  // lane that is looked at first
    uint8_t busy_lane = 0;
    uint32_t gates = 0;
    uint32_t routed = 0;  // exposures that came through this rank
    uint32_t step = 0;    // Hold::kRankStep: that it is in
    uint64_t left;        // items
  };
  struct Flight {
    OpKind kind = OpKind::kPut;
    Rank from = 0;
    Rank to = 0;
    uint32_t item = 0;
    uint32_t step = 0;  // of the item
    uint32_t route = 0;
    int32_t server = -1;  // exposure to a whole server
  };
  struct LocalPut {
    uint32_t item, step;
  };
  struct LocalPuts {  // from one rank to another of its server, not yet taken
    std::vector<LocalPut> puts;
    uint32_t first = 0;
    uint32_t tokens = 0;
  };
  struct FromPeer {        // what a rank has of another of another server
    uint16_t arrived = 0;  // puts not yet expected
    uint16_t tokens = 0;   // not yet waited for
    uint8_t exposures = 0;
  };

  LocalPuts& local_puts(Rank from, Rank to) {
    return local_[static_cast<size_t>(to) * shape_.max_server_size() + shape_.local_of(from)];
  }

  void wake(Rank rank);
  void wake_server(int server);
  void advance(Rank rank);
  bool may_start(Rank rank, const PackedItem& what) const;
  bool peer_ready(Rank rank, const PackedItem& what) const;
  void begin(Rank rank, int lane, const Started& started);
  void start_slice(Rank rank, int lane);
  void take(Rank rank, const PackedItem& what);
  Time cost(Rank rank, const PackedItem& what);
  void effect(Rank rank, int lane, const Started& started);
  void launch(const Flight& flight, uint64_t bytes, bool control);
  void complete(Rank rank, int lane, uint32_t item, uint32_t step);
  void leave_step(Rank rank, uint32_t step);
  void check_limits();
  Status check_finished(const Describe& describe) const;

  const Shape& shape_;
  Network& network_;
  const Routes& routes_;
  const RunOptions options_;
  topology::FastRandom random_;

  std::vector<RankRun> ranks_;
  /// From rank to rank of another server.
  uint32_t route(Rank from, Rank to) const { return routes_.find(host_of_[from], host_of_[to]); }

  std::vector<uint32_t> host_of_;  // by rank
  PairTable<FromPeer> from_peer_;
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
  uint64_t since_check_ = 0;  // that have been completed, or launched
  topology::Stopwatch watch_{topology::Clock::kProcessor};
  Status limits_;  // whether they are kept
};

/// The host over whose port each rank sends and receives; `hosts` as above.
std::vector<uint32_t> hosts_of_ranks(const Shape& shape, std::span<const uint32_t> hosts);

/// Adds the routes between all pairs of servers that `hosts` stand for.
Status add_all_routes(std::span<const uint32_t> hosts, Routes& routes);
/// Adds the routes that messages of a program take.
Status add_routes(const Shape& shape, const RankProgram& program,
                  std::span<const uint32_t> host_of_rank, Routes& routes);

const char* to_string(Hold hold);

}  // namespace ibcoll::sim
