#include "tests/lockstep/bed/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <vector>

#include "tests/lockstep/algorithms.h"
#include "tests/lockstep/bed/hooks.h"
#include "tests/lockstep/random.h"

namespace ibcoll::lockstep {
namespace {

/// Most ranks of a job: more of them take longer and show little else.
constexpr int kMostJobRanks = 12;

std::vector<int> parse_layout(const std::string& text) {
  std::vector<int> layout;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    char* end = nullptr;
    const long ranks = std::strtol(part.c_str(), &end, 10);
    if (part.empty() || *end != '\0' || ranks < 1 || ranks > kMostRanks) return {};
    layout.push_back(static_cast<int>(ranks));
  }
  return layout;
}

std::vector<int> some_layout(Random& random) {
  static const std::vector<int> kLayouts[] = {
      {2},       {3},       {4},    {5},    {2, 2}, {1, 1},    {2, 1},       {1, 3},
      {2, 1, 3}, {1, 1, 1}, {3, 3}, {4, 1}, {7},    {2, 2, 2}, {1, 2, 1, 2}, {1, 1, 1, 1, 1}};
  if (!random.one_in(8)) return random.of(kLayouts);
  std::vector<int> layout(1 + random.below(4));
  int left = kMostJobRanks;
  for (int& here : layout) {
    here = 1 + static_cast<int>(random.below(3));
    left -= here;
  }
  if (layout.size() == 1 && random.one_in(2)) layout[0] += static_cast<int>(random.below(left));
  return layout;
}

/// How many accesses a rank makes for each call of its program: so many in half of the ranks of
/// undisturbed runs, more than twice as many in a quarter (`--faults none`, measured over 1500
/// seeds). They differ more from rank to rank than between programs of different length.
constexpr uint64_t kAccessesPerCall = 200;

void disturb(const ProgramOptions& options, int ranks, const std::string& faults, Random& random,
             std::vector<Disturbance>& all) {
  const auto wanted = [&faults](const char* kind) { return faults == "all" || faults == kind; };
  const auto rank = [&] { return static_cast<int>(random.below(static_cast<uint64_t>(ranks))); };
  const auto moment = [&] {
    // Most where nearly all ranks still have calls under way, some while the job starts, and some
    // where only those that make many accesses have not ended.
    if (random.one_in(6)) return 1 + random.below(2000);
    const uint64_t usual = kAccessesPerCall * static_cast<uint64_t>(options.calls);
    return 1 + random.below(random.one_in(4) ? 4 * usual : usual);
  };
  // Half of those that end or hold somebody do so where something has just been claimed, others
  // where something is about to be sent.
  const auto strike = [&](Disturbance::Kind kind, int64_t ns) {
    Disturbance one{kind, rank(), moment(), ns};
    if (random.one_in(2)) {
      one.by = Disturbance::By::kUpdate;
      one.at = 1 + random.below(20 + 3 * static_cast<uint64_t>(options.calls));
      one.after = random.below(4);
    } else if (random.one_in(3)) {
      one.by = Disturbance::By::kRoom;
      one.room = static_cast<Room>(random.below(kRooms));
      one.at = 1 + random.below(random.one_in(2) ? 4 : 2 * static_cast<uint64_t>(options.calls));
      one.after = random.below(8);
    }
    all.push_back(one);
  };
  const auto length = [&] {
    const int64_t longest = int64_t{1000} << random.below(24);
    return 1 + static_cast<int64_t>(random.below(static_cast<uint64_t>(longest)));
  };
  if (wanted("kill") && random.one_in(3)) {
    const uint64_t kills = 1 + random.below(2);
    for (uint64_t i = 0; i < kills; ++i) strike(Disturbance::Kind::kKill, 0);
  }
  if (wanted("stop")) {
    const uint64_t stops = random.below(8);
    for (uint64_t i = 0; i < stops; ++i) strike(Disturbance::Kind::kStop, length());
  }
  if (wanted("clock") && random.one_in(3))
    all.push_back({Disturbance::Kind::kClock, rank(), moment(), length()});
  if (wanted("memory") && random.one_in(6))
    all.push_back({Disturbance::Kind::kNoMemory, rank(), 1 + random.below(40)});
  if (wanted("memory") && random.one_in(12)) {
    const uint64_t requests = random.one_in(3) ? 60 : 40 * static_cast<uint64_t>(options.calls);
    all.push_back({Disturbance::Kind::kNoHeap, rank(), 1 + random.below(requests)});
  }
  if (wanted("call") && random.one_in(12))
    all.push_back(
        {Disturbance::Kind::kNoCall, rank(), 1 + random.below(random.one_in(2) ? 6 : 60)});
}

/// Half of the runs have limits that they meet: some of them, or most.
void narrow(Random& random, RunPlan& plan) {
  if (random.one_in(2)) return;
  const uint64_t density = random.one_in(3) ? 60 : 15;
  for (const NarrowLimit& limit : narrow_limits()) {
    if (random.below(100) < density)
      plan.limits[limit.name] = limit.smaller[random.below(limit.smaller.size())];
  }
}

}  // namespace

