/// strided_bench: what it costs that blocks are not contiguous: copies of runs with gaps between
/// them beside copies of as many bytes side by side, and alltoallw beside an alltoall whose program
/// packs and unpacks by itself.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/stats.h"
#include "engine/base/strided_copy.h"
#include "engine/base/table.h"
#include "engine/base/units.h"
#include "engine/bootstrap/launch.h"
#include "engine/core/call.h"
#include "engine/core/context.h"
#include "engine/core/group.h"
#include "tools/frame/frame.h"

namespace {

using namespace ibcoll;

struct Settings {
  int ranks = 2;
  int servers = 1;
  int64_t bytes = 256 * 1024;
  int rounds = 101;
  std::vector<int64_t> runs;
};

StridedBlock block_of(size_t bytes, size_t run) {
  return canonical(
      {.bytes = bytes, .run = run, .count = bytes / run, .stride = static_cast<int64_t>(2 * run)});
}

double timed_us(const auto& work) {
  const int64_t begin = now_ns();
  work();
  return static_cast<double>(now_ns() - begin) / 1e3;
}

/// Copies by one core.
void copies(const Settings& settings, Table& table) {
  const auto bytes = static_cast<size_t>(settings.bytes);
  std::vector<std::byte> from(2 * bytes, std::byte{1}), to(2 * bytes, std::byte{2});
  for (const int64_t length : settings.runs) {
    const auto run = static_cast<size_t>(length);
    const StridedBlock runs = block_of(bytes, run);
    const StridedView scattered{from.data(), &runs, 1}, target{to.data(), &runs, 1};
    std::vector<double> plain, packed, unpacked, both;
    for (int round = 0; round < settings.rounds; ++round) {
      plain.push_back(timed_us([&] { std::memcpy(to.data(), from.data(), bytes); }));
      packed.push_back(timed_us([&] { copy_strided({to.data()}, scattered, bytes); }));
      unpacked.push_back(timed_us([&] { copy_strided(target, {from.data()}, bytes); }));
      both.push_back(timed_us([&] { copy_strided(target, scattered, bytes); }));
    }
    const double least = median(plain);
    table.add_row({format_size(length), fmt::format("{:.1f}", least),
                   fmt::format("{:.2f}", median(packed) / least),
                   fmt::format("{:.2f}", median(unpacked) / least),
                   fmt::format("{:.2f}", median(both) / least)});
  }
}

/// Of one rank: its memory, and the calls that are compared.
class Exchange {
 public:
  Exchange(Context& context, size_t bytes, bool shared) : context_(context), bytes_(bytes) {
    const auto ranks = static_cast<size_t>(context.size());
    for (std::byte** memory : {&from_, &to_, &packed_from_, &packed_to_}) {
      const size_t size = 2 * bytes * ranks;
      if (shared) {
        *memory = static_cast<std::byte*>(context.allocate(size).value());
      } else {
        kept_.emplace_back(size);
        *memory = kept_.back().data();
      }
      std::memset(*memory, 1, size);
    }
    shared_ = shared;
  }
  ~Exchange() {
    for (std::byte* memory : {from_, to_, packed_from_, packed_to_}) {
      if (shared_) (void)context_.free(memory);
    }
  }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  /// Median times, of the slowest rank: contiguous, packed by the program, alltoallw.
  Result<std::array<double, 3>> measure(Bootstrap& bootstrap, size_t run, int rounds) {
    const auto ranks = static_cast<size_t>(context_.size());
    const StridedBlock runs = block_of(bytes_, run);
    std::vector<ibcoll_block> blocks;
    for (size_t i = 0; i < ranks; ++i) {
      blocks.push_back(
          ibcoll_block_vector(static_cast<int64_t>(2 * bytes_ * i), static_cast<int64_t>(run),
                              static_cast<int64_t>(bytes_ / run), static_cast<int64_t>(2 * run)));
    }
    CallArguments plain;
    plain.collective = Collective::kAlltoall;
    plain.send = packed_from_;
    plain.recv = packed_to_;
    plain.block_bytes = bytes_;
    CallArguments strided;
    strided.collective = Collective::kAlltoallw;
    strided.send = from_;
    strided.recv = to_;
    strided.send_blocks = strided.recv_blocks = blocks.data();
    Call contiguous(context_.world()), layouts(context_.world());
    IBCOLL_TRY(contiguous.prepare(plain));
    IBCOLL_TRY(layouts.prepare(strided));
    const auto whole = [](Call& call) -> Status {
      IBCOLL_TRY(call.start());
      return call.wait();
    };
    const auto view = [&](std::byte* memory, size_t i) {
      return StridedView{memory + 2 * bytes_ * i, &runs, 1};
    };
    std::array<std::vector<double>, 3> us;
    Status ended;
    for (int round = 0; round < rounds && ended; ++round) {
      for (int kind = 0; kind < 3 && ended; ++kind) {
        IBCOLL_TRY(whole(contiguous));  // all begin together
        us[kind].push_back(timed_us([&] {
          for (size_t i = 0; i < ranks && kind == 1; ++i)
            copy_strided({packed_from_ + i * bytes_}, view(from_, i), bytes_);
          ended = whole(kind == 2 ? layouts : contiguous);
          for (size_t i = 0; i < ranks && kind == 1; ++i)
            copy_strided(view(to_, i), {packed_to_ + i * bytes_}, bytes_);
        }));
      }
    }
    IBCOLL_TRY(ended);
    std::array<double, 3> mine, worst{};
    for (int kind = 0; kind < 3; ++kind) mine[kind] = median(us[kind]);
    std::vector<std::array<double, 3>> all(ranks);
    IBCOLL_TRY(bootstrap.allgather(mine.data(), sizeof mine, all.data()));
    for (const auto& one : all) {
      for (int kind = 0; kind < 3; ++kind) worst[kind] = std::max(worst[kind], one[kind]);
    }
    return worst;
  }

