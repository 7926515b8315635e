/// Reductions along a tree. Every put is a stream: pieces are combined and passed on while later
/// ones arrive.
///
/// By default the tree is of servers: local rank 0 (at the root's server the root) combines what
/// its server's ranks have, through shared memory, and what comes from the servers below. With
/// options.ordered it is the binomial tree of ranks, whatever server they are on, and each combines
/// what comes from the ranks after it, so that the result is combined as rank_order.h says; rank 0
/// hands it to the root.

#include "engine/algorithms/reduce_tree.h"

#include <algorithm>

#include "engine/algorithms/server_tree.h"
#include "engine/algorithms/slots.h"
#include "engine/schedule/builder.h"

namespace ibcoll {

namespace {

/// A rank whose data is combined into this one's, and the step in which it comes.
struct Source {
  Rank rank;
  uint32_t step;
};

class Combine {
 public:
  Combine(const char* algorithm, const Shape& shape, Rank me, const AlgorithmOptions& options)
      : program_(Collective::kReduce, algorithm, shape, me, options), root_(options.root) {}

  /// What leaf ranks do: `to` finds its data in `place`.
  void give(Rank to, uint32_t step, Slice place) {
    program_.begin_stream();
    program_.begin_step(step);
    program_.put(to, send_slot(0), place);
    take_result();
    program_.end_stream();
  }

  /// Combines this rank's data and that of `sources`, in this order if `ordered`; then puts it to
  /// `to` (-1: it stays in the receive buffer). A peer's place for it is `place`.
  void combine(const std::vector<Source>& sources, bool ordered, Rank to, uint32_t step,
               Slice place) {
    const Block combined{Block::kCombined, root_};
    const Slice result = to < 0 ? recv_slot(0) : program_.add_scratch({&combined, 1});
    program_.begin_stream();
    if (ordered) program_.copy(result, send_slot(0));
    bool first = !ordered;
    for (const Source& source : sources) {
      program_.begin_step(source.step);
      // Unordered, the first lands where the result goes and saves a copy.
      const Slice landing = first ? result : program_.add_scratch({&combined, 1});
      program_.expect(source.rank, landing);
      program_.reduce(result, first ? send_slot(0) : landing, {.ordered = ordered});
      first = false;
    }
    program_.begin_step(step);
    if (to >= 0) program_.put(to, result, place);
    if (to >= 0) take_result();
    program_.end_stream();
  }

  /// What this rank gives away comes back, with that of all others, from rank `from` in `step`.
  void expect_result(Rank from, uint32_t step) { result_ = {from, step}; }

  /// Where the data of its `index`-th source lands at a rank that combines.
  static Slice landing(size_t index, bool ordered, bool is_root) {
    const Slice result = is_root ? recv_slot(0) : Slice{Buffer::kScratch, 0, 1};
    if (!ordered && index == 0) return result;
    const size_t before = (is_root ? 0 : 1) + index - (ordered ? 0 : 1);
    return {Buffer::kScratch, static_cast<uint32_t>(before), 1};
  }

  ProgramBuilder& program() { return program_; }

 private:
  void take_result() {
    if (result_.rank < 0) return;
    program_.begin_step(result_.step);
    program_.expect(result_.rank, recv_slot(0));
  }

  ProgramBuilder program_;
  Rank root_;
  Source result_{-1, 0};
};

/// A tree over places 0 .. n - 1 with root 0, as Combine needs it.
struct Tree {
  bool chain;
  BinomialTree binomial;

  int parent(int v) const { return chain ? v - 1 : binomial.parent(v); }
  std::vector<int> children(int v) const {
    if (!chain) return binomial.children(v);
    return v + 1 < binomial.places ? std::vector<int>{v + 1} : std::vector<int>{};
  }
  /// In which the data of v goes to its parent.
  uint32_t step(int v) const {
    return chain ? static_cast<uint32_t>(binomial.places - 1 - v) : binomial.level(v);
  }
  uint32_t steps() const {
    return chain ? static_cast<uint32_t>(binomial.places - 1) : binomial.levels();
  }
};

ProgramPtr reduce_in_order(const char* name, const Shape& shape, Rank me,
                           const AlgorithmOptions& options) {
  const BinomialTree tree{shape.ranks()};
  const Rank root = options.root;
  Combine combine(name, shape, me, options);
  std::vector<Source> sources;
  for (const int child : tree.children(me)) sources.push_back({child, tree.level(child)});
  if (me == 0) {
    combine.combine(sources, true, root == 0 ? -1 : root, tree.levels(), recv_slot(0));
    return combine.program().finish();
  }
  const Rank parent = tree.parent(me);
  const auto siblings = tree.children(parent);
  const size_t index = std::find(siblings.begin(), siblings.end(), me) - siblings.begin();
  const Slice place = Combine::landing(index, true, parent == root && root == 0);
  if (me == root) combine.expect_result(0, tree.levels());
  if (sources.empty()) {
    combine.give(parent, tree.level(me), place);
  } else {
    combine.combine(sources, true, parent, tree.level(me), place);
  }
  return combine.program().finish();
}

ProgramPtr reduce_by_servers(const char* name, bool chain, const Shape& shape, Rank me,
                             const AlgorithmOptions& options) {
  const ServerLine line(shape, options.root);
  const Tree tree{chain, {line.places()}};
  Combine combine(name, shape, me, options);
  const int place = line.place_of(shape.server_of(me));
  const Rank leader = line.leader(place);
  // Sources of a leader: its local ranks, then the servers below.
  const auto locals = [&](int of) {
    std::vector<Rank> result;
    for (const Rank rank : line.ranks(of, of + 1)) {
      if (rank != line.leader(of)) result.push_back(rank);
    }
    return result;
  };
  const auto index_of = [](const auto& list, int one) -> size_t {
    return std::find(list.begin(), list.end(), one) - list.begin();
  };
  if (me != leader) {
    combine.give(leader, 0, Combine::landing(index_of(locals(place), me), false, place == 0));
    return combine.program().finish();
  }
  std::vector<Source> sources;
  for (const Rank local : locals(place)) sources.push_back({local, 0});
  for (const int child : tree.children(place)) {
    sources.push_back({line.leader(child), 1 + tree.step(child)});
  }
  if (place == 0) {
    if (sources.empty()) {
      combine.program().copy(recv_slot(0), send_slot(0));
    } else {
      combine.combine(sources, false, -1, 1 + tree.steps(), {});
    }
    return combine.program().finish();
  }
  const int parent = tree.parent(place);
  const size_t index = locals(parent).size() + index_of(tree.children(parent), place);
  const Slice there = Combine::landing(index, false, parent == 0);
  const Rank to = line.leader(parent);
  if (sources.empty()) {
    combine.give(to, 1 + tree.step(place), there);
  } else {
    combine.combine(sources, false, to, 1 + tree.step(place), there);
  }
  return combine.program().finish();
}

}  // namespace

ProgramPtr reduce_along_tree(const char* name, bool chain, const Shape& shape, Rank me,
                             const AlgorithmOptions& options) {
  return options.ordered ? reduce_in_order(name, shape, me, options)
                         : reduce_by_servers(name, chain, shape, me, options);
}

}  // namespace ibcoll
