/// ib_tune: which algorithm serves which call of a job best, as measured between processes that it
/// starts on this machine, or that mpirun, mpiexec or srun have started, or as simulated. Writes
/// the rules that IBCOLL_RULES takes, and judges them; or writes those that the engine has built
/// in.

#include <optional>

#include "engine/base/clock.h"
#include "engine/base/output.h"
#include "engine/base/units.h"
#include "engine/bootstrap/machine.h"
#include "engine/core/job_rules.h"
#include "engine/core/share.h"
#include "studies/measure/collective_bench.h"
#include "tools/frame/frame.h"
#include "tools/ib_tune/settings.h"
#include "tools/ib_tune/simulated.h"
#include "tools/ib_tune/tune_report.h"

namespace {

using namespace ibcoll;
using namespace ibcoll::tools;

/// Writes the rules of what was found, or judges those there are.
Status conclude(const TuneArguments& arguments, const std::vector<measure::TunePoint>& points,
                const RulesJob& job, int64_t took_ns, TuneReport& report) {
  if (!arguments.verify.empty()) {
    report.judged(measure::judge(points));
    return {};
  }
  std::vector<std::string> notes;
  const RuleSection section = measure::rules_of(points, job, notes);
  if (!arguments.out.empty()) IBCOLL_TRY(write_file(arguments.out, to_text(section, notes)));
  report.written(points.size(), section.rules.size(), arguments.out, took_ns);
  return {};
}

/// `here`: how many of the ranks are on this machine.
Status check_memory(const measure::TuneSettings& settings, int ranks, int here) {
  int64_t needed = 0;
  for (const Collective collective : settings.collectives) {
    measure::BenchSettings one;
    one.collective = collective;
    one.sizes = measure::sizes_of(collective, settings.sizes);
    needed = std::max(needed, measure::memory_needed(one, ranks) / ranks * here);
  }
  const auto available = static_cast<int64_t>(available_memory());
  if (needed <= available) return {};
  return fail(ErrorCode::kNoMemory,
              "not enough memory: {} ranks with {} bytes a pair need about {:.1f} GB for buffers, "
              "{:.1f} GB are available",
              here, format_size(*std::max_element(settings.sizes.begin(), settings.sizes.end())),
              static_cast<double>(needed) / 1e9, static_cast<double>(available) / 1e9);
}

/// Between ranks.
class Tuner final : public JobTool {
 public:
  explicit Tuner(const TuneArguments& arguments) : arguments_(arguments) {}

  Result<JobSetting> understand(int launched) override {
    IBCOLL_ASSIGN(settings_, understand_tuning(arguments_));
    IBCOLL_ASSIGN(setting_, understand_job(arguments_.job, launched));
    setting_.heeds_rules = false;
    const int ranks = setting_.shape.ranks();
    if (launched == 0) IBCOLL_TRY(check_memory(settings_, ranks, ranks));
    return setting_;
  }
  Status open() override {
    IBCOLL_TRY(check_writable(arguments_.out));
    IBCOLL_ASSIGN(json_, JsonLines::open(arguments_.json));
    return {};
  }
  Status run(Bootstrap& bootstrap) override {
    IBCOLL_ASSIGN(const std::unique_ptr<Context> context, make_context(bootstrap, setting_));
    IBCOLL_TRY(check_memory(settings_, bootstrap.size(), context->job().ranks_on_machine()));
    const bool first = bootstrap.rank() == 0;
    IBCOLL_ASSIGN(RulesJob job, describe_job(context->job()));
    TuneSetting shown{
        job, bootstrap.size(), context->shape().servers(), !arguments_.verify.empty(), false, ""};
    if (shown.judges) IBCOLL_TRY(read_judged(bootstrap, *context, job, shown.note));
    std::optional<TuneReport> report;
    if (first) report.emplace(shown, json_);
    if (report) report->begin();
    const int64_t begin = now_ns();
    IBCOLL_ASSIGN(const std::vector<measure::TunePoint> points,
                  measure::measure_choices(
                      bootstrap, *context, settings_,
                      [&](const measure::TunePoint& point) { report->point(point); },
                      [&](const std::string& what) { report->progress(what); }));
    if (report) {
      IBCOLL_TRY(::conclude(arguments_, points, job, now_ns() - begin, *report));
      IBCOLL_TRY(json_.close());
      IBCOLL_TRY(flush_output());
    }
    return context->close();
  }

