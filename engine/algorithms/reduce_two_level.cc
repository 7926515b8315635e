/// Two-level allreduce and reduce with all ranks of a server at work (as Bayatpour et al. 2017,
/// "DPML"): each combines a slice of the block straight from the others' memory; between servers
/// the ranks with the same slice exchange parts of it, and each server's combines one part. An
/// allreduce sends that back, and all read the slices of the others of their server; of a reduce
/// the root reads all parts. On one server nothing but slices is moved: every rank reads each
/// element of its slice once from each other, and who gets the result the rest of that once.
///
/// Slot k Ns + s of the block is combined in the end at server s, by the rank that has slice k
/// there. There are as many slices as ranks on the largest server; a smaller one's ranks have more.
/// Steps: 2, or with several servers 4 of an allreduce and 3 of a reduce. Messages a rank: 2 (Ns -
/// 1) of an allreduce, Ns of a reduce, a smaller server's ranks more. Bytes between servers: 2 (Ns
/// - 1) / Ns blocks out of a server, and in; of a reduce 1 out, and into the root's 2 (Ns - 1) /
/// Ns. Scratch on one server: 1 slice; none where the result is. On several, for each slice that a
/// rank has: 2 Ns - 2 slots, which is about 2 slices; 1 slot more where the result isn't. Ordered,
/// up to a block more.

#include <bit>

#include "engine/algorithms/exchange_plans.h"
#include "engine/algorithms/server_slices.h"
#include "engine/schedule/builder.h"

namespace ibcoll {
namespace {

/// All ranks know what each rank has.
class Slices {
 public:
  /// `root`: who alone gets the result; kNoRoot: all do.
  Slices(const Shape& shape, Rank root, bool ordered)
      : shape_(shape), slices_(shape), root_(root), ordered_(ordered) {}

  bool gets_result(Rank rank) const { return root_ == kNoRoot || root_ == rank; }

  uint32_t count() const { return slices_.count(); }
  uint32_t cut() const { return slices_.count() * servers(); }
  uint32_t servers() const { return static_cast<uint32_t>(shape_.servers()); }
  Rank owner(int server, uint32_t slice) const { return slices_.owner(server, slice); }
  /// All slots of a rank's slices.
  Slice of(Rank rank, Buffer buffer) const {
    const int server = shape_.server_of(rank), local = shape_.local_of(rank);
    const uint32_t begin = slices_.first(server, local);
    return {buffer, begin * servers(), (slices_.first(server, local + 1) - begin) * servers()};
  }
  uint32_t slot(uint32_t slice, int server) const {
    return slice * servers() + static_cast<uint32_t>(server);
  }

  /// How a rank combines what the ranks of its server have of its slices.
  FoldPlan inside(Rank rank) const {
    const auto size = static_cast<size_t>(shape_.server_size(shape_.server_of(rank)));
    const std::vector<bool> apart(size, false);
    return {apart, shape_.local_of(rank), ordered_};
  }
  FoldPlaces places_inside(Rank rank) const {
    const int size = shape_.server_size(shape_.server_of(rank));
    return FoldPlaces::inside(size, shape_.local_of(rank), ordered_);
  }
  /// How a rank of a server combines what all servers have of a slot.
  FoldPlan between(int server) const {
    std::vector<bool> apart(servers(), true);
    apart[static_cast<size_t>(server)] = false;
    return {apart, server, ordered_};
  }
  FoldPlaces places_between(int server) const {
    return FoldPlaces::between(shape_.servers(), server, ordered_);
  }
  /// Where the sum of its server lands at a rank: with one server it is the result.
  Slice local_sum(Rank rank) const {
    const Slice slices = of(rank, Buffer::kRecv);
    if (servers() == 1 && gets_result(rank)) return slices;
    const uint32_t places = places_inside(rank).scratch_places();
    return {Buffer::kScratch, places * slices.count, slices.count};
  }
  /// Where, with several servers, a rank combines its part of a slice in the end: behind the local
  /// sum if the result is not its own.
  Slice part(Rank rank, uint32_t slice) const {
    if (gets_result(rank)) return {Buffer::kRecv, slot(slice, shape_.server_of(rank)), 1};
    const Slice sum = local_sum(rank);
    return {Buffer::kScratch, sum.first + sum.count + index(rank, slice), 1};
  }
  /// Scratch of a rank in which a slice's parts from other servers land.
  uint32_t scratch_between(Rank rank, uint32_t slice) const {
    const Slice sum = local_sum(rank);
    const uint32_t parts = gets_result(rank) ? 0 : sum.count / servers();
    const uint32_t places = places_between(shape_.server_of(rank)).scratch_places();
    return sum.first + sum.count + parts + index(rank, slice) * places;
  }

