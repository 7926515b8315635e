// What stands here for pmix.cc in a build without pmix.h.

#include "engine/bootstrap/process_manager.h"

namespace ibcoll {

Result<std::unique_ptr<ProcessManager>> connect_pmix() {
  return fail(ErrorCode::kUnsupported,
              "the launcher speaks PMIx, but this build was made without pmix.h (libpmix-dev)");
}

}  // namespace ibcoll
