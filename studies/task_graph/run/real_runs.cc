#include "studies/task_graph/run/real_runs.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>

#include "engine/base/network_names.h"
#include "engine/base/stats.h"
#include "engine/bootstrap/launch.h"
#include "engine/bootstrap/shared_region.h"
#include "engine/transport/open.h"
#include "shm/transport.h"

namespace ibcoll::task_graph {

constexpr std::string_view kShm = "shm";

std::vector<std::string> channel_names() {
  std::vector<std::string> all{std::string(kShm)};
  for (const std::string_view name : network_names()) all.emplace_back(name);
  return all;
}

Result<std::string> parse_channel(std::string_view name) {
  const std::vector<std::string> all = channel_names();
  if (std::find(all.begin(), all.end(), name) != all.end()) return std::string(name);
  return fail(ErrorCode::kInvalidArgument, "transport '{}': must be one of {}", name,
              fmt::join(all, ", "));
}

Result<MatrixProblem::Method> parse_method(std::string_view name) {
  if (name == "gauss-jordan") return MatrixProblem::Method::kGaussJordan;
  if (name == "gauss-jordan-b") return MatrixProblem::Method::kGaussJordanB;
  if (name == "lu") return MatrixProblem::Method::kLu;
  return fail(ErrorCode::kInvalidArgument,
              "method '{}': must be gauss-jordan, gauss-jordan-b or lu", name);
}

namespace {

/// A rank's transport of the kind asked for; makes channels over it.
class Carrier {
 public:
  static Result<std::unique_ptr<Carrier>> open(Bootstrap& bootstrap, std::string_view name) {
    auto carrier = std::make_unique<Carrier>(bootstrap);
    const auto ranks = static_cast<size_t>(bootstrap.size());
    IBCOLL_ASSIGN(carrier->region_,
                  SharedRegion::create(bootstrap, 0, sizeof(Bell) * ranks, "bells"));
    const std::span bells(reinterpret_cast<Bell*>(carrier->region_.data()), ranks);
    if (name == kShm) {
      IBCOLL_ASSIGN(carrier->local_,
                    shm::Transport::create(bootstrap, carrier->one_server_, bells, {}));
    } else {
      std::vector<int> servers(ranks);
      std::iota(servers.begin(), servers.end(), 0);
      IBCOLL_ASSIGN(const Shape shape, Shape::create(servers));
      IBCOLL_ASSIGN(const JobPlaces places, exchange_places(bootstrap));
      const std::vector<WatchedProcess> processes = processes_at(places.here);
      IBCOLL_ASSIGN(carrier->network_,
                    open_network({bootstrap, shape, bells, processes, places.machines}, name));
    }
    return carrier;
  }

  explicit Carrier(Bootstrap& bootstrap)
      : bootstrap_(bootstrap), one_server_(Shape::single_server(bootstrap.size())) {}

  Result<std::unique_ptr<PackageChannel>> channel(const TaskSchedule& schedule) {
    if (local_) return create_local_channel(bootstrap_, *local_, schedule);
    return create_network_channel(bootstrap_, *network_.transport, schedule);
  }
  Status close() { return network_.transport ? network_.transport->close() : bootstrap_.barrier(); }

