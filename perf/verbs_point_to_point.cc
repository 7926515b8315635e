// What the verbs transport costs between two ranks on two emulated servers: the half round trip of
// an 8-byte put with a signal beside a bare write with immediate, and streams of puts. Rounds of
// both are interleaved; medians are shown.

#include <chrono>
#include <cstdio>
#include <cstring>

#include "engine/base/json_lines.h"
#include "engine/base/stats.h"
#include "engine/base/table.h"
#include "engine/base/units.h"
#include "engine/bootstrap/launch.h"
#include "perf/support/verbs_pair.h"
#include "tools/frame/frame.h"
#include "verbs/transport.h"

namespace ibcoll::verbs {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::string sizes = "8,4K,64K,1M";
  int round_trips = 1000;
  int rounds = 11;
  int64_t stream_bytes = 64 << 20;
  int64_t stream_puts = 20000;
  std::string json;
};

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// One rank of the two.
class Runner {
 public:
  Runner(Bootstrap& bootstrap, NetworkTransport& transport, BarePair& bare)
      : bootstrap_(bootstrap), transport_(transport), bare_(bare), me_(bootstrap.rank()) {
    prepare_bells(bell_);
  }

  Status share(size_t bytes) {
    memory_.resize(bytes);
    IBCOLL_ASSIGN(key_, transport_.register_memory(memory_.data(), bytes));
    const RemoteAddress mine{reinterpret_cast<uint64_t>(memory_.data()), key_.remote};
    std::array<RemoteAddress, 2> all;
    IBCOLL_TRY(bootstrap_.allgather(&mine, sizeof mine, all.data()));
    there_ = all[static_cast<size_t>(1 - me_)];
    return {};
  }

  /// Microseconds of half a round trip.
  Result<double> bare_round_trips(int count) {
    IBCOLL_TRY(bootstrap_.barrier());
    const auto begin = Clock::now();
    for (int i = 0; i < count; ++i) {
      const bool good =
          me_ == 0 ? bare_.send() && bare_.receive() : bare_.receive() && bare_.send();
      if (!good) return fail(ErrorCode::kSystem, "a bare write failed");
    }
    return seconds_since(begin) * 1e6 / count / 2;
  }
  Result<double> round_trips(int count) {
    IBCOLL_TRY(bootstrap_.barrier());
    const auto begin = Clock::now();
    for (int i = 0; i < count; ++i) {
      if (me_ == 0) IBCOLL_TRY(put(8, 1));
      IBCOLL_TRY(receive());
      if (me_ == 1) IBCOLL_TRY(put(8, 1));
    }
    return seconds_since(begin) * 1e6 / count / 2;
  }

  /// Seconds that `count` puts of so many bytes take rank 0, until all are complete.
  Result<double> stream(size_t bytes, int64_t count) {
    constexpr int kBatch = 32;
    IBCOLL_TRY(bootstrap_.barrier());
    const auto begin = Clock::now();
    if (me_ == 1) {
      IBCOLL_TRY(sleep_until_arrival());
      return 0.0;
    }
    for (int64_t i = 0; i < count; ++i) {
      while (!transport_.put(1, memory_.data(), key_, there_, bytes,
                             i + 1 == count ? 1 : NetworkTransport::kNoSignal))
        IBCOLL_TRY(poll());
      if (i % kBatch == kBatch - 1) transport_.flush();
    }
    transport_.flush();
    while (transport_.completed(1) < transport_.posted(1)) IBCOLL_TRY(poll());
    return seconds_since(begin);
  }

 private:
  Status put(size_t bytes, uint64_t immediate) {
    while (!transport_.put(1 - me_, memory_.data(), key_, there_, bytes, immediate))
      IBCOLL_TRY(poll());
    transport_.flush();
    return {};
  }
  Status poll() {
    std::array<Arrival, 4> arrivals;
    const size_t count = transport_.poll(arrivals);
    arrived_ += count;
    if (const auto failure = transport_.failure()) return fail(failure->code, "{}", failure->what);
    if (count == 0) sched_yield();
    return {};
  }
  Status receive() {
    while (arrived_ == 0) IBCOLL_TRY(poll());
    --arrived_;
    return {};
  }
  Status sleep_until_arrival() {
    while (arrived_ == 0) {
      const uint32_t announced = announce_sleep(bell_);
      transport_.wake_on_arrival(bell_);
      IBCOLL_TRY(poll());
      if (arrived_ == 0) sleep_on(bell_, announced, 100'000'000);
      end_sleep(bell_);
    }
    --arrived_;
    return {};
  }

  Bootstrap& bootstrap_;
  NetworkTransport& transport_;
  BarePair& bare_;
  Rank me_;
  std::vector<std::byte> memory_;
  MemoryKey key_;
  RemoteAddress there_;
  Bell bell_;
  size_t arrived_ = 0;
};

