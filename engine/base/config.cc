#include "engine/base/config.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <iterator>
#include <numeric>
#include <utility>

#include "engine/base/log.h"
#include "engine/base/network_names.h"
#include "engine/base/units.h"

extern char** environ;

namespace ibcoll {
namespace {

constexpr std::string_view kPrefix = "IBCOLL_";

/// What the environment says, or the default.
std::string text_of(const Variable& row) {
  const char* text = std::getenv(row.name.data());
  return std::string(text != nullptr && *text != '\0' ? std::string_view(text) : row.default_value);
}

Result<bool> read_bool(std::string_view text) {
  for (const char* yes : {"1", "on", "yes", "true"}) {
    if (text == yes) return true;
  }
  for (const char* no : {"0", "off", "no", "false"}) {
    if (text == no) return false;
  }
  return fail(ErrorCode::kInvalidArgument, "neither on nor off");
}

std::vector<std::string> choices_of(const Variable& row) {
  std::vector<std::string> all;
  for (const std::string_view choice : split(row.choices, ',')) all.emplace_back(choice);
  if (row.or_network)
    for (const std::string_view name : network_names()) all.emplace_back(name);
  return all;
}

Result<std::string> read_choice(const Variable& row, const std::string& text) {
  const auto choices = choices_of(row);
  if (std::find(choices.begin(), choices.end(), text) != choices.end()) return text;
  return fail(ErrorCode::kInvalidArgument, "not a choice");
}

Result<int64_t> read_size(const Variable& row, std::string_view text) {
  IBCOLL_ASSIGN(const int64_t bytes, parse_size(text));
  if (bytes >= row.low && bytes <= row.high) return bytes;
  return fail(ErrorCode::kInvalidArgument, "out of range");
}

/// Also as partition keys are written: 0x8001.
Result<int64_t> read_integer(const Variable& row, std::string_view text) {
  constexpr std::string_view kHex = "0x";
  uint64_t value = 0;
  if (text.substr(0, kHex.size()) == kHex) {
    const char* const last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data() + kHex.size(), last, value, 16);
    if (end == last && error == std::errc())
      return parse_integer(std::to_string(value), row.low, row.high, row.name);
  }
  return parse_integer(text, row.low, row.high, row.name);
}

/// The value with an error that says it all.
template <class T>
Result<T> explained(const Variable& row, const std::string& text, Result<T> value) {
  if (value) return value;
  return fail(ErrorCode::kInvalidArgument, "{}='{}' is not allowed: it takes {}", row.name, text,
              describe_type(row));
}

template <class T, class Read>
Result<T> read_row(const Variable& row, const Read& read) {
  const std::string text = text_of(row);
  return explained<T>(row, text, read(text));
}

Status check(const Variable& row) {
  const std::string text = text_of(row);
  const auto outcome = [&](auto value) -> Status {
    IBCOLL_TRY(explained(row, text, std::move(value)));
    return {};
  };
  switch (row.type) {
    case VariableType::kBool:
      return outcome(read_bool(text));
    case VariableType::kInteger:
      return outcome(read_integer(row, text));
    case VariableType::kSize:
      return outcome(read_size(row, text));
    case VariableType::kDuration:
      return outcome(parse_duration(text));
    case VariableType::kChoice:
      return outcome(read_choice(row, text));
    case VariableType::kString:
      break;
  }
  return {};
}

/// Letters to insert, drop or change to make one text of the other.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t change = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({change, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

void warn_unknown(std::string_view name) {
  const auto nearest = std::min_element(
      std::begin(kVariables), std::end(kVariables), [&](const Variable& a, const Variable& b) {
        return edit_distance(name, a.name) < edit_distance(name, b.name);
      });
  // A third of the letters wrong is no misspelling.
  const bool near = edit_distance(name, nearest->name) <= (name.size() - kPrefix.size()) / 3 + 1;
  log().warn("unknown variable {} in the environment has no effect{}", name,
             near ? fmt::format(" (did you mean {}?)", nearest->name) : "");
}

/// "(docs/ucx.md)" as a page in docs/ links to it: "([ucx.md](ucx.md))".
std::string with_links(std::string_view text) {
  constexpr std::string_view kFolder = "docs/", kEnd = ".md";
  std::string linked;
  for (size_t at = 0; (at = text.find(kFolder)) != text.npos;) {
    const size_t end = text.find(kEnd, at) + kEnd.size();
    const std::string_view page = text.substr(at + kFolder.size(), end - at - kFolder.size());
    linked += text.substr(0, at);
    linked += fmt::format("[{0}]({0})", page);
    text.remove_prefix(end);
  }
  return linked.append(text);
}

}  // namespace