std::string check(const Overrides& overrides) {
  if (!overrides.layout.empty() && parse_layout(overrides.layout).empty())
    return fmt::format("{} is no layout: numbers of ranks from 1 to {}, as 2,1,3", overrides.layout,
                       kMostRanks);
  return {};
}

std::string to_options(uint64_t seed, const Overrides& overrides) {
  std::string text = fmt::format("--seed {}", seed);
  if (!overrides.layout.empty()) text += fmt::format(" --layout {}", overrides.layout);
  if (overrides.faults != "all") text += fmt::format(" --faults {}", overrides.faults);
  if (overrides.calls != 0) text += fmt::format(" --calls {}", overrides.calls);
  if (overrides.schedule) text += fmt::format(" --schedule {}", *overrides.schedule);
  const auto add = [&text](const char* name, const std::vector<uint32_t>& numbers) {
    if (!numbers.empty()) text += fmt::format(" {} {}", name, fmt::join(numbers, ","));
  };
  add("--without", overrides.without);
  add("--simpler", overrides.simpler);
  add("--undisturbed", overrides.undisturbed);
  if (overrides.wide) text += " --wide";
  return text;
}

RunPlan plan_of(uint64_t seed, const Overrides& overrides) {
  Random random(drawn({seed, 1001}));
  RunPlan plan;
  ProgramOptions options;
  options.layout = some_layout(random);
  if (!overrides.layout.empty()) options.layout = parse_layout(overrides.layout);
  int ranks = 0;
  for (const int here : options.layout) ranks += here;
  options.calls = static_cast<int>(10 + random.below(50));
  if (random.one_in(5)) options.calls *= 4;
  if (overrides.calls > 0) options.calls = overrides.calls;
  // Mostly short ones, which meet more often; some longer than any ring.
  options.largest_block = 1u << (6 + random.below(12));
  if (random.one_in(6)) options.largest_block = 1 << 20;
  options.largest_call = 2 << 20;
  options.largest_under_way = 8 << 20;
  options.algorithms = registered_algorithms();
  options.multicast_algorithms = registered_multicast_algorithms();
  options.longest_pause_ns = int64_t{1000} << random.below(16);
  options.features.ends = random.one_in(3);
  options.features.mismatch = random.one_in(8);
  options.features.patient_multicasts = !random.one_in(4);
  options.features.leaves = random.one_in(6);

  Conditions& conditions = plan.conditions;
  conditions.seed = overrides.schedule.value_or(seed);
  static constexpr uint32_t kRuns[] = {1, 2, 4, 8, 16, 64, 512};
  conditions.accesses_in_a_row = random.of(kRuns);
  static constexpr int64_t kTurnsNs[] = {2000, 20'000, 50'000};
  // Where the core is away for long, waits of some milliseconds are over before they have looked
  // at anything: ranks that leave make such.
  if (random.one_in(options.features.leaves ? 2 : 8)) conditions.turn_ns = random.of(kTurnsNs);
  conditions.slow_ranks = random.one_in(3) ? 3 : 0;
  conditions.delays_stores = random.one_in(2);
  conditions.weak_order = random.one_in(2);
  static constexpr uint32_t kLateWakes[] = {0, 0, 2, 16}, kRefusedRooms[] = {0, 0, 3, 32};
  conditions.late_wakes = random.of(kLateWakes);
  conditions.refused_rooms = random.of(kRefusedRooms);
  disturb(options, ranks, overrides.faults, random, conditions.disturbances);
  bool flips = (overrides.faults == "all" || overrides.faults == "flip") && random.one_in(16);

  // Now and then nothing goes wrong, and nothing but wake-ups gets ranks on.
  if (random.one_in(6) && overrides.faults == "all") {
    conditions.must_be_woken = true;
    conditions.disturbances.clear();
    conditions.refused_rooms = 0;
    conditions.turn_ns = Conditions{}.turn_ns;
    flips = false;
    options.features.ends = options.features.mismatch = options.features.multicasts = false;
  }
  if (random.one_in(conditions.must_be_woken ? 2 : 6)) {
    // One that may is enough for all to leave fences to sleepers; each that does fences for all.
    const uint64_t one = uint64_t{1} << random.below(static_cast<uint64_t>(ranks));
    conditions.no_fences_of = random.one_in(2) ? random.next() : ~one;
  }
  const bool sleeps_at_once = conditions.must_be_woken && random.one_in(2);
  static constexpr uint32_t kPatiences[] = {2, 4, 40};
  conditions.store_patience = random.of(kPatiences);

  plan.environment = {
      {"IBCOLL_TRANSPORT", "loopback"}, {"IBCOLL_HEAP", "64M"},   {"IBCOLL_LATE", "0"},
      {"PATH", "/usr/bin:/bin"},        {"HOME", "/nonexistent"}, {"IBCOLL_COSTS", "off"},
  };
  if (!random.one_in(3))
    plan.environment["IBCOLL_LOOPBACK_SEED"] = std::to_string(1 + random.below(1'000'000));
  if (random.one_in(3)) plan.environment["IBCOLL_LOOPBACK_PLACING"] = "bounce";
  if (random.one_in(3)) plan.environment["IBCOLL_EAGER"] = "0";
  conditions.forbids_process_vm = random.one_in(4);
  static constexpr int kCores[] = {1, 2, 64};
  conditions.cores = random.of(kCores);
  if (random.one_in(4)) plan.environment["IBCOLL_LEARN"] = "off";
  if (random.one_in(6)) plan.environment["IBCOLL_THREADS"] = "multiple";
  if (random.one_in(6)) plan.environment["IBCOLL_PROGRESS_THREAD"] = "1";
  if (random.one_in(6)) plan.environment["IBCOLL_CHECK"] = random.one_in(3) ? "late" : "data";
  if (flips) {
    plan.environment["IBCOLL_CHECK"] = "data";
    options.features.unchecked = options.features.own_operators = false;
    Disturbance flip{Disturbance::Kind::kFlip,
                     static_cast<int>(random.below(static_cast<uint64_t>(ranks))),
                     1 + random.below(8 * static_cast<uint64_t>(options.calls))};
    flip.ns = static_cast<int64_t>(random.next() >> 1);
    conditions.disturbances.push_back(flip);
  }
  static constexpr const char* kEagers[] = {"100", "1000", "4000"};
  if (random.one_in(6)) plan.environment["IBCOLL_EAGER"] = random.of(kEagers);
  static constexpr const char* kWindows[] = {"1", "2", "5"};
  if (random.one_in(3)) plan.environment["IBCOLL_MULTICAST_WINDOW"] = random.of(kWindows);
  // Twice what the longest message takes.
  if (!options.features.patient_multicasts && random.one_in(2))
    plan.environment["IBCOLL_MULTICAST_MEMORY"] = "1M";
  // Stops are up to 8 s long.
  if (random.one_in(6)) plan.environment["IBCOLL_LATE"] = "1s";
  if (random.one_in(10)) plan.environment["IBCOLL_DEADLINE"] = "4s";
  // A short deadline may pass before a cycle is found.
  options.features.cycles =
      plan.environment.count("IBCOLL_THREADS") + plan.environment.count("IBCOLL_DEADLINE") == 0;
  // Drawn apart: runs without it are what they were.
  if (Random other(drawn({seed, 1002})); options.layout.size() > 1 && other.one_in(3))
    plan.environment["IBCOLL_MAX_CONNECTIONS"] = std::to_string(1 + other.below(3));
  narrow(random, plan);
  // An adversarial network has threads that wake up all the time while others wait for a rank that
  // has been stopped.
  constexpr int64_t kLongestStopNs = 1'000'000'000;
  for (Disturbance& one : conditions.disturbances) {
    if (one.kind == Disturbance::Kind::kStop && plan.environment.count("IBCOLL_LOOPBACK_SEED") != 0)
      one.ns = std::min(one.ns, kLongestStopNs);
  }
  if (const auto places = plan.limits.find("kMailPlaces"); places != plan.limits.end()) {
    // Whoever dies while it writes a mail leaves one place less.
    for (const Disturbance& one : conditions.disturbances)
      places->second += one.kind == Disturbance::Kind::kKill;
  }
  // Ranks that look now and then move long blocks so slowly that others pass the deadline.
  for (const char* const piece : {"kPieceBytes", "kReadBytes"}) {
    const auto limit = plan.limits.find(piece);
    if (limit != plan.limits.end() && limit->second <= 100)
      plan.environment.erase("IBCOLL_DEADLINE");
  }
  if (sleeps_at_once) {
    for (const char* const limit : {"kSpins", "kYieldNs"}) plan.limits[limit] = 0;
    plan.limits["kYieldsBetweenClocks"] = 1;
  }
  if (overrides.wide) plan.limits.clear();
  plan.program = random_program(seed, options);
  for (auto i = overrides.undisturbed.rbegin(); i != overrides.undisturbed.rend(); ++i) {
    if (*i < conditions.disturbances.size())
      conditions.disturbances.erase(conditions.disturbances.begin() + *i);
  }
  std::vector<size_t> out;
  for (size_t i = 0; i < plan.program.actions.size(); ++i) {
    if (std::binary_search(overrides.without.begin(), overrides.without.end(),
                           plan.program.actions[i].number))
      out.push_back(i);
  }
  if (!out.empty()) plan.program = without(plan.program, out);
  for (const uint32_t variant : overrides.simpler) {
    std::vector<Program> variants = simpler(plan.program);
    if (variant < variants.size()) plan.program = std::move(variants[variant]);
  }
  return plan;
}

