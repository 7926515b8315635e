#pragma once
/// What the interface promises, worked out from its documentation alone: what each byte of each
/// buffer is after a call, and which errors may come of what has happened. Shares no code with the
/// engine.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/lockstep/program.h"

namespace ibcoll::lockstep {

/// What was done to the job so far, on any rank. What is not in here must not be the cause of an
/// error.
struct Faults {
  uint64_t dead = 0;           ///< bit r: rank r has died
  uint64_t died_amid = 0;      ///< the same of those whose program was not over
  bool memory_failed = false;  ///< the library was refused memory somewhere
  bool call_failed = false;    ///< a system call of the library's failed somewhere
  bool flipped = false;        ///< a bit of data was, and everything is checked (IBCOLL_CHECK)

  /// Whoever is refused what it needs outside of a call gives up.
  bool refused() const { return memory_failed || call_failed; }
  /// Ranks were stopped, or time passed, for so long that deadlines (IBCOLL_DEADLINE, and the time
  /// that ranks have to confirm the end of a group) may have passed.
  bool late = false;
};

/// Byte `from` and those that follow of a block: data of 64-bit words that repeat nowhere.
void fill_block(uint64_t base, uint64_t from, std::byte* to, size_t bytes);
/// What makes a block's data differ from any other's.
uint64_t block_base(uint64_t seed, uint32_t call, uint32_t instance, int origin, int target);
/// Target of a block that is for all, or is combined.
inline constexpr int kForAll = 1023;

/// A block of a buffer, with offsets from the buffer's begin.
struct PlacedBlock {
  ibcoll_block place;
  int origin;
  int target;  ///< in neighbour calls plus 64 times which copy of the edge it is

  int64_t bytes() const { return ibcoll_block_bytes(place); }
};

/// Calls body(offset from the buffer, first byte of the block, bytes) for each run of a block, in
/// the order of its bytes.
template <class Body>
void for_each_run(const ibcoll_block& block, const Body& body) {
  uint64_t from = 0;
  for (int64_t outer = 0; outer < block.outer_count; ++outer) {
    for (int64_t i = 0; i < block.count; ++i) {
      body(block.offset + outer * block.outer_stride + i * block.stride, from,
           static_cast<size_t>(block.bytes));
      from += static_cast<uint64_t>(block.bytes);
    }
  }
}

/// A rank's buffer of a call. Bytes of it that are in no block are none of the library's business.
struct BufferPlan {
  std::vector<PlacedBlock> blocks;
  size_t bytes = 0;   ///< of the whole
  int64_t begin = 0;  ///< where the pointer points that is passed
  bool used = false;  ///< else null is passed

  void clear();
};

/// A rank's part of a call, as its arguments say it.
struct CallPlan {
  int me = 0, ranks = 0;  ///< in the group
  bool in_place = false;  ///< here
  BufferPlan send, recv;
  size_t element_bytes = 1;
  size_t elements = 0;          ///< that every rank gives to be combined
  size_t first_result = 0;      ///< elements of the result that are not received before this rank's
  size_t results = 0;           ///< elements of the result that are received here
  std::vector<int64_t> counts;  ///< of reduce_scatter, in elements
};

/// Members of what a call is made on, as ranks of the job.
std::vector<Rank> members_of(const Program& program, const CallSpec& spec);
bool is_member(const Program& program, const CallSpec& spec, Rank rank);
/// Its number among them; -1 for others.
int id_in(const Program& program, const CallSpec& spec, Rank rank);
int size_of(const Program& program, const CallSpec& spec);

/// How long each block is and where all lie.
void plan_call(const Program& program, const Action& action, Rank me, CallPlan& plan);

/// What an exchange of counts is about: how many bytes one rank of the group sends to another.
int64_t exchanged_count(const Program& program, const Action& action, int origin, int target);
enum class Knows : uint8_t { kBoth, kOrigin, kTarget };
Knows who_knows(const Program& program, const Action& action, int origin, int target);

/// Writes what a buffer holds before the call: the blocks that this rank gives, and all else filled
/// with `rest`.
void write_before(const Program& program, const Action& action, uint32_t instance,
                  const CallPlan& plan, bool send, std::byte rest, std::byte* buffer);

/// Results of reductions, each worked out once for all ranks that ask for it in this process.
class Expectations {
 public:
  /// All elements of the combination of what all ranks give.
  const std::byte* combined(const Program& program, const Action& action, uint32_t instance,
                            const CallPlan& plan);
  /// The same of ranks 0 to `last` alone: valid until the next one.
  const std::byte* prefix(const Program& program, const Action& action, uint32_t instance,
                          const CallPlan& plan, int last);

 private:
  struct Entry {
    uint64_t seed = 0;
    uint32_t number = UINT32_MAX, instance = 0;
    std::vector<std::byte> bytes;
  };
  std::array<Entry, 16> entries_;
  std::vector<std::byte> prefix_, input_;
};

/// Compares a buffer after a call that returned IBCOLL_OK; gives what is wrong, or "".
class Checker {
 public:
  std::string check(const Program& program, const Action& action, uint32_t instance,
                    const CallPlan& plan, bool send, std::byte rest, const std::byte* buffer,
                    Expectations& expectations);

 private:
  void write_after(const Program& program, const Action& action, uint32_t instance,
                   const CallPlan& plan, bool send, std::byte rest, const std::byte* buffer,
                   Expectations& expectations);

  std::vector<std::byte> expected_;
};

/// The operator's function, as ibcoll_combine; `context` is the OperatorSpec.
const char* combine_own(void* target, const void* source, size_t elements, void* context);
const char* combine_own_reversed(void* target, const void* source, size_t elements, void* context);
size_t element_bytes(const Program& program, const CallSpec& spec);

/// An error that a call gave.
struct Outcome {
  ibcoll_status status = IBCOLL_OK;
  ibcoll_scope scope = IBCOLL_SCOPE_NONE;
  std::string_view text;
};

/// What of a program may end what, and so which errors may come, and whom they have to name.
class Causes {
 public:
  explicit Causes(const Program& program);

  /// What is wrong with an error of a call, of making a graph, or of a multicast; "" where it has a
  /// cause.
  std::string check(const Action& action, const Outcome& outcome, const Faults& faults) const;
  /// What is wrong with an error that has ended the job; "" where it has a cause.
  std::string check_job(const Outcome& outcome, const Faults& faults) const;
  /// What is wrong with the error of a function on that group; "" where it has a cause.
  std::string check_group(uint32_t group, const Outcome& outcome, const Faults& faults) const;
  /// What is wrong with the error of a receive that tells of a rank's end; "" where it has a cause.
  std::string check_receive(const Outcome& outcome, const Faults& faults) const;

 private:
  /// What may end a group, or a call that stands for itself.
  struct Ends {
    uint64_t members = 0;     ///< ranks of the job
    uint64_t cancellers = 0;  ///< the same
    bool deadline = false;
    bool operators = false;  ///< some fail
  };
  std::string check(const Ends& ends, const Outcome& outcome, const Faults& faults) const;

  std::vector<Ends> groups_;
  std::vector<Ends> calls_;  ///< by number; of those on sets, and of multicasts
  bool disagrees_ = false;
};

/// The first rank that a line names as "rank 3" at `from` or later, which moves behind that; -1:
/// none.
Rank rank_named(std::string_view text, size_t& from);
/// Whether a line names one of these ranks.
bool names_one_of(std::string_view text, uint64_t ranks);

}  // namespace ibcoll::lockstep
