#include "tests/command.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

namespace ibcoll::testing_tools {

CommandRan run_command(const std::string& command) {
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

bool can_launch(const std::string& command, const std::string& program) {
  const std::string found = "command -v " + command.substr(0, command.find(' ')) + " >/dev/null";
  return std::system(found.c_str()) == 0 && std::filesystem::exists(program);
}

std::vector<pid_t> processes_with(const std::string& text, const std::string& program) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const int file = open((entry.path() / "cmdline").c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) continue;
    std::string line(4096, '\0');
    const ssize_t got = read(file, line.data(), line.size());
    close(file);
    line.resize(got > 0 ? static_cast<size_t>(got) : 0);
    if (line.starts_with(program) && line.find(text) != std::string::npos)
      found.push_back(std::atoi(entry.path().filename().c_str()));
  }
  return found;
}

std::set<std::string> files_in_dev_shm() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("vader_segment") && !name.starts_with("mpich") &&
        !name.starts_with("ucx_shm_posix"))
      names.insert(name);
  }
  return names;
}

}  // namespace ibcoll::testing_tools
