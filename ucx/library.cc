#include "ucx/library.h"

#include <dlfcn.h>
#include <ucs/debug/log_def.h>

#include <cstdarg>
#include <cstdio>
#include <mutex>

#include "engine/base/kept_signals.h"
#include "engine/base/log.h"
#include "ucx/broken_sends.h"

namespace ibcoll::ucx {
namespace {

constexpr const char* kLibrary = "libucp.so.0";

thread_local std::string last_message;

/// UCX's own lines go to standard output, which belongs to the program.
ucs_log_func_rc_t keep_line(const char*, unsigned, const char*, ucs_log_level_t level,
                            const ucs_log_component_config_t*, const char* format,
                            va_list arguments) {
  if (level > UCS_LOG_LEVEL_DIAG) return UCS_LOG_FUNC_RC_STOP;
  char line[400];
  if (std::vsnprintf(line, sizeof line, format, arguments) < 0) return UCS_LOG_FUNC_RC_STOP;
  if (level <= UCS_LOG_LEVEL_ERROR) last_message = line;
  // Whoever called decides whether this is an error.
  if (level <= UCS_LOG_LEVEL_WARN)
    log().info("UCX: {}", line);
  else
    log().debug("UCX: {}", line);
  return UCS_LOG_FUNC_RC_STOP;
}

Result<Library> load() {
  void* const before = dlopen(kLibrary, RTLD_NOW | RTLD_NOLOAD);
  // libucs takes SIGSEGV and others when it is loaded.
  const KeptSignalActions kept;
  void* const file = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (file == nullptr) return fail(ErrorCode::kUnsupported, "UCX can't be loaded: {}", dlerror());
  Library ucp;
  const char* missing = nullptr;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(file, name));
    if (function == nullptr) missing = name;
  };
#define IBCOLL_UCP_FIND(name) find(ucp.name, "ucp_" #name);
  IBCOLL_UCP_CALLS(IBCOLL_UCP_FIND)
#undef IBCOLL_UCP_FIND
  find(ucp.status_string, "ucs_status_string");
  if (missing != nullptr)
    return fail(ErrorCode::kUnsupported, "{} is too old: it has no {}", kLibrary, missing);
  decltype(&ucs_log_push_handler) push_handler = nullptr;
  find(push_handler, "ucs_log_push_handler");
  put_off_broken_sends(ucp);
  if (before == nullptr && push_handler != nullptr) push_handler(keep_line);
  return ucp;
}

}  // namespace

Result<Library*> library() {
  static Result<Library> loaded = load();
  if (!loaded) return tl::unexpected<Error>(loaded.error());
  return &*loaded;
}

std::string explain(const Library& ucp, ucs_status_t status) {
  const char* const meaning = ucp.status_string(status);
  return last_message.empty() ? meaning : fmt::format("{} ({})", meaning, last_message);
}

void forget_messages() { last_message.clear(); }

}  // namespace ibcoll::ucx
