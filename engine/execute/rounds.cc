#include "engine/execute/rounds.h"

namespace ibcoll {
namespace {

/// After so many rounds in a row in which nothing has moved, some milliseconds, peers may wait for
/// room. Waits look at that before they sleep, too.
constexpr uint32_t kIdleRounds = 4096;

}  // namespace

bool Rounds::make() {
  try {
    return make_one();
  } catch (...) {
    // Before the calls that it has under way are gone with its stack.
    services_.end.give_up_if_thread_ends();
    throw;
  }
}

bool Rounds::make_one() {
  const JobEnd& end = services_.end;
  if (end.has_come()) [[unlikely]]
    return false;
  bool moved = services_.network != nullptr && services_.mailroom.poll();
  // Who has died is found out even where other calls go on.
  if (services_.network != nullptr && services_.network->has_suspects()) [[unlikely]]
    health_.check_job();
  calls_.check_deadlines();
  if (services_.ends.busy()) [[unlikely]]
    moved |= calls_.advance_ends();
  if (runs_.are_there()) [[unlikely]]
    moved = runs_.advance(moved);
  moved |= calls_.advance_all();
  if (end.has_come()) [[unlikely]]
    return false;
  LocalTransport& local = services_.local;
  moved |= local.poll();
  idle_rounds_ = moved ? 0 : idle_rounds_ + 1;
  if (idle_rounds_ == kIdleRounds) [[unlikely]] {
    idle_rounds_ = 0;
    moved = local.relieve();
  }
  services_.disagreements.look_at_strays();
  under_way_.moves += static_cast<uint32_t>(moved);
  under_way_.unseen |= moved;
  return moved;
}

bool Rounds::make_before_sleep() {
  services_.patient = false;
  const bool moved = make();
  services_.patient = true;
  return services_.local.relieve() || moved;
}

}  // namespace ibcoll
