#include <algorithm>
#include <numeric>
#include <optional>

#include "tests/lockstep/model.h"
#include "tests/lockstep/program.h"
#include "tests/lockstep/random.h"
#include "tests/lockstep/reductions.h"

namespace ibcoll::lockstep {
namespace {

constexpr int kMostOpen = 24;  ///< calls that are under way at a time
constexpr uint32_t kRefusals = 26, kDisagreements = 11;

/// How many times the buffers of a rank are as long as a block.
uint32_t blocks_of_a_rank(Operation operation, uint32_t ranks) {
  switch (operation) {
    case Operation::kAlltoall:
    case Operation::kAlltoallv:
    case Operation::kAlltoallw:
    case Operation::kNeighborAlltoall:
    case Operation::kNeighborAlltoallv:
    case Operation::kNeighborAlltoallw:
      return 2 * ranks;
    case Operation::kBcast:
    case Operation::kReduce:
    case Operation::kAllreduce:
    case Operation::kScan:
    case Operation::kExscan:
      return 2;
    case Operation::kExchangeCounts:
    case Operation::kExchangeRootCounts:
    case Operation::kBarrier:
      return 0;
    default:
      return 1 + ranks;
  }
}

class Generator {
 public:
  Generator(uint64_t seed, const ProgramOptions& options) : random_(drawn({seed})) {
    program_.seed = seed;
    program_.options = options;
    ranks_ = program_.ranks();
    std::vector<Rank> all(static_cast<size_t>(ranks_));
    std::iota(all.begin(), all.end(), 0);
    program_.groups.push_back({std::move(all), 0, false});
    open_groups_.push_back(0);
  }

  Program generate() {
    add_operators();
    lean();
    while (calls_ < program_.options.calls) step();
    // What is on its way when ranks leave.
    if (features().leaves && features().multicasts) {
      for (uint64_t i = 1 + random_.below(6); i > 0; --i) multicast();
    }
    if (features().mismatch) disagree();
    if (features().shrinks) shrink();
    program_.numbers = number_;
    return std::move(program_);
  }

 private:
  const Features& features() const { return program_.options.features; }

  Action& add(ActionKind kind) {
    Action& action = program_.actions.emplace_back();
    action.kind = kind;
    action.number = number_++;
    return action;
  }

  void add_operators() {
    if (!features().own_operators) return;
    static constexpr uint32_t kSizes[] = {3, 5, 7, 8, 12, 16, 17, 24, 31, 32, 40};
    const size_t count = 1 + random_.below(3);
    for (size_t i = 0; i < count; ++i) {
      OperatorSpec own;
      own.element_bytes =
          random_.one_in(2) ? random_.of(kSizes) : static_cast<uint32_t>(3 + random_.below(38));
      own.kind = random_.one_in(2) ? OperatorSpec::Kind::kAdd : OperatorSpec::Kind::kAffine;
      own.direction = static_cast<OperatorSpec::Direction>(random_.below(3));
      own.identifier = random_.one_in(2) ? 0 : static_cast<uint32_t>(random_.next());
      own.fails = features().ends && random_.one_in(4);
      program_.operators.push_back(own);
    }
  }

  /// Half of the programs are mostly about a few things: what goes wrong between two calls of one
  /// kind is rare where there are thirty kinds.
  void lean() {
    if (random_.one_in(2)) return;
    for (uint64_t i = 1 + random_.below(3); i > 0; --i)
      leaning_.operations.push_back(
          static_cast<Operation>(random_.below(static_cast<uint64_t>(Operation::kMakeGraph))));
    leaning_.own_operators = random_.one_in(3);
    leaning_.started = random_.one_in(2);
    leaning_.long_blocks = random_.one_in(3);
    leaning_.multicasts = features().multicasts && random_.one_in(8);
  }

