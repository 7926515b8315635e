#include <algorithm>

#include "tests/lockstep/model.h"
#include "tests/lockstep/random.h"
#include "tests/lockstep/reductions.h"

namespace ibcoll::lockstep {
namespace {

/// What a drawn number is for.
enum Use : uint64_t { kLength = 1, kGap, kInPlace, kCount, kKnows };

/// Of the block that one rank has for another, where lengths differ.
int64_t length_of(const Program& program, const Action& action, int origin, int target) {
  const CallSpec& spec = action.spec;
  const bool both_ways =
      spec.in_place && target != kForAll;  // what is sent lies where something comes to lie
  const auto low = static_cast<uint64_t>(both_ways ? std::min(origin, target) : origin);
  const auto high = static_cast<uint64_t>(both_ways ? std::max(origin, target) : target);
  const uint64_t word = drawn({program.seed, draws_of(action), kLength, low, high});
  switch (word & 15) {
    case 0:
    case 1:
      return 0;
    case 2:
    case 3:
      return spec.bytes;
    case 4:
      return static_cast<int64_t>(std::min<uint64_t>((word >> 8) % 66, spec.bytes));
    default:
      return static_cast<int64_t>((word >> 8) % (uint64_t{spec.bytes} + 1));
  }
}

/// Lays out the blocks of one side, whose lengths are given.
class Layouter {
 public:
  Layouter(const Program& program, const Action& action, Rank me, bool send, BufferPlan& plan)
      : random_(drawn({program.seed, draws_of(action), kGap, static_cast<uint64_t>(me), send})),
        plan_(plan) {}

  void add(int64_t bytes, int origin, int target) {
    plan_.blocks.push_back({ibcoll_block_contiguous(0, bytes), origin, target});
  }

  void side_by_side() {
    int64_t at = 0;
    for (PlacedBlock& block : plan_.blocks) {
      block.place.offset = at;
      at += block.bytes();
    }
    plan_.bytes = static_cast<size_t>(at);
  }
  void in_any_order() {
    const bool touching = random_.one_in(4);
    for_each_in_any_order([&](PlacedBlock& block) {
      block.place.offset = at_ + (touching ? 0 : gap());
      at_ = block.place.offset + block.bytes();
    });
    plan_.bytes = static_cast<size_t>(at_ + (touching ? 0 : gap()));
  }
  void strided() {
    if (random_.one_in(3) && columns()) return;
    for_each_in_any_order([&](PlacedBlock& block) { stride(block); });
    plan_.bytes = static_cast<size_t>(at_ + gap());
    if (random_.one_in(2)) plan_.begin = static_cast<int64_t>(random_.below(plan_.bytes + 1));
  }

 private:
  int64_t gap() {
    return static_cast<int64_t>(random_.one_in(4) ? random_.below(70) : random_.below(4));
  }

  template <class Body>
  void for_each_in_any_order(const Body& body) {
    order_.resize(plan_.blocks.size());
    for (size_t i = 0; i < order_.size(); ++i) order_[i] = static_cast<uint16_t>(i);
    if (!random_.one_in(3)) random_.shuffle(order_);
    for (const uint16_t i : order_) body(plan_.blocks[i]);
  }

  /// A run length that divides `bytes` into not too many.
  int64_t run_of(int64_t bytes) {
    static constexpr int64_t kRuns[] = {1,  2,  3,   4,   8,    12,    16,
                                        40, 64, 100, 256, 4096, 16384, 65536};
    for (int tries = 0; tries < 4; ++tries) {
      const int64_t run = random_.of(kRuns);
      if (run <= bytes && bytes % run == 0 && bytes / run <= 1024) return run;
    }
    return bytes;
  }

  void stride(PlacedBlock& block) {
    const int64_t bytes = block.bytes();
    const int64_t start = at_ + gap();
    if (bytes == 0) {
      block.place = {start, static_cast<int64_t>(random_.below(2) * 7), 0, 3, 1, 0};
      return;
    }
    const int64_t run = run_of(bytes);
    int64_t count = bytes / run, outer = 1;
    for (const int64_t divisor : {2, 3, 5}) {
      if (count % divisor == 0 && random_.one_in(3)) {
        count /= divisor;
        outer *= divisor;
      }
    }
    const int64_t step = run + gap(), outer_step = step * (count - 1) + run + gap();
    const bool back = random_.one_in(4), outer_back = random_.one_in(4);
    block.place = {
        start, run, count, back ? -step : step, outer, outer_back ? -outer_step : outer_step};
    if (back) block.place.offset += step * (count - 1);
    if (outer_back) block.place.offset += outer_step * (outer - 1);
    at_ = start + step * (count - 1) + outer_step * (outer - 1) + run;
  }