 private:
  Context& context_;
  const size_t bytes_;
  bool shared_ = false;
  std::vector<std::vector<std::byte>> kept_;
  std::byte *from_ = nullptr, *to_ = nullptr, *packed_from_ = nullptr, *packed_to_ = nullptr;
};

Status calls(Bootstrap& bootstrap, const Settings& settings, const Shape& shape) {
  ContextOptions options;
  options.shape = shape;
  IBCOLL_ASSIGN(const std::unique_ptr<Context> context, Context::create(bootstrap, options));
  Table table(
      {"memory", "run", "contiguous us", "packed by the program", "alltoallw", "packed/alltoallw"});
  for (const bool shared : {true, false}) {
    Exchange exchange(*context, static_cast<size_t>(settings.bytes), shared);
    for (const int64_t run : settings.runs) {
      IBCOLL_ASSIGN(const auto us,
                    exchange.measure(bootstrap, static_cast<size_t>(run), settings.rounds));
      table.add_row({shared ? "the engine's" : "private", format_size(run),
                     fmt::format("{:.1f}", us[0]), fmt::format("{:.2f}", us[1] / us[0]),
                     fmt::format("{:.2f}", us[2] / us[0]), fmt::format("{:.2f}", us[1] / us[2])});
    }
  }
  if (context->rank() == 0) fmt::print("\n{}", table.text());
  return context->close();
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  std::string bytes = "256K", runs = "8,64,512,4K";
  tools::CommandLine app(
      "What it costs that blocks are not contiguous: times over those of contiguous ones");
  app.option("--ranks", settings.ranks, "Processes to start").with_default().between(1, 1024);
  app.option("--servers", settings.servers, "Spread them over so many emulated servers")
      .with_default()
      .between(1, 1024);
  app.option("--bytes", bytes, "Bytes a pair, whole runs").with_default();
  app.option("--runs", runs, "Lengths of the runs").with_default();
  app.option("--rounds", settings.rounds, "Rounds, of which the median is taken")
      .with_default()
      .between(1, 1'000'000);
  app.footer("Example: strided_bench --ranks 2 --bytes 64K --rounds 11");
  return tools::run_tool_to_status(app, argc, argv, [&]() -> Result<int> {
    IBCOLL_ASSIGN(settings.bytes, parse_size(bytes));
    if (settings.bytes < 1 || settings.bytes > int64_t{1} << 30)
      return fail(ErrorCode::kInvalidArgument, "--bytes {} must be a size from 1 to 1G", bytes);
    IBCOLL_ASSIGN(settings.runs, parse_sizes(runs));
    if (std::any_of(settings.runs.begin(), settings.runs.end(),
                    [&](int64_t run) { return run < 1 || settings.bytes % run != 0; })) {
      return fail(ErrorCode::kInvalidArgument,
                  "--runs {} must be lengths of which --bytes {} is a multiple", runs, bytes);
    }
    if (settings.ranks % settings.servers != 0) {
      return fail(ErrorCode::kInvalidArgument, "{} servers do not divide {} ranks",
                  settings.servers, settings.ranks);
    }
    IBCOLL_ASSIGN(
        const Shape shape,
        Shape::from_layout(std::vector<int>(settings.servers, settings.ranks / settings.servers),
                           Placement::kBlock));
    Table table({"run", "memcpy us", "pack", "unpack", "runs to runs"});
    copies(settings, table);
    fmt::print("{}", table.text());
    std::fflush(stdout);
    LaunchOptions launch;
    launch.ranks = shape.ranks();
    return launch_processes(launch, [&](Bootstrap& bootstrap) {
      const Status measured = calls(bootstrap, settings, shape);
      if (!measured) tools::complain(measured.error().message);
      return measured ? 0 : 1;
    });
  });
}
