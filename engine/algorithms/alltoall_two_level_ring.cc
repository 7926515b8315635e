/// 2-Level Ring alltoall(v) (Naruse et al. 2010, fig. 7), for servers with any numbers of ranks: in
/// step (j, k) local rank a of server s sends to local rank b = a + k of server s + j. Every server
/// sends to one server and receives from one, with all its ranks at once, so that no port of the
/// switch is contended. For servers of n and m ranks k runs to max(n, m) and b is taken modulo
/// that; where there is no rank b the step is idle. Outer step 0, inside the server, goes its own
/// way beside the others.
/// Steps: Ns * (ranks of the largest server). Messages a rank: P - 1 (P - n between servers, and
/// Ns - 1 exposures, which are the tokens). Bytes: P - 1 blocks. Scratch: none.

#include <algorithm>

#include "engine/algorithms/registry.h"
#include "engine/algorithms/server_walk.h"
#include "engine/algorithms/slots.h"

namespace ibcoll {
namespace {

ProgramPtr build(Collective collective, const Shape& shape, Rank me,
                 const AlgorithmOptions& options) {
  ProgramBuilder program(collective, "two_level_ring", shape, me, options);
  const int local = shape.local_of(me), size = shape.server_size(shape.server_of(me));
  exchange_inside_server(program);
  ServerWalk walk(program, options);
  for (int j = 1; j < shape.servers(); ++j) {
    const int to = walk.to(j), from = walk.from(j);
    const int sends = std::max(size, shape.server_size(to));
    const int receives = std::max(size, shape.server_size(from));
    const uint32_t first_step = j * shape.max_server_size();
    walk.enter(j, first_step);
    for (int k = 0; k < std::max(sends, receives); ++k) {
      program.begin_step(first_step + k);
      const int b = (local + k) % sends;
      if (k < sends && b < shape.server_size(to)) {
        const Rank peer = shape.rank_at(to, b);
        program.put(peer, send_slot(peer), recv_slot(me));
      }
      const int a = (local - k % receives + receives) % receives;
      if (k < receives && a < shape.server_size(from)) {
        const Rank peer = shape.rank_at(from, a);
        program.expect(peer, recv_slot(peer));
      }
    }
  }
  walk.leave();
  return program.finish();
}

constexpr AlgorithmSpec kSpec{
    .name = "two_level_ring",
    .collectives = {Collective::kAlltoall, Collective::kAlltoallv, Collective::kAlltoallw},
    .summary = "every server to one server a step, paced",
    .when = "large blocks",
    .source = "Naruse 2010, fig. 7",
    .paced = true,
    .largest_put = one_slot,
    .build = build,
};
const Registered kRegistered(kSpec);

}  // namespace
}  // namespace ibcoll
