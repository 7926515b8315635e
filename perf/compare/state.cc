#include "perf/compare/state.h"

#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "engine/base/units.h"

namespace ibcoll::compare {
namespace {

double seconds_of_usage(int who) {
  struct rusage used {};
  getrusage(who, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

double seconds_of(clockid_t clock) {
  struct timespec time {};
  if (clock_gettime(clock, &time) != 0) return 0;  // the process has ended by now
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

/// What processes that this one has started and that still run have had, with their own children
/// that have ended. The kernel adds it to a process's children only when they have ended.
double seconds_of_running_descendants() {
  struct Running {
    pid_t parent = 0;
    double ended_children = 0;
  };
  std::map<pid_t, Running> all;
  std::error_code none;
  for (std::filesystem::directory_iterator entry("/proc", none), end; entry != end;
       entry.increment(none)) {
    const auto process = static_cast<pid_t>(std::atoi(entry->path().filename().c_str()));
    if (process <= 0) continue;
    std::string text;
    std::getline(std::ifstream(entry->path() / "stat"), text, '\0');
    // The name in brackets may hold anything.
    const size_t name_end = text.rfind(')');
    if (name_end == std::string::npos) continue;
    long long parent = 0, user = 0, system = 0;
    if (std::sscanf(text.c_str() + name_end,
                    ") %*c %lld %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %lld %lld", &parent,
                    &user, &system) != 3)
      continue;
    all[process] = {static_cast<pid_t>(parent),
                    static_cast<double>(user + system) / static_cast<double>(sysconf(_SC_CLK_TCK))};
  }
  double seconds = 0;
  for (const auto& [process, running] : all) {
    pid_t above = running.parent;
    // Processes end and numbers are used again while this is read, so a line of parents may turn.
    for (size_t steps = 0; above > 1 && above != getpid() && steps < all.size(); ++steps) {
      const auto found = all.find(above);
      above = found == all.end() ? 0 : found->second.parent;
    }
    clockid_t clock{};
    if (above != getpid() || clock_getcpuclockid(process, &clock) != 0) continue;
    seconds += seconds_of(clock) + running.ended_children;
  }
  return seconds;
}

std::string percent(const std::optional<double>& value) {
  return value ? fmt::format("{:.1f} %", *value) : "unknown";
}

}  // namespace

Result<ProcessorTimes> parse_processor_times(std::string_view text, const cpu_set_t& processors,
                                             double ticks_a_second) {
  enum { kIdle = 3, kWaiting = 4, kStolen = 7, kTimes = 8 };  // guests' time is in user time
  ProcessorTimes times;
  for (const std::string_view row : split(text, '\n')) {
    int number = 0;
    std::array<double, kTimes> ticks{};
    std::istringstream in{std::string(row)};
    std::string name;
    in >> name;
    if (std::sscanf(name.c_str(), "cpu%d", &number) != 1 || number < 0 || number >= CPU_SETSIZE ||
        !CPU_ISSET(number, &processors))
      continue;
    for (double& one : ticks) in >> one;
    if (!in) return fail(ErrorCode::kInput, "/proc/stat has no {} times of {}", +kTimes, name);
    for (int i = 0; i < kTimes; ++i) {
      times.all += ticks[i] / ticks_a_second;
      if (i != kIdle && i != kWaiting && i != kStolen) times.busy += ticks[i] / ticks_a_second;
    }
    times.stolen += ticks[kStolen] / ticks_a_second;
  }
  if (times.all > 0) return times;
  return fail(ErrorCode::kUnsupported, "/proc/stat says nothing of this process's processors");
}

Result<ProcessorTimes> processor_times() {
  cpu_set_t processors;
  CPU_ZERO(&processors);
  if (sched_getaffinity(0, sizeof processors, &processors) != 0)
    return fail_errno("cannot read this process's affinity mask");
  std::stringstream text;
  text << std::ifstream("/proc/stat").rdbuf();
  IBCOLL_ASSIGN(
      ProcessorTimes times,
      parse_processor_times(text.str(), processors, static_cast<double>(sysconf(_SC_CLK_TCK))));
  times.own = seconds_of_usage(RUSAGE_SELF) + seconds_of_usage(RUSAGE_CHILDREN) +
              seconds_of_running_descendants();
  return times;
}

State state_between(const std::string& when, const Result<ProcessorTimes>& begin,
                    const Result<ProcessorTimes>& end) {
  State state;
  state.when = when;
  std::ifstream("/proc/loadavg") >> state.load[0] >> state.load[1] >> state.load[2];
  if (!begin || !end || !(end->all > begin->all)) return state;
  const double all = end->all - begin->all;
  const auto percent_of_all = [&](double part) { return std::clamp(100 * part / all, 0.0, 100.0); };
  // The kernel counts ticks here and nanoseconds there, so nobody may come to a little less; and
  // what it counts as waiting for a disk can shrink, so others may come to more than there was.
  state.others = percent_of_all(end->busy - begin->busy - (end->own - begin->own));
  state.steal = percent_of_all(end->stolen - begin->stolen);
  return state;
}

void Parts::end(const std::string& of, const Result<ProcessorTimes>& now) {
  // The kernel counts in hundredths of a second.
  constexpr double kLeastSeconds = 2;
  if (begin_ && now && now->all - begin_->all < kLeastSeconds) return;
  const State state = state_between("during", begin_, now);
  begin_ = now;
  if (!state.others || !state.steal) return;
  if (!worst_ || std::max(*state.others, *state.steal) > std::max(worst_->others, worst_->steal))
    worst_ = Part{of, *state.others, *state.steal};
}

State state_now(const std::string& when) {
  constexpr useconds_t kMicroseconds = 1'000'000;
  const Result<ProcessorTimes> begin = processor_times();
  usleep(kMicroseconds);
  return state_between(when, begin, processor_times());
}

nlohmann::ordered_json state_line(const State& state) {
  const auto or_null = [](const std::optional<double>& value) {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
  };
  nlohmann::ordered_json line = {{"kind", "machine_state"},
                                 {"when", state.when},
                                 {"load_average", state.load},
                                 {"others_percent", or_null(state.others)},
                                 {"steal_percent", or_null(state.steal)}};
  if (state.worst) {
    line["worst"] = {{"of", state.worst->of},
                     {"others_percent", state.worst->others},
                     {"steal_percent", state.worst->steal}};
  }
  return line;
}

Result<State> parse_state(const nlohmann::ordered_json& line) {
  State state;
  const auto member = [&](const char* name) { return line.value(name, nlohmann::ordered_json()); };
  const nlohmann::ordered_json when = member("when"), load = member("load_average");
  if (!when.is_string()) return fail(ErrorCode::kInput, "'when' is missing, or no text");
  state.when = when.get<std::string>();
  if (!load.is_array() || load.size() != state.load.size() ||
      !std::all_of(load.begin(), load.end(), [](const auto& one) { return one.is_number(); }))
    return fail(ErrorCode::kInput, "'load_average' is no array of three numbers");
  for (size_t i = 0; i < state.load.size(); ++i) state.load[i] = load[i].get<double>();
  for (const auto& [name, value] :
       {std::pair("others_percent", &state.others), std::pair("steal_percent", &state.steal)}) {
    if (member(name).is_null()) continue;
    IBCOLL_ASSIGN(*value, take_percent(line, name));
  }
  if (const nlohmann::ordered_json worst = member("worst"); !worst.is_null()) {
    const nlohmann::ordered_json of =
        worst.is_object() ? worst.value("of", nlohmann::ordered_json()) : worst;
    if (!worst.is_object() || !of.is_string())
      return fail(ErrorCode::kInput, "'worst' is no object with a text 'of'");
    state.worst.emplace();
    state.worst->of = of.get<std::string>();
    IBCOLL_ASSIGN(state.worst->others, take_percent(worst, "others_percent"));
    IBCOLL_ASSIGN(state.worst->steal, take_percent(worst, "steal_percent"));
  }
  return state;
}

Result<double> take_percent(const nlohmann::ordered_json& line, const char* name) {
  const nlohmann::ordered_json value = line.value(name, nlohmann::ordered_json());
  if (!value.is_number() || value.get<double>() < 0 || value.get<double>() > 100)
    return fail(ErrorCode::kInput, "'{}' is no number from 0 to 100", name);
  return value.get<double>();
}

std::string part_text(const Part& part) {
  return fmt::format("others {:.1f} %, steal {:.1f} % ({})", part.others, part.steal, part.of);
}

std::string state_text(const State& state) {
  return fmt::format("{}: load average {:.2f} {:.2f} {:.2f}, processor time of others {}, steal {}",
                     state.when, state.load[0], state.load[1], state.load[2], percent(state.others),
                     percent(state.steal)) +
         (state.worst ? "; at worst " + part_text(*state.worst) : "");
}

std::optional<std::string> why_not_to_judge(const State& state, double most) {
  const std::string when = state.when + " the comparison";
  if (!state.others || !state.steal)
    return fmt::format("how much processor time others had {} is not known", when);
  const auto why = [&](double others, double steal,
                       const std::string& of) -> std::optional<std::string> {
    for (const auto& [who, share] : {std::pair("others had", others), {"the host stole", steal}})
      if (share > most)
        return fmt::format("{} {:.1f} % of the processor time {}{}; at most {:g} % is allowed", who,
                           share, when, of, most);
    return std::nullopt;
  };
  if (auto all = why(*state.others, *state.steal, "")) return all;
  if (!state.worst) return std::nullopt;
  return why(state.worst->others, state.worst->steal, fmt::format(" ({})", state.worst->of));
}

}  // namespace ibcoll::compare
