#pragma once
/// Runs commands through the shell, and finds their processes and the files that they leave.

#include <sys/types.h>

#include <set>
#include <string>
#include <vector>

namespace ibcoll::testing_tools {

struct CommandRan {
  int status = -1;  ///< exit status; 128 and the signal's number if one ended it
  std::string out;  ///< standard output: with " 2>&1" in the command errors, too
};

/// Runs a command to its end.
CommandRan run_command(const std::string& command);

/// Whether a launcher, the first word of `command`, and the program that it is to start are there.
bool can_launch(const std::string& command, const std::string& program);

/// The processes whose command line begins with `program` and has the text in it; arguments end
/// with a zero byte each. A process that ends meanwhile has none.
std::vector<pid_t> processes_with(const std::string& text, const std::string& program = "");

/// But for those of MPIs and of UCX, which tests that run beside this one start.
std::set<std::string> files_in_dev_shm();

}  // namespace ibcoll::testing_tools
