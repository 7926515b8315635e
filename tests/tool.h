#pragma once
/// Runs tools as a user does: through the shell.

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tests/command.h"
#include "tests/places.h"

namespace ibcoll::testing_tools {

struct Ran {
  int status = -1;
  std::string out, err;
};

/// A folder of this process's own, removed at its end.
const std::filesystem::path& folder();

/// A file of that name and content in folder(), as a path.
std::string file(const std::string& name, const std::string& text);

/// A shell's command, with what it says on standard error.
Ran run_shell(const std::string& command);

/// The tool of build/bin with these arguments.
Ran run_tool(const std::string& tool, const std::string& arguments);

/// The lines of an output that is JSON and nothing else.
std::vector<nlohmann::json> json_lines(const std::string& text);

/// Wrong usage: exit status 2, nothing printed, one line on standard error that says `what`.
void expect_refused(const std::string& tool, const std::string& arguments, const std::string& what,
                    int status = 2);

/// Bad input or output: the same with exit status 1.
void expect_failed(const std::string& tool, const std::string& arguments, const std::string& what);

}  // namespace ibcoll::testing_tools