Result<bool> config_bool(VariableName<VariableType::kBool> name) {
  return read_row<bool>(name.row(), read_bool);
}

Result<int64_t> config_integer(VariableName<VariableType::kInteger> name) {
  return read_row<int64_t>(name.row(),
                           [&](std::string_view text) { return read_integer(name.row(), text); });
}

Result<int64_t> config_size(VariableName<VariableType::kSize> name) {
  return read_row<int64_t>(name.row(),
                           [&](std::string_view text) { return read_size(name.row(), text); });
}

Result<int64_t> config_duration(VariableName<VariableType::kDuration> name) {
  return read_row<int64_t>(name.row(), parse_duration);
}

Result<std::string> config_string(VariableName<VariableType::kString> name) {
  return text_of(name.row());
}

Result<std::string> config_choice(VariableName<VariableType::kChoice> name) {
  return read_row<std::string>(
      name.row(), [&](const std::string& text) { return read_choice(name.row(), text); });
}

std::vector<std::string> config_choices(VariableName<VariableType::kChoice> name) {
  return choices_of(name.row());
}

Status check_environment() {
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    if (name.substr(0, kPrefix.size()) != kPrefix) continue;
    const bool known = std::any_of(std::begin(kVariables), std::end(kVariables),
                                   [&](const Variable& row) { return row.name == name; });
    // The ranks of a job have one environment as a rule: one of them tells.
    if (!known && log_rank() <= 0) warn_unknown(name);
  }
  std::string wrong;
  for (const Variable& row : kVariables) {
    if (const Status status = check(row); !status) {
      wrong += (wrong.empty() ? "" : "; ") + status.error().message;
    }
  }
  if (!wrong.empty()) return fail(ErrorCode::kInvalidArgument, "{}", wrong);
  return {};
}

std::vector<ConfigEntry> current_config() {
  std::vector<ConfigEntry> entries;
  for (const Variable& row : kVariables) {
    const char* text = std::getenv(row.name.data());
    entries.push_back({&row, text_of(row), text != nullptr && *text != '\0'});
  }
  return entries;
}

std::string describe_type(const Variable& row) {
  const auto range = [&](auto format) {
    return row.high == INT64_MAX ? fmt::format("{} or more", format(row.low))
                                 : fmt::format("{} to {}", format(row.low), format(row.high));
  };
  switch (row.type) {
    case VariableType::kBool:
      return "on or off";
    case VariableType::kInteger:
      return "a whole number, " + range([](int64_t value) { return fmt::to_string(value); });
    case VariableType::kSize:
      return "a size, " + range(format_size);
    case VariableType::kDuration:
      return "a duration like 200us, 1.5s or 2min";
    case VariableType::kString:
      return "text";
    case VariableType::kChoice:
      return fmt::format("one of {}", fmt::join(choices_of(row), ", "));
  }
  return "";
}

std::string environment_markdown() {
  std::string text =
      "# Environment variables\n\n"
      "<!-- Made from engine/base/config_table.h by `./run docs`; a test compares the two. -->\n\n"
      "ibcoll reads these variables when it starts. If a value is not allowed, an error names\n"
      "the variable, the value and what is allowed. A variable whose name starts with\n"
      "`IBCOLL_` but is not listed here causes a warning. `ib_info` prints the values that are\n"
      "in effect. UCX and the UCC team layer have variables of their own: see\n"
      "[ucx.md](ucx.md) and [ucc.md](ucc.md).\n";
  for (const VariableSection& section : kVariableSections) {
    text += fmt::format("\n## {}\n\n{}\n\n", section.heading, with_links(section.about));
    text += "| variable | value | default | what it does |\n|---|---|---|---|\n";
    for (const Variable& row : kVariables) {
      if (row.group != section.group) continue;
      text += fmt::format(
          "| `{}` | {} | {} | {} |\n", row.name, describe_type(row),
          row.default_value.empty() ? "(empty)" : fmt::format("`{}`", row.default_value),
          with_links(row.help));
    }
  }
  return text;
}

}  // namespace ibcoll
