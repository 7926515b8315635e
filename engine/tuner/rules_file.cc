// Rules from and to text: JSON, an object a line.

#include <algorithm>
#include <initializer_list>

#include "engine/base/hash.h"
#include "engine/base/json.h"
#include "engine/base/units.h"
#include "engine/schedule/layout.h"
#include "engine/tuner/rules.h"

namespace ibcoll {
namespace {

constexpr int kFormat = 1;
constexpr int64_t kMostPieces = 4096;  // as the C interface takes
constexpr int64_t kMostBytes = int64_t{1} << 62;

using Json = nlohmann::ordered_json;

/// A line that is being read; what it lacks is not an error where a default is given.
class Line {
 public:
  explicit Line(const Json& object) : object_(object) {}

  bool has(const char* key) const { return object_.contains(key); }
  Result<std::string> text(const char* key, const std::optional<std::string>& absent = {}) const {
    if (absent && !has(key)) return *absent;
    if (!has(key) || !object_[key].is_string())
      return fail(ErrorCode::kInput, "'{}' is {}", key, has(key) ? "not a text" : "missing");
    return object_[key].get<std::string>();
  }
  Result<int64_t> number(const char* key, int64_t low, int64_t high, int64_t absent) const {
    if (!has(key)) return absent;
    const Json& field = object_[key];
    const bool fits = field.is_number_unsigned() && field.get<uint64_t>() <= uint64_t(INT64_MAX);
    const int64_t value = fits ? static_cast<int64_t>(field.get<uint64_t>()) : -1;
    if (!fits || value < low || value > high)
      return fail(ErrorCode::kInput, "'{}' is {}: it must be a whole number from {} to {}", key,
                  json_text(field).substr(0, 40), low, high);
    return value;
  }
  /// A key that is none may be one that was mistyped.
  Status check_keys(std::initializer_list<std::string_view> known) const {
    for (const auto& [key, value] : object_.items()) {
      if (key == "note" || std::find(known.begin(), known.end(), key) != known.end()) continue;
      std::string names = "note";
      for (const std::string_view name : known) names += fmt::format(", {}", name);
      return fail(ErrorCode::kInput, "unknown field '{}': one of {}", key, names);
    }
    return {};
  }

 private:
  const Json& object_;
};

struct Header {
  RulesJob job;
  std::optional<int64_t> count;
};

Result<Header> read_header(const Line& line) {
  IBCOLL_ASSIGN(const int64_t format, line.number("ibcoll_rules", 1, INT64_MAX, 0));
  if (format != kFormat)
    return fail(ErrorCode::kInput, "rules of format {}: this ibcoll reads format {}", format,
                kFormat);
  IBCOLL_TRY(line.check_keys({"ibcoll_rules", "engine", "layout", "transport", "machines",
                              "processor", "processors", "rules"}));
  Header header;
  RulesJob& job = header.job;
  IBCOLL_ASSIGN(job.layout, line.text("layout"));
  IBCOLL_ASSIGN(job.transport, line.text("transport", ""));
  IBCOLL_ASSIGN(job.processor, line.text("processor", ""));
  IBCOLL_ASSIGN(job.engine, line.text("engine", ""));
  IBCOLL_ASSIGN(const int64_t machines, line.number("machines", 1, kMaxLayoutRanks, 0));
  IBCOLL_ASSIGN(const int64_t processors, line.number("processors", 1, kMaxLayoutRanks, 0));
  job.machines = static_cast<int>(machines);
  job.processors = static_cast<int>(processors);
  if (line.has("rules")) {
    IBCOLL_ASSIGN(header.count, line.number("rules", 0, INT64_MAX, 0));
  }
  return header;
}

Result<Rule> read_rule(const Line& line, const RulesJob& job) {
  IBCOLL_TRY(line.check_keys(
      {"collective", "layout", "from", "to", "algorithm", "pacing", "window", "pieces"}));
  Rule rule;
  IBCOLL_ASSIGN(const std::string collective, line.text("collective"));
  IBCOLL_ASSIGN(rule.collective, parse_collective(collective));
  IBCOLL_ASSIGN(const std::string algorithm, line.text("algorithm"));
  IBCOLL_ASSIGN(rule.algorithm, find_algorithm(rule.collective, algorithm));
  IBCOLL_ASSIGN(rule.layout, line.text("layout", ""));
  if (rule.layout == job.layout) rule.layout.clear();
  if (!rule.layout.empty()) IBCOLL_TRY(shape_of_layout(rule.layout));
  if (!has_sizes(rule.collective) && (line.has("from") || line.has("to")))
    return fail(ErrorCode::kInput, "rules of {} are for all sizes: no 'from' and no 'to'",
                collective);
  IBCOLL_ASSIGN(rule.from, line.number("from", 0, kMostBytes, 0));
  IBCOLL_ASSIGN(rule.to, line.number("to", 0, kMostBytes, INT64_MAX));
  if (rule.from > rule.to)
    return fail(ErrorCode::kInput, "'from' is {} and 'to' is less, {}", rule.from, rule.to);
  if (line.has("pacing")) {
    IBCOLL_ASSIGN(const std::string pacing, line.text("pacing"));
    IBCOLL_ASSIGN(rule.pacing, parse_pacing(pacing));
  }
  if (!rule.algorithm->paced && (rule.pacing || line.has("window")))
    return fail(ErrorCode::kInput, "'pacing' and 'window' are not for {}, which is not paced",
                algorithm);
  IBCOLL_ASSIGN(const int64_t window, line.number("window", 0, kMaxLayoutRanks, 1));
  IBCOLL_ASSIGN(const int64_t pieces, line.number("pieces", 0, kMostPieces, 0));
  if (pieces != 0 && rule.algorithm->spec->planned)
    return fail(ErrorCode::kInput, "'pieces' are not for {}, whose plan has them", algorithm);
  rule.window = static_cast<uint32_t>(window);
  rule.pieces = static_cast<uint32_t>(pieces);
  return rule;
}

/// Reads line by line.
class Reader {
 public:
  Status take(std::string_view text) {
    IBCOLL_ASSIGN(const Json object, parse_json(text));
    if (!object.is_object()) return fail(ErrorCode::kInput, "is not a JSON object");
    const Line line(object);
    if (line.has("ibcoll_rules")) {
      IBCOLL_TRY(end_section());
      IBCOLL_ASSIGN(Header header, read_header(line));
      count_ = header.count;
      sections_.push_back({std::move(header.job), {}});
      shapes_.clear();
      return {};
    }
    if (sections_.empty())
      return fail(ErrorCode::kInput, "no rules: the first line must have 'ibcoll_rules'");
    RuleSection& section = sections_.back();
    IBCOLL_ASSIGN(Rule rule, read_rule(line, section.job));
    section.rules.push_back(std::move(rule));
    shapes_.push_back(hash_of(section, section.rules.back()));
    return check_overlap(section);
  }
  /// What is cut off behind a line would not be missed otherwise.
  Status end_section() const {
    if (sections_.empty() || !count_) return {};
    const size_t there = sections_.back().rules.size();
    if (static_cast<int64_t>(there) == *count_) return {};
    return fail(ErrorCode::kInput, "{} rules where the head says {}: the file is not whole", there,
                *count_);
  }
  std::vector<RuleSection> take_sections() { return std::move(sections_); }

