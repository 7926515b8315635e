/// overlap_bench: how much of a nonblocking all-to-all is hidden behind a computation, when the
/// program leaves it alone, tests now and then, or has a progress thread.

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <functional>
#include <ibcoll/ibcoll.hpp>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/json_lines.h"
#include "engine/base/stats.h"
#include "engine/base/table.h"
#include "engine/base/units.h"
#include "tools/frame/frame.h"

namespace {

using ibcoll::JsonLines;
using ibcoll::now_ns;
using ibcoll::Status;

struct Options {
  int ranks = 2;
  std::string layout;
  std::string bytes = "1M";
  int rounds = 31;
  std::string compute = "cpu";
  int test_every_us = 20;
  bool unbound = false;
  std::string json;
};

/// What a round times, in this order.
enum Way { kCall, kCompute, kAlone, kTested, kThread, kWays };
constexpr std::array<const char*, kWays> kNames = {"call", "compute", "nothing", "test",
                                                   "progress thread"};

/// One measurement of each way, of one rank in one round; in memory that all processes share.
using Round = std::array<int64_t, kWays>;

/// A computation of a given length, in the processor or elsewhere.
class Computation {
 public:
  explicit Computation(bool sleeps) : sleeps_(sleeps) {
    prctl(PR_SET_TIMERSLACK, 1000UL, 0, 0, 0);
    if (sleeps_) return;
    // The fastest of some: others were interrupted.
    constexpr int64_t kSteps = 1'000'000;
    int64_t least = INT64_MAX;
    for (int i = 0; i < 10; ++i) {
      const int64_t begin = now_ns();
      compute(kSteps);
      least = std::min(least, now_ns() - begin);
    }
    steps_per_ns_ = static_cast<double>(kSteps) / static_cast<double>(least);
  }

  /// As much as takes so long where nothing disturbs it. With `test`, it is called after each
  /// `piece_ns`.
  void run(int64_t length_ns, int64_t piece_ns, const std::function<void()>& test) {
    const int64_t begin = now_ns();
    for (int64_t done = 0; done < length_ns;) {
      const int64_t piece = std::min(piece_ns, length_ns - done);
      done += piece;
      if (sleeps_) {
        sleep_until(begin + done);
      } else {
        compute(static_cast<int64_t>(static_cast<double>(piece) * steps_per_ns_));
      }
      if (test) test();
    }
  }

 private:
  static void sleep_until(int64_t time_ns) {
    const timespec time{time_ns / 1'000'000'000, time_ns % 1'000'000'000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr) == EINTR) {
    }
  }
  void compute(int64_t steps) {
    uint64_t x = state_;
    for (int64_t i = 0; i < steps; ++i) x = x * 6364136223846793005u + 1442695040888963407u;
    state_ = x;
  }
  const bool sleeps_;
  double steps_per_ns_ = 1;
  volatile uint64_t state_ = 1;
};

/// One rank.
class Runner {
 public:
  Runner(const Options& options, size_t bytes, ibcoll::context context)
      : options_(options),
        context_(context),
        ranks_(static_cast<size_t>(context.size())),
        send_(context.allocate<std::byte>(bytes * ranks_)),
        recv_(context.allocate<std::byte>(bytes * ranks_)),
        computation_(options.compute == "sleep") {
    std::fill(send_.begin(), send_.end(), std::byte{1});
  }

  /// Leaves the rounds of this rank in `rounds`, one every `stride`.
  void run(Round* rounds, size_t stride) {
    const int64_t length_ns = agree_on_length();
    for (int round = 0; round < options_.rounds; ++round) {
      for (int way = 0; way < kWays; ++way)
        rounds[static_cast<size_t>(round) * stride][static_cast<size_t>(way)] =
            once(static_cast<Way>(way), length_ns);
    }
  }

 private:
  int64_t once(Way way, int64_t length_ns) {
    if (way == kThread) context_.set_progress_thread(true);
    context_.world().barrier();
    const int64_t begin = now_ns();
    if (way == kCompute) {
      computation_.run(length_ns, length_ns, {});
    } else {
      ibcoll::request call = context_.world().ialltoall<std::byte>(send_, recv_);
      if (way == kTested) {
        computation_.run(length_ns, int64_t{1000} * options_.test_every_us,
                         [&] { (void)call.test(); });
      } else if (way != kCall) {
        computation_.run(length_ns, length_ns, {});
      }
      call.wait();
    }
    const int64_t took = now_ns() - begin;
    if (way == kThread) context_.set_progress_thread(false);
    return took;
  }

  /// The median of the slowest rank's calls, the same on all ranks.
  int64_t agree_on_length() {
    constexpr int kCalls = 21;
    std::vector<int64_t> times;
    for (int i = 0; i < kCalls; ++i) times.push_back(once(kCall, 0));
    std::nth_element(times.begin(), times.begin() + kCalls / 2, times.end());
    std::vector<int64_t> all(ranks_);
    context_.world().allgather<int64_t>({&times[kCalls / 2], 1}, all);
    return *std::max_element(all.begin(), all.end());
  }

