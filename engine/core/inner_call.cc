#include "engine/core/inner_call.h"

#include <new>

#include "engine/core/call.h"

namespace ibcoll {

Status make_inner_call(Group& group, const CallArguments& arguments) {
  Call call(group);
  try {
    IBCOLL_TRY(call.prepare(arguments));
    IBCOLL_TRY(call.start());
    return call.wait();
  } catch (const std::bad_alloc&) {
    return tl::unexpected<Error>(
        group.services().executor.give_up({ErrorCode::kNoMemory, "out of memory"}));
  }
}

}  // namespace ibcoll