  void step() {
    const uint64_t choice = random_.below(100);
    const Features& use = features();
    if (leaning_.multicasts && choice < 80) return multicast();
    if (choice < 50 || (choice < 60 && leaning_.started)) return call();
    if (choice < 72) return wait();
    if (choice < 76 && use.groups) return make_groups();
    if (choice < 78 && use.groups) return free_group();
    if (choice < 81 && use.graphs) return make_graph();
    if (choice < 85 && use.pauses) return pause();
    if (choice < 92 && use.multicasts) return multicast();
    if (choice < 94 && use.ends) return cancel();
    if (choice < 96 && use.refusals) return refuse();
    Action& action = add(ActionKind::kProgress);
    action.rank = some_rank();
    action.count = static_cast<uint32_t>(1 + random_.below(20));
  }

  Rank some_rank() { return static_cast<Rank>(random_.below(static_cast<uint64_t>(ranks_))); }
  uint64_t some_set() {
    const uint64_t all = ranks_ == kMostRanks ? ~uint64_t{0} : (uint64_t{1} << ranks_) - 1;
    for (;;) {
      if (const uint64_t set = random_.next() & all; set != 0) return set;
    }
  }

  void pause() {
    Action& action = add(ActionKind::kPause);
    action.rank = some_rank();
    action.ns = some_pause();
  }
  int64_t some_pause() {
    return static_cast<int64_t>(
        random_.below(static_cast<uint64_t>(program_.options.longest_pause_ns)));
  }

  // ---- groups and graphs

  void make_groups() {
    if (open_groups_.size() > 8) return free_group();
    const auto first = static_cast<uint32_t>(program_.groups.size());
    const auto count = static_cast<uint32_t>(1 + random_.below(3));
    for (uint32_t i = 0; i < count; ++i) {
      // Several of the same ranks are made now and then.
      std::vector<Rank> members = program_.groups[random_.below(program_.groups.size())].members;
      if (members.size() == static_cast<size_t>(ranks_) || random_.one_in(2)) {
        members = program_.groups.front().members;
        random_.shuffle(members);
        members.resize(1 + random_.below(members.size()));
        if (random_.one_in(2)) std::sort(members.begin(), members.end());
      }
      GroupSpec group{std::move(members), drawn({program_.seed, program_.groups.size()}), false};
      group.mortal = features().ends && random_.one_in(2);
      if (!group.mortal && random_.one_in(3) && is_first_without_id(group.members, first))
        group.id = 0;
      open_groups_.push_back(static_cast<uint16_t>(program_.groups.size()));
      program_.groups.push_back(std::move(group));
    }
    Action& action = add(ActionKind::kMakeGroups);
    action.first = first;
    action.count = count;
  }

  /// Nothing but the order in which they are made tells groups without an identifier apart, and
  /// ranks make those of one action in different ones.
  bool is_first_without_id(const std::vector<Rank>& members, uint32_t first) const {
    if (members == program_.groups.front().members) return false;
    for (size_t i = first; i < program_.groups.size(); ++i) {
      if (program_.groups[i].id == 0 && program_.groups[i].members == members) return false;
    }
    return true;
  }

  void free_group() {
    if (open_groups_.size() < 2) return;
    const size_t which = 1 + random_.below(open_groups_.size() - 1);
    const uint16_t group = open_groups_[which];
    add(ActionKind::kFreeGroup).first = group;
    open_groups_.erase(open_groups_.begin() + static_cast<ptrdiff_t>(which));
    // Later calls on its graphs would have to be blocking ones.
    std::erase_if(open_graphs_,
                  [&](uint16_t graph) { return program_.graphs[graph].group == group; });
  }

  /// Drawn by itself, so that all else is as it would be without.
  void shrink() {
    Random random(drawn({program_.seed, 0x736872}));
    if (program_.actions.empty() || !random.one_in(3)) return;
    // Many in some, so that ranks die amid them.
    const uint64_t count = random.one_in(3) ? 20 + random.below(20) : 1 + random.below(3);
    for (uint64_t i = 0; i < count; ++i) {
      Action action;
      action.kind = ActionKind::kShrink;
      action.number = number_++;
      // Before the last one, after which there may be nothing more.
      program_.actions.insert(
          program_.actions.begin() + static_cast<ptrdiff_t>(random.below(program_.actions.size())),
          action);
    }
  }

