#include "engine/core/groups.h"

#include <algorithm>

namespace ibcoll {

Result<std::shared_ptr<Group>> Groups::create(std::vector<Rank> members, uint64_t id) {
  IBCOLL_TRY(check_members(members, "a group"));
  if (id != 0 && services_.records.has_live(members, id)) {
    return fail(
        ErrorCode::kInvalidArgument,
        "there is a group of these {} ranks with the identifier {}: it, or a request of it, "
        "has not been freed",
        members.size(), id);
  }
  if (services_.records.has_ended(members, id)) {
    return fail(ErrorCode::kInvalidArgument,
                "an earlier group of these {} ranks{} was ended before its time: give the new one "
                "another identifier",
                members.size(), id == 0 ? "" : fmt::format(" with the identifier {}", id));
  }
  return add(std::move(members), id, 0);
}

Result<std::shared_ptr<Group>> Groups::derive(std::vector<Rank> members, uint64_t id,
                                              uint64_t origin) {
  IBCOLL_TRY(check_members(members, "a group"));
  return add(std::move(members), id, origin);
}

Status Groups::end_derived(std::vector<Rank> members, uint64_t id, uint64_t origin,
                           const Failure& why) {
  IBCOLL_ASSIGN(const std::shared_ptr<Group> group, add(std::move(members), id, origin));
  services_.executor.end_group(group->state(), why);
  return {};
}

Result<std::shared_ptr<Group>> Groups::add(std::vector<Rank>&& members, uint64_t id,
                                           uint64_t origin) {
  IBCOLL_ASSIGN(Shape shape, shape_of(members));
  const GroupIdentity identity = services_.records.add(members, id, origin);
  return make(std::move(members), std::move(shape), identity);
}

Result<std::shared_ptr<Group>> Groups::of_call(std::vector<Rank> members, uint64_t tag) {
  IBCOLL_TRY(check_members(members, "a set"));
  IBCOLL_ASSIGN(Shape shape, shape_of(members));
  const GroupIdentity identity = services_.records.add_call(members, tag);
  return make(std::move(members), std::move(shape), identity);
}

std::shared_ptr<Group> Groups::make(std::vector<Rank>&& members, Shape&& shape,
                                    const GroupIdentity& identity) {
  const std::vector<int>& all = job_.fabric_order.hosts;
  std::vector<int> hosts;
  for (int server = 0; server < shape.servers() && !all.empty(); ++server) {
    const Rank first = members[static_cast<size_t>(shape.rank_at(server, 0))];
    hosts.push_back(all[static_cast<size_t>(job_.shape.server_of(first))]);
  }
  return std::make_shared<Group>(services_, me_, std::move(shape), std::move(members),
                                 std::move(hosts), identity);
}

Status Groups::check_members(std::span<const Rank> members, const char* what) {
  if (members.empty()) return fail(ErrorCode::kInvalidArgument, "{} needs at least one rank", what);
  Executor& executor = services_.executor;
  executor.look_at_deaths();
  const Rank ranks = job_.shape.ranks();
  bool ascending = true, has_me = false;
  Rank before = -1;
  for (const Rank rank : members) {
    if (rank < 0 || rank >= ranks) {
      return fail(ErrorCode::kInvalidArgument,
                  "rank {} can't be in {}: the job's ranks are 0 to {}", rank, what, ranks - 1);
    }
    ascending &= rank > before;
    before = rank;
    has_me |= rank == me_;
    if (executor.has_lost(rank)) [[unlikely]]
      return fail(ErrorCode::kPeerFailed, "rank {} can't be in {}: {}", rank, what,
                  executor.why_lost(rank));
  }
  if (!ascending) {
    std::vector<Rank> sorted(members.begin(), members.end());
    std::sort(sorted.begin(), sorted.end());
    if (const auto twice = std::adjacent_find(sorted.begin(), sorted.end()); twice != sorted.end())
      return fail(ErrorCode::kInvalidArgument, "rank {} stands in {} twice", *twice, what);
  }
  if (!has_me) {
    return fail(ErrorCode::kInvalidArgument, "rank {} uses {} that it is not in", me_, what);
  }
  return {};
}

/// Servers of the members: numbered by their place in the job's order of servers. `members` differ
/// from each other; those of all ranks in their order share the job's tables.
Result<Shape> Groups::shape_of(std::span<const Rank> members) const {
  if (members.size() == static_cast<size_t>(job_.shape.ranks()) &&
      std::is_sorted(members.begin(), members.end()))
    return job_.shape;
  std::vector<int> server_of(members.size());
  for (size_t i = 0; i < members.size(); ++i) server_of[i] = job_.shape.server_of(members[i]);
  if (std::is_sorted(server_of.begin(), server_of.end())) {  // as mostly
    int number = -1, before = -1;
    for (int& server : server_of) {
      number += static_cast<int>(server != before);
      before = server;
      server = number;
    }
  } else {
    std::vector<int> servers = server_of;
    std::sort(servers.begin(), servers.end());
    servers.erase(std::unique(servers.begin(), servers.end()), servers.end());
    for (int& server : server_of) {
      const auto place = std::lower_bound(servers.begin(), servers.end(), server);
      server = static_cast<int>(place - servers.begin());
    }
  }
  return Shape::create(server_of);
}

}  // namespace ibcoll
