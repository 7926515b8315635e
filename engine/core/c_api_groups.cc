// The C interface: groups.

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <span>
#include <vector>

#include "engine/core/c_api.h"
#include "engine/core/c_api_structs.h"
#include "engine/core/group_shrink.h"
#include "engine/core/late_checks.h"

using namespace ibcoll;  // this file is nothing but the C face of that namespace
using namespace ibcoll::c_api;

namespace {

/// `options`: null for the defaults.
Result<uint64_t> id_in(const ibcoll_group_options* options) {
  if (options == nullptr) return 0;
  ibcoll_group_options copy;
  IBCOLL_ASSIGN(const ibcoll_group_options* const whole,
                of_this_version("ibcoll_group_options", options, copy));
  return whole->id;
}

ibcoll_status hand_out(ibcoll_context& context, Result<std::shared_ptr<Group>> made,
                       ibcoll_group** group) {
  if (!made) return report(made.error());
  ibcoll_group& handle = context.groups.take();
  handle.context = &context;
  handle.group = std::move(*made);
  *group = &handle;
  return IBCOLL_OK;
}

ibcoll_status make_group(ibcoll_context& context, std::vector<Rank> members,
                         const ibcoll_group_options* options, ibcoll_group** group) {
  const auto id = id_in(options);
  if (!id) return report(id.error());
  return hand_out(context, context.context->groups().create(std::move(members), *id), group);
}

/// What is still to be said of the group's calls (IBCOLL_CHECK=late).
Status settle_checks(ibcoll_group& group) {
  if (group.set) return {};
  const GroupServices& services = group.group->services();
  if (services.late_checks == nullptr || services.executor.failed()) return {};
  const Busy busy(group);
  return services.late_checks->settle(*group.group);
}

}  // namespace

Result<std::vector<Rank>> ibcoll::c_api::ranks_in(std::span<const uint64_t> bitmap, int size,
                                                  const char* what) {
  constexpr size_t kBits = 64;
  std::vector<Rank> ranks;
  for (size_t word = 0; word < bitmap.size(); ++word) {
    for (uint64_t rest = bitmap[word]; rest != 0; rest &= rest - 1) {
      const size_t rank = word * kBits + static_cast<size_t>(std::countr_zero(rest));
      if (rank >= static_cast<size_t>(size)) {
        return fail(ErrorCode::kInvalidArgument,
                    "rank {} can't be in {}: the job's ranks are 0 to {}", rank, what, size - 1);
      }
      ranks.push_back(static_cast<Rank>(rank));
    }
  }
  return ranks;
}

void ibcoll::c_api::cancel(Group& group, std::string_view what) {
  const Rank me = group.rank_in_job();
  group.services().executor.end_group(
      group.state(),
      {me, ErrorCode::kCancelled, fmt::format("rank {} has cancelled {}", me, what)});
}

ibcoll_group* ibcoll_world(ibcoll_context* context) {
  return is_live(context) ? &context->world : nullptr;
}

ibcoll_status ibcoll_group_create(ibcoll_context* context, const int* ranks, int count,
                                  ibcoll_group** group) {
  return ibcoll_group_create_with(context, ranks, count, nullptr, group);
}

ibcoll_status ibcoll_group_create_with(ibcoll_context* context, const int* ranks, int count,
                                       const ibcoll_group_options* options, ibcoll_group** group) {
  if (!is_live(context)) return refuse_handle("context", context);
  if (ranks == nullptr || group == nullptr || count < 0) {
    return refuse("the ranks or the place for the group are null, or their number is negative");
  }
  // Whoever says more than there can be has no list of that length.
  if (const int size = ibcoll_size(context); count > size)
    return refuse(fmt::format("{} ranks can't be in a group: the job has {}", count, size));
  return inside_job(*context, [&] {
    return make_group(*context, std::vector<Rank>(ranks, ranks + count), options, group);
  });
}

ibcoll_status ibcoll_group_create_from_bitmap(ibcoll_context* context, const uint64_t* words,
                                              size_t word_count,
                                              const ibcoll_group_options* options,
                                              ibcoll_group** group) {
  if (!is_live(context)) return refuse_handle("context", context);
  if (words == nullptr || group == nullptr)
    return refuse("the bitmap or the place for the group is null");
  return inside_job(*context, [&]() -> ibcoll_status {
    Result<std::vector<Rank>> members =
        ranks_in({words, word_count}, context->context->size(), "a group");
    if (!members) return report(members.error());
    return make_group(*context, std::move(*members), options, group);
  });
}

