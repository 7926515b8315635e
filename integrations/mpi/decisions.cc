#include "integrations/mpi/decisions.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <tuple>

#include "engine/base/input.h"
#include "engine/base/json.h"
#include "engine/base/json_lines.h"
#include "engine/base/table.h"
#include "engine/base/units.h"
#include "integrations/mpi/size_class.h"

namespace ibcoll::mpi {

namespace {

auto key_of(const Decision& decision) {
  return std::tuple(decision.function, decision.is_exact, decision.ranks, decision.servers,
                    decision.size_class);
}

constexpr const char *kEngineName = "engine", *kMpiName = "mpi";
const char* name_of(Candidate kept) { return kept == Candidate::kMpi ? kMpiName : kEngineName; }
/// What each of those that may be kept takes, as members of a line.
constexpr std::array kTimes = {"engine_us", "mpi_us", "algorithm_us"};

double us(uint32_t nanoseconds) { return nanoseconds / 1000.0; }

/// "64-127", "128M-", "-" where there is no data.
std::string sizes_text(const Decision& decision) {
  const SizeRange sizes = sizes_of(decision.function, decision.size_class);
  if (sizes.high == 0) return "-";
  if (sizes.low == 0) return "all";
  if (sizes.high == UINT64_MAX)
    return fmt::format("{}-", format_size(static_cast<int64_t>(sizes.low)));
  return fmt::format("{}-{}", sizes.low, sizes.high);
}

constexpr std::string_view kMembers[] = {
    "mpi",    "version",   "function",  "ranks",  "servers",      "from", "to",
    "choice", "algorithm", "engine_us", "mpi_us", "algorithm_us", "exact"};

/// A line, for all classes of sizes that it spans.
class Line {
 public:
  static Result<Line> parse(std::string_view text) {
    IBCOLL_ASSIGN(const nlohmann::ordered_json json, parse_json(text));
    if (!json.is_object()) return bad("it is no object");
    for (const auto& [name, value] : json.items())
      if (std::find(std::begin(kMembers), std::end(kMembers), name) == std::end(kMembers))
        return bad(fmt::format("unknown member '{}'", name));
    Line line;
    IBCOLL_ASSIGN(line.mpi_.family, text_of(json, "mpi"));
    IBCOLL_ASSIGN(line.mpi_.version, text_of(json, "version"));
    IBCOLL_ASSIGN(const std::string function, text_of(json, "function"));
    IBCOLL_ASSIGN(const std::string choice, text_of(json, "choice"));
    const auto* const known = std::find_if(
        kCollectives.begin(), kCollectives.end(),
        [&](Function each) { return is_measured(each) && function == to_string(each); });
    if (known == kCollectives.end())
      return bad(fmt::format("'{}' is none of the functions that are measured", function));
    line.made_.function = *known;
    if (choice != kEngineName && choice != kMpiName)
      return bad(fmt::format("'choice' is '{}', neither engine nor mpi", choice));
    line.made_.kept = choice == kEngineName ? Candidate::kEngine : Candidate::kMpi;
    line.made_.is_of_file = 1;
    IBCOLL_ASSIGN(const uint64_t ranks, count_of(json, "ranks", std::nullopt));
    IBCOLL_ASSIGN(const uint64_t servers, count_of(json, "servers", 1));
    IBCOLL_ASSIGN(line.sizes_.low, count_of(json, "from", 0));
    IBCOLL_ASSIGN(line.sizes_.high, count_of(json, "to", UINT64_MAX));
    if (ranks < 2 || ranks > INT32_MAX || servers < 1 || servers > ranks)
      return bad(fmt::format("{} ranks on {} servers are no communicator", ranks, servers));
    line.made_.ranks = static_cast<int32_t>(ranks);
    line.made_.servers = static_cast<int32_t>(servers);
    for (size_t i = 0; i < kTimes.size(); ++i) {
      IBCOLL_ASSIGN(line.made_.found[i], time_of(json, kTimes[i]));
    }
    if (const auto exact = json.find("exact"); exact != json.end()) {
      if (!exact->is_boolean()) return bad("'exact' is neither true nor false");
      line.made_.is_exact = exact->get<bool>() ? 1 : 0;
      if (line.made_.is_exact == 0 && !reduces(line.made_.function))
        return bad(fmt::format("'exact' is false, but {} combines nothing", function));
    }
    if (json.contains("algorithm")) IBCOLL_TRY(line.take_algorithm(json));
    if (!line.spans_any() && moves_data(*known) && !has_classes(*known))
      return bad(fmt::format("{} is decided for all sizes: it takes neither 'from' nor 'to'",
                             to_string(*known)));
    if (!line.spans_any())
      return bad(
          fmt::format("no class of sizes lies between {} and {}: their bounds are powers of "
                      "two, as 64 and 127",
                      line.sizes_.low, line.sizes_.high));
    return line;
  }
  bool is_of(const MpiName& mpi) const {
    return mpi_.family == mpi.family && mpi_.version == mpi.version;
  }
  template <class Each>
  void for_each_class(const Each& each) const {
    for (int i = 0; i < kSizeClasses; ++i) {
      if (!spans(i)) continue;
      Decision decision = made_;
      decision.size_class = static_cast<uint8_t>(i);
      each(decision);
    }
  }

