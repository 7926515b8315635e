#pragma once
/// Jobs whose ranks mean different things by a call, and what all of them then have to say.

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "tests/job.h"

namespace ibcoll::testing {

/// A call from its start to its end.
Status make(Group& group, const CallArguments& arguments);

/// CallMemory for calls of up to four ranks and 100000 bytes a block.
struct CallMemory {
  std::vector<std::byte> send = std::vector<std::byte>(400'000);
  std::vector<std::byte> recv = std::vector<std::byte>(400'000);

  CallArguments arguments(Collective collective, size_t bytes, Rank root = 0);
};

/// A job that takes waits for a cycle after half a second.
JobOptions impatient(const std::vector<int>& ranks_of_server);

/// Every rank must get a mismatch whose line has `texts` in it, at the latest when it leaves.
void expect_named(const JobOptions& job, const std::vector<std::string>& texts,
                  const std::function<Status(const RankView&)>& body);

inline const std::vector<std::vector<int>> kLayouts = {{2}, {1, 1}};

}  // namespace ibcoll::testing
