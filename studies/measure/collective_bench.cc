#include "studies/measure/collective_bench.h"

#include <algorithm>

#include "engine/base/stats.h"
#include "engine/base/units.h"
#include "studies/measure/bench_buffers.h"
#include "studies/measure/copy_speed.h"
#include "studies/measure/record_call.h"
#include "studies/measure/timed_calls.h"

namespace ibcoll::measure {
namespace {

constexpr int kCopySamples = 15;

/// One rank's side of the benchmark.
class RankBench {
 public:
  RankBench(Bootstrap& bootstrap, Context& context, const BenchSettings& settings)
      : bootstrap_(bootstrap),
        context_(context),
        settings_(settings),
        me_(bootstrap.rank()),
        ranks_(bootstrap.size()),
        buffers_(bootstrap.rank(), bootstrap.size()),
        calls_(bootstrap, context) {}

  Status prepare() {
    const int64_t largest = *std::max_element(settings_.sizes.begin(), settings_.sizes.end());
    const Traffic traffic = traffic_of(largest);
    IBCOLL_TRY(buffers_.allocate(context_, traffic, settings_.user_memory));
    if (traffic.total_bytes() > 0 && context_.job().ranks_on_machine() == ranks_) {
      IBCOLL_ASSIGN(CopySpeed speed, CopySpeed::create(bootstrap_, traffic));
      copy_speed_.emplace(std::move(speed));
    }
    return calls_.prepare();
  }

  /// The copying alone, at this size: the same for all contenders.
  Result<CopySpeed::Best> copying(int64_t size) {
    const Traffic traffic = traffic_of(size);
    if (!copy_speed_ || traffic.total_bytes() == 0) return CopySpeed::Best{};
    return copy_speed_->best(traffic, kCopySamples);
  }

  Result<BenchRow> measure(const Contender& contender, int64_t size, const CopySpeed::Best& copy) {
    const Traffic traffic = traffic_of(size);
    arguments_ = buffers_.arguments(traffic);
    use(contender);
    for (int i = 0; i < settings_.warmup; ++i) IBCOLL_TRY(calls_.call(arguments_));
    IBCOLL_ASSIGN(const int64_t calls, calls_.calls_in(settings_.batch_ns, arguments_));

    std::vector<double> call_ns(settings_.iterations);
    TransportCounters sent{};
    std::vector<NamedCounter> details_before, details_sent;
    for (int iteration = 0; iteration < settings_.iterations; ++iteration) {
      if (settings_.check) IBCOLL_TRY(checked_call(traffic, iteration));
      IBCOLL_TRY(calls_.synchronise());
      const TransportCounters before = counters();
      details_before = details();
      IBCOLL_ASSIGN(call_ns[iteration], calls_.batch(arguments_, calls));
      const TransportCounters after = counters();
      sent.data_messages += after.data_messages - before.data_messages;
      sent.tokens += after.tokens - before.tokens;
      sent.data_bytes += after.data_bytes - before.data_bytes;
      const std::vector<NamedCounter> details_after = details();
      details_sent.resize(details_after.size());
      for (size_t i = 0; i < details_after.size(); ++i) {
        details_sent[i].name = details_after[i].name;
        details_sent[i].value += details_after[i].value - details_before[i].value;
      }
      if (settings_.check) IBCOLL_TRY(buffers_.compare(traffic, iteration, contender.algorithm));
    }
    BenchRow row;
    row.algorithm = contender.algorithm;
    row.pacing = contender.pacing ? to_string(*contender.pacing) : "auto";
    row.bytes_per_pair = size;
    row.iterations = settings_.iterations;
    row.calls_per_iteration = calls;
    row.checked = settings_.check;
    IBCOLL_TRY(count(sent, calls * settings_.iterations, row));
    IBCOLL_TRY(count_details(details_sent, calls * settings_.iterations, row));
    IBCOLL_TRY(summarise(std::move(call_ns), traffic, copy, row));
    return row;
  }

  /// Of a call like the last one measured, which has warmed everything up.
  Result<Recording> record() {
    {
      const EntryGuard::Entry entry(context_.threads().guard());
      IBCOLL_TRY(calls_.last().prepare(arguments_));
    }
    IBCOLL_TRY(calls_.synchronise());
    return record_call(context_, calls_.last());
  }

 private:
  void use(const Contender& contender) {
    if (contender.algorithm != "auto") arguments_.options.algorithm = contender.algorithm;
    arguments_.options.pacing = contender.pacing;
    arguments_.options.ordered = settings_.ordered;
  }

  /// A call that moves this iteration's own bytes into poisoned buffers.
  Status checked_call(const Traffic& traffic, int iteration) {
    buffers_.fill(traffic, iteration);
    IBCOLL_TRY(calls_.call(arguments_));
    return buffers_.compare(traffic, iteration, arguments_.options.algorithm);
  }

  TransportCounters counters() const {
    const EntryGuard::Entry entry(context_.threads().guard());
    return context_.job().network() != nullptr ? context_.job().network()->counters()
                                               : TransportCounters{};
  }

  std::vector<NamedCounter> details() const {
    const EntryGuard::Entry entry(context_.threads().guard());
    return context_.job().network() != nullptr ? context_.job().network()->details()
                                               : std::vector<NamedCounter>{};
  }

