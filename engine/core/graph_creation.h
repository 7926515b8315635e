#pragma once
/// How the ranks of a group come to a graph that all of them agree on.

#include <memory>
#include <string_view>

#include "engine/core/group.h"

namespace ibcoll {

/// What a rank passes: its neighbours, as ranks of the group. The lists may be null where they are
/// empty.
struct GraphLists {
  int64_t sources = 0, destinations = 0;
  const Rank* source_ranks = nullptr;
  const Rank* destination_ranks = nullptr;
  std::string_view refused = {};  ///< what else was wrong with the call; empty: nothing
};

/// A call of all ranks of the group: the ranks of a server tell each other their lists, and one
/// allreduce says whether all agree. Only where they do not, or where a list can't be right, they
/// look for a culprit; all ranks then get the same error, and the group goes on.
Result<std::shared_ptr<const Graph>> create_graph(Group& group, const GraphLists& lists);

}  // namespace ibcoll
