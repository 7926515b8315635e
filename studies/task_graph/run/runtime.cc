#include "studies/task_graph/run/runtime.h"

#include <sched.h>

#include <algorithm>
#include <thread>

#include "engine/base/clock.h"
#include "engine/base/stats.h"

namespace ibcoll::task_graph {

namespace {

using Kind = Instruction::Kind;

/// Waits: spins a little where every rank has a core, then gives the core to others, looking after
/// the channel's health.
class Patience {
 public:
  Patience(const PackageChannel& channel, int ranks)
      : channel_(channel),
        spins_(ranks <= static_cast<int>(std::thread::hardware_concurrency()) ? kSpins : 0) {}
  Status wait() {
    constexpr int kHealthEvery = 4096;
    if (++tries_ > spins_) sched_yield();
    if (tries_ % kHealthEvery == 0) return channel_.health();
    return {};
  }
  /// For the next message.
  void start_over() { tries_ = 0; }

 private:
  static constexpr int kSpins = 2000;
  const PackageChannel& channel_;
  const int64_t spins_;
  int64_t tries_ = 0;
};

Status send_message(PackageChannel& channel, MessageId message, Patience& patience) {
  patience.start_over();
  while (!channel.send(message)) IBCOLL_TRY(patience.wait());
  return {};
}

Result<std::span<const double>> receive_message(PackageChannel& channel, MessageId message,
                                                Patience& patience) {
  patience.start_over();
  for (;;) {
    const std::span<const double> results = channel.receive(message);
    if (!results.empty()) return results;
    IBCOLL_TRY(patience.wait());
  }
}

}  // namespace

Result<RunTimes> run_processor(Bootstrap& bootstrap, const ProcessorProgram& program,
                               PackageChannel& channel, std::vector<double>& slots) {
  program.fill_slots(slots);
  IBCOLL_TRY(bootstrap.barrier());
  RunTimes times;
  Patience patience(channel, bootstrap.size());
  const int64_t begin = now_ns();
  for (const ProcessorProgram::Step& step : program.steps()) {
    if (step.kind == Kind::kRun) {
      program.run(step, slots.data());
      continue;
    }
    const std::span<const int32_t> places = program.slots_of(step);
    if (step.kind == Kind::kSend) {
      const std::span<double> packed = channel.outgoing(step.message);
      for (size_t i = 0; i < places.size(); ++i) packed[i] = slots[places[i]];
      IBCOLL_TRY(send_message(channel, step.message, patience));
    } else {
      const int64_t waiting = now_ns();
      IBCOLL_ASSIGN(const auto packed, receive_message(channel, step.message, patience));
      times.waited_ns += now_ns() - waiting;
      for (size_t i = 0; i < places.size(); ++i) slots[places[i]] = packed[i];
    }
  }
  times.elapsed_ns = now_ns() - begin;
  IBCOLL_TRY(channel.reset());
  return times;
}

Result<double> measure_task_time(Bootstrap& bootstrap, const ProcessorProgram& program, int repeat,
                                 std::vector<double>& slots) {
  struct Sample {
    int64_t elapsed_ns = 0;
    int64_t tasks = 0;
  };
  std::vector<Sample> all(static_cast<size_t>(bootstrap.size()));
  std::vector<double> times;
  for (int i = 0; i <= repeat; ++i) {
    program.fill_slots(slots);
    IBCOLL_TRY(bootstrap.barrier());
    const int64_t begin = now_ns();
    for (const ProcessorProgram::Step& step : program.steps()) {
      if (step.kind == Kind::kRun) program.run(step, slots.data());
    }
    const Sample mine{now_ns() - begin, program.operations()};
    IBCOLL_TRY(bootstrap.allgather(&mine, sizeof mine, all.data()));
    Sample sum;
    for (const Sample& sample : all) {
      sum.elapsed_ns += sample.elapsed_ns;
      sum.tasks += sample.tasks;
    }
    // The first run touches the memory.
    if (i > 0 && sum.tasks > 0)
      times.push_back(static_cast<double>(sum.elapsed_ns) / static_cast<double>(sum.tasks));
  }
  return times.empty() ? 0 : median(times);
}

TaskSchedule logp_schedule(int rounds, int results) {
  TaskSchedule schedule(2);
  const std::vector<TaskId> tasks(static_cast<size_t>(results), 0);
  // Two sets a direction: one for bursts, one for round trips.
  for (int i = 0; i < 2 * rounds; ++i) {
    schedule.add_message(0, 1, tasks);
    schedule.add_message(1, 0, tasks);
  }
  return schedule;
}

Result<MeasuredLogP> measure_logp(Bootstrap& bootstrap, const TaskSchedule& schedule,
                                  PackageChannel& channel) {
  const Rank me = bootstrap.rank();
  const auto messages = static_cast<MessageId>(schedule.messages.size());
  const MessageId half = messages / 2;
  std::vector<double> values(schedule.tasks(schedule.messages[0]).size(), 1.0);
  MeasuredLogP measured;
  Patience patience(channel, bootstrap.size());
  const auto pack_and_send = [&](MessageId id) -> Status {
    const std::span<double> packed = channel.outgoing(id);
    std::copy(values.begin(), values.end(), packed.begin());
    return send_message(channel, id, patience);
  };
  const auto receive_and_unpack = [&](MessageId id) -> Status {
    IBCOLL_ASSIGN(const auto packed, receive_message(channel, id, patience));
    std::copy(packed.begin(), packed.end(), values.begin());
    return {};
  };
  // One message at a time, with the receiver looking only once it is there: os and or. (Messages
  // 2i go from 0 to 1, 2i+1 back.)
  std::vector<double> sends, receives, trips;
  for (MessageId id = 0; id + 1 < half; id += 2) {
    IBCOLL_TRY(bootstrap.barrier());
    if (me == 0) {
      const int64_t begin = now_ns();
      IBCOLL_TRY(pack_and_send(id));
      sends.push_back(static_cast<double>(now_ns() - begin));
    }
    IBCOLL_TRY(bootstrap.barrier());
    if (me == 1) {
      const int64_t begin = now_ns();
      IBCOLL_TRY(receive_and_unpack(id));
      receives.push_back(static_cast<double>(now_ns() - begin));
    }
  }
  IBCOLL_TRY(bootstrap.barrier());
  for (MessageId id = half; id + 1 < messages; id += 2) {
    const int64_t begin = now_ns();
    if (me == 0) {
      IBCOLL_TRY(pack_and_send(id));
      IBCOLL_TRY(receive_and_unpack(id + 1));
      trips.push_back(static_cast<double>(now_ns() - begin));
    } else if (me == 1) {
      IBCOLL_TRY(receive_and_unpack(id));
      IBCOLL_TRY(pack_and_send(id + 1));
    }
  }
  struct Medians {
    double send = 0, receive = 0, trip = 0;
  } mine;
  if (me == 0) mine = {median(sends), 0, median(trips)};
  if (me == 1) mine.receive = median(receives);
  std::vector<Medians> all(static_cast<size_t>(bootstrap.size()));
  IBCOLL_TRY(bootstrap.allgather(&mine, sizeof mine, all.data()));
  measured.send_overhead_ns = all[0].send;
  measured.receive_overhead_ns = all[1].receive;
  measured.round_trip_ns = all[0].trip;
  measured.latency_ns = std::max(0.0, all[0].trip / 2 - all[0].send - all[1].receive);
  IBCOLL_TRY(channel.reset());
  return measured;
}

}  // namespace ibcoll::task_graph