 private:
  /// Rank 0 reads the rules, and gives them to all.
  Status read_judged(Bootstrap& bootstrap, const Context& context, const RulesJob& job,
                     std::string& note) {
    std::string text;
    Status found;
    if (bootstrap.rank() == 0) {
      auto section = section_to_judge(arguments_.verify, job, note);
      if (section)
        text = to_text(*section);
      else
        found = tl::unexpected<Error>(section.error());
    }
    IBCOLL_TRY(share(bootstrap, found));
    IBCOLL_TRY(share(bootstrap, text));
    IBCOLL_ASSIGN(const std::vector<RuleSection> sections, parse_rules(text));
    IBCOLL_ASSIGN(settings_.judged, Rules::create(sections.front(), context.shape()));
    if (!note.empty()) note = "rules are for " + note;
    return {};
  }

  const TuneArguments& arguments_;
  measure::TuneSettings settings_;
  JobSetting setting_;
  JsonLines json_;
};

/// Without ranks.
Status simulate(const TuneArguments& arguments) {
  IBCOLL_ASSIGN(measure::TuneSettings settings, understand_tuning(arguments));
  IBCOLL_ASSIGN(SimulatedJob job, understand_simulation(arguments));
  IBCOLL_TRY(check_writable(arguments.out));
  TuneSetting shown{job.job, job.shape.ranks(), job.shape.servers(), !arguments.verify.empty(),
                    true,    job.describe()};
  if (shown.judges) {
    std::string note;
    IBCOLL_ASSIGN(const RuleSection section, section_to_judge(arguments.verify, job.job, note));
    IBCOLL_ASSIGN(settings.judged, Rules::create(section, job.shape));
    if (!note.empty()) shown.note += "; rules are for " + note;
  }
  IBCOLL_ASSIGN(JsonLines json, JsonLines::open(arguments.json));
  TuneReport report(shown, json);
  report.begin();
  const int64_t begin = now_ns();
  IBCOLL_ASSIGN(const std::vector<measure::TunePoint> points,
                simulate_choices(
                    job, settings, [&](const measure::TunePoint& point) { report.point(point); },
                    [&](const std::string& what) { report.progress(what); }));
  IBCOLL_TRY(::conclude(arguments, points, job.job, now_ns() - begin, report));
  IBCOLL_TRY(flush_output());
  return json.close();
}

}  // namespace

int main(int argc, char** argv) {
  tools::CommandLine app(
      "Finds the best algorithm, pacing and number of pieces for each call of a job, and writes "
      "them as rules for IBCOLL_RULES; judges existing rules; or shows the engine's own choices as "
      "rules");
  TuneArguments a;
  add_options(app, a);
  app.footer(
      "Examples:\n"
      "  ib_tune --ranks 4 --out rules.jsonl\n"
      "  ib_tune --layout 2x2 --transport loopback --collectives alltoall,bcast --sizes 64-64K:8 "
      "--budget 5s --out rules.jsonl\n"
      "  ib_tune --layout 2x2 --transport loopback --collectives alltoall,bcast --sizes 64-64K:8 "
      "--budget 5s --verify rules.jsonl\n"
      "  ib_tune --simulate --layout 16x2 --network single-switch:16 --collectives alltoall "
      "--sizes 64,4K --out rules.jsonl\n"
      "  ib_tune --built-in 4x2\n"
      "  ib_tune --built-in 4x2 --transport ucx --out start.jsonl\n"
      "  mpirun -n 4 ib_tune --out rules.jsonl            (mpiexec, srun: docs/launchers.md)\n"
      "Then, with the same layout, transport and machines: IBCOLL_RULES=rules.jsonl, on all "
      "ranks.\n"
      "What is measured and what the columns mean: docs/tuning.md.");
  Tuner tuner(a);
  return run_tool_to_status(app, argc, argv, [&]() -> Result<int> {
    if (!a.built_in.empty()) {
      IBCOLL_TRY(write_built_in(a));
      return 0;
    }
    if (!a.simulate) return run_in_job(tuner);
    IBCOLL_TRY(simulate(a));
    return 0;
  });
}
