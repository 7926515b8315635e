/// Broadcast as binomial scatter and allgather by recursive doubling (Thakur, Rabenseifner, Gropp
/// 2005, section 4.3), over any number of servers. For blocks of middle length.
///
/// With 2^m + r servers the last 2r stand in pairs: the first of a pair acts, and passes on to the
/// second what it gets. Part u is that of the actor whose number is u with its bits reversed: so
/// the short messages go far and the long ones near, and links between distant servers, of which
/// networks have fewest, carry little. In step k of the allgather actors whose u differ in bit k
/// exchange what they have; what the scatter has brought does not come again. Steps: 2 m + 1.
/// Messages: 2 m at most. Bytes: in 1 block, out up to 2 blocks (the root, and actors with a pair).
/// Scratch: none.

#include <bit>

#include "engine/algorithms/bcast_cost.h"
#include "engine/algorithms/bcast_parts.h"

namespace ibcoll {
namespace {

/// Which servers act, and for which part.
struct Actors {
  explicit Actors(int places)
      : bits(std::bit_width(static_cast<unsigned>(places)) - 1),
        actors(1 << bits),
        single(2 * actors - places) {}

  int bits, actors;
  int single;  ///< actors without a pair, who come first

  bool acts(int place) const { return place < single || (place - single) % 2 == 0; }
  /// Of an actor: the server it acts for, or -1.
  int pair(int place) const { return place < single ? -1 : place + 1; }
  int place_of(int part) const {
    const int actor = reversed(part);
    return actor < single ? actor : 2 * actor - single;
  }
  int part_of(int place) const {
    return reversed(place < single ? place : single + (place - single) / 2);
  }

 private:
  int reversed(int number) const {
    int result = 0;
    for (int bit = 0; bit < bits; ++bit) result |= (number >> bit & 1) << (bits - 1 - bit);
    return result;
  }
};

/// Of one server that acts.
class Actor {
 public:
  Actor(PartedBcast& bcast, const Actors& actors)
      : bcast_(bcast),
        actors_(actors),
        tree_{actors.actors},
        part_(actors.part_of(bcast.place())) {}

  void scatter() {
    const auto levels = tree_.levels();
    if (part_ == 0) {
      bcast_.hand_out(0, static_cast<uint32_t>(actors_.actors));
    } else {
      bcast_.begin_step(levels - 1 - tree_.level(part_));
      receive(tree_.parent(part_), part_, tree_.end(part_) - part_);
    }
    const std::vector<int> children = tree_.children(part_);
    for (size_t i = children.size(); i-- > 0;) {  // the one with most below it first
      const int child = children[i];
      bcast_.begin_step(levels - 1 - tree_.level(child));
      send(child, child, tree_.end(child) - child);
    }
  }

  void gather() {
    for (int k = 0; k < actors_.bits; ++k) {
      const int other = part_ ^ 1 << k;
      bcast_.begin_step(tree_.levels() + static_cast<uint32_t>(k));
      if (lacks(other, k)) send(other, part_ >> k << k, 1 << k);
      pass_on();
      if (lacks(part_, k)) receive(other, other >> k << k, 1 << k);
    }
    bcast_.begin_step(2 * tree_.levels());
    pass_on();
  }

 private:
  /// Whether the scatter has not brought an actor the parts that are due to it in step k.
  static bool lacks(int part, int k) { return part != 0 && (part & -part) <= 1 << k; }

  void send(int part, int first, int count) {
    bcast_.send(actors_.place_of(part), static_cast<uint32_t>(first), static_cast<uint32_t>(count));
  }
  void receive(int part, int first, int count) {
    pass_on();
    came_ = {static_cast<uint32_t>(first), static_cast<uint32_t>(count)};
    bcast_.receive(actors_.place_of(part), came_.first, came_.second);
    bcast_.hand_out(came_.first, came_.second);
  }
  /// To the other one of the pair what came last; what others wait for is sent before it.
  void pass_on() {
    const int pair = actors_.pair(bcast_.place());
    if (pair >= 0 && came_.second > 0) bcast_.send(pair, came_.first, came_.second);
    came_ = {};
  }

  PartedBcast& bcast_;
  const Actors& actors_;
  const BinomialTree tree_;
  const int part_;
  std::pair<uint32_t, uint32_t> came_{};
};

/// What the server of a pair that does not act receives, in the order of Actor's.
void receive_from_pair(PartedBcast& bcast, const Actors& actors) {
  const int actor = bcast.place() - 1, part = actors.part_of(actor);
  const BinomialTree tree{actors.actors};
  const auto receive = [&](int first, int count) {
    bcast.receive(actor, static_cast<uint32_t>(first), static_cast<uint32_t>(count));
    bcast.hand_out(static_cast<uint32_t>(first), static_cast<uint32_t>(count));
  };
  bcast.begin_step(tree.levels());
  receive(part, tree.end(part) - part);
  for (int k = 0; k < actors.bits; ++k) {
    if ((part & -part) > 1 << k) continue;
    bcast.begin_step(tree.levels() + static_cast<uint32_t>(k) + 1);
    receive((part ^ 1 << k) >> k << k, 1 << k);
  }
}

ProgramPtr build(Collective, const Shape& shape, Rank me, const AlgorithmOptions& options) {
  const Actors actors(shape.servers());
  PartedBcast bcast("scatter_doubling", shape, me, options, static_cast<uint32_t>(actors.actors));
  if (actors.acts(bcast.place())) {
    Actor actor(bcast, actors);
    actor.scatter();
    actor.gather();
  } else {
    receive_from_pair(bcast, actors);
  }
  return bcast.finish();
}

int64_t cost(const Shape& shape, int64_t bytes) {
  const int64_t steps = doubling_steps(shape), servers = shape.servers();
  // Where servers stand in pairs what one gets goes on to the other, beside what it exchanges.
  const bool pairs = !std::has_single_bit(static_cast<unsigned>(servers));
  return 2 * (bytes - bytes / servers) + 2 * steps * kMessageCost +
         pairs * (kMessageCost + bytes / 4);
}

constexpr AlgorithmSpec kSpec{
    .name = "scatter_doubling",
    .collectives = {Collective::kBcast},
    .summary = "each server gets a part, parts double in each step",
    .when = "blocks of middle length",
    .source = "Thakur 2005, section 4.3",
    .relays = true,
    .spread = Spread::kScatterDoubling,
    .cost = cost,
    .pieces = tree_pieces,
    .largest_put = one_slot,
    .build = build,
};
const Registered kRegistered(kSpec);

}  // namespace
}  // namespace ibcoll