  void make_graph() {
    if (open_graphs_.size() > 3 || (!open_graphs_.empty() && random_.one_in(4))) {
      const size_t which = random_.below(open_graphs_.size());
      add(ActionKind::kFreeGraph).first = open_graphs_[which];
      open_graphs_.erase(open_graphs_.begin() + static_cast<ptrdiff_t>(which));
      return;
    }
    GraphSpec graph;
    static constexpr uint64_t kDensities[] = {10, 30, 60, 100};
    graph.group = some_group();
    const size_t ranks = program_.groups[graph.group].members.size();
    graph.sources.resize(ranks);
    graph.destinations.resize(ranks);
    const uint64_t density = kDensities[random_.below(std::size(kDensities))];
    for (size_t from = 0; from < ranks; ++from) {
      for (size_t to = 0; to < ranks; ++to) {
        if (random_.below(100) >= density || (from == to && !random_.one_in(3))) continue;
        const size_t copies = random_.one_in(8) ? 2 + random_.below(2) : 1;
        graph.destinations[from].insert(graph.destinations[from].end(), copies,
                                        static_cast<int>(to));
        graph.sources[to].insert(graph.sources[to].end(), copies, static_cast<int>(from));
      }
    }
    for (auto* const lists : {&graph.sources, &graph.destinations}) {
      for (std::vector<int>& list : *lists) random_.shuffle(list);
    }
    add(ActionKind::kMakeGraph).first = static_cast<uint32_t>(program_.graphs.size());
    open_graphs_.push_back(static_cast<uint16_t>(program_.graphs.size()));
    program_.graphs.push_back(std::move(graph));
  }

  uint16_t some_group() {
    return open_groups_[random_.one_in(2) ? 0 : random_.below(open_groups_.size())];
  }

  // ---- calls

  uint32_t some_bytes(uint64_t most) {
    static constexpr uint32_t kLimits[] = {
        8,     16,    32,    40,    41,    48,    63,    64,     65,     127,
        128,   129,   256,   511,   512,   1000,  1024,  2048,   2049,   3584,
        4000,  4032,  4064,  4065,  4096,  4097,  8192,  8193,   16384,  16385,
        20000, 32768, 32769, 61440, 65536, 65537, 70001, 131072, 131073, 262145};
    uint64_t bytes = 0;
    const uint64_t choice = leaning_.long_blocks && !random_.one_in(4) ? 100 : random_.below(100);
    if (choice == 100) {
      const uint64_t bits = 12 + random_.below(7);
      bytes = (uint64_t{1} << bits) + random_.below(uint64_t{1} << bits);
    } else if (choice < 45) {
      bytes = random_.below(66);
    } else if (choice < 70) {
      bytes = kLimits[random_.below(std::size(kLimits) - (random_.one_in(8) ? 0 : 16))];
    } else {
      const uint64_t bits = random_.below(random_.one_in(12) ? 21 : 14);
      bytes = (uint64_t{1} << bits) + random_.below(uint64_t{1} << bits);
    }
    return static_cast<uint32_t>(std::min({bytes, most, uint64_t{program_.options.largest_block}}));
  }

  Operation some_operation() {
    for (;;) {
      auto operation =
          static_cast<Operation>(random_.below(static_cast<uint64_t>(Operation::kMakeGraph)));
      if (!leaning_.operations.empty() && !random_.one_in(4))
        operation = leaning_.operations[random_.below(leaning_.operations.size())];
      if (reduces(operation) && !features().reductions) continue;
      if (is_of_neighbors(operation) && open_graphs_.empty()) continue;
      if (operation >= Operation::kExchangeCounts && !features().counts) continue;
      return operation;
    }
  }

