// The C interface: memory.

#include <fmt/format.h>

#include <cstdint>
#include <limits>

#include "engine/core/c_api.h"
#include "engine/execute/user_registrations.h"

using namespace ibcoll;  // this file is nothing but the C face of that namespace
using namespace ibcoll::c_api;

namespace {

/// Why that can't be memory, if it can't.
Status check_memory(const void* address, size_t bytes) {
  if (address == nullptr && bytes != 0)
    return fail(ErrorCode::kInvalidArgument, "the address of {} bytes is null", bytes);
  if (bytes > std::numeric_limits<uintptr_t>::max() - reinterpret_cast<uintptr_t>(address)) {
    return fail(ErrorCode::kInvalidArgument, "{} bytes at {} do not fit the address space", bytes,
                address);
  }
  return {};
}

}  // namespace

namespace ibcoll::c_api {

void drop(ibcoll_memory& memory) {
  memory.context->context->executor().user_registrations().remove(memory.registration);
  memory.registration = {};
  memory.context->memories.give_back(memory);
}

}  // namespace ibcoll::c_api

ibcoll_status ibcoll_alloc(ibcoll_context* context, size_t bytes, void** address) {
  if (!is_live(context)) return refuse_handle("context", context);
  if (address == nullptr) return refuse("the place for the address is null");
  return inside(*context, [&] {
    const Result<void*> memory = context->context->allocate(bytes);
    if (memory) *address = *memory;
    return give(memory);
  });
}

ibcoll_status ibcoll_free(ibcoll_context* context, void* address) {
  if (!is_live(context)) return refuse_handle("context", context);
  if (address == nullptr) return IBCOLL_OK;
  return inside(*context, [&]() -> ibcoll_status {
    Context& engine = *context->context;
    const size_t bytes = engine.job().local().heap().bytes_at(address);
    if (engine.executor().user_registrations().touch(static_cast<std::byte*>(address), bytes))
      return refuse(fmt::format("{} is registered: deregister it before it is freed", address));
    return give(engine.free(address));
  });
}

ibcoll_status ibcoll_memory_register(ibcoll_context* context, void* address, size_t bytes,
                                     ibcoll_memory** memory) {
  if (!is_live(context)) return refuse_handle("context", context);
  if (memory == nullptr) return refuse("the place for the registered memory is null");
  return inside(*context, [&]() -> ibcoll_status {
    Executor& executor = context->context->executor();
    if (executor.failed()) return report(*executor.failed());
    if (const Status good = check_memory(address, bytes); !good) return report(good.error());
    ibcoll_memory& made = context->memories.take();
    made.context = context;
    made.registration.begin = static_cast<std::byte*>(address);
    made.registration.bytes = bytes;
    Status added;
    try {
      added = executor.user_registrations().add(made.registration);
    } catch (...) {
      drop(made);
      throw;
    }
    if (added) {
      *memory = &made;
    } else {
      drop(made);
    }
    return give(added);
  });
}

ibcoll_status ibcoll_memory_deregister(ibcoll_memory* memory) {
  if (memory == nullptr) return IBCOLL_OK;
  if (!is_live(memory)) return refuse_handle("registered memory", memory);
  return inside(*memory->context, [&]() -> ibcoll_status {
    const UserRegistration& registration = memory->registration;
    // Nothing of a job that has ended is under way.
    if (registration.users != 0 && !memory->context->context->executor().failed()) {
      return refuse(
          fmt::format("{} bytes at {} can't be deregistered: a call that is under way uses them",
                      registration.bytes, fmt::ptr(registration.begin)));
    }
    drop(*memory);
    return IBCOLL_OK;
  });
}

ibcoll_status ibcoll_memory_is_shared(const ibcoll_context* context, const void* address,
                                      size_t bytes, int* shared) {
  if (!is_live(context)) return refuse_handle("context", context);
  if (shared == nullptr) return refuse("the place for the answer is null");
  return guarded([&]() -> ibcoll_status {
    if (const Status good = check_memory(address, bytes); !good) return report(good.error());
    *shared = context->context->job().local().in_region(address, bytes) ? 1 : 0;
    return IBCOLL_OK;
  });
}