  static constexpr Rank kNoRoot = -1;

 private:
  /// Which of its slices it is.
  uint32_t index(Rank rank, uint32_t slice) const {
    return slice - slices_.first(shape_.server_of(rank), shape_.local_of(rank));
  }

  const Shape& shape_;
  const ServerSlices slices_;
  const Rank root_;
  const bool ordered_;
};

class TwoLevel {
 public:
  TwoLevel(Collective collective, const Shape& shape, Rank me, const AlgorithmOptions& options)
      : program_(collective, "two_level", shape, me, options),
        shape_(shape),
        me_(me),
        root_(has_root(collective) ? options.root : Slices::kNoRoot),
        server_(shape.server_of(me)),
        slices_(shape, root_, options.ordered),
        mine_(slices_.of(me, Buffer::kRecv)) {
    program_.cut_block(slices_.cut());
  }

  ProgramPtr build() {
    const bool single = shape_.servers() == 1;
    if (single) program_.begin_stream();
    combine_inside();
    if (!single) combine_between();
    if (root_ != Slices::kNoRoot) {
      single ? hand_in() : hand_in_parts();
    } else {
      if (!single) exchange();
      hand_out(single ? 1 : 3);
    }
    if (single) program_.end_stream();
    return program_.finish();
  }

 private:
  /// The other ranks of the server, the next one first.
  template <class Visit>
  void for_each_local(Visit visit) const {
    const auto members = shape_.members(server_);
    const size_t local = static_cast<size_t>(shape_.local_of(me_));
    for (size_t i = 1; i < members.size(); ++i) visit(members[(local + i) % members.size()]);
  }
  void add_scratch(Slice slots, uint32_t times) {
    std::vector<Block> blocks;
    for (uint32_t i = 0; i < times * slots.count; ++i) {
      const auto slot = static_cast<Rank>(slots.first + i % slots.count);
      blocks.push_back({Block::kCombined, Block::kFirstPart - slot});
    }
    program_.add_scratch(blocks);
  }

  void combine_inside() {
    const FoldPlan plan = slices_.inside(me_);
    sum_ = slices_.local_sum(me_);
    add_scratch(mine_, plan.scratch_places() + (sum_.buffer == Buffer::kScratch ? 1 : 0));
    const auto members = shape_.members(server_);
    plan.write(program_, members, slices_.of(me_, Buffer::kSend), sum_, 0, [&](int local) {
      const Rank to = members[static_cast<size_t>(local)];
      const FoldPlaces theirs = slices_.places_inside(to);
      program_.put(to, slices_.of(to, Buffer::kSend),
                   theirs.landing(shape_.local_of(me_), slices_.local_sum(to), 0));
    });
  }

  /// The slices of this rank.
  template <class Visit>
  void for_each_slice(Visit visit) const {
    const uint32_t first = mine_.first / slices_.servers();
    const uint32_t end = first + mine_.count / slices_.servers();
    for (uint32_t slice = first; slice < end; ++slice) visit(slice);
  }

  /// Between servers: what has come in is combined, and passed on, piece by piece. A stream has one
  /// put to a rank, since places are told in the order of operations.
  void combine_between() {
    program_.begin_step(1);
    if (!slices_.gets_result(me_)) {
      for_each_slice([&](uint32_t slice) {
        add_scratch({Buffer::kRecv, slices_.slot(slice, server_), 1}, 1);
      });
    }
    for_each_slice([&](uint32_t slice) {
      program_.begin_stream();
      combine_between(slice);
      program_.end_stream();
    });
  }