ibcoll_status ibcoll_group_free(ibcoll_group* group) {
  if (group == nullptr) return IBCOLL_OK;
  if (!is_live(group)) return refuse_handle("group", group);
  if (group == &group->context->world)
    return refuse("the world group belongs to the context and can't be freed");
  return inside(*group->context, [&]() -> ibcoll_status {
    if (group->busy) return refuse("another thread is in a blocking call on this group");
    const ibcoll_status verdict = give(settle_checks(*group));
    group->blocking.reset();
    group->set.reset();
    group->group.reset();  // its requests keep what they need of it
    group->context->groups.give_back(*group);
    return verdict;
  });
}

ibcoll_status ibcoll_group_cancel(ibcoll_group* group) {
  if (!is_live(group)) return refuse_handle("group", group);
  if (group->set) return refuse("calls on a set end one by one (ibcoll_cancel)");
  return inside_job(*group->context, [&] {
    cancel(*group->group, "its group");
    return IBCOLL_OK;
  });
}

ibcoll_status ibcoll_group_status(ibcoll_group* group) {
  if (!is_live(group)) return refuse_handle("group", group);
  return inside_job(*group->context, [&]() -> ibcoll_status {
    if (group->set) return IBCOLL_OK;
    const std::optional<Error>& over = group->group->state().over;
    return over ? report(*over) : IBCOLL_OK;
  });
}

ibcoll_status ibcoll_group_failed(ibcoll_group* group, int* ranks, int* count) {
  if (!is_live(group)) return refuse_handle("group", group);
  if (count == nullptr || *count < 0 || (ranks == nullptr && *count > 0))
    return refuse("the number of ranks is null or negative, or there is no place for the ranks");
  if (group->set) return refuse("a set has no ranks of its own that could fail: make it a group");
  return inside(*group->context, [&] {
    const std::vector<Rank> failed = failed_members(*group->context->context, *group->group);
    std::copy_n(failed.begin(), std::min<size_t>(failed.size(), static_cast<size_t>(*count)),
                ranks);
    *count = static_cast<int>(failed.size());
    return IBCOLL_OK;
  });
}

ibcoll_status ibcoll_group_shrink(ibcoll_group* group, const ibcoll_group_options* options,
                                  ibcoll_group** survivors) {
  if (!is_live(group)) return refuse_handle("group", group);
  if (survivors == nullptr) return refuse("the place for the group is null");
  if (group->set) return refuse("a set can't shrink: name a set of the ranks that are left");
  return inside_job(*group->context, [&]() -> ibcoll_status {
    if (group->busy) return refuse("another thread is in a blocking call on this group");
    const auto id = id_in(options);
    if (!id) return report(id.error());
    const Busy busy(*group);
    ibcoll_context& context = *group->context;
    return hand_out(context, shrink(*context.context, *group->group, *id), survivors);
  });
}

int ibcoll_group_rank(const ibcoll_group* group) {
  if (!is_live(group)) return -1;
  return group->set ? group->set->rank : group->group->rank();
}

int ibcoll_group_size(const ibcoll_group* group) {
  if (!is_live(group)) return -1;
  return group->set ? static_cast<int>(group->set->members.size()) : group->group->size();
}

const char* ibcoll_algorithm_to_try(ibcoll_group* group, ibcoll_collective collective,
                                    size_t block_bytes, int index) {
  if (!is_live(group) || group->set || index < 0) return nullptr;
  if (static_cast<size_t>(collective) >= kCollectives.size()) return nullptr;
  const auto of = static_cast<Collective>(collective);
  const int64_t bytes = static_cast<int64_t>(std::min<size_t>(block_bytes, INT64_MAX));
  AlgorithmNames all;
  (void)inside(*group->context, [&]() -> ibcoll_status {
    all = group->group->plans().worth_trying(of, size_to_choose_by(of, bytes));
    return IBCOLL_OK;
  });
  // The names in the table are literals.
  return static_cast<size_t>(index) < all.count ? all.names[static_cast<size_t>(index)].data()
                                                : nullptr;
}
