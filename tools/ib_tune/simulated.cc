#include "tools/ib_tune/simulated.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/units.h"
#include "engine/multicast/logp.h"
#include "engine/planner/contention_free/plan_store.h"
#include "engine/schedule/layout.h"
#include "engine/tuner/choose.h"
#include "studies/measure/traffic.h"
#include "topology/distort.h"
#include "topology/spec.h"

namespace ibcoll::tools {
namespace {

using namespace ibcoll::sim;
using measure::TunePoint;

constexpr int kMostRanks = 8192;  // memory grows with their square
/// More packets than these are simulated as flows.
constexpr double kMostPackets = 2e6;

Result<Shape> understand_shape(const JobArguments& a) {
  IBCOLL_ASSIGN(const Placement placement,
                parse_placement(a.placement.empty() ? "block" : a.placement));
  IBCOLL_ASSIGN(Shape shape, shape_from_options(a.layout, a.ranks, a.servers, placement));
  if (shape.servers() < 2)
    return fail(ErrorCode::kInvalidArgument,
                "--simulate is for what is between servers: say --servers or --layout");
  if (shape.ranks() > kMostRanks)
    return fail(ErrorCode::kInvalidArgument, "{} ranks are more than the limit of {}",
                shape.ranks(), kMostRanks);
  return shape;
}

/// Bytes a us at which the longest messages follow each other; 0: not known.
double rate_of(const LayerCosts& costs) {
  constexpr double kLong = 1 << 20, kShort = kLong / 4;
  if (!costs.known()) return 0;
  const double more_us = costs.usual_gap_us(kLong) - costs.usual_gap_us(kShort);
  return more_us > 0 ? (kLong - kShort) / more_us : 0;
}

/// A short message keeps its sender and its receiver busy for its gap, half each; what else there
/// is of a hop is the network's.
Status apply(const LogP& costs, SimulatedJob& job, std::string& network) {
  constexpr double kShort = 8, kNsPerUs = 1000;
  RunOptions& run = job.options.run;
  run.copy_bytes_per_second = rate_of(costs.local) * 1e6;
  if (!costs.network.known())
    return fail(ErrorCode::kInput,
                "no costs of messages between servers: ib_logp --calls with "
                "--servers measures them");
  const double gap_us = costs.network.usual_gap_us(kShort);
  const double hop_us = costs.network.usual_hop_us(kShort);
  run.send_overhead_ns = run.recv_overhead_ns = std::llround(gap_us / 2 * kNsPerUs);
  if (!network.empty()) return {};
  const double rate = rate_of(costs.network);
  if (rate <= 0)
    return fail(ErrorCode::kInput, "messages of 256K and 1M between servers are needed for a rate");
  constexpr int kLinks = 2;  // from host to host
  const int64_t latency_ns = std::llround(std::max(0.0, hop_us - gap_us) / kLinks * kNsPerUs);
  network = fmt::format("single-switch:{},bandwidth={}MB/s,latency={}ns", job.shape.servers(),
                        std::max<int64_t>(1, std::llround(rate)), latency_ns);
  return {};
}

double packets_between(const Shape& shape, Collective collective, int64_t bytes, uint32_t mtu) {
  double messages = shape.ranks();
  if (!has_root(collective)) messages *= shape.ranks();
  return messages * std::ceil(static_cast<double>(std::max<int64_t>(bytes, 1)) / mtu);
}

class Simulation {
 public:
  Simulation(const SimulatedJob& job, contention_free::PlanStore& plans)
      : job_(job), plans_(plans), hosts_(static_cast<size_t>(job.shape.servers())) {
    std::iota(hosts_.begin(), hosts_.end(), 0);
  }

