#pragma once
/// Machines that are namespaces of this one: each has a host name, a network interface with an
/// address, a boot id, process ids, System V memory and a /dev/shm of its own. Files are shared.

#include <sched.h>
#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "engine/base/result.h"
#include "engine/base/unique_fd.h"
#include "engine/schedule/shape.h"

namespace ibcoll::machines {

/// The most machines there can be: their addresses are of one subnet.
inline constexpr int kMostMachines = 200;
/// Memory that all machines share: files of this world, which vanish with it.
inline constexpr const char* kSharedFolder = "/dev/shm/.machines";
/// The subnet of all, and the interface that each has in it.
inline constexpr const char* kSubnet = "10.88.0.0/24";
inline constexpr const char* kInterface = "eth0";

/// "m1" of machine 0.
std::string machine_name(int machine);
std::string machine_address(int machine);

/// Runs `body` as the first process of a world of its own, as its root, and gives its exit status
/// (128 + N if signal N ended it; also where this process got SIGINT, SIGTERM or SIGHUP meanwhile).
/// Nothing of that world outlives `body`, nor this process, however that ends. Fails, in one line
/// that says what is missing, where namespaces may not be made. Call it with one thread.
Result<int> run_in_world(const std::function<int()>& body);

/// The processes that keep the machines. Made in a world; they end with it.
class Machines {
 public:
  struct Machine {
    pid_t keeper = -1;  ///< as the world numbers processes
  };

  /// Makes the machines, joined by a bridge that this process has an address on, too, as the
  /// machine "head". The cores of this process are dealt to the machines by their ranks, or all of
  /// them have all.
  static Result<Machines> create(const Shape& shape, bool share_cores);

  /// Those that others have made: of the keepers with these process ids.
  static Machines of(const std::vector<pid_t>& keepers);

  const Machine& operator[](int machine) const { return machines_[static_cast<size_t>(machine)]; }
  int count() const { return static_cast<int>(machines_.size()); }

 private:
  std::vector<Machine> machines_;
};

/// Moves this process to the machine that `keeper` keeps, and forks there: in the child it gives 0.
/// The child is killed when its parent ends.
Result<pid_t> fork_into(pid_t keeper);

/// The descriptor that becomes readable when a child has ended (SIGCHLD) or the process is asked to
/// end; blocks these signals.
Result<UniqueFd> watch_signals();
/// As before watch_signals() or run_in_world(), for programs that are started.
void unblock_signals();

/// An exit status as a shell gives it, of a status of waitpid().
int shell_status(int status);

/// Runs a command by the shell; fails with what it said.
Status run_checked(const std::string& command);

}  // namespace ibcoll::machines
