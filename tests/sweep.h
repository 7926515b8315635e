#pragma once
/// Executes every registered algorithm, on awkward shapes, with poisoned buffers, and checks the
/// result byte for byte. The programs of these tests share it, so that they can run side by side.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/job.h"

namespace ibcoll::testing {

/// One call: what, how, how large.
struct Case {
  const Algorithm* algorithm;
  Pacing pacing;
  size_t block_bytes;
  bool in_place;
  bool shared_memory;  ///< the engine's own buffers
  uint32_t pieces;
  uint32_t number;
  bool ordered;
  int graph = -1;  ///< of graphs_for(), where the collective has one

  Rank root(int ranks) const;
  std::string name() const;
};

/// What a rank sends from or receives into, in one case after the other. Pages that a case has
/// touched are there for the next one: where a page costs 15 us, new memory for each takes most of
/// a sweep.
class Memory {
 public:
  explicit Memory(Context& context) : context_(context) {}
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  /// Memory of so many poisoned bytes, the engine's own or not, which is the case's until the next
  /// call.
  std::byte* take(size_t bytes, bool shared);

 private:
  Context& context_;
  std::byte* shared_ = nullptr;
  size_t shared_bytes_ = 0;
  std::vector<std::byte> private_;
};

/// What a rank needs of memory in a sweep.
struct CaseMemory {
  explicit CaseMemory(Context& context) : send(context), recv(context) {}
  Memory send, recv;
  std::vector<std::byte> sent;      ///< what was in the memory that is sent from
  std::vector<std::byte> expected;  ///< what has to be in the other's in the end
};

/// Length of the block `origin` has for `target` in the call of that number; where blocks differ,
/// many are 0, some large.
size_t block_length(const Block& block, const Case& c);

/// All algorithms, with every pacing they heed, at these sizes.
std::vector<Case> cases(const std::vector<size_t>& sizes, uint32_t number);
/// Of the cases that may go every seventh, others for another `first`, where a sanitizer runs: they
/// take ten times as long there.
std::vector<Case> affordable(std::vector<Case> all, uint32_t first,
                             const std::function<bool(const Case&)>& may_go);

/// What each rank of a sweep does.
std::function<void(const RankView&)> all_cases(const std::vector<size_t>& sizes, uint32_t first);

/// Expects that a job does all of them right. They are counted from `first` on: whether a case is
/// in place, in whose memory and in how many pieces goes by its number.
void sweep(const JobOptions& job, const std::vector<size_t>& sizes, uint32_t first = 0);

/// Servers of so many ranks each.
Shape shape_of(std::vector<int> ranks_of_server, Placement placement = Placement::kBlock);

/// One server, one rank a server, equal and unequal servers, in all placements.
std::vector<Shape> shapes(int ranks);

}  // namespace ibcoll::testing
