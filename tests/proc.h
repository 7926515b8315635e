#pragma once
/// What the kernel tells of processes, in /proc.

#include <sys/types.h>

#include <cstddef>
#include <string>

namespace ibcoll::testing {

/// Whether a signal has stopped it.
bool is_stopped(pid_t process);

/// The threads of this process that are not about to end: the kernel may list one for a moment
/// after it has been joined.
int running_threads();

/// How many threads this process has, whose program runs none but the calling one: 1, or with the
/// thread sanitizer, which starts threads of its own with the program's first, more.
int threads_of_its_own();

/// The memory of this process that no file backs and that nobody shares, without what is free:
/// of others, such as a program's text, the kernel may take pages and bring them back.
size_t anonymous_bytes();

/// The memory behind those of this process's mappings that have `name` in theirs, as far as this
/// process has touched it.
size_t resident_bytes(const std::string& name);

}  // namespace ibcoll::testing
