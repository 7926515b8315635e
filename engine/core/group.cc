#include "engine/core/group.h"

#include <algorithm>

#include "engine/base/hash.h"

namespace ibcoll {

Group::Group(const GroupServices& services, Rank me, Shape shape, std::vector<Rank> members,
             std::vector<int>&& hosts, const GroupIdentity& identity)
    : services_(services),
      identity_(identity),
      state_(std::move(shape)),
      plans_(services.plan_sources, state_, std::move(hosts)) {
  state_.key = identity.key;
  state_.list = identity.list;
  state_.identifier = identity.identifier;
  state_.of_set = identity.of_set;
  state_.asking = static_cast<uint32_t>(mix(identity.list, 0)) + identity.number;
  const auto place = std::find(members.begin(), members.end(), me);
  state_.me = static_cast<Rank>(place - members.begin());
  state_.to_job = std::move(members);
  if (uint32_t* const counted = services.records.entered(identity_, state_))
    calls_of_list_ = counted;
  services.executor.enter(state_);
}

Group::~Group() {
  services_.executor.leave(state_);
  services_.records.left(identity_, state_);
  if (state_.gate_slot) services_.local.close_gates(*state_.gate_slot, state_.over.has_value());
}

}  // namespace ibcoll