  void combine_between(uint32_t slice) {
    const int servers = shape_.servers();
    for (int i = 1; i < servers; ++i) {
      const int server = (server_ + i) % servers;
      const uint32_t slot = slices_.slot(slice, server);
      const Rank to = slices_.owner(server, slice);
      program_.put(to, {sum_.buffer, sum_.first + slot - mine_.first, 1},
                   slices_.places_between(server).landing(server_, slices_.part(to, slice),
                                                          slices_.scratch_between(to, slice)));
    }
    const FoldPlan plan = slices_.between(server_);
    const uint32_t slot = slices_.slot(slice, server_);
    std::vector<Rank> owners;
    for (int server = 0; server < servers; ++server) owners.push_back(slices_.owner(server, slice));
    add_scratch({Buffer::kRecv, slot, 1}, plan.scratch_places());
    plan.write(program_, owners, {sum_.buffer, sum_.first + slot - mine_.first, 1},
               slices_.part(me_, slice), slices_.scratch_between(me_, slice));
  }

  void exchange() {
    program_.begin_step(2);
    const int servers = shape_.servers();
    for_each_slice([&](uint32_t slice) {
      program_.begin_stream();
      for (int i = 1; i < servers; ++i) {
        const int to = (server_ + i) % servers, from = (server_ + servers - i) % servers;
        const Slice done{Buffer::kRecv, slices_.slot(slice, server_), 1};
        program_.put(slices_.owner(to, slice), done, done);
        program_.expect(slices_.owner(from, slice), {Buffer::kRecv, slices_.slot(slice, from), 1});
      }
      program_.end_stream();
    });
  }

  void hand_out(uint32_t step) {
    program_.begin_step(step);
    for_each_local([&](Rank to) { program_.put(to, mine_, mine_); });
    for_each_local([&](Rank from) { program_.expect(from, slices_.of(from, Buffer::kRecv)); });
  }

  /// On one server.
  void hand_in() {
    program_.begin_step(1);
    if (me_ != root_) return program_.put(root_, sum_, mine_);
    for_each_local([&](Rank from) { program_.expect(from, slices_.of(from, Buffer::kRecv)); });
  }

  /// Every rank's puts come in the order of its slices, and so do the root's expects.
  void hand_in_parts() {
    program_.begin_step(2);
    if (me_ != root_) {
      for_each_slice([&](uint32_t slice) {
        program_.begin_stream();
        program_.put(root_, slices_.part(me_, slice),
                     {Buffer::kRecv, slices_.slot(slice, server_), 1});
        program_.end_stream();
      });
      return;
    }
    for (uint32_t slice = 0; slice < slices_.count(); ++slice) {
      for (int i = 0; i < shape_.servers(); ++i) {
        const int server = (server_ + i) % shape_.servers();
        const Rank from = slices_.owner(server, slice);
        if (from == me_) continue;
        program_.begin_stream();
        program_.expect(from, {Buffer::kRecv, slices_.slot(slice, server), 1});
        program_.end_stream();
      }
    }
  }

  ProgramBuilder program_;
  const Shape& shape_;
  const Rank me_;
  const Rank root_;  ///< who alone gets the result
  const int server_;
  const Slices slices_;
  const Slice mine_;
  Slice sum_;  ///< what this rank has combined of its server's data
};

ProgramPtr build(Collective collective, const Shape& shape, Rank me,
                 const AlgorithmOptions& options) {
  return TwoLevel(collective, shape, me, options).build();
}

/// On one server, and where each has as many ranks in sequence as the tree of all ranks joins.
bool keeps_order(const Shape& shape) {
  const int size = shape.max_server_size();
  if (shape.servers() == 1) return true;
  if (!shape.equal_servers() || !std::has_single_bit(static_cast<unsigned>(size))) return false;
  for (Rank rank = 0; rank < shape.ranks(); ++rank) {
    if (shape.server_of(rank) != rank / size) return false;
  }
  return true;
}

constexpr AlgorithmSpec kSpec{
    .name = "two_level",
    .collectives = {Collective::kAllreduce, Collective::kReduce},
    .summary = "each rank of a server combines a slice, servers exchange theirs",
    .when = "one server; long blocks",
    .source = "Bayatpour 2017",
    .relays = true,
    .keeps_order = keeps_order,
    .build = build,
};
const Registered kRegistered(kSpec);

}  // namespace
}  // namespace ibcoll