  const Options& options_;
  ibcoll::context context_;
  size_t ranks_;
  ibcoll::buffer<std::byte> send_, recv_;
  Computation computation_;
};

double median_us(const Round* rounds, const Options& options, Way way) {
  const auto ranks = static_cast<size_t>(options.ranks);
  std::vector<double> times;
  for (size_t round = 0; round < static_cast<size_t>(options.rounds); ++round) {
    int64_t slowest = 0;
    for (size_t rank = 0; rank < ranks; ++rank)
      slowest = std::max(slowest, rounds[round * ranks + rank][static_cast<size_t>(way)]);
    times.push_back(static_cast<double>(slowest) / 1e3);
  }
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  return times[times.size() / 2];
}

Status report(const Round* rounds, const Options& options, int64_t bytes) {
  IBCOLL_ASSIGN(JsonLines json, JsonLines::open(options.json));
  const double call = median_us(rounds, options, kCall);
  const double compute = median_us(rounds, options, kCompute);
  ibcoll::Table table({"meanwhile", "call us", "compute us", "both us", "hidden"});
  for (const Way way : {kAlone, kTested, kThread}) {
    const double both = median_us(rounds, options, way);
    const double hidden = (call + compute - both) / std::min(call, compute);
    table.add_row({kNames[way], fmt::format("{:.1f}", call), fmt::format("{:.1f}", compute),
                   fmt::format("{:.1f}", both), fmt::format("{:.2f}", hidden)});
    json.write({{"ranks", options.ranks},
                {"layout", options.layout},
                {"bytes_per_pair", bytes},
                {"compute", options.compute},
                {"meanwhile", kNames[way]},
                {"test_every_us", options.test_every_us},
                {"bound", !options.unbound},
                {"rounds", options.rounds},
                {"call_us", call},
                {"compute_us", compute},
                {"both_us", both},
                {"hidden_fraction", hidden}});
  }
  if (!json.to_stdout()) fmt::print("{}", table.text());
  return json.close();
}

Status run(const Options& options) {
  IBCOLL_ASSIGN(const int64_t bytes, ibcoll::parse_size(options.bytes));
  const size_t count = static_cast<size_t>(options.ranks) * static_cast<size_t>(options.rounds);
  void* const shared = mmap(nullptr, count * sizeof(Round), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return ibcoll::fail_errno("no memory for the figures");
  auto* const rounds = static_cast<Round*>(shared);
  struct Argument {
    const Options& options;
    size_t bytes;
    Round* rounds;
  } argument{options, static_cast<size_t>(bytes), rounds};
  ibcoll_launch_options launch = IBCOLL_LAUNCH_OPTIONS_INIT;
  launch.ranks = options.ranks;
  launch.layout = options.layout.empty() ? nullptr : options.layout.c_str();
  launch.bind = options.unbound ? 0 : 1;
  int status = 0;
  const auto rank_main = [](ibcoll_context* context, void* data) {
    const auto& given = *static_cast<Argument*>(data);
    try {
      Runner(given.options, given.bytes, ibcoll::context(context))
          .run(given.rounds + ibcoll_rank(context), static_cast<size_t>(given.options.ranks));
    } catch (const std::exception& thrown) {
      ibcoll_abort(context, thrown.what());
      return 1;
    }
    return 0;
  };
  if (ibcoll_launch(&launch, rank_main, &argument, &status) != IBCOLL_OK)
    return ibcoll::fail(ibcoll::ErrorCode::kInvalidArgument, "{}", ibcoll_last_error());
  if (status != 0)
    return ibcoll::fail(ibcoll::ErrorCode::kPeerFailed, "the job ended with status {}", status);
  return report(rounds, options, bytes);
}

}  // namespace

int main(int argc, char** argv) {
  ibcoll::tools::CommandLine app(
      "How much of a nonblocking all-to-all is hidden behind a computation");
  Options options;
  app.option("--ranks", options.ranks).with_default().between(1, 1024);
  app.option("--layout", options.layout, "emulated servers: 1,1 (default: one server)");
  app.option("--bytes", options.bytes, "what each ordered pair of ranks exchanges").with_default();
  app.option("--rounds", options.rounds, "of each measurement; medians are shown")
      .with_default()
      .between(1, 1'000'000);
  app.option("--compute", options.compute,
             "cpu: the rank's core computes; sleep: the computation is done elsewhere")
      .with_default()
      .one_of({"cpu", "sleep"});
  app.option("--test-every", options.test_every_us, "microseconds between tests, where it tests")
      .with_default()
      .between(1, 1'000'000);
  app.flag("--unbound", options.unbound,
           "leave ranks where the system puts them, so that progress threads find idle cores");
  app.option("--json", options.json, "one object a row into this file, - for standard output");
  app.footer("Example: overlap_bench --ranks 2 --layout 1,1 --compute sleep");
  return ibcoll::tools::run_tool(app, argc, argv, [&] { return run(options); });
}
