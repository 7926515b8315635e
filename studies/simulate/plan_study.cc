#include "studies/simulate/plan_study.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>
#include <random>
#include <tuple>

#include "engine/planner/contention_free/cache.h"
#include "engine/planner/contention_free/check.h"
#include "studies/simulate/plan_run.h"

namespace ibcoll::sim {

namespace {

using contention_free::Plan;
using contention_free::PlanCache;
using contention_free::PlanInputs;

/// CPU time of this process since `begin`.
double cpu_ns(std::clock_t begin) {
  return 1e9 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

/// Nanoseconds of a call of `get`, once what it gets is there.
template <class Get>
Result<double> time_lookups(Get&& get) {
  constexpr int kCalls = 200;
  IBCOLL_TRY(get());
  const std::clock_t begin = std::clock();
  for (int i = 0; i < kCalls; ++i) IBCOLL_TRY(get());
  return cpu_ns(begin) / kCalls;
}

Status time_cache(const PlanInputs& inputs, PlanResult& result) {
  PlanCache cache(inputs);
  IBCOLL_ASSIGN(result.lookup_ns, time_lookups([&] {
                  return cache.get(inputs.collective, inputs.root, inputs.block_bytes);
                }));
  const size_t sizes = contention_free::sizes_of(inputs.collective, inputs.server_ranks.size());
  if (sizes == 0) return {};
  const std::vector<uint64_t> counts(sizes, inputs.block_bytes);
  IBCOLL_ASSIGN(result.lookup_counts_ns,
                time_lookups([&] { return cache.get(inputs.collective, inputs.root, counts); }));
  return {};
}

/// Figures that are taken to be wrong together: kind of cable, bandwidth or latency, value.
using Figure = std::tuple<bool, bool, double>;

}  // namespace

Result<PlanResult> study_plan(const PlanStudy& study, PlanInputs inputs) {
  PlanResult result;
  inputs.fabric = study.believed;
  const std::clock_t begin = std::clock();
  IBCOLL_ASSIGN(result.plan, plan_transfers(inputs));
  result.plan_ms = cpu_ns(begin) * 1e-6;
  result.tasks = result.plan.transfers.size();
  result.tokens = result.plan.tokens.size();
  if (study.check) {
    const Status right = check_plan(inputs, result.plan);
    if (!right) result.violation = right.error().message;
  }
  if (study.simulate) {
    IBCOLL_ASSIGN(const PlanTimes times, simulate_plan(*study.fabric, inputs.hosts, result.plan));
    result.simulated_us = times.time_us;
    result.waited_us = times.waited_us;
    if (study.wrong > 0 && study.said != nullptr) {
      IBCOLL_ASSIGN(result.jitter_us, wait_bound_us(*study.said, *study.believed, inputs.hosts,
                                                    result.plan, study.wrong));
    }
  }
  if (study.lookup) IBCOLL_TRY(time_cache(inputs, result));
  if (study.believed != study.fabric) {
    inputs.fabric = study.fabric;
    IBCOLL_ASSIGN(result.plan.bound_ns,
                  contention_free::lower_bound_ns(inputs, result.plan.relayed_bytes > 0));
  }
  return result;
}

Result<double> wait_bound_us(const topology::Fabric& said, const topology::Fabric& believed,
                             const std::vector<int>& hosts, const Plan& plan, double r) {
  constexpr size_t kMostRuns = 16;
  const size_t cables = static_cast<size_t>(believed.links()) / 2;
  std::map<Figure, size_t> alike;
  struct Mean {
    double sum = 0, cables = 0;
  };
  std::vector<Mean> means;                         // of what is said, by figures that are alike
  std::vector<std::pair<size_t, size_t>> classes;  // of each cable: its bandwidth's, its latency's
  for (size_t c = 0; c < cables; ++c) {
    const topology::Link& link = believed.link(static_cast<int>(2 * c));
    const topology::Link& told = said.link(static_cast<int>(2 * c));
    const bool of_host = believed.is_host(link.from) || believed.is_host(link.to);
    const auto number = [&](bool latency, double value, double said_value) {
      const size_t at = alike.try_emplace({of_host, latency, value}, alike.size()).first->second;
      means.resize(alike.size());
      means[at].sum += said_value;
      ++means[at].cables;
      return at;
    };
    const size_t bandwidth = number(false, link.bandwidth, told.bandwidth);
    classes.emplace_back(bandwidth, number(true, static_cast<double>(link.latency_ns),
                                           static_cast<double>(told.latency_ns)));
  }
  const bool all = alike.size() < 8 && (size_t{1} << alike.size()) <= kMostRuns;
  const size_t extreme = all ? size_t{1} << alike.size() : kMostRuns;
  const size_t alone = all ? 2 * alike.size() : 0;
  std::mt19937_64 random(1);
  std::vector<double> truth(alike.size());
  std::vector<topology::CableFigures> figures(cables);
  double most = 0;
  for (size_t run = 0; run <= extreme + alone; ++run) {  // the last with the means
    for (size_t i = 0; i < truth.size(); ++i) {
      truth[i] = means[i].sum / means[i].cables;
      const bool is_wrong = run < extreme || (run - extreme < alone && (run - extreme) / 2 == i);
      if (!is_wrong) continue;
      const uint64_t high = run >= extreme ? run - extreme : all ? run >> i : random() >> 63;
      truth[i] *= (high & 1) != 0 ? 1 / (1 - r) : 1 / (1 + r);
    }
    for (size_t c = 0; c < cables; ++c) {
      figures[c] = {truth[classes[c].first], std::llround(truth[classes[c].second])};
    }
    IBCOLL_ASSIGN(const PlanTimes times,
                  simulate_plan(believed.with_figures(figures), hosts, plan));
    most = std::max(most, times.waited_us);
  }
  double slowest = INFINITY;
  for (const contention_free::Transfer& transfer : plan.transfers) {
    slowest = std::min(slowest, transfer.rate);
  }
  return most + 1e6 * contention_free::packet_bytes(plan) * (1 + r) / slowest;
}

}  // namespace ibcoll::sim
