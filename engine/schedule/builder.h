#pragma once
/// How algorithms write programs.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/schedule/program.h"

namespace ibcoll {

/// Writes the program of one rank. Order of data is derived: an operation comes after whatever
/// wrote what it reads, and after whatever still reads or writes what it overwrites. Order in time
/// is the caller's: steps with a window, waits, gates.
///
/// An operation goes to the lane its peer implies: kLocal inside the server, else kSend (put,
/// signal) or kRecv (expect, expose, wait). Costs time and memory in proportion to the operations
/// written and the slots they name.
class ProgramBuilder {
 public:
  ProgramBuilder(Collective collective, std::string algorithm, const Shape& shape, Rank me,
                 const AlgorithmOptions& options);
  ~ProgramBuilder();

  const Shape& shape() const { return *shape_; }
  Rank me() const { return program_.me; }

  /// Operations that follow belong to `step` (not smaller than the one before). With a window w >
  /// 0, nothing of a step starts before all of this rank's operations of the steps up to `step - w`
  /// are complete.
  void begin_step(uint32_t step);
  /// Steps in flight from here on; 0 (the default) lifts the limit. `network_only`: only kSend and
  /// kRecv are held back, and only by each other; the server's own exchange goes its own way.
  void set_window(uint32_t window, bool network_only = false);

  /// What follows in `lane` starts only when everything written so far in lane `of` is complete.
  void hold(Lane lane, Lane of);

  /// Operations written until end_relaxed() may be carried out in any order inside their lane:
  /// first come, first served. Puts to one peer, and expects from one peer, keep their order.
  void begin_relaxed();
  void end_relaxed();

  /// Cuts each block into so many slots (RankProgram::cut). Comes before all
  /// operations.
  void cut_block(uint32_t slots);

  /// New scratch slots for these blocks, side by side.
  Slice add_scratch(std::span<const Block> blocks);

  void copy(Slice dst, Slice src);
  /// How data is combined: see Op::ordered and Op::before.
  struct Fold {
    bool ordered = false, before = false;
  };
  /// Combines `src` into `dst`, which has been written.
  void reduce(Slice dst, Slice src, Fold fold);
  /// Puts `src` of this rank into `dst` of another. The n-th put to a peer is what its n-th expect
  /// of this rank receives: both name the same place, number of slots, step and exposure, and both
  /// are in a stream or neither is. A put to a rank of another server starts when that rank has
  /// exposed its buffers; one to a rank of this server when that has taken the put before, so the
  /// order of its puts and expects inside the server must be free of cycles even if each waits for
  /// the one before. Where blocks do not lie side by side (lies_side_by_side()), slots of the
  /// user's buffers are put one by one; and where lengths or places have to be told (is_unequal(),
  /// has_graph(), RankProgram::has_uneven_slots()), a stream has one put to each peer.
  void put(Rank peer, Slice src, Slice dst, uint8_t exposure = 0);
  /// The same where it is the peer's to say to which place (has_graph()).
  void put(Rank peer, Slice src) { put(peer, src, {}); }
  /// The next put of rank `peer` lands in `dst` of this rank; see put() for what must match.
  void expect(Rank peer, Slice dst, uint8_t exposure = 0);

  /// The same of a peer of this server: combined into `dst`, which has been written.
  void expect_combined(Rank peer, Slice dst, Fold fold);

  /// Let rank `peer` of another server write from now on. Ranks that are expected but never exposed
  /// to, neither directly nor with their server, get their exposure at the start of the program.
  void expose(Rank peer);
  /// Let all ranks of another server write from now on: one message, to the server's gateway for
  /// this rank.
  void expose_to_server(int server);
  /// Stay until `exposures` of other servers' ranks to this server have come through this rank and
  /// are passed on. A program in which anyone exposes to this server as a whole needs it; gateway()
  /// says through whom.
  void forward(uint32_t exposures);
  /// Hold back what is sent next until every rank of `server` has exposed to this server `times`
  /// times.
  void wait_exposed(int server, uint32_t times = 1);

  /// Send a token to `peer`.
  void signal(Rank peer);
  /// Send a token to `peer` of another server once all that was expected so far of other servers is
  /// there; in a stream, as soon as all but `left` parts of TransferPlan::kParts of it are.
  void signal_arrival(Rank peer, uint32_t left);
  /// Wait for the next token of `peer`; what follows in the lane (by default the one its peer
  /// implies) is held back.
  void wait(Rank peer);
  void wait(Rank peer, Lane lane);

  /// Pass a gate once everything written so far in lane `of` is complete.
  void gate_signal(Lane of);
  /// Hold lane `lane` back until every rank of this server has passed `gates` gates.
  void gate_wait(uint32_t gates, Lane lane);

  /// What is written until end_stream() is, lane by lane, carried out piece by piece (see Stream).
  void begin_stream();
  /// The same, and puts to different peers don't wait for each other. `once`: nothing is cut into
  /// pieces, that only.
  void begin_strands(bool once = false);
  void end_stream();
  /// Of two pieces the last one has so many parts of TransferPlan::kParts; 0: as many as the first.
  void set_last_part(uint32_t parts) { program_.last_part = parts; }

  /// Derives what is still open and gives the program; the builder is empty afterwards. Slices out
  /// of bounds and other misuse are programming errors of the algorithm: the verifier reports them.
  std::shared_ptr<const RankProgram> finish();

  /// What writing this program took of memory at its peak, in bytes beside the program itself.
  static size_t bytes_beside(const RankProgram& program, const Shape& shape);

 private:
  struct State;
  static constexpr int32_t kNoPeer = -1;
  Op& add(OpKind kind, int32_t peer = kNoPeer);
  Op& add(OpKind kind, int32_t peer, Lane lane);
  Lane lane_of(OpKind kind, int32_t peer) const;
  void join_run(Op& op);
  void read(Op& op, Slice slice);
  void write(Op& op, Slice slice);
  void rewrite(Op& op, Slice slice);
  void expose_all_expected();
  const Shape* shape_;
  RankProgram program_;
  std::unique_ptr<State> state_;
};

}  // namespace ibcoll
