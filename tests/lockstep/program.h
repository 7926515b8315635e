#pragma once
/// Random programs of a job: what its ranks call, as data that all of them know.
///
/// A program is one list of actions. Every rank goes through all of it in this order and does its
/// own part of each action, so that calls are started in one order everywhere; what is started is
/// waited for by an action further down, or when the program ends. So no program can block itself:
/// of the ranks that wait, those whose action comes first wait for calls that all their members
/// have made.
///
/// How the blocks of a call lie, how long each one is, and what is in them follows from the
/// program's seed and the call's number alone (model.h), so that actions stay short, and removing
/// one of them leaves the others as they are.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ibcoll/ibcoll.h"

namespace ibcoll::lockstep {

using Rank = int;

/// Ranks of a job that a program can have: sets are one word.
inline constexpr int kMostRanks = 64;

/// What is called and counted; the first are those of ibcoll_collective, with their numbers.
enum class Operation : uint8_t {
  kAlltoall,
  kAlltoallv,
  kAllgather,
  kAllgatherv,
  kGather,
  kGatherv,
  kScatter,
  kScatterv,
  kBcast,
  kReduce,
  kBarrier,
  kAllreduce,
  kReduceScatter,
  kReduceScatterBlock,
  kScan,
  kExscan,
  kAlltoallw,
  kNeighborAllgather,
  kNeighborAllgatherv,
  kNeighborAlltoall,
  kNeighborAlltoallv,
  kNeighborAlltoallw,
  kExchangeCounts,
  kExchangeRootCounts,
  kMakeGraph,
  kMulticast,
  kReceive,
  kMakeGroup,
  kShrink,
  kCancel,    ///< of a call or group
  kRefused,   ///< a call with arguments that can't be right
  kDisagree,  ///< a call on which ranks disagree
};
inline constexpr int kOperations = static_cast<int>(Operation::kDisagree) + 1;
/// Those before are ibcoll_collectives.
inline constexpr int kCollectives = static_cast<int>(Operation::kExchangeCounts);
const char* to_string(Operation operation);
bool reduces(Operation operation);
bool is_of_neighbors(Operation operation);

/// An algorithm that a call may name.
struct NamedAlgorithm {
  Operation operation = Operation::kBarrier;
  std::string name;
  bool ordered = false;  ///< keeps the order of ranks on every shape
  bool paced = false;    ///< heeds ibcoll_options::pacing
};

/// Parts of the interface that a program uses.
struct Features {
  bool nonblocking = true;
  bool persistent = true;
  bool groups = true;
  bool shrinks = true;  ///< groups of those that are left, of all ranks
  bool sets = true;
  bool graphs = true;
  bool multicasts = true;
  bool strided = true;
  bool in_place = true;
  bool reductions = true;
  bool own_operators = true;
  bool counts = true;       ///< ibcoll_exchange_counts() and its like
  bool memory = true;       ///< that of ibcoll_alloc(), and registered
  bool descriptors = true;  ///< calls are waited for by the descriptor of the context
  bool pauses = true;
  bool refusals = true;  ///< arguments that can't be right, of one rank alone
  /// Also reductions that IBCOLL_CHECK does not compare (docs/checking.md).
  bool unchecked = true;
  /// Multicasts may wait for their ends inside of the call. Not where memory for messages is short:
  /// a rank that waits takes none, and others may wait for it.
  bool patient_multicasts = true;
  /// Groups and calls are cancelled, have deadlines of their own, operators that fail.
  bool ends = false;
  /// Ranks leave the job without waiting for what others have sent to them.
  bool leaves = false;
  /// Ranks disagree on a call at last, which ends the job.
  bool mismatch = false;
  /// So may their order of calls in several groups. Not where threads may call at the same time, of
  /// which another one could go on.
  bool cycles = true;
};

struct ProgramOptions {
  std::vector<int> layout = {2, 1, 3};  ///< ranks of each server
  int calls = 40;
  uint32_t largest_block = 1 << 20;       ///< bytes
  uint32_t largest_call = 8 << 20;        ///< bytes of all buffers of a rank together
  uint32_t largest_under_way = 32 << 20;  ///< the same of calls not yet waited for
  Features features;
  std::vector<NamedAlgorithm> algorithms;         ///< none: the engine chooses always
  std::vector<std::string> multicast_algorithms;  ///< that multicasts may name; none: the same
  int64_t longest_pause_ns = 200'000;
  int64_t longest_deadline_us = 3000;
};

/// A group as the program makes it.
struct GroupSpec {
  std::vector<Rank> members;  ///< in the group's order
  uint64_t id = 0;
  bool mortal = false;  ///< calls and actions of the program may end it early
};

/// Who sends to whom in a group.
struct GraphSpec {
  uint16_t group = 0;
  std::vector<std::vector<int>> sources,
      destinations;  ///< of each rank of the group, in its own order
};

/// An operator of the program's own.
struct OperatorSpec {
  enum class Kind : uint8_t {
    kAdd,     ///< numbers of as many bytes, which wrap around: it commutes
    kAffine,  ///< maps x -> a x + b, of bytes, one after the other: it does not
  };
  enum class Direction : uint8_t { kForward, kReversed, kBoth };
  uint32_t element_bytes = 8;
  Kind kind = Kind::kAdd;
  Direction direction = Direction::kForward;
  uint32_t identifier = 0;
  bool fails = false;  ///< now and then, on some rank: groups that it is used in are mortal
};

enum class Mode : uint8_t { kBlocking, kStarted, kPersistent };
enum class Memory : uint8_t {
  kPrivate,
  kShared,
  kRegistered,
  kMixed /**< each rank another one */
};

/// A collective call. Kept as small as it can be: programs have many.
struct CallSpec {
  Operation operation = Operation::kBarrier;
  Mode mode = Mode::kBlocking;
  Memory memory = Memory::kPrivate;
  bool on_set = false;
  bool in_place = false;      ///< where the collective has that; with a root on the root
  bool displaced = false;     ///< blocks of unequal calls lie in any order, with gaps
  bool strided_send = false;  ///< blocks are described by ibcoll_block
  bool strided_recv = false;
  bool ordered = false;
  uint8_t pacing = 0;  ///< 0: none named; else 1 + its number in kPacings
  uint8_t pieces = 0;
  int16_t algorithm = -1;     ///< in ProgramOptions::algorithms
  int16_t own_operator = -1;  ///< in Program::operators; else `op`
  uint16_t group = 0;
  uint16_t graph = 0;  ///< in Program::graphs
  ibcoll_type type = IBCOLL_INT32;
  ibcoll_operator op = IBCOLL_SUM;
  int root = 0;           ///< in the group
  uint32_t bytes = 0;     ///< of a block; where they are unequal, of the longest
  uint32_t elements = 0;  ///< of reductions, in the place of bytes
  uint64_t set = 0;       ///< where it is on a set
  uint64_t tag = 0;
  int64_t deadline_us = 0;  ///< that of the member `deadline_of`, in the group
  int16_t deadline_of = -1;
  uint32_t layout = 0;  ///< 1 + the number of an earlier call whose lengths and places it has
};
inline constexpr const char* kPacings[] = {"free", "gate", "token", "gate_token"};

struct MulticastSpec {
  Rank master = 0;
  uint64_t members = 0;
  uint64_t tag = 0;
  uint32_t bytes = 0;
  bool acknowledged = false;
  bool waits = false;  ///< the call itself, without a request
  Memory memory = Memory::kPrivate;
  uint8_t algorithm = 0;  ///< 0: none named; else 1 + its number in multicast_algorithms
  uint8_t pieces = 0;
  int64_t deadline_us = 0;
};

/// Cases of ActionKind::kDisagree in which ranks make groups of their own: that wait for each other
/// in a cycle, and calls with several wrong roots on groups that are gone.
inline constexpr uint32_t kCycle = 9, kRootsOfGone = 10;

enum class ActionKind : uint8_t {
  kMakeGroups,  ///< groups `first` to `first` + `count` - 1, by each rank in another order
  kFreeGroup,   ///< group `first`
  kShrink,      ///< all ranks that are left make a group, use it once, and free it
  kMakeGraph,   ///< graph `first`
  kFreeGraph,
  kCall,         ///< prepared and started, and waited for where it is blocking
  kWait,         ///< `call`, after `count` tests; `first` 1: by the descriptor
  kStart,        ///< `call`, which is persistent and has been waited for, again
  kFree,         ///< the request of `call`
  kCancel,       ///< `call`, by `rank`
  kCancelGroup,  ///< group `first`, by `rank`
  kMulticast,
  kReceive,  ///< `rank` takes up to `count` messages, keeps them until its next kReceive, waits
             ///< `ns`
  kHandler,  ///< `rank` has messages handed to a function from now on (`count` 1), or no longer (0)
  kPause,    ///< `rank` computes for `ns`
  kProgress,  ///< `rank` makes `count` rounds
  kRefused,   ///< `rank` passes arguments that can't be right: case `first`
  kDisagree,  ///< ranks disagree on `call`: case `first`
};

struct Action {
  ActionKind kind = ActionKind::kPause;
  Rank rank = -1;
  uint32_t number = 0;  ///< the action's own, which stays when others are removed
  uint32_t call = 0;    ///< which call it is about: the number of its action
  uint32_t first = 0;
  uint32_t count = 0;
  int64_t ns = 0;
  CallSpec spec;
  MulticastSpec multicast;
};
/// The number that lengths and places of a call's blocks are drawn with.
inline uint32_t draws_of(const Action& action) {
  return action.spec.layout == 0 ? action.number : action.spec.layout - 1;
}

struct Program {
  uint64_t seed = 0;
  ProgramOptions options;
  std::vector<GroupSpec> groups;  ///< the first is the world
  std::vector<GraphSpec> graphs;
  std::vector<OperatorSpec> operators;
  std::vector<Action> actions;
  uint32_t numbers = 0;  ///< numbers of actions are below

  int ranks() const;
};

/// The program of a seed: the same for the same options, everywhere.
Program random_program(uint64_t seed, const ProgramOptions& options);

/// For people: one line an action.
std::string to_string(const Program& program);
std::string to_string(const Program& program, const Action& action);

/// The program without actions number `actions` (positions in Program::actions, ascending), and
/// without those that need them: what is left can be run.
Program without(const Program& program, std::span<const size_t> actions);

/// Variants of a program that may fail as it does and are simpler: blocks half as long, a rank
/// less, without strides, algorithms, pauses... None once there is nothing left to simplify.
std::vector<Program> simpler(const Program& program);

}  // namespace ibcoll::lockstep