 private:
  Status take_algorithm(const nlohmann::ordered_json& json) {
    IBCOLL_ASSIGN(const std::string name, text_of(json, "algorithm"));
    if (name.empty() || name.size() >= made_.algorithm.size())
      return bad(fmt::format("'algorithm' is '{}', the name of none", name));
    if (made_.kept == Candidate::kMpi || made_.is_exact == 0)
      return bad("'algorithm' is for calls of the engine's that give the same bits by all");
    std::copy(name.begin(), name.end(), made_.algorithm.begin());
    made_.kept = Candidate::kFirstOther;
    return {};
  }
  static tl::unexpected<Error> bad(const std::string& why) {
    return fail(ErrorCode::kInput, "{}", why);
  }
  static Result<std::string> text_of(const nlohmann::ordered_json& json, const char* name) {
    const auto found = json.find(name);
    if (found == json.end() || !found->is_string())
      return bad(fmt::format("'{}' is missing, or no text", name));
    return found->get<std::string>();
  }
  static Result<uint64_t> count_of(const nlohmann::ordered_json& json, const char* name,
                                   std::optional<uint64_t> otherwise) {
    const auto found = json.find(name);
    if (found == json.end() && otherwise) return *otherwise;
    if (found == json.end() || !found->is_number_unsigned())
      return bad(fmt::format("'{}' is missing, or no number from 0 on", name));
    return found->get<uint64_t>();
  }
  static Result<uint32_t> time_of(const nlohmann::ordered_json& json, const char* name) {
    const auto found = json.find(name);
    if (found == json.end()) return 0;
    const double time = found->is_number() ? found->get<double>() * 1000 : -1;
    if (!(time >= 0 && time < kNoTime))
      return bad(fmt::format("'{}' is no time in microseconds", name));
    return static_cast<uint32_t>(time + 0.5);
  }
  bool spans(int size_class) const {
    const SizeRange of = sizes_of(made_.function, size_class);
    return has_class(made_.function, size_class) && sizes_.low <= of.low && of.high <= sizes_.high;
  }
  bool spans_any() const {
    bool any = false;
    for (int i = 0; i < kSizeClasses; ++i) any = any || spans(i);
    return any;
  }

  MpiName mpi_;
  SizeRange sizes_;
  Decision made_;
};

}  // namespace

std::vector<Decision> merged(std::vector<Decision> decisions) {
  std::stable_sort(decisions.begin(), decisions.end(), [](const auto& a, const auto& b) {
    const auto first = key_of(a), second = key_of(b);
    return first != second ? first < second : a.calls > b.calls;
  });
  const auto same = [](const auto& a, const auto& b) { return key_of(a) == key_of(b); };
  decisions.erase(std::unique(decisions.begin(), decisions.end(), same), decisions.end());
  return decisions;
}

Result<std::vector<Decision>> read_decisions(const std::string& path, const MpiName& mpi) {
  IBCOLL_ASSIGN(const std::string text, read_input(path));
  std::map<decltype(key_of(Decision{})), Decision> found;
  int number = 0;
  for (const std::string_view row : split(text, '\n')) {
    ++number;
    if (row.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const Result<Line> line = Line::parse(row);
    if (!line) return fail(ErrorCode::kInput, "{}:{}: {}", path, number, line.error().message);
    if (line->is_of(mpi))
      line->for_each_class(
          [&](const Decision& each) { found.insert_or_assign(key_of(each), each); });
  }
  std::vector<Decision> decisions;
  for (const auto& [key, decision] : found) decisions.push_back(decision);
  return decisions;
}

nlohmann::ordered_json decision_json(const Decision& decision) {
  const SizeRange sizes = sizes_of(decision.function, decision.size_class);
  nlohmann::ordered_json line = {
      {"ranks", decision.ranks}, {"servers", decision.servers}, {"from", sizes.low}};
  if (sizes.high != UINT64_MAX) line["to"] = sizes.high;
  if (decision.is_exact == 0) line["exact"] = false;
  line["choice"] = name_of(decision.kept);
  const bool names = is_other(decision.kept);
  if (names) line["algorithm"] = decision.algorithm.data();
  for (size_t i = 0; i < kTimes.size() - (names ? 0 : 1); ++i)
    line[kTimes[i]] = us(decision.found[i]);
  return line;
}

Status write_decisions(const std::string& path, const MpiName& mpi,
                       const std::vector<Decision>& decisions) {
  const std::string part = fmt::format("{}.{}", path, getpid());
  IBCOLL_ASSIGN(JsonLines lines, JsonLines::open(part));
  for (const Decision& decision : decisions) {
    nlohmann::ordered_json line = {
        {"mpi", mpi.family}, {"version", mpi.version}, {"function", to_string(decision.function)}};
    line.update(decision_json(decision));
    lines.write(line);
  }
  IBCOLL_TRY(lines.close());
  std::error_code error;
  std::filesystem::rename(part, path, error);
  if (error) return fail(ErrorCode::kSystem, "{}: {}", path, error.message());
  return {};
}

std::string decisions_text(const std::vector<Decision>& decisions) {
  Table table({"function", "bytes", "ranks", "servers", "calls", "engine us", "MPI us", "kept"});
  for (const Decision& decision : decisions) {
    const auto time = [&](Candidate candidate) {
      const uint32_t found = decision.found[static_cast<size_t>(candidate)];
      return found == 0 ? std::string("-") : fmt::format("{:.2f}", us(found));
    };
    table.add_row({to_string(decision.function), sizes_text(decision),
                   std::to_string(decision.ranks), std::to_string(decision.servers),
                   std::to_string(decision.calls), time(Candidate::kEngine), time(Candidate::kMpi),
                   fmt::format("{}{}{}", name_of(decision.kept),
                               is_other(decision.kept)
                                   ? fmt::format(", {} ({} us)", decision.algorithm.data(),
                                                 time(Candidate::kFirstOther))
                                   : "",
                               decision.is_of_file != 0 ? ", by IBCOLL_LEARNED" : "")});
  }
  return table.empty() ? "" : "measured:\n" + table.text();
}

}  // namespace ibcoll::mpi
