#pragma once
/// How processes ended, in the one form that every message about it has.

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "engine/bootstrap/bootstrap.h"

namespace ibcoll {

/// Where no more is known.
Failure death_of(Rank rank);

/// "rank 3 (pid 4711) was killed by signal 9 (Killed)", "rank 3 (pid 4711) ended with status 5".
/// `status`: as waitpid() gives it; nothing: not known.
Failure end_of_rank(Rank rank, pid_t pid, std::optional<int> status);

/// Where the kernel has put the program that a process runs: elsewhere after each execve, the same
/// in forked children.
struct ProgramPlace {
  uint64_t code = 0, stack = 0, arguments = 0;
  bool operator==(const ProgramPlace&) const = default;
};
/// Of a process that has a program; nothing once it ends, or where the kernel does not say.
std::optional<ProgramPlace> program_of(pid_t pid);

/// What became of a rank whose process has let go of what it had open, and goes on: "rank 3 (pid
/// 4711) has executed another program". `before`: where its program was. Nothing where the process
/// is ending, or has ended.
std::optional<Failure> left_by_living(Rank rank, pid_t pid, int pidfd,
                                      const std::optional<ProgramPlace>& before);

/// The status of a process that is ending or has ended and need not be a child of this one; waits a
/// moment for it. By the kernel's record behind `pidfd` (since Linux 6.15), or as long as its
/// parent has not taken it: of old kernels and quick parents nothing is learned.
std::optional<int> status_of_ended(pid_t pid, int pidfd);

}  // namespace ibcoll
