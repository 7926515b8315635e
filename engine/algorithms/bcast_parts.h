#pragma once
/// What broadcasts that cut the block have in common: parts of it travel between the leaders of
/// servers in different ways, and each leader hands them to the ranks of its server.

#include <string>

#include "engine/algorithms/registry.h"
#include "engine/algorithms/server_tree.h"

namespace ibcoll {

/// Writes the program of one rank from what its server's leader does. Of that a rank that is no
/// leader takes part in hand_out() only, so the same calls write its program. A leader's puts to
/// different ranks don't wait for each other.
class PartedBcast {
 public:
  /// The block is cut into `cut` slots.
  PartedBcast(std::string name, const Shape& shape, Rank me, const AlgorithmOptions& options,
              uint32_t cut)
      : program_(Collective::kBcast, std::move(name), shape, me, options),
        line_(shape, options.root),
        place_(line_.place_of(shape.server_of(me))),
        leads_(me == line_.leader(place_)),
        cut_(cut) {
    program_.cut_block(cut);
    if (leads_) program_.begin_strands(true);
  }

  /// Of servers, counted from the root's on.
  int places() const { return line_.places(); }
  int place_of(int server) const { return line_.place_of(server); }
  /// Of this rank's server.
  int place() const { return place_; }

  void begin_step(uint32_t step) { program_.begin_step(step); }
  /// Of `count` slots from `first` on, modulo the cut: to and from the leader at a place.
  void send(int place, uint32_t first, uint32_t count) {
    for_each_slice(first, count, [&](Slice slots) {
      if (leads_) program_.put(line_.leader(place), mine(slots), slots);
    });
  }
  void receive(int place, uint32_t first, uint32_t count) {
    for_each_slice(first, count, [&](Slice slots) {
      if (leads_) program_.expect(line_.leader(place), slots);
    });
  }
  /// From the leader to the other ranks of its server, once it has them.
  void hand_out(uint32_t first, uint32_t count) {
    for_each_slice(first, count, [&](Slice slots) {
      if (!leads_) return program_.expect(line_.leader(place_), slots);
      for (const Rank local : program_.shape().members(line_.server_at(place_))) {
        if (local != program_.me()) program_.put(local, mine(slots), slots);
      }
    });
  }
  ProgramPtr finish() {
    if (leads_) program_.end_stream();
    return program_.finish();
  }

 private:
  template <class Visit>
  void for_each_slice(uint32_t first, uint32_t count, Visit visit) {
    if (count == 0) return;
    first %= cut_;
    const uint32_t until_end = std::min(count, cut_ - first);
    visit(Slice{Buffer::kRecv, first, until_end});
    if (until_end < count) visit(Slice{Buffer::kRecv, 0, count - until_end});
  }
  Slice mine(Slice slots) const {
    return {place_ == 0 ? Buffer::kSend : Buffer::kRecv, slots.first, slots.count};
  }

  ProgramBuilder program_;
  const ServerLine line_;
  const int place_;
  const bool leads_;
  const uint32_t cut_;
};

/// Slots of a place's subtree that the binomial scatter brings it: its own and those below it, slot
/// v being that of place v; the root has all.
inline uint32_t scattered(const BinomialTree& tree, int place) {
  return static_cast<uint32_t>(tree.end(place) - place);
}

/// The binomial scatter of as many slots as there are places, in the tree's levels as steps from 0.
inline void scatter_parts(PartedBcast& bcast, const BinomialTree& tree) {
  const int place = bcast.place();
  const uint32_t levels = tree.levels();
  const auto own = static_cast<uint32_t>(place);
  if (place == 0) {
    bcast.hand_out(0, static_cast<uint32_t>(tree.places));
  } else {
    bcast.begin_step(levels - 1 - tree.level(place));
    bcast.receive(tree.parent(place), own, scattered(tree, place));
    bcast.hand_out(own, scattered(tree, place));
  }
  const std::vector<int> children = tree.children(place);
  for (size_t i = children.size(); i-- > 0;) {  // the one with most below it first
    const int child = children[i];
    bcast.begin_step(levels - 1 - tree.level(child));
    bcast.send(child, static_cast<uint32_t>(child), scattered(tree, child));
  }
}

}  // namespace ibcoll