  /// Blocks of one length as the columns of a matrix.
  bool columns() {
    if (plan_.blocks.empty()) return false;
    const int64_t bytes = plan_.blocks.front().bytes();
    for (const PlacedBlock& block : plan_.blocks) {
      if (block.bytes() != bytes || bytes == 0) return false;
    }
    const int64_t run = run_of(bytes), rows = bytes / run;
    const auto row = static_cast<int64_t>(plan_.blocks.size()) * run + gap();
    for (size_t i = 0; i < plan_.blocks.size(); ++i)
      plan_.blocks[i].place = ibcoll_block_vector(static_cast<int64_t>(i) * run, run, rows, row);
    plan_.bytes = static_cast<size_t>(rows * row);
    return true;
  }

  Random random_;
  BufferPlan& plan_;
  std::vector<uint16_t> order_;
  int64_t at_ = 0;
};

void plan_reduction(const Program& program, const Action& action, CallPlan& plan) {
  const CallSpec& spec = action.spec;
  const auto ranks = static_cast<size_t>(plan.ranks);
  const auto mine = static_cast<size_t>(plan.me);
  plan.element_bytes = element_bytes(program, spec);
  plan.elements = plan.results = spec.elements;
  plan.counts.clear();
  if (spec.operation == Operation::kReduceScatterBlock) {
    plan.elements = spec.elements * ranks;
    plan.first_result = spec.elements * mine;
  } else if (spec.operation == Operation::kReduceScatter) {
    plan.elements = 0;
    for (size_t i = 0; i < ranks; ++i) {
      const uint64_t word = drawn({program.seed, draws_of(action), kLength, i});
      plan.counts.push_back(
          static_cast<int64_t>((word & 3) == 0 ? 0 : (word >> 8) % (uint64_t{spec.elements} + 1)));
      if (i == mine) plan.first_result = plan.elements;
      plan.elements += static_cast<size_t>(plan.counts[i]);
    }
    plan.results = static_cast<size_t>(plan.counts[mine]);
  } else if (spec.operation == Operation::kReduce && plan.me != spec.root) {
    plan.results = 0;
  } else if (spec.operation == Operation::kExscan && plan.me == 0) {
    plan.results = 0;
  }
  const bool receives = spec.operation != Operation::kReduce || plan.me == spec.root;
  if (spec.operation == Operation::kReduce && !receives) plan.in_place = false;
  plan.send.used = !plan.in_place;
  plan.send.bytes = plan.in_place ? 0 : plan.elements * plan.element_bytes;
  plan.recv.used = receives;
  plan.recv.bytes = (plan.in_place ? plan.elements : plan.results) * plan.element_bytes;
}

/// Adds a block for each of a rank's neighbours; where several edges join two ranks each is another
/// copy.
template <class Add>
void for_each_edge(const std::vector<int>& neighbors, const Add& add) {
  for (size_t i = 0; i < neighbors.size(); ++i) {
    int copy = 0;
    for (size_t j = 0; j < i; ++j) copy += neighbors[j] == neighbors[i] ? 1 : 0;
    add(neighbors[i], kMostRanks * copy);
  }
}

void plan_moves(const Program& program, const Action& action, Rank me, CallPlan& plan) {
  const CallSpec& spec = action.spec;
  const bool root = plan.me == spec.root;
  Layouter send(program, action, me, true, plan.send), recv(program, action, me, false, plan.recv);
  const auto length = [&](int origin, int target) {
    return length_of(program, action, origin, target);
  };
  const int64_t equal = spec.bytes;
  bool unequal = false;
  switch (spec.operation) {
    case Operation::kAlltoall:
      for (int i = 0; i < plan.ranks; ++i) {
        if (!plan.in_place) send.add(equal, plan.me, i);
        recv.add(equal, i, plan.me);
      }
      break;
    case Operation::kAlltoallv:
    case Operation::kAlltoallw:
      unequal = true;
      for (int i = 0; i < plan.ranks; ++i) {
        if (!plan.in_place) send.add(length(plan.me, i), plan.me, i);
        recv.add(length(i, plan.me), i, plan.me);
      }
      break;
    case Operation::kAllgather:
    case Operation::kAllgatherv:
    case Operation::kGather:
    case Operation::kGatherv: {
      const bool all =
          spec.operation == Operation::kAllgather || spec.operation == Operation::kAllgatherv;
      unequal = spec.operation == Operation::kAllgatherv || spec.operation == Operation::kGatherv;
      plan.in_place &= all || root;
      if (!plan.in_place) send.add(unequal ? length(plan.me, kForAll) : equal, plan.me, kForAll);
      if (!all && !root) break;
      for (int i = 0; i < plan.ranks; ++i)
        recv.add(unequal ? length(i, kForAll) : equal, i, kForAll);
      break;
    }
    case Operation::kScatter:
    case Operation::kScatterv:
      unequal = spec.operation == Operation::kScatterv;
      plan.in_place &= root;
      if (root) {
        for (int i = 0; i < plan.ranks; ++i)
          send.add(unequal ? length(spec.root, i) : equal, spec.root, i);
      }
      if (!plan.in_place)
        recv.add(unequal ? length(spec.root, plan.me) : equal, spec.root, plan.me);
      break;
    case Operation::kBcast:
      plan.in_place = false;
      recv.add(equal, spec.root, kForAll);
      break;
    case Operation::kNeighborAllgather:
    case Operation::kNeighborAllgatherv:
      unequal = spec.operation == Operation::kNeighborAllgatherv;
      send.add(unequal ? length(plan.me, kForAll) : equal, plan.me, kForAll);
      for (const int source : program.graphs[spec.graph].sources[static_cast<size_t>(plan.me)])
        recv.add(unequal ? length(source, kForAll) : equal, source, kForAll);
      break;
    case Operation::kNeighborAlltoall:
    case Operation::kNeighborAlltoallv:
    case Operation::kNeighborAlltoallw: {
      const GraphSpec& graph = program.graphs[spec.graph];
      unequal = spec.operation != Operation::kNeighborAlltoall;
      for_each_edge(graph.destinations[static_cast<size_t>(plan.me)], [&](int to, int copy) {
        send.add(unequal ? length(plan.me, to + copy) : equal, plan.me, to + copy);
      });
      for_each_edge(graph.sources[static_cast<size_t>(plan.me)], [&](int from, int copy) {
        recv.add(unequal ? length(from, plan.me + copy) : equal, from, plan.me + copy);
      });
      break;
    }
    default:
      break;
  }
  const bool always =
      spec.operation == Operation::kAlltoallw || spec.operation == Operation::kNeighborAlltoallw;
  plan.send.used = !plan.send.blocks.empty();
  plan.recv.used = !plan.recv.blocks.empty();
  // A list that is displaced only where there is a displacement to pass.
  const auto lay_out = [&](Layouter& side, bool strided, bool lists) {
    if (strided || always) return side.strided();
    if (unequal && lists && spec.displaced) return side.in_any_order();
    side.side_by_side();
  };
  const bool scatters = spec.operation == Operation::kScatterv;
  const bool both =
      spec.operation == Operation::kAlltoallv || spec.operation == Operation::kNeighborAlltoallv;
  lay_out(send, spec.strided_send, both || scatters);
  lay_out(recv, spec.strided_recv, !scatters);
}

}  // namespace

int64_t exchanged_count(const Program& program, const Action& action, int origin, int target) {
  const uint64_t word = drawn({program.seed, action.number, kCount, static_cast<uint64_t>(origin),
                               static_cast<uint64_t>(target)});
  return (word & 7) == 0 ? 0 : static_cast<int64_t>(word >> 3 >> (word % 50 + 10));
}

Knows who_knows(const Program& program, const Action& action, int origin, int target) {
  return static_cast<Knows>(drawn({program.seed, action.number, kKnows,
                                   static_cast<uint64_t>(origin), static_cast<uint64_t>(target)}) %
                            3);
}

void BufferPlan::clear() {
  blocks.clear();
  bytes = 0;
  begin = 0;
  used = false;
}

std::vector<Rank> members_of(const Program& program, const CallSpec& spec) {
  if (!spec.on_set) return program.groups[spec.group].members;
  std::vector<Rank> members;
  for (Rank rank = 0; rank < kMostRanks; ++rank) {
    if ((spec.set >> rank & 1) != 0) members.push_back(rank);
  }
  return members;
}

int id_in(const Program& program, const CallSpec& spec, Rank rank) {
  if (spec.on_set) {
    if ((spec.set >> rank & 1) == 0) return -1;
    return __builtin_popcountll(spec.set & ((uint64_t{1} << rank) - 1));
  }
  const std::vector<Rank>& members = program.groups[spec.group].members;
  const auto found = std::find(members.begin(), members.end(), rank);
  return found == members.end() ? -1 : static_cast<int>(found - members.begin());
}

bool is_member(const Program& program, const CallSpec& spec, Rank rank) {
  return id_in(program, spec, rank) >= 0;
}

int size_of(const Program& program, const CallSpec& spec) {
  return spec.on_set ? __builtin_popcountll(spec.set)
                     : static_cast<int>(program.groups[spec.group].members.size());
}

void plan_call(const Program& program, const Action& action, Rank me, CallPlan& plan) {
  const CallSpec& spec = action.spec;
  plan.me = id_in(program, spec, me);
  plan.ranks = size_of(program, spec);
  plan.send.clear();
  plan.recv.clear();
  plan.counts.clear();
  plan.element_bytes = 1;
  plan.elements = plan.first_result = plan.results = 0;
  // How its data lie is each rank's own affair.
  plan.in_place =
      spec.in_place &&
      drawn({program.seed, draws_of(action), kInPlace, static_cast<uint64_t>(plan.me)}) % 4 != 0;
  if (spec.operation >= Operation::kExchangeCounts) return;
  if (reduces(spec.operation)) return plan_reduction(program, action, plan);
  plan_moves(program, action, me, plan);
}

}  // namespace ibcoll::lockstep