  void choose_reduction(CallSpec& spec, uint64_t most, bool mortal) {
    const size_t own = program_.operators.empty() ? 0 : random_.below(program_.operators.size());
    const bool wants_own = leaning_.own_operators ? !random_.one_in(8) : random_.one_in(3);
    if (!program_.operators.empty() && wants_own && (mortal || !program_.operators[own].fails)) {
      spec.own_operator = static_cast<int16_t>(own);
      spec.type = IBCOLL_OWN;
    } else {
      do {
        spec.type = static_cast<ibcoll_type>(random_.below(IBCOLL_OWN));
        spec.op = static_cast<ibcoll_operator>(random_.below(IBCOLL_NO_OP + 1));
      } while (!has_operator(spec.type, spec.op) ||
               (!features().unchecked && spec.type > IBCOLL_UINT64));
    }
    spec.elements = some_bytes(most) / static_cast<uint32_t>(element_bytes(program_, spec));
  }

  void choose_algorithm(CallSpec& spec) {
    if (program_.options.algorithms.empty() || random_.one_in(2)) return;
    const bool ordered = spec.ordered || spec.op == IBCOLL_REPLACE || spec.op == IBCOLL_NO_OP ||
                         (spec.own_operator >= 0 &&
                          program_.operators[static_cast<size_t>(spec.own_operator)].kind ==
                              OperatorSpec::Kind::kAffine);
    std::vector<int16_t> fitting;
    for (size_t i = 0; i < program_.options.algorithms.size(); ++i) {
      const NamedAlgorithm& one = program_.options.algorithms[i];
      if (one.operation != spec.operation || (reduces(spec.operation) && ordered && !one.ordered))
        continue;
      fitting.push_back(static_cast<int16_t>(i));
    }
    if (fitting.empty()) return;
    spec.algorithm = fitting[random_.below(fitting.size())];
    if (program_.options.algorithms[static_cast<size_t>(spec.algorithm)].paced && random_.one_in(2))
      spec.pacing = static_cast<uint8_t>(1 + random_.below(std::size(kPacings)));
    if (random_.one_in(4)) spec.pieces = static_cast<uint8_t>(1 + random_.below(7));
  }

  void choose_place(CallSpec& spec) {
    if (is_of_neighbors(spec.operation)) {
      spec.graph = open_graphs_[random_.below(open_graphs_.size())];
      spec.group = program_.graphs[spec.graph].group;
      return;
    }
    spec.group = some_group();
    const bool counts = spec.operation >= Operation::kExchangeCounts;
    if (!features().sets || counts || !random_.one_in(5)) return;
    spec.on_set = true;
    spec.set = some_set();
    spec.tag = random_.one_in(2) ? random_.below(3) : random_.next();
  }

  bool is_open(const CallSpec& spec) const {
    const auto has = [](const std::vector<uint16_t>& all, uint16_t one) {
      return std::find(all.begin(), all.end(), one) != all.end();
    };
    return (spec.on_set || has(open_groups_, spec.group)) &&
           (!is_of_neighbors(spec.operation) || has(open_graphs_, spec.graph));
  }

  /// The latest blocking call once more, with lengths and mostly places as before.
  void call_again() {
    Action& action = add(ActionKind::kCall);
    action.spec = latest_->spec;
    action.spec.layout = 1 + draws_of(*latest_);
    action.call = action.number;
    ++calls_;
  }

