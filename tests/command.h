#pragma once
/// Runs a command through the shell.

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

namespace ibcoll::testing_tools {

struct CommandRan {
  int status = -1;  ///< exit status; 128 and the signal's number if one ended it
  std::string out;  ///< standard output: with " 2>&1" in the command errors, too
};

inline CommandRan run_command(const std::string& command) {
  CommandRan ran;
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return ran;
  std::array<char, 4096> chunk{};
  for (size_t got; (got = fread(chunk.data(), 1, chunk.size(), pipe)) > 0;)
    ran.out.append(chunk.data(), got);
  const int status = pclose(pipe);
  ran.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ran;
}

}  // namespace ibcoll::testing_tools
