#pragma once
/// Reads the `IBCOLL_*` environment variables by the table of config_table.h.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/config_table.h"
#include "engine/base/result.h"

namespace ibcoll {

/// The name of a variable of one type; a name that the table lacks, or has with another type, does
/// not compile.
template <VariableType type>
class VariableName {
 public:
  // Implicit: config_size("IBCOLL_HEAP").
  consteval VariableName(const char* name) : row_(find(name)) {}
  const Variable& row() const { return *row_; }

 private:
  static consteval const Variable* find(std::string_view name) {
    for (const Variable& row : kVariables) {
      if (row.name == name && row.type == type) return &row;
    }
    throw "no such variable of this type in config_table.h";
  }
  const Variable* row_;
};

/// The value that the environment gives the variable, or else its default. Errors name the
/// variable, its value and what is allowed. A variable that is set but empty counts as not set. The
/// environment is read on every call: call at start-up, not where time matters.
Result<bool> config_bool(VariableName<VariableType::kBool> name);
Result<int64_t> config_integer(VariableName<VariableType::kInteger> name);
/// In bytes.
Result<int64_t> config_size(VariableName<VariableType::kSize> name);
/// In nanoseconds.
Result<int64_t> config_duration(VariableName<VariableType::kDuration> name);
Result<std::string> config_string(VariableName<VariableType::kString> name);
/// One of its choices.
Result<std::string> config_choice(VariableName<VariableType::kChoice> name);
/// All values that it may have.
std::vector<std::string> config_choices(VariableName<VariableType::kChoice> name);

/// Looks at all `IBCOLL_*` variables that are set: warns in the log of names that the table lacks,
/// with the nearest one that it has (in a job rank 0 alone does), and fails if a value is not
/// allowed (one line, all of them). Called once, at start-up.
Status check_environment();

/// One variable as it stands, for people.
struct ConfigEntry {
  const Variable* row;
  std::string value;  ///< as set, or the default
  bool set;           ///< by the environment
};
std::vector<ConfigEntry> current_config();

/// "size", "on or off", "one of block, cyclic", "0 to 1048576".
std::string describe_type(const Variable& row);

/// The text of docs/environment.md.
std::string environment_markdown();

}  // namespace ibcoll