  /// In ns.
  Result<double> time_of(const Rule& rule, const measure::Traffic& traffic) {
    const Collective collective = rule.collective;
    const bool unequal = is_unequal(collective);
    const int64_t bytes = traffic.bytes_per_pair();
    const int64_t block_bytes = size_to_choose_by(collective, traffic.mean_bytes());
    CollectiveOptions options = job_.options;
    options.mode = Mode::kPaced;
    options.network.level =
        packets_between(job_.shape, collective, bytes, options.network.mtu_bytes) > kMostPackets
            ? Level::kFlow
            : Level::kPacket;
    options.algorithm.pacing = rule.pacing.value_or(Pacing::kGateToken);
    options.algorithm.window = rule.window;
    uint32_t pieces = rule.pieces;
    if (rule.algorithm->spec->planned) {
      IBCOLL_ASSIGN(options.algorithm.plan,
                    plans_.find(collective, job_.shape, hosts_, 0, block_bytes));
    }
    if (pieces == 0) {
      pieces = choose_pieces(*rule.algorithm, {collective, job_.shape, block_bytes},
                             options.algorithm.plan.get());
    }
    rule.algorithm->set_pieces(pieces, options.algorithm);
    options.run.pieces = pieces;
    options.run.block_bytes = static_cast<uint64_t>(bytes);
    if (unequal) {
      options.run.bytes_of = [&traffic](const Block& block) {
        return static_cast<uint64_t>(traffic.bytes(block.origin, std::max(block.target, 0)));
      };
    }
    IBCOLL_ASSIGN(const CollectiveReport report,
                  simulate(*rule.algorithm, job_.shape, job_.fabric, options));
    constexpr double kNsPerUs = 1000;
    return std::max(report.time_us * kNsPerUs, 1.0);
  }

 private:
  const SimulatedJob& job_;
  contention_free::PlanStore& plans_;
  std::vector<int> hosts_;
};

}  // namespace

std::string SimulatedJob::describe() const {
  const auto us = [](int64_t ns) { return static_cast<double>(ns) / 1000; };
  return fmt::format("on {}, {:.2f} us to send or receive a message", fabric.name(),
                     us(options.run.send_overhead_ns));
}

Result<SimulatedJob> understand_simulation(const TuneArguments& a) {
  SimulatedJob job;
  IBCOLL_ASSIGN(job.shape, understand_shape(a.job));
  job.job.layout = job.shape.describe();
  if (a.job.transport != "auto") job.job.transport = a.job.transport;
  job.job.engine = engine_version();
  std::string network = a.job.network;
  if (!a.logp.empty()) {
    IBCOLL_ASSIGN(const LogP costs, read_logp(a.logp));
    if (const Status applied = apply(costs, job, network); !applied)
      return fail(applied.error().code, "{}: {}", a.logp, applied.error().message);
  }
  IBCOLL_ASSIGN(job.fabric, topology::open_fabric(network));
  if (job.fabric.hosts() >= job.shape.servers()) return job;
  return fail(ErrorCode::kInvalidArgument, "--network {} has {} hosts for {} servers", network,
              job.fabric.hosts(), job.shape.servers());
}

Result<std::vector<TunePoint>> simulate_choices(
    const SimulatedJob& job, const measure::TuneSettings& settings,
    const std::function<void(const TunePoint&)>& on_point,
    const std::function<void(const std::string&)>& on_progress) {
  IBCOLL_ASSIGN(topology::Fabric believed, topology::believe(job.fabric, std::nullopt));
  contention_free::PlanStore plans(std::move(believed));
  Simulation simulation(job, plans);
  const int64_t end_ns = now_ns() + settings.budget_ns;
  const Rules* const rules = settings.judged ? &*settings.judged : nullptr;
  std::vector<TunePoint> points;
  for (const Collective collective : settings.collectives) {
    for (const int64_t bytes : measure::sizes_of(collective, settings.sizes)) {
      if (now_ns() > end_ns) {
        log().warn("the budget is spent: {} of {} and what is behind it keep the engine's choice",
                   to_string(collective), format_size(bytes));
        return points;
      }
      size_t judged = 0;
      const measure::Traffic traffic(collective, job.shape.ranks(), bytes, 0);
      const Rule own = measure::own_choice_of(traffic, job.shape);
      std::vector<Rule> contenders =
          measure::contenders_of(traffic, job.shape, own, rules, &judged);
      std::vector<double> times;
      for (const Rule& contender : contenders) {
        on_progress(fmt::format("{} of {}: {}", to_string(collective), format_size(bytes),
                                contender.describe()));
        IBCOLL_ASSIGN(times.emplace_back(), simulation.time_of(contender, traffic));
      }
      measure::Race race(contenders.size());
      race.add_round(times);
      TunePoint point = measure::conclude(traffic, std::move(contenders), judged, race);
      on_point(point);
      points.push_back(std::move(point));
    }
  }
  return points;
}

}  // namespace ibcoll::tools