  void call() {
    if (latest_ && random_.one_in(4) && is_open(latest_->spec)) return call_again();
    CallSpec spec;
    spec.operation = some_operation();
    choose_place(spec);
    const auto ranks = static_cast<uint32_t>(size_of(program_, spec));
    const bool mortal = features().ends && (spec.on_set || program_.groups[spec.group].mortal);
    spec.root = static_cast<int>(random_.below(ranks));
    const uint32_t blocks = blocks_of_a_rank(spec.operation, ranks);
    const uint64_t most = blocks == 0 ? 0 : program_.options.largest_call / blocks;
    const bool counts = spec.operation >= Operation::kExchangeCounts;
    if (features().nonblocking && !counts && !random_.one_in(leaning_.started ? 12 : 3))
      spec.mode = features().persistent && random_.one_in(4) ? Mode::kPersistent : Mode::kStarted;
    if (features().memory && random_.one_in(2)) spec.memory = static_cast<Memory>(random_.below(4));
    if (reduces(spec.operation)) {
      spec.ordered = random_.one_in(5);
      choose_reduction(spec, most, mortal);
    } else if (spec.operation != Operation::kBarrier && !counts) {
      spec.bytes = some_bytes(most);
      spec.displaced = !random_.one_in(3);
      if (features().strided && random_.one_in(4)) {
        spec.strided_send = spec.operation != Operation::kBcast && !random_.one_in(3);
        spec.strided_recv = !random_.one_in(3);
      }
    }
    if (features().in_place && random_.one_in(5)) {
      spec.in_place = spec.operation != Operation::kBcast &&
                      spec.operation != Operation::kBarrier && !counts &&
                      !is_of_neighbors(spec.operation);
      // Two layouts can't both be that of one buffer.
      if (spec.in_place) spec.strided_send = spec.strided_recv;
    }
    if (mortal && !counts && random_.one_in(12)) {
      spec.deadline_of = static_cast<int16_t>(random_.below(ranks));
      spec.deadline_us = static_cast<int64_t>(
          1 + random_.below(static_cast<uint64_t>(program_.options.longest_deadline_us)));
    }
    if (!counts) choose_algorithm(spec);
    const uint64_t buffers = uint64_t{blocks} * (spec.bytes + uint64_t{spec.elements} * 40);
    if (under_way_bytes_ + buffers > program_.options.largest_under_way ||
        open_.size() > kMostOpen) {
      while (!open_.empty()) wait();
    }
    Action& action = add(ActionKind::kCall);
    action.spec = spec;
    action.call = action.number;
    ++calls_;
    if (spec.mode == Mode::kBlocking) {
      if (!counts && spec.deadline_of < 0) latest_ = action;
      return;
    }
    open_.push_back({action.number, buffers, spec.mode == Mode::kPersistent, true, mortal, spec});
    under_way_bytes_ += buffers;
  }

  /// Waits for a call that is under way; starts a persistent one again, or frees it.
  void wait() {
    if (open_.empty()) return;
    const size_t which = random_.below(open_.size());
    Open& open = open_[which];
    Action& action = add(ActionKind::kWait);
    action.call = open.number;
    action.kind = open.started        ? ActionKind::kWait
                  : random_.one_in(3) ? ActionKind::kFree
                                      : ActionKind::kStart;
    if (action.kind == ActionKind::kStart) ++calls_;
    action.count = random_.one_in(2) ? 0 : static_cast<uint32_t>(random_.below(30));
    action.first = features().descriptors && random_.one_in(5) ? 1 : 0;
    if (open.persistent && action.kind != ActionKind::kFree) {
      open.started = !open.started;
      return;
    }
    under_way_bytes_ -= open.bytes;
    open_.erase(open_.begin() + static_cast<ptrdiff_t>(which));
  }

  // ---- what ends early

  void cancel() {
    if (random_.one_in(2)) {
      std::vector<uint16_t> mortal;
      for (const uint16_t group : open_groups_) {
        if (program_.groups[group].mortal) mortal.push_back(group);
      }
      if (mortal.empty()) return;
      Action& action = add(ActionKind::kCancelGroup);
      action.first = mortal[random_.below(mortal.size())];
      const std::vector<Rank>& members = program_.groups[action.first].members;
      action.rank = members[random_.below(members.size())];
      return;
    }
    std::vector<size_t> mortal;
    for (size_t i = 0; i < open_.size(); ++i) {
      if (open_[i].mortal) mortal.push_back(i);
    }
    if (mortal.empty()) return;
    const Open& open = open_[mortal[random_.below(mortal.size())]];
    const std::vector<Rank> members = members_of(program_, open.spec);
    Action& action = add(ActionKind::kCancel);
    action.call = open.number;
    action.rank = members[random_.below(members.size())];
  }

