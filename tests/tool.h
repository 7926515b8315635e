#pragma once
/// Runs tools as a user does: through the shell.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/json.h"
#include "tests/command.h"
#include "tests/places.h"

namespace ibcoll::testing_tools {

struct Ran {
  int status = -1;
  std::string out, err;
};

/// A folder of this process's own, removed at its end.
inline const std::filesystem::path& folder() {
  struct Folder {
    std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("tool_test." + std::to_string(getpid()));
    Folder() { std::filesystem::create_directories(path); }
    ~Folder() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
  };
  static const Folder folder;
  return folder.path;
}

/// A file of that name and content in folder(), as a path.
inline std::string file(const std::string& name, const std::string& text) {
  const auto path = folder() / name;
  std::ofstream(path) << text;
  return path;
}

/// A shell's command, with what it says on standard error.
inline Ran run_shell(const std::string& command) {
  const std::string err = folder() / "err";
  Ran ran;
  CommandRan ended = run_command(command + " 2>" + err);
  ran.status = ended.status;
  ran.out = std::move(ended.out);
  std::stringstream text;
  text << std::ifstream(err).rdbuf();
  ran.err = text.str();
  return ran;
}

/// The tool of build/bin with these arguments.
inline Ran run_tool(const std::string& tool, const std::string& arguments) {
  return run_shell(bin_dir() + "/" + tool + " " + arguments);
}

/// The lines of an output that is JSON and nothing else.
inline std::vector<nlohmann::json> json_lines(const std::string& text) {
  std::vector<nlohmann::json> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    lines.push_back(parse_json(line).value_or(nlohmann::json()));
    EXPECT_FALSE(lines.back().is_null()) << line;
  }
  return lines;
}

/// Wrong usage: exit status 2, nothing printed, one line on standard error that says `what`.
inline void expect_refused(const std::string& tool, const std::string& arguments,
                           const std::string& what, int status = 2) {
  const Ran ran = run_tool(tool, arguments);
  EXPECT_EQ(ran.status, status) << arguments;
  EXPECT_EQ(ran.out, "") << arguments;
  EXPECT_NE(ran.err.find(what), std::string::npos) << arguments << ": " << ran.err;
  EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
}

/// Bad input or output: the same with exit status 1.
inline void expect_failed(const std::string& tool, const std::string& arguments,
                          const std::string& what) {
  expect_refused(tool, arguments, what, 1);
}

}  // namespace ibcoll::testing_tools
