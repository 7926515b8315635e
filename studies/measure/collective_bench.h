#pragma once
/// Times collectives on real ranks: what ib_a2a_bench does, without its command line.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/result.h"
#include "engine/core/context.h"
#include "studies/drawing/recording.h"
#include "studies/measure/contenders.h"
#include "studies/measure/traffic.h"

namespace ibcoll::measure {

struct BenchSettings {
  Collective collective = Collective::kAlltoall;
  Rank root = 0;                       ///< where the collective has one
  bool ordered = false;                ///< reduce, of doubles: combine in the order of ranks
  std::shared_ptr<const Graph> graph;  ///< where the collective has one
  std::vector<Contender> contenders;
  std::vector<int64_t> sizes;  ///< bytes a pair; of reduce, multiples of 8
  int iterations = 50;
  int warmup = 5;  ///< calls before anything is timed
  /// An iteration is as many calls back to back as take about this long, at least one.
  int64_t batch_ns = 1'000'000;
  bool check = false;        ///< compare every received byte in every iteration
  bool user_memory = false;  ///< private memory instead of the engine's
  bool record = false;       ///< one more call at the end, noting who did what when
};

/// What was measured for one contender at one size. Times are of one call on the slowest rank.
struct BenchRow {
  std::string algorithm;
  std::string pacing;  ///< "auto" where none was asked for
  int64_t bytes_per_pair = 0;
  int iterations = 0;
  int64_t calls_per_iteration = 0;
  double min_us = 0, median_us = 0, p99_us = 0, max_us = 0;
  double a2a_bandwidth_MBps = 0;  ///< out of the busiest server, by the median; 0 on one server
  double total_MBps = 0;          ///< all bytes received, own blocks included
  /// Time that the copying alone would take over the median; none where nothing is copied, or not
  /// on one machine.
  std::optional<double> copy_bandwidth_fraction;
  std::string copy_kernel;  ///< which one was fastest
  /// Between servers, in one call, of the rank with most.
  double net_messages_per_rank = 0, net_tokens_per_rank = 0, net_bytes_per_rank = 0;
  /// Connections that are open after it, in either direction, of the rank with most.
  uint64_t net_queue_pairs_per_rank = 0;
  /// What the transport counts besides (doorbells, completions, retries): in one call; queue pairs
  /// and registrations: since it was made. Of the rank with most.
  std::vector<std::pair<std::string, double>> network;
  bool checked = false;
};

/// Bytes of memory that all ranks take together for their buffers and the copy measurement.
int64_t memory_needed(const BenchSettings& settings, int ranks);

/// Collective over all ranks of `context`: measures contender by contender at each size. Rank 0
/// gives each row to `on_row` as it is done, and now and then one line of what it is doing to
/// `on_progress`. A byte that differs is an error that names rank, origin, place and iteration.
/// Where a recording is asked for, rank 0 gets that of the last contender at the last size.
Status run_bench(Bootstrap& bootstrap, Context& context, const BenchSettings& settings,
                 const std::function<void(const BenchRow&)>& on_row,
                 const std::function<void(const std::string&)>& on_progress,
                 const std::function<Status(const Recording&)>& on_recording = {});

}  // namespace ibcoll::measure
