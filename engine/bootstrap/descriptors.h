#pragma once
/// Limits of this process on open files.

#include <cstddef>
#include <string>

#include "engine/base/result.h"

namespace ibcoll {

/// Files a process opens besides those that grow with the job.
inline constexpr size_t kOwnFiles = 64;

/// How many files this process has open; 0 where the kernel does not say.
size_t open_files();

/// Raises the soft limit, where it is lower, so that `more` files can be opened besides those that
/// are open; as far as the hard limit lets it.
void make_room_for_files(size_t more);

/// The error that a failed call left in errno, with what helps where that is too many open files.
[[nodiscard]] tl::unexpected<Error> fail_opening(const std::string& what);

}  // namespace ibcoll
