/// Broadcasts along a tree of the servers; inside each the rank that received the block hands it to
/// all others by shared memory. Every put is a stream: pieces are passed on while later ones
/// arrive.
///
/// binomial (Thakur, Rabenseifner, Gropp 2005): servers that have the block double in each step.
/// For short blocks. Steps: ceil(log2 Ns) + 1. Messages and bytes: up to ceil(log2 Ns) blocks of
/// the root. Scratch: none.
///
/// chain: each server sends to the next, so that every port sends and receives each piece once. For
/// blocks of many pieces. Steps: Ns. Messages and bytes: 1 block a server. Scratch: none.

#include <algorithm>

#include "engine/algorithms/algorithms.h"
#include "engine/algorithms/server_tree.h"
#include "engine/algorithms/server_walk.h"

namespace ibcoll {

namespace {

/// Receives from `parent` (-1: this is the root) in step `received`, and sends to the leaders of
/// `children`, in step sent(child), and to the ranks of its own server in step `last`.
template <class Step>
ProgramPtr pass_on(ProgramBuilder& program, const ServerLine& line, int place, Rank parent,
                   uint32_t received, const std::vector<int>& children, const Step& sent,
                   uint32_t last) {
  const Slice block = parent < 0 ? send_slot(0) : recv_slot(0);
  program.begin_stream();
  if (parent >= 0) {
    program.begin_step(received);
    program.expect(parent, recv_slot(0));
  }
  for (const int child : children) {
    program.begin_step(sent(child));
    program.put(line.leader(child), block, recv_slot(0));
  }
  program.begin_step(last);
  for (const Rank local : line.ranks(place, place + 1)) {
    if (local != program.me()) program.put(local, block, recv_slot(0));
  }
  program.end_stream();
  return program.finish();
}

ProgramPtr receive_locally(ProgramBuilder& program, Rank leader, uint32_t last) {
  program.begin_stream();
  program.begin_step(last);
  program.expect(leader, recv_slot(0));
  program.end_stream();
  return program.finish();
}

}  // namespace

ProgramPtr bcast_binomial(const Shape& shape, Rank me, const AlgorithmOptions& options) {
  ProgramBuilder program(Collective::kBcast, "binomial", shape, me, options);
  const ServerLine line(shape, options.root);
  const BinomialTree tree{line.places()};
  const int place = line.place_of(shape.server_of(me));
  const uint32_t levels = tree.levels();
  const auto step = [&](int child) { return levels - 1 - tree.level(child); };
  if (me != line.leader(place)) return receive_locally(program, line.leader(place), levels);
  std::vector<int> children = tree.children(place);
  std::reverse(children.begin(), children.end());  // the one with most below it first
  return pass_on(program, line, place, place == 0 ? -1 : line.leader(tree.parent(place)),
                 place == 0 ? 0 : step(place), children, step, levels);
}

ProgramPtr bcast_chain(const Shape& shape, Rank me, const AlgorithmOptions& options) {
  ProgramBuilder program(Collective::kBcast, "chain", shape, me, options);
  const ServerLine line(shape, options.root);
  const int place = line.place_of(shape.server_of(me)), places = line.places();
  const auto step = [](int child) { return static_cast<uint32_t>(child - 1); };
  const auto last = static_cast<uint32_t>(places - 1);
  if (me != line.leader(place)) return receive_locally(program, line.leader(place), last);
  std::vector<int> children;
  if (place + 1 < places) children.push_back(place + 1);
  return pass_on(program, line, place, place == 0 ? -1 : line.leader(place - 1),
                 place == 0 ? 0 : step(place), children, step, last);
}

}  // namespace ibcoll
