#pragma once
/// What broadcasts along a tree of the servers have in common. Inside each server the rank that
/// received the block hands it to all others by shared memory. Every put is a stream: pieces are
/// passed on while later ones arrive, and who is late holds up none but those below it.

#include <vector>

#include "engine/algorithms/registry.h"
#include "engine/algorithms/server_tree.h"
#include "engine/algorithms/slots.h"
#include "engine/schedule/builder.h"

namespace ibcoll {

/// Receives from `parent` (-1: this is the root) in step `received`, and sends to the leaders of
/// `children`, in step sent(child), and to the ranks of its own server in step `last`.
template <class Step>
ProgramPtr pass_on(ProgramBuilder& program, const ServerLine& line, int place, Rank parent,
                   uint32_t received, const std::vector<int>& children, const Step& sent,
                   uint32_t last) {
  const Slice block = parent < 0 ? send_slot(0) : recv_slot(0);
  program.begin_strands();
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

/// What a rank does that is not its server's leader.
inline ProgramPtr receive_locally(ProgramBuilder& program, Rank leader, uint32_t last) {
  program.begin_stream();
  program.begin_step(last);
  program.expect(leader, recv_slot(0));
  program.end_stream();
  return program.finish();
}

}  // namespace ibcoll
