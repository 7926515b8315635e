/// ib_a2a_bench: all-to-all and its relatives, timed and checked: between processes that it starts
/// on this machine, or that mpirun, mpiexec or srun have started.

#include <algorithm>
#include <optional>

#include "engine/algorithms/imported.h"
#include "engine/base/json_lines.h"
#include "engine/base/output.h"
#include "engine/base/units.h"
#include "engine/bootstrap/machine.h"
#include "engine/core/context.h"
#include "studies/measure/bench_report.h"
#include "studies/measure/collective_bench.h"
#include "studies/measure/record_call.h"
#include "tools/frame/frame.h"
#include "tools/frame/graph_option.h"
#include "tools/frame/job.h"
#include "tools/frame/progress.h"

namespace {

using namespace ibcoll;
using namespace ibcoll::measure;

constexpr int64_t kMaxBlockBytes = int64_t{1} << 40;

/// The command line as it was typed.
struct Arguments {
  tools::JobArguments job;
  std::string collective = "alltoall", algorithms = "auto", pacing;
  std::string sizes = "1K,64K,1M", batch = "1ms", json, plot, timeline, graph;
  int iterations = 50, warmup = 5;
  int64_t root = 0;
  bool ordered = false, check = false, user_memory = false;
};

/// What it means.
struct BenchRun {
  BenchSetting setting;
  tools::JobSetting job;
  BenchSettings settings;
  std::string plot, timeline;
};

/// `here`: how many of the ranks are on this machine.
Status check_memory(const BenchRun& run, int here) {
  const int ranks = run.setting.shape.ranks();
  const int64_t needed = memory_needed(run.settings, ranks) / ranks * here;
  const auto available = static_cast<int64_t>(available_memory());
  if (needed <= available) return {};
  return fail(ErrorCode::kNoMemory,
              "not enough memory: {} ranks with {} bytes a pair need about {:.1f} GB for buffers, "
              "{:.1f} GB are available",
              here,
              format_size(*std::max_element(run.settings.sizes.begin(), run.settings.sizes.end())),
              static_cast<double>(needed) / 1e9, static_cast<double>(available) / 1e9);
}

Status check_sizes(const BenchSettings& settings) {
  for (const int64_t size : settings.sizes) {
    if (size > kMaxBlockBytes) {
      return fail(ErrorCode::kInvalidArgument, "size {} is over the limit of {} bytes a pair", size,
                  format_size(kMaxBlockBytes));
    }
    if (size % element_bytes(settings.collective) != 0) {
      return fail(ErrorCode::kInvalidArgument,
                  "size {}: a reduction of doubles takes multiples of 8 bytes", size);
    }
  }
  return {};
}

/// What is measured between them.
Status understand_calls(const Arguments& arguments, const Shape& shape, BenchSettings& settings) {
  IBCOLL_ASSIGN(settings.collective, parse_collective(arguments.collective));
  IBCOLL_ASSIGN(settings.contenders,
                select_contenders(settings.collective, arguments.algorithms, arguments.pacing));
  IBCOLL_ASSIGN(settings.sizes, parse_sizes(arguments.sizes));
  IBCOLL_TRY(check_sizes(settings));
  if (!moves_data(settings.collective)) settings.sizes = {0};
  if (arguments.root < 0 || arguments.root >= shape.ranks()) {
    return fail(ErrorCode::kInvalidArgument, "--root {}: must be 0 to {}", arguments.root,
                shape.ranks() - 1);
  }
  settings.root = has_root(settings.collective) ? static_cast<Rank>(arguments.root) : 0;
  settings.ordered = arguments.ordered;
  IBCOLL_ASSIGN(settings.graph, tools::graph_of(settings.collective, arguments.graph, shape));
  IBCOLL_ASSIGN(settings.batch_ns, parse_duration(arguments.batch));
  if (settings.batch_ns > 60'000'000'000)
    return fail(ErrorCode::kInvalidArgument, "--batch {} is over the limit of 60s",
                arguments.batch);
  settings.iterations = arguments.iterations;
  settings.warmup = arguments.warmup;
  settings.check = arguments.check;
  settings.user_memory = arguments.user_memory;
  settings.record = !arguments.timeline.empty();
  if (!settings.record) return {};
  if (settings.contenders.size() != 1 || settings.sizes.size() != 1)
    return fail(ErrorCode::kInvalidArgument,
                "--timeline records one algorithm at one size, not {} at {}",
                settings.contenders.size(), settings.sizes.size());
  if (settings.graph != nullptr)
    return fail(ErrorCode::kInvalidArgument, "--timeline: a recording holds no --graph");
  if (shape.ranks() > kMaxRecordedRanks)
    return fail(ErrorCode::kInvalidArgument, "--timeline records up to {} ranks, not {}",
                kMaxRecordedRanks, shape.ranks());
  return {};
}

/// `launched`: how many ranks a launcher has started; 0: none, start them here.
Result<BenchRun> understand(const Arguments& arguments, int launched) {
  BenchRun run;
  IBCOLL_TRY(add_imported_of_environment());
  IBCOLL_ASSIGN(run.job, tools::understand_job(arguments.job, launched));
  run.setting.shape = run.job.shape;
  run.setting.launched = run.job.launched;
  IBCOLL_TRY(understand_calls(arguments, run.setting.shape, run.settings));
  run.setting.collective = run.settings.collective;
  run.setting.user_memory = arguments.user_memory;
  run.setting.bound = run.job.bound;
  run.plot = arguments.plot;
  run.timeline = arguments.timeline;
  if (launched == 0) IBCOLL_TRY(check_memory(run, run.setting.shape.ranks()));
  return run;
}

/// What rank 0 shows while it measures.
class Display {
 public:
  Display(const BenchRun& run, JsonLines& json) : run_(run), json_(json) {}

  void begin() {
    if (json_.to_stdout()) return;
    print("{}{}", describe_run(run_.setting, run_.settings), table_header(run_.setting));
    (void)flush_output();  // told at the end
  }
  void progress(const std::string& what) { line_.show(what + " ..."); }
  void row(const BenchRow& row) {
    line_.clear();
    json_.write(to_json(run_.setting, row));
    // Not a Table: each row is shown as soon as it is measured.
    if (!json_.to_stdout()) print("{}", table_row(run_.setting, row));
    (void)flush_output();
    rows_.push_back(row);
  }
  Status finish() {
    if (!run_.plot.empty()) IBCOLL_TRY(bandwidth_plot(run_.setting, rows_).write(run_.plot));
    IBCOLL_TRY(json_.close());
    return flush_output();
  }

 private:
  const BenchRun& run_;
  JsonLines& json_;
  tools::ProgressLine line_;
  std::vector<BenchRow> rows_;
};

Status run_rank(Bootstrap& bootstrap, BenchRun& run, JsonLines& json) {
  IBCOLL_ASSIGN(const std::unique_ptr<Context> context, tools::make_context(bootstrap, run.job));
  run.setting.shape = context->shape();
  if (run.setting.launched) IBCOLL_TRY(check_memory(run, context->job().ranks_on_machine()));
  run.setting.transport =
      context->job().network() != nullptr ? context->job().network()->name() : "none";
  run.setting.network = context->job().fabric_order().describe();
  run.setting.transport_reason = context->job().network_reason();
  std::optional<Display> display;
  if (bootstrap.rank() == 0) display.emplace(run, json);
  if (display) display->begin();
  IBCOLL_TRY(run_bench(
      bootstrap, *context, run.settings, [&](const BenchRow& row) { display->row(row); },
      [&](const std::string& what) { display->progress(what); },
      [&](const Recording& recording) { return write_file(run.timeline, to_text(recording)); }));
  if (display) IBCOLL_TRY(display->finish());
  return context->close();
}

class Bench final : public tools::JobTool {
 public:
  explicit Bench(const Arguments& arguments) : arguments_(arguments) {}

  Result<tools::JobSetting> understand(int launched) override {
    IBCOLL_ASSIGN(run_, ::understand(arguments_, launched));
    return run_.job;
  }
  Status open() override {
    IBCOLL_TRY(tools::check_writable(run_.plot));
    IBCOLL_TRY(tools::check_writable(run_.timeline));
    IBCOLL_ASSIGN(json_, JsonLines::open(arguments_.json));
    return {};
  }
  Status run(Bootstrap& bootstrap) override { return run_rank(bootstrap, run_, json_); }

 private:
  const Arguments& arguments_;
  BenchRun run_;
  JsonLines json_;
};

}  // namespace

int main(int argc, char** argv) {
  tools::CommandLine app(
      "Times all-to-all and other collectives between processes that it starts on this "
      "machine, or that mpirun, mpiexec or srun have started");
  Arguments a;
  tools::add_shape_options(app, a.job);
  app.option("--collective", a.collective,
             "One of " + collective_names() +
                 " (blocks of alltoallw: runs of up to 64 bytes, with gaps of the same length)")
      .with_default();
  app.option("--root", a.root, "Root of gather(v), scatter(v), bcast and reduce").with_default();
  tools::add_graph_option(app, a.graph);
  app.flag("--ordered", a.ordered,
           "Combine data in the order of ranks in reductions (sums of doubles)");
  app.option("--algorithm", a.algorithms,
             "Algorithms, separated by commas; all; or auto (the engine chooses)")
      .with_default();
  app.option("--pacing", a.pacing,
             "Pacing of paced algorithms: free, gate, token, gate_token, auto; several, separated "
             "by commas, are compared");
  app.option("--sizes", a.sizes,
             "Bytes per pair of ranks: 1K,64K,1M or 64-4M (doubling) or 64-4M:4 (times 4)")
      .with_default();
  app.option("--iterations", a.iterations, "Number of timed iterations for each size and algorithm")
      .between(1, 1'000'000)
      .with_default();
  app.option("--warmup", a.warmup, "Number of untimed calls before the first iteration")
      .between(0, 1'000'000)
      .with_default();
  app.option(
         "--batch", a.batch,
         "Length of an iteration: as many calls, back to back, as take this long, but at least one")
      .with_default();
  app.flag("--check", a.check, "Compare every received byte in every iteration");
  app.flag("--user-memory", a.user_memory,
           "Use private memory for the buffers instead of the engine's own");
  tools::add_transport_options(app, a.job);
  tools::add_json_option(app, a.json);
  app.option("--plot", a.plot, "Draw bandwidth over size to this SVG file");
  app.option(
      "--timeline", a.timeline,
      "Record to this file who sends what when in one more call (for ib_sched draw --recorded)");
  app.footer(
      "Examples:\n"
      "  ib_a2a_bench --ranks 8 --servers 4 --algorithm all --sizes 64-1M:4 --check\n"
      "  ib_a2a_bench --layout 3,1,2 --algorithm two_level_ring --pacing free,gate,gate_token\n"
      "  ib_a2a_bench --collective gather --root 3 --layout 6x1 --algorithm all --check\n"
      "  ib_a2a_bench --collective neighbor_alltoall --graph grid:2x2x2 --layout 4,4 --algorithm "
      "all\n"
      "  ib_a2a_bench --ranks 4 --user-memory --json - | jq .median_us\n"
      "  ib_a2a_bench --servers 4 --ranks 8 --transport verbs\n"
      "  ib_a2a_bench --layout 3,1,2 --algorithm ring --sizes 64K --timeline ring.jsonl\n"
      "  ib_a2a_bench --layout 16x1 --network fat-tree:4,2\n"
      "  mpirun -n 4 ib_a2a_bench --check            (mpiexec, srun: docs/launchers.md)\n"
      "What the columns mean: docs/benchmarking.md.");
  Bench bench(a);
  return tools::run_tool_to_status(app, argc, argv, [&] { return tools::run_in_job(bench); });
}
