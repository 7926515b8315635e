/// Dissemination barrier (Hensgen, Finkel, Manber 1988) of servers, with all ranks of a server at
/// work: in round i local rank l tells the server (l + 1) d after its own and hears from the one
/// (l + 1) d before it, where d = (n + 1)^i and n is the number of ranks of the smallest server.
/// Gates inside the server join what its ranks have heard. Rounds are log(n + 1) of the servers
/// instead of log 2: two instead of five for 24 servers of 8.
/// Steps: ceil(log_{n+1} Ns), and one gate more. Messages a rank: one token a step at most.

#include "engine/algorithms/registry.h"
#include "engine/schedule/builder.h"

namespace ibcoll {
namespace {

ProgramPtr build(Collective, const Shape& shape, Rank me, const AlgorithmOptions& options) {
  ProgramBuilder program(Collective::kBarrier, "dissemination", shape, me, options);
  const int servers = shape.servers(), mine = shape.server_of(me), local = shape.local_of(me);
  int senders = shape.max_server_size();
  for (int server = 0; server < servers; ++server) {
    senders = std::min(senders, shape.server_size(server));
  }
  uint32_t round = 0;
  for (int64_t d = 1; d < servers; d *= senders + 1) {
    program.gate_signal(Lane::kRecv);
    program.gate_wait(++round, Lane::kSend);
    const int64_t distance = (local + 1) * d;
    if (local < senders && distance < servers) {
      const int shift = static_cast<int>(distance);
      program.signal(shape.rank_at((mine + shift) % servers, local));
      program.wait(shape.rank_at((mine - shift + servers) % servers, local));
    }
    program.begin_step(round);
  }
  const Lane last = servers == 1 ? Lane::kLocal : Lane::kRecv;
  program.gate_signal(last);
  program.gate_wait(round + 1, last);
  return program.finish();
}

constexpr AlgorithmSpec kSpec{
    .name = "dissemination",
    .collectives = {Collective::kBarrier},
    .summary = "servers tell each other in log(n+1) rounds, all local ranks at work",
    .when = "always",
    .source = "Hensgen 1988",
    .build = build,
};
const Registered kRegistered(kSpec);

}  // namespace
}  // namespace ibcoll
