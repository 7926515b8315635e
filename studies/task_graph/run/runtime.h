#pragma once
/// Runs a schedule for real: task bodies in each processor's order, packaged messages over a
/// channel.

#include <vector>

#include "studies/task_graph/run/package_channel.h"
#include "studies/task_graph/run/processor_program.h"

namespace ibcoll::task_graph {

/// What one rank did.
struct RunTimes {
  int64_t elapsed_ns = 0;  ///< from its first instruction to its last
  int64_t waited_ns = 0;   ///< of that, for messages that weren't there
};

/// Runs this rank's processor of a schedule once. Collective: all ranks start together. Fails when
/// a peer does.
Result<RunTimes> run_processor(Bootstrap& bootstrap, const ProcessorProgram& program,
                               PackageChannel& channel, std::vector<double>& slots);

/// Time of one task in nanoseconds as the runtime runs it: the programs' tasks alone, without their
/// messages, on all ranks at once, divided by their number; the median of `repeat` runs. The
/// numbers they compute mean nothing. Collective, the same on all ranks.
Result<double> measure_task_time(Bootstrap& bootstrap, const ProcessorProgram& program, int repeat,
                                 std::vector<double>& slots);

/// The LogP parameters of a channel as the runtime sees them, in nanoseconds: packing and unpacking
/// `results` results is part of the overheads.
struct MeasuredLogP {
  double send_overhead_ns = 0;
  double receive_overhead_ns = 0;
  double latency_ns = 0;
  double round_trip_ns = 0;
};

/// A schedule of no tasks whose messages go to and fro between processors 0 and 1: what
/// measure_logp() needs of a channel. `rounds` messages each way.
TaskSchedule logp_schedule(int rounds, int results);

/// Measures on ranks 0 and 1 (others take part and do nothing): overheads by bursts, latency from
/// round trips. `schedule` is logp_schedule(rounds, results), `channel` was made for it. The result
/// is the same on all ranks.
Result<MeasuredLogP> measure_logp(Bootstrap& bootstrap, const TaskSchedule& schedule,
                                  PackageChannel& channel);

}  // namespace ibcoll::task_graph
