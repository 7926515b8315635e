#include "verbs/limit_errors.h"

#include <sys/resource.h>

#include <cerrno>
#include <cstring>

#include "engine/base/units.h"

namespace ibcoll::verbs {

namespace {

tl::unexpected<Error> refused(const Device& device, const std::string& what, int error,
                              const std::string& limit) {
  return fail(error == ENOMEM ? ErrorCode::kNoMemory : ErrorCode::kSystem, "{}: no {}: {} ({})",
              device.port().name(), what, std::strerror(error), limit);
}

}  // namespace

tl::unexpected<Error> registration_error(const Device& device, const std::string& what,
                                         uint64_t bytes, int error) {
  const PortInfo& port = device.port();
  std::string hint;
  rlimit limit{};
  if (bytes > port.max_registration_bytes)
    hint = fmt::format(" (the device registers {} at once at most)",
                       format_size(static_cast<int64_t>(port.max_registration_bytes)));
  else if ((error == ENOMEM || error == EPERM) && getrlimit(RLIMIT_MEMLOCK, &limit) == 0 &&
           limit.rlim_cur != RLIM_INFINITY)
    hint = fmt::format(" (ulimit -l allows this process to lock {})",
                       format_size(static_cast<int64_t>(limit.rlim_cur)));
  else if (error == ENOMEM)
    hint =
        fmt::format(" (the device has {} registrations for all processes)", port.max_registrations);
  return fail(error == ENOMEM ? ErrorCode::kNoMemory : ErrorCode::kSystem,
              "{} can't be registered with {}: {}{}", what, port.name(), std::strerror(error),
              hint);
}

tl::unexpected<Error> queue_pair_error(const Device& device, const std::string& what, int error) {
  const PortInfo& port = device.port();
  return refused(device, what, error,
                 fmt::format("the device has {} for all processes, of {} work requests each; a "
                             "rank takes two and one for each connection (IBCOLL_MAX_CONNECTIONS)",
                             port.max_queue_pairs, port.max_work_requests));
}

tl::unexpected<Error> completion_queue_error(const Device& device, uint64_t entries, int error) {
  const PortInfo& port = device.port();
  return refused(
      device, fmt::format("completion queue of {} entries", entries), error,
      fmt::format("the device has {} queues for all processes, of {} entries each; a rank "
                  "takes four",
                  port.max_completion_queues, port.max_completions));
}

tl::unexpected<Error> receive_queue_error(const Device& device, uint64_t receives, int error) {
  const PortInfo& port = device.port();
  return refused(device, fmt::format("shared receive queue of {} receives", receives), error,
                 fmt::format("the device has {} queues for all processes, of {} receives each; a "
                             "rank takes one",
                             port.max_shared_queues, port.max_shared_receives));
}

}  // namespace ibcoll::verbs
