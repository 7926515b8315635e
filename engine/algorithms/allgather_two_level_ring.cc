/// Two-level ring allgather(v): blocks run along the servers (the ring of Thakur, Rabenseifner,
/// Gropp 2005, section 4.1), and all ranks of a server receive and send them side by side; what a
/// rank has received the others of its server read from it. So a server's ports and processors all
/// carry their part, each block comes into a server once, and there are as many steps as servers.
/// Each step is a stream.
///
/// Blocks are numbered by (server, local rank): where servers have as many ranks each rank passes
/// on those of its counterparts; else number q goes through local rank q modulo the server's size.
/// Steps: Ns. Messages and bytes: (P - n) / n blocks a rank. Scratch: none.

#include <vector>

#include "engine/algorithms/local_trade.h"
#include "engine/algorithms/registry.h"
#include "engine/algorithms/slots.h"
#include "engine/schedule/builder.h"

namespace ibcoll {
namespace {

class TwoLevelRing {
 public:
  TwoLevelRing(Collective collective, const Shape& shape, Rank me, const AlgorithmOptions& options)
      : program_(collective, "two_level_ring", shape, me, options),
        shape_(shape),
        me_(me),
        server_(shape.server_of(me)),
        servers_(shape.servers()) {
    first_.push_back(0);
    for (int server = 0; server < servers_; ++server) {
      first_.push_back(first_.back() + static_cast<size_t>(shape.server_size(server)));
    }
  }

  ProgramPtr build() {
    for (int step = 0; step < servers_; ++step) {
      program_.begin_step(static_cast<uint32_t>(step));
      if (step + 1 < servers_) pass_on(step);
      program_.begin_stream();
      hand_out(step);
      program_.end_stream();
    }
    program_.copy(recv_slot(me_), send_slot(0));
    return program_.finish();
  }

 private:
  using Ranks = std::vector<Rank>;

  int at(int distance) const { return (server_ + distance + servers_) % servers_; }

  /// Who receives the block of rank `origin` for a server, and sends it on.
  Rank carrier(int server, Rank origin) const {
    const int home = shape_.server_of(origin);
    if (home == server) return origin;
    const size_t number =
        first_[static_cast<size_t>(home)] + static_cast<size_t>(shape_.local_of(origin));
    return shape_.rank_at(server, static_cast<int>(number) % shape_.server_size(server));
  }
  /// The blocks of a server's ranks that one rank carries.
  Ranks carried(Rank rank, int home) const {
    Ranks result;
    for (const Rank origin : shape_.members(home)) {
      if (carrier(shape_.server_of(rank), origin) == rank) result.push_back(origin);
    }
    return result;
  }
  Slice source(Rank origin) const { return origin == me_ ? send_slot(0) : recv_slot(origin); }

  /// In step i servers send what is of the server i before them. A stream has one put to a rank:
  /// where blocks differ in size, places are told in the order of operations.
  void pass_on(int step) {
    const Ranks go = carried(me_, at(-step)), come = carried(me_, at(-step - 1));
    for (size_t i = 0; i < go.size() || i < come.size(); ++i) {
      program_.begin_stream();
      if (i < go.size()) program_.put(carrier(at(1), go[i]), source(go[i]), recv_slot(go[i]));
      if (i < come.size()) program_.expect(carrier(at(-1), come[i]), recv_slot(come[i]));
      program_.end_stream();
    }
  }

  /// What has come in the step before, at first what ranks have themselves.
  void hand_out(int step) {
    const int home = at(-step);
    const Ranks mine = carried(me_, home);
    Ranks theirs;
    trade_locally(
        shape_, me_, [&](Rank) { return mine.size(); },
        [&](Rank from) {
          theirs = carried(from, home);
          return theirs.size();
        },
        [&](Rank to, size_t i) { program_.put(to, source(mine[i]), recv_slot(mine[i])); },
        [&](Rank from, size_t i) { program_.expect(from, recv_slot(theirs[i])); });
  }

  ProgramBuilder program_;
  const Shape& shape_;
  const Rank me_;
  const int server_, servers_;
  std::vector<size_t> first_;  ///< by server: the number of its first block
};

ProgramPtr build(Collective collective, const Shape& shape, Rank me,
                 const AlgorithmOptions& options) {
  return TwoLevelRing(collective, shape, me, options).build();
}

constexpr AlgorithmSpec kSpec{
    .name = "two_level_ring",
    .collectives = {Collective::kAllgather, Collective::kAllgatherv},
    .summary = "blocks run along the servers, through all ranks of each at once",
    .when = "several servers of several ranks; long blocks",
    .source = "here; Thakur 2005, section 4.1",
    .relays = true,
    .largest_put = one_slot,
    .build = build,
};
const Registered kRegistered(kSpec);

}  // namespace
}  // namespace ibcoll