 private:
  Bootstrap& bootstrap_;
  Shape one_server_;
  SharedRegion region_;  // outlives the transports that ring its bells
  std::unique_ptr<shm::Transport> local_;
  OpenedNetwork network_;
};

Result<MeasuredLogP> logp_of(Bootstrap& bootstrap, Carrier& carrier, int rounds, int results) {
  const TaskSchedule schedule = logp_schedule(rounds, results);
  IBCOLL_ASSIGN(const auto channel, carrier.channel(schedule));
  return measure_logp(bootstrap, schedule, *channel);
}

/// The middle run's time on rank 0 of all tasks in order, the others waiting.
Result<double> serial_time(Bootstrap& bootstrap, const MatrixProblem& problem, int repeat) {
  double middle = 0;
  if (bootstrap.rank() == 0) {
    IBCOLL_ASSIGN(const TaskSchedule serial, schedule_serial(problem.graph(), {}, 1, {}));
    const ProcessorProgram program(problem.graph(), serial, 0, problem, problem.solution_tasks());
    std::vector<double> slots, times;
    for (int i = 0; i <= repeat; ++i) {
      program.fill_slots(slots);
      const auto begin = std::chrono::steady_clock::now();
      for (const ProcessorProgram::Step& step : program.steps()) program.run(step, slots.data());
      const std::chrono::duration<double, std::nano> time =
          std::chrono::steady_clock::now() - begin;
      if (i > 0) times.push_back(time.count());  // the first one touches the memory
    }
    middle = median(times);
  }
  std::vector<double> all(static_cast<size_t>(bootstrap.size()));
  IBCOLL_TRY(bootstrap.allgather(&middle, sizeof middle, all.data()));
  return all[0];
}

/// The largest difference from the plain solution, relative to its largest entry; every rank
/// contributes the results it has.
Result<double> worst_error(Bootstrap& bootstrap, const MatrixProblem& problem,
                           const ProcessorProgram& program, const std::vector<double>& slots) {
  const size_t count = problem.solution_tasks().size();
  constexpr double kNotHere = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> mine;
  for (size_t i = 0; i < count; ++i) {
    const int32_t slot = program.slot_of_kept(i);
    mine.push_back(slot >= 0 ? slots[slot] : kNotHere);
  }
  std::vector<double> all(mine.size() * static_cast<size_t>(bootstrap.size()));
  IBCOLL_TRY(bootstrap.allgather(mine.data(), mine.size() * sizeof(double), all.data()));
  const std::vector<double> expected = problem.plain_solution();
  double scale = 0, worst = 0;
  for (double value : expected) scale = std::max(scale, std::fabs(value));
  for (size_t i = 0; i < count; ++i) {
    bool found = false;
    for (size_t p = 0; p < static_cast<size_t>(bootstrap.size()); ++p) {
      const double value = all[p * count + i];
      if (std::isnan(value)) continue;
      found = true;
      worst = std::max(worst, std::fabs(value - expected[i]) / scale);
    }
    if (!found) return std::numeric_limits<double>::infinity();
  }
  return worst;
}

LogP in_units(const MeasuredLogP& measured, double task_ns) {
  const auto units = [&](double nanoseconds) {
    return static_cast<Time>(std::llround(nanoseconds / task_ns));
  };
  return {.send_overhead = units(measured.send_overhead_ns),
          .receive_overhead = units(measured.receive_overhead_ns),
          .latency = units(measured.latency_ns)};
}

MeasuredLogP in_nanoseconds(const LogP& logp, double task_ns) {
  MeasuredLogP result;
  result.send_overhead_ns = static_cast<double>(logp.send_overhead) * task_ns;
  result.receive_overhead_ns = static_cast<double>(logp.receive_overhead) * task_ns;
  result.latency_ns = static_cast<double>(logp.latency) * task_ns;
  return result;
}

Result<RunResult> run_rank(Bootstrap& bootstrap, const RunSettings& settings,
                           const MatrixProblem& problem) {
  const TaskGraph& graph = problem.graph();
  RunResult result;
  IBCOLL_ASSIGN(const auto carrier, Carrier::open(bootstrap, settings.channel));
  IBCOLL_ASSIGN(result.serial_ns, serial_time(bootstrap, problem, settings.repeat));
  result.task_ns = result.serial_ns / graph.size();
  // A first schedule says how large messages are and in which order tasks run; the second one is
  // made with the costs measured for that.
  constexpr int kRounds = 300, kFirstGuess = 256, kPasses = 2;
  int size = kFirstGuess;
  TaskSchedule schedule;
  std::optional<ProcessorProgram> program;
  std::vector<double> slots;
  for (int pass = 0; pass < kPasses; ++pass) {
    if (settings.logp) {
      result.logp = in_nanoseconds(*settings.logp, result.task_ns);
    } else if (settings.processors > 1) {
      IBCOLL_ASSIGN(result.logp, logp_of(bootstrap, *carrier, kRounds, size));
    }
    const LogP costs = settings.logp.value_or(in_units(result.logp, result.task_ns));
    IBCOLL_ASSIGN(schedule, ibcoll::task_graph::schedule(*settings.scheduler, graph, costs,
                                                         settings.processors));
    IBCOLL_TRY(check(graph, schedule));
    if (!schedule.messages.empty())
      size = std::max(1, static_cast<int>(schedule.packed.size() / schedule.messages.size()));
    program.emplace(graph, schedule, bootstrap.rank(), problem, problem.solution_tasks());
    IBCOLL_ASSIGN(result.task_ns, measure_task_time(bootstrap, *program, settings.repeat, slots));
  }
  // What this schedule should take at the costs that were measured for it. (The runtime doesn't
  // wait for clock times.)
  if (!settings.logp) schedule.logp = in_units(result.logp, result.task_ns);
  IBCOLL_TRY(replay(graph, schedule));
  const Statistics statistics = task_graph::statistics(graph, schedule);
  result.predicted_ns = static_cast<double>(statistics.makespan) * result.task_ns;
  result.speedup_model = statistics.speedup;
  result.messages = statistics.messages;
  result.results_a_message = size;

  IBCOLL_ASSIGN(const auto channel, carrier->channel(schedule));
  std::vector<double> times;
  std::vector<int64_t> all(static_cast<size_t>(bootstrap.size()));
  for (int i = 0; i <= settings.repeat; ++i) {
    IBCOLL_ASSIGN(const RunTimes run, run_processor(bootstrap, *program, *channel, slots));
    IBCOLL_TRY(bootstrap.allgather(&run.elapsed_ns, sizeof run.elapsed_ns, all.data()));
    if (i > 0) times.push_back(static_cast<double>(*std::max_element(all.begin(), all.end())));
  }
  result.measured_ns = median(times);
  result.speedup_measured = result.serial_ns / result.measured_ns;
  IBCOLL_ASSIGN(result.worst_error, worst_error(bootstrap, problem, *program, slots));
  IBCOLL_TRY(carrier->close());
  return result;
}

/// Starts the ranks and brings rank 0's answer back.
template <class T, class Main>
Result<T> launch(int ranks, bool threads, const Main& main) {
  static_assert(std::is_trivially_copyable_v<T>);
  struct Shared {
    T value;
    bool good;
    ErrorCode code;
    char message[512];
  };
  // Memory the forked ranks share with this process.
  void* memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return fail_errno("mmap");
  const std::unique_ptr<void, void (*)(void*)> unmap(memory,
                                                     [](void* m) { munmap(m, sizeof(Shared)); });
  auto* shared = static_cast<Shared*>(memory);
  const auto body = [&](Bootstrap& bootstrap) -> int {
    Result<T> result = main(bootstrap);
    if (bootstrap.rank() == 0) {
      shared->good = result.has_value();
      if (result) {
        shared->value = *result;
      } else {
        shared->code = result.error().code;
        std::strncpy(shared->message, result.error().message.c_str(), sizeof shared->message - 1);
      }
    }
    return result ? 0 : 1;
  };
  LaunchOptions options;
  options.ranks = ranks;
  IBCOLL_ASSIGN(const int status,
                threads ? launch_threads(ranks, body) : launch_processes(options, body));
  if (status != 0 || !shared->good) {
    if (shared->message[0] != '\0') return fail(shared->code, "{}", shared->message);
    return fail(ErrorCode::kPeerFailed, "a rank ended with status {}", status);
  }
  return shared->value;
}

}  // namespace

Result<RunResult> run_matrix_problem(const RunSettings& settings) {
  constexpr int kMaxRanks = 64;
  if (settings.processors < 1 || settings.processors > kMaxRanks)
    return fail(ErrorCode::kInvalidArgument, "{} processors: a run takes 1 to {}",
                settings.processors, kMaxRanks);
  const MatrixProblem problem(settings.method, settings.size, settings.seed);
  return launch<RunResult>(settings.processors, settings.threads, [&](Bootstrap& bootstrap) {
    return run_rank(bootstrap, settings, problem);
  });
}

Result<MeasuredLogP> run_logp(const LogPSettings& settings) {
  return launch<MeasuredLogP>(
      2, settings.threads, [&](Bootstrap& bootstrap) -> Result<MeasuredLogP> {
        IBCOLL_ASSIGN(const auto carrier, Carrier::open(bootstrap, settings.channel));
        IBCOLL_ASSIGN(const MeasuredLogP measured,
                      logp_of(bootstrap, *carrier, settings.rounds, settings.results));
        IBCOLL_TRY(carrier->close());
        return measured;
      });
}

}  // namespace ibcoll::task_graph
