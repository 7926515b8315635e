#pragma once
/// Runs a command on machines.

#include "tests/machines/namespaces.h"
#include "tests/machines/options.h"

namespace ibcoll::machines {

/// In a world: makes the machines, starts the command and gives its exit status.
Result<int> run_command_on(const Options& options);

/// A machine as the environment of the head tells of it.
struct Known {
  std::string name;
  pid_t keeper = -1;
  int ranks = 0;
};
/// Fails anywhere but on the head.
Result<std::vector<Known>> known_machines();

/// On the head of machines that there are: starts the command once a rank, and gives its exit
/// status.
Result<int> start_on_all(const std::vector<std::string>& command);

/// What mpirun and mpiexec start instead of ssh: `words` are options, which are passed over, the
/// name of a machine and a command for its shell. With `whole`, a program and its arguments.
Result<int> enter(const std::vector<std::string>& words, bool whole);

}  // namespace ibcoll::machines