std::string to_string(const RunPlan& plan) {
  std::string text = fmt::format(
      "seed {}, layout {}, {} accesses in a row, turns of {} ns, slow ranks: {}, stores delayed: "
      "{}{}{}, late "
      "wakes: {}, "
      "refused rooms: {}, without membarrier: {:#x}{}, cores: {}\n",
      plan.conditions.seed, fmt::join(plan.program.options.layout, ","),
      plan.conditions.accesses_in_a_row, plan.conditions.turn_ns, plan.conditions.slow_ranks,
      plan.conditions.delays_stores, plan.conditions.weak_order ? ", in any order" : "",
      plan.conditions.forbids_process_vm ? ", no process_vm_*" : "", plan.conditions.late_wakes,
      plan.conditions.refused_rooms, plan.conditions.no_fences_of,
      plan.conditions.must_be_woken ? ", nothing needs time" : "", plan.conditions.cores);
  for (const auto& [name, value] : plan.environment) text += fmt::format("{}={} ", name, value);
  for (const auto& [name, value] : plan.limits) text += fmt::format("{}={} ", name, value);
  text += "\n";
  for (const Disturbance& one : plan.conditions.disturbances)
    text += fmt::format("{} ", to_string(one));
  if (!plan.conditions.disturbances.empty()) text += "\n";
  return text + to_string(plan.program);
}

}  // namespace ibcoll::lockstep
