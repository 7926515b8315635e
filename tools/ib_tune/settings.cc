#include "tools/ib_tune/settings.h"

#include <algorithm>
#include <iterator>

#include "engine/base/json_lines.h"
#include "engine/base/output.h"
#include "engine/base/units.h"
#include "engine/transport/open.h"
#include "ibcoll/ibcoll.h"
#include "studies/measure/built_in.h"
#include "tools/frame/frame.h"

namespace ibcoll::tools {
namespace {

constexpr int64_t kMaxBlockBytes = int64_t{1} << 40;
constexpr int kMostBuiltInRanks = 100'000;

Result<std::vector<Collective>> understand_collectives(const std::string& names) {
  std::vector<Collective> all;
  if (names == "all") {
    std::copy_if(kCollectives.begin(), kCollectives.end(), std::back_inserter(all),
                 [](Collective one) { return !has_graph(one); });
    return all;
  }
  for (const std::string_view name : split(names, ',')) {
    IBCOLL_ASSIGN(const Collective one, parse_collective(name));
    if (has_graph(one))
      return fail(ErrorCode::kInvalidArgument, "{} is not tuned: that depends on its graph", name);
    if (std::find(all.begin(), all.end(), one) == all.end()) all.push_back(one);
  }
  if (all.empty()) return fail(ErrorCode::kInvalidArgument, "no collective is named");
  return all;
}

}  // namespace

void add_options(Command app, TuneArguments& a) {
  add_shape_options(app, a.job);
  app.option("--collectives", a.collectives,
             "Collectives, separated by commas, or all (all except neighbour collectives)")
      .with_default();
  app.option("--sizes", a.sizes,
             "Bytes per pair of ranks: 1K,64K,1M or 64-4M (doubling) or 64-4M:4 (times 4)")
      .with_default();
  app.option(
         "--rounds", a.rounds,
         "Largest number of rounds for a size; contenders that are clearly slower drop out earlier")
      .between(3, 10'000)
      .with_default();
  app.option("--batch", a.batch,
             "Time of a contender in a round: it makes as many calls as take this long, but at "
             "least one")
      .with_default();
  app.option(
         "--budget", a.budget,
         "Time for all measurements together; each size gets five rounds even if that takes longer")
      .with_default();
  app.option("--out", a.out, "Write the rules to this file, for IBCOLL_RULES");
  app.option("--verify", a.verify,
             "Judge the rules in this file: measure all choices again and compare them");
  app.option(
         "--built-in", a.built_in,
         "Measure nothing; write the engine's own choices for this layout (4x2, \"4x2 cyclic\") as "
         "rules, to --out or standard output; --transport says for which transport")
      .type_name("LAYOUT");
  app.flag("--simulate", a.simulate,
           "Simulate calls instead of running them, for a job or a network that is not available "
           "here; needs --logp, --network or both");
  app.option("--logp", a.logp,
             "With --simulate: what messages cost, a file that ib_logp --calls --json has written");
  add_transport_options(app, a.job);
  add_json_option(app, a.json);
}

Result<measure::TuneSettings> understand_tuning(const TuneArguments& a) {
  measure::TuneSettings settings;
  IBCOLL_ASSIGN(settings.collectives, understand_collectives(a.collectives));
  IBCOLL_ASSIGN(settings.sizes, parse_sizes(a.sizes));
  if (settings.sizes.empty()) return fail(ErrorCode::kInvalidArgument, "no size is named");
  for (const int64_t size : settings.sizes) {
    if (size > kMaxBlockBytes)
      return fail(ErrorCode::kInvalidArgument, "size {} is over the limit of {} bytes a pair", size,
                  format_size(kMaxBlockBytes));
  }
  settings.rounds = a.rounds;
  IBCOLL_ASSIGN(settings.batch_ns, parse_duration(a.batch));
  IBCOLL_ASSIGN(settings.budget_ns, parse_duration(a.budget));
  constexpr int64_t kMostBatchNs = 60'000'000'000, kMostBudgetNs = 24 * 60 * kMostBatchNs;
  if (settings.batch_ns > kMostBatchNs)
    return fail(ErrorCode::kInvalidArgument, "--batch {} is over the limit of 60s", a.batch);
  if (settings.budget_ns > kMostBudgetNs)
    return fail(ErrorCode::kInvalidArgument, "--budget {} is over the limit of a day", a.budget);
  if (!a.verify.empty() && !a.out.empty())
    return fail(ErrorCode::kInvalidArgument, "--out writes rules, --verify judges those there are");
  if (!a.simulate && !a.logp.empty())
    return fail(ErrorCode::kInvalidArgument, "--logp is for --simulate");
  if (a.simulate && a.logp.empty() && a.job.network.empty())
    return fail(ErrorCode::kInvalidArgument,
                "--simulate takes --logp, --network or both: what does a message cost?");
  return settings;
}

std::string engine_version() {
  return fmt::format("{}.{}", IBCOLL_VERSION_MAJOR, IBCOLL_VERSION_MINOR);
}

Status write_built_in(const TuneArguments& a) {
  if (!a.verify.empty() || a.simulate || !a.json.empty())
    return fail(ErrorCode::kInvalidArgument,
                "--built-in measures nothing: no --verify, --simulate or --json with it");
  if (!a.job.layout.empty() || a.job.ranks || a.job.servers)
    return fail(ErrorCode::kInvalidArgument,
                "--built-in names the layout itself: no --layout, --ranks or --servers with it");
  IBCOLL_ASSIGN(const Shape shape, shape_of_layout(a.built_in));
  if (shape.ranks() > kMostBuiltInRanks)
    return fail(ErrorCode::kInvalidArgument, "{} ranks are more than the limit of {}",
                shape.ranks(), kMostBuiltInRanks);
  RulesJob job;
  job.layout = shape.describe();
  job.engine = engine_version();
  const bool joined = shape.servers() > 1,
             named = !a.job.transport.empty() && a.job.transport != "auto";
  bool costs_cores = false;
  if (named && joined != (a.job.transport != "shm"))
    return fail(ErrorCode::kInvalidArgument, "--transport {} is not for the {} server{} of {}",
                a.job.transport, shape.servers(), joined ? "s" : "", job.layout);
  if (!joined) job.transport = "shm";
  if (joined && named) {
    job.transport = a.job.transport;
    IBCOLL_ASSIGN(const NetworkKind* const kind, find_network(job.transport));
    costs_cores = kind->costs_cores;
  }
  std::vector<std::string> notes;
  const RuleSection section = measure::built_in_rules(job, shape, costs_cores, notes);
  const std::string text = to_text(section, notes);
  if (!a.out.empty()) return write_file(a.out, text);
  print_text(text);
  return flush_output();
}

Result<RuleSection> section_to_judge(const std::string& path, const RulesJob& job,
                                     std::string& note) {
  IBCOLL_ASSIGN(std::vector<RuleSection> sections, read_rules(path));
  for (RuleSection& section : sections)
    if (section.job.differences(job).empty()) return std::move(section);
  for (RuleSection& section : sections) {
    if (section.job.layout != job.layout) continue;
    note = section.job.differences(job);
    return std::move(section);
  }
  return fail(ErrorCode::kInput, "{}: no rules for layout {}", path, job.layout);
}

}  // namespace ibcoll::tools
