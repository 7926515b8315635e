// The C interface: calls on sets of ranks.

#include <algorithm>
#include <memory>
#include <vector>

#include "engine/core/c_api.h"

using namespace ibcoll;  // this file is nothing but the C face of that namespace
using namespace ibcoll::c_api;

namespace {

/// Runs body(Group&) on the group of this rank's next call on the set.
template <class Body>
Status on_bitmap(ibcoll_context& context, std::span<const uint64_t> bitmap, uint64_t tag,
                 Body&& body) {
  IBCOLL_ASSIGN(std::vector<Rank> members, ranks_in(bitmap, context.context->size(), "a set"));
  return on_set(context, std::move(members), tag, body);
}

}  // namespace

ibcoll_status ibcoll_set_call_init(ibcoll_context* context, const uint64_t* members, size_t words,
                                   uint64_t tag, const ibcoll_call* call,
                                   ibcoll_request** request) {
  if (!is_live(context)) return refuse_handle("context", context);
  if (members == nullptr || call == nullptr || request == nullptr)
    return refuse("the set, the call or the place for the request is null");
  return inside_job(*context, [&] {
    return give(on_bitmap(*context, {members, words}, tag, [&](Group& group) {
      return make_request(*context, group, *call, request);
    }));
  });
}

ibcoll_status ibcoll_set_call(ibcoll_context* context, const uint64_t* members, size_t words,
                              uint64_t tag, const ibcoll_call* call) {
  if (!is_live(context)) return refuse_handle("context", context);
  if (members == nullptr || call == nullptr) return refuse("the set or the call is null");
  return inside_job(*context, [&] {
    return give(on_bitmap(*context, {members, words}, tag, [&](Group& group) -> Status {
      ibcoll_call copy;
      IBCOLL_ASSIGN(const ibcoll_call* const whole, blocking_call(call, copy));
      Call once(group);
      return carry_out(*context, once, *whole);
    }));
  });
}

ibcoll_status ibcoll_set_group(ibcoll_context* context, const uint64_t* members, size_t words,
                               uint64_t tag, ibcoll_group** group) {
  if (!is_live(context)) return refuse_handle("context", context);
  if (members == nullptr || group == nullptr)
    return refuse("the set or the place for the group is null");
  return inside_job(*context, [&]() -> ibcoll_status {
    Result<std::vector<Rank>> ranks = ranks_in({members, words}, context->context->size(), "a set");
    if (!ranks) return report(ranks.error());
    if (const Status right = context->context->groups().check_members(*ranks, "a set"); !right)
      return report(right.error());
    const auto me = std::lower_bound(ranks->begin(), ranks->end(), context->context->rank());
    const auto rank = static_cast<int>(me - ranks->begin());
    auto set = std::make_unique<CallsOnSet>(CallsOnSet{std::move(*ranks), tag, rank});
    ibcoll_group& handle = context->groups.take();
    handle.context = context;
    handle.set = std::move(set);
    *group = &handle;
    return IBCOLL_OK;
  });
}
