// machines: runs a command on several machines that are namespaces of this one; see its --help.

#include <unistd.h>

#include "tests/machines/run.h"

namespace {

using namespace ibcoll;
using namespace ibcoll::machines;

/// Wrong usage, and what this machine lacks.
int refuse(const Error& error) {
  fmt::print(stderr, "machines: {}\n", error.message);
  return 2;
}

int run_all(const Options& options) {
  const auto ran = run_in_world([&options] {
    const Result<int> status = run_command_on(options);
    return status ? *status : refuse(status.error());
  });
  return ran ? *ran : refuse(ran.error());
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && (words[0] == "enter" || words[0] == "ssh")) {
    const bool whole = words[0] == "enter";
    words.erase(words.begin());
    const auto status = enter(words, whole);
    // At once: its children belong to the machine, and a leak checker would wait for one for ever.
    _exit(status ? *status : refuse(status.error()));
  }
  if (!words.empty() && words[0] == "start") {
    words.erase(words.begin());
    const auto status = start_on_all(words);
    return status ? *status : refuse(status.error());
  }
  const auto options = parse_options(words);
  if (!options) return refuse(options.error());
  if (options->help) {
    fmt::print("{}", kHelp);
    return 0;
  }
  return run_all(*options);
}