 private:
  static const std::string& layout_of(const RuleSection& section, const Rule& rule) {
    return rule.layout.empty() ? section.job.layout : rule.layout;
  }
  /// Layouts that are written differently may be the same: 2x1 and 1,1. Those of jobs need not be
  /// any that can be written.
  static uint64_t hash_of(const RuleSection& section, const Rule& rule) {
    const std::string& layout = layout_of(section, rule);
    const Result<Shape> shape = shape_of_layout(layout);
    return shape ? shape->hash() : hash_bytes(layout);
  }
  /// The last rule with those before it.
  Status check_overlap(const RuleSection& section) const {
    const Rule& last = section.rules.back();
    for (size_t i = 0; i + 1 < section.rules.size(); ++i) {
      const Rule& other = section.rules[i];
      if (other.collective != last.collective || shapes_[i] != shapes_.back()) continue;
      if (other.to < last.from || last.to < other.from) continue;
      const std::string &here = layout_of(section, last), &there = layout_of(section, other);
      return fail(ErrorCode::kInput, "a second rule for {} of {} bytes{}",
                  to_string(last.collective), std::max(other.from, last.from),
                  here == there ? "" : fmt::format(", of layout {}, which is {}", here, there));
    }
    return {};
  }

  std::vector<RuleSection> sections_;
  std::vector<uint64_t> shapes_;  ///< of the last section's rules, as hashes
  std::optional<int64_t> count_;
};

}  // namespace

Result<std::vector<RuleSection>> parse_rules(std::string_view text) {
  Reader reader;
  int number = 0;
  const auto at_line = [&](const Error& error) {
    return fail(ErrorCode::kInput, "line {}: {}", number, error.message);
  };
  for (const std::string_view line : split(text, '\n')) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    if (const Status taken = reader.take(line); !taken) return at_line(taken.error());
  }
  if (const Status ended = reader.end_section(); !ended) return at_line(ended.error());
  std::vector<RuleSection> sections = reader.take_sections();
  if (sections.empty()) return fail(ErrorCode::kInput, "no rules in it: ib_tune writes them");
  return sections;
}

std::string to_text(const RuleSection& section, const std::vector<std::string>& notes) {
  const RulesJob& job = section.job;
  Json head = {{"ibcoll_rules", kFormat}};
  const auto add = [](Json& line, const char* key, const auto& value, const auto& absent) {
    if (value != absent) line[key] = value;
  };
  const std::string none;
  add(head, "engine", job.engine, none);
  head["layout"] = job.layout;
  add(head, "transport", job.transport, none);
  add(head, "machines", job.machines, 0);
  add(head, "processor", job.processor, none);
  add(head, "processors", job.processors, 0);
  head["rules"] = section.rules.size();
  std::string text = json_text(head) + "\n";
  for (size_t i = 0; i < section.rules.size(); ++i) {
    const Rule& rule = section.rules[i];
    Json line = {{"collective", to_string(rule.collective)}};
    add(line, "layout", rule.layout, none);
    add(line, "from", rule.from, int64_t{0});
    add(line, "to", rule.to, INT64_MAX);
    line["algorithm"] = std::string(rule.algorithm->name);
    if (rule.pacing) line["pacing"] = to_string(*rule.pacing);
    add(line, "window", rule.window, 1U);
    add(line, "pieces", rule.pieces, 0U);
    if (i < notes.size() && !notes[i].empty()) line["note"] = notes[i];
    text += json_text(line) + "\n";
  }
  return text;
}

}  // namespace ibcoll
