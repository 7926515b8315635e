#pragma once
/// What to say where a device gives something no more: which of its limits may be the cause.

#include <cstdint>
#include <string>

#include "engine/base/result.h"
#include "verbs/device.h"

namespace ibcoll::verbs {

/// Why `what` ("4096 bytes of mail slots") could not be registered; `error`: errno. Where the limit
/// of locked memory or one of the device's is the cause, it is named.
tl::unexpected<Error> registration_error(const Device& device, const std::string& what,
                                         uint64_t bytes, int error);
/// Why there is no `what` ("queue pair").
tl::unexpected<Error> queue_pair_error(const Device& device, const std::string& what, int error);
/// Why there is no completion queue of so many entries.
tl::unexpected<Error> completion_queue_error(const Device& device, uint64_t entries, int error);
/// Why there is no shared receive queue of so many receives.
tl::unexpected<Error> receive_queue_error(const Device& device, uint64_t receives, int error);

}  // namespace ibcoll::verbs
