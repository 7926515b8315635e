#include "engine/core/group_records.h"

#include <algorithm>

#include "engine/base/hash.h"

namespace ibcoll {

namespace {

// Ranks are less than 2^32: no longer list without an identifier or a tag comes to the same.
constexpr uint64_t kIdentified = uint64_t{1} << 32;
constexpr uint64_t kTagged = uint64_t{1} << 33;
constexpr uint64_t kDerived = uint64_t{1} << 34;

/// Of a set, `members` ascending: as a bitmap, a step for each word that is not zero.
uint64_t list_of_set(std::span<const Rank> members, uint64_t tag) {
  constexpr Rank kBits = 64;
  uint64_t list = mix(mix(0, members.size()), kTagged);
  for (size_t i = 0; i < members.size();) {
    const Rank word = members[i] / kBits;
    uint64_t bits = 0;
    for (; i < members.size() && members[i] / kBits == word; ++i)
      bits |= uint64_t{1} << (members[i] % kBits);
    list = mix(list, bits ^ scramble(static_cast<uint64_t>(word) + 1));
  }
  return mix(list, tag);
}

uint64_t list_of(std::span<const Rank> members, uint64_t id, uint64_t origin = 0) {
  uint64_t list = mix(0, members.size());
  for (const Rank rank : members) list = mix(list, static_cast<uint64_t>(rank) + 1);
  if (origin != 0) return mix(mix(list, kDerived), origin);
  return id == 0 ? list : mix(mix(list, kIdentified), id);
}

}  // namespace

bool GroupRecords::has_live(std::span<const Rank> members, uint64_t id) const {
  const auto found = records_.find(list_of(members, id));
  return found != records_.end() && found->second.live != 0;
}

bool GroupRecords::has_ended(std::span<const Rank> members, uint64_t id) const {
  const auto found = records_.find(list_of(members, id));
  return found != records_.end() && found->second.ended;
}

void GroupRecords::ended(uint64_t list) {
  const auto found = records_.find(list);
  if (found != records_.end()) found->second.ended = true;
}

GroupIdentity GroupRecords::add(std::span<const Rank> members, uint64_t id, uint64_t origin) {
  const uint64_t list = list_of(members, id, origin);
  Record& record = records_[list];
  GroupIdentity identity;
  identity.list = list;
  identity.identifier = id;
  identity.number = record.made++;
  identity.key = mix(list, identity.number) & ~kByArrivalKey;
  identity.calls = record.calls;
  // The first group of a list has no history, which is what most groups are.
  if (identity.number != 0) {
    record.history = static_cast<uint32_t>(mix(record.history, identity.calls) >> 32);
  }
  identity.history = record.history;
  return identity;
}

GroupIdentity GroupRecords::add_call(std::span<const Rank> members, uint64_t tag) {
  GroupIdentity identity;
  identity.list = list_of_set(members, tag);
  identity.identifier = tag;
  identity.number = set_calls_.take(identity.list);
  identity.of_set = true;
  // The highest bit is not the groups'.
  identity.key = mix(identity.list, identity.number) >> 1;
  return identity;
}

uint32_t* GroupRecords::entered(const GroupIdentity& identity, const GroupState& group) {
  if (identity.of_set) {
    live_calls_.push_back({&group, identity.number});
    return nullptr;
  }
  live_groups_[identity.key] = &group;
  Record& record = records_[identity.list];
  record.died = 0;
  ++record.live;
  return &record.calls;
}

void GroupRecords::left(const GroupIdentity& identity, const GroupState& group) {
  if (identity.of_set) {
    const auto found = std::find_if(live_calls_.rbegin(), live_calls_.rend(),
                                    [&](const LiveCall& call) { return call.group == &group; });
    *found = live_calls_.back();
    return live_calls_.pop_back();
  }
  live_groups_.erase(identity.key);
  Record& record = records_[identity.list];
  if (--record.live != 0) return;
  record.died = ++deaths_;
  dead_.push_back({identity.list, record.died});
  if (dead_.size() > 2 * records_.size() + 16) {
    std::erase_if(dead_, [this](const Death& death) {
      const auto found = records_.find(death.list);
      return found == records_.end() || found->second.died != death.number;
    });
  }
  while (records_.size() > kRemembered && !dead_.empty()) forget_oldest();
}

bool GroupRecords::has_made(uint64_t list, uint32_t number, const CallKey& call) const {
  const auto found = records_.find(list);
  if (found == records_.end()) return has_made_on_set(list, number, call);
  if (found->second.made <= number) return false;
  const auto live = live_groups_.find(call.group);
  if (live != live_groups_.end())
    return static_cast<int32_t>(live->second->calls.taken() - call.sequence) > 0;
  return true;  // whoever frees a group has made all its calls
}

bool GroupRecords::has_made_on_set(uint64_t list, uint32_t number, const CallKey& call) const {
  if (set_calls_.made(list) <= number) return false;
  for (const LiveCall& live : live_calls_) {
    if (live.group->key == call.group)
      return static_cast<int32_t>(live.group->calls.taken() - call.sequence) > 0;
  }
  return true;
}

bool GroupRecords::made_several(uint64_t group) const {
  for (const LiveCall& live : live_calls_) {
    if (live.group->key == group) return live.number > 0;
  }
  const auto live = live_groups_.find(group);
  if (live == live_groups_.end()) return false;
  const auto record = records_.find(live->second->list);
  return record != records_.end() && record->second.made > 1;
}

void GroupRecords::forget_oldest() {
  const auto found = records_.find(dead_.front().list);
  if (found != records_.end() && found->second.died == dead_.front().number) records_.erase(found);
  dead_.pop_front();
}

}  // namespace ibcoll
