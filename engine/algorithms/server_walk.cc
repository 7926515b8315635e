#include "engine/algorithms/server_walk.h"

#include "engine/algorithms/slots.h"

namespace ibcoll {

void expose_to_all_servers(ProgramBuilder& program) {
  const Shape& shape = program.shape();
  const int mine = shape.server_of(program.me()), servers = shape.servers();
  for (int j = 1; j < servers; ++j) program.expose_to_server((mine - j + servers) % servers);
}

void forward_exposures(ProgramBuilder& program) {
  const Shape& shape = program.shape();
  const int mine = shape.server_of(program.me());
  const int local = shape.local_of(program.me()), size = shape.server_size(mine);
  uint32_t exposures = 0;  // ranks of other servers whose gateway to this server is this rank
  for (int server = 0; server < shape.servers(); ++server) {
    if (server == mine || shape.server_size(server) <= local) continue;
    exposures += (shape.server_size(server) - 1 - local) / size + 1;
  }
  if (exposures > 0) program.forward(exposures);
}

void exchange_inside_server(ProgramBuilder& program) {
  const Shape& shape = program.shape();
  const Rank me = program.me();
  const auto members = shape.members(shape.server_of(me));
  const int local = shape.local_of(me), size = static_cast<int>(members.size());
  program.begin_relaxed();
  for (int k = 1; k < size; ++k) {
    const Rank peer = members[(local + k) % size];
    program.put(peer, send_slot(peer), recv_slot(me));
  }
  program.copy(recv_slot(me), send_slot(me));
  for (int k = 1; k < size; ++k) {
    const Rank peer = members[(local + k) % size];
    program.expect(peer, recv_slot(peer));
  }
  program.end_relaxed();
}

ServerWalk::ServerWalk(ProgramBuilder& program, const AlgorithmOptions& options)
    : program_(program),
      gates_(options.pacing == Pacing::kGate || options.pacing == Pacing::kGateToken),
      tokens_(options.pacing == Pacing::kToken || options.pacing == Pacing::kGateToken),
      servers_(program.shape().servers()),
      mine_(program.shape().server_of(program.me())) {
  if (!tokens_) expose_to_all_servers(program_);
  if (!tokens_ && !gates_) program_.set_window(options.window, /*network_only=*/true);
}

void ServerWalk::enter(int j, uint32_t step) {
  if (gates_ && j > 1) program_.gate_signal(Lane::kSend);
  program_.begin_step(step);
  if (tokens_) {
    program_.hold(Lane::kRecv, Lane::kRecv);
    program_.expose_to_server(from(j));
  }
  if (gates_ && j > 1) program_.gate_wait(j - 1, Lane::kSend);
  if (tokens_) program_.wait_exposed(to(j));
}

}  // namespace ibcoll