Status measure(Bootstrap& bootstrap, const Options& options, const std::vector<int64_t>& sizes,
               JsonLines& json) {
  IBCOLL_ASSIGN(BarePair bare, BarePair::create(bootstrap));
  const std::array<int, 2> one_each = {1, 1};
  IBCOLL_ASSIGN(const Shape shape, Shape::from_layout(one_each, Placement::kBlock));
  IBCOLL_ASSIGN(const std::unique_ptr<NetworkTransport> transport,
                create_transport(bootstrap, shape, {0, 0}, {}));
  Runner runner(bootstrap, *transport, bare);
  IBCOLL_TRY(runner.share(static_cast<size_t>(*std::max_element(sizes.begin(), sizes.end()))));

  std::vector<double> bare_us, own_us, ratios;
  std::vector<std::vector<double>> seconds(sizes.size());
  const auto puts = [&](size_t i) {
    return std::clamp<int64_t>(options.stream_bytes / std::max<int64_t>(sizes[i], 1), 1,
                               options.stream_puts);
  };
  for (int round = -1; round < options.rounds; ++round) {
    IBCOLL_ASSIGN(const double bare_now, runner.bare_round_trips(options.round_trips));
    IBCOLL_ASSIGN(const double own_now, runner.round_trips(options.round_trips));
    if (round >= 0) {  // the first round warms up
      bare_us.push_back(bare_now);
      own_us.push_back(own_now);
      ratios.push_back(own_now / bare_now);
    }
    for (size_t i = 0; i < sizes.size(); ++i) {
      IBCOLL_ASSIGN(const double now, runner.stream(static_cast<size_t>(sizes[i]), puts(i)));
      if (round >= 0) seconds[i].push_back(now);
    }
  }
  if (bootstrap.rank() == 0) {
    Table table({"what", "bytes", "median", "of bare"});
    table.add_row(
        {"bare write with immediate", "8", fmt::format("{:.2f} us", median(bare_us)), ""});
    table.add_row({"put with signal", "8", fmt::format("{:.2f} us", median(own_us)),
                   fmt::format("{:.3f}", median(ratios))});
    json.write({{"what", "ping_pong"},
                {"bytes", 8},
                {"bare_us", median(bare_us)},
                {"put_signal_us", median(own_us)},
                {"ratio", median(ratios)}});
    for (size_t i = 0; i < sizes.size(); ++i) {
      const double rate = static_cast<double>(puts(i)) / median(seconds[i]);
      const double mbps = rate * static_cast<double>(sizes[i]) / 1e6;
      table.add_row(
          {"stream of puts", format_size(sizes[i]), fmt::format("{:.1f} MB/s", mbps), ""});
      table.add_row({"", "", fmt::format("{:.0f} puts/s", rate), ""});
      json.write(
          {{"what", "stream"}, {"bytes", sizes[i]}, {"mb_per_s", mbps}, {"puts_per_s", rate}});
    }
    if (!json.to_stdout()) std::fputs(table.text().c_str(), stdout);
  }
  IBCOLL_TRY(transport->close());
  return json.close();
}

}  // namespace
}  // namespace ibcoll::verbs

int main(int argc, char** argv) {
  using namespace ibcoll;
  verbs::Options options;
  tools::CommandLine app("Latency and bandwidth of the verbs transport between two ranks.");
  app.option("--sizes", options.sizes, "bytes a put in the streams").with_default();
  app.option("--round-trips", options.round_trips, "of a round's ping-pong")
      .between(1, 10'000'000)
      .with_default();
  app.option("--rounds", options.rounds).between(1, 100'000).with_default();
  app.option("--stream-puts", options.stream_puts, "puts of one stream at most")
      .between(1, 1'000'000'000)
      .with_default();
  app.option("--json", options.json, "write results to this file, - for standard output");
  app.footer("Example (no RDMA device needed):\n  ./run softroce build/bin/verbs_point_to_point");
  return tools::run_tool_to_status(app, argc, argv, [&]() -> Result<int> {
    IBCOLL_ASSIGN(const std::vector<int64_t> sizes, parse_sizes(options.sizes));
    LaunchOptions launch;
    launch.ranks = 2;
    return launch_processes(launch, [&](Bootstrap& bootstrap) {
      auto json = JsonLines::open(bootstrap.rank() == 0 ? options.json : "");
      const Status done = json ? verbs::measure(bootstrap, options, sizes, *json)
                               : Status(tl::unexpected(json.error()));
      std::fflush(stdout);
      if (done) return 0;
      if (bootstrap.rank() == 0) tools::complain(done.error().message);
      return 1;
    });
  });
}
