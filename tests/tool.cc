#include "tests/tool.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "engine/base/input.h"
#include "engine/base/json.h"

namespace ibcoll::testing_tools {

const std::filesystem::path& folder() {
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

std::string file(const std::string& name, const std::string& text) {
  const auto path = folder() / name;
  std::ofstream(path) << text;
  return path;
}

Ran run_shell(const std::string& command) {
  const std::string err = folder() / "err";
  Ran ran;
  CommandRan ended = run_command(command + " 2>" + err);
  ran.status = ended.status;
  ran.out = std::move(ended.out);
  ran.err = read_input(err).value_or("");  // none of a command that was not reached
  return ran;
}

Ran run_tool(const std::string& tool, const std::string& arguments) {
  return run_shell(bin_dir() + "/" + tool + " " + arguments);
}

std::vector<nlohmann::json> json_lines(const std::string& text) {
  std::vector<nlohmann::json> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    lines.push_back(parse_json(line).value_or(nlohmann::json()));
    EXPECT_FALSE(lines.back().is_null()) << line;
  }
  return lines;
}

void expect_refused(const std::string& tool, const std::string& arguments, const std::string& what,
                    int status) {
  const Ran ran = run_tool(tool, arguments);
  EXPECT_EQ(ran.status, status) << arguments;
  EXPECT_EQ(ran.out, "") << arguments;
  EXPECT_NE(ran.err.find(what), std::string::npos) << arguments << ": " << ran.err;
  EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
}

void expect_failed(const std::string& tool, const std::string& arguments, const std::string& what) {
  expect_refused(tool, arguments, what, 1);
}

}  // namespace ibcoll::testing_tools