  // ---- multicasts

  void multicast() {
    const uint64_t choice = random_.below(10);
    if (choice < 3) {
      Action& action = add(ActionKind::kReceive);
      action.rank = some_rank();
      action.count = static_cast<uint32_t>(random_.below(5));
      action.ns = random_.one_in(2) ? 0 : some_pause();
      return;
    }
    if (choice < 4) {
      Action& action = add(ActionKind::kHandler);
      action.rank = some_rank();
      action.count = random_.one_in(2) ? 1 : 0;
      return;
    }
    MulticastSpec spec;
    spec.master = some_rank();
    spec.members = some_set();
    spec.bytes = some_bytes(program_.options.largest_call / 4);
    spec.acknowledged = random_.one_in(2);
    spec.waits = features().patient_multicasts && random_.one_in(4);
    spec.memory = features().memory ? static_cast<Memory>(random_.below(3)) : Memory::kPrivate;
    const size_t algorithms = program_.options.multicast_algorithms.size();
    if (random_.one_in(4) && algorithms > 0)
      spec.algorithm = static_cast<uint8_t>(1 + random_.below(algorithms));
    if (random_.one_in(6)) spec.pieces = static_cast<uint8_t>(1 + random_.below(7));
    if (features().ends && random_.one_in(6))
      spec.deadline_us = static_cast<int64_t>(
          1 + random_.below(static_cast<uint64_t>(program_.options.longest_deadline_us)));
    Action& action = add(ActionKind::kMulticast);
    action.rank = spec.master;
    // The number tells which one it is, the rest that nothing was mixed up.
    spec.tag = drawn({program_.seed, action.number}) << 32 | action.number;
    action.multicast = spec;
    ++calls_;
  }

  // ---- what can't be right

  void refuse() {
    Action& action = add(ActionKind::kRefused);
    action.rank = some_rank();
    action.first = static_cast<uint32_t>(random_.below(kRefusals));
  }

  void disagree() {
    while (!open_.empty()) wait();
    Action& action = add(ActionKind::kDisagree);
    action.call = action.number;
    do {
      action.first = static_cast<uint32_t>(random_.below(kDisagreements + 2));
      if (action.first >= kDisagreements) action.first = kRootsOfGone;  // it goes several ways
    } while (action.first == kCycle && !features().cycles);
    action.rank = some_rank();
    action.spec.bytes = 1 + some_bytes(100'000);
    action.spec.elements = action.spec.bytes / 8;
    action.spec.root = static_cast<int>(some_rank());
  }

  struct Open {
    uint32_t number;
    uint64_t bytes;
    bool persistent, started, mortal;
    CallSpec spec;
  };

  /// What the program is mostly about.
  struct Leaning {
    std::vector<Operation> operations;  ///< most calls; none: all alike
    bool own_operators = false;
    bool started = false;      ///< nearly no call is blocking, and they are waited for late
    bool long_blocks = false;  ///< most are of several pieces
    bool multicasts = false;   ///< there are no calls on groups: ranks wait for messages alone
  };

  Random random_;
  Program program_;
  Leaning leaning_;
  int ranks_ = 0;
  int calls_ = 0;
  uint32_t number_ = 0;
  uint64_t under_way_bytes_ = 0;
  std::vector<uint16_t> open_groups_, open_graphs_;
  std::vector<Open> open_;
  std::optional<Action> latest_;  ///< blocking call
};

}  // namespace

Program random_program(uint64_t seed, const ProgramOptions& options) {
  return Generator(seed, options).generate();
}

}  // namespace ibcoll::lockstep
