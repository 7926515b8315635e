#pragma once
/// What algorithms that walk the servers as a ring have in common.

#include "engine/schedule/builder.h"

namespace ibcoll {

/// Lets all ranks of all other servers write from the start, those that write first first.
void expose_to_all_servers(ProgramBuilder& program);

/// Passes on the exposures that come to this server through this rank. Written last, since what
/// stands behind it waits.
void forward_exposures(ProgramBuilder& program);

/// The alltoall of the ranks of one server, each block straight to its place.
void exchange_inside_server(ProgramBuilder& program);

/// The walk itself: in outer step j = 1 .. servers - 1 this server sends to to(j) and receives from
/// from(j). Exposures, gates and waits around the steps are what options.pacing asks for
/// (docs/algorithms.md, "Pacing"):
/// - token: a rank exposes to the server it receives from next when its receives of the step before
///   are in, and a sender enters a step when all ranks of the receiving server have: the exposure
///   is the token, so pacing costs no further message;
/// - gate: a rank enters a step when the puts of the step before of all ranks of its server are
///   complete;
/// - free: neither; the steps' window is all there is.
class ServerWalk {
 public:
  ServerWalk(ProgramBuilder& program, const AlgorithmOptions& options);

  int to(int j) const { return (mine_ + j) % servers_; }
  int from(int j) const { return (mine_ - j + servers_) % servers_; }
  /// Comes before the puts and expects of outer step j; these begin at `step`.
  void enter(int j, uint32_t step);
  /// Comes after the last step.
  void leave() { forward_exposures(program_); }

 private:
  ProgramBuilder& program_;
  const bool gates_, tokens_;
  const int servers_, mine_;
};

}  // namespace ibcoll
