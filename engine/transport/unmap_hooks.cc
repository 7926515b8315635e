// UCX's memory hooks, behind the watch over unmapped memory.

#include <dlfcn.h>
#include <ucm/api/ucm.h>

#include "engine/base/kept_signals.h"
#include "engine/base/log.h"
#include "engine/transport/unmap_watch.h"

namespace ibcoll {

namespace {

/// UCX's memory hooks, loaded when they are first wanted: programs without such a network do
/// without. They stay loaded, since they have changed the C library's functions.
struct UcmLibrary {
  decltype(&ucm_set_event_handler) set = nullptr;
  decltype(&ucm_unset_event_handler) unset = nullptr;
  std::string missing;  ///< why they are not there

  UcmLibrary() {
    // libucs takes SIGSEGV and others, and would print its own account of the application's
    // crashes.
    const KeptSignalActions kept;
    // libucm takes symbols from libucs without saying so, and libucs brings libucm along.
    void* ucs = dlopen("libucs.so.0", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (ucs == nullptr) {
      const char* const reason = dlerror();
      missing = reason != nullptr ? reason : "libucs.so.0 does not load";
      return;
    }
    set = reinterpret_cast<decltype(set)>(dlsym(ucs, "ucm_set_event_handler"));
    unset = reinterpret_cast<decltype(unset)>(dlsym(ucs, "ucm_unset_event_handler"));
    if (set == nullptr || unset == nullptr) missing = "libucs.so.0 comes without UCX's libucm";
  }
};

const UcmLibrary& ucm() {
  static const UcmLibrary library;
  return library;
}

}  // namespace

struct UnmapHook {
  static void call(ucm_event_type_t, ucm_event_t* event, void* self) {
    const auto begin = reinterpret_cast<uintptr_t>(event->vm_unmapped.address);
    static_cast<UnmapWatch*>(self)->note({begin, begin + event->vm_unmapped.size});
  }
};

std::string UnmapWatch::missing() { return ucm().missing; }

std::unique_ptr<UnmapWatch> UnmapWatch::create() {
  std::unique_ptr<UnmapWatch> watch(new UnmapWatch);
  if (!ucm().set || !ucm().unset ||
      ucm().set(UCM_EVENT_VM_UNMAPPED, 0, &UnmapHook::call, watch.get()) != UCS_OK) {
    log().debug("unmapped memory is not noticed: buffers are registered for each call");
    return nullptr;
  }
  return watch;
}

UnmapWatch::~UnmapWatch() {
  if (ucm().unset) ucm().unset(UCM_EVENT_VM_UNMAPPED, &UnmapHook::call, this);
}

}  // namespace ibcoll