  Traffic traffic_of(int64_t bytes) const {
    return {settings_.collective, ranks_, bytes, settings_.root, settings_.graph};
  }

  /// Per call, of the rank with most of each.
  Status count(const TransportCounters& sent, int64_t calls, BenchRow& row) {
    const uint64_t mine[4] = {sent.data_messages, sent.tokens, sent.data_bytes,
                              counters().connections};
    std::vector<uint64_t> all(4 * static_cast<size_t>(ranks_));
    IBCOLL_TRY(bootstrap_.allgather(mine, sizeof mine, all.data()));
    double* const fields[3] = {&row.net_messages_per_rank, &row.net_tokens_per_rank,
                               &row.net_bytes_per_rank};
    for (size_t rank = 0; rank < static_cast<size_t>(ranks_); ++rank) {
      for (size_t i = 0; i < 3; ++i) {
        *fields[i] = std::max(*fields[i],
                              static_cast<double>(all[4 * rank + i]) / static_cast<double>(calls));
      }
      row.net_queue_pairs_per_rank = std::max(row.net_queue_pairs_per_rank, all[4 * rank + 3]);
    }
    return {};
  }

  Status count_details(const std::vector<NamedCounter>& sent, int64_t calls, BenchRow& row) {
    if (context_.job().network() == nullptr) return {};
    const TransportCounters now = counters();
    row.network = {{"queue_pairs", static_cast<double>(now.queue_pairs)},
                   {"registrations", static_cast<double>(now.registrations)}};
    for (const NamedCounter& counter : sent)
      row.network.emplace_back(counter.name,
                               static_cast<double>(counter.value) / static_cast<double>(calls));
    const size_t counters = row.network.size();
    std::vector<double> mine, all(counters * static_cast<size_t>(ranks_));
    for (const auto& [name, value] : row.network) mine.push_back(value);
    IBCOLL_TRY(bootstrap_.allgather(mine.data(), counters * sizeof(double), all.data()));
    for (size_t i = 0; i < all.size(); ++i) {
      double& most = row.network[i % counters].second;
      most = std::max(most, all[i]);
    }
    return {};
  }

  Status summarise(std::vector<double> call_ns, const Traffic& traffic, const CopySpeed::Best& copy,
                   BenchRow& row) {
    IBCOLL_TRY(take_slowest(bootstrap_, call_ns));
    for (double& one : call_ns) one /= 1e3;
    row.min_us = minimum(call_ns);
    row.median_us = median(call_ns);
    row.p99_us = quantile(call_ns, 0.99);
    row.max_us = maximum(call_ns);
    // Bytes a microsecond are megabytes a second.
    row.a2a_bandwidth_MBps =
        static_cast<double>(traffic.busiest_server_bytes(context_.shape())) / row.median_us;
    row.total_MBps = static_cast<double>(traffic.total_bytes()) / row.median_us;
    if (copy.call_ns > 0) {
      row.copy_bandwidth_fraction = copy.call_ns / 1e3 / row.median_us;
      row.copy_kernel = copy.kernel;
    }
    return {};
  }

  Bootstrap& bootstrap_;
  Context& context_;
  const BenchSettings& settings_;
  Rank me_;
  int ranks_;
  BenchBuffers buffers_;
  std::optional<CopySpeed> copy_speed_;
  CallArguments arguments_;
  TimedCalls calls_;
};

}  // namespace

int64_t memory_needed(const BenchSettings& settings, int ranks) {
  const int64_t largest = *std::max_element(settings.sizes.begin(), settings.sizes.end());
  // The buffers, the same again to measure copying, and up to as much for what algorithms stage.
  constexpr int64_t kUnit = 1024;  // sizes may be too large to add up as they are
  const Traffic unit(settings.collective, ranks, kUnit, settings.root, settings.graph);
  const double bytes =
      3.0 * static_cast<double>(unit.footprint_bytes()) * (static_cast<double>(largest) / kUnit);
  return bytes > 0x1p62 ? int64_t{1} << 62 : static_cast<int64_t>(bytes);
}

Status run_bench(Bootstrap& bootstrap, Context& context, const BenchSettings& settings,
                 const std::function<void(const BenchRow&)>& on_row,
                 const std::function<void(const std::string&)>& on_progress,
                 const std::function<Status(const Recording&)>& on_recording) {
  const bool first = bootstrap.rank() == 0;
  RankBench bench(bootstrap, context, settings);
  if (first) on_progress("preparing buffers");
  IBCOLL_TRY(bench.prepare());
  for (const int64_t size : settings.sizes) {
    if (first) on_progress(fmt::format("{}: copying alone", format_size(size)));
    IBCOLL_ASSIGN(const CopySpeed::Best copy, bench.copying(size));
    for (const Contender& contender : settings.contenders) {
      if (first) on_progress(fmt::format("{}: {}", format_size(size), contender.label()));
      IBCOLL_ASSIGN(const BenchRow row, bench.measure(contender, size, copy));
      if (first) on_row(row);
    }
  }
  if (!settings.record) return {};
  IBCOLL_ASSIGN(const Recording recording, bench.record());
  return first ? on_recording(recording) : Status{};
}

}  // namespace ibcoll::measure
