#pragma once
/// Counts of v-collectives that only one side knows.

#include "engine/core/group.h"

namespace ibcoll {

/// Fills in the counts that only the other side knows (-1): collective over the group. See
/// ibcoll_exchange_counts.
Status exchange_counts(Group& group, int64_t* send_counts, int64_t* recv_counts);
/// The same between a root, which has one count a rank, and the others. See
/// ibcoll_exchange_root_counts.
Status exchange_root_counts(Group& group, int64_t* own_count, int64_t* counts, Rank root);

}  // namespace ibcoll
